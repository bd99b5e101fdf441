"""Layers of networks in JAX: losses, convolution, pooling, normalisation, recurrence."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from gradwalk.compiler.backends.xla.forwards.linear import factors
from gradwalk.compiler.backends.xla.forwards.promotion import wide
from gradwalk.compiler.backends.xla.platform import traced_for
from gradwalk.compiler.ir.program import Program

Shape = tuple[int, ...]
Pairs = tuple[tuple[int, int], ...]

# -- softmax and losses ----------------------------------------------------------------------------


def _below_top(x: Any, axis: int) -> Any:
    """x minus its largest along an axis, which may have no elements."""
    return x - jnp.max(x, axis=axis, keepdims=True, initial=-math.inf)


def _softmax(x: Any, *, axis: int) -> Any:
    e = jnp.exp(_below_top(x, axis))
    return e / jnp.sum(e, axis=axis, keepdims=True)


def _log_softmax(x: Any, *, axis: int) -> Any:
    shifted = _below_top(x, axis)
    return shifted - jnp.log(jnp.sum(jnp.exp(shifted), axis=axis, keepdims=True))


_LEAST_LOG = -100.0  # stands in for log 0 (ops/network/softmax.py)


def _binary_cross_entropy(x: Any, target: Any) -> Any:
    hit = jnp.maximum(jnp.log(x), _LEAST_LOG)
    miss = jnp.maximum(jnp.log1p(-x), _LEAST_LOG)
    return (target - 1) * miss - target * hit


def _binary_cross_entropy_logits(x: Any, target: Any) -> Any:
    return jnp.log1p(jnp.exp(-jnp.abs(x))) + jnp.maximum(x, 0) - x * target


# -- convolution -----------------------------------------------------------------------------------


def _convolved(x: Any, y: Any, *args: Any, **keywords: Any) -> Any:
    """A convolution; products of halves are added in float32."""
    operands, options = factors(x, y)
    if traced_for.get() == "cuda" and x.dtype.itemsize < 4:
        options["preferred_element_type"] = x.dtype  # as it writes products of matrices
    return lax.conv_general_dilated(*operands, *args, **options, **keywords)


def _wide_conv(
    x: Any, weight: Any, *, stride: Shape, padding: Pairs, dilation: Shape, groups: int
) -> Any:
    return _convolved(x, weight, stride, padding, rhs_dilation=dilation, feature_group_count=groups)


def _conv_bias(x: Any, weight: Any, bias: Any, **attrs: Any) -> Any:
    total = _wide_conv(x, weight, **attrs)
    bias = bias.astype(total.dtype).reshape(len(bias), *(1,) * (x.ndim - 2))
    return (total + bias).astype(x.dtype)


def _back_padding(
    size: Shape, kernel: Shape, out: Shape, stride: Shape, padding: Pairs, dilation: Shape
) -> list[tuple[int, int]]:
    """Padding (or, negative, cutting) of outputs `stride` apart, so that a turned kernel that
    slides over them gives an input of `size`."""
    return [
        (d * (k - 1) - before, n + before - s * (o - 1) - 1)
        for n, k, o, s, (before, _), d in zip(size, kernel, out, stride, padding, dilation)
    ]


def _exchanged(ndim: int) -> Shape:
    """The numbers of dimensions, the first two exchanged."""
    return (1, 0, *range(2, ndim))


def _conv_input(
    y: Any,
    weight: Any,
    *,
    shape: Shape,
    stride: Shape,
    padding: Pairs,
    dilation: Shape,
    groups: int,
) -> Any:
    """A convolution of the outputs, `stride` apart, with the weight turned around.

    Written as JAX writes the gradient of a convolution, a form that XLA gives to cuDNN.
    """
    ndim = weight.ndim
    outputs, each, *kernel = weight.shape
    if groups > 1:  # (O / groups, C, *kernel)
        split = weight.reshape(groups, outputs // groups, each, *kernel)
        weight = jnp.moveaxis(split, 0, 1).reshape(outputs // groups, groups * each, *kernel)
    same = tuple(range(ndim))
    return _convolved(
        y,
        lax.rev(weight, same[2:]),
        (1,) * len(kernel),
        _back_padding(shape, tuple(kernel), y.shape[2:], stride, padding, dilation),
        lhs_dilation=stride,
        rhs_dilation=dilation,
        dimension_numbers=lax.ConvDimensionNumbers(same, _exchanged(ndim), same),
        feature_group_count=groups,
    ).astype(y.dtype)


def _conv_weight(
    x: Any,
    y: Any,
    *,
    kernel: Shape,
    stride: Shape,
    padding: Pairs,
    dilation: Shape,
    groups: int,
) -> Any:
    """A convolution of the inputs with the outputs, `stride` apart; the batch is summed over."""
    pads = [
        (before, s * (o - 1) + d * (k - 1) + 1 - n - before)
        for n, k, o, s, (before, _), d in zip(
            x.shape[2:], kernel, y.shape[2:], stride, padding, dilation
        )
    ]
    exchanged = _exchanged(x.ndim)
    return _convolved(
        x,
        y,
        dilation,
        pads,
        rhs_dilation=stride,
        dimension_numbers=lax.ConvDimensionNumbers(exchanged, exchanged, exchanged),
        batch_group_count=groups,
    ).astype(x.dtype)


# -- pooling ---------------------------------------------------------------------------------------


def _windows(
    operand: Any,
    start: Any,
    combine: Callable[..., Any],
    *,
    kernel: Shape,
    out: Shape,
    stride: Shape,
    padding: Pairs,
    dilation: Shape,
) -> Any:
    """Every window of the trailing dimensions combined, of one array or of several side by side.

    The last window may reach beyond the padding (`ceil_mode`), and padding beyond the last window.
    """
    shape = jax.tree.leaves(operand)[0].shape
    lead = len(shape) - len(kernel)
    ones, none = (1,) * lead, ((0, 0),) * lead
    cover = tuple(
        (before, max(after, (o - 1) * s + (k - 1) * d + 1 - n - before))
        for n, k, o, s, (before, after), d in zip(
            shape[lead:], kernel, out, stride, padding, dilation
        )
    )
    found = lax.reduce_window(
        operand,
        start,
        combine,
        (*ones, *kernel),
        (*ones, *stride),
        (*none, *cover),
        window_dilation=(*ones, *dilation),
    )
    wanted = (..., *(slice(0, o) for o in out))
    return jax.tree.map(lambda x: x[wanted], found)


def _lowest(dtype: Any) -> Any:
    """A scalar of that dtype which no number is below."""
    lowest = -math.inf if jnp.issubdtype(dtype, jnp.floating) else jnp.iinfo(dtype).min
    return np.asarray(lowest, dtype)


def _winner(first: tuple[Any, Any], second: tuple[Any, Any]) -> tuple[Any, Any]:
    """The larger of two numbers with their places: of equal ones the first, of NaNs the last.

    It does not matter which comes first: XLA combines a window in any order.
    """
    (a, i), (b, j) = first, second
    a_is_nan, b_is_nan = a != a, b != b
    later_nan = b_is_nan & (~a_is_nan | (j > i))
    larger = (b > a) | ((a == b) & (j < i))
    take = later_nan | (larger & ~a_is_nan)
    return lax.select(take, b, a), lax.select(take, j, i)


def _max_pool_indices(x: Any, **attrs: Any) -> Any:
    size = x.shape[x.ndim - len(attrs["kernel"]) :]
    # What is kept for the gradient takes half the memory where int32 is enough.
    kind = np.int32 if math.prod(size) < np.iinfo(np.int32).max else np.int64
    places = jnp.arange(math.prod(size), dtype=kind).reshape(size)
    # Padding is behind all places, so that it loses against an equal number.
    start = _lowest(x.dtype), np.asarray(np.iinfo(kind).max, kind)
    found = _windows((x, jnp.broadcast_to(places, x.shape)), start, _winner, **attrs)[1]
    return found.astype(jnp.int64)


def _pool_sum(x: Any, **attrs: Any) -> Any:
    flat = (1,) * len(attrs["kernel"])
    return _windows(x, np.zeros((), x.dtype), lax.add, dilation=flat, **attrs)


def _pool_spread(y: Any, *, shape: Shape, kernel: Shape, stride: Shape, padding: Pairs) -> Any:
    """Sums over windows of the outputs, `stride` apart: those that an input was in."""
    lead, flat = y.ndim - len(kernel), (1,) * len(kernel)
    zero = np.zeros((), y.dtype)
    pads = _back_padding(shape, kernel, y.shape[lead:], stride, padding, flat)
    apart = [(*pad, s - 1) for pad, s in zip(pads, stride)]
    spread = lax.pad(y, zero, [*((0, 0, 0),) * lead, *apart])
    ones = (1,) * lead
    return lax.reduce_window(spread, zero, lax.add, (*ones, *kernel), (*ones, *flat), "VALID")


# -- normalisation ---------------------------------------------------------------------------------


def _standardize(x: Any, *, axes: Shape, eps: float, center: bool) -> tuple[Any, Any, Any]:
    """x normalised, its mean and 1 / standard deviation."""
    given, x = x, wide(x)
    if center:
        mean, variance = _moments(x, axes)
    else:
        mean = jnp.zeros([1 if i in axes else n for i, n in enumerate(x.shape)], x.dtype)
        variance = jnp.mean(x * x, axis=axes, keepdims=True)
    rstd = lax.rsqrt(variance + eps)
    return ((x - mean) * rstd).astype(given.dtype), mean, rstd


def _moments(x: Any, axes: Shape) -> tuple[Any, Any]:
    """The mean and the variance, from one reading of x: sums of its elements and their squares.

    So that the difference of the two keeps its digits, both are of x minus its first element.
    """
    first = x[tuple(slice(1) if i in axes else slice(None) for i in range(x.ndim))]
    apart = x - first
    shift = jnp.mean(apart, axis=axes, keepdims=True)
    variance = jnp.mean(apart * apart, axis=axes, keepdims=True) - shift * shift
    return first + shift, jnp.maximum(variance, 0)


def _standardize_backward(
    g: Any, x: Any, mean: Any, rstd: Any, *, axes: Shape, center: bool
) -> Any:
    given, g, out = g, wide(g), (wide(x) - mean) * rstd
    back = g - out * jnp.mean(g * out, axis=axes, keepdims=True)
    if center:
        back = back - jnp.mean(g, axis=axes, keepdims=True)
    return (back * rstd).astype(given.dtype)


# -- cross entropy ---------------------------------------------------------------------------------


def _cross_entropy_forward(logits: Any, target: Any, *, ignore_index: int) -> tuple[Any, Any]:
    """The loss of every row, and log Σ exp. Of a class that does not exist the loss is NaN."""
    used = target != ignore_index
    log_sum = jax.nn.logsumexp(wide(logits), axis=1)
    classes = jnp.where(used, target, 0)[:, None]
    picked = jnp.take_along_axis(logits, classes, axis=1, mode="fill")[:, 0]
    loss = jnp.where(log_sum == jnp.inf, jnp.nan, log_sum - picked)  # inf − inf
    return jnp.where(used, loss, 0).astype(logits.dtype), log_sum


def _cross_entropy_backward(
    g: Any, logits: Any, target: Any, log_sum: Any, *, ignore_index: int
) -> Any:
    """g × (softmax − one at the target), as one elementwise kernel."""
    columns = lax.broadcasted_iota(target.dtype, logits.shape, 1)
    hit = columns == target[:, None]
    each = jnp.where(target != ignore_index, wide(g), 0)[:, None]
    probabilities = jnp.exp(wide(logits) - log_sum[:, None])
    return ((probabilities - hit.astype(probabilities.dtype)) * each).astype(logits.dtype)


# -- recurrence ------------------------------------------------------------------------------------


def _lstm(
    x: Any, h: Any, c: Any, weight_x: Any, weight_h: Any, bias: Any, *, reverse: bool
) -> tuple[Any, Any]:
    def step(state: tuple[Any, Any], now: Any) -> tuple[tuple[Any, Any], Any]:
        h, c = state
        i, f, g, o = jnp.split(now + jnp.matmul(h, weight_h.mT), 4, -1)
        c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
        h = jax.nn.sigmoid(o) * jnp.tanh(c)
        return (h, c), h

    (_, c), out = lax.scan(step, (h, c), jnp.matmul(x, weight_x.mT) + bias, reverse=reverse)
    return out, c


def _gru(
    x: Any, h: Any, weight_x: Any, weight_h: Any, bias_x: Any, bias_h: Any, *, reverse: bool
) -> Any:
    def step(h: Any, now: Any) -> tuple[Any, Any]:
        x_r, x_z, x_n = jnp.split(now, 3, -1)
        h_r, h_z, h_n = jnp.split(jnp.matmul(h, weight_h.mT) + bias_h, 3, -1)
        n = jnp.tanh(x_n + jax.nn.sigmoid(x_r + h_r) * h_n)
        h = n + jax.nn.sigmoid(x_z + h_z) * (h - n)
        return h, h

    return lax.scan(step, h, jnp.matmul(x, weight_x.mT) + bias_x, reverse=reverse)[1]


def _rnn(
    x: Any, h: Any, weight_x: Any, weight_h: Any, bias: Any, *, reverse: bool, nonlinearity: str
) -> Any:
    def step(h: Any, now: Any) -> tuple[Any, Any]:
        now = now + jnp.matmul(h, weight_h.mT)
        h = jnp.tanh(now) if nonlinearity == "tanh" else jnp.maximum(now, 0)
        return h, h

    return lax.scan(step, h, jnp.matmul(x, weight_x.mT) + bias, reverse=reverse)[1]


def loop_forward(
    run_body: Callable[[Program, Sequence[Any]], tuple[Sequence[Any], list[Any]]],
) -> Callable[..., tuple[tuple[Any, ...], list[Any]]]:
    """The forward of `loop` (ir/loops.py), given what runs a program on its arguments; both return
    the results, and flags that are true if an index was out of range."""

    def forward(
        *operands: Any,
        body: Program,
        count: int,
        reverse: bool,
        rows: int,
        histories: tuple[bool, ...],
    ) -> tuple[tuple[Any, ...], list[Any]]:
        first, fixed = operands[rows : rows + len(histories)], operands[rows + len(histories) :]
        arrays = len(body.results) - len(histories)

        def step(states: Any, row: Any) -> tuple[Any, Any]:
            results, wrong = run_body(body, [*row, *states, *fixed])
            new = tuple(results[arrays:])
            kept = [state for state, whole in zip(new, histories) if whole]
            return new, (list(results[:arrays]), kept, wrong)

        last, (outputs, kept, wrong) = lax.scan(step, first, operands[:rows], count, reverse)
        later = iter(kept)
        ends = (
            _history(start, next(later), reverse) if whole else end
            for start, end, whole in zip(first, last, histories)
        )
        return (*outputs, *ends), [flags.any() for flags in wrong]

    return forward


def _history(first: Any, later: Any, reverse: bool) -> Any:
    """All values of a state: the first is at the end that the loop began at."""
    return jnp.concatenate([later, first[None]] if reverse else [first[None], later])


FORWARDS: dict[str, Any] = {
    "softmax": _softmax,
    "log_softmax": _log_softmax,
    "cross_entropy": lambda *operands, **attrs: _cross_entropy_forward(*operands, **attrs)[0],
    "binary_cross_entropy": _binary_cross_entropy,
    "binary_cross_entropy_logits": _binary_cross_entropy_logits,
    "conv": lambda x, weight, **attrs: _wide_conv(x, weight, **attrs).astype(x.dtype),
    "conv_bias": _conv_bias,
    "conv_input": _conv_input,
    "conv_weight": _conv_weight,
    "max_pool": lambda x, **attrs: _windows(x, _lowest(x.dtype), lax.max, **attrs),
    "max_pool_indices": _max_pool_indices,
    "pool_sum": _pool_sum,
    "pool_spread": _pool_spread,
    "standardize": lambda x, **attrs: _standardize(x, **attrs)[0],
    "standardize_affine": lambda x, weight, bias, **attrs: (
        _standardize(x, **attrs)[0] * weight + bias
    ),
    "moments": lambda x, *, axes: tuple(m.squeeze(axes) for m in _moments(wide(x), axes)),
    "standardize_forward": _standardize,
    "standardize_backward": _standardize_backward,
    "cross_entropy_forward": _cross_entropy_forward,
    "cross_entropy_backward": _cross_entropy_backward,
    "lstm": _lstm,
    "gru": _gru,
    "rnn": _rnn,
}
