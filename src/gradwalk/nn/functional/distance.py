"""Lengths and angles."""

from __future__ import annotations

from typing import Any

import numpy as np

from gradwalk.ops.core.dtypes import real_only, result_dtype
from gradwalk.ops.core.halves import rounds_once
from gradwalk.ops.elementwise.choice import clip
from gradwalk.ops.reduce.norms import pdist, vector_norm
from gradwalk.ops.reduce.reduction import sum
from gradwalk.ops.shape.reshaping import broadcast_to

__all__ = ["cosine_similarity", "pairwise_distance", "pdist"]


@rounds_once
def cosine_similarity(x1: Any, x2: Any, dim: int = 1, eps: float = 1e-8) -> Any:
    """The cosine of the angle between x1 and x2 along `dim`.

    >>> import gradwalk as gw
    >>> gw.nn.functional.cosine_similarity(gw.tensor([3.0, 4.0]), gw.tensor([4.0, 3.0]), dim=0)
    tensor(0.9600)
    """
    if tuple(x1.shape) != tuple(x2.shape):  # `dim` is one of the common shape
        common = np.broadcast_shapes(tuple(x1.shape), tuple(x2.shape))
        x1, x2 = broadcast_to(x1, common), broadcast_to(x2, common)
    for x in (x1, x2):
        real_only("cosine_similarity", x)
    common_dtype = result_dtype([x1._array, x2._array])
    x1, x2 = x1.to(common_dtype), x2.to(common_dtype)
    first = x1 / clip(vector_norm(x1, 2, dim, keepdim=True), min=eps)
    second = x2 / clip(vector_norm(x2, 2, dim, keepdim=True), min=eps)
    return sum(first * second, dim)


@rounds_once
def pairwise_distance(
    x1: Any, x2: Any, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False
) -> Any:
    """The p-norm of x1 − x2 + eps along the last dimension."""
    return vector_norm(x1 - x2 + eps, p, -1, keepdim)
