"""Shape operations: views, copies, joining, splitting, padding."""

from __future__ import annotations

import math
from typing import Any

import torch

from gradwalk.ops.shape.reshaping import normal_axis
from gradwalk.torch.translate.table import (
    COMPLEX,
    LEAF,
    TABLE,
    AtenCall,
    Known,
    direct,
    entry,
    has_dims,
    numpy_dtype,
    same,
)

# -- copies and casts ------------------------------------------------------------------------------

direct("clone contiguous", "clone", "self")
direct("alias alias_copy detach detach_copy lift lift_fresh lift_fresh_copy", "alias", "self")


def _in_dtype(source: Any, wanted: Any) -> Known | None:
    if wanted is None or wanted == source.dtype:
        return Known("clone", (source,))
    if COMPLEX.get(wanted) == source.dtype:
        return Known("complex_of", (source,), pairs=True)
    dtype = numpy_dtype(wanted)
    return None if dtype is None else Known("cast", (source,), {"dtype": dtype})


entry("_to_copy")(lambda c: _in_dtype(c.self, c.dtype))


def _overwrites(c: AtenCall) -> bool:
    """Whether autograd sees a write: the old value is then an operand, with a gradient of 0."""
    given = [value for value in c.values.values() if isinstance(value, torch.Tensor)]
    return torch.is_grad_enabled() and any(tensor.requires_grad for tensor in given)


@entry("copy_")
def _written(c: AtenCall) -> Known | None:
    exact = c.self.dtype in (c.src.dtype, torch.float32, torch.float64)
    if _overwrites(c) and exact:
        return _set(c, c.src)
    return _copy(c)


def _set(c: AtenCall, value: Any) -> Known:
    return Known("setitem", (c.self, value), {"index": ("...",)})


@entry("copy")
def _copy(c: AtenCall) -> Known | None:
    if c.src.shape != c.self.shape:
        same = c.src.dtype == c.self.dtype
        return Known("expand", (c.src,), {"shape": tuple(c.self.shape)}) if same else None
    return _in_dtype(c.src, c.self.dtype)


direct(
    "fill.Tensor", "expand", "value",
    when=lambda c: c.value.dtype == c.self.dtype, shape=lambda c: tuple(c.self.shape),
)  # fmt: skip


@entry("fill_.Scalar", "zero_")
def _filled(c: AtenCall) -> Known:
    if not _overwrites(c):
        return Known(LEAF)
    return _set(c, float(c.values.get("value", 0)))


@entry("fill_.Tensor")
def _filled_alike(c: AtenCall) -> Known | None:
    return _set(c, c.value) if _overwrites(c) else TABLE["fill.Tensor"](c)


# -- views -----------------------------------------------------------------------------------------


def _viewed(c: AtenCall) -> tuple[int, ...]:
    sizes = tuple(c.size if "size" in c.values else c.shape)
    known = -math.prod(sizes) if -1 in sizes else 1
    left = c.self.numel() // known if known else 0
    return tuple(left if n == -1 else int(n) for n in sizes)


def _squeezed(c: AtenCall) -> tuple[int, ...]:
    axes = c.axes() if c.values.get("dim") != [] else ()
    return tuple(n for i, n in enumerate(c.self.shape) if not (i in axes and n == 1))


def _unsqueezed(c: AtenCall) -> tuple[int, ...]:
    axis, shape = c.axis(ndim=c.self.dim() + 1), tuple(c.self.shape)
    return (*shape[:axis], 1, *shape[axis:])


def _swapped(c: AtenCall) -> tuple[int, ...]:
    axes = list(range(c.self.dim()))
    if axes:
        first, second = c.axis("dim0"), c.axis("dim1")
        axes[first], axes[second] = axes[second], axes[first]
    return tuple(axes)


def _all_axes(c: AtenCall) -> tuple[int, ...]:
    return tuple(normal_axis(d, c.self.dim()) for d in c.dims)


def _expanded(c: AtenCall) -> tuple[int, ...]:
    lead = len(c.size) - c.self.dim()
    return tuple(c.self.shape[i - lead] if n == -1 else int(n) for i, n in enumerate(c.size))


direct("view _unsafe_view reshape view_copy _reshape_alias", "reshape", "self", shape=_viewed)
direct(
    "squeeze squeeze_copy squeeze.dim squeeze.dims squeeze_copy.dim squeeze_copy.dims",
    "reshape", "self", shape=_squeezed,
)  # fmt: skip
direct("unsqueeze unsqueeze_copy", "reshape", "self", shape=_unsqueezed)
direct("t t_copy", "permute", "self", axes=lambda c: tuple(reversed(range(c.self.dim()))))
direct("transpose.int transpose_ transpose_copy.int", "permute", "self", axes=_swapped)
direct("permute permute_copy", "permute", "self", axes=_all_axes)
direct("expand expand_copy", "expand", "self", shape=_expanded)


def _only_relabels(c: AtenCall) -> bool:
    """Whether each element keeps its place: strides of dimensions of length 1 say nothing."""
    strides = zip(c.self.shape, c.self.stride(), c.stride, strict=False)
    same = list(c.size) == list(c.self.shape) and all(n == 1 or a == b for n, a, b in strides)
    return same and c.storage_offset in (None, c.self.storage_offset())


def placed_within(
    whole: torch.Tensor, size: Any, stride: Any, offset: int | None
) -> dict[str, Any] | None:
    """Where a strided view lies in a contiguous tensor; None if it reaches beyond its elements."""
    start = int(whole.storage_offset())
    first = (start if offset is None else offset) - start
    last = first + sum((n - 1) * step for n, step in zip(size, stride, strict=True))
    inside = first >= 0 and (last < whole.numel() or 0 in size)
    if not inside or not whole.is_contiguous():
        return None
    return {"size": tuple(size), "stride": tuple(stride), "offset": first}


@entry("as_strided", "as_strided_copy")
def _as_strided(c: AtenCall) -> Known | None:
    if _only_relabels(c):
        return Known("alias", (c.self,))
    attrs = placed_within(c.self, c.size, c.stride, c.storage_offset)
    return None if attrs is None else Known("as_strided", (c.self,), attrs)


direct(
    "diagonal diagonal_copy", "diagonal", "self",
    offset="offset", axes=lambda c: (c.axis("dim1"), c.axis("dim2")),
)  # fmt: skip
direct(
    "unfold unfold_copy", "windows", "self",
    when=has_dims, axis=lambda c: c.axis("dimension"), size="size", step="step",
)  # fmt: skip


@entry("diag_embed")
def _diag_embed(c: AtenCall) -> Known:
    ndim = c.self.dim() + 1
    axes = c.axis("dim1", ndim), c.axis("dim2", ndim)
    side, sizes = c.self.shape[-1] + abs(c.offset), iter(c.self.shape[:-1])
    shape = tuple(side if i in axes else next(sizes) for i in range(ndim))
    return Known("diagonal_put", (c.self,), {"shape": shape, "offset": c.offset, "axes": axes})


# -- order and repetition --------------------------------------------------------------------------

direct("flip", "flip", "self", axis=_all_axes)
same("repeat", "self", attrs="repeats")
same("triu tril", "self", attrs="diagonal")
same("roll", "self", attrs="shifts dims")
direct("rot90", "rot90", "self", turns="k", dims="dims")
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
    return Known("concatenate", tuple(joined), {"axis": c.axis(ndim=joined[0].dim())})


@entry("stack")
def _stack(c: AtenCall) -> Known:
    return Known("stack", tuple(c.tensors), {"axis": c.axis(ndim=c.tensors[0].dim() + 1)})


def _cut(c: AtenCall, sizes: list[int]) -> Known:
    attrs = {"sizes": tuple(sizes), "axis": c.axis()}
    return Known("split", (c.self,), attrs, tuple(range(len(sizes))))


def _in_pieces(c: AtenCall, size: int) -> Known:
    whole, rest = divmod(c.self.shape[c.axis()], size)
    return _cut(c, [size] * whole + ([rest] if rest or not whole else []))


@entry("split.Tensor", "split_copy.Tensor", "unsafe_split.Tensor")
def _split(c: AtenCall) -> Known | None:
    return _in_pieces(c, c.split_size) if c.split_size else None


@entry("split_with_sizes", "split_with_sizes_copy", "unsafe_split_with_sizes", "split.sizes")
def _split_with_sizes(c: AtenCall) -> Known:
    return _cut(c, list(c.split_sizes if "split_sizes" in c.values else c.split_size))


@entry("chunk", "unsafe_chunk")
def _chunk(c: AtenCall) -> Known:
    return _in_pieces(c, max(-(-c.self.shape[c.axis()] // c.chunks), 1))


direct(
    "unbind.int unbind_copy.int", "unbind", "self",
    lambda c: tuple(range(c.self.shape[c.axis()])), axis=AtenCall.axis,
)  # fmt: skip

# -- padding ---------------------------------------------------------------------------------------


@entry("constant_pad_nd", "pad")
def _pad(c: AtenCall) -> Known | None:
    if c.values.get("mode", "constant") != "constant":
        return Known("pad_continued", (c.self,), {"pad": tuple(c.pad), "mode": c.mode})
    pairs = [(c.pad[i], c.pad[i + 1]) for i in range(0, len(c.pad), 2)]
    value = 0 if c.value is None else c.value
    if any(n < 0 for pair in pairs for n in pair):
        return Known("pad_or_cut", (c.self,), {"pad": tuple(c.pad), "value": value})
    widths = ((0, 0),) * (c.self.dim() - len(pairs)) + tuple(reversed(pairs))
    return Known("pad", (c.self,), {"widths": widths, "value": value})


for theirs, how in (("reflection", "reflect"), ("replication", "replicate")):
    names = f"{theirs}_pad1d {theirs}_pad2d {theirs}_pad3d"
    direct(names, "pad_continued", "self", pad="padding", mode=lambda c, how=how: how)
