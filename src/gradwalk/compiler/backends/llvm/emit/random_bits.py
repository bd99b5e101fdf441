"""Random numbers in kernels: Philox written out, and what the draws of philox.py make of its words.

An element of a draw is a function of its number, so a draw is fused like any elementwise op, and
neither threads nor the shape of the loops change what it gives. A block gives four words, of which
neighbours use parts; how lanes get theirs depends on how they lie:

- the lanes of a vector are whole blocks (rows of a multiple of 8, or one stretch): their words are
  put together to the vector;
- they are neighbours, but begin anywhere: the blocks they touch go through a little memory, from
  which the vector is loaded where it begins;
- they are apart: one block per lane.

The blocks themselves are computed one by one, not in the lanes of vectors. A product of 64-bit
integers with all its 128 bits is one instruction for a single number, and fifteen for a vector:
eight blocks side by side took nine tenths of the time, and four times the registers.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from gradwalk.compiler.backends.llvm.emit.function_text import Function
from gradwalk.compiler.backends.llvm.emit.functions.logarithm import log
from gradwalk.compiler.backends.llvm.emit.functions.trigonometric import sine_of_turn
from gradwalk.compiler.backends.llvm.emit.kernel import KernelWriter
from gradwalk.compiler.backends.llvm.emit.vector_values import Kind, Value
from gradwalk.compiler.ir.random_ops import (
    random_bernoulli,
    random_bernoulli_each,
    random_exponential,
    random_integers,
    random_normal,
    random_uniform,
)
from gradwalk.compiler.plan.loop_nest import Draw, Loops
from gradwalk.random.philox import FLOATS

WORDS = 4  # of a block
ROUNDS = 10
# The constants of Philox4x64
FACTORS = 0xD2E7470EE14C6C93, 0xCA5A826395121157
KEY_STEPS = 0x9E3779B97F4A7C15, 0xBB67AE8584CAA73B
INT32, INT64 = np.dtype(np.int32), np.dtype(np.int64)


def _signed(number: int) -> str:
    """A number modulo 2⁶⁴ as LLVM writes an i64."""
    return str((number + 2**63) % 2**64 - 2**63)


def drawings(f: KernelWriter, loops: Loops, lanes: int) -> dict[int, Drawing]:
    """The draws among the steps of a kernel; written where it begins."""
    return {
        k: Drawing(f, loops, step, f.bases[step.access], f.size(loops.size_of_skip(k)), lanes)
        for k, step in enumerate(loops.steps)
        if isinstance(step, Draw)
    }


class Drawing:
    """One draw of a kernel: the words of its stream, and the numbers made of them."""

    def __init__(
        self, f: Function, loops: Loops, step: Draw, state: str, skip: str, lanes: int
    ) -> None:
        """`state` is the pointer to seed and offset, `lanes` the most there are; written before all
        loops."""
        self.f = f
        self.step = step
        self.attrs = dict(step.attrs)
        self.multiples = loops.draws_from_multiples_of(step)
        of_words = step.op is random_integers or step.dtype == np.float64
        self.bits = INT64 if of_words else INT32
        self.per_block = WORDS if of_words else 2 * WORDS
        seed = f.set(f"load i64, ptr {state}, align 8")
        place = f.set(f"getelementptr i64, ptr {state}, i64 1")
        offset = f.set(f"load i64, ptr {place}, align 8")
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

    def _xor(self, first: str, second: str) -> str:
        return self.f.set(f"xor i64 {first}, {second}")

    def _blocks(self, first: str, count: int) -> list[list[str]]:
        """The four words of each of some blocks of the draw, round by round for all of them: each
        round waits for the one before, so a processor has several to work on."""
        f = self.f
        first = f.set(f"add i64 {self.first}, {first}")
        counters = []
        for number in range(count):
            high, low = _high_and_low(f, FACTORS[0], f.set(f"add i64 {first}, {number}"))
            counters.append([self.keys[0], "0", high, low])
        for turn in range(1, ROUNDS):
            counters = [self._round(turn, *counter) for counter in counters]
        return counters

    def _round(self, turn: int, first: str, second: str, third: str, fourth: str) -> list[str]:
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

    def _bits(self, index: str, stride: str, lanes: int) -> Value:
        """The bits of the elements from `index` on."""
        if self._are_whole_blocks(stride, lanes):
            return self._whole_blocks(index, lanes)
        (own,) = self._around(index, stride, lanes, (0,))
        return own

    def _pairs(self, index: str, stride: str, lanes: int) -> tuple[Value, Value, Value]:
        """Of the pair that each element belongs to: the bits of the first, those of the second, and
        whether the element is the first."""
        f = self.f
        if self._are_whole_blocks(stride, lanes):
            own = self._whole_blocks(index, lanes)
            firsts = [lane - lane % 2 for lane in range(lanes)]
            first = _shuffled(own, firsts)
            return first, _shuffled(own, [lane + 1 for lane in firsts]), _even(f, "0", "1", lanes)
        before, own, after = self._around(index, stride, lanes, (-1, 0, 1))
        even = _even(f, index, stride, lanes)
        return even.choose(own, before), even.choose(after, own), even

    def _are_whole_blocks(self, stride: str, lanes: int) -> bool:
        fits = lanes % self.per_block == 0 and self.multiples % self.per_block == 0
        return stride == "1" and fits

    def _whole_blocks(self, index: str, lanes: int) -> Value:
        f = self.f
        words = lanes * WORDS // self.per_block
        vector = Value(f, Kind(INT64, words), "poison")
        first = f.set(f"udiv i64 {index}, {self.per_block}")
        for number, block in enumerate(self._blocks(first, words // WORDS)):
            for k, word in enumerate(block):
                vector = vector.with_lane(number * WORDS + k, Value(f, Kind(INT64), word))
        kind = Kind(self.bits, lanes)
        text = f.set(f"bitcast {vector.kind.text} {vector.text} to {kind.text}")
        return Value(f, kind, text)

    def _around(self, index: str, stride: str, lanes: int, shifts: Sequence[int]) -> list[Value]:
        """The bits of the elements that lie so many before or after each; those in another block
        are anything."""
        if lanes == 1 or stride == "1":
            self._remember(index, self._touched(lanes))
            return [self._recalled(index, shift, lanes) for shift in shifts]
        f, kind = self.f, Kind(self.bits, lanes)
        carried = [(kind.text, "poison")] * len(shifts)
        with f.loop("0", str(lanes), carried=carried, at_least_once=True) as loop:
            here = f.add(index, f.multiply(loop.index, stride))
            self._remember(here, 1)
            vectors = [Value(f, kind, text) for text in loop.carried]
            numbers = [self._recalled(here, shift, 1) for shift in shifts]
            found = [v.with_lane(loop.index, n) for v, n in zip(vectors, numbers, strict=True)]
            loop.carry(*(v.text for v in found))
        return [Value(f, kind, text) for text in loop.results]

    def _remember(self, index: str, count: int) -> None:
        """Put blocks into the memory, beginning with the one that an element is in."""
        f = self.f
        first = f.set(f"udiv i64 {index}, {self.per_block}")
        for number, block in enumerate(self._blocks(first, count)):
            for k, word in enumerate(block):
                place = f.set(f"getelementptr i64, ptr {self.memory}, i64 {1 + number * WORDS + k}")
                f.do(f"store i64 {word}, ptr {place}, align 8")

    def _recalled(self, index: str, shift: int, lanes: int) -> Value:
        """Bits from the memory, beginning `shift` elements after this one."""
        f, kind = self.f, Kind(self.bits, lanes)
        inside = f.set(f"urem i64 {index}, {self.per_block}")
        start = f.add(inside, str(shift + self.per_block // WORDS))
        place = f.set(f"getelementptr {kind.element}, ptr {self.memory}, i64 {start}")
        text = f.set(f"load {kind.text}, ptr {place}, align {self.bits.itemsize}")
        return Value(f, kind, text)

    # -- numbers -----------------------------------------------------------------------------------

    def numbers(self, index: str, stride: str, lanes: int, args: Sequence[Value]) -> Value:
        """The elements of the draw from number `index` on, `stride` apart."""
        op, dtype = self.step.op, self.step.dtype
        if op is random_normal:
            return self._normal(*self._pairs(index, stride, lanes))
        bits = self._bits(index, stride, lanes)
        if op is random_uniform:
            return self._uniform(bits)
        if op is random_exponential:
            return _minus_log_v(bits, dtype)
        if op is random_bernoulli:
            return self._bernoulli(bits)
        if op is random_bernoulli_each:
            (p,) = args
            return _from_unsigned(bits, np.float64) * 2.0**-32 < p.to(np.float64).spread(lanes)
        assert op is random_integers
        return self._integers(bits)

    def _uniform(self, bits: Value) -> Value:
        dtype = self.step.dtype
        low, high = (dtype.type(self.attrs[name]) for name in ("low", "high"))
        u = _u(bits, dtype) * float(FLOATS[dtype].unit)
        if self.attrs["low"] == 0 and self.attrs["high"] == 1:
            return u
        return u * float(high - low) + float(low)

    def _normal(self, first: Value, second: Value, even: Value) -> Value:
        dtype = self.step.dtype
        half_square = _minus_log_v(first, dtype)
        radius = (half_square + half_square).intrinsic("sqrt")
        angle = _u(second, dtype) * float(FLOATS[dtype].angle)
        out = sine_of_turn(angle, even) * radius
        mean, std = self.attrs["mean"], self.attrs["std"]
        out = out if std == 1 else out * std
        return out if mean == 0 else out + mean

    def _bernoulli(self, bits: Value) -> Value:
        limit = math.ceil(self.attrs["p"] * 2.0**32)
        kind = bits.kind.of(np.bool_)
        if not 0 < limit < 2**32:
            return Value(self.f, kind, kind.constant(limit > 0))
        bound = bits.constant(limit if limit < 2**31 else limit - 2**32)
        text = self.f.set(f"icmp ult {bits.kind.text} {bits.text}, {bound.text}")
        return Value(self.f, kind, text)

    def _integers(self, words: Value) -> Value:
        low, high = self.attrs["low"], self.attrs["high"]
        if high - low < 2**64:
            words = _high_products(words, high - low)
        return words + int(_signed(low)) if low else words


def _u(bits: Value, dtype: np.dtype[Any]) -> Value:
    """The bits of a uniform number, as a float; there is no sign among them."""
    return bits.unsigned_shift(int(FLOATS[dtype].unused)).to(dtype)


def _minus_log_v(bits: Value, dtype: np.dtype[Any]) -> Value:
    kind = FLOATS[dtype]
    shift = int(kind.unused_of_v)
    v = bits.unsigned_shift(shift).to(dtype) if shift else _from_unsigned(bits, dtype)
    return log(v * float(kind.unit_of_v) + float(kind.half_unit_of_v)).absolute()


def _from_unsigned(bits: Value, dtype: Any) -> Value:
    kind = bits.kind.of(dtype)
    text = bits.function.set(f"uitofp {bits.kind.text} {bits.text} to {kind.text}")
    return Value(bits.function, kind, text)


def _high_products(words: Value, factor: int) -> Value:
    """The upper 64 bits of the products, lane by lane: as for the words, one instruction each."""
    f, lanes = words.function, words.kind.lanes
    found = words
    for lane in range(lanes):
        high, _ = _high_and_low(f, factor, words.lane(lane).text)
        number = Value(f, Kind(INT64), high)
        found = found.with_lane(lane, number) if lanes > 1 else number
    return found


def _high_and_low(f: Function, factor: int, number: str) -> tuple[str, str]:
    """Both halves of a 128-bit product."""
    wide = f.set(f"zext i64 {number} to i128")
    product = f.set(f"mul i128 {wide}, {factor}")
    high = f.set(f"lshr i128 {product}, 64")
    return f.set(f"trunc i128 {high} to i64"), f.set(f"trunc i128 {product} to i64")


def _shuffled(vector: Value, lanes: Sequence[int]) -> Value:
    kind = vector.kind
    chosen = ", ".join(f"i32 {lane}" for lane in lanes)
    text = vector.function.set(
        f"shufflevector {kind.text} {vector.text}, {kind.text} poison, "
        f"<{len(lanes)} x i32> <{chosen}>"
    )
    return Value(vector.function, kind, text)


def _even(f: Function, index: str, stride: str, lanes: int) -> Value:
    """Whether the number of each lane's element is even."""
    number = Value(f, Kind(INT64), index).spread(lanes)
    if lanes > 1 and stride != "0":
        counted = ", ".join(f"i64 {lane}" for lane in range(lanes))
        steps = Value(f, Kind(INT64), stride).spread(lanes)
        number = number + steps * Value(f, number.kind, f"<{counted}>")
    return (number & 1).compare("eq", 0)
