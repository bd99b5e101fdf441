"""Symbol: an abstract tensor with a name, a real shape, and the expression that made it.

Running a rule on symbols gives its formula. Printers turn the expression into text.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gradwalk.ops.core.dtypes import float64, get_default_dtype, has_gradients, result_dtype
from gradwalk.ops.core.op import Op, OpError, Shape
from gradwalk.ops.core.operators import Operators


class BranchError(OpError):
    """A rule branches on its operands: it tested whether a symbol is true."""


class Symbol(Operators):
    """A named abstract tensor, or an op applied to symbols.

    >>> from gradwalk.ops.core.symbol import Symbol
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
        from gradwalk.printers.formulas.formula import formula

        return formula(self)

    @staticmethod
    def _apply(op: Op, args: tuple[Any, ...], attrs: dict[str, Any]) -> Any:
        shapes = output_shapes(op, args, attrs)
        dtypes = output_dtypes(op, args, attrs, len(shapes))
        results = tuple(
            Symbol(op.name, shape, dtype, op, args, attrs, i)
            for i, (shape, dtype) in enumerate(zip(shapes, dtypes, strict=True))
        )
        return results if op.multiple else results[0]


def output_shapes(op: Op, args: tuple[Any, ...], attrs: dict[str, Any]) -> tuple[Shape, ...]:
    """Apply the shape rule: output shapes from input shapes, without computing anything."""
    shapes = [tuple(a.shape) if hasattr(a, "shape") else () for a in args]
    if op.elementwise:
        if len(set(shapes)) == 1:
            return (shapes[0],)
        return (tuple(np.broadcast_shapes(*shapes)),)
    if op.shape is None:  # an op defined without one: ask its forward
        result = op.forward(*(np.zeros(s) for s in shapes), **attrs)
        if op.multiple:
            return tuple(np.shape(r) for r in result)
        return (np.shape(result[0] if op.residuals else result),)
    shape = op.shape(*shapes, **attrs)
    return tuple(shape) if op.multiple else (tuple(shape),)


def output_dtypes(
    op: Op, args: tuple[Any, ...], attrs: dict[str, Any], count: int
) -> tuple[np.dtype[Any], ...]:
    """The dtype rule, for `count` outputs."""
    if "dtype" in attrs:
        return (np.dtype(attrs["dtype"]),) * count
    if op.promotes:
        positions = range(len(args)) if op.promotes is True else op.promotes
        dtype = result_dtype(args[i] for i in positions)
    else:
        dtype = result_dtype(args[:1])
    if op.to_float and not has_gradients(dtype):
        dtype = get_default_dtype()
    gives = op.gives if isinstance(op.gives, tuple) else (op.gives,) * count
    return tuple(dtype if g is None else g(dtype) if callable(g) else g for g in gives)
