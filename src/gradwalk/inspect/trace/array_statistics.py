"""Statistics of an array that is not kept, and sizes of what was kept in any form."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from gradwalk.engine.modes import quietly
from gradwalk.ops.core.dtypes import is_floating

BINS = 16
SMALLEST_SQUARE = 1e-30  # below, squares of float32 numbers lose their digits
_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")


@dataclass(slots=True, frozen=True)
class Statistics:
    """Statistics of the finite elements; NaN and inf are counted apart.

    >>> Statistics.of(np.array([3.0, -4.0, np.nan])).norm
    5.0
    """

    shape: tuple[int, ...]
    dtype: str
    count: int
    mean: float
    std: float
    low: float
    high: float
    norm: float  # root of the sum of squares
    zeros: int
    nans: int
    infs: int
    histogram: tuple[int, ...] = ()  # counts in equal bins between low and high

    @classmethod
    def of(cls, value: Any) -> Statistics:
        """Measure an array or a number; statistics stay as they are."""
        if isinstance(value, Statistics):
            return value
        array = np.asarray(value)
        flat = array.reshape(-1)
        nans = infs = 0
        if is_floating(flat.dtype):
            finite = np.isfinite(flat)
            if not finite.all():
                nans = int(np.isnan(flat).sum())
                infs = int(flat.size - finite.sum() - nans)
                flat = flat[finite]
        if not flat.size:
            empty = (math.nan,) * 4
            return cls(array.shape, str(array.dtype), array.size, *empty, 0.0, 0, nans, infs)
        doubles = flat.astype(np.float64, copy=False)
        low, high = float(doubles.min()), float(doubles.max())
        with np.errstate(over="ignore"):
            return cls(
                array.shape,
                str(array.dtype),
                array.size,
                float(doubles.mean()),
                float(doubles.std()),
                low,
                high,
                math.sqrt(float((doubles * doubles).sum())),
                int(np.count_nonzero(doubles == 0)),
                nans,
                infs,
                _histogram(doubles, low, high),
            )

    @property
    def finite(self) -> bool:
        """Whether every element is a finite number."""
        return not (self.nans or self.infs)

    def to_dict(self) -> dict[str, Any]:
        """Plain data."""
        return {f.name: getattr(self, f.name) for f in fields(self)}


def _histogram(values: np.ndarray[Any, Any], low: float, high: float) -> tuple[int, ...]:
    """Counts in equal bins from low to high; np.histogram takes four times as long.

    >>> _histogram(np.arange(32.0), 0.0, 31.0)
    (2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2)
    """
    width = high - low
    scale = BINS / width if width > 0 else math.inf
    if not 0 < scale < math.inf:
        return ()
    steps = values - low
    steps *= scale
    # `high` itself, and what rounding moves there, belongs to the last bin.
    counts = np.bincount(np.minimum(steps, BINS - 1).astype(np.uint8), minlength=BINS)
    return tuple(counts.tolist())


@dataclass(frozen=True, slots=True)
class NormAndCount:
    """The norm and the number of elements of an array that is not kept: cheaper than Statistics."""

    norm: float
    count: int

    @classmethod
    def of(cls, array: Any) -> NormAndCount:
        """Of an array or a number."""
        array = np.asarray(array)
        return cls(norm_of(array), array.size)


def norm_of(kept: Any) -> float:
    """The Euclidean norm; 0 of nothing, NaN or inf if an element is."""
    if kept is None:
        return 0.0
    if isinstance(kept, NormAndCount):
        return kept.norm
    if isinstance(kept, Statistics):
        return kept.norm if kept.finite else math.inf
    flat = np.asarray(kept).ravel(order="K")  # no copy, whatever the order of the axes in memory
    if not is_floating(flat.dtype):
        flat = flat.astype(np.float64)
    square = float(quietly(np.dot, flat, flat))
    if flat.dtype != np.float64 and not SMALLEST_SQUARE < square < math.inf:
        flat = flat.astype(np.float64)
        square = float(quietly(np.dot, flat, flat))
    return math.sqrt(square) if square >= 0 else math.nan


def typical(kept: Any) -> float:
    """The size of a typical element: the root of the mean square."""
    if kept is None:
        return 0.0
    count = kept.count if isinstance(kept, (NormAndCount, Statistics)) else np.size(kept)
    return norm_of(kept) / math.sqrt(max(count, 1))


def array_of(kept: Any) -> Any:
    """The array, if it was kept."""
    return (
        None if kept is None or isinstance(kept, (NormAndCount, Statistics)) else np.asarray(kept)
    )


def in_bytes(count: float) -> str:
    """Bytes with a suitable unit.

    >>> in_bytes(2**38)
    '256 GiB'
    """
    unit = 0
    while count >= 1024 and unit < len(_UNITS) - 1:
        count, unit = count / 1024, unit + 1
    return f"{count:.4g} {_UNITS[unit]}"
