"""RMSprop."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from gradwalk.optim.optimizer import CAPTURABLE, Group, Optimizer, descent, new_state
from gradwalk.tensors.tensor import Tensor


class RMSprop(Optimizer):
    """Steps divided by the root of a running mean of squared gradients.

    >>> import gradwalk as gw
    >>> w = gw.tensor([1.0], requires_grad=True)
    >>> (w * w).sum().backward()
    >>> gw.optim.RMSprop([w], lr=0.01).step()
    >>> w
    tensor([0.9000], requires_grad=True)
    """

    _without_meaning = CAPTURABLE

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-2,
        alpha: float = 0.99,
        eps: float = 1e-8,
        weight_decay: float = 0,
        momentum: float = 0,
        centered: bool = False,
        *,
        maximize: bool = False,
        **unused: Any,
    ) -> None:
        defaults = dict(
            lr=lr, momentum=momentum, alpha=alpha, eps=eps, centered=centered,
            weight_decay=weight_decay, maximize=maximize,
        )  # fmt: skip
        super().__init__(params, defaults, unused)

    def fresh_state(self, parameter: Tensor, group: Group) -> dict[str, Any]:
        """No steps, and means of nothing."""
        state = {"step": 0, "square_avg": new_state(parameter)}
        if group["momentum"] > 0:
            state["momentum_buffer"] = new_state(parameter)
        if group["centered"]:
            state["grad_avg"] = new_state(parameter)
        return state

    def update(self, parameters: list[Tensor], group: Group) -> None:
        """One step, in place."""
        alpha, momentum = group["alpha"], group["momentum"]
        for p in parameters:
            parameter: Any = p._array
            state = self.state_of(p, group)
            state["step"] += 1
            given: Any = p._grad._array  # type: ignore[union-attr]
            gradient = descent(parameter, given, group)
            squares = state["square_avg"]._array
            scratch = np.empty_like(parameter)
            squares *= alpha
            np.multiply(gradient, gradient, out=scratch)
            scratch *= 1 - alpha
            squares += scratch
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
