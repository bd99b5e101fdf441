"""Multi-head attention."""

from __future__ import annotations

from typing import Any

import numpy as np

from gradwalk.nn import functional, init
from gradwalk.nn.constructors import on_device
from gradwalk.nn.layers.linear import NonDynamicallyQuantizableLinear
from gradwalk.nn.module import Module
from gradwalk.nn.parameter import Parameter, empty_parameter
from gradwalk.random.generator import default_generator
from gradwalk.random.mersenne import MersenneStream

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
        self.out_proj = NonDynamicallyQuantizableLinear(
            embed_dim, embed_dim, bias=bias, dtype=dtype
        )
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
        query, key, value = functional.attention.batch_first(
            query, key, value, batched and not self.batch_first
        )
        if not batched and key_padding_mask is not None:
            key_padding_mask = key_padding_mask.unsqueeze(0)
        separate = (self.q_proj_weight, self.k_proj_weight, self.v_proj_weight)
        q, k, v = functional.attention.projected(
            (query, key, value), self.in_proj_weight, separate, self.in_proj_bias
        )
        out, weights = functional.attention.in_heads(
            q,
            k,
            v,
            self.num_heads,
            extra=(self.bias_k, self.bias_v),
            zero_key=self.add_zero_attn,
            dropout_p=self.dropout if self.training else 0.0,
            padding=key_padding_mask,
            mask=attn_mask,
            need_weights=need_weights,
        )
        out = self.out_proj(out)
        eager = isinstance(out._array, np.ndarray)
        if eager and isinstance(default_generator.stream, MersenneStream):
            # PyTorch leaves time first in memory, the order in which dropout draws after it.
            out = out.transpose(0, 1).contiguous().transpose(0, 1)
        if weights is not None and average_attn_weights:
            weights = weights.mean(dim=1)
        if not batched:
            return out.squeeze(0), None if weights is None else weights.squeeze(0)
        return (out if self.batch_first else out.transpose(0, 1)), weights
