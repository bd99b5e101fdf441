"""Multi-head attention."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from gradwalk.nn import functional, init
from gradwalk.nn.constructors import on_device
from gradwalk.nn.layers.linear import Linear
from gradwalk.nn.module import Module
from gradwalk.nn.parameter import Parameter, empty_parameter
from gradwalk.ops.core.dtypes import is_floating
from gradwalk.ops.elementwise.choice import where
from gradwalk.ops.shape.reshaping import cat, split

__all__ = ["MultiheadAttention"]


class MultiheadAttention(Module):
    r"""$\mathrm{softmax}(Q K^T / \sqrt{d})\, V$ in several heads, between two linear maps.

    Inputs are (time, batch, features), or (batch, time, features) with `batch_first`. In a
    boolean mask, True hides a key; a mask of numbers is added to the scores.

    >>> import gradwalk as gw
    >>> x = gw.randn(2, 5, 8)
    >>> out, weights = gw.nn.MultiheadAttention(8, 2, batch_first=True)(x, x, x)
    >>> out.shape, weights.shape
    ((2, 5, 8), (2, 5, 5))
    """

    in_proj_weight: Parameter | None
    in_proj_bias: Parameter | None
    q_proj_weight: Parameter | None
    k_proj_weight: Parameter | None
    v_proj_weight: Parameter | None
    bias_k: Parameter | None
    bias_v: Parameter | None

    @on_device
    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        dropout: float = 0.0,
        bias: bool = True,
        add_bias_kv: bool = False,
        add_zero_attn: bool = False,
        kdim: int | None = None,
        vdim: int | None = None,
        batch_first: bool = False,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        if embed_dim <= 0 or num_heads <= 0 or embed_dim % num_heads:
            raise ValueError(f"{embed_dim} features cannot be split into {num_heads} heads")
        self.embed_dim = embed_dim
        self.kdim = embed_dim if kdim is None else kdim
        self.vdim = embed_dim if vdim is None else vdim
        self.num_heads = num_heads
        self.dropout = dropout
        self.batch_first = batch_first
        self.head_dim = embed_dim // num_heads
        self.add_zero_attn = add_zero_attn
        same = self.kdim == embed_dim and self.vdim == embed_dim
        # PyTorch's order: it is the order of the state dict.
        for name, width in (("q", embed_dim), ("k", self.kdim), ("v", self.vdim)):
            if not same:
                weight = empty_parameter((embed_dim, width), dtype)
                self.register_parameter(f"{name}_proj_weight", weight)
        packed = empty_parameter((3 * embed_dim, embed_dim), dtype, same)
        self.register_parameter("in_proj_weight", packed)
        if same:
            for name in "qkv":
                self.register_parameter(f"{name}_proj_weight", None)
        self.register_parameter("in_proj_bias", empty_parameter(3 * embed_dim, dtype, bias))
        self.out_proj = Linear(embed_dim, embed_dim, bias=bias, dtype=dtype)
        for name in ("bias_k", "bias_v"):
            self.register_parameter(name, empty_parameter((1, 1, embed_dim), dtype, add_bias_kv))
        self._reset_parameters()

    def _reset_parameters(self) -> None:
        weights = (self.in_proj_weight, self.q_proj_weight, self.k_proj_weight, self.v_proj_weight)
        init.fill(init.xavier_uniform_, *weights)
        init.fill(init.zeros_, self.in_proj_bias)
        if self.in_proj_bias is not None:
            init.fill(init.zeros_, self.out_proj.bias)
        init.fill(init.xavier_normal_, self.bias_k, self.bias_v)

    def forward(
        self,
        query: Any,
        key: Any,
        value: Any,
        key_padding_mask: Any = None,
        need_weights: bool = True,
        attn_mask: Any = None,
        average_attn_weights: bool = True,
        is_causal: bool = False,
    ) -> tuple[Any, Any]:
        """The attention output, and the weights (None unless `need_weights`)."""
        if is_causal and attn_mask is None:
            raise ValueError(
                "is_causal says that attn_mask is causal, as in PyTorch: it needs the mask, "
                "for example Transformer.generate_square_subsequent_mask(length)"
            )
        batched = query.ndim == 3
        if query.ndim not in (2, 3) or key.ndim != query.ndim or value.ndim != query.ndim:
            raise ValueError(
                f"query, key and value have 3 dimensions, or 2 without a batch: got "
                f"{tuple(query.shape)}, {tuple(key.shape)}, {tuple(value.shape)}"
            )
        if not batched:
            query, key, value = self._each(lambda x: x.unsqueeze(0), query, key, value)
            if key_padding_mask is not None:
                key_padding_mask = key_padding_mask.unsqueeze(0)
        elif not self.batch_first:
            query, key, value = self._each(lambda x: x.transpose(0, 1), query, key, value)
        # Below: (batch, time, features), then (batch, heads, time, features per head).
        batch, length, _ = query.shape
        q, k, v = self._project(query, key, value)
        if self.bias_k is not None and self.bias_v is not None:
            k = cat([k, self.bias_k.expand(batch, 1, -1)], 1)
            v = cat([v, self.bias_v.expand(batch, 1, -1)], 1)
            attn_mask, key_padding_mask = _one_more(attn_mask), _one_more(key_padding_mask)
        q, k, v = (self._heads(x) for x in (q, k, v))
        if self.add_zero_attn:
            zeros = k.new_zeros(batch, self.num_heads, 1, self.head_dim)
            k, v = cat([k, zeros], 2), cat([v, zeros], 2)
            attn_mask, key_padding_mask = _one_more(attn_mask), _one_more(key_padding_mask)
        mask = self._mask(attn_mask, key_padding_mask, batch, length, k.shape[2], q.dtype)
        out, weights = self._attend(q, k, v, mask, need_weights)
        out = out.transpose(1, 2).reshape(batch, length, self.embed_dim)
        out = self.out_proj(out)
        if weights is not None and average_attn_weights:
            weights = weights.mean(dim=1)
        if not batched:
            return out.squeeze(0), None if weights is None else weights.squeeze(0)
        return (out if self.batch_first else out.transpose(0, 1)), weights

    @staticmethod
    def _each(change: Any, query: Any, key: Any, value: Any) -> tuple[Any, Any, Any]:
        """Apply `change` to all three; a shared tensor stays shared and is projected once."""
        q = change(query)
        k = q if key is query else change(key)
        return q, k, (k if value is key else change(value))

    def _project(self, query: Any, key: Any, value: Any) -> tuple[Any, ...]:
        size, packed = self.embed_dim, self.in_proj_weight
        if packed is not None and query is key and key is value:
            return split(functional.linear(query, packed, self.in_proj_bias), size, -1)
        if packed is not None:
            weights = split(packed, size, 0)
        else:
            weights = (self.q_proj_weight, self.k_proj_weight, self.v_proj_weight)
        biases: Any = (None,) * 3
        if self.in_proj_bias is not None:
            biases = split(self.in_proj_bias, size, 0)
        return tuple(
            functional.linear(x, weight, bias)
            for x, weight, bias in zip((query, key, value), weights, biases)
        )

    def _heads(self, x: Any) -> Any:
        batch, time, _ = x.shape
        return x.reshape(batch, time, self.num_heads, self.head_dim).transpose(1, 2)

    def _mask(self, mask: Any, padding: Any, batch: int, length: int, keys: int, dtype: Any) -> Any:
        """Both masks as one additive mask (batch, heads, queries, keys), or None."""
        total = None
        if mask is not None:
            several = (batch * self.num_heads, length, keys)
            if tuple(mask.shape) not in ((length, keys), several):
                raise ValueError(
                    f"attn_mask has shape {tuple(mask.shape)}, not {(length, keys)} or {several}"
                )
            total = _additive(mask, dtype)
            if mask.ndim == 3:
                total = total.reshape(batch, self.num_heads, length, keys)
        if padding is not None:
            if tuple(padding.shape) != (batch, keys):
                raise ValueError(
                    f"key_padding_mask has shape {tuple(padding.shape)}, not {(batch, keys)}"
                )
            added = _additive(padding, dtype).reshape(batch, 1, 1, keys)
            total = added if total is None else total + added
        return total

    def _attend(self, q: Any, k: Any, v: Any, mask: Any, need_weights: bool) -> tuple[Any, Any]:
        dropout = self.dropout if self.training else 0.0
        if not need_weights:
            return functional.scaled_dot_product_attention(q, k, v, mask, dropout), None
        scores = (q * math.sqrt(1.0 / self.head_dim)) @ k.transpose(-2, -1)
        weights = functional.softmax(scores if mask is None else scores + mask, -1)
        if dropout:
            weights = functional.dropout(weights, dropout, True)
        return weights @ v, weights


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
    return where(mask, mask.new_full((), -np.inf, dtype=dtype), mask.new_zeros((), dtype=dtype))
