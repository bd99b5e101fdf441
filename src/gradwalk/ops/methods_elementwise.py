"""The methods that work element by element, every one a line to its op."""

from __future__ import annotations

from typing import Any, Self

from gradwalk.ops import activation, arithmetic, choice
from gradwalk.ops import shape as _shape
from gradwalk.ops import trigonometry as trig

_NONE: dict[str, Any] = {}  # no attributes; shared, never written to


def raised(x: Any, exponent: Any) -> Any:
    """x ** exponent: the op with one input if the exponent is a number, else the one with two."""
    if isinstance(exponent, (int, float)):
        return arithmetic.power(_shape.promoted(x, exponent), exponent=exponent)
    return arithmetic.pow(x, exponent)


class ElementwiseMethods:
    """Methods of everything with `_apply` that work element by element."""

    __slots__ = ()
    shape: Any
    ndim: Any
    _apply: Any

    # -- elementwise, one operand --------------------------------------------------------------

    def abs(self) -> Self:
        """|x|."""
        return self._apply(arithmetic.abs, (self,), _NONE)

    def neg(self) -> Self:
        """−x."""
        return self._apply(arithmetic.neg, (self,), _NONE)

    def square(self) -> Self:
        """x²."""
        return self._apply(arithmetic.square, (self,), _NONE)

    def sqrt(self) -> Self:
        """√x."""
        return self._apply(arithmetic.sqrt, (self,), _NONE)

    def rsqrt(self) -> Self:
        """1/√x."""
        return self._apply(arithmetic.rsqrt, (self,), _NONE)

    def sign(self) -> Self:
        """−1, 0 or 1; its gradient is zero."""
        return self._apply(arithmetic.sign, (self,), _NONE)

    def floor(self) -> Self:
        """The integer below; its gradient is zero."""
        return self._apply(arithmetic.floor, (self,), _NONE)

    def exp(self) -> Self:
        """eˣ."""
        return self._apply(arithmetic.exp, (self,), _NONE)

    def expm1(self) -> Self:
        """eˣ − 1, exact near 0."""
        return self._apply(arithmetic.expm1, (self,), _NONE)

    def log(self) -> Self:
        """Natural logarithm."""
        return self._apply(arithmetic.log, (self,), _NONE)

    def log1p(self) -> Self:
        """Log(1 + x), exact near 0."""
        return self._apply(arithmetic.log1p, (self,), _NONE)

    def sin(self) -> Self:
        """Sine."""
        return self._apply(trig.sin, (self,), _NONE)

    def cos(self) -> Self:
        """Cosine."""
        return self._apply(trig.cos, (self,), _NONE)

    def tan(self) -> Self:
        """Tangent."""
        return self._apply(trig.tan, (self,), _NONE)

    def asin(self) -> Self:
        """Arc sine."""
        return self._apply(trig.asin, (self,), _NONE)

    def acos(self) -> Self:
        """Arc cosine."""
        return self._apply(trig.acos, (self,), _NONE)

    def atan(self) -> Self:
        """Arc tangent."""
        return self._apply(trig.atan, (self,), _NONE)

    def sinh(self) -> Self:
        """Hyperbolic sine."""
        return self._apply(trig.sinh, (self,), _NONE)

    def cosh(self) -> Self:
        """Hyperbolic cosine."""
        return self._apply(trig.cosh, (self,), _NONE)

    def tanh(self) -> Self:
        """Hyperbolic tangent."""
        return self._apply(trig.tanh, (self,), _NONE)

    def sigmoid(self) -> Self:
        """1 / (1 + e⁻ˣ)."""
        return self._apply(activation.sigmoid, (self,), _NONE)

    def relu(self) -> Self:
        """Max(x, 0)."""
        return self._apply(activation.relu, (self,), _NONE)

    def erf(self) -> Self:
        """The error function."""
        return self._apply(activation.erf, (self,), _NONE)

    def logical_not(self) -> Self:
        """True where x is zero."""
        return self._apply(choice.logical_not, (self,), _NONE)

    # -- elementwise, two operands -------------------------------------------------------------

    def add(self, other: Any, *, alpha: float = 1) -> Self:
        """self + alpha × other."""
        return self + (other if alpha == 1 else other * alpha)

    def sub(self, other: Any, *, alpha: float = 1) -> Self:
        """self − alpha × other."""
        return self - (other if alpha == 1 else other * alpha)

    def mul(self, other: Any) -> Self:
        """self × other."""
        return self._apply(arithmetic.mul, (self, other), _NONE)

    def div(self, other: Any) -> Self:
        """self / other."""
        return self._apply(arithmetic.div, (self, other), _NONE)

    def maximum(self, other: Any) -> Self:
        """The larger, element by element."""
        return self._apply(choice.maximum, (self, other), _NONE)

    def minimum(self, other: Any) -> Self:
        """The smaller, element by element."""
        return self._apply(choice.minimum, (self, other), _NONE)

    def eq(self, other: Any) -> Self:
        """self == other."""
        return self._apply(choice.equal, (self, other), _NONE)

    def ne(self, other: Any) -> Self:
        """self != other."""
        return self._apply(choice.not_equal, (self, other), _NONE)

    def lt(self, other: Any) -> Self:
        """self < other."""
        return self._apply(choice.less, (self, other), _NONE)

    def le(self, other: Any) -> Self:
        """self <= other."""
        return self._apply(choice.less_equal, (self, other), _NONE)

    def gt(self, other: Any) -> Self:
        """self > other."""
        return self._apply(choice.greater, (self, other), _NONE)

    def ge(self, other: Any) -> Self:
        """self >= other."""
        return self._apply(choice.greater_equal, (self, other), _NONE)

    def logical_and(self, other: Any) -> Self:
        """True where both are non-zero."""
        return self._apply(choice.logical_and, (self, other), _NONE)

    def logical_or(self, other: Any) -> Self:
        """True where one is non-zero."""
        return self._apply(choice.logical_or, (self, other), _NONE)

    def logical_xor(self, other: Any) -> Self:
        """True where exactly one is non-zero."""
        return self._apply(choice.logical_xor, (self, other), _NONE)

    def pow(self, exponent: Any) -> Self:
        """self to the power of `exponent`."""
        return raised(self, exponent)

    def where(self, condition: Any, other: Any) -> Self:
        """self where the condition holds, `other` elsewhere."""
        return choice.where(condition, self, other)

    def round(self, *, decimals: int = 0) -> Self:
        """Nearest integer, halves to even; its gradient is zero."""
        return arithmetic.round(self, decimals=decimals)

    def clip(self, min: float | None = None, max: float | None = None) -> Self:
        """Limit to [min, max]; the bounds themselves pass the gradient."""
        return choice.clip(self, min=min, max=max)

    clamp = clip
