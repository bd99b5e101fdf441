"""Symbol: an abstract tensor with a name, a real shape, and the expression that made it.

Running a rule on symbols gives its formula. Printers turn the expression into text.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gradwalk.ops.dtypes import bool_, category, float64, promote_types
from gradwalk.ops.op import Op, OpError, Shape
from gradwalk.ops.operators import Operators

_BOOLEAN = {
    "equal", "not_equal", "less", "less_equal", "greater", "greater_equal", "logical_and",
    "logical_or", "logical_xor", "logical_not", "all", "any",
}  # fmt: skip


class BranchError(OpError):
    """A rule asked whether a symbol is true: it branches on its operands."""


class Symbol(Operators):
    """A named abstract tensor, or an op applied to such.

    >>> from gradwalk.ops.symbol import Symbol
    >>> x = Symbol("x", (2, 3))
    >>> (x @ x.mT).shape
    (2, 2)
    """

    __slots__ = ("args", "attrs", "dtype", "index", "name", "op", "shape")
    __array_ufunc__ = None  # np.sqrt(symbol) is refused: rules use our ops

    def __init__(
        self,
        name: str,
        shape: Shape = (),
        dtype: np.dtype[Any] = float64,
        op: Op | None = None,
        args: tuple[Any, ...] = (),
        attrs: dict[str, Any] | None = None,
        index: int = 0,
    ) -> None:
        self.name = name
        self.shape = shape
        self.dtype = dtype
        self.op = op
        self.args = args
        self.attrs = attrs or {}
        self.index = index  # which output of a multi-output op

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return len(self.shape)

    def __bool__(self) -> bool:
        raise BranchError(
            "a rule may not branch on its operands (`if x > 0`, `x and y`, `max(x, y)`): the same "
            "rule must also work on arrays and as a formula. Use gradwalk.where(condition, a, b)."
        )

    def __repr__(self) -> str:
        from gradwalk.printers.formula import formula

        return formula(self)

    def __getitem__(self, index: Any) -> Any:
        from gradwalk.ops.index import take_item

        return take_item(self, index)

    @staticmethod
    def _apply(op: Op, args: tuple[Any, ...], attrs: dict[str, Any]) -> Any:
        shapes = output_shapes(op, args, attrs)
        dtype = _output_dtype(op, args, attrs)
        results = tuple(
            Symbol(op.name, shape, dtype, op, args, attrs, i) for i, shape in enumerate(shapes)
        )
        return results if op.multiple else results[0]


def output_shapes(op: Op, args: tuple[Any, ...], attrs: dict[str, Any]) -> tuple[Shape, ...]:
    """The shape rule: what comes out, from the shapes of what goes in, without computing it."""
    shapes = [tuple(a.shape) if hasattr(a, "shape") else () for a in args]
    if op.elementwise:
        return (tuple(np.broadcast_shapes(*shapes)),)
    if op.shape is None:  # an op defined without one: ask its forward
        result = op.forward(*(np.zeros(s) for s in shapes), **attrs)
        if op.multiple:
            return tuple(np.shape(r) for r in result)
        return (np.shape(result[0] if op.residuals else result),)
    found = op.shape(*shapes, **attrs)
    return tuple(found) if op.multiple else (tuple(found),)


def _output_dtype(op: Op, args: tuple[Any, ...], attrs: dict[str, Any]) -> np.dtype[Any]:
    if op.name in _BOOLEAN:
        return bool_
    if "dtype" in attrs:
        return np.dtype(attrs["dtype"])
    dtypes = [a.dtype for a in args if hasattr(a, "dtype")]
    if op.name == "where":
        dtypes = dtypes[1:] or [float64]
    result = dtypes[0] if dtypes else float64
    for dtype in dtypes[1:] if op.elementwise else ():
        result = promote_types(result, dtype)
    if op.to_float and category(result) < 2:
        return float64
    return result
