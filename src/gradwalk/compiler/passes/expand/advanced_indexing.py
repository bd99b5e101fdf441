"""Index arrays with integers, slices and an ellipsis: first the view, then what the arrays pick.

    x[0, 2:, i]       is  x[0, 2:, :][:, i]
    x[i, :, j]        is  x with its last two dimensions exchanged, [i, j]
    x[0, 2:, i] = v   is  the same part of x with v written at [:, i], written to [0, 2:, :]
    x[mask] = v       is  where(mask, v, x)

So kernels that gather and scatter see whole arrays, and a mask needs neither. A write to a view of
a view becomes one write:

    y = x[0]; y[2] = v   is  x[0][2] = v
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gradwalk.compiler.ir.program import (
    Args,
    Builder,
    Call,
    Constant,
    Operand,
    Rewritten,
    Term,
    rewrites,
)
from gradwalk.ops.core.op import Shape
from gradwalk.ops.elementwise.choice import where
from gradwalk.ops.index.indexing import Index, getitem, put, setitem, write_view
from gradwalk.ops.shape.reshaping import cast, expand_op, permute

WHOLE = ("slice", None, None, None)


@rewrites(getitem, put, setitem, write_view)
def separate_views(call: Call, args: Args, build: Builder) -> Rewritten:
    """Write every index as a view, and index arrays with whole dimensions."""
    if call.op is write_view:
        return _through_both(call, args, build)
    first, *arrays = args
    value = arrays.pop(0) if call.op is setitem else 0
    assert isinstance(first, Term)
    index = call.attrs["index"]
    if not arrays or not all(t.size for t in call.terms) or (None in index and _has_mask(index)):
        return None
    parts = _parts(index, call.attrs["shape"] if call.op is put else first.shape)
    if call.op is put:
        plain = build.reshape(first, _picked(parts, arrays))
        result = build.apply(put, (plain, *arrays), {"index": parts.arrays, "shape": parts.ordered})
        result = _unordered(result, parts, build)
        if not parts.is_whole:
            result = build.apply(put, (result,), {"index": parts.view, "shape": parts.shape})
        return [result]
    seen = first if parts.is_whole else build.apply(getitem, (first,), {"index": parts.view})
    if parts.in_other_order:
        seen = build.apply(permute, (seen,), {"axes": parts.order})
    if call.op is getitem:
        result = build.apply(getitem, (seen, *arrays), {"index": parts.arrays})
        return [build.reshape(result, call.outputs[0].shape)]
    if isinstance(value, Term) and None in index:  # it has dimensions for these
        shapes = [a.shape for a in arrays if isinstance(a, Term)]
        value = build.apply(expand_op, (value,), {"shape": _shape(first.shape, shapes, index)})
        value = build.reshape(value, _picked(parts, arrays))
    changed = _changed(seen, value, arrays, parts, build)
    if changed is None:
        return None
    changed = _unordered(changed, parts, build)
    if not parts.is_whole:
        changed = build.apply(setitem, (first, changed), {"index": parts.view})
    return [changed]


# -- the parts of an index -------------------------------------------------------------------------


@dataclass
class _Parts:
    """The parts of an index: a view, a permutation of its dimensions, and index arrays on that."""

    shape: Shape
    view: Index  # an integer or a slice for each dimension
    order: tuple[int, ...]  # of the dimensions that the view leaves
    ordered: Shape  # what they are then
    arrays: Index  # index arrays and whole dimensions

    @property
    def is_whole(self) -> bool:
        """Whether the view is the array itself."""
        return all(part == WHOLE for part in self.view)

    @property
    def in_other_order(self) -> bool:
        """Whether dimensions are permuted."""
        return self.order != tuple(range(len(self.order)))


def _parts(index: Index, shape: Shape) -> _Parts:
    taken = sum(_dimensions(part) for part in index)
    dots_at = index.index("...") if "..." in index else len(index)
    dots = [WHOLE] * (len(shape) - taken)
    view: list[Any] = []
    left: list[Any] = []  # what is done to the dimensions of the view
    for part in (*index[:dots_at], *dots, *index[dots_at + 1 :]):
        is_slice = isinstance(part, tuple) and part[0] == "slice"
        view += [part] if is_slice or isinstance(part, int) else [WHOLE] * _dimensions(part)
        if not isinstance(part, int):
            left.append(WHOLE if is_slice else part)
    chosen = [i for i, part in enumerate(left) if part is not None and part != WHOLE]
    apart = chosen[-1] - chosen[0] >= len(chosen)
    axes = [part for part in left if part is not None]
    order = range(sum(_dimensions(part) for part in axes))
    if apart:  # NumPy moves index arrays that are not adjacent to the front
        order = sorted(order, key=lambda i: axes[i] == WHOLE)  # type: ignore[assignment]
        axes = [axes[i] for i in order]
    seen = np.broadcast_to(False, shape)[tuple(_subscript(part) for part in view)].shape
    ordered = tuple(seen[i] for i in order)
    return _Parts(shape, tuple(view), tuple(order), ordered, tuple(axes))


def _dimensions(part: Any) -> int:
    """How many dimensions of the array a part of an index covers."""
    if part is None or part == "...":
        return 0
    return int(part[2]) if isinstance(part, tuple) and part[0] == "mask" else 1


def _has_mask(index: Index) -> bool:
    return any(isinstance(part, tuple) and part[0] == "mask" for part in index)


def _subscript(part: Any) -> Any:
    return part if isinstance(part, int) else slice(*part[1:])


def _picked(parts: _Parts, arrays: Sequence[Operand]) -> Shape:
    """The shape of what the arrays pick."""
    lead = next(i for i, part in enumerate(parts.arrays) if part != WHOLE)
    shape = np.broadcast_shapes(*(a.shape for a in arrays if isinstance(a, Term)))
    return (*parts.ordered[:lead], *shape, *parts.ordered[lead + len(arrays) :])


def _shape(x: Shape, arrays: Sequence[Shape], index: Index) -> Shape:
    """The shape of x[index]."""
    assert getitem.shape is not None
    return tuple(getitem.shape(x, *arrays, index=index))


def _unordered(x: Term, parts: _Parts, build: Builder) -> Term:
    """Undo the permutation."""
    if not parts.in_other_order:
        return x
    return build.apply(permute, (x,), {"axes": tuple(int(i) for i in np.argsort(parts.order))})


# -- writes ----------------------------------------------------------------------------------------


def _changed(
    x: Term, value: Operand, arrays: Sequence[Operand], parts: _Parts, build: Builder
) -> Term | None:
    """x with the value at some indices; None for a mask with a number for each true element."""
    if not isinstance(value, Term):
        given = Term((), x.dtype, source=Constant(np.asarray(value).astype(x.dtype)))
    else:
        same = value.dtype == x.dtype
        given = value if same else build.apply(cast, (value,), {"dtype": x.dtype})
    if not _has_mask(parts.arrays):
        return build.apply(setitem, (x, given, *arrays), {"index": parts.arrays})
    mask = arrays[0]
    assert isinstance(mask, Term)
    if len(arrays) > 1 or not mask.ndim:
        return None
    before = next(i for i, part in enumerate(parts.arrays) if part != WHOLE)
    behind = x.ndim - before - mask.ndim  # dimensions after those of the mask
    if given.ndim > behind:
        lead, (count, *own) = given.shape[: -behind - 1], given.shape[-behind - 1 :]
        if count != 1:
            return None
        given = build.reshape(given, (*lead, *(1,) * mask.ndim, *own)[-x.ndim :])
    return build.apply(where, (build.reshape(mask, (*mask.shape, *(1,) * behind)), given, x))


def _through_both(call: Call, args: Args, build: Builder) -> Rewritten:
    """Merge a write to a slice of a view, and the write through the view, into one."""
    base, value = args
    written = value.call if isinstance(value, Term) else None
    if written is None or written.op is not setitem or len(written.args) != 2:
        return None
    chain = call.attrs["chain"]
    seen, given = written.args
    for op, attrs, which in reversed(chain):
        if not isinstance(seen, Term) or seen.call is None or seen.index != which:
            return None
        if seen.call.op is not op or seen.call.attrs != attrs:
            return None
        seen = seen.call.args[0]
    if seen is not base:
        return None
    chain = (*chain, (getitem, {"index": written.attrs["index"]}, 0))
    return [build.apply(write_view, (base, given), {"chain": chain})]
