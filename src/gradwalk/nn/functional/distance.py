"""Lengths and angles."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from gradwalk.ops.arithmetic import abs as absolute
from gradwalk.ops.arithmetic import sqrt
from gradwalk.ops.choice import clip, where
from gradwalk.ops.reduction import amax, amin, sum
from gradwalk.ops.shape import broadcast_to

__all__ = ["cosine_similarity", "pairwise_distance"]


def vector_norm(x: Any, p: float, dim: Any, keepdim: bool = False) -> Any:
    """(Σ |x|ᵖ)^(1/p); at 0 its gradient is 0."""
    if p == math.inf:
        return amax(absolute(x), dim, keepdim)
    if p == -math.inf:
        return amin(absolute(x), dim, keepdim)
    if p == 1:
        return sum(absolute(x), dim, keepdim)
    if p == 2:
        return _root(sum(x * x, dim, keepdim), 0.5)
    if p == 0:
        return sum((x != 0).to(x.dtype), dim, keepdim)
    size = absolute(x)
    if p < 2:  # |x|ᵖ has no slope at 0
        size = where(size == 0, 0, where(size == 0, 1, size) ** p)
    else:
        size = size**p
    return _root(sum(size, dim, keepdim), 1 / p)


def _root(total: Any, exponent: float) -> Any:
    """total ** exponent with slope 0 at 0: the inner `where` keeps the infinite slope out."""
    safe = where(total == 0, 1, total)
    return where(total == 0, 0, sqrt(safe) if exponent == 0.5 else safe**exponent)


def cosine_similarity(x1: Any, x2: Any, dim: int = 1, eps: float = 1e-8) -> Any:
    """The cosine of the angle between x1 and x2 along `dim`.

    >>> import gradwalk as gw
    >>> gw.nn.functional.cosine_similarity(gw.tensor([3.0, 4.0]), gw.tensor([4.0, 3.0]), dim=0)
    tensor(0.9600)
    """
    if tuple(x1.shape) != tuple(x2.shape):  # `dim` is one of the common shape
        common = np.broadcast_shapes(tuple(x1.shape), tuple(x2.shape))
        x1, x2 = broadcast_to(x1, common), broadcast_to(x2, common)
    first = x1 / clip(vector_norm(x1, 2, dim, keepdim=True), min=eps)
    second = x2 / clip(vector_norm(x2, 2, dim, keepdim=True), min=eps)
    return sum(first * second, dim)


def pairwise_distance(
    x1: Any, x2: Any, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False
) -> Any:
    """The p-norm of x1 − x2 + eps along the last dimension."""
    return vector_norm(x1 - x2 + eps, p, -1, keepdim)
