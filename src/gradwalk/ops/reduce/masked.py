"""Reductions over the elements where a mask is true: `torch.masked`, for plain tensors.

Where no element is left, a result is that of nothing: 0, 1, −∞, NaN.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from gradwalk.ops.core.dtypes import furthest, get_default_dtype, has_gradients, real_only
from gradwalk.ops.core.halves import rounds_once
from gradwalk.ops.core.public import public
from gradwalk.ops.elementwise import arithmetic, special
from gradwalk.ops.elementwise.choice import clip, where
from gradwalk.ops.network import softmax as softmaxes
from gradwalk.ops.reduce import norms, reduction, scan, without_nan
from gradwalk.ops.reduce.reduction import Dim
from gradwalk.ops.shape.reshaping import broadcast_to, cast, full_axes


def _filled(input: Any, mask: Any, value: Any, dtype: Any = None) -> Any:
    """`input`, with one value where the mask is false."""
    x = input if dtype is None else cast(input, dtype=np.dtype(dtype))
    if mask is None:
        return x
    if mask.dtype.kind != "b":
        raise TypeError(f"a mask is of bool, not {mask.dtype}: mask.bool()")
    out = where(broadcast_to(mask, tuple(x.shape)), x, value)
    return out if out.dtype == x.dtype else cast(out, dtype=x.dtype)


def _count(input: Any, mask: Any, dim: Dim, keepdim: bool) -> Any:
    """How many elements are left."""
    everywhere = (input == input) | (input != input)
    kept = everywhere if mask is None else broadcast_to(mask, tuple(input.shape))
    return reduction.sum(kept, dim, keepdim)


@public(namespaces="masked")
def sum(
    input: Any, dim: Dim = None, *, keepdim: bool = False, dtype: Any = None, mask: Any = None
) -> Any:
    """The sum of the elements where the mask is true.

    >>> import gradwalk as gw
    >>> gw.masked.sum(gw.tensor([1.0, 2.0, 4.0]), mask=gw.tensor([True, False, True]))
    tensor(5.)
    """
    return reduction.sum(_filled(input, mask, 0), dim, keepdim, dtype=dtype)


@public(namespaces="masked")
def prod(
    input: Any, dim: Dim = None, *, keepdim: bool = False, dtype: Any = None, mask: Any = None
) -> Any:
    """The product of the elements where the mask is true."""
    if mask is None and dtype is None and not input.ndim and has_gradients(input.dtype):
        return input  # as PyTorch
    return reduction.prod(_filled(input, mask, 1), dim, keepdim, dtype=dtype)


@public(namespaces="masked")
def amax(
    input: Any, dim: Dim = None, *, keepdim: bool = False, dtype: Any = None, mask: Any = None
) -> Any:
    """The largest of the elements where the mask is true."""
    x = _filled(input, mask, furthest(np.dtype(dtype or input.dtype), below=True), dtype)
    return reduction.amax(x, dim, keepdim)


@public(namespaces="masked")
def amin(
    input: Any, dim: Dim = None, *, keepdim: bool = False, dtype: Any = None, mask: Any = None
) -> Any:
    """The smallest of the elements where the mask is true."""
    x = _filled(input, mask, furthest(np.dtype(dtype or input.dtype), below=False), dtype)
    return reduction.amin(x, dim, keepdim)


@public(namespaces="masked")
def argmax(
    input: Any,
    dim: int | None = None,
    *,
    keepdim: bool = False,
    dtype: Any = None,
    mask: Any = None,
) -> Any:
    """The index of the largest element where the mask is true, in the dtype of the input."""
    lowest = furthest(np.dtype(dtype or input.dtype), below=True)
    found = reduction.argmax(_filled(input, mask, lowest, dtype), dim, keepdim)
    return cast(found, dtype=np.dtype(dtype or input.dtype))


@public(namespaces="masked")
def argmin(
    input: Any,
    dim: int | None = None,
    *,
    keepdim: bool = False,
    dtype: Any = None,
    mask: Any = None,
) -> Any:
    """The index of the smallest element where the mask is true, in the dtype of the input."""
    highest = furthest(np.dtype(dtype or input.dtype), below=False)
    found = reduction.argmin(_filled(input, mask, highest, dtype), dim, keepdim)
    return cast(found, dtype=np.dtype(dtype or input.dtype))


@public(namespaces="masked")
def mean(
    input: Any, dim: Dim = None, *, keepdim: bool = False, dtype: Any = None, mask: Any = None
) -> Any:
    """The mean of the elements where the mask is true; NaN where there is none."""
    total = sum(input, dim, keepdim=keepdim, dtype=dtype, mask=mask)
    count = _count(input, mask, dim, keepdim)
    return total / cast(count, dtype=total.dtype) if has_gradients(total.dtype) else total / count


@public(namespaces="masked")
def median(
    input: Any, dim: int = -1, *, keepdim: bool = False, dtype: Any = None, mask: Any = None
) -> Any:
    """The lower middle of the elements along `dim` where the mask is true."""
    return without_nan.nanmedian(_filled(input, mask, math.nan, dtype), dim, keepdim).values


@public(namespaces="masked")
def logsumexp(
    input: Any, dim: Dim = None, *, keepdim: bool = False, dtype: Any = None, mask: Any = None
) -> Any:
    """log Σ exp of the elements where the mask is true; of integers, cut to integers."""
    x = _filled(_floats(input, dtype), mask, -math.inf)
    out = softmaxes.logsumexp(x, full_axes(x, dim), keepdim)
    return out if has_gradients(input.dtype) else cast(out, dtype=np.dtype(dtype or input.dtype))


@public(namespaces="masked")
def logaddexp(
    input: Any, other: Any, *, dtype: Any = None, input_mask: Any = None, other_mask: Any = None
) -> Any:
    """Log(exp(input) + exp(other)), each where its mask is true."""
    x = _filled(input, input_mask, -math.inf, dtype)
    return special.logaddexp(x, _filled(other, other_mask, -math.inf, dtype))


@public(namespaces="masked")
def norm(
    input: Any,
    ord: float = 2.0,
    dim: Dim = None,
    *,
    keepdim: bool = False,
    dtype: Any = None,
    mask: Any = None,
) -> Any:
    """(Σ |x|^ord)^(1 / ord) of the elements where the mask is true."""
    x = _filled(input, mask, math.inf if ord == -math.inf else 0, dtype)
    return norms.vector_norm(x, ord, dim, keepdim)


@public(namespaces="masked")
def normalize(
    input: Any, ord: float, dim: int, *, eps: float = 1e-12, dtype: Any = None, mask: Any = None
) -> Any:
    """The elements where the mask is true, divided by their norm; others are 0."""
    size = norm(input, ord, dim, keepdim=True, dtype=dtype, mask=mask)
    return _filled(input, mask, 0, dtype) / clip(size, eps)


def _floats(input: Any, dtype: Any) -> Any:
    if dtype is None and not has_gradients(input.dtype):
        dtype = get_default_dtype()
    return input if dtype is None else cast(input, dtype=np.dtype(dtype))


@public(namespaces="masked")
def var(
    input: Any,
    dim: Dim = None,
    unbiased: bool | None = None,
    *,
    correction: float | None = None,
    keepdim: bool = False,
    dtype: Any = None,
    mask: Any = None,
) -> Any:
    """The variance of the elements where the mask is true, divided by n − correction."""
    if unbiased is not None and correction is not None:
        raise TypeError("var takes unbiased or correction, not both")
    if correction is None:
        correction = 0 if unbiased is False else 1
    x = _floats(input, dtype)
    real_only("masked.var", x)
    apart = x - mean(x, dim, keepdim=True, mask=mask)
    total = sum(arithmetic.square(apart), dim, keepdim=keepdim, mask=mask)
    return total / clip(cast(_count(x, mask, dim, keepdim), dtype=total.dtype) - correction, 0)


@public(namespaces="masked")
def std(
    input: Any,
    dim: Dim = None,
    unbiased: bool | None = None,
    *,
    correction: float | None = None,
    keepdim: bool = False,
    dtype: Any = None,
    mask: Any = None,
) -> Any:
    """The square root of `var`."""
    options: dict[str, Any] = {"correction": correction, "keepdim": keepdim, "dtype": dtype}
    return arithmetic.sqrt(var(input, dim, unbiased, mask=mask, **options))


@public(namespaces="masked")
def cumsum(input: Any, dim: int, *, dtype: Any = None, mask: Any = None) -> Any:
    """Running sums along `dim` of the elements where the mask is true."""
    return scan.cumsum(_filled(input, mask, 0), dim, dtype=dtype or input.dtype)


@public(namespaces="masked")
def cumprod(input: Any, dim: int, *, dtype: Any = None, mask: Any = None) -> Any:
    """Running products along `dim` of the elements where the mask is true."""
    return scan.cumprod(_filled(input, mask, 1), dim, dtype=dtype or input.dtype)


@public(namespaces="masked")
def softmax(input: Any, dim: int, *, dtype: Any = None, mask: Any = None) -> Any:
    """Softmax along `dim` over the elements where the mask is true; others are 0."""
    return softmaxes.softmax(_filled(_floats(input, dtype), mask, -math.inf), dim)


@public(namespaces="masked")
def log_softmax(input: Any, dim: int, *, dtype: Any = None, mask: Any = None) -> Any:
    """The logarithm of `softmax`."""
    return softmaxes.log_softmax(_filled(_floats(input, dtype), mask, -math.inf), dim)


@public(namespaces="masked")
@rounds_once
def softmin(input: Any, dim: int, *, dtype: Any = None, mask: Any = None) -> Any:
    """`softmax` of −input."""
    return softmax(-_floats(input, dtype), dim, mask=mask)
