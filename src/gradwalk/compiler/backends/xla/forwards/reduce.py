"""Many elements to one or in order: sums, extremes, sorting, searching, running results."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from gradwalk.compiler.backends.xla.forwards.promotion import common
from gradwalk.ops.reduce.reduction import total_dtype

Axes = tuple[int, ...]
Pair = tuple[Any, Any]


def _count(x: Any, axis: Axes) -> int:
    return math.prod(x.shape[i] for i in axis)


def _total(x: Any, axis: Axes, keepdim: bool) -> Any:
    return jnp.sum(x, axis=axis, keepdims=keepdim, dtype=total_dtype(x.dtype))


def _mean(x: Any, *, axis: Axes, keepdim: bool) -> Any:
    return jnp.true_divide(_total(x, axis, keepdim), _count(x, axis))


def _var(x: Any, *, axis: Axes, correction: float, keepdim: bool) -> Any:
    squares = jnp.square(x - _mean(x, axis=axis, keepdim=True))
    freedom = _count(x, axis) - correction
    return jnp.true_divide(_total(squares, axis, keepdim), freedom if freedom > 0 else 0)


def _vector_norm(x: Any, *, p: float, axis: Axes, keepdim: bool) -> Any:
    if p == 2:
        return jnp.sqrt(_total(x * x, axis, keepdim))
    size = jnp.abs(x)
    if p == 1:
        return _total(size, axis, keepdim)
    if p == 0:
        return jnp.sum(x != 0, axis=axis, keepdims=keepdim, dtype=x.dtype)
    if math.isinf(p):
        return (jnp.max if p > 0 else jnp.min)(size, axis=axis, keepdims=keepdim)
    return jnp.power(_total(jnp.power(size, p), axis, keepdim), 1 / p)


def _logsumexp(x: Any, *, axis: Axes, keepdim: bool) -> Any:
    top = jnp.max(x, axis=axis, keepdims=True, initial=-math.inf)  # of no elements: -inf
    top = jnp.where(jnp.isfinite(top), top, 0)  # all -inf, or an inf: exp and log give the answer
    out = jnp.log(_total(jnp.exp(x - top), axis, keepdim=True)) + top
    return out if keepdim else jnp.squeeze(out, axis)


# -- choosing elements ---------------------------------------------------------------------------


def _arg(choose: Callable[..., Any]) -> Callable[..., Any]:
    def forward(x: Any, *, axis: Axes, keepdim: bool) -> Any:
        over = axis[0] if len(axis) == 1 else None  # None: everything
        return choose(x, axis=over, keepdims=keepdim).astype(np.int64)

    return forward


_argmax, _argmin = _arg(jnp.argmax), _arg(jnp.argmin)


def _picked(x: Any, indices: Any, axis: int) -> Pair:
    """The elements at indices along an axis, and the indices."""
    return jnp.take_along_axis(x, indices, axis, mode="clip"), indices


def _picked_one(x: Any, indices: Any, axis: Axes, keepdim: bool) -> Pair:
    """The same for indices of length 1 along the axis, which may be dropped."""
    values, indices = _picked(x, indices, axis[0])
    return (values, indices) if keepdim else (values.squeeze(axis), indices.squeeze(axis))


def _extreme(choose: Callable[..., Any]) -> Callable[..., Pair]:
    return lambda x, *, axis, keepdim: _picked_one(
        x, choose(x, axis=axis, keepdim=True), axis, keepdim
    )


def _order(x: Any, axis: int, descending: bool) -> Any:
    """Indices that sort x, equal elements in their order; NaN counts as the largest."""
    if not descending:
        return jnp.argsort(x, axis=axis, stable=True).astype(np.int64)
    return x.shape[axis] - 1 - jnp.flip(_order(jnp.flip(x, axis), axis, False), axis)


def _sort(x: Any, *, axis: int, descending: bool) -> Pair:
    return _picked(x, _order(x, axis, descending), axis)


def _topk(x: Any, *, k: int, axis: int, largest: bool) -> Pair:
    return _picked(x, lax.slice_in_dim(_order(x, axis, largest), 0, k, axis=axis), axis)


def _kthvalue(x: Any, *, k: int, axis: Axes, keepdim: bool) -> Pair:
    place = lax.slice_in_dim(_order(x, axis[0], False), k - 1, k, axis=axis[0])
    return _picked_one(x, place, axis, keepdim)


def _median_along(x: Any, *, axis: Axes, keepdim: bool) -> Pair:
    """The lower of the two middle elements, or a NaN if there is one."""
    half = (x.shape[axis[0]] - 1) // 2
    middle = lax.slice_in_dim(_order(x, axis[0], False), half, half + 1, axis=axis[0])
    missing = jnp.isnan(x)
    first = _argmax(missing, axis=axis, keepdim=True)
    middle = jnp.where(missing.any(axis=axis, keepdims=True), first, middle)
    return _picked_one(x, middle, axis, keepdim)


def _median(x: Any, *, axis: Axes) -> Any:
    if not x.size:
        return jnp.asarray(math.nan, x.dtype)
    return _median_along(x.reshape(-1), axis=(0,), keepdim=False)[0]


def _searchsorted(sequence: Any, values: Any, *, right: bool) -> Any:
    sequence, values = common(sequence, jnp.asarray(values))
    search: Any = lambda row, sought: jnp.searchsorted(
        row, sought, side="right" if right else "left"
    ).astype(np.int64)
    for _ in sequence.shape[:-1]:
        search = jax.vmap(search)
    return search(sequence, values)


# -- running results -----------------------------------------------------------------------------


def _running(best: Callable[..., Any]) -> Callable[..., Any]:
    return lambda x, *, axis: best(x, axis=axis % x.ndim)


_running_max, _running_min = _running(lax.cummax), _running(lax.cummin)


def _best_so_far(running: Callable[..., Any]) -> Callable[..., Pair]:
    """The running extreme and the last place it was met; a NaN beats everything."""

    def forward(x: Any, *, axis: int) -> Pair:
        values = running(x, axis=axis)
        places = lax.broadcasted_iota(np.int64, x.shape, axis % x.ndim)
        met = (x == values) | (x != x)
        return values, _running_max(jnp.where(met, places, 0), axis=axis)

    return forward


FORWARDS: dict[str, Callable[..., Any]] = {
    "sum": lambda x, *, axis, keepdim: _total(x, axis, keepdim),
    "mean": _mean,
    "prod": lambda x, *, axis, keepdim: jnp.prod(
        x, axis=axis, keepdims=keepdim, dtype=total_dtype(x.dtype)
    ),
    "amax": lambda x, *, axis, keepdim: jnp.max(x, axis=axis, keepdims=keepdim),
    "amin": lambda x, *, axis, keepdim: jnp.min(x, axis=axis, keepdims=keepdim),
    "max": _extreme(_argmax),
    "min": _extreme(_argmin),
    "argmax": _argmax,
    "argmin": _argmin,
    "all": lambda x, *, axis, keepdim: jnp.all(x, axis=axis, keepdims=keepdim),
    "any": lambda x, *, axis, keepdim: jnp.any(x, axis=axis, keepdims=keepdim),
    "var": _var,
    "std": lambda x, *, axis, correction, keepdim: jnp.sqrt(
        _var(x, axis=axis, correction=correction, keepdim=keepdim)
    ),
    "vector_norm": _vector_norm,
    "logsumexp": _logsumexp,
    "sort": _sort,
    "topk": _topk,
    "median": _median,
    "median_along": _median_along,
    "kthvalue": _kthvalue,
    "searchsorted": _searchsorted,
    "cumsum": lambda x, *, axis: jnp.cumsum(x, axis=axis, dtype=total_dtype(x.dtype)),
    "cumprod": lambda x, *, axis: jnp.cumprod(x, axis=axis, dtype=total_dtype(x.dtype)),
    "logcumsumexp": _running(lax.cumlogsumexp),
    "cummax": _best_so_far(_running_max),
    "cummin": _best_so_far(_running_min),
    "running_max": _running_max,
    "running_min": _running_min,
}
