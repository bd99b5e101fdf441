"""The inverse of erf, from that of the normal distribution function: Wichura's rational functions
(Algorithm AS 241, Applied Statistics 37, 1988), good to 1 part in 10¹⁶.
"""

from __future__ import annotations

import math

from gradwalk.compiler.backends.llvm.emit.functions.building_blocks import (
    is_single,
    polynomial,
    through_double,
)
from gradwalk.compiler.backends.llvm.emit.functions.logarithm import log
from gradwalk.compiler.backends.llvm.emit.vector import Vector

# |x| ≤ 0.85, of 0.180625 − x²/4
CENTRE = (
    2509.0809287301227, 33430.57558358813, 67265.7709270087, 45921.95393154987, 13731.69376550946,
    1971.5909503065513, 133.14166789178438, 3.3871328727963665,
)  # fmt: skip
CENTRE_BELOW = (
    5226.495278852854, 28729.085735721943, 39307.89580009271, 21213.794301586597, 5394.196021424751,
    687.1870074920579, 42.31333070160091, 1.0,
)  # fmt: skip
# of r − 1.6, where r = √(−log((1 − |x|) / 2)) ≤ 5
MIDDLE = (
    0.0007745450142783414, 0.022723844989269184, 0.2417807251774506, 1.2704582524523684,
    3.6478483247632045, 5.769497221460691, 4.630337846156546, 1.4234371107496835,
)  # fmt: skip
MIDDLE_BELOW = (
    1.0507500716444169e-09, 0.0005475938084995345, 0.015198666563616457, 0.14810397642748008,
    0.6897673349851, 1.6763848301838038, 2.053191626637759, 1.0,
)  # fmt: skip
# of r − 5 beyond
TAIL = (
    2.0103343992922881e-07, 2.7115555687434876e-05, 0.0012426609473880784, 0.026532189526576124,
    0.29656057182850487, 1.7848265399172913, 5.463784911164114, 6.657904643501103,
)  # fmt: skip
TAIL_BELOW = (
    2.0442631033899397e-15, 1.421511758316446e-07, 1.8463183175100548e-05, 0.0007868691311456133,
    0.014875361290850615, 0.1369298809227358, 0.599832206555888, 1.0,
)  # fmt: skip


def erfinv(x: Vector) -> Vector:
    """The number whose erf is x; float32 through float64."""
    if is_single(x):
        return through_double(erfinv, x)
    half = x * 0.5
    r = 0.180625 - half * half
    near = half * (polynomial(r, CENTRE) / polynomial(r, CENTRE_BELOW))
    size = x.absolute()
    r = (-log((1.0 - size) * 0.5)).intrinsic("sqrt")
    middle = polynomial(r - 1.6, MIDDLE) / polynomial(r - 1.6, MIDDLE_BELOW)
    tail = polynomial(r - 5.0, TAIL) / polynomial(r - 5.0, TAIL_BELOW)
    far = (r <= 5.0).choose(middle, tail)
    far = size.compare("eq", 1.0).choose(x.constant(math.inf), far)
    return (size <= 0.85).choose(near, far.with_sign_of(x)) * math.sqrt(0.5)
