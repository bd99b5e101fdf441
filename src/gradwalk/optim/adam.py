"""Adam and AdamW."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from gradwalk.optim.optimizer import CAPTURABLE_AND_FUSED, Group, Optimizer, descent, new_state
from gradwalk.tensors.tensor import Tensor


class Adam(Optimizer):
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

    _without_meaning = CAPTURABLE_AND_FUSED

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        amsgrad: bool = False,
        *,
        maximize: bool = False,
        decoupled_weight_decay: bool = False,
        **unused: Any,
    ) -> None:
        defaults = dict(
            lr=lr, betas=betas, eps=eps, weight_decay=weight_decay, amsgrad=amsgrad,
            maximize=maximize, decoupled_weight_decay=decoupled_weight_decay,
        )  # fmt: skip
        super().__init__(params, defaults, unused)

    def fresh_state(self, parameter: Tensor, group: Group) -> dict[str, Any]:
        """No steps, and means of nothing."""
        moments = {"exp_avg": new_state(parameter), "exp_avg_sq": new_state(parameter)}
        if group["amsgrad"]:
            moments["max_exp_avg_sq"] = new_state(parameter)
        return {"step": 0, **moments}

    def update(self, parameters: list[Tensor], group: Group) -> None:
        """One step, in place, with one array of scratch space at a time."""
        beta1, beta2 = group["betas"]
        lr, eps, decay = group["lr"], group["eps"], group["weight_decay"]
        amsgrad = group["amsgrad"]
        shrink = 1 - lr * decay if decay and group["decoupled_weight_decay"] else None
        plain = not group["maximize"] and (not decay or shrink is not None)
        multiply, add = np.multiply, np.add
        for p in parameters:
            parameter: Any = p._array
            gradient: Any = p._grad._array  # type: ignore[union-attr]
            state = self.state_of(p, group)
            state["step"] = step = state["step"] + 1
            m, v = state["exp_avg"]._array, state["exp_avg_sq"]._array
            if shrink is not None:
                multiply(parameter, shrink, out=parameter)
            if not plain:
                gradient = descent(
                    parameter, gradient, group if shrink is None else {**group, "weight_decay": 0}
                )
            scratch = np.empty_like(parameter)
            multiply(gradient, 1 - beta1, out=scratch)
            multiply(m, beta1, out=m)
            add(m, scratch, out=m)
            multiply(gradient, gradient, out=scratch)
            multiply(scratch, 1 - beta2, out=scratch)
            multiply(v, beta2, out=v)
            add(v, scratch, out=v)
            if amsgrad:
                highest = state["max_exp_avg_sq"]._array
                np.maximum(highest, v, out=highest)
                v = highest
            # lr × (m / c1) / (√(v / c2) + eps), with the constants drawn out of the arrays
            correction = (1 - beta2**step) ** 0.5
            np.sqrt(v, out=scratch)
            add(scratch, eps * correction, out=scratch)
            np.divide(m, scratch, out=scratch)
            multiply(scratch, lr * correction / (1 - beta1**step), out=scratch)
            np.subtract(parameter, scratch, out=parameter)


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
        **unused: Any,
    ) -> None:
        super().__init__(
            params, lr, betas, eps, weight_decay, amsgrad,
            maximize=maximize, decoupled_weight_decay=True, **unused,
        )  # fmt: skip
