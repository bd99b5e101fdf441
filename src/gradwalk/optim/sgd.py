"""Stochastic gradient descent, and its average."""

from __future__ import annotations

from dataclasses import KW_ONLY
from dataclasses import InitVar as Option
from typing import Any, ClassVar

import numpy as np

from gradwalk.graph.abstract import own_copy
from gradwalk.nn.constructors import declared
from gradwalk.optim.optimizer import Group, PerParameter, decayed, descent
from gradwalk.tensors.apply import wrap
from gradwalk.tensors.single_calls import StridedCall
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
        lr, momentum, nesterov = group["lr"], group["momentum"], group["nesterov"]
        rest = 1 - group["dampening"] if group["dampening"] else None
        together: dict[Any, list[Any]] | None = None  # by dtype
        if _moves.is_large([p._array for p in parameters]):
            together = {}
        for p in parameters:
            parameter: Any = p._array
            gradient: Any = p._grad._array  # type: ignore[union-attr]
            running = None
            if momentum:
                state = self.state.setdefault(p, {})
                buffer = state.get("momentum_buffer")
                if buffer is None:
                    gradient = descent(parameter, gradient, group)
                    state["momentum_buffer"] = buffer = wrap(own_copy(gradient))
                    if nesterov:
                        gradient = gradient + buffer._array * momentum
                    parameter -= gradient * lr
                    continue
                running = buffer._array
            if together is None:
                gradient = descent(parameter, gradient, group)
                _move(parameter, gradient, running, lr, momentum, rest, nesterov)
                continue
            arrays = together.setdefault(parameter.dtype, [])
            arrays += (parameter, gradient) if running is None else (parameter, gradient, running)
        for dtype, arrays in (together or {}).items():
            decay = group["weight_decay"]
            _moves(
                np.array([lr, momentum, rest or 1, decay], dtype),
                *arrays,
                options=(bool(momentum), rest is not None, bool(decay)),
                nesterov=nesterov,
                maximize=group["maximize"],
            )


def _move(
    parameter: Any, gradient: Any, running: Any, lr: Any, momentum: Any, rest: Any, nesterov: bool
) -> None:
    """One step in place; `running` is the momentum, and `rest` is 1 − dampening."""
    if running is not None:
        running *= momentum
        running += gradient if rest is None else gradient * rest
        gradient = gradient + running * momentum if nesterov else running
    parameter -= gradient * lr


@StridedCall
def _moves(
    numbers: Any, *arrays: Any, options: tuple[bool, bool, bool], nesterov: bool, maximize: bool
) -> None:
    """One step of many parameters: for each it, its gradient and its momentum. The numbers may
    change from step to step, and need no new kernel; `options` says which of them are used."""
    lr, momentum, rest, decay = (numbers[i] for i in range(4))
    runs, damps, decays = options
    each = 3 if runs else 2
    for i in range(0, len(arrays), each):
        parameter, gradient, *running = arrays[i : i + each]
        if maximize:
            gradient = np.negative(gradient)
        if decays:
            gradient = decayed(parameter, gradient, decay)
        _move(
            parameter, gradient, running[0] if runs else None,
            lr, momentum, rest if damps else None, nesterov,
        )  # fmt: skip


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
