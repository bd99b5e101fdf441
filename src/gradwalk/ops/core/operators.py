"""Operators and methods made from ops: what Tensor and Symbol have in common; ops of ufuncs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache, wraps
from typing import Any, ParamSpec, Self, TypeVar

import numpy as np

from gradwalk.ops.core.methods import Methods, OperatorMethods
from gradwalk.ops.core.op import Op
from gradwalk.ops.core.public import Registration, follow
from gradwalk.ops.core.signature import ForeignOperand
from gradwalk.ops.elementwise import arithmetic, choice, complex_numbers, integers, remainders
from gradwalk.ops.index import indexing
from gradwalk.ops.linear import matmul
from gradwalk.ops.shape import rearranging, reshaping

P = ParamSpec("P")
R = TypeVar("R")
_NONE: dict[str, Any] = {}  # no attributes; shared, never written to

# Python's name of an operator -> the op. Operators in `BINARY` also have a reflected form.
BINARY = {
    "add": arithmetic.add,
    "sub": arithmetic.sub,
    "mul": arithmetic.mul,
    "truediv": arithmetic.div,
    "floordiv": remainders.floor_divide,
    "mod": remainders.remainder,
    "and": choice.bitwise_and,
    "or": choice.bitwise_or,
    "xor": choice.bitwise_xor,
    "lshift": integers.bitwise_left_shift,
    "rshift": integers.bitwise_right_shift,
}
COMPARISONS = {
    "lt": choice.less,
    "le": choice.less_equal,
    "gt": choice.greater,
    "ge": choice.greater_equal,
    "eq": choice.equal,
    "ne": choice.not_equal,
}
UNARY = {"neg": arithmetic.neg, "abs": arithmetic.abs, "invert": choice.bitwise_not}


def method_of(op: Op, quick: Callable[..., Any] | None = None) -> Callable[..., Any]:
    """The op as a method of everything with `_apply`, or of tensors by way of `quick`.

    For `atan2` that is

        def atan2(self, other):
            return self._apply(op, (self, other,), NONE)
    """
    if quick is None:
        plain = "self._apply(op, ({operands},), {attrs})"
    else:
        plain = "quick({operands}, {attrs})" if op.attributes else "quick({operands})"
    return _written(op, op.name, op.__doc__, plain, "op({given})", quick=quick)


def in_place_method_of(op: Op, write: Callable[..., Any]) -> Callable[..., Any]:
    """The op as a method that writes its result into the tensor, by way of `write`."""
    plain, otherwise = "write(self, op, ({operands},), {attrs})", "write(self, *op.change({given}))"
    return _written(op, f"{op.name}_", f"`{op.name}`, in place.", plain, otherwise, write=write)


def _written(
    op: Op, name: str, doc: str | None, plain: str, otherwise: str, **used: Any
) -> Callable[..., Any]:
    """Compile a method from its text; `otherwise` is its body if an option is not the default."""
    given = list(op.signature().parameters.values())[1:]
    head, by_name = ["self"], False
    for p in given:
        if p.kind is p.KEYWORD_ONLY and not by_name:
            head.append("*")
            by_name = True
        head.append(p.name if p.default is p.empty else f"{p.name}=default_{p.name}")
    passed = (f"{p.name}={p.name}" if p.kind is p.KEYWORD_ONLY else p.name for p in given)
    attrs = ", ".join(f"{name!r}: {name}" for name in op.attributes)
    parts = {
        "operands": ", ".join(["self", *(p.name for p in given[: len(op.inputs) - 1])]),
        "attrs": f"{{{attrs}}}" if attrs else "NONE",
        "given": ", ".join(["self", *passed]),
    }
    body = plain.format(**parts)
    if op.options:
        test = " and ".join(f"{option} == default_{option}" for option in op.options)
        body = f"{body} if {test} else {otherwise.format(**parts)}"
    old = ""
    if "alpha" in op.options:  # PyTorch's first order, x.add_(alpha, other), which it still accepts
        head.insert(2, "_other=None")
        old = "    if _other is not None:\n        other, alpha = _other, other\n"
    text = f"def {name}({', '.join(head)}):\n{old}    return {body}"
    scope = {"__name__": __name__, "op": op, "NONE": _NONE, **used}
    scope |= {f"default_{p.name}": p.default for p in given}
    # A file name inside gradwalk: the search for the user's line skips it.
    exec(compile(text, f"{__file__}, {name}", "exec"), scope)
    scope[name].__doc__ = doc
    return scope[name]


def or_declines(operator: Callable[P, R]) -> Callable[P, R]:
    """An operator that returns NotImplemented beside an operand that it cannot compute with.

    Python then asks the class of the operand: `x == None` is False, `x + obj` is `obj.__radd__(x)`.
    """

    @wraps(operator)
    def declining(*args: P.args, **keywords: P.kwargs) -> R:
        try:
            return operator(*args, **keywords)
        except ForeignOperand:
            return NotImplemented

    return declining


class Arithmetic(OperatorMethods):
    """Arithmetic, comparison and indexing, for anything with `_apply`."""

    __slots__ = ()
    shape: Any

    @staticmethod
    def _apply(op: Op, args: tuple[Any, ...], attrs: dict[str, Any]) -> Any:
        raise NotImplementedError

    @or_declines
    def __pow__(self, exponent: Any) -> Self:
        return arithmetic.pow(self, exponent)

    @or_declines
    def __rpow__(self, base: Any) -> Self:
        op = arithmetic.complex_pow if type(base) is complex else arithmetic.pow_op
        return self._apply(op, (base, self), _NONE)

    def __pos__(self) -> Self:
        return self

    @or_declines
    def __matmul__(self, other: Any) -> Self:
        return matmul.matmul(self, other)

    @or_declines
    def __rmatmul__(self, other: Any) -> Self:
        return matmul.matmul(other, self)

    __hash__ = object.__hash__  # == is elementwise; as a key, a tensor is itself

    def __getitem__(self, key: Any) -> Self:
        return indexing.take_item(self, key)

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("a 0-d tensor has no length")
        return self.shape[0]

    def __iter__(self) -> Iterator[Self]:
        if not self.shape:
            raise TypeError("a 0-d tensor cannot be iterated over; use .item() for its number")
        return iter(rearranging.unbind(self))  # the gradient is one join, not a sum of as many

    def __reversed__(self) -> Self:
        return reshaping.flip(self, axis=(0,)) if self.shape else self


class Operators(Arithmetic, Methods):
    """The same, and the methods PyTorch users expect."""

    __slots__ = ()

    @property
    def mT(self) -> Self:
        """The last two dimensions swapped."""
        return reshaping.matrix_transpose(self)

    @property
    def T(self) -> Self:
        """All dimensions reversed."""
        return reshaping.permute(self, axes=tuple(range(len(self.shape)))[::-1])

    @property
    def mH(self) -> Self:
        """The last two dimensions swapped, and the complex conjugate."""
        return complex_numbers.adjoint(self)

    @property
    def H(self) -> Self:
        """The conjugate transpose of a matrix."""
        return self.mH if len(self.shape) else complex_numbers.conj(self)

    @property
    def real(self) -> Self:
        """The real part, a view; assigning changes it."""
        return complex_numbers.real(self)

    @real.setter
    def real(self, value: Any) -> None:
        complex_numbers.real(self).copy_(value)

    @property
    def imag(self) -> Self:
        """The imaginary part of a complex tensor, a view; assigning changes it."""
        return complex_numbers.imag(self)

    @imag.setter
    def imag(self, value: Any) -> None:
        complex_numbers.imag(self).copy_(value)


def _equip(registration: Registration) -> None:
    """Give Methods what a registration offers."""
    method, call = registration.method, registration.call
    if method is True:
        method = method_of(call) if isinstance(call, Op) else call
    if method:
        for name in registration.names:
            setattr(Methods, name, method)


follow(_equip)


def _reflected(op: Op) -> Callable[[Any, Any], Any]:
    return or_declines(lambda self, other: self._apply(op, (other, self), _NONE))


for _name, _op in (BINARY | COMPARISONS).items():
    setattr(OperatorMethods, f"__{_name}__", or_declines(method_of(_op)))
for _name, _op in UNARY.items():
    setattr(OperatorMethods, f"__{_name}__", method_of(_op))
for _name, _op in BINARY.items():
    setattr(OperatorMethods, f"__r{_name}__", _reflected(_op))


def _unless_none(compare: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """The comparison, but with None or text Python's own: `x == None` is False, as in PyTorch."""

    def method(self: Any, other: Any) -> Any:
        if other is None or other.__class__ is str:
            return NotImplemented
        return compare(self, other)

    return method


for _name in ("__eq__", "__ne__"):
    setattr(OperatorMethods, _name, _unless_none(getattr(OperatorMethods, _name)))


@cache
def _table() -> dict[Any, Callable[..., Any]]:
    from gradwalk.ops import TABLE

    table = {op.forward: op for op in TABLE.values() if isinstance(op.forward, np.ufunc)}
    # These three are the ufunc but for integers or booleans.
    nearly = {np.power: TABLE["pow"], np.sign: TABLE["sign"], np.square: TABLE["square"]}
    return {**table, **nearly, np.matmul: matmul.matmul}


def op_of_ufunc(ufunc: Any) -> Callable[..., Any] | None:
    """The op with this ufunc as its forward, None if there is none."""
    return _table().get(ufunc)
