"""Pooling: the largest element, or the sum, of every window.

The ops work on (..., *size), one window per place of the trailing dimensions. A loop runs over
the few places of the kernel, never over windows.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from gradwalk.graph.abstract import AbstractArray
from gradwalk.ops.core.dtypes import int64, is_floating
from gradwalk.ops.core.op import Op, Shape, define
from gradwalk.ops.elementwise.choice import masked
from gradwalk.ops.network.convolution import (
    Pairs,
    batch_first,
    batch_last,
    inside,
    is_batch_last,
    padded,
    places,
)
from gradwalk.ops.shape.reshaping import reshape


def _covering(size: Shape, kernel: Shape, out: Shape, stride: Shape, padding: Pairs) -> Pairs:
    """Padding that is enough for every window: the last one may reach beyond (`ceil_mode`)."""
    return tuple(
        (before, max(after, (o - 1) * s + k - n - before))
        for n, k, o, s, (before, after) in zip(size, kernel, out, stride, padding, strict=True)
    )


def _reach(kernel: Shape, dilation: Shape) -> Shape:
    """How far a dilated kernel reaches along each dimension."""
    return tuple((k - 1) * d + 1 for k, d in zip(kernel, dilation, strict=True))


# -- the largest ---------------------------------------------------------------------------------


def _lowest(dtype: np.dtype[Any]) -> float:
    return -math.inf if is_floating(dtype) else int(np.iinfo(dtype).min)


def _max_pool_forward(
    x: Any, *, kernel: Shape, out: Shape, stride: Shape, padding: Pairs, dilation: Shape
) -> tuple[Any, Any]:
    """The largest of every window, and which it is: its number among the places of the kernel, or,
    from native code, its flat place in x (`_is_flat_place`)."""
    if isinstance(x, AbstractArray):  # while native code is made
        attrs: dict[str, Any] = dict(
            kernel=kernel, out=out, stride=stride, padding=padding, dilation=dilation
        )
        indices = max_pool_indices(x, **attrs)
        return _picked(x, indices, **attrs), indices
    size = x.shape[x.ndim - len(kernel) :]
    lowest = _lowest(x.dtype)
    full = padded(x, _covering(size, _reach(kernel, dilation), out, stride, padding), value=lowest)
    (_, first), *others = places(kernel, out, stride, dilation)
    code = np.dtype(np.int8 if math.prod(kernel) < 128 else np.int32).type
    best = full[first].copy(order="K")
    chosen = np.zeros_like(best, dtype=code)
    for number, (_, part) in enumerate(others, 1):
        candidate = full[part].copy(order="K")
        better = np.greater(candidate, best).astype(code)
        np.maximum(best, candidate, out=best)
        better *= code(number)
        np.maximum(chosen, better, out=chosen)  # numbers only grow: a later winner is larger
    if not (best > lowest).all():
        chosen = _chosen_among_any(full, kernel, out, stride, padding, dilation)
    return best, chosen


def _chosen_among_any(
    full: Any, kernel: Shape, out: Shape, stride: Shape, padding: Pairs, dilation: Shape
) -> Any:
    """The winners where there are NaNs, of which the last wins, or windows of nothing but -inf."""
    best = np.full((*full.shape[: full.ndim - len(out)], *out), _lowest(full.dtype), full.dtype)
    chosen = np.empty(best.shape, np.int32)
    chosen[...] = _first_inside(kernel, out, stride, padding, dilation)
    for number, (_, part) in enumerate(places(kernel, out, stride, dilation)):
        candidate = full[part]
        better = (candidate > best) | (candidate != candidate)
        np.copyto(best, candidate, where=better)
        np.copyto(chosen, number, where=better)
    return chosen


def _first_inside(kernel: Shape, out: Shape, stride: Shape, padding: Pairs, dilation: Shape) -> Any:
    """For every window the first place of the kernel that is not padding."""
    code: Any = 0
    for axis, (k, o, s, d) in enumerate(zip(kernel, out, stride, dilation, strict=True)):
        start = np.arange(o) * s - padding[axis][0]
        first = np.where(start < 0, -(start // d), 0)  # the smallest i with start + i × d >= 0
        shape = [1] * len(out)
        shape[axis] = o
        code = code * k + first.reshape(shape)
    return code


def _flat_places(
    size: Shape,
    kernel: Shape,
    out: Shape,
    stride: Shape,
    padding: Pairs,
    dilation: Shape,
    chosen: Any,
) -> Any:
    """Places of the kernel as indices into the flattened trailing dimensions of x."""
    origin: Any = 0
    for axis, (n, o, s) in enumerate(zip(size, out, stride, strict=True)):
        shape = [1] * len(out)
        shape[axis] = o
        origin = origin * n + (np.arange(o) * s - padding[axis][0]).reshape(shape)
    inner = np.zeros((1,), np.int64)
    for n, k, d in zip(size, kernel, dilation, strict=True):
        inner = (inner[:, None] * n + np.arange(k) * d).reshape(-1)
    return np.take(inner, chosen) + origin


def _flat(x: Any, count: int) -> Any:
    """The last `count` dimensions merged into one."""
    lead = x.shape[: len(x.shape) - count]
    return reshape(x, shape=(*lead, math.prod(x.shape[len(lead) :])))


def _max_pool_rule(
    g: Any,
    chosen: Any,
    x_shape: Shape,
    kernel: Shape,
    out: Shape,
    stride: Shape,
    padding: Pairs,
    dilation: Shape,
) -> Any:
    """The gradient of each window at the place that won."""
    size = x_shape[len(x_shape) - len(kernel) :]
    reach = _reach(kernel, dilation)
    apart = _is_apart(kernel, stride, dilation)
    if _is_flat_place(chosen):
        flat, indices = _flat(g, len(out)), _flat(chosen, len(out))
        spread = scatter_last(flat, indices, length=math.prod(size), apart=apart)
        return reshape(spread, shape=x_shape)
    cover = _covering(size, reach, out, stride, padding)
    lead = x_shape[: len(x_shape) - len(kernel)]
    whole = (*lead, *(n + b + a for n, (b, a) in zip(size, cover, strict=True)))
    if is_batch_last(chosen):
        g = batch_first(batch_last(g))
    padded_gradient = np.zeros_like(chosen, dtype=g.dtype, shape=whole)
    for number, (_, part) in enumerate(places(kernel, out, stride, dilation)):
        given = masked(chosen == number, g, keep=True)
        if apart:
            padded_gradient[part] = given
        else:
            padded_gradient[part] += given
    return padded_gradient[inside(size, cover)]


def _is_flat_place(chosen: Any) -> bool:
    """Whether the residual has indices into the flattened trailing dimensions of x, as
    `max_pool_indices` makes them: these are int64, and numbers of places in a kernel never are."""
    return bool(chosen.dtype == int64)


def _is_apart(kernel: Shape, stride: Shape, dilation: Shape) -> bool:
    """Whether no two windows share an element."""
    return all(s >= r for s, r in zip(stride, _reach(kernel, dilation), strict=True))


def _picked(
    x: Any, indices: Any, *, kernel: Shape, stride: Shape, dilation: Shape, **_: Any
) -> Any:
    """The elements of x at these places."""
    count, apart = len(kernel), _is_apart(kernel, stride, dilation)
    picked = gather_last(_flat(x, count), _flat(indices, count), apart=apart)
    return reshape(picked, shape=tuple(indices.shape))


def _max_pool_expanded(x: Any, **attrs: Any) -> Any:
    return _picked(x, max_pool_indices(x, **attrs), **attrs)


def _pooled_shape(x: Shape, *, out: Shape, **_: Any) -> Shape:
    return (*x[: len(x) - len(out)], *out)


max_pool: Op = define(
    "max_pool",
    _max_pool_forward,
    vjp=[_max_pool_rule],
    residuals="chosen",
    shape=_pooled_shape,
    expand=_max_pool_expanded,
    formula={"x": "each g to the largest of its window, 0 to the others"},
)
# Where in the flattened trailing dimensions of x the largest lie.
max_pool_indices: Op = define(
    "max_pool_indices",
    lambda x, *, kernel, out, stride, padding, dilation: _flat_places(
        x.shape[x.ndim - len(kernel) :],
        kernel,
        out,
        stride,
        padding,
        dilation,
        _max_pool_forward(
            x, kernel=kernel, out=out, stride=stride, padding=padding, dilation=dilation
        )[1],
    ),
    vjp=[None],
    shape=_pooled_shape,
    gives=int64,
)


def _scatter_last_forward(y: Any, indices: Any, *, length: int, apart: bool) -> Any:
    rows = math.prod(y.shape[:-1])
    out = np.zeros(rows * length, y.dtype)
    offsets = np.arange(rows).reshape(*y.shape[:-1], 1) * length
    flat = (indices + offsets).reshape(-1)
    if apart:
        out[flat] = y.reshape(-1)
    else:
        np.add.at(out, flat, y.reshape(-1))
    return out.reshape(*y.shape[:-1], length)


# The transpose of picking along the last dimension; `apart`: no element is met twice.
scatter_last: Op = define(
    "scatter_last",
    _scatter_last_forward,
    vjp=[lambda g, indices, apart: gather_last(g, indices, apart=apart), None],
    shape=lambda y, indices, *, length, apart: (*y[:-1], length),
)
gather_last: Op = define(
    "gather_last",
    lambda x, indices, *, apart: np.take_along_axis(x, indices, -1),
    vjp=[
        lambda g, indices, x_shape, apart: scatter_last(
            g, indices, length=x_shape[-1], apart=apart
        ),
        None,
    ],
    shape=lambda x, indices, *, apart: indices,
)


# -- the sum -------------------------------------------------------------------------------------


def _pool_sum_forward(x: Any, *, kernel: Shape, out: Shape, stride: Shape, padding: Pairs) -> Any:
    lead = x.shape[: x.ndim - len(kernel)]
    full = padded(x, _covering(x.shape[len(lead) :], kernel, out, stride, padding))
    total = np.zeros_like(x, shape=(*lead, *out))
    for _, part in places(kernel, out, stride, (1,) * len(kernel)):
        total += full[part]
    return total


def _pool_spread_forward(
    y: Any, *, shape: Shape, kernel: Shape, stride: Shape, padding: Pairs
) -> Any:
    count = len(kernel)
    lead, out = y.shape[: y.ndim - count], y.shape[y.ndim - count :]
    cover = _covering(shape, kernel, out, stride, padding)
    size = (n + b + a for n, (b, a) in zip(shape, cover, strict=True))
    full = np.zeros_like(y, shape=(*lead, *size))
    for _, part in places(kernel, out, stride, (1,) * count):
        full[part] += y
    return full[inside(shape, cover)]


pool_sum: Op = define(
    "pool_sum",
    _pool_sum_forward,
    vjp=[
        lambda g, x_shape, kernel, stride, padding: pool_spread(
            g, shape=x_shape[-len(kernel) :], kernel=kernel, stride=stride, padding=padding
        )
    ],
    shape=lambda x, *, kernel, out, stride, padding: (*x[: len(x) - len(out)], *out),
    linear=True,
)
pool_spread: Op = define(
    "pool_spread",
    _pool_spread_forward,
    vjp=[
        lambda g, y_shape, kernel, stride, padding: pool_sum(
            g, kernel=kernel, out=y_shape[-len(kernel) :], stride=stride, padding=padding
        )
    ],
    shape=lambda y, *, shape, kernel, stride, padding: (*y[: len(y) - len(shape)], *shape),
    linear=True,
)
