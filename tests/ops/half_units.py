"""How near results in half precision are to others, and to the same in float64."""

from __future__ import annotations

from typing import Any

import numpy as np

import gradwalk as gw

DIGITS = {gw.bfloat16: (8, -126), gw.float16: (11, -14)}  # bits of precision, least exponent
ZERO = 1e-6  # what float32 leaves of a gradient that is 0


def units(x: Any, y: Any, half: Any) -> Any:
    """How far apart two arrays of float64 are, in units in the last place of a half dtype."""
    with np.errstate(all="ignore"):
        apart = np.abs(x - y) / unit_of(np.maximum(np.abs(x), np.abs(y)), half)
    return np.where((x == y) | (np.isnan(x) & np.isnan(y)), 0, np.nan_to_num(apart, nan=np.inf))


def unit_of(size: Any, half: Any) -> Any:
    """The unit in the last place of numbers of some size."""
    digits, least = DIGITS[half]
    with np.errstate(all="ignore"):
        exponent = np.floor(np.log2(np.where((size > 0) & np.isfinite(size), size, 1)))
    return 2.0 ** (np.maximum(exponent, least) - digits + 1)


def wrong(ours: Any, theirs: Any, exact: Any, half: Any) -> Any:
    """Where a result is more than one unit from another, and further from the exact one than the
    other's worst element is."""
    apart = units(ours, theirs, half) > 1
    if exact is None or exact.shape != ours.shape or not apart.any():
        return apart
    limit = float(gw.finfo(half).max)
    exact = np.where(np.abs(exact) > limit, np.copysign(np.inf, exact), exact)
    with np.errstate(all="ignore"):
        worst = np.max(np.nan_to_num(np.abs(theirs - exact), posinf=0), initial=0)
        nearer = np.abs(ours - exact) <= np.maximum(worst, ZERO)
    return apart & ~nearer & (units(ours, exact, half) > 1)
