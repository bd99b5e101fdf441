"""Pooling: one element for every window."""

from __future__ import annotations

import functools
import inspect
import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from gradwalk.graph.abstract import numbers_of
from gradwalk.nn.functional.dimensions import Size, check_rank, for_dimensions, sizes
from gradwalk.nn.functional.sparse import check_indices
from gradwalk.ops.core.dtypes import int64, is_floating, is_half
from gradwalk.ops.core.op import Shape
from gradwalk.ops.elementwise.activation import relu
from gradwalk.ops.elementwise.arithmetic import abs as absolute
from gradwalk.ops.elementwise.arithmetic import div_trunc, pow, sign
from gradwalk.ops.elementwise.choice import where
from gradwalk.ops.index.indexing import getitem
from gradwalk.ops.linear.matmul import matmul
from gradwalk.ops.network import pooling as ops
from gradwalk.ops.reduce.reduction import max as maximum_along
from gradwalk.ops.reduce.reduction import mean
from gradwalk.ops.shape.reshaping import cast, reshape, unsqueeze
from gradwalk.random.sampling import rand
from gradwalk.tensors import creation

__all__ = [
    "adaptive_avg_pool1d", "adaptive_avg_pool2d", "adaptive_avg_pool3d", "adaptive_max_pool1d",
    "adaptive_max_pool1d_with_indices", "adaptive_max_pool2d", "adaptive_max_pool2d_with_indices",
    "adaptive_max_pool3d", "adaptive_max_pool3d_with_indices", "avg_pool1d", "avg_pool2d",
    "avg_pool3d", "fractional_max_pool2d", "fractional_max_pool2d_with_indices",
    "fractional_max_pool3d", "fractional_max_pool3d_with_indices", "lp_pool1d", "lp_pool2d",
    "lp_pool3d", "max_pool1d", "max_pool1d_with_indices", "max_pool2d", "max_pool2d_with_indices",
    "max_pool3d", "max_pool3d_with_indices", "max_unpool1d", "max_unpool2d", "max_unpool3d",
]  # fmt: skip


def _check(name: str, x: Any, n: int, kinds: str = "f") -> None:
    check_rank(name, x, n)
    if x.dtype.kind not in kinds and not is_floating(x.dtype):
        raise TypeError(f"{name} takes floating-point numbers, these are {x.dtype}")


def _strides(stride: Size | None, kernel: Shape) -> Shape:
    """The stride; by default the kernel size."""
    if stride is None or (isinstance(stride, (tuple, list)) and not stride):
        return kernel
    return sizes("stride", stride, len(kernel))


def _windows(
    size: Shape, kernel: Shape, stride: Shape, pads: Shape, dilation: Shape, ceil_mode: bool
) -> Shape:
    """The number of windows along each dimension."""
    counts = []
    for n, k, s, p, d in zip(size, kernel, stride, pads, dilation, strict=True):
        if 2 * p > k:
            raise ValueError(f"padding {p} must be at most half the kernel size {k}")
        room = n + 2 * p - d * (k - 1) - 1
        count = (room + (s - 1 if ceil_mode else 0)) // s + 1
        if ceil_mode and (count - 1) * s >= n + p:
            count -= 1  # the last window must begin inside the input or the left padding
        if count < 1:
            raise ValueError(f"a window of size {kernel} does not fit an input of size {size}")
        counts.append(count)
    return tuple(counts)


def max_pool(
    n: int,
    input: Any,
    kernel_size: Size,
    stride: Size | None = None,
    padding: Size = 0,
    dilation: Size = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:
    """The largest element of every window of the last n dimensions."""
    _check(f"max_pool{n}d", input, n, "fiu")
    kernel = sizes("kernel_size", kernel_size, n)
    strides = _strides(stride, kernel)
    pads, dilations = sizes("padding", padding, n, 0), sizes("dilation", dilation, n)
    size = tuple(input.shape[input.ndim - n :])
    attrs = dict(
        kernel=kernel,
        out=_windows(size, kernel, strides, pads, dilations, ceil_mode),
        stride=strides,
        padding=tuple((p, p) for p in pads),
        dilation=dilations,
    )
    values = ops.max_pool(input, **attrs)
    return (values, ops.max_pool_indices(input, **attrs)) if return_indices else values


_LARGEST = "The largest element of every window; the gradient goes to the (first) one chosen."

max_pool1d = for_dimensions(max_pool, 1, _LARGEST)
max_pool3d = for_dimensions(max_pool, 3, _LARGEST)
max_pool2d = for_dimensions(
    max_pool,
    2,
    f"""{_LARGEST}

    >>> import gradwalk as gw
    >>> gw.nn.functional.max_pool2d(gw.tensor([[[1.0, 2.0], [3.0, 4.0]]]), 2)
    tensor([[[4.]]])
    """,
)


def avg_pool(
    n: int,
    input: Any,
    kernel_size: Size,
    stride: Size | None = None,
    padding: Size = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Any:
    """The mean of every window of the last n dimensions."""
    _check(f"avg_pool{n}d", input, n, "fiu")
    kernel = sizes("kernel_size", kernel_size, n)
    strides = _strides(stride, kernel)
    pads = sizes("padding", padding, n, 0)
    size = tuple(input.shape[input.ndim - n :])
    out = _windows(size, kernel, strides, pads, (1,) * n, ceil_mode)
    padded = tuple((p, p) for p in pads)
    total = ops.pool_sum(input, kernel=kernel, out=out, stride=strides, padding=padded)
    if divisor_override is not None:
        if not divisor_override:
            raise ValueError("divisor_override must not be 0")
        return _over(total, divisor_override)
    if not ceil_mode and (count_include_pad or not any(pads)):
        return _over(total, math.prod(kernel))
    counts = functools.reduce(
        np.multiply.outer,
        (
            _counts(*axis, count_include_pad)
            for axis in zip(size, kernel, out, strides, pads, strict=True)
        ),
    )
    return _over(total, counts)


def _over(total: Any, count: Any) -> Any:
    """A mean; of integers it is truncated, as in PyTorch."""
    if not is_floating(total.dtype):
        return div_trunc(total, count)
    return total * (1 / count) if isinstance(count, int) else total / count.astype(total.dtype)


def _counts(n: int, kernel: int, out: int, stride: int, pad: int, include: bool) -> Any:
    """The number of elements of each window along one dimension, with or without padding."""
    start = np.arange(out) * stride - pad
    stop = np.minimum(start + kernel, n + pad)
    return stop - start if include else np.minimum(stop, n) - np.maximum(start, 0)


def avg_pool1d(
    input: Any,
    kernel_size: Size,
    stride: Size | None = None,
    padding: Size = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
) -> Any:
    """The mean of every window."""
    return avg_pool(1, input, kernel_size, stride, padding, ceil_mode, count_include_pad)


avg_pool2d = for_dimensions(
    avg_pool,
    2,
    """The mean of every window.

    >>> import gradwalk as gw
    >>> gw.nn.functional.avg_pool2d(gw.tensor([[[1.0, 2.0], [3.0, 4.0]]]), 2)
    tensor([[[2.5000]]])
    """,
)
avg_pool3d = for_dimensions(avg_pool, 3, "The mean of every window.")


def lp_pool(
    n: int,
    input: Any,
    norm_type: float,
    kernel_size: Size,
    stride: Size | None = None,
    ceil_mode: bool = False,
) -> Any:
    """(Σ x^p)^(1/p) of every window of the last n dimensions."""
    kernel = sizes("kernel_size", kernel_size, n)
    means = avg_pool(n, pow(input, norm_type), kernel, stride, 0, ceil_mode)
    # As in PyTorch: the sign of a sum of odd powers stays, and a sum of 0 has the gradient 0.
    total = sign(means) * relu(absolute(means)) * math.prod(kernel)
    return pow(total, 1 / norm_type)


_POWER = "The p-norm of every window: (Σ x^p)^(1/p), without absolute values."
lp_pool1d = for_dimensions(lp_pool, 1, _POWER)
lp_pool2d = for_dimensions(lp_pool, 2, _POWER)
lp_pool3d = for_dimensions(lp_pool, 3, _POWER)


def max_unpool(
    n: int,
    input: Any,
    indices: Any,
    kernel_size: Size,
    stride: Size | None = None,
    padding: Size = 0,
    output_size: Any = None,
) -> Any:
    """Each element at the place that a max pool took it from, 0 elsewhere."""
    check_rank(f"max_unpool{n}d", input, n)
    if tuple(indices.shape) != tuple(input.shape):
        raise ValueError(
            f"max_unpool{n}d: indices of shape {tuple(indices.shape)} for an input of shape "
            f"{tuple(input.shape)}; a max pool with return_indices=True gives both"
        )
    kernel = sizes("kernel_size", kernel_size, n)
    strides, pads = _strides(stride, kernel), sizes("padding", padding, n, 0)
    lead = tuple(input.shape[: input.ndim - n])
    usual = tuple(
        (size - 1) * s + k - 2 * p
        for size, s, k, p in zip(input.shape[len(lead) :], strides, kernel, pads, strict=True)
    )
    out = usual if output_size is None else tuple(output_size)[-n:]
    if any(abs(o - u) >= s for o, u, s in zip(out, usual, strides, strict=True)):
        raise ValueError(f"output_size {out} is not near {usual}, which max_unpool{n}d makes")
    count = math.prod(input.shape[len(lead) :])
    places = reshape(indices, shape=(*lead, count))
    check_indices(f"max_unpool{n}d", places, math.prod(out))
    values = reshape(input, shape=(*lead, count))
    spread = ops.scatter_last(values, places, length=math.prod(out), apart=True)
    return reshape(spread, shape=(*lead, *out))


_BACK = "Put elements back where `max_pool` with `return_indices` took them from; 0 elsewhere."
max_unpool1d = for_dimensions(max_unpool, 1, _BACK)
max_unpool2d = for_dimensions(max_unpool, 2, _BACK)
max_unpool3d = for_dimensions(max_unpool, 3, _BACK)


# -- adaptive ------------------------------------------------------------------------------------


def _targets(name: str, x: Any, output_size: Any, n: int) -> Shape:
    _check(name, x, n)
    given = (
        (output_size,) * n
        if isinstance(output_size, int | np.integer | None)
        else tuple(output_size)
    )
    if len(given) != n:
        raise ValueError(f"{name}: output_size must be one or {n} number(s), not {output_size!r}")
    own = x.shape[x.ndim - n :]
    out = tuple(int(size) if o is None else int(o) for o, size in zip(given, own, strict=True))
    if min(out) < 1:
        raise ValueError(f"{name}: output_size must be positive, not {output_size!r}")
    return out


def _bins(size: int, out: int) -> list[tuple[int, int]]:
    """Where each of `out` windows begins and ends, as in PyTorch."""
    return [(i * size // out, -(-(i + 1) * size // out)) for i in range(out)]


def along(x: Any, matrix: np.ndarray[Any, Any], axis: int) -> Any:
    """Apply a constant matrix along one dimension."""
    matrix = matrix.astype(x.dtype)
    if axis == x.ndim - 1:
        return matmul(x, matrix.T)
    if axis == x.ndim - 2:
        return matmul(matrix, x)
    lead, rest = x.shape[:axis], x.shape[axis + 1 :]
    columns = matmul(matrix, reshape(x, shape=(*lead, x.shape[axis], math.prod(rest))))
    return reshape(columns, shape=(*lead, matrix.shape[0], *rest))


def adaptive_avg_pool(n: int, input: Any, output_size: Any) -> Any:
    """The mean of windows of (nearly) equal size of the last n dimensions."""
    out = _targets(f"adaptive_avg_pool{n}d", input, output_size, n)
    x, lead = input, input.ndim - n
    size = tuple(x.shape[lead:])
    if out == (1,) * n:
        return mean(x, tuple(range(lead, x.ndim)), keepdim=True)
    for i, (own, wanted) in enumerate(zip(size, out, strict=True)):
        matrix = np.zeros((wanted, own))
        for row, (start, stop) in enumerate(_bins(own, wanted)):
            matrix[row, start:stop] = 1 / (stop - start)
        x = along(x.float() if is_half(x.dtype) else x, matrix, lead + i)
    return x if x.dtype == input.dtype else x.to(input.dtype)  # halves are rounded once


adaptive_avg_pool1d = for_dimensions(
    adaptive_avg_pool, 1, "The mean of `output_size` windows of (nearly) equal length."
)
adaptive_avg_pool2d = for_dimensions(
    adaptive_avg_pool,
    2,
    """The mean of windows chosen so that the output has size `output_size`.

    >>> import gradwalk as gw
    >>> gw.nn.functional.adaptive_avg_pool2d(gw.ones(1, 2, 7, 5), 1).shape
    (1, 2, 1, 1)
    """,
)
adaptive_avg_pool3d = for_dimensions(
    adaptive_avg_pool, 3, "The mean of windows chosen so that the output has size `output_size`."
)


def adaptive_max_pool(n: int, input: Any, output_size: Any, return_indices: bool = False) -> Any:
    """Pad windows of different lengths to the longest, then take one maximum over all."""
    x, out = input, _targets(f"adaptive_max_pool{n}d", input, output_size, n)
    lead = x.ndim - n
    size = tuple(x.shape[lead:])
    if all(own % wanted == 0 for own, wanted in zip(size, out, strict=True)):
        kernel = tuple(own // wanted for own, wanted in zip(size, out, strict=True))
        return max_pool(n, x, kernel, return_indices=return_indices)
    flat, inside = np.zeros((1, 1), np.int64), np.ones((1, 1), bool)
    for own, wanted in zip(size, out, strict=True):
        bins = _bins(own, wanted)
        longest = max(stop - start for start, stop in bins)
        at = np.array([[min(start + i, own - 1) for i in range(longest)] for start, _ in bins])
        fits = np.array([[start + i < stop for i in range(longest)] for start, stop in bins])
        flat = _joined(flat * own, at, np.add)
        inside = _joined(inside, fits, np.logical_and)
    rows = reshape(x, shape=(*x.shape[:lead], math.prod(size)))
    windows = getitem(rows, flat, index=("...", ("array", 0)))  # (..., windows, elements)
    values, places = maximum_along(where(inside, windows, -math.inf), -1)
    values = reshape(values, shape=(*x.shape[:lead], *out))
    if not return_indices:
        return values
    table = creation.as_tensor(flat, device=values.device)
    chosen = getitem(table, np.arange(len(flat)), places, index=(("array", 0), ("array", 1)))
    return values, reshape(chosen, shape=tuple(values.shape))


def _joined(known: Any, more: Any, join: Any) -> Any:
    """Facts about (..., windows, elements) with those of one more dimension."""
    grid = join(known[..., :, None, :, None], more[..., None, :, None, :])
    *lead, a, b, c, d = grid.shape
    return grid.reshape(*lead, a * b, c * d)


adaptive_max_pool1d = for_dimensions(
    adaptive_max_pool, 1, "The largest element of `output_size` windows of (nearly) equal length."
)
adaptive_max_pool2d = for_dimensions(
    adaptive_max_pool,
    2,
    "The largest element of windows chosen so that the output has size `output_size`.",
)
adaptive_max_pool3d = for_dimensions(
    adaptive_max_pool,
    3,
    "The largest element of windows chosen so that the output has size `output_size`.",
)


# -- fractional ----------------------------------------------------------------------------------


def fractional_max_pool(
    n: int,
    input: Any,
    kernel_size: Size,
    output_size: Size | None = None,
    output_ratio: Any = None,
    return_indices: bool = False,
    _random_samples: Any = None,
) -> Any:
    """The largest element of windows that begin at random places, of the last n dimensions."""
    name = f"fractional_max_pool{n}d"
    _check(name, input, n)
    kernel = sizes("kernel_size", kernel_size, n)
    if (output_size is None) == (output_ratio is None):
        raise ValueError(f"{name} takes either output_size or output_ratio")
    lead = tuple(input.shape[: input.ndim - n])
    size = tuple(input.shape[len(lead) :])
    if output_size is None:
        ratios = (output_ratio,) * n if isinstance(output_ratio, float) else tuple(output_ratio)
        output_size = tuple(int(own * r) for own, r in zip(size, ratios, strict=True))
    out = sizes("output_size", output_size, n)
    if any(o + k - 1 > own for o, k, own in zip(out, kernel, size, strict=True)):
        raise ValueError(f"{name}: windows of {kernel} at {out} places do not fit {size}")
    drawn = rand(*lead, n, dtype=input.dtype) if _random_samples is None else _random_samples
    known = numbers_of(drawn)  # those of the samples of a batch differ
    samples: Any = drawn.detach() if known is None else known
    samples = samples.reshape(-1, n)[: math.prod(lead)].reshape(*lead, n)
    flat: Any = np.zeros((*lead, 1, 1), np.int64)
    for axis, (own, o, k) in enumerate(zip(size, out, kernel, strict=True)):
        sample = samples[..., axis if n == 3 else n - 1 - axis, None]  # PyTorch's order
        step, places = (own - k) / max(o - 1, 1), np.arange(o)
        begin = cast((places + sample) * step, dtype=int64) - cast(sample * step, dtype=int64)
        begin = where(places == o - 1, own - k, begin)
        flat = _joined(flat * own, begin[..., None] + np.arange(k), operator.add)
    rows = reshape(input, shape=(*lead, math.prod(size)))
    windows = ops.gather_last(
        rows, flat.reshape(*lead, math.prod(flat.shape[len(lead) :])), apart=False
    )
    values, places = maximum_along(reshape(windows, shape=tuple(flat.shape)), -1)
    values = reshape(values, shape=(*lead, *out))
    if not return_indices:
        return values
    table = creation.as_tensor(flat, device=values.device)
    chosen = ops.gather_last(table, unsqueeze(places, -1), apart=True)
    return values, reshape(chosen, shape=tuple(values.shape))


_RANDOM = "The largest element of windows that begin at random places, nearly evenly spaced."
fractional_max_pool2d = for_dimensions(fractional_max_pool, 2, _RANDOM)
fractional_max_pool3d = for_dimensions(fractional_max_pool, 3, _RANDOM)


def _with_indices(pool: Callable[..., Any]) -> Callable[..., Any]:
    """The pool that returns the places of the largest elements too."""

    def with_indices(*args: Any, **options: Any) -> Any:
        return pool(*args, **options | {"return_indices": True})

    with_indices.__signature__ = inspect.signature(pool)  # type: ignore[attr-defined]
    with_indices.__name__ = with_indices.__qualname__ = f"{pool.__name__}_with_indices"
    with_indices.__doc__ = f"`{pool.__name__}`, and the indices of what it takes."
    return with_indices


max_pool1d_with_indices = _with_indices(max_pool1d)
max_pool2d_with_indices = _with_indices(max_pool2d)
max_pool3d_with_indices = _with_indices(max_pool3d)
adaptive_max_pool1d_with_indices = _with_indices(adaptive_max_pool1d)
adaptive_max_pool2d_with_indices = _with_indices(adaptive_max_pool2d)
adaptive_max_pool3d_with_indices = _with_indices(adaptive_max_pool3d)
fractional_max_pool2d_with_indices = _with_indices(fractional_max_pool2d)
fractional_max_pool3d_with_indices = _with_indices(fractional_max_pool3d)
