"""Methods that are the function of the same name, or another method under its second name."""

from __future__ import annotations

from typing import Any

from gradwalk.ops import arranging, choice, comparing, statistics
from gradwalk.ops.methods_elementwise import ElementwiseMethods as _E
from gradwalk.ops.methods_shape import ShapeMethods as _S


class MoreMethods:
    """Methods of everything with `_apply`, written once as a function or under another name."""

    __slots__ = ()

    # -- functions with the tensor as their first argument -----------------------------------------

    addr = arranging.addr
    allclose = comparing.allclose
    aminmax = statistics.aminmax
    bincount = statistics.bincount
    corrcoef = statistics.corrcoef
    cov = statistics.cov
    cross = arranging.cross
    diagflat = arranging.diagflat
    diff = statistics.diff
    dist = statistics.dist
    dsplit = arranging.dsplit
    equal = comparing.equal
    fmax = comparing.fmax
    fmin = comparing.fmin
    histc = statistics.histc
    hsplit = arranging.hsplit
    is_complex = comparing.is_complex
    is_nonzero = comparing.is_nonzero
    is_same_size = comparing.is_same_size
    isclose = comparing.isclose
    isneginf = comparing.isneginf
    isposinf = comparing.isposinf
    isreal = comparing.isreal
    msort = statistics.msort
    quantile = statistics.quantile
    signbit = comparing.signbit
    vsplit = arranging.vsplit

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
