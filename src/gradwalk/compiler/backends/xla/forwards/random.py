"""Random numbers in JAX: Philox, and what the distributions of random/philox.py make of its words.

Every number is a function of the state, `skip` and its place in the draw, so neither a
sharding nor a fusion changes it. All but logarithms and angles are equal to the last bit.
"""

from __future__ import annotations

import math
from typing import Any

import jax.numpy as jnp
from jax import lax

from gradwalk.compiler.backends.xla.platform import traced_for
from gradwalk.random.philox import FLOATS

Shape = tuple[int, ...]

ROUNDS = 10
# The constants of Philox4x64
FACTORS = 0xD2E7470EE14C6C93, 0xCA5A826395121157
KEY_STEPS = 0x9E3779B97F4A7C15, 0xBB67AE8584CAA73B


def _word(number: int) -> Any:
    """A number modulo 2⁶⁴."""
    return jnp.uint64(number % 2**64)


def _high_product(x: Any, factor: int) -> Any:
    """The upper 64 bits of x × factor, from 32-bit halves: XLA has no product of 128 bits."""
    factor_high, factor_low = (jnp.uint64(n) for n in divmod(factor, 2**32))
    half, mask = jnp.uint64(32), jnp.uint64(2**32 - 1)
    high, low = x >> half, x & mask
    carry = high * factor_low + (low * factor_low >> half)
    middle = low * factor_high + (carry & mask)
    return high * factor_high + (carry >> half) + (middle >> half)


def _blocks(state: Any, skip: int, count: int) -> tuple[Any, ...]:
    """The four words of `count` blocks, each an array."""
    seed, offset = lax.bitcast_convert_type(state, jnp.uint64)
    first = lax.iota(jnp.uint64, count) + (offset + _word(skip))
    zeros = jnp.zeros_like(first)
    turn = (first, zeros, zeros, zeros, seed, _word(0))
    if (
        traced_for.get() == "xla"
    ):  # on the CPU, XLA would compute a block anew for each of its words
        return lax.fori_loop(0, ROUNDS, lambda _, before: _round(*before), turn)[:4]
    for _ in range(ROUNDS):
        turn = _round(*turn)
    return turn[:4]


def _round(first: Any, second: Any, third: Any, fourth: Any, *keys: Any) -> tuple[Any, ...]:
    """One round of Philox: the four words and the two keys after it."""
    return (
        _high_product(third, FACTORS[1]) ^ second ^ keys[0],
        third * _word(FACTORS[1]),
        _high_product(first, FACTORS[0]) ^ fourth ^ keys[1],
        first * _word(FACTORS[0]),
        keys[0] + _word(KEY_STEPS[0]),
        keys[1] + _word(KEY_STEPS[1]),
    )


def _words(state: Any, skip: int, count: int) -> Any:
    """64 bits for each element."""
    blocks = _blocks(state, skip, -(-count // 4))
    return jnp.stack(blocks, -1).reshape(-1)[:count]


def _halves(state: Any, skip: int, count: int) -> Any:
    """32 bits for each element: the low half of a word, then the high one."""
    blocks = _blocks(state, skip, -(-count // 8))
    halves = [part for word in blocks for part in (word, word >> jnp.uint64(32))]
    return jnp.stack([half.astype(jnp.uint32) for half in halves], -1).reshape(-1)[:count]


def _bits(state: Any, skip: int, count: int, dtype: Any) -> Any:
    return (_halves if FLOATS[dtype].halves else _words)(state, skip, count)


def _u(bits: Any, dtype: Any, unit: Any) -> Any:
    """Uniform in [0, 1), times what `unit` has more than the dtype's."""
    return (bits >> FLOATS[dtype].unused).astype(dtype) * unit


def _minus_log_v(bits: Any, dtype: Any) -> Any:
    kind = FLOATS[dtype]
    v = (bits >> kind.unused_of_v).astype(dtype) * kind.unit_of_v + kind.half_unit_of_v
    return jnp.abs(jnp.log(v))  # negates a log that is at most 0, without making -0


def _rounded(x: Any, state: Any) -> Any:
    """x, rounded before it is added to anything.

    XLA lets a processor multiply and add with one rounding. An integer operation in between
    prevents that: the sign of the offset is 0, but no compiler knows.
    """
    bits = jnp.uint32 if x.dtype == jnp.float32 else jnp.uint64
    sign = (lax.bitcast_convert_type(state[1], jnp.uint64) >> jnp.uint64(63)).astype(bits)
    return lax.bitcast_convert_type(lax.bitcast_convert_type(x, bits) | sign, x.dtype)


def _uniform(state: Any, *, skip: int, shape: Shape, dtype: Any, low: float, high: float) -> Any:
    dtype = jnp.dtype(dtype)
    out = _u(_bits(state, skip, math.prod(shape), dtype), dtype, FLOATS[dtype].unit)
    if low != 0 or high != 1:
        start = dtype.type(low)
        out = _rounded(out * (dtype.type(high) - start), state) + start
    return out.reshape(shape)


def _exponential(state: Any, *, skip: int, shape: Shape, dtype: Any) -> Any:
    dtype = jnp.dtype(dtype)
    return _minus_log_v(_bits(state, skip, math.prod(shape), dtype), dtype).reshape(shape)


def _normal(state: Any, *, skip: int, shape: Shape, dtype: Any, mean: float, std: float) -> Any:
    """By Box and Muller: neighbours share a radius and an angle."""
    dtype, count = jnp.dtype(dtype), math.prod(shape)
    pairs = _bits(state, skip, count + count % 2, dtype).reshape(-1, 2)
    half_square = _minus_log_v(pairs[:, 0], dtype)
    radius = jnp.sqrt(half_square + half_square)
    angle = _u(pairs[:, 1], dtype, FLOATS[dtype].angle)
    sides = jnp.stack([jnp.cos(angle) * radius, jnp.sin(angle) * radius], -1)
    out = sides.reshape(-1)[:count].reshape(shape)
    out = out if std == 1 else out * dtype.type(std)
    return out if mean == 0 else _rounded(out, state) + dtype.type(mean)


def _bernoulli(state: Any, *, skip: int, shape: Shape, p: float) -> Any:
    limit = math.ceil(p * 2.0**32)  # a whole number is below p · 2³² if it is below this
    bits = _halves(state, skip, math.prod(shape)).astype(jnp.int64)
    return (bits < limit).reshape(shape)


def _bernoulli_each(state: Any, p: Any, *, skip: int, shape: Shape) -> Any:
    bits = _halves(state, skip, math.prod(shape)).reshape(shape)
    return bits.astype(jnp.float64) * 2.0**-32 < jnp.asarray(p, jnp.float64)


def _integers(state: Any, *, skip: int, shape: Shape, low: int, high: int) -> Any:
    words, span = _words(state, skip, math.prod(shape)), int(high) - int(low)
    words = words if span == 2**64 else _high_product(words, span)
    return lax.bitcast_convert_type(words + _word(int(low)), jnp.int64).reshape(shape)


FORWARDS: dict[str, Any] = {
    "random_uniform": _uniform,
    "random_normal": _normal,
    "random_exponential": _exponential,
    "random_bernoulli": _bernoulli,
    "random_bernoulli_each": _bernoulli_each,
    "random_integers": _integers,
    # Equal words in their order
    "random_permutation": lambda state, *, skip, shape: jnp.argsort(
        _words(state, skip, *shape), stable=True
    ),
}
