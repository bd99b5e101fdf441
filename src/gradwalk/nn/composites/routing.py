"""Composites of mixtures of experts: how many rows each expert gets, and their products."""

from __future__ import annotations

from typing import Any

import numpy as np

from gradwalk.nn.composites.composite import composed
from gradwalk.ops.elementwise.choice import where
from gradwalk.ops.linear.matmul import matmul
from gradwalk.ops.reduce.reduction import sum_op
from gradwalk.ops.shape.reshaping import cast, reshape


@composed(
    x="g @ {weights}ᵀ of the row's group",
    weights="{x}ᵀ @ g over the rows of each group",
)
def grouped_matmul(x: Any, weights: Any, ends: Any) -> Any:
    """x @ weights[k] for the rows of group k, which end before row ends[k]; zeros after the last.

    x has shape (rows, inside), weights (groups, inside, outside), ends (groups,).
    """
    rows, groups = x.shape[0], weights.shape[0]
    row = np.arange(rows)[None, :, None]  # (1, rows, 1)
    before = row < reshape(ends, shape=(groups, 1, 1))  # (groups, rows, 1)
    # A row is in the first group that ends after it.
    earlier = sum_op(cast(before, dtype=np.dtype(np.int64)), axis=(0,), keepdim=True)
    member = before & (np.arange(groups)[:, None, None] == groups - earlier)
    products = matmul(reshape(x, shape=(1, *x.shape)), weights)  # (groups, rows, outside)
    return sum_op(where(member, products, 0.0), axis=(0,), keepdim=False)


@composed()
def histc(x: Any, *, bins: int, low: float, high: float) -> Any:
    """The number of elements in each of `bins` equal intervals from low to high."""
    flat = reshape(x.detach(), shape=(-1, 1))
    place = (flat - low) / (high - low) * bins
    first = np.arange(bins)
    last = (first == bins - 1) & (flat == high)  # the last interval includes its end
    inside = ((place >= first) & (place < first + 1)) | last
    return sum_op(cast(inside, dtype=x.dtype), axis=(0,), keepdim=False)
