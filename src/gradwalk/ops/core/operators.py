"""Operators: what Tensor and Symbol have in common, every operator one line to its op."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Self

from gradwalk.ops.core.methods import Methods
from gradwalk.ops.core.op import Op
from gradwalk.ops.core.op_methods import method_of
from gradwalk.ops.core.public import Registration, follow
from gradwalk.ops.elementwise import arithmetic, choice, remainders
from gradwalk.ops.index import indexing as _index
from gradwalk.ops.linear import matmul
from gradwalk.ops.shape import reshaping

_NONE: dict[str, Any] = {}  # no attributes; shared, never written to


class Arithmetic:
    """Arithmetic, comparison and indexing, for anything with `_apply`."""

    __slots__ = ()
    shape: Any

    @staticmethod
    def _apply(op: Op, args: tuple[Any, ...], attrs: dict[str, Any]) -> Any:
        raise NotImplementedError

    def __add__(self, other: Any) -> Self:
        return self._apply(arithmetic.add, (self, other), _NONE)

    def __radd__(self, other: Any) -> Self:
        return self._apply(arithmetic.add, (other, self), _NONE)

    def __sub__(self, other: Any) -> Self:
        return self._apply(arithmetic.sub, (self, other), _NONE)

    def __rsub__(self, other: Any) -> Self:
        return self._apply(arithmetic.sub, (other, self), _NONE)

    def __mul__(self, other: Any) -> Self:
        return self._apply(arithmetic.mul, (self, other), _NONE)

    def __rmul__(self, other: Any) -> Self:
        return self._apply(arithmetic.mul, (other, self), _NONE)

    def __truediv__(self, other: Any) -> Self:
        return self._apply(arithmetic.div, (self, other), _NONE)

    def __rtruediv__(self, other: Any) -> Self:
        return self._apply(arithmetic.div, (other, self), _NONE)

    def __floordiv__(self, other: Any) -> Self:
        return self._apply(remainders.floor_divide, (self, other), _NONE)

    def __rfloordiv__(self, other: Any) -> Self:
        return self._apply(remainders.floor_divide, (other, self), _NONE)

    def __mod__(self, other: Any) -> Self:
        return self._apply(remainders.remainder, (self, other), _NONE)

    def __rmod__(self, other: Any) -> Self:
        return self._apply(remainders.remainder, (other, self), _NONE)

    def __pow__(self, exponent: Any) -> Self:
        return arithmetic.pow(self, exponent)

    def __rpow__(self, base: Any) -> Self:
        return self._apply(arithmetic.pow_op, (base, self), _NONE)

    def __neg__(self) -> Self:
        return self._apply(arithmetic.neg, (self,), _NONE)

    def __pos__(self) -> Self:
        return self

    def __abs__(self) -> Self:
        return self._apply(arithmetic.abs, (self,), _NONE)

    def __matmul__(self, other: Any) -> Self:
        return matmul.matmul(self, other)

    def __rmatmul__(self, other: Any) -> Self:
        return matmul.matmul(other, self)

    def __lt__(self, other: Any) -> Self:
        return self._apply(choice.less, (self, other), _NONE)

    def __le__(self, other: Any) -> Self:
        return self._apply(choice.less_equal, (self, other), _NONE)

    def __gt__(self, other: Any) -> Self:
        return self._apply(choice.greater, (self, other), _NONE)

    def __ge__(self, other: Any) -> Self:
        return self._apply(choice.greater_equal, (self, other), _NONE)

    def __eq__(self, other: Any) -> Self:  # type: ignore[override]
        return self._apply(choice.equal, (self, other), _NONE)

    def __ne__(self, other: Any) -> Self:  # type: ignore[override]
        return self._apply(choice.not_equal, (self, other), _NONE)

    __hash__ = object.__hash__  # == is elementwise; as a key, a tensor is itself

    def __and__(self, other: Any) -> Self:
        return self._apply(choice.bitwise_and, (self, other), _NONE)

    def __rand__(self, other: Any) -> Self:
        return self._apply(choice.bitwise_and, (other, self), _NONE)

    def __or__(self, other: Any) -> Self:
        return self._apply(choice.bitwise_or, (self, other), _NONE)

    def __ror__(self, other: Any) -> Self:
        return self._apply(choice.bitwise_or, (other, self), _NONE)

    def __xor__(self, other: Any) -> Self:
        return self._apply(choice.bitwise_xor, (self, other), _NONE)

    def __rxor__(self, other: Any) -> Self:
        return self._apply(choice.bitwise_xor, (other, self), _NONE)

    def __invert__(self) -> Self:
        return self._apply(choice.bitwise_not, (self,), _NONE)

    def __getitem__(self, key: Any) -> Self:
        return _index.take_item(self, key)

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
