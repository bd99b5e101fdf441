"""Statistics and differences, made of other ops."""

from __future__ import annotations

import math
from collections import namedtuple
from collections.abc import Callable
from typing import Any

import numpy as np

from gradwalk.graph.abstract import is_unknown, numbers_of
from gradwalk.ops.core.dtypes import (
    float64,
    get_default_dtype,
    has_gradients,
    int64,
    is_complex_dtype,
    is_floating,
)
from gradwalk.ops.core.halves import rounds_once
from gradwalk.ops.core.public import other_names, public, public_as
from gradwalk.ops.elementwise import complex_numbers
from gradwalk.ops.elementwise.arithmetic import ceil, floor, round, sqrt, zero
from gradwalk.ops.elementwise.choice import clip, logical_not, where
from gradwalk.ops.elementwise.complex_numbers import adjoint
from gradwalk.ops.elementwise.remainders import isnan, lerp
from gradwalk.ops.index.indexing import gather, put, scatter_add
from gradwalk.ops.reduce.norms import norm
from gradwalk.ops.reduce.reduction import Dim, amax, amin, mean, of_floats, std, sum, var
from gradwalk.ops.reduce.scan import cumsum
from gradwalk.ops.reduce.sorting import sort
from gradwalk.ops.shape.rearranging import diagonal
from gradwalk.ops.shape.reshaping import (
    broadcast_to,
    cast,
    cat,
    clone,
    getitem_slice,
    new_result,
    normal_axis,
    permute,
    reshape,
    sizes_of,
    unviewed,
)

MinMax = namedtuple("MinMax", "min max")


@public(method=True, numpy=True)
def aminmax(input: Any, *, dim: int | None = None, keepdim: bool = False) -> MinMax:
    """The smallest and the largest value.

    >>> import gradwalk as gw
    >>> gw.aminmax(gw.tensor([3.0, 1.0, 2.0])).min
    tensor(1.)
    """
    return MinMax(amin(input, dim, keepdim), amax(input, dim, keepdim))


@public(method=True, numpy=True)
def nansum(input: Any, dim: Dim = None, keepdim: bool = False, *, dtype: Any = None) -> Any:
    """The sum of the elements that are not NaN.

    >>> import gradwalk as gw
    >>> gw.nansum(gw.tensor([1.0, float("nan"), 2.0]))
    tensor(3.)
    """
    x = input if not has_gradients(input.dtype) else where(isnan(input), 0, input)
    return sum(x, dim, keepdim, dtype=dtype)


@public(method=True, numpy=True)
def nanmean(input: Any, dim: Dim = None, keepdim: bool = False, *, dtype: Any = None) -> Any:
    """The mean of the elements that are not NaN."""
    x = of_floats("nanmean", input if dtype is None else cast(input, dtype=np.dtype(dtype)))
    return nansum(x, dim, keepdim) / sum(logical_not(isnan(x)), dim, keepdim)


@public(namespaces="", method=True, out=False)
def sum_to_size(input: Any, *sizes: Any, size: Any = None) -> Any:
    """The sum over the dimensions along which `size` would be repeated to fit."""
    wanted = sizes_of(sizes, size)
    lead = input.ndim - len(wanted)
    if lead < 0 or any(n not in (1, m) for n, m in zip(wanted, input.shape[lead:], strict=True)):
        raise ValueError(f"sum_to_size: {wanted} does not expand to {tuple(input.shape)}")
    axes = [i for i, n in enumerate(input.shape) if i < lead or wanted[i - lead] == 1 != n]
    if not axes and wanted:
        return input
    return unviewed(reshape(sum(input, axes, True), shape=wanted))


@public(method=True, numpy=True)
def count_nonzero(input: Any, dim: Dim = None) -> Any:
    """How many elements are not 0."""
    return sum(input != 0, dim)


def _with_mean(deviation: Callable[..., Any], name: str, doc: str) -> Callable[..., Any]:
    """The public function that returns `std` or `var` and the mean."""

    @public_as(name, doc, numpy=True)
    @rounds_once
    def both(
        input: Any,
        dim: Dim | bool = None,
        unbiased: bool | None = None,
        keepdim: bool = False,
        *,
        correction: float | None = None,
    ) -> tuple[Any, Any]:
        over = None if isinstance(dim, bool) else dim
        spread = deviation(input, dim, unbiased, keepdim, correction=correction)
        return spread, mean(input, over, keepdim)

    return both


std_mean = _with_mean(std, "std_mean", "The standard deviation and the mean.")
var_mean = _with_mean(var, "var_mean", "The variance and the mean.")


@public(method=True)
@rounds_once
def cov(input: Any, *, correction: int = 1, fweights: Any = None, aweights: Any = None) -> Any:
    """The covariance matrix of the rows, each a variable; weights belong to the columns.

    >>> import gradwalk as gw
    >>> gw.cov(gw.tensor([[0.0, 1.0, 2.0], [2.0, 1.0, 0.0]]))
    tensor([[ 1., -1.],
            [-1.,  1.]])
    """
    if input.ndim > 2:
        raise ValueError(f"cov takes at most two dimensions, not shape {tuple(input.shape)}")
    rows = reshape(input, shape=(1, math.prod(input.shape))) if input.ndim < 2 else input
    rows = rows if has_gradients(rows.dtype) else cast(rows, dtype=get_default_dtype())
    for name, given, kinds in (("fweights", fweights, "iu"), ("aweights", aweights, "f")):
        _check_weights(name, given, kinds, rows.shape[1])
    weights = fweights if aweights is None else aweights
    if fweights is not None and aweights is not None:
        weights = fweights * aweights
    if weights is None:
        centred = rows - mean(rows, 1, keepdim=True)
        matrix = centred @ adjoint(centred) / max(rows.shape[1] - correction, 0)
    else:
        total = sum(weights)
        centred = rows - sum(rows * weights, 1, keepdim=True) / total
        lost = correction
        if aweights is not None:
            lost = sum(weights * aweights) / total * correction
        matrix = (centred * weights) @ adjoint(centred) / clip(total - lost, min=0)
    return reshape(matrix, shape=()) if rows.shape[0] == 1 else matrix


def _check_weights(name: str, weights: Any, kinds: str, count: int) -> None:
    if weights is None:
        return
    if tuple(weights.shape) != (count,) or (
        is_floating(weights.dtype) != (kinds == "f") or weights.dtype.kind == "b"
    ):
        kind = "integers" if kinds == "iu" else "floats"
        raise ValueError(
            f"cov: {name} are {count} {kind} in one dimension, not {weights.dtype} of shape "
            f"{tuple(weights.shape)}"
        )
    known = numbers_of(weights)  # None while they are unknown
    if known is not None and (known < 0).any():
        raise ValueError(f"cov: {name} must not be negative")


@public(method=True)
@rounds_once
def corrcoef(input: Any) -> Any:
    """The correlations of the rows."""
    matrix = cov(input)
    if not matrix.ndim:
        return matrix / matrix
    deviation = sqrt(diagonal(matrix))
    count = matrix.shape[0]
    by_row = matrix / reshape(deviation, shape=(count, 1))
    found = by_row / reshape(deviation, shape=(1, count))
    if is_complex_dtype(found.dtype):
        parts = (complex_numbers.real_part(found), complex_numbers.imaginary_part(found))
        return complex_numbers.compose(*(clip(part, -1, 1) for part in parts))
    return clip(found, -1, 1)


@public(method=True)
@rounds_once
def dist(input: Any, other: Any, p: float = 2) -> Any:
    """The p-norm of the difference."""
    return norm(input - other, p)


@public(method=True)
def msort(input: Any) -> Any:
    """In order along the first dimension."""
    return sort(input, 0).values


@public(method=True, numpy=True)
def diff(input: Any, n: int = 1, dim: int = -1, prepend: Any = None, append: Any = None) -> Any:
    """Differences between neighbours along `dim`, `n` times over.

    >>> import gradwalk as gw
    >>> gw.diff(gw.tensor([1.0, 4.0, 9.0]))
    tensor([3., 5.])
    """
    axis = normal_axis(dim, input.ndim)
    if n < 0 or not input.ndim:
        raise ValueError(f"diff: {n} differences of shape {tuple(input.shape)} do not exist")
    if not n:
        return clone(input)
    if prepend is not None or append is not None:
        input = cat([part for part in (prepend, input, append) if part is not None], axis)
    for _ in range(min(n, input.shape[axis])):
        length = input.shape[axis]
        later = getitem_slice(input, axis, 1, length)
        earlier = getitem_slice(input, axis, 0, max(length - 1, 0))
        input = later != earlier if input.dtype.kind == "b" else later - earlier
    return input


def _areas(y: Any, x: Any, dx: float, dim: int) -> tuple[Any, int]:
    """The areas of the trapezoids between neighbours."""
    axis = normal_axis(dim, y.ndim)
    length = y.shape[axis]
    pairs = getitem_slice(y, axis, 1, length) + getitem_slice(y, axis, 0, length - 1)
    if x is None:
        return pairs * (dx / 2), axis
    if x.ndim == 1 and x.shape[0] != length:
        raise ValueError(f"trapezoid: {x.shape[0]} points in x for {length} samples along {dim}")
    if x.ndim == 1 and y.ndim > 1:
        x, dim = reshape(x, shape=tuple(length if i == axis else 1 for i in range(y.ndim))), axis
    return pairs * diff(x, dim=dim) / 2, axis


@public(names="trapezoid trapz")
@other_names(axis="dim")  # `x` is something else here
def trapezoid(y: Any, x: Any = None, *, dx: float = 1, dim: int = -1) -> Any:
    """The area under y along `dim`, by the trapezoidal rule; `x` or `dx` give the points.

    >>> import gradwalk as gw
    >>> gw.trapezoid(gw.tensor([1.0, 2.0, 3.0]))
    tensor(4.)
    """
    areas, axis = _areas(y, x, dx, dim)
    return sum(areas, axis)


@public()
@other_names(axis="dim")
def cumulative_trapezoid(y: Any, x: Any = None, *, dx: float = 1, dim: int = -1) -> Any:
    """The area under y up to every point but the first."""
    areas, axis = _areas(y, x, dx, dim)
    return cumsum(areas, axis)


@public(method=True)
def bincount(input: Any, weights: Any = None, minlength: int = 0) -> Any:
    """How often each number 0, 1, 2, ... occurs, or the sum of its weights.

    >>> import gradwalk as gw
    >>> gw.bincount(gw.tensor([0, 2, 2, 3]))
    tensor([1, 0, 2, 1])
    """
    if input.ndim != 1 or input.dtype.kind not in "iu":
        raise ValueError(
            f"bincount takes a vector of integers, not {input.dtype} of shape {tuple(input.shape)}"
        )
    if minlength < 0:
        raise ValueError(f"bincount: minlength cannot be negative, got {minlength}")
    if weights is not None and tuple(weights.shape) != tuple(input.shape):
        raise ValueError(
            f"bincount takes a weight for each number: shapes {tuple(weights.shape)} and "
            f"{tuple(input.shape)}"
        )
    length = minlength
    if input.shape[0]:
        if int(amin(input)) < 0:
            raise ValueError("bincount takes numbers that are not negative")
        length = max(length, int(amax(input)) + 1)
    ones = cast(input == input, dtype=int64)
    given = ones if weights is None else weights
    if weights is not None and not is_floating(weights.dtype):
        given = cast(weights, dtype=float64)  # as in PyTorch
    start = broadcast_to(reshape(sum(zero(given)), shape=(1,)), (length,))
    return scatter_add(clone(start), 0, cast(input, dtype=int64), given)


@public(method=True)
def histc(input: Any, bins: int = 100, min: float = 0, max: float = 0) -> Any:
    """How many elements fall into each of `bins` bins of equal width from `min` to `max`.

    If they are equal, the smallest and the largest element replace them.

    >>> import gradwalk as gw
    >>> gw.histc(gw.tensor([1.0, 2.0, 1.0]), bins=4, min=0, max=3)
    tensor([0., 2., 1., 0.])
    """
    if not is_floating(input.dtype):
        raise TypeError(f"histc takes floats, not {input.dtype}")
    flat, kind = reshape(input, shape=(math.prod(input.shape),)), input.dtype
    low, high = _ends(flat, float(min), float(max))
    if not is_unknown(low) and not (math.isfinite(low) and math.isfinite(high) and low <= high):
        raise ValueError(f"histc: the range [{low}, {high}] is empty or not finite")
    inside = (flat >= low) & (flat <= high)
    # In the dtype and in this order, as in PyTorch: elements on an edge are counted alike.
    low, high = (
        cast(np.asarray(e) if isinstance(e, float) else e, dtype=kind) for e in (low, high)
    )
    place = floor((where(inside, flat, low) - low) * bins / (high - low))
    number = cast(clip(place, 0, bins - 1), dtype=int64)  # the last bin has its upper edge too
    counts = put(cast(inside, dtype=int64), number, index=(("array", 0),), shape=(int(bins),))
    return cast(counts, dtype=kind)


def _ends(flat: Any, low: Any, high: Any) -> tuple[Any, Any]:
    """The ends of a range: numbers, or tensors where they are those of unknown elements."""
    if low == high and flat.shape[0]:
        low, high = amin(flat), amax(flat)
        if is_unknown(flat):
            widened = cast(low == high, dtype=flat.dtype)
            return low - widened, high + widened
        low, high = float(low), float(high)
    return (low - 1, high + 1) if low == high else (low, high)


_INTERPOLATIONS = ("linear", "lower", "higher", "midpoint", "nearest")


@public(method=True, numpy=True)
@new_result
def quantile(
    input: Any,
    q: Any,
    dim: int | None = None,
    keepdim: bool = False,
    *,
    interpolation: str = "linear",
) -> Any:
    """The value below which a share `q` (a number or a vector) of the elements lies.

    >>> import gradwalk as gw
    >>> gw.quantile(gw.tensor([4.0, 1.0, 3.0, 2.0]), 0.5)
    tensor(2.5000)
    """
    return _quantiles("quantile", input, q, dim, keepdim, interpolation)


@public(method=True, numpy=True)
@new_result
def nanquantile(
    input: Any,
    q: Any,
    dim: int | None = None,
    keepdim: bool = False,
    *,
    interpolation: str = "linear",
) -> Any:
    """`quantile` of the elements that are not NaN.

    >>> import gradwalk as gw
    >>> gw.nanquantile(gw.tensor([4.0, float("nan"), 1.0]), 0.5)
    tensor(2.5000)
    """
    return _quantiles("nanquantile", input, q, dim, keepdim, interpolation)


def _quantiles(
    name: str, input: Any, q: Any, dim: int | None, keepdim: bool, interpolation: str
) -> Any:
    if interpolation not in _INTERPOLATIONS:
        raise ValueError(f"interpolation is one of {_INTERPOLATIONS}, not {interpolation!r}")
    of_floats(name, input)
    shares = q if hasattr(q, "_apply") else np.asarray(q, dtype=input.dtype)
    known = numbers_of(shares)  # None while they are unknown
    if shares.ndim > 1 or (known is not None and ((known < 0) | (known > 1)).any()):
        raise ValueError(f"{name}: q is a number or a vector of numbers from 0 to 1")
    kept = tuple(1 for _ in input.shape)
    axis = 0 if dim is None else normal_axis(dim, input.ndim)
    if dim is None or not input.ndim:
        x = reshape(input, shape=(math.prod(input.shape),))
    else:
        x = input
        kept = tuple(1 if i == axis else n for i, n in enumerate(input.shape))
    if not x.shape[axis]:
        raise ValueError(f"{name}: there are no elements")
    ordered = sort(x, axis).values  # NaN last
    shape = tuple(math.prod(shares.shape) if i == axis else 1 for i in range(x.ndim))
    fractions = reshape(shares, shape=shape)
    if name == "quantile":
        last = getitem_slice(ordered, axis, x.shape[axis] - 1, x.shape[axis])
        out = _between(ordered, axis, fractions * (x.shape[axis] - 1), interpolation)
        out = where(isnan(last), last, out)  # NaN, if there is one
    else:
        count = sum(logical_not(isnan(x)), axis, True)
        ranks = fractions * cast(clip(count - 1, 0), dtype=x.dtype)
        out = _between(ordered, axis, ranks, interpolation)
    # The quantiles are along `axis`; they come first in the result.
    order = (axis, *(i for i in range(x.ndim) if i != axis))
    out = permute(out, axes=order)
    rest = kept if keepdim else tuple(n for i, n in enumerate(x.shape) if i != axis)
    return reshape(out, shape=(*shares.shape, *rest))


def _between(ordered: Any, axis: int, ranks: Any, interpolation: str) -> Any:
    """The values at ranks, whole ones or between two, along an axis in order."""
    shape = tuple(ranks.shape[i] if i == axis else n for i, n in enumerate(ordered.shape))
    if interpolation == "nearest":
        ranks = round(ranks)
    below = floor(ranks)
    low, high = (
        gather(ordered, axis, broadcast_to(cast(rank, dtype=int64), shape))
        for rank in (below, ceil(ranks))
    )
    shares = {"lower": 0.0, "higher": 1.0, "midpoint": 0.5}
    return lerp(low, high, shares[interpolation] if interpolation in shares else ranks - below)
