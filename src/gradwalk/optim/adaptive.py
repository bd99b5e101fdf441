"""Optimizers that scale each step by past gradients: Adagrad, Adadelta, RMSprop, Rprop."""

from __future__ import annotations

from dataclasses import KW_ONLY
from dataclasses import InitVar as Option
from typing import Any, ClassVar

import numpy as np

from gradwalk.nn.constructors import declared
from gradwalk.optim.optimizer import Group, PerParameter, follow, new_state
from gradwalk.tensors.tensor import Tensor


@declared
class Adagrad(PerParameter):
    """Steps divided by the root of the sum of all squared gradients so far.

    >>> import gradwalk as gw
    >>> w = gw.tensor([1.0], requires_grad=True)
    >>> (w * w).sum().backward()
    >>> gw.optim.Adagrad([w], lr=0.1).step()
    >>> w
    tensor([0.9000], requires_grad=True)
    """

    lr: Option[float] = 1e-2
    lr_decay: Option[float] = 0
    weight_decay: Option[float] = 0
    initial_accumulator_value: Option[float] = 0
    eps: Option[float] = 1e-10
    _: KW_ONLY
    fused: Option[bool | None] = None

    def _construct(self, **options: Any) -> None:
        if not options["initial_accumulator_value"] >= 0:
            raise ValueError("initial_accumulator_value must not be negative")
        super()._construct(**options)
        for group in self.param_groups:  # PyTorch makes this state at once, so state_dict has it
            for p in group["params"]:
                self.state[p] = self.fresh_state(p, group)

    def fresh_state(self, parameter: Tensor, group: Group) -> dict[str, Any]:
        """No steps, and the initial sum."""
        return {"step": 0, "sum": new_state(parameter, group["initial_accumulator_value"])}

    def move(self, parameter: Any, gradient: Any, state: dict[str, Any], group: Group) -> None:
        """sum += gradient²; p −= lr × gradient / (√sum + eps)."""
        total = state["sum"]._array
        scratch = np.empty_like(parameter)
        total += np.multiply(gradient, gradient, out=scratch)
        np.sqrt(total, out=scratch)
        scratch += group["eps"]
        np.divide(gradient, scratch, out=scratch)
        scratch *= group["lr"] / (1 + (state["step"] - 1) * group["lr_decay"])
        parameter -= scratch


@declared
class Adadelta(PerParameter):
    """Steps scaled by (recent step sizes) / (recent gradient sizes), so that units agree.

    >>> import gradwalk as gw
    >>> w = gw.tensor([1.0], requires_grad=True)
    >>> (w * w).sum().backward()
    >>> gw.optim.Adadelta([w]).step()
    >>> bool(w < 1)
    True
    """

    _zeros: ClassVar = {
        "square_avg": None,
        "acc_delta": None,
    }  # means of squared gradients and steps
    lr: Option[float] = 1.0
    rho: Option[float] = 0.9
    eps: Option[float] = 1e-6
    weight_decay: Option[float] = 0
    _: KW_ONLY
    capturable: Option[bool] = False

    def move(self, parameter: Any, gradient: Any, state: dict[str, Any], group: Group) -> None:
        """One step, in place."""
        rho, eps = group["rho"], group["eps"]
        squares, moves = state["square_avg"]._array, state["acc_delta"]._array
        scratch, delta = np.empty_like(parameter), np.empty_like(parameter)
        follow(squares, gradient, rho, scratch)
        np.sqrt(np.add(squares, eps, out=scratch), out=scratch)
        np.sqrt(np.add(moves, eps, out=delta), out=delta)
        delta /= scratch
        delta *= gradient
        follow(moves, delta, rho, scratch)
        delta *= group["lr"]
        parameter -= delta


@declared
class RMSprop(PerParameter):
    """Steps divided by the root of a running mean of squared gradients.

    >>> import gradwalk as gw
    >>> w = gw.tensor([1.0], requires_grad=True)
    >>> (w * w).sum().backward()
    >>> gw.optim.RMSprop([w], lr=0.01).step()
    >>> w
    tensor([0.9000], requires_grad=True)
    """

    _zeros: ClassVar = {"square_avg": None, "momentum_buffer": "momentum", "grad_avg": "centered"}
    lr: Option[float] = 1e-2
    alpha: Option[float] = 0.99
    eps: Option[float] = 1e-8
    weight_decay: Option[float] = 0
    momentum: Option[float] = 0
    centered: Option[bool] = False
    _: KW_ONLY
    capturable: Option[bool] = False

    def move(self, parameter: Any, gradient: Any, state: dict[str, Any], group: Group) -> None:
        """One step, in place."""
        alpha, momentum = group["alpha"], group["momentum"]
        squares = state["square_avg"]._array
        scratch = np.empty_like(parameter)
        follow(squares, gradient, alpha, scratch)
        if group["centered"]:  # the variance instead of the mean square
            mean = state["grad_avg"]._array
            mean *= alpha
            mean += np.multiply(gradient, 1 - alpha, out=scratch)
            np.multiply(mean, mean, out=scratch)
            np.subtract(squares, scratch, out=scratch)
            np.sqrt(scratch, out=scratch)
        else:
            np.sqrt(squares, out=scratch)
        scratch += group["eps"]
        np.divide(gradient, scratch, out=scratch)
        if momentum > 0:
            buffer = state["momentum_buffer"]._array
            buffer *= momentum
            buffer += scratch
            np.multiply(buffer, group["lr"], out=scratch)
        else:
            scratch *= group["lr"]
        parameter -= scratch


@declared
class Rprop(PerParameter):
    """Steps of each element's own size, which grows while its gradient keeps its sign.

    >>> import gradwalk as gw
    >>> w = gw.tensor([1.0], requires_grad=True)
    >>> (w * w).sum().backward()
    >>> gw.optim.Rprop([w], lr=0.1).step()
    >>> w
    tensor([0.9000], requires_grad=True)
    """

    lr: Option[float] = 1e-2
    etas: Option[tuple[float, float]] = (0.5, 1.2)  # factors of a step that turned, and did not
    step_sizes: Option[tuple[float, float]] = (1e-6, 50)  # the smallest and the largest
    _: KW_ONLY
    capturable: Option[bool] = False

    def _construct(self, **options: Any) -> None:
        down, up = options["etas"]
        if not 0 < down < 1 < up:
            raise ValueError(f"etas are below and above 1, not {options['etas']}")
        super()._construct(**options)

    def fresh_state(self, parameter: Tensor, group: Group) -> dict[str, Any]:
        """No steps, no gradient, and the first size of a step."""
        size = new_state(parameter, group["lr"])
        return {"step": 0, "prev": new_state(parameter), "step_size": size}

    def move(self, parameter: Any, gradient: Any, state: dict[str, Any], group: Group) -> None:
        """One step, in place; an element whose gradient turned waits."""
        before, sizes = state["prev"]._array, state["step_size"]._array
        (down, up), (least, most) = group["etas"], group["step_sizes"]
        turn = gradient * before
        sizes *= np.where(turn > 0, up, np.where(turn < 0, down, 1.0)).astype(sizes.dtype)
        np.minimum(np.maximum(sizes, least), most, out=sizes)
        before[...] = np.where(turn < 0, 0.0, gradient)
        parameter -= np.sign(before) * sizes
