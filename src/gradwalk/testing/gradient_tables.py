"""Gradients by the name of their parameters, and how far two tables of them are apart."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from gradwalk.inspect.silent.rounding import ULPS, eps_of, gradient_tolerance
from gradwalk.inspect.trace.live import gradient_of
from gradwalk.testing.one_step import parameters_of

Gradients = dict[str, tuple[Any, Any]]  # name -> (array, dtype of the parameter)


def gradients_of(model: Any) -> Gradients:
    """Copies of the gradients that a backward pass has left."""
    named = parameters_of(model).items()
    return {n: (np.array(g), p.dtype) for n, p in named if (g := gradient_of(p)) is not None}


def mean_of(tables: list[Gradients]) -> Gradients:
    """The mean of several tables; a missing gradient counts as 0."""
    names = dict.fromkeys(name for table in tables for name in table)
    mean: Gradients = {}
    for name in names:
        arrays = [table[name][0].astype(float) for table in tables if name in table]
        dtype = next(table[name][1] for table in tables if name in table)
        mean[name] = (sum(arrays) / len(tables), dtype)
    return mean


def first_apart(one: Gradients, other: Gradients, rtol: float | None = None) -> str | None:
    """The first parameter whose gradients differ by more than rounding; None if none does."""
    total = _norm(np.array([_norm(array) for array, _ in one.values()]))
    for name in dict.fromkeys((*one, *other)):
        a, dtype = one.get(name, other.get(name, (0.0, None)))
        a = one[name][0].astype(float) if name in one else np.zeros(np.shape(a))
        b = other[name][0].astype(float) if name in other else np.zeros(a.shape)
        if np.array_equal(a, b, equal_nan=True):
            continue
        tolerance = gradient_tolerance(dtype) if rtol is None else rtol
        # A gradient that is 0 but for rounding (of a key's bias) is as large as the rounding of
        # what cancels in it.
        floor = 16 * ULPS * eps_of(dtype) * total
        if not _norm(a - b) <= max(tolerance * max(_norm(a), _norm(b)), floor):
            return name
    return None


def ratio_of(one: Gradients, other: Gradients) -> float | None:
    """The factor between two tables, if one factor fits all gradients."""
    a = np.concatenate([one[name][0].astype(float).ravel() for name in one])
    b = np.concatenate([other[name][0].astype(float).ravel() for name in one if name in other])
    if a.shape != b.shape or not b.any():
        return None
    ratio = float(a @ b / (b @ b))
    if not math.isfinite(ratio) or abs(ratio) < 1e-6:
        return None
    scaled = {name: (array * ratio, dtype) for name, (array, dtype) in other.items()}
    return ratio if first_apart(one, scaled) is None else None


def _norm(array: Any) -> float:
    return float(np.linalg.norm(np.asarray(array, float).ravel()))
