"""Stochastic gradient descent."""

from __future__ import annotations

from dataclasses import KW_ONLY
from dataclasses import InitVar as Option
from typing import Any

from gradwalk.graph.abstract import own_copy
from gradwalk.nn.constructors import declared
from gradwalk.optim.optimizer import Group, PerParameter, descent
from gradwalk.tensors.apply import wrap
from gradwalk.tensors.tensor import Tensor


@declared
class SGD(PerParameter):
    """Gradient descent: p −= lr × gradient, or with momentum p −= lr × (running sum of gradients).

    >>> import gradwalk as gw
    >>> w = gw.tensor([1.0], requires_grad=True)
    >>> (w * w).sum().backward()
    >>> gw.optim.SGD([w], lr=0.25).step()
    >>> w
    tensor([0.5000], requires_grad=True)
    """

    lr: Option[float] = 1e-3
    momentum: Option[float] = 0
    dampening: Option[float] = 0
    weight_decay: Option[float] = 0
    nesterov: Option[bool] = False
    _: KW_ONLY
    fused: Option[bool | None] = None

    def _construct(self, **options: Any) -> None:
        if options["nesterov"] and (options["momentum"] <= 0 or options["dampening"] != 0):
            raise ValueError("nesterov needs momentum, and no dampening")
        super()._construct(**options)

    def fresh_state(self, parameter: Tensor, group: Group) -> dict[str, Any]:
        """Nothing: the momentum begins with the first gradient."""
        return {}

    def update(self, parameters: list[Tensor], group: Group) -> None:
        """p −= lr × direction."""
        lr, momentum = group["lr"], group["momentum"]
        for p in parameters:
            parameter: Any = p._array
            given: Any = p._grad._array  # type: ignore[union-attr]
            gradient = descent(parameter, given, group)
            if momentum:
                state = self.state.setdefault(p, {})
                buffer = state.get("momentum_buffer")
                if buffer is None:
                    state["momentum_buffer"] = buffer = wrap(own_copy(gradient))
                else:
                    running = buffer._array
                    running *= momentum
                    damping = group["dampening"]
                    running += gradient * (1 - damping) if damping else gradient
                if group["nesterov"]:
                    gradient = gradient + buffer._array * momentum
                else:
                    gradient = buffer._array
            parameter -= gradient * lr
