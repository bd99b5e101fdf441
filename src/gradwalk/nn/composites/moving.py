"""Composites that move elements: repeat, stack, cut, pad, gather, scatter."""

from __future__ import annotations

from typing import Any

import numpy as np

from gradwalk.nn.composites.composite import composed, composite
from gradwalk.nn.functional import shuffle
from gradwalk.ops import TABLE
from gradwalk.ops.index import indexing as by_index
from gradwalk.ops.index import picking
from gradwalk.ops.shape import rearranging, reshaping

Axes = tuple[int, ...]

composite(
    "repeat",
    lambda x, *, repeats: rearranging.repeat(x, repeats),
    x="g summed over the repetitions",
)
composite("roll", lambda x, *, shifts, dims: rearranging.roll(x, shifts, dims), x="g rolled back")
composite("rot90", lambda x, *, turns, dims: rearranging.rot90(x, turns, dims), x="g turned back")
composite("pixel_shuffle", lambda x, *, factor: shuffle.pixel_shuffle(x, factor))
composite("pixel_unshuffle", lambda x, *, factor: shuffle.pixel_unshuffle(x, factor))
composite("channel_shuffle", lambda x, *, groups: shuffle.channel_shuffle(x, groups))

composite("stack", lambda *xs, axis: reshaping.stack(xs, axis), xs="the part of g it became")
composite(
    "unbind",
    lambda x, *, axis: rearranging.unbind(x, axis),
    outputs=("*pieces",),
    x="the gs, stacked",
)
composite("pad_or_cut", lambda x, *, pad, value: reshaping.pad(x, pad, value=value))
composite("pad_continued", lambda x, *, pad, mode: reshaping.pad(x, pad, mode))

composite(
    "masked_fill", picking.masked_fill, input="0 where {mask}, else g", value="Σ g where {mask}"
)
composite("take", by_index.take, input="g added at {index}")
composite(
    "gather", lambda x, index, *, axis: by_index.gather(x, axis, index), x="g added at {index}"
)
composite(
    "scatter",
    lambda x, index, src, *, axis: picking.scatter(x, axis, index, src),
    x="0 at {index}, else g",
    src="g at {index}",
)
composite(
    "scatter_add",
    lambda x, index, src, *, axis: by_index.scatter_add(x, axis, index, src),
    x="g",
    src="g at {index}",
)
composite(
    "index_add",
    lambda x, index, source, *, axis, alpha: picking.index_add(x, axis, index, source, alpha=alpha),
    x="g",
    source="alpha × g at {index}",
)
composite(
    "index_copy",
    lambda x, index, source, *, axis: picking.index_copy(x, axis, index, source),
    x="0 at {index}, else g",
    source="g at {index}",
)
composite(
    "index_fill",
    lambda x, index, value, *, axis: picking.index_fill(x, axis, index, value),
    x="0 at {index}, else g",
    value="Σ g at {index}",
)


@composed()
def index_put_added(x: Any, values: Any, *indices: Any, index: tuple[Any, ...]) -> Any:
    return x + picking.put_addend(x, index, indices, values)


@composed(x="g added where the windows overlap")
def im2col(x: Any, *, kernel: Axes, dilation: Axes, padding: Axes, stride: Axes) -> Any:
    """The windows of images as columns: (batch, channels × window, windows)."""
    rows, columns = padding
    x = reshaping.pad(x, (columns, columns, rows, rows))
    places = []
    for n, k, d, s in zip(x.shape[2:], kernel, dilation, stride):
        first = np.arange(0, n - d * (k - 1), s)  # of each window
        places.append(first[None, :] + d * np.arange(k)[:, None])  # (inside, windows)
    down, across = places[0][:, None, :, None], places[1][None, :, None, :]
    windows = by_index.take_item(x, (slice(None), slice(None), down, across))
    channels = x.shape[1] * kernel[0] * kernel[1]
    return reshaping.reshape(windows, shape=(x.shape[0], channels, -1))


@composed(x="g added at the places it came from")
def as_strided(x: Any, *, size: Axes, stride: Axes, offset: int) -> Any:
    """Elements of x in memory order, at `offset` and `stride` apart along each dimension."""
    places = np.full((1,) * len(size), offset)
    for axis, (n, step) in enumerate(zip(size, stride, strict=True)):
        shape = [-1 if k == axis else 1 for k in range(len(size))]
        places = places + (step * np.arange(n)).reshape(shape)
    return by_index.take(x, places.reshape(size))


# -- through views ---------------------------------------------------------------------------------

composite("read_view", lambda base, *, chain: by_index.through(base, chain))


@composed()
def change_view(
    base: Any, *others: Any, chain: tuple[Any, ...], op: str, place: int, attrs: dict[str, Any]
) -> Any:
    """A tensor after an op has changed a view of it; the view is the op's operand at `place`."""
    operands = (*others[:place], by_index.through(base, chain), *others[place:])
    return by_index.write_view(base, TABLE[op](*operands, **attrs), chain=chain)
