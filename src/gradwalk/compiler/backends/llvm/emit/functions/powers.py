"""Powers, hypot and lgamma."""

from __future__ import annotations

import math

from gradwalk.compiler.backends.llvm.emit.functions.exponential import exp
from gradwalk.compiler.backends.llvm.emit.functions.logarithm import log
from gradwalk.compiler.backends.llvm.emit.functions.pieces import (
    DOUBLE,
    all_lanes,
    is_single,
    through_double,
)
from gradwalk.compiler.backends.llvm.emit.vector_values import Value

MOST_PRODUCTS = 64  # largest whole exponent that is taken as products


def pow(x: Value, y: Value) -> Value:
    """xʸ with C's rules for zeros, infinities and negative x; float32 through float64."""
    if not is_single(x):
        return all_lanes("pow", x, y)
    size = x.absolute()
    out = through_double(lambda x, y: exp(log(x) * y), size, y)
    # log 1 × inf is NaN, and so is log 0 × 0; y = NaN is left alone here.
    one = x.constant(1.0)
    out = (size.compare("eq", 1.0) & y.compare("eq", y)).choose(one, out)
    out = (x.compare("eq", 1.0) | y.compare("eq", 0.0)).choose(one, out)
    whole = y.compare("eq", y.intrinsic("rint"))
    half = y * 0.5
    odd = whole & half.compare("ne", half.intrinsic("rint"))
    out = odd.choose(out.with_sign_of(x), out)
    undefined = (x < 0.0) & (x > -math.inf) & ~whole
    return undefined.choose(x.constant(math.nan), out)


def products(x: Value, exponent: int) -> Value:
    """xⁿ for n ≥ 0 by repeated squaring, rounded after each product."""
    out: Value | None = None
    square = x
    while exponent:
        if exponent & 1:
            out = square if out is None else out * square
        exponent >>= 1
        if exponent:
            square = square * square
    return x.constant(1) if out is None else out


def power(x: Value, exponent: float) -> Value:
    """xⁿ for a constant n.

    In float32 a whole n means products in float64, rounded once at the end; in float64 itself
    many products would lose digits.
    """
    most = MOST_PRODUCTS if is_single(x) else 4
    if not math.isfinite(exponent) or exponent != int(exponent) or abs(exponent) > most:
        return pow(x, x.constant(exponent))
    whole = int(exponent)
    if whole in (-1, 0, 1, 2):
        return 1.0 / x if whole == -1 else products(x, whole)
    if not is_single(x):
        return products(x, whole) if whole > 0 else pow(x, x.constant(exponent))
    if whole < 0:
        return through_double(lambda x: 1.0 / products(x, -whole), x)
    return through_double(lambda x: products(x, whole), x)


def hypot(x: Value, y: Value) -> Value:
    """√(x² + y²), without overflow in between."""
    if not is_single(x):
        return all_lanes("hypot", x, y)
    out = through_double(lambda x, y: (x * x + y * y).intrinsic("sqrt"), x, y)
    infinite = x.absolute().compare("eq", math.inf) | y.absolute().compare("eq", math.inf)
    return infinite.choose(x.constant(math.inf), out)  # also beside a NaN


def lgamma(x: Value) -> Value:
    """log |Γ(x)|, the C library's; float32 through float64."""
    return all_lanes("lgamma", x.to(DOUBLE)).to(x.kind.dtype)
