"""Batching rules of network ops. Samples join the batch that these ops have, or their groups."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gradwalk.batching.lanes import Lanes, spread
from gradwalk.batching.rules.elementwise import elementwise, side_by_side
from gradwalk.batching.rules.reduce import shifted
from gradwalk.ops.core.op import Op
from gradwalk.ops.elementwise.activation import gelu_exact, gelu_tanh
from gradwalk.ops.network import attention, convolution, normalization, pooling, recurrent, softmax
from gradwalk.ops.shape.reshaping import permute, reshape


def _merged(x: Any, axis: int) -> Any:
    """Two neighbouring axes as one."""
    shape = x.shape
    return reshape(x, shape=(*shape[:axis], shape[axis] * shape[axis + 1], *shape[axis + 2 :]))


def _parted(x: Any, axis: int, first: int, second: int | None = None) -> Any:
    """One axis as two, of which the first is `first` long; the second need be given only where
    there may be no samples."""
    shape = x.shape
    second = shape[axis] // first if second is None else second
    return reshape(x, shape=(*shape[:axis], first, second, *shape[axis + 1 :]))


def _swapped(x: Any, axis: int) -> Any:
    """Two neighbouring axes in the other order."""
    axes = list(range(len(x.shape)))
    axes[axis], axes[axis + 1] = axis + 1, axis
    return permute(x, axes=tuple(axes))


# -- convolution -----------------------------------------------------------------------------------


def convolve(op: Op, args: Sequence[Any], attrs: dict[str, Any], size: int) -> Any:
    """conv and conv_input: samples that share the weight are more images, others are groups."""
    x, weight = args
    if not weight.batched:
        return _parted(op(_merged(x.inner, 0), weight.inner, **attrs), 0, size, x.shape[0])
    if not x.batched and attrs["groups"] == 1 and op is convolution.conv:  # more output channels
        return _swapped(_parted(op(x.inner, _merged(weight.inner, 0), **attrs), 1, size), 0)
    groups = {"groups": size * attrs["groups"]}
    out = op(_as_channels(x, size), _merged(weight.inner, 0), **attrs | groups)
    return _swapped(_parted(out, 1, size), 0)


def _as_channels(x: Lanes, size: int) -> Any:
    """(sample, batch, channel, ...) as (batch, sample × channel, ...)."""
    return _merged(_swapped(spread(x, size), 0), 1)


def convolve_with_bias(op: Op, args: Sequence[Any], attrs: dict[str, Any], size: int) -> Any:
    """conv_bias: more images, if the samples share weight and bias."""
    x, weight, bias = args
    if weight.batched or bias.batched:
        return NotImplemented
    out = op(_merged(x.inner, 0), weight.inner, bias.inner, **attrs)
    return _parted(out, 0, size, x.shape[0])


def weight_of_convolution(op: Op, args: Sequence[Any], attrs: dict[str, Any], size: int) -> Any:
    """conv_weight, which sums over images: each sample is a group."""
    x, y = args
    groups = {"groups": size * attrs["groups"]}
    out = op(_as_channels(x, size), _as_channels(y, size), **attrs | groups)
    return _parted(out, 0, size)


# -- normalisation, attention, losses --------------------------------------------------------------


def normalize(op: Op, args: Sequence[Any], attrs: dict[str, Any], size: int) -> Any:
    """Statistics along the same axes of each sample; all operands have equally many."""
    x, *others = args
    operands = [a.inner if a.batched else reshape(a.inner, shape=(1, *a.shape)) for a in others]
    return op(spread(x, size), *operands, **attrs | {"axes": shifted(attrs["axes"])})


def pull_normalized(op: Op, args: Sequence[Any], attrs: dict[str, Any], size: int) -> Any:
    """The gradient of a scaled normalisation: each sample has a gradient of the weight."""
    own = {"axes": shifted(attrs["axes"]), "bias_shape": (size, *attrs["bias_shape"])}
    return op(*[spread(a, size) for a in args], **attrs | own)


def parted_rows(op: Op, args: Sequence[Any], attrs: dict[str, Any], size: int) -> Any:
    """cross_entropy: more rows."""
    made = op(*[_merged(spread(a, size), 0) for a in args], **attrs)
    if not op.multiple:
        return _parted(made, 0, size, args[0].shape[0])
    return tuple([_parted(part, 0, size, args[0].shape[0]) for part in made])


# -- recurrence ------------------------------------------------------------------------------------


def recur(op: Op, args: Sequence[Any], attrs: dict[str, Any], size: int) -> Any:
    """lstm, gru, rnn: a larger batch, if the samples share the weights."""
    states = 2 if op is recurrent.lstm_op else 1
    x, *others = args
    if any(w.batched for w in others[states:]):
        return NotImplemented
    batch = _merged(_swapped(spread(x, size), 0), 1)  # (time, sample × batch, features)
    state = [_merged(spread(h, size), 0) for h in others[:states]]
    made = op(batch, *state, *[w.inner for w in others[states:]], **attrs)
    if op is not recurrent.lstm_op:
        return _swapped(_parted(made, 1, size), 0)
    out, cell = made
    return _swapped(_parted(out, 1, size), 0), _parted(cell, 0, size)


_SIDE_BY_SIDE = (
    pooling.max_pool, pooling.max_pool_indices, pooling.scatter_last, pooling.gather_last,
    pooling.pool_sum, pooling.pool_spread, attention.attention_op,
    softmax.binary_cross_entropy_op, softmax.binary_cross_entropy_logits_op,
)  # fmt: skip

RULES = {
    **dict.fromkeys(_SIDE_BY_SIDE, side_by_side),
    gelu_exact: elementwise,
    gelu_tanh: elementwise,
    softmax.cross_entropy_op: parted_rows,
    convolution.conv: convolve,
    convolution.conv_input: convolve,
    convolution.conv_bias: convolve_with_bias,
    convolution.conv_weight: weight_of_convolution,
    normalization.standardize: normalize,
    normalization.standardize_affine: normalize,
    recurrent.lstm_op: recur,
    recurrent.gru_op: recur,
    recurrent.rnn_op: recur,
}
