"""Operators: what Tensor and Symbol have in common, every operator and method made from its op."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Self

from gradwalk.ops.core.methods import Methods, OperatorMethods
from gradwalk.ops.core.op import Op
from gradwalk.ops.core.op_methods import method_of
from gradwalk.ops.core.public import Registration, follow
from gradwalk.ops.elementwise import arithmetic, choice, remainders
from gradwalk.ops.index import indexing
from gradwalk.ops.linear import matmul
from gradwalk.ops.shape import reshaping

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


class Arithmetic(OperatorMethods):
    """Arithmetic, comparison and indexing, for anything with `_apply`."""

    __slots__ = ()
    shape: Any

    @staticmethod
    def _apply(op: Op, args: tuple[Any, ...], attrs: dict[str, Any]) -> Any:
        raise NotImplementedError

    def __pow__(self, exponent: Any) -> Self:
        return arithmetic.pow(self, exponent)

    def __rpow__(self, base: Any) -> Self:
        return self._apply(arithmetic.pow_op, (base, self), _NONE)

    def __pos__(self) -> Self:
        return self

    def __matmul__(self, other: Any) -> Self:
        return matmul.matmul(self, other)

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
        return (self[i] for i in range(self.shape[0]))


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
    return lambda self, other: self._apply(op, (other, self), _NONE)


for _name, _op in (BINARY | COMPARISONS | UNARY).items():
    setattr(OperatorMethods, f"__{_name}__", method_of(_op))
for _name, _op in BINARY.items():
    setattr(OperatorMethods, f"__r{_name}__", _reflected(_op))
