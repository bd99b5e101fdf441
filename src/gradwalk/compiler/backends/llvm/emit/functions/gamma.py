"""lgamma, digamma and polygamma: log Γ and its slope, slope of the slope, and so on, in float64.

For y ≥ ½ the asymptotic series is taken at y + N, far enough out, and the recurrence leads back; to
the left the reflection at ½ leads there, with the derivatives of π cot πx:

    ψ⁽ⁿ⁾(y) = ψ⁽ⁿ⁾(y + N) − (−1)ⁿ n! Σ 1 / (y + k)ⁿ⁺¹     k = 0, ..., N − 1
    ψ⁽ⁿ⁾(x) = (−1)ⁿ ψ⁽ⁿ⁾(1 − x) − (π cot πx)⁽ⁿ⁾

digamma has a zero between 1 and 2; there it is a polynomial times the distance from it. float32
goes through float64. Left of 0 the error is small beside the two numbers subtracted.
"""

from __future__ import annotations

import math
from fractions import Fraction

from gradwalk.compiler.backends.llvm.emit.functions.arithmetic import products
from gradwalk.compiler.backends.llvm.emit.functions.building_blocks import (
    DOUBLE,
    all_lanes,
    in_parts,
    is_single,
    polynomial,
    through_double,
)
from gradwalk.compiler.backends.llvm.emit.functions.logarithm import log
from gradwalk.compiler.backends.llvm.emit.vector import Vector

MOST_ORDER = 60  # of polygamma; beyond, NumPy
STEPS = 10  # of the recurrence, and one more for each order
# Bernoulli's numbers B₂, B₄, ..., B₂₀
BERNOULLI = [
    Fraction(*pair)
    for pair in (
        (1, 6), (-1, 30), (1, 42), (-1, 30), (5, 66), (-691, 2730), (7, 6), (-3617, 510),
        (43867, 798), (-174611, 330),
    )
]  # fmt: skip
# digamma(1.5 + t) = (1.5 + t − ZERO) q(t) for |t| ≤ ½; a minimax fit
NEAR_ZERO = (
    -0.00017312261802727394, 0.00025968482126430747, -0.00015148586836773365, 0.0002272331660987376,
    -0.0004821990530566789, 0.0007233266279287554, -0.0010376374098418604, 0.0015566317474486838,
    -0.002345267632540769, 0.003519006401502276, -0.005279964873257405, 0.007926944646403797,
    -0.011908218001568644, 0.0179072524394512, -0.02697579675613825, 0.04076083381242074,
    -0.061922133273064534, 0.09498872445494122, -0.14840492305390884, 0.2405424842407742,
    -0.4236274212814605, 0.951055876031833,
)  # fmt: skip
ZERO = in_parts("1.46163214496836234126265954232572132846819", DOUBLE)
# sin πt = t q(t²) for 0 ≤ t ≤ ½
SINE = [(-1) ** k * math.pi ** (2 * k + 1) / math.factorial(2 * k + 1) for k in range(12)][::-1]


def lgamma(x: Vector) -> Vector:
    """log |Γ(x)|, the C library's; float32 through float64."""
    return all_lanes("lgamma", x.to(DOUBLE)).to(x.type.dtype)


def digamma(x: Vector) -> Vector:
    """The derivative of log |Γ(x)|; at 0 infinite, at −1, −2, ... NaN."""
    if is_single(x):
        return through_double(digamma, x)
    y = _reflected(x)
    z = y + float(STEPS)
    series = [float(b / k) for k, b in zip(range(2, 22, 2), BERNOULLI, strict=True)][::-1]
    square = 1.0 / (z * z)
    right = log(z) - 0.5 / z - square * polynomial(square, series)
    for k in reversed(range(STEPS)):
        right = right - 1.0 / (y + float(k))
    low = y < 1.0
    shifted = low.choose(y + 1.0, y)
    near = (shifted - ZERO[0] - ZERO[1]) * polynomial(shifted - 1.5, NEAR_ZERO)
    near = low.choose(near - 1.0 / y, near)
    right = (y < 2.0).choose(near, right)
    left = right - _cotangent(x) * math.pi
    out = (x < 0.5).choose(left, right)
    pole = (x < 0.0) & x.compare("eq", x.intrinsic("floor"))
    out = pole.choose(x.constant(math.nan), out)
    return x.compare("eq", 0.0).choose(x.constant(math.inf).with_sign_of(-x), out)


def polygamma(x: Vector, n: int) -> Vector:
    """The derivative of order n of digamma; infinite at 0, −1, −2, ..."""
    if is_single(x):
        return through_double(lambda x: polygamma(x, n), x)
    if n == 0:
        return digamma(x)
    y = _reflected(x)
    right = _far_out(y + float(STEPS + n), n)
    for k in range(STEPS + n):
        right = right + float(math.factorial(n)) / products(y + float(k), n + 1)
    sign = (-1.0) ** (n + 1)
    slope = polynomial(_cotangent(x), [math.pi ** (n + 1) * c for c in _slope_of_cotangent(n)])
    left = right * ((-1.0) ** n * sign) - slope
    left = x.compare("eq", x.intrinsic("floor")).choose(x.constant(sign * math.inf), left)
    return (x < 0.5).choose(left, right * sign)


def _reflected(x: Vector) -> Vector:
    return (x < 0.5).choose(1.0 - x, x)


def _far_out(z: Vector, n: int) -> Vector:
    """The asymptotic series of ψ⁽ⁿ⁾ without its sign."""
    series = [float(math.factorial(n - 1)), math.factorial(n) / 2]  # of 1/zⁿ, 1/zⁿ⁺¹; then even
    even = [
        float(b * math.factorial(k + n - 1) / math.factorial(k))
        for k, b in zip(range(2, 22, 2), BERNOULLI, strict=True)
    ]
    once = 1.0 / z
    square = once * once
    tail = square.fused(polynomial(square, even[::-1]), once * series[1] + series[0])
    return products(once, n) * tail


def _cotangent(x: Vector) -> Vector:
    """cot πx: the sine, of the angle from the nearest integer, and of that to the quarter."""
    apart = x - x.intrinsic("rint")
    size = apart.absolute()

    def sine(t: Vector) -> Vector:
        return t * polynomial(t * t, SINE)

    return (sine(0.5 - size) / sine(size)).with_sign_of(apart)


def _slope_of_cotangent(n: int) -> list[float]:
    """The derivative of order n of cot as a polynomial in cot, the highest power first."""
    powers = [0, 1]  # of cot itself, the lowest first; and cot′ = −(1 + cot²)
    for _ in range(n):
        slope = [k * c for k, c in enumerate(powers)][1:]
        powers = [-(a + b) for a, b in zip([*slope, 0, 0], [0, 0, *slope], strict=True)]
    return [float(c) for c in reversed(powers)]
