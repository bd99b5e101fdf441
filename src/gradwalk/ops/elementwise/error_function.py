"""erf, erfc, Φ and gelu on whole arrays: approximations in NumPy.

In float64, below |x| = 1, erf is x times a rational function of x²; beyond, it is 1 − erfc, and
erfc is exp(−x²) times a rational function of |x|, computed for the elements that need it. The
coefficients are those of S. Moshier's Cephes library (ndtr.c). In float32 one rational function,
fitted for this file, does for all x. Errors in units in the last place, as measured by
tests/ops/test_networks_a.py: erf at most 4 in float64 and 8 in float32 (5e-7), erfc at most 12
where it is normal. The normal distribution function Φ in float32 is exp(−x² / 2) times a polynomial
in 1 / (1 + 0.3 |x|), fitted for this file to a relative error of 1.3e-7, also far out.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

_ROOT_HALF = math.sqrt(0.5)
# Elements per round: its intermediate results stay in the cache.
_BLOCK = 16384


def _constants(dtype: Any, *numbers: float) -> tuple[Array, ...]:
    """Coefficients as 0-d arrays, the highest power first: NumPy is faster with them."""
    return tuple(np.array(number, dtype) for number in numbers)


# |x| < 1: erf(x) = x · T(x²) / U(x²)
_T = _constants(
    np.float64,
    9.60497373987051638749e0, 9.00260197203842689217e1, 2.23200534594684319226e3,
    7.00332514112805075473e3, 5.55923013010394962768e4,
)  # fmt: skip
_U = _constants(
    np.float64,
    1.0, 3.35617141647503099647e1, 5.21357949780152679795e2, 4.59432382970980127987e3,
    2.26290000613890934246e4, 4.92673942608635921086e4,
)  # fmt: skip
# 1 ≤ x < 8: erfc(x) = exp(−x²) · P(x) / Q(x)
_P = _constants(
    np.float64,
    2.46196981473530512524e-10, 5.64189564831068821977e-1, 7.46321056442269912687e0,
    4.86371970985681366614e1, 1.96520832956077098242e2, 5.26445194995477358631e2,
    9.34528527171957607540e2, 1.02755188689515710272e3, 5.57535335369399327526e2,
)  # fmt: skip
_Q = _constants(
    np.float64,
    1.0, 1.32281951154744992508e1, 8.67072140885989742329e1, 3.54937778887819891062e2,
    9.75708501743205489753e2, 1.82390916687909736289e3, 2.24633760818710981792e3,
    1.65666309194161350182e3, 5.57535340817727675546e2,
)  # fmt: skip
# 8 ≤ x: the same with
_R = _constants(
    np.float64,
    5.64189583547755073984e-1, 1.27536670759978104416e0, 5.01905042251180477414e0,
    6.16021097993053585195e0, 7.40974269950448939160e0, 2.97886665372100240670e0,
)  # fmt: skip
_S = _constants(
    np.float64,
    1.0, 2.26052863220117276590e0, 9.39603524938001434673e0, 1.20489539808096656605e1,
    1.70814450747565897222e1, 9.60896809063285878198e0, 3.36907645100081516050e0,
)  # fmt: skip
# float32, any x: erf(x) = x · A(x²) / B(x²), x limited to where erf rounds to 1
_ONE_FROM = 3.92
_A = _constants(
    np.float32,
    2.0500331174844177e-06, 0.0002848751319106668, 0.003765514586120844, 0.05274840444326401,
    0.19040480256080627, 1.1283791065216064,
)  # fmt: skip
_B = _constants(
    np.float32,
    3.809075496974401e-05, 0.0011625004699453712, 0.014969022013247013, 0.11410833150148392,
    0.5020745992660522, 1.0,
)  # fmt: skip


def _polynomial(x: Array, coefficients: tuple[Array, ...]) -> Array:
    """Horner's rule, in place."""
    first, *middle, last = coefficients
    out = x * first
    for coefficient in middle:
        out += coefficient
        out *= x
    out += last
    return out


def _beyond_one(x: Array) -> Array:
    """erfc(x) for float64 x ≥ 1."""
    x = np.minimum(x, 30.0)  # erfc is 0 from 26.6 on; a NaN stays one
    # exp(−x²) from a rounded x² would lose as many digits as x² has before the point.
    coarse = np.round(x * 16) * 0.0625
    out = np.exp(-coarse * coarse)
    out *= np.exp((coarse - x) * (coarse + x))
    ratio = _polynomial(x, _P)
    ratio /= _polynomial(x, _Q)
    far = x >= 8
    if far.any():
        ratio[far] = _polynomial(x[far], _R) / _polynomial(x[far], _S)
    out *= ratio
    return out


def _erf_double(x: Array, out: Array) -> None:
    size = np.abs(x)
    near = np.minimum(size, 1.0)  # what lies beyond is replaced below
    near *= near
    np.multiply(x, _polynomial(near, _T), out)
    out /= _polynomial(near, _U)
    beyond = np.flatnonzero(size > 1)
    if beyond.size:
        out[beyond] = np.copysign(1 - _beyond_one(size[beyond]), x[beyond])


def _erfc_double(x: Array, out: Array) -> None:
    _erf_double(x, out)
    np.subtract(1, out, out)
    beyond = np.flatnonzero(x > 1)  # there 1 − erf would cancel
    if beyond.size:
        out[beyond] = _beyond_one(x[beyond])


def _erf_single(x: Array, out: Array) -> None:
    x = np.clip(x, -_ONE_FROM, _ONE_FROM)
    square = x * x
    np.multiply(x, _polynomial(square, _A), out)
    out /= _polynomial(square, _B)
    np.clip(out, -1.0, 1.0, out)


# float32: Φ(−|x|) = exp(−x² / 2) · t · N(t), t = 1 / (1 + 0.3 |x|)
_N = _constants(
    np.float32,
    0.03593229910552936, -0.1582781822759679, 0.20821007596801291, -0.055396776511177206,
    0.12947061389785722, 0.09963710444324081, 0.12079841473796715, 0.11962638640292665,
)  # fmt: skip
# The same for gelu, where only the absolute error of x · Φ(x) counts: 1.1e-8
_M = _constants(
    np.float32,
    -0.10632877865837241, 0.39206790560731647, -0.24067084491949092, 0.2719734249102502,
    0.06622908740304342, 0.1167291945690198,
)  # fmt: skip
_N_SCALE, _M_SCALE, _ONE = _constants(np.float32, 0.3, 0.28, 1.0)
_DENSITY = 1 / math.sqrt(2 * math.pi)


def _bell(x: Array) -> Array:
    """exp(−x² / 2)."""
    out = x * x
    out *= -0.5
    return np.exp(out, out=out)


def _ndtr_single(x: Array, bell: Array, out: Array, scale: Array, factors: Any) -> None:
    t = np.abs(x)
    t *= scale
    t += 1
    np.divide(_ONE, t, out=t)  # quicker than np.reciprocal
    tail = _polynomial(t, factors)
    tail *= t
    tail *= bell  # Φ(−|x|)
    np.subtract(x > 0, tail, out=out)  # 1 − tail where x > 0; elsewhere −tail
    np.abs(out, out=out)


def _ndtr_double(x: Array, out: Array) -> None:
    _erfc_double(x * -_ROOT_HALF, out)
    out *= 0.5


def _ndtr(x: Array, out: Array) -> None:
    if x.dtype == np.float32:
        _ndtr_single(x, _bell(x), out, _N_SCALE, _N)
    else:
        _ndtr_double(x, out)


def _gelu(x: Array, out: Array, slope: Array) -> None:
    bell = _bell(x)
    if x.dtype == np.float32:
        _ndtr_single(x, bell, slope, _M_SCALE, _M)
    else:
        _ndtr_double(x, slope)
    np.multiply(x, slope, out=out)
    bell *= x
    bell *= _DENSITY
    slope += bell


def _by_blocks(function: Any, x: Any, results: int = 1) -> Any:
    array = np.asarray(x)
    flat = np.ascontiguousarray(array).reshape(-1)
    outs = [np.empty_like(flat) for _ in range(results)]
    for start in range(0, flat.size, _BLOCK):
        block = slice(start, start + _BLOCK)
        function(flat[block], *(out[block] for out in outs))
    shaped = [out.reshape(array.shape) for out in outs]
    return shaped[0] if results == 1 else tuple(shaped)


def erf_array(x: Any) -> Any:
    """The error function of a float32 or float64 array."""
    return _by_blocks(_erf_single if x.dtype == np.float32 else _erf_double, x)


def erfc_array(x: Any) -> Any:
    """1 − erf(x), exact also where that is nearly 0; float32 is computed in float64."""
    if x.dtype == np.float32:
        return _by_blocks(_erfc_double, x.astype(np.float64)).astype(np.float32)
    return _by_blocks(_erfc_double, x)


def ndtr_array(x: Any) -> Any:
    """The normal distribution function Φ(x)."""
    return _by_blocks(_ndtr, x)


def gelu_with_slope(x: Any) -> Any:
    """x Φ(x) and its derivative, Φ(x) + x φ(x)."""
    return _by_blocks(_gelu, x, results=2)
