"""Batching rules of ops that change the shape. Views stay views."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gradwalk.batching.lanes import aligned, spread
from gradwalk.batching.rules.elementwise import elementwise
from gradwalk.batching.rules.reduce import shifted
from gradwalk.ops.core.op import Op
from gradwalk.ops.index.indexing import getitem
from gradwalk.ops.shape import rearranging, reshaping

_EVERY = ("slice", None, None, None)

# For each view op its attributes, for all samples.
BATCHED_ATTRIBUTES: dict[Op, Any] = {
    reshaping.reshape: lambda count, *, shape: {"shape": (count, *shape)},
    reshaping.expand_op: lambda count, *, shape: {"shape": (count, *shape)},
    reshaping.permute: lambda count, *, axes: {"axes": (0, *shifted(axes))},
    reshaping.split_op: lambda count, *, sizes, axis: {"sizes": sizes, "axis": axis + 1},
    reshaping.alias: lambda count: {},
    rearranging.diagonal_op: lambda count, *, axes, **attrs: {"axes": shifted(axes), **attrs},
    rearranging.windows_op: lambda count, *, axis, **attrs: {"axis": axis + 1, **attrs},
    getitem: lambda count, *, index: {"index": (_EVERY, *index)},
}


def view(op: Op, args: Sequence[Any], attrs: dict[str, Any], size: int) -> Any:
    """A view op on one operand."""
    return op(args[0].inner, **BATCHED_ATTRIBUTES[op](size, **attrs))


def expand(op: Op, args: Sequence[Any], attrs: dict[str, Any], size: int) -> Any:
    """New axes of one sample come after the first."""
    shape = attrs["shape"]
    return op(aligned(args[0], len(shape)), shape=(size, *shape))


def pad(op: Op, args: Sequence[Any], attrs: dict[str, Any], size: int) -> Any:
    """Nothing is added to the samples."""
    return op(args[0].inner, widths=((0, 0), *attrs["widths"]), value=attrs["value"])


def join(op: Op, args: Sequence[Any], attrs: dict[str, Any], size: int) -> Any:
    """The parts of every sample."""
    return op(*[spread(a, size) for a in args], axis=attrs["axis"] + 1)


def transposed_view(op: Op, args: Sequence[Any], attrs: dict[str, Any], size: int) -> Any:
    """An op that puts elements into zeros of `shape`, along `axis` or `axes`."""
    moved = {name: shifted(attrs[name]) for name in ("axis", "axes") if name in attrs}
    return op(args[0].inner, **attrs | moved | {"shape": (size, *attrs["shape"])})


RULES = {
    **{op: view for op in BATCHED_ATTRIBUTES if op is not getitem},
    reshaping.expand_op: expand,
    reshaping.pad_op: pad,
    reshaping.concatenate: join,
    reshaping.cast: elementwise,
    reshaping.clone: elementwise,
    rearranging.diagonal_put: transposed_view,
    rearranging.windows_add: transposed_view,
}
