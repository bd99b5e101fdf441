"""Rectified Adam."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from gradwalk.optim.nadam import moments
from gradwalk.optim.optimizer import CAPTURABLE, Group, Optimizer, new_state
from gradwalk.tensors.tensor import Tensor


class RAdam(Optimizer):
    """Adam that starts as plain momentum, until the running mean of squares can be trusted.

    >>> import gradwalk as gw
    >>> w = gw.tensor([1.0], requires_grad=True)
    >>> (w * w).sum().backward()
    >>> gw.optim.RAdam([w], lr=0.1).step()
    >>> w
    tensor([0.8000], requires_grad=True)
    """

    _without_meaning = CAPTURABLE

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        decoupled_weight_decay: bool = False,
        *,
        maximize: bool = False,
        **unused: Any,
    ) -> None:
        defaults = dict(
            lr=lr, betas=betas, eps=eps, weight_decay=weight_decay,
            decoupled_weight_decay=decoupled_weight_decay, maximize=maximize,
        )  # fmt: skip
        super().__init__(params, defaults, unused)

    def fresh_state(self, parameter: Tensor, group: Group) -> dict[str, Any]:
        """No steps, and means of nothing."""
        return {"step": 0, "exp_avg": new_state(parameter), "exp_avg_sq": new_state(parameter)}

    def update(self, parameters: list[Tensor], group: Group) -> None:
        """One step, in place."""
        beta1, beta2 = group["betas"]
        longest = 2 / (1 - beta2) - 1  # how many squares the running mean averages in the end
        for p in parameters:
            parameter: Any = p._array
            state = self.state_of(p, group)
            state["step"] = step = state["step"] + 1
            _, m, v, scratch = moments(p, state, group)
            correction = 1 - beta2**step
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
