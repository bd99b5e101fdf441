"""Adam with Nesterov momentum."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from gradwalk.optim.optimizer import CAPTURABLE, Group, Optimizer, descent, new_state
from gradwalk.tensors.tensor import Tensor


class NAdam(Optimizer):
    """Adam that looks ahead: the step uses the momentum the next step will have.

    >>> import gradwalk as gw
    >>> w = gw.tensor([1.0], requires_grad=True)
    >>> (w * w).sum().backward()
    >>> gw.optim.NAdam([w], lr=0.1).step()
    >>> bool(w < 1)
    True
    """

    _without_meaning = CAPTURABLE

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 2e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        momentum_decay: float = 4e-3,
        decoupled_weight_decay: bool = False,
        *,
        maximize: bool = False,
        **unused: Any,
    ) -> None:
        defaults = dict(
            lr=lr, betas=betas, eps=eps, weight_decay=weight_decay, momentum_decay=momentum_decay,
            decoupled_weight_decay=decoupled_weight_decay, maximize=maximize,
        )  # fmt: skip
        super().__init__(params, defaults, unused)

    def fresh_state(self, parameter: Tensor, group: Group) -> dict[str, Any]:
        """No steps, and means of nothing."""
        moments = {"exp_avg": new_state(parameter), "exp_avg_sq": new_state(parameter)}
        return {"step": 0, "mu_product": 1.0, **moments}

    def update(self, parameters: list[Tensor], group: Group) -> None:
        """One step, in place."""
        beta1, beta2 = group["betas"]
        lr, fading = group["lr"], group["momentum_decay"]
        for p in parameters:
            parameter: Any = p._array
            state = self.state_of(p, group)
            state["step"] = step = state["step"] + 1
            gradient, m, v, scratch = moments(p, state, group)
            mu = beta1 * (1 - 0.5 * 0.96 ** (step * fading))
            mu_next = beta1 * (1 - 0.5 * 0.96 ** ((step + 1) * fading))
            state["mu_product"] = product = state["mu_product"] * mu
            denominator = np.divide(v, 1 - beta2**step, out=scratch)
            np.sqrt(denominator, out=denominator)
            denominator += group["eps"]
            move = gradient * (lr * (1 - mu) / (1 - product))
            move += m * (lr * mu_next / (1 - product * mu_next))
            parameter -= move / denominator


def moments(p: Tensor, state: dict[str, Any], group: Group) -> tuple[Any, Any, Any, Any]:
    """Decay the weights and update the running means: the gradient, m, v, and scratch space."""
    beta1, beta2 = group["betas"]
    parameter: Any = p._array
    if group["decoupled_weight_decay"]:
        parameter *= 1 - group["lr"] * group["weight_decay"]
        group = {**group, "weight_decay": 0}
    given: Any = p._grad._array  # type: ignore[union-attr]
    gradient = descent(parameter, given, group)
    m, v = state["exp_avg"]._array, state["exp_avg_sq"]._array
    scratch = np.empty_like(parameter)
    m *= beta1
    m += np.multiply(gradient, 1 - beta1, out=scratch)
    v *= beta2
    np.multiply(gradient, gradient, out=scratch)
    scratch *= 1 - beta2
    v += scratch
    return gradient, m, v, scratch
