"""Attention."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import gradwalk as gw
from gradwalk.nn import functional as F
from gradwalk.onnx.dtypes import dtype_of
from gradwalk.onnx.operators.table import Array, OnnxNode, constant, operator


def _heads(x: Any, count: int) -> Any:
    """(batch, time, width) as (batch, heads, time, width / heads)."""
    if x.ndim == 4:
        return x
    batch, time, width = x.shape
    return gw.permute(gw.reshape(x, (batch, time, count, width // count)), (0, 2, 1, 3))


def _joined(past: Any, x: Any) -> Any:
    return x if past is None else gw.cat([past, x], 2)


@operator("Attention", numbers=(6,))
def attention(
    node: OnnxNode, query: Any, key: Any, value: Any, mask: Any = None, past_key: Any = None,
    past_value: Any = None, lengths: Any = None,
) -> Any:  # fmt: skip
    flat, kv_heads = query.ndim == 3, node.get("kv_num_heads", 1)
    query = _heads(query, node.get("q_num_heads", 1))
    key = _joined(past_key, _heads(key, kv_heads))
    value = _joined(past_value, _heads(value, kv_heads))
    present = (key, value)
    group = query.shape[1] // key.shape[1]
    if group > 1:
        key, value = (gw.repeat_interleave(part, group, 1) for part in (key, value))
    past = 0 if past_key is None else past_key.shape[2]
    hidden = _hidden(node, query, key, lengths, past)
    square = query.shape[2] == key.shape[2]
    plain = node.attributes.keys().isdisjoint(_SPECIAL) and len(node.outputs) < 4
    causal = bool(node.get("is_causal", 0)) and square and lengths is None
    scores = None
    if plain and mask is None and (hidden is None or causal):
        scale = node.get("scale")
        out = F.scaled_dot_product_attention(query, key, value, is_causal=causal, scale=scale)
    else:
        out, scores = _in_steps(node, query, key, value, mask, hidden)
    if flat:
        batch, heads, time, width = out.shape
        out = gw.reshape(gw.permute(out, (0, 2, 1, 3)), (batch, time, heads * width))
    return (out, *present, scores)[: len(node.outputs)]


# With one of them, attention is computed in steps.
_SPECIAL = ("softcap", "softmax_precision", "left_window_size", "right_window_size")


def _hidden(node: OnnxNode, query: Any, key: Any, lengths: Any, past: int) -> Array | None:
    """Where no query may look: what is later, too far away, or after the end of a sequence."""
    before, after = node.get("left_window_size", -1), node.get("right_window_size", -1)
    causal = node.get("is_causal", 0)
    if not causal and before < 0 and after < 0 and lengths is None:
        return None
    queries, keys = query.shape[2], key.shape[2]
    offset: Any = past
    if lengths is not None:
        offset = lengths.reshape(-1, 1, 1, 1) - queries
    ahead = np.arange(keys) - (np.arange(queries)[:, None] + offset)  # (..., queries, keys)
    hidden = np.zeros(ahead.shape, bool)
    if causal:
        hidden |= ahead > 0
    if before >= 0:
        hidden |= -ahead > before
    if after >= 0:
        hidden |= ahead > after
    if lengths is not None:
        hidden |= np.arange(keys) >= lengths.reshape(-1, 1, 1, 1)
    return hidden


def _in_steps(
    node: OnnxNode, query: Any, key: Any, value: Any, mask: Any, hidden: Array | None
) -> tuple[Any, Any]:
    """The output, and the scores at the stage that is asked for."""
    scale, softcap = node.get("scale") or query.shape[-1] ** -0.5, node.get("softcap", 0.0)
    scores = (query * scale**0.5) @ (key * scale**0.5).mT
    capped = softcap * gw.tanh(scores / softcap) if softcap else scores
    biased, blind = capped, None
    bias = _bias(mask, hidden, key.shape[2], query.dtype)
    if bias is not None:
        biased = capped + bias
        blind = (bias == -math.inf).all(-1, keepdim=True)  # a query without any key gets zeros
    precise = biased
    if code := node.get("softmax_precision"):
        precise = biased.to(dtype_of(code, node.where()))
    weights = gw.softmax(precise, -1)
    if blind is not None:
        weights = gw.where(blind, 0, weights)
    weights = weights.to(query.dtype)
    stages = (capped if node.version >= 25 else scores, capped, biased, weights)
    return weights @ value, stages[node.get("qk_matmul_output_mode", 0)]


def _bias(mask: Any, hidden: Array | None, keys: int, dtype: Any) -> Any:
    """What is added to the scores: the mask, and −∞ at hidden places."""
    bias = None
    if mask is not None:
        if mask.dtype.kind == "b":
            mask = gw.where(mask, 0.0, -math.inf)
        bias = mask.to(dtype)
        missing = keys - mask.shape[-1]
        if missing > 0:
            more = bias.new_full((*bias.shape[:-1], missing), -math.inf)
            bias = gw.cat([bias, more], -1)
    if hidden is not None:
        bias_of_hidden = constant(np.where(hidden, -np.inf, 0.0).astype(dtype))
        bias = bias_of_hidden if bias is None else bias + bias_of_hidden
    return bias


@operator("FlexAttention", domain="ai.onnx.preview")
def flex_attention(node: OnnxNode, query: Any, key: Any, value: Any) -> Any:
    """Attention whose scores and probabilities are changed by graphs of the node."""
    group = query.shape[1] // key.shape[1]
    if group > 1:
        key, value = (gw.repeat_interleave(part, group, 1) for part in (key, value))
    wide = gw.float64 if query.dtype == gw.float64 else gw.float32
    if code := node.get("softmax_precision"):
        wide = dtype_of(code, node.where())
    scores = (query @ key.mT).to(wide) * (node.get("scale") or query.shape[-1] ** -0.5)
    if (change := node.get("score_mod")) is not None:
        (scores,) = change(scores)
    weights = gw.softmax(scores, -1)
    if (change := node.get("prob_mod")) is not None:
        (weights,) = change(weights)
    return weights.to(query.dtype) @ value
