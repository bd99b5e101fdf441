"""erf, erfc, erfinv and Φ, the normal distribution function.

The coefficients of the first two and of Φ are minimax fits; in float64 they are the C library's.
"""

from __future__ import annotations

import math

from gradwalk.compiler.backends.llvm.emit.functions.building_blocks import (
    DOUBLE,
    all_lanes,
    c_library_in_double,
    format_of,
    in_parts,
    is_single,
    polynomial,
    power_of_two,
    through_double,
)
from gradwalk.compiler.backends.llvm.emit.functions.exponential import (
    CONSTANTS,
    exp,
    near_zero_less_one,
    reduced,
)
from gradwalk.compiler.backends.llvm.emit.functions.logarithm import log
from gradwalk.compiler.backends.llvm.emit.vector import Vector

# erf x = x + x q(x²) for 0 ≤ x < 0.9
NEAR = (
    -0.0006047117640264332, 0.005003420170396566, -0.026773033663630486, 0.11281976103782654,
    -0.3761250674724579, 0.12837915122509003,
)  # fmt: skip
# erf x = 1 − 2^q(x) for 0.9 ≤ x ≤ 4, where it rounds to 1
FAR = (
    -0.001819833181798458, 0.022582141682505608, -0.13175159692764282, -0.9384056329727173,
    -1.6163928508758545, -0.0026288547087460756,
)  # fmt: skip
# 2ᶠ for |f| ≤ ½; an error of 7e-8 is enough, since 2^q(x) < 0.21
POWER = (
    0.001341584837064147, 0.009680688381195068, 0.055502768605947495, 0.240219846367836,
    0.6931472420692444, 1.0000001192092896,
)  # fmt: skip
# erfc x = e^(−x²) t q(t) with t = 1 / (1 + x/2), in float64 with an error of 2e-10
TAIL = (
    -0.00995666034482553, 0.03851513654348787, 0.01379782926410728, -0.3342017266192263,
    0.7792313567017506, -0.8104990894973827, 0.39661810171927775, -0.18625790035536718,
    0.1336420509077442, 0.16705439240743747, 0.24794189609743725, 0.2820174409391525,
    0.2820971720881064,
)  # fmt: skip
# Φ(x) = ½ + x q(x²) for |x| < 0.8
NORMAL_NEAR = (
    9.86366649158299e-05, -0.0011757176835089922, 0.009969939477741718, -0.06648990511894226,
    0.3989422619342804,
)  # fmt: skip
# Φ(−x) = e^(−x²/2) t q(t) with t = 1 / (1 + 0.75 x) for x ≥ 0.8
NORMAL_TAIL = (
    -1.3575612306594849, 4.4220428466796875, -5.609501361846924, 2.9740962982177734,
    0.055144451558589935, -0.5461969971656799, -0.17447327077388763, 0.12703949213027954,
    0.2994469404220581, 0.29920071363449097,
)  # fmt: skip
ROOT_HALF = in_parts("0.707106781186547524400844362104849039", DOUBLE)


@c_library_in_double("erf")
def erf(x: Vector) -> Vector:
    """The error function; 28 instructions in float32."""
    size = x.absolute().at_most(4.0)
    near = size.fused(polynomial(size * size, NEAR), size)
    exponent = polynomial(size, FAR)
    base = format_of(x).to_integer + format_of(x).bias
    shifted = exponent + base
    rest = exponent - (shifted - base)
    far = (-polynomial(rest, POWER)).fused(power_of_two(shifted), 1.0)
    return (size < 0.9).choose(near, far).with_sign_of(x)


@c_library_in_double("erfc")
def erfc(x: Vector) -> Vector:
    """1 − erf x, exact also where that is nearly 0."""

    def in_double(x: Vector) -> Vector:
        size = x.absolute().at_most(10.5)  # where the float32 is 0
        t = 1.0 / size.fused(0.5, 1.0)
        tail = exp(-(size * size)) * t * polynomial(t, TAIL)
        return (x < 0.0).choose(2.0 - tail, tail)

    return through_double(in_double, x)


def ndtr(x: Vector) -> Vector:
    """Φ(x); 44 instructions in float32."""
    if not is_single(x):
        return _ndtr_double(x)
    size = x.absolute().at_most(14.5)  # where Φ(−x) is 0
    square = size * size
    lost = size.fused(size, -square)  # what rounding took from the square
    room = CONSTANTS[x.type.dtype].room  # so that the power is normal where the tail is not
    shifted, r = reduced(square * -0.5, format_of(x).bias + room)
    t = 1.0 / size.fused(0.75, 1.0)
    factor = polynomial(t, NORMAL_TAIL) * t
    bell_less_one = near_zero_less_one(lost.fused(-0.5, r))
    tail = factor.fused(bell_less_one, factor) * power_of_two(shifted) * 2.0**-room
    far = (x > 0.0).choose(1.0 - tail, tail)
    near = x.fused(polynomial(square, NORMAL_NEAR), 0.5)
    return (size < 0.8).choose(near, far)


def _ndtr_double(x: Vector) -> Vector:
    """½ erfc(−x / √2), corrected for what rounding took from the quotient.

    Far out erfc multiplies the relative error of its argument by hundreds.
    """
    x = x.at_least(-40.0).at_most(40.0)  # where Φ is 0 and 1
    high, low = ROOT_HALF
    z = x * -high
    lost = x.fused(-low, x.fused(-high, -z))
    slope = exp(-(z * z)) * (2 / math.sqrt(math.pi))
    return 0.5 * lost.fused(-slope, all_lanes("erfc", z))


# -- the inverse -----------------------------------------------------------------------------------
# From the inverse of Φ: Wichura's rational functions (Algorithm AS 241, Applied Statistics 37,
# 1988), good to 1 part in 10¹⁶.

# |x| ≤ 0.85, of 0.180625 − x²/4
INVERSE_CENTRE = (
    2509.0809287301227, 33430.57558358813, 67265.7709270087, 45921.95393154987, 13731.69376550946,
    1971.5909503065513, 133.14166789178438, 3.3871328727963665,
)  # fmt: skip
INVERSE_CENTRE_BELOW = (
    5226.495278852854, 28729.085735721943, 39307.89580009271, 21213.794301586597, 5394.196021424751,
    687.1870074920579, 42.31333070160091, 1.0,
)  # fmt: skip
# of r − 1.6, where r = √(−log((1 − |x|) / 2)) ≤ 5
INVERSE_MIDDLE = (
    0.0007745450142783414, 0.022723844989269184, 0.2417807251774506, 1.2704582524523684,
    3.6478483247632045, 5.769497221460691, 4.630337846156546, 1.4234371107496835,
)  # fmt: skip
INVERSE_MIDDLE_BELOW = (
    1.0507500716444169e-09, 0.0005475938084995345, 0.015198666563616457, 0.14810397642748008,
    0.6897673349851, 1.6763848301838038, 2.053191626637759, 1.0,
)  # fmt: skip
# of r − 5 beyond
INVERSE_TAIL = (
    2.0103343992922881e-07, 2.7115555687434876e-05, 0.0012426609473880784, 0.026532189526576124,
    0.29656057182850487, 1.7848265399172913, 5.463784911164114, 6.657904643501103,
)  # fmt: skip
INVERSE_TAIL_BELOW = (
    2.0442631033899397e-15, 1.421511758316446e-07, 1.8463183175100548e-05, 0.0007868691311456133,
    0.014875361290850615, 0.1369298809227358, 0.599832206555888, 1.0,
)  # fmt: skip


def erfinv(x: Vector) -> Vector:
    """The number whose erf is x; float32 through float64."""
    if is_single(x):
        return through_double(erfinv, x)
    half = x * 0.5
    r = 0.180625 - half * half
    near = half * (polynomial(r, INVERSE_CENTRE) / polynomial(r, INVERSE_CENTRE_BELOW))
    size = x.absolute()
    r = (-log((1.0 - size) * 0.5)).intrinsic("sqrt")
    middle = polynomial(r - 1.6, INVERSE_MIDDLE) / polynomial(r - 1.6, INVERSE_MIDDLE_BELOW)
    tail = polynomial(r - 5.0, INVERSE_TAIL) / polynomial(r - 5.0, INVERSE_TAIL_BELOW)
    far = (r <= 5.0).choose(middle, tail)
    far = size.compare("eq", 1.0).choose(x.constant(math.inf), far)
    return (size <= 0.85).choose(near, far.with_sign_of(x)) * math.sqrt(0.5)
