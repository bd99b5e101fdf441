"""Value: a vector (or a single number) in a kernel being written; its operators write instructions.

Spellings of ops and polynomials are thereby ordinary arithmetic: `x * (1 - x)` writes a subtraction
and a multiplication, once per lane. Elementwise user arithmetic is rounded after every operation,
as NumPy does; only `fused` multiplies and adds in one rounding.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from gradwalk.compiler.backends.llvm.emit.function_text import Function, float_text

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
class Kind:
    """What is computed with: so many lanes of one dtype; one lane is a plain number."""

    dtype: np.dtype[Any]
    lanes: int = 1

    @cached_property
    def element(self) -> str:
        """LLVM's type of one lane."""
        return ELEMENTS[self.dtype]

    @cached_property
    def text(self) -> str:
        """LLVM's type."""
        return self.element if self.lanes == 1 else f"<{self.lanes} x {self.element}>"

    @cached_property
    def suffix(self) -> str:
        """How names of intrinsics spell this type: f32, v16f32, v8i64."""
        bits = {"float": "f32", "double": "f64"}.get(self.element, self.element)
        return bits if self.lanes == 1 else f"v{self.lanes}{bits}"

    @property
    def is_float(self) -> bool:
        """Whether it is a floating-point kind."""
        return self.dtype.kind == "f"

    def of(self, dtype: Any) -> Kind:
        """As many lanes of another dtype."""
        return Kind(np.dtype(dtype), self.lanes)

    def constant(self, value: float | bool) -> str:
        """The same number in every lane, as text."""
        if self.is_float:
            one = float_text(float(value), 32 if self.element == "float" else 64)
        elif self.element == "i1":
            one = "true" if value else "false"
        else:
            one = str(int(value))
        return one if self.lanes == 1 else f"splat ({self.element} {one})"


class Value:
    """A named result in a function being written."""

    __slots__ = ("function", "kind", "text")

    def __init__(self, function: Function, kind: Kind, text: str) -> None:
        self.function = function
        self.kind = kind
        self.text = text

    def __repr__(self) -> str:
        return f"{self.kind.text} {self.text}"

    def _made(self, instruction: str, kind: Kind | None = None) -> Value:
        return Value(self.function, kind or self.kind, self.function.set(instruction))

    def constant(self, value: float | bool) -> Value:
        """A number of this kind."""
        return Value(self.function, self.kind, self.kind.constant(value))

    def _other(self, other: Value | float) -> Value:
        return other if isinstance(other, Value) else self.constant(other)

    def _binary(self, name: str, other: Value | float) -> Value:
        other = self._other(other)
        freedom = self.function.freedom if self.kind.is_float else ""
        return self._made(f"{name} {freedom}{self.kind.text} {self.text}, {other.text}")

    # -- arithmetic ------------------------------------------------------------------------------

    def __add__(self, other: Value | float) -> Value:
        return self._binary("fadd" if self.kind.is_float else "add", other)

    def __sub__(self, other: Value | float) -> Value:
        return self._binary("fsub" if self.kind.is_float else "sub", other)

    def __mul__(self, other: Value | float) -> Value:
        return self._binary("fmul" if self.kind.is_float else "mul", other)

    def __truediv__(self, other: Value | float) -> Value:
        return self._binary("fdiv", other)

    def __radd__(self, other: float) -> Value:
        return self.constant(other) + self

    def __rsub__(self, other: float) -> Value:
        return self.constant(other) - self

    def __rmul__(self, other: float) -> Value:
        return self.constant(other) * self

    def __rtruediv__(self, other: float) -> Value:
        return self.constant(other) / self

    def __neg__(self) -> Value:
        if self.kind.is_float:
            return self._made(f"fneg {self.kind.text} {self.text}")
        return self.constant(0) - self

    def fused(self, factor: Value | float, addend: Value | float) -> Value:
        """self × factor + addend, rounded once."""
        factor, addend = self._other(factor), self._other(addend)
        kind = self.kind.text
        return (
            self.intrinsic("fma", factor, addend)
            if self.kind.is_float
            else (self._made(f"mul {kind} {self.text}, {factor.text}") + addend)
        )

    # -- bits, for integers and truth values -------------------------------------------------------

    def __and__(self, other: Value | float) -> Value:
        return self._binary("and", other)

    def __or__(self, other: Value | float) -> Value:
        return self._binary("or", other)

    def __xor__(self, other: Value | float) -> Value:
        return self._binary("xor", other)

    def __lshift__(self, other: Value | float) -> Value:
        return self._binary("shl", other)

    def __rshift__(self, other: Value | float) -> Value:
        """Arithmetic: the sign moves in from the left."""
        return self._binary("ashr", other)

    def unsigned_shift(self, places: Value | float) -> Value:
        """Bits moved right, zeros from the left."""
        return self._binary("lshr", places)

    def __invert__(self) -> Value:
        return self ^ (True if self.kind.element == "i1" else -1)

    # -- comparing and choosing --------------------------------------------------------------------

    def compare(self, how: str, other: Value | float) -> Value:
        """`how` is lt, le, gt, ge, eq or ne; with a NaN all but ne are false."""
        other = self._other(other)
        kind = self.kind
        if kind.is_float:
            word = f"fcmp {'une' if how == 'ne' else 'o' + how}"
        elif how in ("eq", "ne"):
            word = f"icmp {how}"
        else:
            unsigned = kind.dtype.kind in "ub"
            word = f"icmp {'u' if unsigned else 's'}{how}"
        instruction = f"{word} {kind.text} {self.text}, {other.text}"
        return self._made(instruction, kind.of(np.bool_))

    def __lt__(self, other: Value | float) -> Value:
        return self.compare("lt", other)

    def __le__(self, other: Value | float) -> Value:
        return self.compare("le", other)

    def __gt__(self, other: Value | float) -> Value:
        return self.compare("gt", other)

    def __ge__(self, other: Value | float) -> Value:
        return self.compare("ge", other)

    def choose(self, yes: Value, no: Value) -> Value:
        """Lane by lane `yes` where this truth value is true, else `no`."""
        kind = yes.kind
        return yes._made(
            f"select {self.kind.text} {self.text}, {kind.text} {yes.text}, {kind.text} {no.text}"
        )

    def at_least(self, bound: Value | float) -> Value:
        """The larger of this and a bound that is no NaN; a NaN here stays one."""
        bound = self._other(bound)
        return (bound > self).choose(bound, self)

    def at_most(self, bound: Value | float) -> Value:
        """The smaller of this and a bound that is no NaN; a NaN here stays one."""
        bound = self._other(bound)
        return (bound < self).choose(bound, self)

    def any(self) -> str:
        """Whether this truth value is true in any lane, as the name of an i1."""
        if self.kind.lanes == 1:
            return self.text
        return self.function.call(
            "i1", f"llvm.vector.reduce.or.{self.kind.suffix}", (self.kind.text, self.text)
        )

    # -- other -----------------------------------------------------------------------------------

    def absolute(self) -> Value:
        """Without its sign (floats)."""
        return self.intrinsic("fabs")

    def with_sign_of(self, other: Value) -> Value:
        """The size of this and the sign bit of the other (floats)."""
        return self.intrinsic("copysign", other)

    def lane(self, index: int | str) -> Value:
        """One lane, as a plain number."""
        if self.kind.lanes == 1:
            return self
        kind = Kind(self.kind.dtype)
        return self._made(f"extractelement {self.kind.text} {self.text}, i64 {index}", kind)

    def with_lane(self, index: int | str, number: Value) -> Value:
        """The same vector with another number in one lane."""
        given = f"{number.kind.text} {number.text}, i64 {index}"
        return self._made(f"insertelement {self.kind.text} {self.text}, {given}")

    def intrinsic(self, name: str, *others: Value) -> Value:
        """LLVM's own function of this name on values of one kind (sqrt, fma, rint, fabs, ...)."""
        kind = self.kind.text
        arguments = [(kind, v.text) for v in (self, *others)]
        found = self.function.call(kind, f"llvm.{name}.{self.kind.suffix}", *arguments)
        return Value(self.function, self.kind, found)

    def instruction(self, name: str, other: Value) -> Value:
        """An instruction on two values of this kind that no operator stands for (sdiv, srem)."""
        return self._binary(name, other)

    def bits(self, dtype: Any) -> Value:
        """The same bits read as another dtype of that size."""
        kind = self.kind.of(dtype)
        return self._made(f"bitcast {self.kind.text} {self.text} to {kind.text}", kind)

    def to(self, dtype: Any) -> Value:
        """Converted, as NumPy's astype does."""
        kind = self.kind.of(dtype)
        if kind == self.kind:
            return self
        if kind.element == "i1":
            return self.compare("ne", 0)
        if self.kind.is_float and not kind.is_float and kind.dtype.itemsize < 4:
            return self.to(np.int32).to(dtype)  # what does not fit is cut off, as in NumPy
        return self._made(
            f"{_conversion(self.kind, kind)} {self.kind.text} {self.text} to {kind.text}", kind
        )

    def spread(self, lanes: int) -> Value:
        """This one number in every lane."""
        if self.kind.lanes == lanes:
            return self
        kind = Kind(self.kind.dtype, lanes)
        first = self._made(
            f"insertelement {kind.text} poison, {self.kind.text} {self.text}, i64 0", kind
        )
        return self._made(
            f"shufflevector {kind.text} {first.text}, {kind.text} poison, "
            f"<{lanes} x i32> zeroinitializer",
            kind,
        )


def _conversion(source: Kind, target: Kind) -> str:
    """LLVM's instruction that converts numbers of one kind to another."""
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
