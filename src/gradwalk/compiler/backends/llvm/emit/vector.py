"""Vector: lanes of numbers (or one number) in a function being written; VectorBuilder: its loads
and stores.

A vector's operators write instructions, so emitters and polynomials are ordinary arithmetic:
`x * (1 - x)` writes a subtraction and a multiplication, once per lane. Every operation is rounded,
as in NumPy; only `fused` multiplies and adds in one rounding.

In memory a bool is a byte, in a register one bit; a half has two bytes in memory and is a float in
a register, with a half's precision. A mask leaves out lanes: a load puts 0 there, and
neither a load nor a store touches their memory.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from gradwalk.compiler.backends.llvm.emit import halves
from gradwalk.compiler.backends.llvm.emit.ir_builder import I64, IRBuilder
from gradwalk.ops.core.dtypes import is_floating, is_half

# NumPy's dtype -> LLVM's type of one element in a register. Comparisons give i1; in memory a bool
# is a byte.
ELEMENTS = {
    np.dtype(name): element
    for name, element in {
        "float32": "float", "float64": "double", "bool": "i1", "int8": "i8", "uint8": "i8",
        "int16": "i16", "int32": "i32", "int64": "i64",
    }.items()
}  # fmt: skip


@dataclass(frozen=True)
class Type:
    """The type of a vector: so many lanes of one dtype; one lane is a plain number."""

    dtype: np.dtype[Any]
    lanes: int = 1

    @cached_property
    def element(self) -> str:
        """LLVM's type of one lane."""
        return "float" if is_half(self.dtype) else ELEMENTS[self.dtype]

    @cached_property
    def text(self) -> str:
        """LLVM's type."""
        return self.element if self.lanes == 1 else f"<{self.lanes} x {self.element}>"

    @cached_property
    def suffix(self) -> str:
        """The type in names of intrinsics: f32, v16f32, v8i64."""
        bits = {"float": "f32", "double": "f64"}.get(self.element, self.element)
        return bits if self.lanes == 1 else f"v{self.lanes}{bits}"

    @property
    def is_float(self) -> bool:
        """Whether lanes are floating-point numbers."""
        return is_floating(self.dtype)

    def of(self, dtype: Any) -> Type:
        """As many lanes of another dtype."""
        return Type(np.dtype(dtype), self.lanes)

    def constant(self, value: float | bool) -> str:
        """The same number in every lane, as text."""
        if is_half(self.dtype):
            value = float(np.array(value).astype(self.dtype))
        if self.is_float:  # the bits of a double, also for a float
            exact = np.float64(ctypes.c_float(value).value if self.element == "float" else value)
            one = f"0x{exact.view(np.uint64):016X}"
        elif self.element == "i1":
            one = "true" if value else "false"
        else:
            one = str(int(value))
        return one if self.lanes == 1 else f"splat ({self.element} {one})"


INT64 = Type(np.dtype(np.int64))
_Binary = Callable[["Vector", "Vector | float"], "Vector"]


def _operator(on_integers: str, on_floats: str) -> _Binary:
    """An operator that is one instruction."""

    def operate(x: Vector, y: Vector | float) -> Vector:
        return x.instruction(on_floats if x.type.is_float else on_integers, y)

    return operate


def _reflected(operate: _Binary) -> _Binary:
    return lambda x, y: operate(x.constant(y) if not isinstance(y, Vector) else y, x)


def _comparison(how: str) -> _Binary:
    return lambda x, y: x.compare(how, y)


def _limited(how: str) -> _Binary:
    """The larger (gt) or smaller (lt) of a vector and a bound that is no NaN; a NaN stays one."""

    def limit(x: Vector, bound: Vector | float) -> Vector:
        bound = x._other(bound)
        return bound.compare(how, x).choose(bound, x)

    return limit


class Vector:
    """A named result in a function being written."""

    __slots__ = ("function", "text", "type")

    def __init__(self, function: IRBuilder, kind: Type, text: I64) -> None:
        self.function = function
        self.type = kind
        self.text = str(text)

    def __str__(self) -> str:
        return self.text

    def named(self, text: str) -> Vector:
        """A vector of this type under another name."""
        return Vector(self.function, self.type, text)

    def _made(self, instruction: str, kind: Type | None = None) -> Vector:
        return Vector(self.function, kind or self.type, self.function.set(instruction))

    def constant(self, value: float | bool) -> Vector:
        """A number of this type."""
        return Vector(self.function, self.type, self.type.constant(value))

    def _other(self, other: Vector | float) -> Vector:
        return other if isinstance(other, Vector) else self.constant(other)

    # -- arithmetic ------------------------------------------------------------------------------

    __add__ = _operator("add", "fadd")
    __sub__ = _operator("sub", "fsub")
    __mul__ = _operator("mul", "fmul")
    __truediv__ = _operator("fdiv", "fdiv")
    __radd__ = _reflected(__add__)
    __rsub__ = _reflected(__sub__)
    __rmul__ = _reflected(__mul__)
    __rtruediv__ = _reflected(__truediv__)

    def __neg__(self) -> Vector:
        if self.type.is_float:
            return self._made(f"fneg {self.type.text} {self.text}")
        return self.constant(0) - self

    def fused(self, factor: Vector | float, addend: Vector | float) -> Vector:
        """self × factor + addend of floats, rounded once."""
        return self.intrinsic("fma", self._other(factor), self._other(addend))

    # -- bits, for integers and truth values -------------------------------------------------------

    __and__ = _operator("and", "and")
    __or__ = _operator("or", "or")
    __xor__ = _operator("xor", "xor")
    __lshift__ = _operator("shl", "shl")
    unsigned_shift = _operator("lshr", "lshr")  # bits moved right, zeros from the left

    def __invert__(self) -> Vector:
        return self ^ (True if self.type.element == "i1" else -1)

    # -- comparing and choosing --------------------------------------------------------------------

    def compare(self, how: str, other: Vector | float) -> Vector:
        """`how` is lt, le, gt, ge, eq or ne; with a NaN all but ne are false."""
        other = self._other(other)
        kind = self.type
        if kind.is_float:
            word = f"fcmp {'une' if how == 'ne' else 'o' + how}"
        elif how in ("eq", "ne"):
            word = f"icmp {how}"
        else:
            word = f"icmp {'u' if kind.dtype.kind in 'ub' else 's'}{how}"
        instruction = f"{word} {kind.text} {self.text}, {other.text}"
        return self._made(instruction, kind.of(np.bool_))

    __lt__ = _comparison("lt")
    __le__ = _comparison("le")
    __gt__ = _comparison("gt")
    __ge__ = _comparison("ge")

    def below(self, bound: Vector) -> Vector:
        """Whether 0 ≤ this < bound, of integers: one unsigned comparison."""
        kind = self.type
        instruction = f"icmp ult {kind.text} {self.text}, {bound.text}"
        return self._made(instruction, kind.of(np.bool_))

    def choose(self, yes: Vector, no: Vector) -> Vector:
        """Lane by lane `yes` where this truth value is true, else `no`."""
        kind = yes.type
        return yes._made(
            f"select {self.type.text} {self.text}, {kind.text} {yes.text}, {kind.text} {no.text}"
        )

    at_least = _limited("gt")
    at_most = _limited("lt")

    def across(self, intrinsic: str) -> str:
        """All lanes of integers as one number (or, and, smin), by LLVM's reduction."""
        if self.type.lanes == 1:
            return self.text
        name = f"llvm.vector.reduce.{intrinsic}.{self.type.suffix}"
        return self.function.call(self.type.element, name, (self.type.text, self.text))

    # -- other -----------------------------------------------------------------------------------

    def absolute(self) -> Vector:
        """Without its sign (floats)."""
        return self.intrinsic("fabs")

    def with_sign_of(self, other: Vector) -> Vector:
        """The size of this and the sign bit of the other (floats)."""
        return self.intrinsic("copysign", other)

    def lane(self, index: I64) -> Vector:
        """One lane, as a plain number."""
        if self.type.lanes == 1:
            return self
        kind = Type(self.type.dtype)
        return self._made(f"extractelement {self.type.text} {self.text}, i64 {index}", kind)

    def with_lane(self, index: I64, number: Vector) -> Vector:
        """The same vector with another number in one lane."""
        given = f"{number.type.text} {number.text}, i64 {index}"
        return self._made(f"insertelement {self.type.text} {self.text}, {given}")

    def shuffled(self, lanes: Sequence[int], other: str = "poison") -> Vector:
        """These lanes of this vector, counted on in a second one of its type."""
        kind = self.type.text
        chosen = ", ".join(f"i32 {lane}" for lane in lanes)
        return self._made(
            f"shufflevector {kind} {self.text}, {kind} {other}, <{len(lanes)} x i32> <{chosen}>",
            Type(self.type.dtype, len(lanes)),
        )

    def intrinsic(self, name: str, *others: Vector) -> Vector:
        """LLVM's own function of this name on vectors of one type (sqrt, fma, rint, fabs, ...)."""
        kind = self.type.text
        arguments = [(kind, v.text) for v in (self, *others)]
        result = self.function.call(kind, f"llvm.{name}.{self.type.suffix}", *arguments)
        return Vector(self.function, self.type, result)

    def instruction(self, name: str, other: Vector | float) -> Vector:
        """An instruction on two vectors of this type."""
        other = self._other(other)
        freedom = self.function.freedom if self.type.is_float else ""
        return self._made(f"{name} {freedom}{self.type.text} {self.text}, {other.text}")

    def labelled(self, dtype: Any) -> Vector:
        """The same register under a dtype that has the same type there: float32 and halves."""
        return Vector(self.function, self.type.of(dtype), self.text)

    def bits(self, dtype: Any) -> Vector:
        """The same bits read as another dtype of that size."""
        kind = self.type.of(dtype)
        return self._made(f"bitcast {self.type.text} {self.text} to {kind.text}", kind)

    def to(self, dtype: Any) -> Vector:
        """Converted, as NumPy's astype does."""
        kind = self.type.of(dtype)
        if kind == self.type:
            return self
        if is_half(kind.dtype):
            return halves.rounded(self.to(np.float32), kind.dtype)
        if is_half(self.type.dtype):
            return self.labelled(np.float32).to(dtype)
        if kind.element == "i1":
            return self.compare("ne", 0)
        if self.type.is_float and not kind.is_float and kind.dtype.itemsize < 4:
            return self.to(np.int32).to(dtype)  # what does not fit is cut off, as in NumPy
        return self._made(
            f"{_conversion(self.type, kind)} {self.type.text} {self.text} to {kind.text}", kind
        )

    def spread(self, lanes: int) -> Vector:
        """This one number in every lane."""
        if self.type.lanes == lanes:
            return self
        kind = Type(self.type.dtype, lanes)
        first = self._made(
            f"insertelement {kind.text} poison, {self.type.text} {self.text}, i64 0", kind
        )
        return self._made(
            f"shufflevector {kind.text} {first.text}, {kind.text} poison, "
            f"<{lanes} x i32> zeroinitializer",
            kind,
        )


def spread(function: IRBuilder, number: I64, lanes: int) -> Vector:
    """An i64 in every lane."""
    return Vector(function, INT64, number).spread(lanes)


def counting(function: IRBuilder, kind: Type, step: int = 1) -> Vector:
    """0, step, 2 · step, ... of an integer type."""
    listed = ", ".join(f"{kind.element} {i * step}" for i in range(kind.lanes))
    return Vector(function, kind, f"<{listed}>")


def _conversion(source: Type, target: Type) -> str:
    """LLVM's instruction that converts numbers of one type to another."""
    if source.is_float and target.is_float:
        return "fpext" if target.element == "double" else "fptrunc"
    unsigned = "u" if (target if source.is_float else source).dtype.kind in "ub" else "s"
    if source.is_float:
        return f"fpto{unsigned}i"
    if target.is_float:
        return f"{unsigned}itofp"
    widths = [1 if k.element == "i1" else 8 * k.dtype.itemsize for k in (source, target)]
    if widths[0] == widths[1]:
        return "bitcast"
    return "trunc" if widths[1] < widths[0] else "zext" if unsigned == "u" else "sext"


class VectorBuilder(IRBuilder):
    """A function being written that moves vectors between memory and registers."""

    def constant(self, kind: Type, value: float | bool) -> Vector:
        """The same number in every lane."""
        return Vector(self, kind, kind.constant(value))

    def element(self, base: str, dtype: np.dtype[Any], *index: I64) -> str:
        """The address of the element whose index is the sum of these terms."""
        total = self.add(*index)
        return base if total == 0 else self.pointer(_in_memory(Type(dtype)).text, base, total)

    def first_lanes(self, count: I64, lanes: int) -> str:
        """A mask of the first `count` lanes."""
        numbers = counting(self, Type(INT64.dtype, lanes))
        limit = spread(self, count, lanes)
        return self.set(f"icmp slt {limit.type.text} {numbers.text}, {limit.text}")

    # -- loads -------------------------------------------------------------------------------------

    def load(self, pointer: str, kind: Type, mask: str | None = None) -> Vector:
        """Load consecutive elements."""
        memory = _in_memory(kind)
        if mask is None:
            text = self.set(f"load {memory.text}, ptr {pointer}, align {kind.dtype.itemsize}")
        else:
            text = self.call(
                memory.text, f"llvm.masked.load.{memory.suffix}.p0", ("ptr", pointer),
                ("i32", kind.dtype.itemsize), (f"<{kind.lanes} x i1>", mask),
                (memory.text, "zeroinitializer"),
            )  # fmt: skip
        return self._in_register(Vector(self, memory, text), kind)

    def gather(self, pointer: str, offsets: Vector, kind: Type, mask: str | None = None) -> Vector:
        """Load elements at the given offsets."""
        memory = _in_memory(kind)
        text = self.call(
            memory.text, f"llvm.masked.gather.{memory.suffix}.v{kind.lanes}p0",
            (f"<{kind.lanes} x ptr>", self._pointers(pointer, offsets, memory)),
            ("i32", kind.dtype.itemsize), (f"<{kind.lanes} x i1>", _lanes(mask)),
            (memory.text, "zeroinitializer"),
        )  # fmt: skip
        return self._in_register(Vector(self, memory, text), kind)

    def load_along(self, pointer: str, stride: I64, kind: Type, mask: str | None = None) -> Vector:
        """Load elements along a dimension of this stride."""
        if kind.lanes == 1:
            return self.load(pointer, kind)
        if stride == 0:
            return self.load(pointer, Type(kind.dtype)).spread(kind.lanes)
        if stride == 1:
            return self.load(pointer, kind, mask)
        return self.gather(pointer, self.lane_offsets(stride, kind.lanes), kind, mask)

    def load_every_second(self, pointer: str, kind: Type, mask: str) -> Vector:
        """Load elements 0, 2, 4, ...: of two consecutive vectors every second lane."""
        lanes = kind.lanes
        halves = []
        for half in range(2):
            chosen = [(half * lanes + i) // 2 if i % 2 == 0 else lanes for i in range(lanes)]
            allowed = Vector(self, kind.of(np.bool_), mask).shuffled(chosen, "zeroinitializer")
            part = self.element(pointer, kind.dtype, half * lanes)
            halves.append(self.load(part, kind, allowed.text))
        return halves[0].shuffled([2 * i for i in range(lanes)], halves[1].text)

    # -- stores ------------------------------------------------------------------------------------

    def store(self, value: Vector, pointer: str, mask: str | None = None) -> None:
        """Store consecutive elements."""
        size, lanes = value.type.dtype.itemsize, value.type.lanes
        value = self._for_memory(value)
        if mask is None:
            self.do(f"store {value.type.text} {value.text}, ptr {pointer}, align {size}")
        else:
            self.call(
                "void", f"llvm.masked.store.{value.type.suffix}.p0", (value.type.text, value.text),
                ("ptr", pointer), ("i32", size), (f"<{lanes} x i1>", mask),
            )  # fmt: skip

    def store_along(
        self, value: Vector, pointer: str, stride: I64, mask: str | None = None
    ) -> None:
        """Store elements along a dimension of this stride."""
        size, lanes = value.type.dtype.itemsize, value.type.lanes
        if lanes == 1 or stride == 1:
            self.store(value, pointer, mask if lanes > 1 else None)
            return
        value = self._for_memory(value)
        pointers = self._pointers(pointer, self.lane_offsets(stride, lanes), value.type)
        self.call(
            "void", f"llvm.masked.scatter.{value.type.suffix}.v{lanes}p0",
            (value.type.text, value.text), (f"<{lanes} x ptr>", pointers), ("i32", size),
            (f"<{lanes} x i1>", _lanes(mask)),
        )  # fmt: skip

    # -- parts -------------------------------------------------------------------------------------

    def lane_offsets(self, stride: I64, lanes: int) -> Vector:
        """The offset of each lane: 0, stride, 2 · stride, ..."""
        strides = spread(self, stride, lanes)
        return strides * counting(self, strides.type)

    def _pointers(self, pointer: str, offsets: Vector, memory: Type) -> str:
        return self.set(
            f"getelementptr {memory.element}, ptr {pointer}, {offsets.type.text} {offsets.text}"
        )

    def _in_register(self, value: Vector, kind: Type) -> Vector:
        if is_half(kind.dtype):
            return halves.from_bits(value, kind.dtype)
        return value.compare("ne", 0) if kind.dtype.kind == "b" else value

    def _for_memory(self, value: Vector) -> Vector:
        if is_half(value.type.dtype):
            return halves.to_bits(value, value.type.dtype)
        return value.to(np.uint8) if value.type.dtype.kind == "b" else value


def lanes_for(dtypes: Sequence[np.dtype[Any]], vector_bytes: int) -> int:
    """How many elements of the widest of these dtypes fill a vector."""
    sizes = (4 if is_half(d) else d.itemsize for d in dtypes if d.kind != "b")
    return vector_bytes // max(sizes, default=4)


def _in_memory(kind: Type) -> Type:
    if is_half(kind.dtype):
        return kind.of(np.int16)
    return kind.of(np.uint8) if kind.dtype.kind == "b" else kind


def _lanes(mask: str | None) -> str:
    return "splat (i1 true)" if mask is None else mask
