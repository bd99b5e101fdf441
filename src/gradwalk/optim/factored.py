"""Adafactor: the second moment of a matrix as one number per row and one per column."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import KW_ONLY
from dataclasses import InitVar as Option
from typing import Any

import numpy as np

from gradwalk.nn.constructors import declared
from gradwalk.ops.core.dtypes import finfo
from gradwalk.optim.optimizer import Group, Optimizer, new_state, refuse_complex
from gradwalk.tensors.apply import wrap
from gradwalk.tensors.tensor import Tensor


@declared
class Adafactor(Optimizer):
    """Adam without a first moment, whose second moments take the memory of a vector.

    Steps are relative to the size of the parameter and are never much larger than it.

    >>> import gradwalk as gw
    >>> w = gw.ones(2, 3, requires_grad=True)
    >>> optimizer = gw.optim.Adafactor([w])
    >>> (w * w).sum().backward()
    >>> optimizer.step()
    >>> {name: value.shape for name, value in optimizer.state[w].items() if name != "step"}
    {'row_var': (2, 1), 'col_var': (1, 3)}
    """

    _own_shapes = True
    params: Option[Iterable[Any]]
    lr: Option[float] = 1e-2
    beta2_decay: Option[float] = -0.8
    eps: Option[tuple[float | None, float]] = (None, 1e-3)
    d: Option[float] = 1.0
    weight_decay: Option[float] = 0.0
    _: KW_ONLY
    foreach: Option[bool | None] = None
    maximize: Option[bool] = False

    def _construct(self, **options: Any) -> None:
        if options["beta2_decay"] > 0 or options["d"] < 1:
            raise ValueError("beta2_decay must be at most 0, and d at least 1")
        if min(0 if eps is None else eps for eps in options["eps"]) < 0:
            raise ValueError(f"eps must not be negative, not {options['eps']}")
        super()._construct(**options)
        refuse_complex(self)

    def fresh_state(self, parameter: Tensor, group: Group) -> dict[str, Any]:
        """No steps, and zeros: of a vector as they are, of a matrix by rows and columns."""
        if parameter.ndim < 2:
            return {"step": 0, "variance": new_state(parameter)}
        array = parameter._array
        rows, columns = np.zeros_like(array[..., :1]), np.zeros_like(array[..., :1, :])
        return {"step": 0, "row_var": wrap(rows), "col_var": wrap(columns)}

    def update(self, parameters: list[Tensor], group: Group) -> None:
        """One step of each parameter, in place."""
        for p in parameters:
            state = self.state_of(p, group)
            state["step"] += 1
            gradient = p._grad._array  # type: ignore[union-attr]
            self._move(p._array, -gradient if group["maximize"] else gradient, state, group)

    def _move(self, parameter: Any, gradient: Any, state: dict[str, Any], group: Group) -> None:
        step, (eps, smallest) = state["step"], group["eps"]
        eps = float(finfo(parameter.dtype).eps) if eps is None else eps
        fresh = step ** group["beta2_decay"]  # the weight of this gradient in the means
        size = np.maximum(_root_mean_square(parameter), smallest)
        size = size * min(group["lr"], step**-0.5)
        if group["weight_decay"]:
            parameter *= 1 - group["lr"] * group["weight_decay"]
        squares = gradient * gradient
        if parameter.ndim < 2:
            variance = state["variance"]._array
            variance += (squares - variance) * fresh
            estimate = variance
        else:
            rows, columns = state["row_var"]._array, state["col_var"]._array
            rows += (squares.mean(axis=-1, keepdims=True) - rows) * fresh
            columns += (squares.mean(axis=-2, keepdims=True) - columns) * fresh
            estimate = rows * columns / np.maximum(rows.mean(axis=-2, keepdims=True), eps)
        update = gradient / np.sqrt(np.maximum(estimate, eps * eps))
        size = size / np.maximum(_root_mean_square(update) / group["d"], 1.0)
        parameter -= update * size


def _root_mean_square(x: Any) -> Any:
    return np.sqrt((x * x).sum() / x.size)
