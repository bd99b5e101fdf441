"""Transformer layers, encoder and decoder."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np

from gradwalk.nn import functional, init
from gradwalk.nn.constructors import on_device
from gradwalk.nn.containers import ModuleList
from gradwalk.nn.layers.attention import MultiheadAttention
from gradwalk.nn.layers.dropout import Dropout
from gradwalk.nn.layers.linear import Linear
from gradwalk.nn.layers.normalization import LayerNorm
from gradwalk.nn.module import Module
from gradwalk.tensors import creation
from gradwalk.tensors.tensor import Tensor

__all__ = [
    "Transformer", "TransformerDecoder", "TransformerDecoderLayer", "TransformerEncoder",
    "TransformerEncoderLayer",
]  # fmt: skip

Activation = str | Callable[[Any], Any]


def _get_activation_fn(activation: Activation) -> Callable[[Any], Any]:
    if not isinstance(activation, str):
        return activation
    if activation not in ("relu", "gelu"):
        raise ValueError(f"activation is 'relu', 'gelu' or a function, not {activation!r}")
    return functional.relu if activation == "relu" else functional.gelu


def _get_clones(module: Module, N: int) -> ModuleList:
    """Copies of a module, each with parameters of its own; programs import it under this name."""
    return ModuleList([copy.deepcopy(module) for _ in range(N)])


def _attended(
    attention: Module, x: Any, memory: Any, padding: Any, mask: Any, is_causal: bool
) -> Any:
    """Attention from x to memory, without its weights."""
    out, _ = attention(
        x, memory, memory, padding, need_weights=False, attn_mask=mask, is_causal=is_causal
    )
    return out


class _TransformerLayer(Module):
    """What encoder and decoder layers share: attentions, a feed-forward net, norms, dropouts."""

    _attentions: ClassVar[tuple[str, ...]]  # each, and the feed-forward net, has norm and dropout
    self_attn: MultiheadAttention
    norm1: LayerNorm
    norm2: LayerNorm
    dropout1: Dropout
    dropout2: Dropout

    @on_device
    def __init__(
        self,
        d_model: int,
        nhead: int,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: Activation = "relu",
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        options: dict[str, Any] = dict(bias=bias, dtype=dtype)
        for name in self._attentions:
            attention = MultiheadAttention(
                d_model, nhead, dropout=dropout, batch_first=batch_first, **options
            )
            setattr(self, name, attention)
        self.linear1 = Linear(d_model, dim_feedforward, **options)
        self.dropout = Dropout(dropout)
        self.linear2 = Linear(dim_feedforward, d_model, **options)
        self.norm_first = norm_first
        numbers = range(1, len(self._attentions) + 2)
        for i in numbers:
            setattr(self, f"norm{i}", LayerNorm(d_model, eps=layer_norm_eps, **options))
        for i in numbers:
            setattr(self, f"dropout{i}", Dropout(dropout))
        self.activation = _get_activation_fn(activation)

    def _through(self, x: Any, *parts: Callable[[Any], Any]) -> Any:
        """Add each part, and the feed-forward net, to its input and normalize."""
        for i, part in enumerate((*parts, self._feed_forward), 1):
            norm, dropout = getattr(self, f"norm{i}"), getattr(self, f"dropout{i}")
            x = x + dropout(part(norm(x))) if self.norm_first else norm(x + dropout(part(x)))
        return x

    def _feed_forward(self, x: Any) -> Any:
        return self.linear2(self.dropout(self.activation(self.linear1(x))))


class TransformerEncoderLayer(_TransformerLayer):
    """Self-attention and a feed-forward net, each added to its input and normalized.

    >>> import gradwalk as gw
    >>> layer = gw.nn.TransformerEncoderLayer(8, 2, dim_feedforward=16, batch_first=True)
    >>> layer(gw.randn(2, 5, 8)).shape
    (2, 5, 8)
    """

    _attentions = ("self_attn",)

    def forward(
        self,
        src: Any,
        src_mask: Any = None,
        src_key_padding_mask: Any = None,
        is_causal: bool = False,
    ) -> Any:
        """The sequence after attention and feed-forward net."""

        masks = src_key_padding_mask, src_mask, is_causal
        return self._through(src, lambda x: _attended(self.self_attn, x, x, *masks))


class _Stack(Module):
    """Copies of a layer, and a norm at the end if one is given."""

    norm: Module | None

    def _add(self, layer: Module, num_layers: int, norm: Module | None) -> None:
        self.layers = ModuleList([copy.deepcopy(layer) for _ in range(num_layers)])
        self.num_layers = num_layers
        self.add_module("norm", norm)

    def _through(self, x: Any, *args: Any, **keywords: Any) -> Any:
        for layer in self.layers:
            x = layer(x, *args, **keywords)
        return x if self.norm is None else self.norm(x)


class TransformerEncoder(_Stack):
    """A stack of copies of an encoder layer, and a norm at the end if one is given."""

    def __init__(
        self,
        encoder_layer: TransformerEncoderLayer,
        num_layers: int,
        norm: Module | None = None,
        enable_nested_tensor: bool = True,
        mask_check: bool = True,
    ) -> None:
        super().__init__()
        self._add(encoder_layer, num_layers, norm)

    def forward(
        self,
        src: Any,
        mask: Any = None,
        src_key_padding_mask: Any = None,
        is_causal: bool | None = None,
    ) -> Any:
        """The sequence after all layers."""
        masks = {"src_mask": mask, "src_key_padding_mask": src_key_padding_mask}
        return self._through(src, **masks, is_causal=bool(is_causal))


class TransformerDecoderLayer(_TransformerLayer):
    """Self-attention, attention to an encoder's output, and a feed-forward net."""

    _attentions = ("self_attn", "multihead_attn")
    multihead_attn: MultiheadAttention
    norm3: LayerNorm
    dropout3: Dropout

    def forward(
        self,
        tgt: Any,
        memory: Any,
        tgt_mask: Any = None,
        memory_mask: Any = None,
        tgt_key_padding_mask: Any = None,
        memory_key_padding_mask: Any = None,
        tgt_is_causal: bool = False,
        memory_is_causal: bool = False,
    ) -> Any:
        """The target sequence after both attentions and the feed-forward net."""

        own = tgt_key_padding_mask, tgt_mask, tgt_is_causal
        other = memory_key_padding_mask, memory_mask, memory_is_causal
        return self._through(
            tgt,
            lambda x: _attended(self.self_attn, x, x, *own),
            lambda x: _attended(self.multihead_attn, x, memory, *other),
        )


class TransformerDecoder(_Stack):
    """A stack of copies of a decoder layer, and a norm at the end if one is given."""

    def __init__(
        self, decoder_layer: TransformerDecoderLayer, num_layers: int, norm: Module | None = None
    ) -> None:
        super().__init__()
        self._add(decoder_layer, num_layers, norm)

    def forward(
        self,
        tgt: Any,
        memory: Any,
        tgt_mask: Any = None,
        memory_mask: Any = None,
        tgt_key_padding_mask: Any = None,
        memory_key_padding_mask: Any = None,
        tgt_is_causal: bool | None = None,
        memory_is_causal: bool = False,
    ) -> Any:
        """The target sequence after all layers."""
        masks = tgt_mask, memory_mask, tgt_key_padding_mask, memory_key_padding_mask
        return self._through(tgt, memory, *masks, bool(tgt_is_causal), memory_is_causal)


class Transformer(Module):
    """Encoder and decoder, as in "Attention is all you need"."""

    @on_device
    def __init__(
        self,
        d_model: int = 512,
        nhead: int = 8,
        num_encoder_layers: int = 6,
        num_decoder_layers: int = 6,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: Activation = "relu",
        custom_encoder: Module | None = None,
        custom_decoder: Module | None = None,
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        options: dict[str, Any] = dict(
            dim_feedforward=dim_feedforward,
            dropout=dropout,
            activation=activation,
            layer_norm_eps=layer_norm_eps,
            batch_first=batch_first,
            norm_first=norm_first,
            bias=bias,
            dtype=dtype,
        )

        def norm() -> LayerNorm:
            return LayerNorm(d_model, eps=layer_norm_eps, bias=bias, dtype=dtype)

        self.encoder = custom_encoder or TransformerEncoder(
            TransformerEncoderLayer(d_model, nhead, **options), num_encoder_layers, norm()
        )
        self.decoder = custom_decoder or TransformerDecoder(
            TransformerDecoderLayer(d_model, nhead, **options), num_decoder_layers, norm()
        )
        self.d_model = d_model
        self.nhead = nhead
        self.batch_first = batch_first
        for parameter in self.parameters():
            if parameter.ndim > 1:
                init.xavier_uniform_(parameter)

    def forward(
        self,
        src: Any,
        tgt: Any,
        src_mask: Any = None,
        tgt_mask: Any = None,
        memory_mask: Any = None,
        src_key_padding_mask: Any = None,
        tgt_key_padding_mask: Any = None,
        memory_key_padding_mask: Any = None,
        src_is_causal: bool | None = None,
        tgt_is_causal: bool | None = None,
        memory_is_causal: bool = False,
    ) -> Any:
        """The target sequence after the decoder, which attends to the encoded source."""
        memory = self.encoder(src, src_mask, src_key_padding_mask, src_is_causal)
        masks = tgt_mask, memory_mask, tgt_key_padding_mask, memory_key_padding_mask
        return self.decoder(tgt, memory, *masks, tgt_is_causal, memory_is_causal)

    @staticmethod
    def generate_square_subsequent_mask(sz: int, device: Any = None, dtype: Any = None) -> Tensor:
        """−∞ above the diagonal, 0 elsewhere: it hides later keys from each query."""
        return creation.full((sz, sz), -np.inf, dtype=dtype, device=device).triu(1)
