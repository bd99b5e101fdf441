"""Shape operations: views, copies, joining, splitting, padding."""

from __future__ import annotations

import math
from typing import Any

from gradwalk.ops.shape.reshaping import normal_axis
from gradwalk.torch.translate.table import AtenCall, Known, direct, entry, numpy_dtype

# -- copies and casts ------------------------------------------------------------------------------

direct("clone contiguous", "clone", "self")
direct("alias alias_copy detach detach_copy lift lift_fresh lift_fresh_copy", "alias", "self")


@entry("_to_copy")
def _to_copy(c: AtenCall) -> Known | None:
    return _in_dtype(c.self, c.dtype)


def _in_dtype(source: Any, wanted: Any) -> Known | None:
    if wanted is None or wanted == source.dtype:
        return Known("clone", (source,))
    dtype = numpy_dtype(wanted)
    return None if dtype is None else Known("cast", (source,), {"dtype": dtype})


@entry("copy", "copy_")
def _copy(c: AtenCall) -> Known | None:
    if c.src.shape != c.self.shape:
        same = c.src.dtype == c.self.dtype
        return Known("expand", (c.src,), {"shape": tuple(c.self.shape)}) if same else None
    return _in_dtype(c.src, c.self.dtype)


@entry("fill.Tensor")
def _fill(c: AtenCall) -> Known | None:
    if c.value.dtype != c.self.dtype:
        return None
    return Known("expand", (c.value,), {"shape": tuple(c.self.shape)})


# -- views -----------------------------------------------------------------------------------------


def _reshaped(x: Any, shape: tuple[int, ...]) -> Known:
    return Known("reshape", (x,), {"shape": shape})


@entry("view", "_unsafe_view", "reshape", "view_copy", "_reshape_alias")
def _view(c: AtenCall) -> Known:
    sizes = tuple(c.size if "size" in c.values else c.shape)
    known = -math.prod(sizes) if -1 in sizes else 1
    left = c.self.numel() // known if known else 0
    return _reshaped(c.self, tuple(left if n == -1 else int(n) for n in sizes))


@entry("squeeze", "squeeze_copy")
def _squeeze(c: AtenCall) -> Known:
    return _reshaped(c.self, tuple(n for n in c.self.shape if n != 1))


@entry("squeeze.dim", "squeeze.dims", "squeeze_copy.dim", "squeeze_copy.dims")
def _squeeze_dims(c: AtenCall) -> Known:
    axes = c.axes() if c.dim != [] else ()
    kept = (n for i, n in enumerate(c.self.shape) if not (i in axes and n == 1))
    return _reshaped(c.self, tuple(kept))


@entry("unsqueeze", "unsqueeze_copy")
def _unsqueeze(c: AtenCall) -> Known:
    axis, shape = normal_axis(c.dim, c.self.dim() + 1), tuple(c.self.shape)
    return _reshaped(c.self, (*shape[:axis], 1, *shape[axis:]))


@entry("t", "t_copy")
def _t(c: AtenCall) -> Known:
    return Known("permute", (c.self,), {"axes": tuple(reversed(range(c.self.dim())))})


@entry("transpose.int", "transpose_copy.int")
def _transpose(c: AtenCall) -> Known:
    axes = list(range(c.self.dim()))
    if axes:
        first, second = c.axis("dim0"), c.axis("dim1")
        axes[first], axes[second] = axes[second], axes[first]
    return Known("permute", (c.self,), {"axes": tuple(axes)})


direct("permute permute_copy", "permute", "self", axes=lambda c: _all_axes(c))


def _all_axes(c: AtenCall) -> tuple[int, ...]:
    return tuple(normal_axis(d, c.self.dim()) for d in c.dims)


@entry("expand", "expand_copy")
def _expand(c: AtenCall) -> Known:
    lead = len(c.size) - c.self.dim()
    shape = tuple(c.self.shape[i - lead] if n == -1 else int(n) for i, n in enumerate(c.size))
    return Known("expand", (c.self,), {"shape": shape})


@entry("diagonal", "diagonal_copy")
def _diagonal(c: AtenCall) -> Known:
    return Known(
        "diagonal", (c.self,), {"offset": c.offset, "axes": (c.axis("dim1"), c.axis("dim2"))}
    )


@entry("diag_embed")
def _diag_embed(c: AtenCall) -> Known:
    ndim = c.self.dim() + 1
    axes = normal_axis(c.dim1, ndim), normal_axis(c.dim2, ndim)
    side, sizes = c.self.shape[-1] + abs(c.offset), iter(c.self.shape[:-1])
    shape = tuple(side if i in axes else next(sizes) for i in range(ndim))
    return Known("diagonal_put", (c.self,), {"shape": shape, "offset": c.offset, "axes": axes})


@entry("unfold", "unfold_copy")
def _unfold(c: AtenCall) -> Known | None:
    if not c.self.dim():
        return None
    attrs = {"axis": c.axis("dimension"), "size": c.size, "step": c.step}
    return Known("windows", (c.self,), attrs)


# -- order and repetition --------------------------------------------------------------------------

direct("flip", "flip", "self", axis=lambda c: _all_axes(c))
direct("repeat", "repeat", "self", repeats=lambda c: tuple(c.repeats))
direct("triu", "triu", "self", diagonal="diagonal")
direct("tril", "tril", "self", diagonal="diagonal")
direct("roll", "roll", "self", shifts=lambda c: tuple(c.shifts), dims=lambda c: tuple(c.dims))
direct("rot90", "rot90", "self", turns="k", dims=lambda c: tuple(c.dims))
direct("pixel_shuffle", "pixel_shuffle", "self", factor="upscale_factor")
direct("pixel_unshuffle", "pixel_unshuffle", "self", factor="downscale_factor")
direct("channel_shuffle native_channel_shuffle", "channel_shuffle", "self", groups="groups")


# -- joining and cutting ---------------------------------------------------------------------------


@entry("cat")
def _cat(c: AtenCall) -> Known | None:
    # PyTorch accepts a legacy empty tensor of shape (0,) beside any shape; drop it.
    full = [t for t in c.tensors if t.shape != (0,)]
    joined = full if any(t.dim() > 1 for t in full) else c.tensors
    if len({t.dtype for t in c.tensors}) > 1:
        return None
    return Known("concatenate", tuple(joined), {"axis": normal_axis(c.dim, joined[0].dim())})


@entry("stack")
def _stack(c: AtenCall) -> Known:
    axis = normal_axis(c.dim, c.tensors[0].dim() + 1)
    return Known("stack", tuple(c.tensors), {"axis": axis})


def _cut(c: AtenCall, sizes: list[int]) -> Known:
    return Known(
        "split", (c.self,), {"sizes": tuple(sizes), "axis": c.axis()}, tuple(range(len(sizes)))
    )


@entry("split.Tensor", "split_copy.Tensor", "unsafe_split.Tensor")
def _split(c: AtenCall) -> Known | None:
    length, size = c.self.shape[c.axis()], c.split_size
    if not size:
        return None
    whole, rest = divmod(length, size)
    return _cut(c, [size] * whole + ([rest] if rest or not length else []))


@entry("split_with_sizes", "split_with_sizes_copy", "unsafe_split_with_sizes", "split.sizes")
def _split_with_sizes(c: AtenCall) -> Known:
    return _cut(c, list(c.split_sizes if "split_sizes" in c.values else c.split_size))


@entry("chunk", "unsafe_chunk")
def _chunk(c: AtenCall) -> Known:
    length = c.self.shape[c.axis()]
    size = max(-(-length // c.chunks), 1)
    whole, rest = divmod(length, size)
    return _cut(c, [size] * whole + ([rest] if rest or not length else []))


@entry("unbind.int", "unbind_copy.int")
def _unbind(c: AtenCall) -> Known:
    axis = c.axis()
    return Known("unbind", (c.self,), {"axis": axis}, tuple(range(c.self.shape[axis])))


# -- padding ---------------------------------------------------------------------------------------


@entry("constant_pad_nd", "pad")
def _pad(c: AtenCall) -> Known | None:
    if c.values.get("mode", "constant") != "constant":
        return _continued(c)
    pairs = [(c.pad[i], c.pad[i + 1]) for i in range(0, len(c.pad), 2)]
    value = 0 if c.value is None else c.value
    if any(n < 0 for pair in pairs for n in pair):
        return Known("pad_or_cut", (c.self,), {"pad": tuple(c.pad), "value": value})
    widths = ((0, 0),) * (c.self.dim() - len(pairs)) + tuple(reversed(pairs))
    return Known("pad", (c.self,), {"widths": widths, "value": value})


def _continued(c: AtenCall) -> Known:
    return Known("pad_continued", (c.self,), {"pad": tuple(c.pad), "mode": c.mode})


for count in (1, 2, 3):
    for theirs, mode in (("reflection", "reflect"), ("replication", "replicate")):
        direct(
            f"{theirs}_pad{count}d", "pad_continued", "self", pad=lambda c: tuple(c.padding),
            mode=lambda c, mode=mode: mode,
        )  # fmt: skip
