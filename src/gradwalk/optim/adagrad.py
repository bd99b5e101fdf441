"""Adagrad."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from gradwalk.optim.optimizer import FUSED, Group, Optimizer, descent, new_state
from gradwalk.tensors.tensor import Tensor


class Adagrad(Optimizer):
    """Steps divided by the root of the sum of all squared gradients so far.

    >>> import gradwalk as gw
    >>> w = gw.tensor([1.0], requires_grad=True)
    >>> (w * w).sum().backward()
    >>> gw.optim.Adagrad([w], lr=0.1).step()
    >>> w
    tensor([0.9000], requires_grad=True)
    """

    _without_meaning = FUSED

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-2,
        lr_decay: float = 0,
        weight_decay: float = 0,
        initial_accumulator_value: float = 0,
        eps: float = 1e-10,
        *,
        maximize: bool = False,
        **unused: Any,
    ) -> None:
        if not initial_accumulator_value >= 0:
            raise ValueError("initial_accumulator_value must not be negative")
        defaults = dict(
            lr=lr, lr_decay=lr_decay, eps=eps, weight_decay=weight_decay,
            initial_accumulator_value=initial_accumulator_value, maximize=maximize,
        )  # fmt: skip
        super().__init__(params, defaults, unused)
        for group in self.param_groups:  # PyTorch makes this state at once, so state_dict has it
            for p in group["params"]:
                self.state[p] = self.fresh_state(p, group)

    def fresh_state(self, parameter: Tensor, group: Group) -> dict[str, Any]:
        """No steps, and the sum it starts from."""
        return {"step": 0, "sum": new_state(parameter, group["initial_accumulator_value"])}

    def update(self, parameters: list[Tensor], group: Group) -> None:
        """sum += gradient²; p −= lr × gradient / (√sum + eps)."""
        for p in parameters:
            parameter: Any = p._array
            state = self.state_of(p, group)
            state["step"] = step = state["step"] + 1
            given: Any = p._grad._array  # type: ignore[union-attr]
            gradient = descent(parameter, given, group)
            total = state["sum"]._array
            scratch = np.empty_like(parameter)
            total += np.multiply(gradient, gradient, out=scratch)
            np.sqrt(total, out=scratch)
            scratch += group["eps"]
            np.divide(gradient, scratch, out=scratch)
            scratch *= group["lr"] / (1 + (step - 1) * group["lr_decay"])
            parameter -= scratch
