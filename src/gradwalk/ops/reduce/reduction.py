"""Reductions: many elements to one. Public functions take PyTorch's arguments.

The ops themselves take `axis`, a tuple of non-negative axes, and `keepdim`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from gradwalk.ops.core.dtypes import bool_, has_gradients, int64, is_complex_dtype
from gradwalk.ops.core.op import Op, Shape, define
from gradwalk.ops.core.public import Mixed, public, public_as
from gradwalk.ops.elementwise.arithmetic import mul, power
from gradwalk.ops.elementwise.choice import where
from gradwalk.ops.elementwise.complex_numbers import imag, real
from gradwalk.ops.index.indexing import along, put
from gradwalk.ops.reduce.row_sums import sum_leading, total
from gradwalk.ops.shape.reshaping import (
    broadcast_to,
    cast,
    concatenate,
    full_axes,
    getitem_slice,
    normal_axis,
    pad_op,
    permute,
    reshape,
)

Dim = int | tuple[int, ...] | list[int] | None


def reduced_shape(shape: Shape, *, axis: tuple[int, ...], keepdim: bool, **_: Any) -> Shape:
    """The shape left after reducing `axis`."""
    if keepdim:
        return tuple(1 if i in axis else n for i, n in enumerate(shape))
    return tuple(n for i, n in enumerate(shape) if i not in axis)


def _count(shape: Shape, axis: tuple[int, ...]) -> int:
    return math.prod(shape[i] for i in axis)


def keep(value: Any, x_shape: Shape, axis: tuple[int, ...]) -> Any:
    """Give a reduced value its axes back, with length 1, so that it broadcasts against x."""
    return reshape(value, shape=reduced_shape(x_shape, axis=axis, keepdim=True))


def _spread(value: Any, x_shape: Shape, axis: tuple[int, ...]) -> Any:
    return broadcast_to(keep(value, x_shape, axis), x_shape)


def total_dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """The dtype of a sum or product: integers and booleans add up in int64."""
    return dtype if has_gradients(dtype) else int64


def _sum_forward(x: Any, *, axis: tuple[int, ...], keepdim: bool) -> Any:
    leading = 0 < len(axis) < x.ndim and axis == tuple(range(len(axis)))
    if leading and not keepdim and has_gradients(x.dtype):
        return sum_leading(x, x.ndim - len(axis))
    return total(x, axis, keepdim, total_dtype(x.dtype))


sum_op = define(
    "sum",
    _sum_forward,
    vjp=[lambda g, x_shape, axis: _spread(g, x_shape, axis)],
    shape=reduced_shape,
    linear=True,
    gives=total_dtype,
    symbol="Σ",
)


def _mean_forward(x: Any, *, axis: tuple[int, ...], keepdim: bool) -> Any:
    # np.mean is this, and a Python warning where there are no elements; ours is a NaN.
    return np.true_divide(total(x, axis, keepdim), _count(x.shape, axis))


mean_op = define(
    "mean",
    _mean_forward,
    vjp=[
        # With no elements the result is empty, so 1 / 0 may be replaced by any number.
        lambda g, x_shape, axis: _spread(g * (1 / (_count(x_shape, axis) or 1)), x_shape, axis)
    ],
    shape=reduced_shape,
    linear=True,
)


def _product_of_the_others(g: Any, x: Any, axis: tuple[int, ...]) -> Any:
    """g × (the product of all elements but one), exact when some of them are zero."""
    order = [i for i in range(x.ndim) if i not in axis] + list(axis)
    kept = [x.shape[i] for i in order[: x.ndim - len(axis)]]
    rows = np.transpose(x, order).reshape(*kept, _count(x.shape, axis))  # (kept..., reduced)
    before = np.ones_like(rows)
    after = np.ones_like(rows)
    np.cumprod(rows[..., :-1], axis=-1, out=before[..., 1:])
    np.cumprod(rows[..., :0:-1], axis=-1, out=after[..., -2::-1] if rows.shape[-1] > 1 else None)
    others = (before * after).reshape([x.shape[i] for i in order])
    return keep(g, x.shape, axis) * np.transpose(others, np.argsort(order))


def _product_by_halves(x: Any, *, axis: tuple[int, ...], keepdim: bool) -> Any:
    """The product as log₂ n rounds of multiplications: differentiable at zeros to any order."""
    shape = x.shape
    order = [i for i in range(len(shape)) if i not in axis] + list(axis)
    kept = tuple(shape[i] for i in order[: len(shape) - len(axis)])
    count = _count(shape, axis)
    if x.dtype != total_dtype(x.dtype):
        x = cast(x, dtype=total_dtype(x.dtype))
    x = reshape(permute(x, axes=tuple(order)), shape=(*kept, count))
    last = len(kept)
    if not count:  # no factors: 1
        x = pad_op(x, widths=((0, 0),) * last + ((0, 1),), value=1.0)
    while count > 1:
        half = count // 2
        pairs = mul(getitem_slice(x, last, 0, half), getitem_slice(x, last, half, 2 * half))
        if count % 2:
            pairs = concatenate(pairs, getitem_slice(x, last, 2 * half, count), axis=last)
        x, count = pairs, count - half
    return reshape(x, shape=reduced_shape(shape, axis=axis, keepdim=keepdim))


prod_op = define(
    "prod",
    lambda x, *, axis, keepdim: np.prod(x, axis=axis, keepdims=keepdim, dtype=total_dtype(x.dtype)),
    vjp=[_product_of_the_others],
    shape=reduced_shape,
    gives=total_dtype,
    expand=_product_by_halves,
    array_only=True,
    formula={"x": "g × the product of the other elements"},
    symbol="Π",
    on_complex=True,
)


def share_ties(g: Any, x: Any, out: Any, axis: tuple[int, ...]) -> Any:
    """The gradient in equal parts to all elements equal to the one chosen."""
    best = (x == keep(out, x.shape, axis)) | (x != x)  # where there is a NaN, it is the best
    ties = sum_op(cast(best, dtype=x.dtype), axis=axis, keepdim=True)
    return where(best, keep(g, x.shape, axis) / ties, 0)


def _extreme(name: str, choose: Any) -> Op:
    return define(
        name,
        lambda x, *, axis, keepdim: choose(x, axis=axis, keepdims=keepdim),
        vjp=[lambda g, x, out, axis: share_ties(g, x, out, axis)],
        shape=reduced_shape,
    )


amax_op = _extreme("amax", np.amax)
amin_op = _extreme("amin", np.amin)


def picked_along(x: Any, indices: Any, axis: tuple[int, ...], keepdim: bool) -> tuple[Any, Any]:
    """The elements at indices of length 1 along an axis, and the indices."""
    values = np.take_along_axis(x, indices, axis[0])
    return (values, indices) if keepdim else (values.squeeze(axis), indices.squeeze(axis))


def to_chosen(g: Any, indices: Any, x_shape: Shape, axis: tuple[int, ...]) -> Any:
    """All of the gradient to the index that was returned."""
    fixed, arrays = along(keep(indices, x_shape, axis), axis[0])
    return put(keep(g[0], x_shape, axis), *arrays, index=fixed, shape=x_shape)


def put_back(g: Any, indices: Any, x_shape: Shape, axis: int) -> Any:
    """The gradient of values picked along an axis, each to where it was picked from."""
    fixed, arrays = along(indices, axis)
    return put(g[0], *arrays, index=fixed, shape=x_shape)


def picking(name: str, forward: Any, rule: Any, shape: Callable[..., Shape]) -> Op:
    """Define an op that picks elements and returns them and their indices, both of one shape."""
    return define(
        name,
        forward,
        vjp=[rule],
        outputs=("values", "indices"),
        shape=lambda x, **attrs: (shape(x, **attrs),) * 2,
        gives=(None, int64),
    )


def _extreme_along(name: str, choose: Any) -> Op:
    def forward(x: Any, *, axis: tuple[int, ...], keepdim: bool) -> tuple[Any, Any]:
        return picked_along(x, choose(x, axis=axis[0], keepdims=True), axis, keepdim)

    return picking(name, forward, to_chosen, reduced_shape)


max_along = _extreme_along("max", np.argmax)
min_along = _extreme_along("min", np.argmin)


def _without_gradient(name: str, forward: Any, gives: Any, **facts: Any) -> Op:
    return define(name, forward, vjp=[None], shape=reduced_shape, gives=gives, **facts)


def _arg_forward(choose: Any) -> Any:
    def forward(x: Any, *, axis: tuple[int, ...], keepdim: bool) -> Any:
        if len(axis) == 1:
            return choose(x, axis=axis[0], keepdims=keepdim)
        flat = choose(x)  # over everything
        return np.reshape(flat, (1,) * x.ndim) if keepdim else flat

    return forward


argmax_op = _without_gradient("argmax", _arg_forward(np.argmax), int64)
argmin_op = _without_gradient("argmin", _arg_forward(np.argmin), int64)
all_op = _without_gradient(
    "all",
    lambda x, *, axis, keepdim: np.all(x, axis=axis, keepdims=keepdim),
    bool_,
    on_complex=True,
)
any_op = _without_gradient(
    "any",
    lambda x, *, axis, keepdim: np.any(x, axis=axis, keepdims=keepdim),
    bool_,
    on_complex=True,
)


def _var_forward(x: Any, *, axis: tuple[int, ...], correction: float, keepdim: bool) -> Any:
    squares = np.square(x - _mean_forward(x, axis=axis, keepdim=True))
    freedom = _count(x.shape, axis) - correction
    total = np.sum(squares, axis=axis, keepdims=keepdim)
    return np.true_divide(total, freedom if freedom > 0 else 0)


var_op = define(
    "var",
    _var_forward,
    vjp=[
        lambda g, x, axis, correction: (
            keep(g, x.shape, axis)
            * (x - mean_op(x, axis=axis, keepdim=True))
            * _var_scale(_count(x.shape, axis), correction)
        )
    ],
    shape=reduced_shape,
)


std_op = define(
    "std",
    lambda x, *, axis, correction, keepdim: np.sqrt(
        _var_forward(x, axis=axis, correction=correction, keepdim=keepdim)
    ),
    vjp=[
        # Where all elements are equal the slope is 0, not 0 / 0.
        lambda g, x, out, axis, correction: (
            keep(where(out == 0, 0, g / out), x.shape, axis)
            * (x - mean_op(x, axis=axis, keepdim=True))
            * (_var_scale(_count(x.shape, axis), correction) / 2)
        )
    ],
    shape=reduced_shape,
)


def _var_scale(count: int, correction: float) -> float:
    freedom = count - correction
    if freedom == 0:
        return math.inf
    return 2 / freedom if freedom > 0 else math.nan


# -- public functions -------------------------------------------------------------------


def reduce_over(op: Op, x: Any, dim: Dim, keepdim: bool, **attrs: Any) -> Any:
    """A reducing op with PyTorch's arguments."""
    return op(x, axis=full_axes(x, dim), keepdim=bool(keepdim), **attrs)


def in_dtype(dtype: Any, reduce: Callable[[Any], Any], x: Any) -> Any:
    """reduce(x) of x cast to `dtype` first; integers, which add up in int64, are cast back."""
    if dtype is None:
        return reduce(x)
    kind = np.dtype(dtype)
    out = reduce(x if x.dtype == kind else cast(x, dtype=kind))
    return out if out.dtype == kind else cast(out, dtype=kind)


@public(method=True, numpy=True)
def sum(input: Any, dim: Dim = None, keepdim: bool = False, *, dtype: Any = None) -> Any:
    """Sum over `dim` (one, several, or all).

    >>> import gradwalk as gw
    >>> gw.sum(gw.tensor([[1.0, 2.0], [3.0, 4.0]]), dim=0)
    tensor([4., 6.])
    """
    return in_dtype(dtype, lambda x: reduce_over(sum_op, x, dim, keepdim), input)


@public(method=True, numpy=True)
def mean(input: Any, dim: Dim = None, keepdim: bool = False, *, dtype: Any = None) -> Any:
    """Mean over `dim`; integers have none, cast them first."""
    return in_dtype(
        dtype, lambda x: reduce_over(mean_op, of_floats("mean", x), dim, keepdim), input
    )


def of_floats(name: str, x: Any) -> Any:
    """x itself; integers are refused by the functions whose result would not be one."""
    if not has_gradients(x.dtype):
        raise TypeError(
            f"{name} of a {x.dtype} tensor: the result would not be an integer; "
            f"use x.float().{name}()"
        )
    return x


@public(method=True, numpy=True)
def prod(input: Any, dim: Dim = None, keepdim: bool = False, *, dtype: Any = None) -> Any:
    """Product over `dim`."""
    return in_dtype(dtype, lambda x: reduce_over(prod_op, x, dim, keepdim), input)


def _reduction(op: Op, doc: str) -> Callable[..., Any]:
    """The public function of a reducing op without options of its own."""

    @public_as(op.name, doc, method=True, numpy=True)
    def reduction(input: Any, dim: Dim = None, keepdim: bool = False) -> Any:
        return reduce_over(op, input, dim, keepdim)

    return reduction


def _truth(op: Op, doc: str) -> Callable[..., Any]:
    """The public function of `all_op` or `any_op`, whose `dim=()` names no dimension, not all."""

    @public_as(op.name, doc, method=True, numpy=True)
    def truth(input: Any, dim: Dim = None, keepdim: bool = False) -> Any:
        none = isinstance(dim, (tuple, list)) and not dim
        return input != 0 if none else reduce_over(op, input, dim, keepdim)

    return truth


amax = _reduction(amax_op, "Largest value over `dim`; ties share the gradient equally.")
amin = _reduction(amin_op, "Smallest value over `dim`; ties share the gradient equally.")
all = _truth(all_op, "Whether every element is true.")
any = _truth(any_op, "Whether some element is true.")


@public(method=True, numpy=True)
def max(input: Any, dim: Any = None, keepdim: bool = False, *, other: Any = None) -> Mixed:
    """`max(x)` the largest value, `max(x, dim)` values and indices, `max(x, y)` elementwise."""
    return _best(amax_op, max_along, "maximum", input, dim if other is None else other, keepdim)


@public(method=True, numpy=True)
def min(input: Any, dim: Any = None, keepdim: bool = False, *, other: Any = None) -> Mixed:
    """`min(x)` the smallest value, `min(x, dim)` values and indices, `min(x, y)` elementwise."""
    return _best(amin_op, min_along, "minimum", input, dim if other is None else other, keepdim)


class ValuesIndices(NamedTuple):
    """The chosen values, and the index of each."""

    values: Any
    indices: Any

    def __repr__(self) -> str:
        return f"values_indices(\nvalues={self[0]!r},\nindices={self[1]!r})"


def _best(whole: Op, along: Op, pairwise: str, x: Any, dim: Any, keepdim: bool) -> Any:
    if dim is None:
        return reduce_over(whole, x, None, keepdim)
    if hasattr(dim, "shape") and not isinstance(dim, np.integer):
        from gradwalk.ops.elementwise import choice

        return getattr(choice, pairwise)(x, dim)
    axis = (normal_axis(dim, x.ndim),)
    if not x.ndim:  # one number, at index 0
        return ValuesIndices(*along(reshape(x, shape=(1,)), axis=axis, keepdim=False))
    return ValuesIndices(*along(x, axis=axis, keepdim=bool(keepdim)))


@public(method=True, numpy=True)
def argmax(input: Any, dim: int | None = None, keepdim: bool = False) -> Any:
    """Index of the (first) largest value, over everything or along `dim`."""
    return reduce_over(argmax_op, input, dim, keepdim)


@public(method=True, numpy=True)
def argmin(input: Any, dim: int | None = None, keepdim: bool = False) -> Any:
    """Index of the (first) smallest value, over everything or along `dim`."""
    return reduce_over(argmin_op, input, dim, keepdim)


def _deviation(op: Op, doc: str) -> Callable[..., Any]:
    """The public function of `var_op` or `std_op`."""

    @public_as(op.name, doc, method=True, numpy=True)
    def deviation(
        input: Any,
        dim: Dim | bool = None,
        unbiased: bool | None = None,
        keepdim: bool = False,
        *,
        correction: float | None = None,
    ) -> Any:
        if isinstance(dim, bool):  # PyTorch's older form var(x, unbiased)
            dim, unbiased = None, dim
        if unbiased is not None and correction is not None:
            raise TypeError(f"{op.name} takes unbiased or correction, not both")
        if correction is None:
            correction = 0 if unbiased is False else 1
        x = of_floats(op.name, input)
        if is_complex_dtype(x.dtype):  # the mean of |x − mean|²
            along, across = (
                reduce_over(var_op, part(x), dim, keepdim, correction=correction)
                for part in (real, imag)
            )
            return along + across if op is var_op else power(along + across, exponent=0.5)
        return reduce_over(op, x, dim, keepdim, correction=correction)

    return deviation


var = _deviation(
    var_op,
    """Variance over `dim`, divided by n − correction (1 unless given; unbiased=False means 0).

    >>> import gradwalk as gw
    >>> gw.var(gw.tensor([1.0, 2.0, 3.0]), correction=0)
    tensor(0.6667)
    """,
)
std = _deviation(std_op, "Standard deviation over `dim`: the square root of `var`.")
