"""Stochastic gradient descent."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from gradwalk.graph.abstract import own_copy
from gradwalk.optim.optimizer import FUSED, Group, Optimizer, descent
from gradwalk.tensors.apply import wrap
from gradwalk.tensors.tensor import Tensor


class SGD(Optimizer):
    """Gradient descent: p −= lr × gradient, or with momentum p −= lr × (running sum of gradients).

    >>> import gradwalk as gw
    >>> w = gw.tensor([1.0], requires_grad=True)
    >>> (w * w).sum().backward()
    >>> gw.optim.SGD([w], lr=0.25).step()
    >>> w
    tensor([0.5000], requires_grad=True)
    """

    _without_meaning = FUSED

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-3,
        momentum: float = 0,
        dampening: float = 0,
        weight_decay: float = 0,
        nesterov: bool = False,
        *,
        maximize: bool = False,
        **unused: Any,
    ) -> None:
        if nesterov and (momentum <= 0 or dampening != 0):
            raise ValueError("nesterov needs momentum, and no dampening")
        defaults = dict(
            lr=lr, momentum=momentum, dampening=dampening, weight_decay=weight_decay,
            nesterov=nesterov, maximize=maximize,
        )  # fmt: skip
        super().__init__(params, defaults, unused)

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
