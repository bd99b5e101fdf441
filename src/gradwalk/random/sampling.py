"""Random tensors: PyTorch's functions and methods that draw from a generator.

None of them passes a gradient on: a draw is not differentiable in its parameters.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Self, TypeVar, Unpack

import numpy as np

from gradwalk.engine.modes import current
from gradwalk.graph.abstract import is_array, numbers_of
from gradwalk.ops.core.dtypes import (
    category,
    finfo,
    float32,
    float64,
    get_default_dtype,
    is_bfloat16,
    is_complex_dtype,
    is_floating,
    is_half,
    part_of,
)
from gradwalk.ops.core.halves import widened
from gradwalk.ops.core.out import takes_out
from gradwalk.ops.elementwise.complex_numbers import view_as_real
from gradwalk.ops.shape.reshaping import sizes_of
from gradwalk.random.generator import Generator, Stream, stream_of
from gradwalk.random.memory_order import drawn_like
from gradwalk.random.mersenne import MersenneStream
from gradwalk.tensors.apply import complex_refused, wrap
from gradwalk.tensors.leaves import LeafOptions, leaf, makes_leaf

if TYPE_CHECKING:
    from gradwalk.tensors.tensor import Tensor

__all__ = ["bernoulli", "multinomial", "normal", "rand", "randint", "randn", "randperm"]

T = TypeVar("T")
Dtype = Any
Array = np.ndarray[Any, Any]
MOST_CATEGORIES = 2**24  # of multinomial, as in PyTorch


def _float(name: str, dtype: Dtype) -> np.dtype[Any]:
    """The dtype to draw in: halves are drawn in float32 and rounded."""
    kind = get_default_dtype() if dtype is None else np.dtype(dtype)
    if is_half(kind):
        return float32
    for known in (float32, float64):
        if kind == known:  # one that was pickled is equal, and another object
            return known
    category(kind)
    raise TypeError(f"{name} draws floating-point numbers, not {kind}")


def _pairs(draw: Any, size: tuple[int, ...], dtype: np.dtype[Any]) -> Any:
    """Complex numbers whose parts are drawn one after the other."""
    if current().tracer is not None:
        raise complex_refused("a draw of", compiled=True)
    drawn = draw((*size, 2), part_of(dtype))
    if isinstance(drawn, np.ndarray):
        return drawn.view(dtype)[..., 0]
    return drawn[..., 0] + drawn[..., 1] * dtype.type(1j)  # inside vmap


@makes_leaf
def rand(
    *sizes: Any,
    size: Any = None,
    generator: Generator | None = None,
    **options: Unpack[LeafOptions],
) -> Tensor:
    """Uniform in [0, 1)."""
    wanted = np.dtype(options.get("dtype") or get_default_dtype())
    if is_complex_dtype(wanted):
        return leaf(_pairs(stream_of(generator).uniform, sizes_of(sizes, size), wanted), **options)
    stream = stream_of(generator)
    drawn = stream.uniform(sizes_of(sizes, size), _float("rand", wanted))
    if is_half(wanted) and isinstance(stream, MersenneStream):
        drawn = _below(drawn.astype(wanted), 0.0, 1.0)
    elif is_half(wanted):  # only steps that it has: rounding to the nearest would give 1
        step = 2.0**-8 if is_bfloat16(wanted) else 2.0**-11
        drawn = (drawn - drawn % step).astype(wanted)
    return leaf(drawn, **options)


def _below(drawn: Array, low: float, high: float) -> Array:
    """As in PyTorch, a half that was rounded up to the end of the range is its beginning."""
    drawn[drawn == np.array(high).astype(drawn.dtype)] = low
    return drawn


@makes_leaf
def randn(
    *sizes: Any,
    size: Any = None,
    generator: Generator | None = None,
    **options: Unpack[LeafOptions],
) -> Tensor:
    """Standard normal.

    >>> import gradwalk as gw
    >>> gw.randn(2, 3).shape
    (2, 3)
    """
    wanted = np.dtype(options.get("dtype") or get_default_dtype())
    if is_complex_dtype(wanted):  # as in PyTorch: both parts together have variance 1
        drawn = _pairs(stream_of(generator).normal, sizes_of(sizes, size), wanted)
        return leaf(drawn * wanted.type(math.sqrt(0.5)), **options)
    kind, half = _float("randn", wanted), is_half(wanted)
    drawn = _normal(stream_of(generator), sizes_of(sizes, size), kind, 0.0, 1.0, half)
    return leaf(drawn.astype(wanted) if is_half(wanted) else drawn, **options)


@makes_leaf
def randint(
    low: Any = None,
    high: Any = None,
    size: Any = None,
    *,
    generator: Generator | None = None,
    **options: Unpack[LeafOptions],
) -> Tensor:
    """Integers from `low` to `high` − 1; `randint(high, size)` begins at 0.

    >>> import gradwalk as gw
    >>> gw.randint(3, 4, (2,))
    tensor([3, 3])
    """
    if size is None:
        low, high, size = 0, low, high
    elif high is None:
        low, high = 0, low
    elif low is None:
        low = 0
    kind = np.dtype(options.get("dtype") or np.int64)
    array = _integers("randint", stream_of(generator), int(low), int(high), sizes_of((size,)), kind)
    return leaf(array, **options)


def _integers(
    name: str, stream: Stream, low: int, high: int, size: tuple[int, ...], dtype: np.dtype[Any]
) -> Array:
    if low >= high:
        raise ValueError(f"{name}: the range from {low} to below {high} is empty")
    least, most = _limits(dtype)
    if not is_floating(dtype) and not least <= low < high <= most + 1:
        raise ValueError(f"{name}: {dtype} holds {least} to {most}, not {low} to {high - 1}")
    return stream.integers(low, high, size).astype(dtype, copy=False)


def _limits(dtype: np.dtype[Any]) -> tuple[int, int]:
    """The range of integers that a dtype represents exactly."""
    if dtype.kind == "b":
        return 0, 1
    if is_floating(dtype):
        most = 2 ** (finfo(dtype).nmant + 1)
        return -most, most
    limits = np.iinfo(dtype)
    return int(limits.min), int(limits.max)


@makes_leaf
def randperm(
    n: int, *, generator: Generator | None = None, **options: Unpack[LeafOptions]
) -> Tensor:
    """A random order of 0 to n − 1."""
    if n < 0:
        raise ValueError(f"randperm: n must be at least 0, not {n}")
    kind = np.dtype(options.get("dtype") or np.int64)
    if n > _limits(kind)[1] + 1:
        raise ValueError(f"randperm: {kind} cannot tell all numbers below {n} from each other")
    order = stream_of(generator).permutation(int(n))
    return leaf(order, **options)


@makes_leaf
def normal(
    mean: Any = 0.0,
    std: Any = 1.0,
    size: Any = None,
    *,
    generator: Generator | None = None,
    **options: Unpack[LeafOptions],
) -> Tensor:
    """Normal numbers: `mean` and `std` are tensors with one entry per element, or numbers with a
    size.

    >>> import gradwalk as gw
    >>> gw.normal(2.0, 0.0, (3,))
    tensor([2., 2., 2.])
    >>> gw.normal(gw.tensor([1.0, 5.0]), 0.0)
    tensor([1., 5.])
    """
    stream, dtype = stream_of(generator), options.get("dtype")
    given = [part.detach()._array for part in (mean, std) if hasattr(part, "_array")]
    if not given:
        if size is None:
            raise TypeError("normal of a mean and a std that are numbers needs a size")
        half = dtype is not None and is_half(np.dtype(dtype))
        array = _normal(stream, sizes_of((size,)), _float("normal", dtype), mean, std, half)
        return leaf(array, **options)
    if size is not None or dtype not in (None, given[0].dtype):
        raise TypeError("normal of tensors has their shape and dtype: leave size and dtype out")
    wanted = given[0].dtype  # that of the mean, if it is a tensor
    kind, half = _float("normal", wanted), is_half(wanted)
    shape = np.broadcast_shapes(*[part.shape for part in given])
    spread = numbers_of(given[-1]) if hasattr(std, "_array") else None
    if spread is not None and (spread < 0).any():
        raise ValueError("normal: a standard deviation in std is below 0")
    width = 1.0 if hasattr(std, "_array") else std
    drawn = _normal(stream, shape, kind, 0.0, width, half).astype(wanted, copy=False)
    if hasattr(std, "_array"):
        drawn = drawn * given[-1].astype(wanted, copy=False)
    start = given[0] if hasattr(mean, "_array") else kind.type(mean)
    result = (drawn + start).astype(wanted, copy=False)
    options.setdefault("device", (mean if hasattr(mean, "_array") else std).device)
    return leaf(result if is_array(result) else np.asarray(result), **options)


def _normal(
    stream: Stream, size: Any, dtype: Any, mean: float, std: float, half: bool = False
) -> Array:
    if not std >= 0:
        raise ValueError(f"normal: a standard deviation is at least 0, not {std}")
    options = {"half": True} if half and isinstance(stream, MersenneStream) else {}
    return stream.normal(size, dtype, float(mean), float(std), **options)


@takes_out
def bernoulli(
    input: Tensor, p: float | None = None, *, generator: Generator | None = None
) -> Tensor:
    """1 with the probability in each element of `input` (or p for all), else 0.

    >>> import gradwalk as gw
    >>> gw.bernoulli(gw.tensor([0.0, 1.0, 1.0]))
    tensor([0., 1., 1.])
    """
    drawn = _bernoulli(stream_of(generator), input if p is None else p, input.shape)
    return leaf(drawn.astype(input.dtype, copy=False), device=input.device)


def _bernoulli(stream: Stream, p: Any, size: tuple[int, ...]) -> Array:
    if not hasattr(p, "_array"):
        if not 0 <= p <= 1:
            raise ValueError(f"bernoulli: a probability is from 0 to 1, not {p}")
        return stream.bernoulli(float(p), size)
    chances = p.detach()._array
    if not is_floating(chances.dtype):
        raise TypeError(f"bernoulli: probabilities are floats, not {chances.dtype}")
    numbers = numbers_of(chances)
    if p.device.type != "cpu" and numbers is not None:
        chances = numbers  # the stream of the CPU draws
    if numbers is not None and not ((numbers >= 0) & (numbers <= 1)).all():
        raise ValueError("bernoulli: a probability is not from 0 to 1")
    return stream.bernoulli(np.broadcast_to(chances, size), size)


@takes_out
def multinomial(
    input: Tensor,
    num_samples: int,
    replacement: bool = False,
    *,
    generator: Generator | None = None,
) -> Tensor:
    """Indices drawn with the given weights, from a vector or from each row of a matrix.

    The weights need not sum to 1. Without replacement an index is drawn at most once.

    >>> import gradwalk as gw
    >>> gw.multinomial(gw.tensor([0.0, 3.0, 0.0]), 1)
    tensor([1])
    """
    level = current().level
    if level is not None:  # inside vmap: one row for each sample, or several
        again = partial(
            multinomial, num_samples=num_samples, replacement=replacement, generator=generator
        )
        drawn: Tensor = level.drawn_by_row(again, input)
        return drawn
    weights = np.asarray(input.detach()._array)
    if weights.ndim not in (1, 2):
        raise ValueError(f"multinomial takes a vector or a matrix, not shape {weights.shape}")
    if not is_floating(weights.dtype):
        raise TypeError(f"multinomial: weights are floats, not {weights.dtype}")
    categories = weights.shape[-1]
    if categories > MOST_CATEGORIES:
        raise ValueError(f"multinomial: {categories} categories are more than {MOST_CATEGORIES}")
    if num_samples <= 0:
        raise ValueError(f"multinomial: num_samples is at least 1, not {num_samples}")
    if not (np.isfinite(weights) & (weights >= 0)).all():
        raise ValueError("multinomial: a weight is below 0, inf or NaN")
    some = np.count_nonzero(weights, axis=-1)
    if not replacement and (some < num_samples).any() and num_samples > 1:
        raise ValueError(
            f"multinomial: {num_samples} different indices were asked for, and of {categories} "
            f"weights only {some.min()} are not 0. Fix: replacement=True, or fewer samples."
        )
    if not categories or (some == 0).any():
        raise ValueError("multinomial: all weights are 0")
    stream = stream_of(generator)
    if replacement and num_samples > 1:
        return leaf(_with_replacement(stream, weights, num_samples), device=input.device)
    # The largest of weight / exponential is index i with probability weight[i] / total; the
    # second largest is one of the others, by their weights; and so on.
    weights = widened(weights)
    waits = stream.exponential(weights.shape, weights.dtype)
    with np.errstate(divide="ignore", invalid="ignore"):
        scores = np.where(weights > 0, weights / waits, -1)
    if num_samples == 1:
        return leaf(np.argmax(scores, axis=-1, keepdims=True), device=input.device)
    order = np.argsort(-scores, axis=-1, kind="stable")
    return leaf(np.ascontiguousarray(order[..., :num_samples]), device=input.device)


def _with_replacement(stream: Stream, weights: Array, count: int) -> Array:
    """For each uniform u, the first index whose cumulative share of the weights exceeds u."""
    upto = np.cumsum(weights, axis=-1, dtype=np.float64)
    upto /= upto[..., -1:]
    u = stream.uniform((*weights.shape[:-1], count), np.float64)
    if weights.ndim == 1:
        return np.searchsorted(upto, u, "right")
    indices = np.empty(u.shape, np.int64)
    for row in range(len(indices)):
        indices[row] = np.searchsorted(upto[row], u[row], "right")
    return indices


class RandomMethods:
    """The random methods of a tensor; those with a trailing underscore write to its memory."""

    __slots__ = ()

    bernoulli = bernoulli
    multinomial = multinomial

    def uniform_(
        self, from_: float = 0.0, to: float = 1.0, *, generator: Generator | None = None
    ) -> Self:
        """Every element becomes uniform in [from_, to); of a complex number, both parts."""
        if not from_ <= to:
            raise ValueError(f"uniform_: the range from {from_} to {to} is empty")
        if self.is_complex():  # type: ignore[attr-defined]
            view_as_real(self).uniform_(from_, to, generator=generator)
            return self
        kind = self.dtype  # type: ignore[attr-defined]
        if is_floating(kind) and not to - from_ <= finfo(kind).max:
            raise ValueError(f"uniform_: {kind} cannot hold the width of {from_} to {to}")
        stream = stream_of(generator)

        def draw(size: Any, kind: np.dtype[Any]) -> Any:
            drawn, dtype = stream.uniform(size, kind, from_, to), self.dtype  # type: ignore[attr-defined]
            half = is_half(dtype) and isinstance(stream, MersenneStream)
            return _below(drawn.astype(dtype), from_, to) if half else drawn

        return _drawn(self, "uniform_", draw, stream)

    def normal_(
        self, mean: float = 0.0, std: float = 1.0, *, generator: Generator | None = None
    ) -> Self:
        """Every element becomes normal with this mean and standard deviation."""
        if self.is_complex():  # type: ignore[attr-defined]
            view_as_real(self).normal_(0.0, std * math.sqrt(0.5), generator=generator)
            return self.add_(mean) if mean else self  # type: ignore[attr-defined]
        stream = stream_of(generator)
        if isinstance(stream, MersenneStream) and not self.is_contiguous():  # type: ignore[attr-defined]
            # PyTorch draws in blocks only where the elements lie side by side.
            if not std >= 0:
                raise ValueError(f"normal_: a standard deviation is at least 0, not {std}")
            one_by_one = stream.each_normal
            return _drawn(
                self, "normal_", lambda size, kind: one_by_one(size, mean, std).astype(kind), stream
            )
        half = is_half(self.dtype)  # type: ignore[attr-defined]
        return _drawn(
            self, "normal_", lambda size, kind: _normal(stream, size, kind, mean, std, half)
        )

    def exponential_(self, lambd: float = 1.0, *, generator: Generator | None = None) -> Self:
        """Every element becomes exponential of rate `lambd`."""
        if not lambd > 0:
            raise ValueError(f"exponential_: a rate is above 0, not {lambd}")

        def draw(size: Any, kind: np.dtype[Any]) -> Any:
            drawn = stream_of(generator).exponential(size, kind)
            return drawn if lambd == 1 else drawn / kind.type(lambd)

        return _drawn(self, "exponential_", draw, stream_of(generator))

    def cauchy_(
        self, median: float = 0.0, sigma: float = 1.0, *, generator: Generator | None = None
    ) -> Self:
        """Every element becomes Cauchy with this median and half width."""
        if not sigma > 0:
            raise ValueError(f"cauchy_: a half width is above 0, not {sigma}")
        stream = stream_of(generator)

        def draw(size: Any, kind: np.dtype[Any]) -> Any:
            drawn_in = np.dtype(np.float64) if stream.is_pytorchs else kind
            turns = stream.uniform(size, drawn_in, -0.5, 0.5)
            return (median + sigma * np.tan(np.pi * turns)).astype(kind)

        return _drawn(self, "cauchy_", draw)

    def log_normal_(
        self, mean: float = 1.0, std: float = 2.0, *, generator: Generator | None = None
    ) -> Self:
        """Every element becomes exp of a normal number with this mean and standard deviation."""
        if not std > 0:
            raise ValueError(f"log_normal_: a standard deviation is above 0, not {std}")
        stream = stream_of(generator)

        def draw(size: Any, kind: np.dtype[Any]) -> Any:
            if stream.is_pytorchs:
                return np.exp(stream.each_normal(size, mean, std)).astype(kind)
            return np.exp(_normal(stream, size, kind, mean, std))

        return _drawn(self, "log_normal_", draw)

    def geometric_(self, p: float, *, generator: Generator | None = None) -> Self:
        """Every element becomes the number of trials, each with probability p, up to a success."""
        if not 0 < p < 1:
            raise ValueError(f"geometric_: a probability between 0 and 1, not {p}")
        me: Any = self
        stream = stream_of(generator)
        fractions = stream.uniform(me.shape, np.dtype(np.float64), 0.0, 1.0)
        if stream.is_pytorchs:
            with np.errstate(divide="ignore"):
                trials = np.ceil(np.log(fractions) / np.log1p(-p))
        else:
            trials = np.floor(np.log1p(-fractions) / np.log1p(-p)) + 1
        return me.copy_(wrap(_as_array(trials)))

    def bernoulli_(self, p: Any = 0.5, *, generator: Generator | None = None) -> Self:
        """Every element becomes 1 with probability p (a number, or a tensor of them), else 0."""
        me: Any = self
        stream = stream_of(generator)
        if hasattr(p, "_array"):
            return me.copy_(wrap(_bernoulli(stream, p, me.shape)))
        return me.copy_(wrap(drawn_like(me, stream, lambda size: _bernoulli(stream, p, size))))

    def random_(self, *bounds: int | None, generator: Generator | None = None) -> Self:
        """Every element becomes an integer: `random_()`, `random_(to)` or `random_(low, to)`.

        Without `to`, up to the largest integer of the dtype.
        """
        if len(bounds) > 2:
            raise TypeError(f"random_ takes at most two bounds, not {len(bounds)}")
        low, high = bounds if len(bounds) == 2 else (0, *bounds) if bounds else (0, None)
        me: Any = self
        high = _limits(me.dtype)[1] + 1 if high is None else high
        stream = stream_of(generator)
        return me.copy_(wrap(_integers("random_", stream, low or 0, high, me.shape, me.dtype)))


def _drawn(
    tensor: T, name: str, draw: Callable[[Any, np.dtype[Any]], Array], stream: Any = None
) -> T:
    """Overwrite a float tensor with draw(shape, dtype), in the order in which `stream` draws."""
    target: Any = tensor
    kind = _float(name, target.dtype)
    drawn = drawn_like(target, stream, lambda size: _as_array(draw(size, kind)))
    return target.copy_(wrap(drawn))


def _as_array(drawn: Any) -> Any:
    """NumPy gives a number in place of an array without dimensions."""
    return np.asarray(drawn) if isinstance(drawn, np.generic) else drawn
