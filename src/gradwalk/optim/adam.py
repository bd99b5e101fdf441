"""Adam and its variants: AdamW, Adamax, NAdam, RAdam."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import KW_ONLY
from dataclasses import InitVar as Option
from typing import Any, ClassVar

import numpy as np

from gradwalk.nn.constructors import declared
from gradwalk.optim.optimizer import Group, Optimizer, PerParameter, decayed, descent, follow
from gradwalk.tensors.single_calls import StridedCall
from gradwalk.tensors.tensor import Tensor


@declared
class _TwoMoments(PerParameter):
    _zeros: ClassVar = {"exp_avg": None, "exp_avg_sq": None}
    lr: Option[float] = 1e-3
    betas: Option[tuple[float, float]] = (0.9, 0.999)
    eps: Option[float] = 1e-8
    weight_decay: Option[float] = 0
    _: KW_ONLY
    capturable: Option[bool] = False


@declared
class Adam(_TwoMoments):
    """Adam: steps of about lr in every direction, however large the gradients are.

    m and v are running means of the gradient and its square; each is divided by 1 − βᵗ to undo
    its start at zero. p −= lr × m / (√v + eps).

    >>> import gradwalk as gw
    >>> w = gw.tensor([1.0, -100.0], requires_grad=True)
    >>> (w * w).sum().backward()
    >>> gw.optim.Adam([w], lr=0.5).step()
    >>> w
    tensor([  0.5000, -99.5000], requires_grad=True)
    """

    _zeros: ClassVar = {"exp_avg": None, "exp_avg_sq": None, "max_exp_avg_sq": "amsgrad"}
    amsgrad: Option[bool] = False
    _: KW_ONLY
    fused: Option[bool | None] = None
    decoupled_weight_decay: Option[bool] = False

    def update(self, parameters: list[Tensor], group: Group) -> None:
        """One step of each parameter, in place."""
        beta1, beta2 = group["betas"]
        rates = (beta1, 1 - beta1, beta2, 1 - beta2)
        lr, eps, decay = group["lr"], group["eps"], group["weight_decay"]
        amsgrad = bool(group["amsgrad"])
        shrink = 1 - lr * decay if decay and group["decoupled_weight_decay"] else None
        plain = not group["maximize"] and (not decay or shrink is not None)
        together: dict[Any, list[Any]] | None = None
        if _moves.is_large([p._array for p in parameters]):
            together = {}  # by the number of the step and the dtype
        counted = None
        for p in parameters:
            parameter: Any = p._array
            gradient: Any = p._grad._array  # type: ignore[union-attr]
            state = self.state_of(p, group)
            state["step"] = step = state["step"] + 1
            m, v = state["exp_avg"]._array, state["exp_avg_sq"]._array
            highest = state["max_exp_avg_sq"]._array if amsgrad else None
            if step is not counted:
                # lr × (m / c1) / (√(v / c2) + eps), with the constants factored out of the arrays
                counted, correction = step, (1 - beta2**step) ** 0.5
                rate, least = lr * correction / (1 - beta1**step), eps * correction
            if together is not None:
                arrays = together.get((step, parameter.dtype))
                if arrays is None:
                    numbers = np.array([*rates, rate, least, decay, shrink or 1], parameter.dtype)
                    arrays = together[step, parameter.dtype] = [numbers]
                arrays += (
                    (parameter, gradient, m, v, highest) if amsgrad else (parameter, gradient, m, v)
                )
                continue
            if not plain:
                gradient = descent(parameter, gradient, group)  # which also shrinks
            _move(parameter, gradient, m, v, highest, rates, rate, least, shrink if plain else None)
        for arrays in (together or {}).values():
            _moves(
                *arrays,
                amsgrad=amsgrad,
                shrinks=shrink is not None,
                decays=bool(decay) and shrink is None,
                maximize=group["maximize"],
            )


def _move(
    parameter: Any,
    gradient: Any,
    m: Any,
    v: Any,
    highest: Any,
    rates: Any,
    rate: Any,
    eps: Any,
    shrink: Any,
) -> None:
    """One step of Adam, in place; `rates` are β₁, 1 − β₁, β₂ and 1 − β₂, `highest` is for amsgrad,
    and `shrink` for decoupled decay."""
    multiply, add = np.multiply, np.add
    beta1, rest1, beta2, rest2 = rates
    if shrink is not None:
        multiply(parameter, shrink, out=parameter)
    scratch = np.empty_like(parameter)
    multiply(gradient, rest1, out=scratch)
    multiply(m, beta1, out=m)
    add(m, scratch, out=m)
    multiply(gradient, gradient, out=scratch)
    multiply(scratch, rest2, out=scratch)
    multiply(v, beta2, out=v)
    add(v, scratch, out=v)
    if highest is not None:
        np.maximum(highest, v, out=highest)
        v = highest
    np.sqrt(v, out=scratch)
    add(scratch, eps, out=scratch)
    np.divide(m, scratch, out=scratch)
    multiply(scratch, rate, out=scratch)
    np.subtract(parameter, scratch, out=parameter)


@StridedCall
def _moves(
    numbers: Any, *arrays: Any, amsgrad: bool, shrinks: bool, decays: bool, maximize: bool
) -> None:
    """One step of many parameters: for each it, its gradient and its state. The numbers may change
    from step to step, and need no new kernel."""
    *rates, rate, eps, decay, shrink = (numbers[i] for i in range(8))
    each = 4 + amsgrad
    for i in range(0, len(arrays), each):
        parameter, gradient, m, v, *others = arrays[i : i + each]
        highest = others[0] if amsgrad else None
        if maximize:
            gradient = np.negative(gradient)
        if decays:
            gradient = decayed(parameter, gradient, decay)
        _move(parameter, gradient, m, v, highest, rates, rate, eps, shrink if shrinks else None)


class AdamW(Adam):
    """Adam with decoupled weight decay: p shrinks by lr × weight_decay, apart from the gradient.

    >>> import gradwalk as gw
    >>> w = gw.tensor([1.0], requires_grad=True)
    >>> (w * 0).sum().backward()
    >>> gw.optim.AdamW([w], lr=0.1, weight_decay=0.5).step()
    >>> w
    tensor([0.9500], requires_grad=True)
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 1e-2,
        amsgrad: bool = False,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        capturable: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,  # programs look for this name before they pass it
    ) -> None:
        super().__init__(
            params, lr, betas, eps, weight_decay, amsgrad,
            maximize=maximize, foreach=foreach, capturable=capturable,
            differentiable=differentiable, fused=fused, decoupled_weight_decay=True,
        )  # fmt: skip


@declared
class NAdam(_TwoMoments):
    """Adam that looks ahead: the step uses the momentum the next step will have.

    >>> import gradwalk as gw
    >>> w = gw.tensor([1.0], requires_grad=True)
    >>> (w * w).sum().backward()
    >>> gw.optim.NAdam([w], lr=0.1).step()
    >>> bool(w < 1)
    True
    """

    lr: Option[float] = 2e-3
    momentum_decay: Option[float] = 4e-3
    decoupled_weight_decay: Option[bool] = False

    def fresh_state(self, parameter: Tensor, group: Group) -> dict[str, Any]:
        """No steps, zeros, and the product of the momenta so far."""
        return {"step": 0, "mu_product": 1.0} | super().fresh_state(parameter, group)

    def move(self, parameter: Any, gradient: Any, state: dict[str, Any], group: Group) -> None:
        """One step, in place."""
        beta1, beta2 = group["betas"]
        lr, fading, step = group["lr"], group["momentum_decay"], state["step"]
        m, v, scratch = _moments(gradient, state, group)
        mu = beta1 * (1 - 0.5 * 0.96 ** (step * fading))
        mu_next = beta1 * (1 - 0.5 * 0.96 ** ((step + 1) * fading))
        state["mu_product"] = product = state["mu_product"] * mu
        denominator = np.divide(v, 1 - beta2**step, out=scratch)
        np.sqrt(denominator, out=denominator)
        denominator += group["eps"]
        move = gradient * (lr * (1 - mu) / (1 - product))
        move += m * (lr * mu_next / (1 - product * mu_next))
        parameter -= move / denominator


@declared
class RAdam(_TwoMoments):
    """Adam that starts as plain momentum, until the running mean of squares can be trusted.

    >>> import gradwalk as gw
    >>> w = gw.tensor([1.0], requires_grad=True)
    >>> (w * w).sum().backward()
    >>> gw.optim.RAdam([w], lr=0.1).step()
    >>> w
    tensor([0.8000], requires_grad=True)
    """

    decoupled_weight_decay: Option[bool] = False

    def move(self, parameter: Any, gradient: Any, state: dict[str, Any], group: Group) -> None:
        """One step, in place."""
        beta1, beta2 = group["betas"]
        step = state["step"]
        m, v, scratch = _moments(gradient, state, group)
        correction = 1 - beta2**step
        longest = 2 / (1 - beta2) - 1  # how many squares the running mean averages in the end
        length = longest - 2 * step * beta2**step / correction  # how many by now
        rate = group["lr"] / (1 - beta1**step)
        if length > 5:
            rectified = (length - 4) * (length - 2) * longest
            rectified /= (longest - 4) * (longest - 2) * length
            np.sqrt(v, out=scratch)
            scratch += group["eps"]
            np.divide(m, scratch, out=scratch)
            scratch *= rate * (correction * rectified) ** 0.5
        else:
            np.multiply(m, rate, out=scratch)
        parameter -= scratch


@declared
class Adamax(_TwoMoments):
    """Adam with the largest recent gradient in place of the root of the mean square.

    >>> import gradwalk as gw
    >>> w = gw.tensor([1.0], requires_grad=True)
    >>> (w * w).sum().backward()
    >>> gw.optim.Adamax([w], lr=0.1).step()
    >>> w
    tensor([0.9000], requires_grad=True)
    """

    _zeros: ClassVar = {"exp_avg": None, "exp_inf": None}
    lr: Option[float] = 2e-3

    def move(self, parameter: Any, gradient: Any, state: dict[str, Any], group: Group) -> None:
        """One step, in place."""
        beta1, beta2 = group["betas"]
        m, largest = state["exp_avg"]._array, state["exp_inf"]._array
        m *= beta1
        m += gradient * (1 - beta1)
        largest *= beta2
        np.maximum(largest, np.abs(gradient) + group["eps"], out=largest)
        parameter -= m / largest * (group["lr"] / (1 - beta1 ** state["step"]))


class SparseAdam(Optimizer):
    """Not here: gradients are dense. Use `Adam`."""

    def __init__(self, params: Iterable[Any], *args: Any, **options: Any) -> None:
        raise NotImplementedError(
            "SparseAdam is for sparse gradients, and gradwalk's are dense: its lazy moments would "
            "be those of Adam. Fix: use Adam."
        )


def _moments(gradient: Any, state: dict[str, Any], group: Group) -> tuple[Any, Any, Any]:
    """Update the running means; return m, v, and scratch space."""
    beta1, beta2 = group["betas"]
    m, v = state["exp_avg"]._array, state["exp_avg_sq"]._array
    scratch = np.empty_like(m)
    m *= beta1
    m += np.multiply(gradient, 1 - beta1, out=scratch)
    follow(v, gradient, beta2, scratch)
    return m, v, scratch
