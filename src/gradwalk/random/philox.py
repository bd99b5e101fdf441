"""The library's own random numbers: one definition, for eager and for compiled code.

Philox (Salmon and others, "Parallel random numbers: as easy as 1, 2, 3", 2011) is a function, not
a machine with a memory: any number of the stream can be computed by itself. Everything below is
in terms of its words, so that a kernel in another language can give the same numbers:

- **Words.** Block b of seed s is Philox4x64-10 of the counter (b, 0, 0, 0) and the key (s, 0): four
  64-bit words. (s modulo 2⁶⁴; no stream gets as far as b = 2⁶⁴.)
- **Draws.** The state of a stream is its seed and an offset, the number of its next block. A draw
  of n elements uses the words W[0], W[1], ... from block `offset` on; afterwards the offset stands
  behind the last block it began. So element i depends on (seed, offset, i) and nothing else, and a
  draw of 10 and one of 20 are not the elements of a draw of 30.
- **Halves.** H[2w] is the low and H[2w + 1] the high half, 32 bits, of W[w].

Element i of a draw, every floating-point number rounded to the dtype as soon as there is one:

| draw | float32 | float64 |
|---|---|---|
| u, uniform in [0, 1) | (H[i] >> 8) · 2⁻²⁴ | (W[i] >> 11) · 2⁻⁵³ |
| v, uniform in (0, 1] | H[i] · 2⁻³² + 2⁻³³ | (W[i] >> 11) · 2⁻⁵³ + 2⁻⁵⁴ |

| draw | any dtype |
|---|---|
| uniform from a to b | u · (b − a) + a |
| exponential | −log v, never −0 |
| normal | (r · cos θ if i is even, r · sin θ if i is odd) · std + mean |
| bernoulli(p) | H[i] < p · 2³², compared as real numbers |
| dropout(p) | kept where bernoulli(1 − p) is true |
| integers from low to high − 1 | low + ⌊W[i] · (high − low) / 2⁶⁴⌋ |
| permutation | the i-th place when W is sorted, equal words in their order |

Normals 2j and 2j + 1 share r = √(−2 log v) and θ = 2π · u, where v is that of element 2j and u
that of element 2j + 1. `multinomial` is made of these draws: with replacement (and more than one
sample), the first index whose running share of the weights, in float64, is above u; otherwise the
indices of the largest weight / exponential.

Words, uniforms, bernoulli, integers and permutations are the same bits on every machine.
Exponentials and normals are as far apart as two implementations of log, sin and cos: a few units
in the last place. An integer of a range r is too likely or too unlikely by less than r / 2⁶⁴ of its
probability; bernoulli is off p by less than 2⁻³².

The words themselves come from NumPy's implementation, which is that of the paper.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any, Literal, NamedTuple, Self

import numpy as np

Array = np.ndarray[Any, Any]

_BLOCK = 4  # words in a block
_CHUNK = 1 << 16  # elements per chunk: intermediate results stay in cache
_LITTLE_WORD, _LITTLE_HALF = np.dtype("<u8"), np.dtype("<u4")
_HALF, _LOW_HALF = np.array(32, np.uint64), np.array(2**32 - 1, np.uint64)


class _Float(NamedTuple):
    """How bits become numbers of a dtype; 0-d arrays, because NumPy is faster with them."""

    halves: bool  # made of halves, not of words
    unused: Array  # bits that a uniform number does not use
    unit: Array
    unused_of_v: Array
    unit_of_v: Array
    half_unit_of_v: Array
    angle: Array  # 2π units


def _float(dtype: Any, halves: bool, unused: int, unused_of_v: int) -> _Float:
    width, bits = (32, np.uint32) if halves else (64, np.uint64)
    unit, unit_of_v = 2.0 ** (unused - width), 2.0 ** (unused_of_v - width)
    numbers = [np.array(n, dtype) for n in (unit_of_v, unit_of_v / 2, 2 * math.pi * unit)]
    shifts = np.array(unused, bits), np.array(unused_of_v, bits)
    return _Float(halves, shifts[0], np.array(unit, dtype), shifts[1], *numbers)


FLOATS = {
    np.dtype(np.float32): _float(np.float32, halves=True, unused=8, unused_of_v=0),
    np.dtype(np.float64): _float(np.float64, halves=False, unused=11, unused_of_v=11),
}


class PhiloxStream:
    """The draws defined above, of one seed, from an offset on. For one thread at a time."""

    is_pytorchs: Literal[False] = False

    def __init__(self, seed: int, offset: int = 0) -> None:
        self.seed = seed
        self.move_to(offset)

    def move_to(self, offset: int) -> None:
        """Continue from another block; compiled code draws by itself and reports its last block."""
        self.offset = offset
        self.engine: Any = None  # created on first use

    def words(self, count: int) -> Array:
        """The next words, from the beginning of a block."""
        if self.engine is None:
            # NumPy increments before it computes: start one before the next block.
            counter = (self.offset - 1) % 2**256
            self.engine = np.random.Philox(key=self.seed % 2**64, counter=counter)
        blocks = -(-count // _BLOCK)
        self.offset += blocks
        words: Any = self.engine.random_raw(_BLOCK * blocks)
        return words[:count]

    def _halves(self, count: int) -> Array:
        words = self.words((count + 1) // 2)
        return words.astype(_LITTLE_WORD, copy=False).view(_LITTLE_HALF)[:count]

    def _drawn(self, size: Any, dtype: Any, draw: Callable[[Array, _Float, Array], None]) -> Array:
        """Fill an array chunk by chunk: `draw` makes its numbers from an even number of words."""
        out = np.empty(math.prod(size), dtype)
        kind = FLOATS[out.dtype]
        take = self._halves if kind.halves else self.words
        for part in _parts(out):
            draw(take(part.size + part.size % 2), kind, part)
        return out

    def uniform(self, size: Any, dtype: Any, low: float = 0.0, high: float = 1.0) -> Array:
        """Uniform from `low` to below `high`."""
        out = self._drawn(size, dtype, _uniform)
        if low != 0 or high != 1:
            start = out.dtype.type(low)
            out *= out.dtype.type(high) - start
            out += start
        return out.reshape(size)

    def exponential(self, size: Any, dtype: Any) -> Array:
        """Exponential of rate 1."""
        return self._drawn(size, dtype, _minus_log_v).reshape(size)

    def normal(self, size: Any, dtype: Any, mean: float = 0.0, std: float = 1.0) -> Array:
        """Normal, by Box and Muller: neighbours share a radius and an angle."""
        out = self._drawn(size, dtype, _box_muller)
        if std != 1:
            out *= out.dtype.type(std)
        if mean != 0:
            out += out.dtype.type(mean)
        return out.reshape(size)

    def bernoulli(self, p: float | Array, size: Any) -> Array:
        """True with probability p, a number or an array that broadcasts to the size."""
        out = np.empty(math.prod(size), np.bool_)
        if isinstance(p, np.ndarray):
            each = np.broadcast_to(p, size).reshape(-1)
            for part, chances in zip(_parts(out), _parts(each)):
                np.less(self._halves(part.size) * 2.0**-32, chances.astype(np.float64), out=part)
        else:
            limit = math.ceil(p * 2.0**32)  # a whole number is below p · 2³² if it is below this
            for part in _parts(out):
                np.less(self._halves(part.size), limit, out=part)
        return out.reshape(size)

    def integers(self, low: int, high: int, size: Any) -> Array:
        """Whole numbers from `low` to below `high`, at most 2⁶⁴ different ones, as int64."""
        out = np.empty(math.prod(size), np.uint64)
        for part in _parts(out):
            part[...] = _scaled(self.words(part.size), int(high) - int(low))
        numbers = out.view(np.int64)
        if low:
            numbers += low
        return numbers.reshape(size)

    def permutation(self, n: int) -> Array:
        """0 to n − 1 in random order."""
        return np.argsort(self.words(n), kind="stable")

    def get_state(self) -> dict[str, Any]:
        """Everything needed to continue from here."""
        return {"seed": self.seed, "offset": self.offset}

    @classmethod
    def of_state(cls, state: dict[str, Any]) -> Self:
        """Restore a stream from the result of `get_state`."""
        return cls(int(state["seed"]), int(state["offset"]))


def _parts(flat: Array) -> Iterator[Array]:
    """Split an array into chunks; all but the last end at the end of a block."""
    for start in range(0, flat.size, _CHUNK):
        yield flat[start : start + _CHUNK]


def _uniform(bits: Array, kind: _Float, out: Array) -> None:
    np.right_shift(bits, kind.unused, out=bits)
    out[...] = bits[: out.size]
    np.multiply(out, kind.unit, out=out)


def _minus_log_v(bits: Array, kind: _Float, out: Array) -> None:
    bits = bits[: out.size]
    out[...] = np.right_shift(bits, kind.unused_of_v) if kind.unused_of_v else bits
    np.multiply(out, kind.unit_of_v, out=out)
    np.add(out, kind.half_unit_of_v, out=out)
    np.log(out, out=out)
    np.abs(out, out=out)  # negate a log that is at most 0, without making -0


def _box_muller(bits: Array, kind: _Float, out: Array) -> None:
    """Normals from pairs of bits: the radius and the angle."""
    radius, angle = np.empty((2, len(bits) // 2), out.dtype)
    _minus_log_v(bits[0::2], kind, radius)
    np.add(radius, radius, out=radius)
    np.sqrt(radius, out=radius)
    angle[...] = np.right_shift(bits[1::2], kind.unused)
    np.multiply(angle, kind.angle, out=angle)
    side = np.cos(angle)
    np.multiply(side, radius, out=out[0::2])
    np.sin(angle, out=side)
    np.multiply(side[: out.size // 2], radius[: out.size // 2], out=out[1::2])


def _scaled(words: Array, span: int) -> Array:
    """⌊words · span / 2⁶⁴⌋: the high half of a 128-bit product, computed from 32-bit halves."""
    if span == 2**64:
        return words
    high_span, low_span = divmod(span, 2**32)
    span_low = np.array(low_span, np.uint64)
    low = words & _LOW_HALF
    high = np.right_shift(words, _HALF, out=words)
    carry = low * span_low
    carry >>= _HALF
    carry += high * span_low
    if not high_span:
        carry >>= _HALF
        return carry
    low *= high_span
    low += carry & _LOW_HALF
    low >>= _HALF
    carry >>= _HALF
    high *= high_span
    high += carry
    high += low
    return high
