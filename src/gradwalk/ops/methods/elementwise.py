"""The methods that work element by element, every one a line to its op."""

from __future__ import annotations

from typing import Any, Self

from gradwalk.ops.elementwise import activation, arithmetic, choice, remainders, special
from gradwalk.ops.elementwise import trigonometry as trig
from gradwalk.ops.shape import reshaping as _shape

_NONE: dict[str, Any] = {}  # no attributes; shared, never written to


def raised(input: Any, exponent: Any) -> Any:
    """x ** exponent: the op with one input if the exponent is a number, else the one with two."""
    if isinstance(exponent, (int, float)):
        return arithmetic.power(_shape.promoted(input, exponent), exponent=exponent)
    return arithmetic.pow(input, exponent)


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

    def reciprocal(self) -> Self:
        """1/x."""
        return self._apply(arithmetic.reciprocal, (self,), _NONE)

    def exp2(self) -> Self:
        """2ˣ."""
        return self._apply(arithmetic.exp2, (self,), _NONE)

    def log2(self) -> Self:
        """Logarithm to base 2."""
        return self._apply(arithmetic.log2, (self,), _NONE)

    def log10(self) -> Self:
        """Logarithm to base 10."""
        return self._apply(arithmetic.log10, (self,), _NONE)

    def sgn(self) -> Self:
        """−1, 0 or 1; its gradient is zero."""
        return self._apply(arithmetic.sgn, (self,), _NONE)

    def trunc(self) -> Self:
        """The integer towards zero; its gradient is zero."""
        return self._apply(arithmetic.trunc, (self,), _NONE)

    def ceil(self) -> Self:
        """The integer above; its gradient is zero."""
        return self._apply(arithmetic.ceil, (self,), _NONE)

    def frac(self) -> Self:
        """What is left of x after `trunc`."""
        return self._apply(arithmetic.frac, (self,), _NONE)

    def asinh(self) -> Self:
        """Inverse hyperbolic sine."""
        return self._apply(trig.asinh, (self,), _NONE)

    def acosh(self) -> Self:
        """Inverse hyperbolic cosine."""
        return self._apply(trig.acosh, (self,), _NONE)

    def atanh(self) -> Self:
        """Inverse hyperbolic tangent."""
        return self._apply(trig.atanh, (self,), _NONE)

    def sinc(self) -> Self:
        """Sin(πx) / πx."""
        return self._apply(trig.sinc, (self,), _NONE)

    def deg2rad(self) -> Self:
        """Degrees as radians."""
        return self._apply(trig.deg2rad, (self,), _NONE)

    def rad2deg(self) -> Self:
        """Radians as degrees."""
        return self._apply(trig.rad2deg, (self,), _NONE)

    def erfc(self) -> Self:
        """1 − erf(x)."""
        return self._apply(special.erfc, (self,), _NONE)

    def erfinv(self) -> Self:
        """The inverse of erf."""
        return self._apply(special.erfinv, (self,), _NONE)

    def lgamma(self) -> Self:
        """Log |Γ(x)|."""
        return self._apply(special.lgamma, (self,), _NONE)

    def digamma(self) -> Self:
        """The derivative of lgamma."""
        return self._apply(special.digamma, (self,), _NONE)

    def isnan(self) -> Self:
        """True where x is NaN."""
        return self._apply(remainders.isnan, (self,), _NONE)

    def isinf(self) -> Self:
        """True where x is infinite."""
        return self._apply(remainders.isinf, (self,), _NONE)

    def isfinite(self) -> Self:
        """True where x is neither infinite nor NaN."""
        return self._apply(remainders.isfinite, (self,), _NONE)

    def logical_not(self) -> Self:
        """True where x is zero."""
        return self._apply(choice.logical_not, (self,), _NONE)

    # -- elementwise, two operands -------------------------------------------------------------

    def add(self, other: Any, *, alpha: float = 1) -> Self:
        """self + alpha × other."""
        return self + other if alpha == 1 else arithmetic.add(self, other, alpha=alpha)

    def sub(self, other: Any, *, alpha: float = 1) -> Self:
        """self − alpha × other."""
        return self - other if alpha == 1 else arithmetic.sub(self, other, alpha=alpha)

    def mul(self, other: Any) -> Self:
        """self × other."""
        return self._apply(arithmetic.mul, (self, other), _NONE)

    def div(self, other: Any, *, rounding_mode: str | None = None) -> Self:
        """self / other, rounded with mode "trunc" or "floor"."""
        return arithmetic.div(self, other, rounding_mode=rounding_mode)

    def atan2(self, other: Any) -> Self:
        """The angle of the point (other, self)."""
        return self._apply(trig.atan2, (self, other), _NONE)

    def hypot(self, other: Any) -> Self:
        """√(self² + other²)."""
        return self._apply(trig.hypot, (self, other), _NONE)

    def true_divide(self, other: Any) -> Self:
        """self / other."""
        return self._apply(arithmetic.true_divide, (self, other), _NONE)

    def logaddexp(self, other: Any) -> Self:
        """Log(eˣ + eʸ)."""
        return self._apply(special.logaddexp, (self, other), _NONE)

    def logaddexp2(self, other: Any) -> Self:
        """Log₂(2ˣ + 2ʸ)."""
        return self._apply(special.logaddexp2, (self, other), _NONE)

    def xlogy(self, other: Any) -> Self:
        """self × log(other), 0 where self is 0."""
        return self._apply(special.xlogy, (self, other), _NONE)

    def fmod(self, other: Any) -> Self:
        """The remainder with the sign of self."""
        return self._apply(remainders.fmod, (self, other), _NONE)

    def remainder(self, other: Any) -> Self:
        """The remainder with the sign of other."""
        return self._apply(remainders.remainder, (self, other), _NONE)

    def floor_divide(self, other: Any) -> Self:
        """self / other rounded down; no gradient."""
        return self._apply(remainders.floor_divide, (self, other), _NONE)

    def copysign(self, other: Any) -> Self:
        """|self| with the sign of other."""
        return self._apply(remainders.copysign, (self, other), _NONE)

    def heaviside(self, values: Any) -> Self:
        """0 below zero, 1 above, `values` at zero; no gradient."""
        return self._apply(remainders.heaviside, (self, values), _NONE)

    def lerp(self, end: Any, weight: Any) -> Self:
        """self + weight × (end − self)."""
        return self._apply(remainders.lerp, (self, end, weight), _NONE)

    def addcmul(self, tensor1: Any, tensor2: Any, *, value: float = 1) -> Self:
        """self + value × tensor1 × tensor2."""
        return remainders.addcmul(self, tensor1, tensor2, value=value)

    def addcdiv(self, tensor1: Any, tensor2: Any, *, value: float = 1) -> Self:
        """self + value × tensor1 / tensor2."""
        return remainders.addcdiv(self, tensor1, tensor2, value=value)

    def float_power(self, exponent: Any) -> Self:
        """self to the power of `exponent`, in float64."""
        return remainders.float_power(self, exponent)

    def logit(self, eps: float | None = None) -> Self:
        """Log(x / (1 − x)), the inverse of sigmoid."""
        return special.logit(self, eps=eps)

    def polygamma(self, n: int) -> Self:
        """The derivative of order n of digamma."""
        return special.polygamma(n, self)

    def nan_to_num(
        self, nan: float | None = None, posinf: float | None = None, neginf: float | None = None
    ) -> Self:
        """Numbers in place of NaN (0) and of the infinities (the largest numbers)."""
        return remainders.nan_to_num(self, nan=nan, posinf=posinf, neginf=neginf)

    def clamp_min(self, min: Any) -> Self:
        """Limit from below."""
        return self._apply(choice.clamp_min, (self, min), _NONE)

    def clamp_max(self, max: Any) -> Self:
        """Limit from above."""
        return self._apply(choice.clamp_max, (self, max), _NONE)

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

    def clip(self, min: Any = None, max: Any = None) -> Self:
        """Limit to [min, max], numbers or tensors; the bounds themselves pass the gradient."""
        return choice.clip(self, min=min, max=max)

    clamp = clip
