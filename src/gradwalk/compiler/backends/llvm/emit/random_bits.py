"""Random numbers in kernels: Philox, and what the distributions of philox.py make of its words.

A random element is a function of its number, so random ops are fused like any elementwise op, and
neither threads nor the shape of the loops change their results. A block gives four words, of which
neighbours use parts; how lanes get theirs depends on how they lie:

- the lanes of a vector are whole blocks (rows of a multiple of 8, or one stretch): their words are
  put together to the vector;
- they are neighbours, but begin anywhere: the blocks they touch go through a little memory, from
  which the vector is loaded where it begins;
- they are apart: one block per lane.

Blocks are computed one by one, not in the lanes of vectors. A product of 64-bit integers with all
its 128 bits is one instruction for a single number, and fifteen for a vector: eight blocks side by
side took nine tenths of the time, and four times the registers.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from gradwalk.compiler.backends.llvm.emit.functions.logarithm import log
from gradwalk.compiler.backends.llvm.emit.functions.trigonometric import sine_of_turn
from gradwalk.compiler.backends.llvm.emit.ir_builder import I64, IRBuilder
from gradwalk.compiler.backends.llvm.emit.vector import INT64, Type, Vector, VectorBuilder, spread
from gradwalk.compiler.ir import compiler_ops
from gradwalk.compiler.plan.loop_nest import Loops, Sample
from gradwalk.random.philox import FLOATS

WORDS = 4  # of a block
ROUNDS = 10
# The constants of Philox4x64
FACTORS = 0xD2E7470EE14C6C93, 0xCA5A826395121157
KEY_STEPS = 0x9E3779B97F4A7C15, 0xBB67AE8584CAA73B
INT32 = np.dtype(np.int32)


def _signed(number: int) -> int:
    """A number modulo 2⁶⁴ as LLVM writes an i64."""
    return (number + 2**63) % 2**64 - 2**63


class RandomStream:
    """One random step of a kernel: the words of its stream, and the numbers made of them."""

    def __init__(
        self, f: VectorBuilder, loops: Loops, step: Sample, state: str, skip: I64, lanes: int
    ) -> None:
        """Set up a stream before all loops.

        `state` is the pointer to seed and offset, `lanes` the most there are.
        """
        self.f = f
        self.step = step
        self.attrs = dict(step.attrs)
        self.multiples = loops.draws_from_multiples_of(step)
        of_words = step.op is compiler_ops.random_integers or step.dtype == np.float64
        self.bits = INT64.dtype if of_words else INT32
        self.per_block = WORDS if of_words else 2 * WORDS
        seed, offset = f.set(f"load i64, ptr {state}, align 8"), f.word(state, 1)
        self.first = f.set(f"add i64 {offset}, {skip}")
        self.keys = [seed]
        for turn in range(1, ROUNDS):
            self.keys.append(f.set(f"add i64 {seed}, {_signed(turn * KEY_STEPS[0])}"))
        # The counter (b, 0, 0, 0) and the key (s, 0) become (s, 0, high, low) of the first factor
        # times b in the first round; so half of the second is the same for all blocks.
        self.of_seed = _high_and_low(f, FACTORS[0], seed)
        # Memory for the blocks that a vector touches, and an element on either side of them.
        room = WORDS * self._touched(lanes) + 2
        self.memory = f.set(f"alloca i64, i64 {room}, align 64")

    # -- words -------------------------------------------------------------------------------------

    def _xor(self, first: I64, second: I64) -> str:
        return self.f.set(f"xor i64 {first}, {second}")

    def _blocks(self, index: I64, count: int) -> list[list[I64]]:
        """The four words of blocks, from the one that an element is in.

        All blocks go through a round before the next: a round waits for the one before, so a
        processor has several to work on.
        """
        f = self.f
        start = f.set(f"udiv i64 {index}, {self.per_block}")
        first = f.set(f"add i64 {self.first}, {start}")
        counters: list[list[I64]] = []
        for number in range(count):
            high, low = _high_and_low(f, FACTORS[0], f.set(f"add i64 {first}, {number}"))
            counters.append([self.keys[0], 0, high, low])
        for turn in range(1, ROUNDS):
            counters = [self._round(turn, *counter) for counter in counters]
        return counters

    def _round(self, turn: int, first: I64, second: I64, third: I64, fourth: I64) -> list[I64]:
        f = self.f
        high, low = _high_and_low(f, FACTORS[0], first) if turn > 1 else self.of_seed
        other_high, other_low = _high_and_low(f, FACTORS[1], third)
        keys = self.keys[turn], _signed(turn * KEY_STEPS[1])
        return [
            self._xor(self._xor(other_high, second), keys[0]),
            other_low,
            self._xor(self._xor(high, fourth), keys[1]),
            low,
        ]

    # -- the bits of each lane ---------------------------------------------------------------------

    def _touched(self, lanes: int) -> int:
        """How many blocks neighbouring lanes lie in, at most."""
        start = math.gcd(self.multiples, lanes, self.per_block)
        return (self.per_block - start + lanes - 1) // self.per_block + 1

    def _bits(self, index: I64, stride: I64, lanes: int) -> Vector:
        """The bits of the elements from `index` on."""
        if self._are_whole_blocks(stride, lanes):
            return self._whole_blocks(index, lanes)
        (own,) = self._around(index, stride, lanes, (0,))
        return own

    def _pairs(self, index: I64, stride: I64, lanes: int) -> tuple[Vector, Vector, Vector]:
        """The bits of both elements of each element's pair, and whether it is the first."""
        f = self.f
        if self._are_whole_blocks(stride, lanes):
            own = self._whole_blocks(index, lanes)
            firsts = [lane - lane % 2 for lane in range(lanes)]
            first = own.shuffled(firsts)
            return first, own.shuffled([lane + 1 for lane in firsts]), _even(f, 0, 1, lanes)
        before, own, after = self._around(index, stride, lanes, (-1, 0, 1))
        even = _even(f, index, stride, lanes)
        return even.choose(own, before), even.choose(after, own), even

    def _are_whole_blocks(self, stride: I64, lanes: int) -> bool:
        fits = lanes % self.per_block == 0 and self.multiples % self.per_block == 0
        return stride == 1 and fits

    def _whole_blocks(self, index: I64, lanes: int) -> Vector:
        f = self.f
        words = lanes * WORDS // self.per_block
        vector = Vector(f, Type(INT64.dtype, words), "poison")
        for number, block in enumerate(self._blocks(index, words // WORDS)):
            for k, word in enumerate(block):
                vector = vector.with_lane(number * WORDS + k, Vector(f, INT64, word))
        kind = Type(self.bits, lanes)
        text = f.set(f"bitcast {vector.type.text} {vector.text} to {kind.text}")
        return Vector(f, kind, text)

    def _around(self, index: I64, stride: I64, lanes: int, shifts: Sequence[int]) -> list[Vector]:
        """The bits of the elements at some distances from each; in another block they are any."""
        if lanes == 1 or stride == 1:
            self._remember(index, self._touched(lanes))
            return [self._recalled(index, shift, lanes) for shift in shifts]
        f = self.f
        start = [Vector(f, Type(self.bits, lanes), "poison")] * len(shifts)
        with f.loop(0, lanes, carried=start, at_least_once=True) as loop:
            here = f.add(index, f.multiply(loop.index, stride))
            self._remember(here, 1)
            numbers = [self._recalled(here, shift, 1) for shift in shifts]
            vectors = zip(loop.carried, numbers, strict=True)
            loop.carry(*(v.with_lane(loop.index, number) for v, number in vectors))
        return loop.results

    def _remember(self, index: I64, count: int) -> None:
        """Put blocks into the memory, beginning with the one that an element is in."""
        for number, block in enumerate(self._blocks(index, count)):
            for k, word in enumerate(block):
                self.f.store_word(word, self.memory, 1 + number * WORDS + k)

    def _recalled(self, index: I64, shift: int, lanes: int) -> Vector:
        """Bits from the memory, beginning `shift` elements after this one."""
        f, kind = self.f, Type(self.bits, lanes)
        inside = f.set(f"urem i64 {index}, {self.per_block}")
        start = f.add(inside, shift + self.per_block // WORDS)
        return f.load(f.element(self.memory, self.bits, start), kind)

    # -- numbers -----------------------------------------------------------------------------------

    def numbers(self, index: I64, stride: I64, lanes: int, args: Sequence[Vector]) -> Vector:
        """The random elements from number `index` on, `stride` apart."""
        op, dtype = self.step.op, self.step.dtype
        if op is compiler_ops.random_normal:
            return self._normal(*self._pairs(index, stride, lanes))
        bits = self._bits(index, stride, lanes)
        if op is compiler_ops.random_uniform:
            return self._uniform(bits)
        if op is compiler_ops.random_exponential:
            return _minus_log_v(bits, dtype)
        if op is compiler_ops.random_bernoulli:
            return self._bernoulli(bits)
        if op is compiler_ops.random_bernoulli_each:
            (p,) = args
            return _from_unsigned(bits, np.float64) * 2.0**-32 < p.to(np.float64).spread(lanes)
        assert op is compiler_ops.random_integers
        return self._integers(bits)

    def _uniform(self, bits: Vector) -> Vector:
        dtype = self.step.dtype
        low, high = (dtype.type(self.attrs[name]) for name in ("low", "high"))
        u = _u(bits, dtype) * float(FLOATS[dtype].unit)
        if self.attrs["low"] == 0 and self.attrs["high"] == 1:
            return u
        return u * float(high - low) + float(low)

    def _normal(self, first: Vector, second: Vector, even: Vector) -> Vector:
        dtype = self.step.dtype
        half_square = _minus_log_v(first, dtype)
        radius = (half_square + half_square).intrinsic("sqrt")
        angle = _u(second, dtype) * float(FLOATS[dtype].angle)
        out = sine_of_turn(angle, even) * radius
        mean, std = self.attrs["mean"], self.attrs["std"]
        out = out if std == 1 else out * std
        return out if mean == 0 else out + mean

    def _bernoulli(self, bits: Vector) -> Vector:
        limit = math.ceil(self.attrs["p"] * 2.0**32)
        if not 0 < limit < 2**32:
            return self.f.constant(bits.type.of(np.bool_), limit > 0)
        return bits.below(bits.constant(limit if limit < 2**31 else limit - 2**32))

    def _integers(self, words: Vector) -> Vector:
        low, high = self.attrs["low"], self.attrs["high"]
        if high - low < 2**64:
            words = _high_products(words, high - low)
        return words + _signed(low) if low else words


def _u(bits: Vector, dtype: np.dtype[Any]) -> Vector:
    """The bits of a uniform number, as a float; there is no sign among them."""
    return bits.unsigned_shift(int(FLOATS[dtype].unused)).to(dtype)


def _minus_log_v(bits: Vector, dtype: np.dtype[Any]) -> Vector:
    kind = FLOATS[dtype]
    shift = int(kind.unused_of_v)
    v = bits.unsigned_shift(shift).to(dtype) if shift else _from_unsigned(bits, dtype)
    return log(v * float(kind.unit_of_v) + float(kind.half_unit_of_v)).absolute()


def _from_unsigned(bits: Vector, dtype: Any) -> Vector:
    kind = bits.type.of(dtype)
    text = bits.function.set(f"uitofp {bits.type.text} {bits.text} to {kind.text}")
    return Vector(bits.function, kind, text)


def _high_products(words: Vector, factor: int) -> Vector:
    """The upper 64 bits of the products, lane by lane: as for the words, one instruction each."""
    f, lanes = words.function, words.type.lanes
    products = words
    for lane in range(lanes):
        high, _ = _high_and_low(f, factor, words.lane(lane).text)
        number = Vector(f, INT64, high)
        products = products.with_lane(lane, number) if lanes > 1 else number
    return products


def _high_and_low(f: IRBuilder, factor: int, number: I64) -> tuple[str, str]:
    """Both halves of a 128-bit product."""
    wide = f.set(f"zext i64 {number} to i128")
    product = f.set(f"mul i128 {wide}, {factor}")
    high = f.set(f"lshr i128 {product}, 64")
    return f.set(f"trunc i128 {high} to i64"), f.set(f"trunc i128 {product} to i64")


def _even(f: VectorBuilder, index: I64, stride: I64, lanes: int) -> Vector:
    """Whether the number of each lane's element is even."""
    number = spread(f, index, lanes)
    if lanes > 1 and stride != 0:
        number = number + f.lane_offsets(stride, lanes)
    return (number & 1).compare("eq", 0)
