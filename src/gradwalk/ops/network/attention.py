"""Attention as one op: softmax(Q Kᵀ × scale) V, for equally many leading axes.

Its rule needs the weights, which are kept, and four products. Results have the axes of their
operand in the same order in memory: heads that are a view of (batch, time, heads × width) come
back as such a view, and nothing is copied to put them side by side again.
"""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from gradwalk.ops.core.dtypes import is_floating
from gradwalk.ops.core.op import Op, define
from gradwalk.ops.linear.matmul import matmul
from gradwalk.ops.network.softmax import softmax_op
from gradwalk.ops.reduce.row_sums import dot_over


@functools.lru_cache(maxsize=32)
def causal_mask(queries: int, keys: int, dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    """0 up to the diagonal, -inf after it."""
    mask = np.triu(np.full((queries, keys), -math.inf, dtype), 1)
    mask.flags.writeable = False
    return mask


def _attention_forward(
    query: Any, key: Any, value: Any, *, scale: float, causal: bool
) -> tuple[Any, Any]:
    if not is_floating(query.dtype):
        raise TypeError(f"attention takes floating-point tensors, not {query.dtype}")
    # Scaling Q instead of Q Kᵀ: (time × width) numbers, not (time × time).
    weights = np.matmul(query * scale, key.mT)  # (..., queries, keys)
    if causal:
        weights += causal_mask(*weights.shape[-2:], weights.dtype)
    weights = softmax_op(weights, axis=weights.ndim - 1)
    if query.shape[-1] != value.shape[-1]:
        return np.matmul(weights, value), weights
    return np.matmul(weights, value, out=np.empty_like(query)), weights


def _attention_rule(
    g: Any,
    query: Any,
    key: Any,
    value: Any,
    out: Any,
    weights: Any,
    scale: float,
    *,
    wants: tuple[bool, ...],
) -> tuple[Any, ...]:
    to_value = np.matmul(weights.mT, g, out=np.empty_like(value)) if wants[2] else None
    back = np.matmul(g, value.mT)  # (..., queries, keys)
    # Σ over the keys of weight × gradient is also Σ over the width of result × gradient.
    back -= dot_over(g, out, (g.ndim - 1,))
    back *= weights
    back *= scale
    to_query = np.matmul(back, key, out=np.empty_like(query)) if wants[0] else None
    to_key = np.matmul(back.mT, query, out=np.empty_like(key)) if wants[1] else None
    return to_query, to_key, to_value


def _attention_expanded(query: Any, key: Any, value: Any, *, scale: float, causal: bool) -> Any:
    scores = matmul(query * scale, key.mT)
    if causal:
        scores = scores + causal_mask(*scores.shape[-2:], scores.dtype)
    return matmul(softmax_op(scores, axis=len(scores.shape) - 1), value)


attention_op: Op = define(
    "attention",
    _attention_forward,
    joint=_attention_rule,
    keeps_order=True,
    residuals="weights",
    shape=lambda query, key, value, **_: (*query[:-1], value[-1]),
    expand=_attention_expanded,
    formula={
        "query": "s @ {key}, s = scale × w × (g @ {value}ᵀ − Σ g × {out}), w = softmax of scores",
        "key": "sᵀ @ {query}, s = scale × w × (g @ {value}ᵀ − Σ g × {out}), w = softmax of scores",
        "value": "wᵀ @ g, w = softmax of scores",
    },
    promotes=True,
)
