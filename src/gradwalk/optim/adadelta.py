"""Adadelta."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from gradwalk.optim.optimizer import CAPTURABLE, Group, Optimizer, descent, new_state
from gradwalk.tensors.tensor import Tensor


class Adadelta(Optimizer):
    """Steps scaled by (recent step sizes) / (recent gradient sizes), so that units agree.

    >>> import gradwalk as gw
    >>> w = gw.tensor([1.0], requires_grad=True)
    >>> (w * w).sum().backward()
    >>> gw.optim.Adadelta([w]).step()
    >>> bool(w < 1)
    True
    """

    _without_meaning = CAPTURABLE

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1.0,
        rho: float = 0.9,
        eps: float = 1e-6,
        weight_decay: float = 0,
        *,
        maximize: bool = False,
        **unused: Any,
    ) -> None:
        defaults = dict(lr=lr, rho=rho, eps=eps, weight_decay=weight_decay, maximize=maximize)
        super().__init__(params, defaults, unused)

    def fresh_state(self, parameter: Tensor, group: Group) -> dict[str, Any]:
        """No steps, and means of nothing."""
        return {"step": 0, "square_avg": new_state(parameter), "acc_delta": new_state(parameter)}

    def update(self, parameters: list[Tensor], group: Group) -> None:
        """One step, in place."""
        rho, eps = group["rho"], group["eps"]
        for p in parameters:
            parameter: Any = p._array
            state = self.state_of(p, group)
            state["step"] += 1
            given: Any = p._grad._array  # type: ignore[union-attr]
            gradient = descent(parameter, given, group)
            squares, moves = state["square_avg"]._array, state["acc_delta"]._array
            scratch, delta = np.empty_like(parameter), np.empty_like(parameter)
            squares *= rho
            np.multiply(gradient, gradient, out=scratch)
            scratch *= 1 - rho
            squares += scratch
            np.sqrt(np.add(squares, eps, out=scratch), out=scratch)
            np.sqrt(np.add(moves, eps, out=delta), out=delta)
            delta /= scratch
            delta *= gradient
            moves *= rho
            np.multiply(delta, delta, out=scratch)
            scratch *= 1 - rho
            moves += scratch
            delta *= group["lr"]
            parameter -= delta
