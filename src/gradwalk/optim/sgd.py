"""Stochastic gradient descent, and its average."""

from __future__ import annotations

from dataclasses import KW_ONLY
from dataclasses import InitVar as Option
from typing import Any, ClassVar

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


@declared
class ASGD(PerParameter):
    """Gradient descent whose mean over the steps is kept: `state[p]["ax"]`.

    >>> import gradwalk as gw
    >>> w = gw.tensor([1.0], requires_grad=True)
    >>> (w * w).sum().backward()
    >>> gw.optim.ASGD([w], lr=0.25).step()
    >>> w
    tensor([0.5000], requires_grad=True)
    """

    _zeros: ClassVar = {"ax": None}
    lr: Option[float] = 1e-2
    lambd: Option[float] = 1e-4
    alpha: Option[float] = 0.75
    t0: Option[float] = 1e6
    weight_decay: Option[float] = 0
    _: KW_ONLY
    capturable: Option[bool] = False

    def fresh_state(self, parameter: Tensor, group: Group) -> dict[str, Any]:
        """No steps, the first rate, and the weight of the next parameter in the mean."""
        return {"eta": group["lr"], "mu": 1.0} | super().fresh_state(parameter, group)

    def move(self, parameter: Any, gradient: Any, state: dict[str, Any], group: Group) -> None:
        """One step, in place."""
        step, eta, mean = state["step"], state["eta"], state["ax"]._array
        parameter *= 1 - group["lambd"] * eta
        parameter -= gradient * eta
        if step - 1 - group["t0"] > 1:  # before, the mean is the last parameter
            mean += (parameter - mean) * state["mu"]
        else:
            mean[...] = parameter
        state["eta"] = group["lr"] / (1 + group["lambd"] * group["lr"] * step) ** group["alpha"]
        state["mu"] = 1 / max(1, step - group["t0"])
