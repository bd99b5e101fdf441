"""Rows of a table by number: embedding, and its transpose."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from gradwalk.ops.core.op import Op, Shape, define
from gradwalk.ops.elementwise.choice import where
from gradwalk.ops.shape.reshaping import reshape

# The row `padding_idx`, if there is one, receives no gradient.
embedding_op: Op = define(
    "embedding",
    lambda weight, indices, *, padding_idx: np.take(weight, indices, 0),
    vjp=[
        lambda g, indices, weight_shape, padding_idx: sum_rows(
            g, indices, count=weight_shape[0], skip=padding_idx
        ),
        None,
    ],
    shape=lambda weight, indices, *, padding_idx: (*indices, *weight[1:]),
)


def _sum_rows_forward(y: Any, indices: Any, *, count: int, skip: int | None) -> Any:
    """Rows with the same number added up: sorted by number, then each run summed.

    Many times faster than np.add.at, which takes the rows one by one.
    """
    flat = indices.reshape(-1)
    rows = y.reshape(flat.size, math.prod(y.shape[indices.ndim :]))
    out = np.zeros((count, rows.shape[1]), y.dtype)
    if flat.size and rows.size:
        order = np.argsort(flat, kind="stable")
        ordered = flat[order]
        starts = np.flatnonzero(np.concatenate(([True], ordered[1:] != ordered[:-1])))
        out[ordered[starts]] = np.add.reduceat(rows[order], starts, axis=0)
    if skip is not None:
        out[skip] = 0
    return out.reshape(count, *y.shape[indices.ndim :])


def _sum_rows_rule(g: Any, indices: Any, y_shape: Shape, skip: int | None) -> Any:
    taken = embedding_op(g, indices, padding_idx=None)
    if skip is None:
        return taken
    lifted = reshape(indices, shape=(*indices.shape, *(1,) * (len(y_shape) - len(indices.shape))))
    return where(lifted == skip, 0, taken)


sum_rows: Op = define(
    "sum_rows",
    _sum_rows_forward,
    vjp=[_sum_rows_rule, None],
    shape=lambda y, indices, *, count, skip: (count, *y[len(indices) :]),
)
