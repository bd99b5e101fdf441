"""Attention."""

from __future__ import annotations

import math
from typing import Any

from gradwalk.graph.abstract import numbers_of
from gradwalk.nn.functional.activation import softmax
from gradwalk.nn.functional.dropout import dropout
from gradwalk.nn.functional.sparse import linear
from gradwalk.ops.core.dtypes import is_floating
from gradwalk.ops.core.halves import rounds_once
from gradwalk.ops.elementwise.choice import bitwise_not, equal, where
from gradwalk.ops.linear.matmul import matmul
from gradwalk.ops.network.attention import attention_op, causal_mask
from gradwalk.ops.network.softmax import softmax_op
from gradwalk.ops.reduce.reduction import all_op
from gradwalk.ops.shape.reshaping import broadcast_to, cast, cat, reshape, split

__all__ = ["multi_head_attention_forward", "scaled_dot_product_attention"]


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


# -- several heads -------------------------------------------------------------------------------


def multi_head_attention_forward(
    query: Any,
    key: Any,
    value: Any,
    embed_dim_to_check: int,
    num_heads: int,
    in_proj_weight: Any,
    in_proj_bias: Any,
    bias_k: Any,
    bias_v: Any,
    add_zero_attn: bool,
    dropout_p: float,
    out_proj_weight: Any,
    out_proj_bias: Any,
    training: bool = True,
    key_padding_mask: Any = None,
    need_weights: bool = True,
    attn_mask: Any = None,
    use_separate_proj_weight: bool = False,
    q_proj_weight: Any = None,
    k_proj_weight: Any = None,
    v_proj_weight: Any = None,
    static_k: Any = None,
    static_v: Any = None,
    average_attn_weights: bool = True,
    is_causal: bool = False,
) -> tuple[Any, Any]:
    """`nn.MultiheadAttention` of weights that are given; inputs are (time, batch, features).

    >>> import gradwalk as gw
    >>> x, w = gw.ones(3, 1, 2), gw.ones(6, 2)
    >>> out, weights = gw.nn.functional.multi_head_attention_forward(
    ...     x, x, x, 2, 1, w, None, None, None, False, 0.0, gw.eye(2), None
    ... )
    >>> out.shape, weights.shape
    ((3, 1, 2), (1, 3, 3))
    """
    if query.shape[-1] != embed_dim_to_check or embed_dim_to_check % num_heads:
        raise ValueError(
            f"multi_head_attention_forward: a query of shape {tuple(query.shape)} does not have "
            f"{embed_dim_to_check} features in {num_heads} heads"
        )
    if is_causal and attn_mask is None:
        raise ValueError("is_causal says that attn_mask is causal: it needs the mask")
    batched = query.ndim == 3
    query, key, value = batch_first(query, key, value, batched)
    if not batched and key_padding_mask is not None:
        key_padding_mask = key_padding_mask.unsqueeze(0)
    packed = None if use_separate_proj_weight else in_proj_weight
    separate = (q_proj_weight, k_proj_weight, v_proj_weight)
    q, k, v = projected((query, key, value), packed, separate, in_proj_bias)
    # Keys and values that are given in heads, (batch × heads, time, features per head).
    k, v = (
        part if static is None else _without_heads(static, num_heads)
        for part, static in ((k, static_k), (v, static_v))
    )
    out, weights = in_heads(
        q,
        k,
        v,
        num_heads,
        extra=(bias_k, bias_v),
        zero_key=add_zero_attn,
        dropout_p=dropout_p if training else 0.0,
        padding=key_padding_mask,
        mask=attn_mask,
        need_weights=need_weights,
    )
    out = linear(out, out_proj_weight, out_proj_bias)
    if weights is not None and average_attn_weights:
        weights = weights.mean(dim=1)
    if not batched:
        return out.squeeze(0), None if weights is None else weights.squeeze(0)
    return out.transpose(0, 1), weights


def _without_heads(x: Any, heads: int) -> Any:
    rows, time, width = x.shape
    apart = x.reshape(rows // heads, heads, time, width).transpose(1, 2)
    return apart.reshape(rows // heads, time, heads * width)


def batch_first(query: Any, key: Any, value: Any, time_first: bool) -> tuple[Any, Any, Any]:
    """The three as (batch, time, features); a shared tensor stays shared and is projected once."""
    if query.ndim not in (2, 3) or key.ndim != query.ndim or value.ndim != query.ndim:
        raise ValueError(
            f"query, key and value have 3 dimensions, or 2 without a batch: got "
            f"{tuple(query.shape)}, {tuple(key.shape)}, {tuple(value.shape)}"
        )
    if query.ndim == 3 and not time_first:
        return query, key, value

    def change(x: Any) -> Any:
        return x.unsqueeze(0) if x.ndim == 2 else x.transpose(0, 1)

    q = change(query)
    k = q if key is query else change(key)
    return q, k, (k if value is key else change(value))


def projected(inputs: Any, packed: Any, separate: Any, bias: Any) -> tuple[Any, ...]:
    """Queries, keys and values, by one packed weight or three separate ones."""
    query, key, value = inputs
    if packed is not None and query is key and key is value:
        return split(linear(query, packed, bias), packed.shape[0] // 3, -1)
    weights = separate if packed is None else split(packed, packed.shape[0] // 3, 0)
    biases: Any = (None,) * 3
    if bias is not None:
        biases = split(bias, bias.shape[0] // 3, 0)
    return tuple(
        linear(x, weight, each) for x, weight, each in zip(inputs, weights, biases, strict=True)
    )


def in_heads(
    q: Any,
    k: Any,
    v: Any,
    num_heads: int,
    *,
    extra: tuple[Any, Any],
    zero_key: bool,
    dropout_p: float,
    padding: Any,
    mask: Any,
    need_weights: bool,
) -> tuple[Any, Any]:
    """Attention of (batch, time, features) in heads, and its weights (batch, heads, queries, keys).

    `extra` is one more key and its value for all samples, or two None; `zero_key` adds zeros.
    """
    batch, length, width = q.shape
    if extra[0] is not None and extra[1] is not None:
        k, v = (cat([x, x1.expand(batch, 1, -1)], 1) for x, x1 in zip((k, v), extra, strict=True))
        mask, padding = _one_more(mask), _one_more(padding)
    q, k, v = (_heads(x, num_heads) for x in (q, k, v))
    if zero_key:
        zeros = k.new_zeros(batch, num_heads, 1, width // num_heads)
        k, v = cat([k, zeros], 2), cat([v, zeros], 2)
        mask, padding = _one_more(mask), _one_more(padding)
    total = _joint_mask(mask, padding, q, k.shape[2])
    if not need_weights:
        out, weights = scaled_dot_product_attention(q, k, v, total, dropout_p), None
    else:
        scores = (q * math.sqrt(1.0 / (width // num_heads))) @ k.transpose(-2, -1)
        weights = softmax(scores if total is None else scores + total, -1)
        if dropout_p:
            weights = dropout(weights, dropout_p, True)
        out = weights @ v
    return out.transpose(1, 2).reshape(batch, length, width), weights


def _heads(x: Any, num_heads: int) -> Any:
    batch, time, width = x.shape
    return x.reshape(batch, time, num_heads, width // num_heads).transpose(1, 2)


def _joint_mask(mask: Any, padding: Any, q: Any, keys: int) -> Any:
    """Both masks as one additive mask (batch, heads, queries, keys), or None."""
    batch, heads, length, _ = q.shape
    total = None
    if mask is not None:
        several = (batch * heads, length, keys)
        if tuple(mask.shape) not in ((length, keys), several):
            raise ValueError(
                f"attn_mask has shape {tuple(mask.shape)}, not {(length, keys)} or {several}"
            )
        total = _additive(mask, q.dtype)
        if mask.ndim == 3:
            total = total.reshape(batch, heads, length, keys)
    if padding is not None:
        if tuple(padding.shape) != (batch, keys):
            raise ValueError(
                f"key_padding_mask has shape {tuple(padding.shape)}, not {(batch, keys)}"
            )
        added = _additive(padding, q.dtype).reshape(batch, 1, 1, keys)
        total = added if total is None else total + added
    return total


def _one_more(mask: Any) -> Any:
    """Extend a mask by one key that no query is hidden from."""
    if mask is None:
        return None
    return cat([mask, mask.new_zeros(*mask.shape[:-1], 1)], -1)


def _additive(mask: Any, dtype: Any) -> Any:
    """The additive form of a boolean mask: −∞ where it is True."""
    if is_floating(mask.dtype):
        return mask.to(dtype)
    if mask.dtype.kind != "b":
        raise TypeError(f"a mask is boolean or holds floats to add, not {mask.dtype}")
    return where(mask, mask.new_full((), -math.inf, dtype=dtype), mask.new_zeros((), dtype=dtype))
