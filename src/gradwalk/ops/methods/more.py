"""Methods that are the function of the same name, or another method under its second name."""

from __future__ import annotations

from typing import Any

from gradwalk.ops.elementwise import choice, comparison
from gradwalk.ops.methods.elementwise import ElementwiseMethods as _E
from gradwalk.ops.methods.shape import ShapeMethods as _S
from gradwalk.ops.reduce import statistics
from gradwalk.ops.shape import joining


class MoreMethods:
    """Methods of everything with `_apply`, written once as a function or under another name."""

    __slots__ = ()

    # -- functions with the tensor as their first argument -----------------------------------------

    addr = joining.addr
    allclose = comparison.allclose
    aminmax = statistics.aminmax
    bincount = statistics.bincount
    corrcoef = statistics.corrcoef
    cov = statistics.cov
    cross = joining.cross
    diagflat = joining.diagflat
    diff = statistics.diff
    dist = statistics.dist
    dsplit = joining.dsplit
    equal = comparison.equal
    fmax = comparison.fmax
    fmin = comparison.fmin
    histc = statistics.histc
    hsplit = joining.hsplit
    is_complex = comparison.is_complex
    is_nonzero = comparison.is_nonzero
    is_same_size = comparison.is_same_size
    isclose = comparison.isclose
    isneginf = comparison.isneginf
    isposinf = comparison.isposinf
    isreal = comparison.isreal
    msort = statistics.msort
    quantile = statistics.quantile
    signbit = comparison.signbit
    vsplit = joining.vsplit

    # -- second names ------------------------------------------------------------------------------

    absolute, negative, fix = _E.abs, _E.neg, _E.trunc
    subtract, multiply, divide = _E.sub, _E.mul, _E.div
    arcsin, arccos, arctan, arctan2 = _E.asin, _E.acos, _E.atan, _E.atan2
    arcsinh, arccosh, arctanh = _E.asinh, _E.acosh, _E.atanh
    less, less_equal, greater, greater_equal = _E.lt, _E.le, _E.gt, _E.ge
    not_equal = _E.ne
    ger = _S.outer

    # -- operators with a name ---------------------------------------------------------------------

    def positive(self) -> Any:
        """Itself."""
        return self

    def bitwise_and(self, other: Any) -> Any:
        """self & other."""
        return choice.bitwise_and(self, other)

    def bitwise_or(self, other: Any) -> Any:
        """self | other."""
        return choice.bitwise_or(self, other)

    def bitwise_xor(self, other: Any) -> Any:
        """self ^ other."""
        return choice.bitwise_xor(self, other)

    def bitwise_not(self) -> Any:
        """~self."""
        return choice.bitwise_not(self)
