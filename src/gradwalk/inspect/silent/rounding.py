"""Which numbers differ by more than rounding."""

from __future__ import annotations

from typing import Any

import numpy as np

ULPS = 8  # a sum in another order differs by a few units in the last place
_COARSE = 5e-4  # eps: of half precision one unit is as large as a small influence
_EPS = {"bfloat16": 2.0**-7, "float16": 2.0**-10, "float32": 2.0**-23, "float64": 2.0**-52}
# Two gradients that are sums of many terms in another order; norm of the difference by the norm.
_GRADIENTS = {"bfloat16": 0.05, "float16": 0.01, "float32": 1e-4, "float64": 1e-9}


def eps_of(dtype: Any) -> float:
    """The relative precision of a dtype; 0 of integers."""
    return _EPS.get(str(dtype).rpartition(".")[2], 0.0)


def gradient_tolerance(dtype: Any) -> float:
    """How far, relative to their norm, two computations of one gradient may be apart."""
    return _GRADIENTS.get(str(dtype).rpartition(".")[2], _GRADIENTS["float32"])


def differing(a: Any, b: Any, dtype: Any) -> Any:
    """Where two arrays differ by more than rounding; everywhere if their shapes differ."""
    if a.shape != b.shape:
        return np.ones(a.shape, bool)
    eps = eps_of(dtype)
    if not eps:
        return a != b
    with np.errstate(all="ignore"):
        same = (a == b) | (np.isnan(a) & np.isnan(b))
        if same.all():
            return ~same
        a, b = a.astype(np.float64), b.astype(np.float64)
        finite = np.abs(a[np.isfinite(a)])
        typical = float(np.median(finite)) if finite.size else 0.0
        size = np.maximum(np.maximum(np.abs(a), np.abs(b)), typical)
        near = np.abs(a - b) <= (1 if eps > _COARSE else ULPS) * eps * size
    return ~(same | (near & np.isfinite(a) & np.isfinite(b)))
