"""Batching rules of reductions, scans and sorting: their axes are counted from the second one."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from gradwalk.batching.lanes import aligned, spread
from gradwalk.ops.core.op import Op
from gradwalk.ops.network.softmax import log_softmax_op, logsumexp_op, softmax_op
from gradwalk.ops.reduce import frequencies, norms, reduction, scan, sorting, without_nan
from gradwalk.ops.shape.reshaping import flip, reshape


def shifted(axis: Any) -> Any:
    """An axis, or several, of one sample as axes of all of them."""
    return tuple([a + 1 for a in axis]) if isinstance(axis, tuple) else axis + 1


def along(op: Op, args: Sequence[Any], attrs: dict[str, Any], size: int) -> Any:
    """An op with an attribute `axis`."""
    return op(args[0].inner, **attrs | {"axis": shifted(attrs["axis"])})


def best(op: Op, args: Sequence[Any], attrs: dict[str, Any], size: int) -> Any:
    """argmax and argmin: along one axis, or of the elements in a row."""
    x = args[0]
    if len(attrs["axis"]) == 1:
        return along(op, args, attrs, size)
    found = op(reshape(x.inner, shape=(size, x.size)), axis=(1,), keepdim=False)
    return reshape(found, shape=(size, *(1,) * x.ndim)) if attrs["keepdim"] else found


_ALONG_A_ROW = {
    sorting.median_op: sorting.median_along,
    without_nan.nanmedian_op: without_nan.nanmedian_along,
}


def middle(op: Op, args: Sequence[Any], attrs: dict[str, Any], size: int) -> Any:
    """The median of all elements: of all elements in a row, along that row."""
    x = args[0]
    if len(attrs["axis"]) == x.ndim:
        row = reshape(x.inner, shape=(size, x.size))
        return _ALONG_A_ROW[op](row, axis=(1,), keepdim=False)[0]
    return along(op, args, attrs, size)


def places(op: Op, args: Sequence[Any], attrs: dict[str, Any], size: int) -> Any:
    """searchsorted: a sequence for each row of values, or one for all."""
    sequence, values = args
    if not sequence.batched and sequence.ndim == 1:
        return op(sequence.inner, values.inner, **attrs)
    rank = max(sequence.ndim, values.ndim)
    rows = aligned(sequence, rank) if sequence.batched else spread(sequence, size)
    wanted = spread(values, size)
    if sequence.ndim == 1:  # for all values of a sample
        wanted = reshape(wanted, shape=(size, math.prod(values.shape)))
        rows = reshape(rows, shape=(size, sequence.shape[0]))
    return reshape(op(rows, wanted, **attrs), shape=(size, *values.shape))


_ALONG = (
    reduction.sum_op, reduction.mean_op, reduction.prod_op, reduction.amax_op, reduction.amin_op,
    reduction.max_along, reduction.min_along, reduction.all_op, reduction.any_op, reduction.var_op,
    reduction.std_op, sorting.sort_op, sorting.topk_op, sorting.median_along, sorting.kthvalue_op,
    scan.cumsum_op, scan.cumprod_op, scan.logcumsumexp_op, scan.cummax_op, scan.cummin_op, flip,
    norms.norm_op, frequencies.mode_op, without_nan.nanmedian_along, softmax_op, log_softmax_op,
    logsumexp_op,
)  # fmt: skip

RULES = {
    **dict.fromkeys(_ALONG, along),
    reduction.argmax_op: best,
    reduction.argmin_op: best,
    sorting.median_op: middle,
    without_nan.nanmedian_op: middle,
    sorting.searchsorted_op: places,
}
