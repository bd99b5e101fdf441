"""Attention."""

from __future__ import annotations

import math
from typing import Any

from gradwalk.graph.abstract import numbers_of
from gradwalk.nn.functional.dropout import dropout
from gradwalk.ops.core.halves import rounds_once
from gradwalk.ops.elementwise.choice import bitwise_not, equal, where
from gradwalk.ops.linear.matmul import matmul
from gradwalk.ops.network.attention import attention_op, causal_mask
from gradwalk.ops.network.softmax import softmax_op
from gradwalk.ops.reduce.reduction import all_op
from gradwalk.ops.shape.reshaping import broadcast_to, cast, reshape

__all__ = ["scaled_dot_product_attention"]


@rounds_once
def scaled_dot_product_attention(
    query: Any,
    key: Any,
    value: Any,
    attn_mask: Any = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Any:
    """softmax(Q Kᵀ × scale + mask) V; scale is 1 / √(width) unless given.

    A boolean mask is True where a query attends to a key; a float mask is added to the scores. A
    query without any key gets zeros.

    >>> import gradwalk as gw
    >>> x = gw.ones(1, 2, 3)
    >>> gw.nn.functional.scaled_dot_product_attention(x, x, x, is_causal=True).shape
    (1, 2, 3)
    """
    if is_causal and attn_mask is not None:
        raise ValueError("give attn_mask or is_causal, not both")
    if scale is None:
        scale = 1 / math.sqrt(query.shape[-1])
    if enable_gqa:
        key, value = (_shared(part, query.shape[-3]) for part in (key, value))
    alike = query.shape[:-2] == key.shape[:-2] == value.shape[:-2]
    if attn_mask is None and not dropout_p and alike and key.shape[-2]:
        return attention_op(query, key, value, scale=float(scale), causal=bool(is_causal))
    scores = matmul(query * scale, key.mT)  # (..., queries, keys)
    blind = None
    if is_causal:
        scores = scores + causal_mask(scores.shape[-2], scores.shape[-1], scores.dtype)
    elif attn_mask is not None:
        scores, blind = _masked(scores, attn_mask)
    weights = softmax_op(scores, axis=scores.ndim - 1)
    if blind is not None:
        weights = where(blind, 0, weights)
    if dropout_p:
        weights = dropout(weights, dropout_p)
    return matmul(weights, value)


def _masked(scores: Any, mask: Any) -> tuple[Any, Any]:
    """The scores with the mask applied, and the queries without any key (or None)."""
    numbers = numbers_of(mask)
    values = mask if numbers is None else numbers
    boolean = mask.dtype.kind == "b"
    hidden = bitwise_not(values) if boolean else equal(values, -math.inf)
    blind = all_op(hidden, axis=(hidden.ndim - 1,), keepdim=True)
    if boolean:
        mask = cast(where(hidden, -math.inf, 0.0), dtype=scores.dtype)
    if numbers is not None and not blind.any():
        return scores + mask, None
    return scores + where(blind, 0, mask), blind


def _shared(x: Any, heads: int) -> Any:
    """Repeat each head of keys or values for the group of query heads that shares it."""
    *lead, own, time, width = x.shape
    if heads % own:
        raise ValueError(f"{heads} query heads cannot share {own} heads of keys or values")
    each = reshape(x, shape=(*lead, own, 1, time, width))
    each = broadcast_to(each, (*lead, own, heads // own, time, width))
    return reshape(each, shape=(*lead, heads, time, width))
