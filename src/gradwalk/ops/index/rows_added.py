"""Rows added to those of an array, by number: np.add.at for many rows."""

from __future__ import annotations

from typing import Any

import numpy as np

LARGE = 2**14  # elements; below, np.add.at takes no longer than this
_DTYPES = ("float32", "float64", "int64")  # 1 + 0j times inf would be NaN


def rows_added(out: Any, index: Any, rows: Any) -> bool:
    """Add each row to the row of `out` with its number; return False, with nothing done, for what
    np.add.at does as well or has to refuse.

    This is a product with a matrix of ones and zeros. SciPy adds the rows one after the other, as
    np.add.at does, so the digits are the same.
    """
    count = len(out)
    if rows.size < LARGE or out.ndim < 2 or out.dtype.name not in _DTYPES:
        return False
    if index.dtype.kind not in "iu" or rows.dtype != out.dtype:
        return False
    if rows.shape != (*index.shape, *out.shape[1:]):
        return False
    flat = index.reshape(-1)
    least = flat.min()
    if least < -count or flat.max() >= count:
        return False
    from scipy.sparse import csr_array

    ones, ends = np.ones(len(flat), rows.dtype), np.arange(len(flat) + 1)
    chosen = csr_array((ones, flat % count if least < 0 else flat, ends), shape=(len(flat), count))
    added = chosen.T @ rows.reshape(len(flat), -1)
    np.add(out, added.reshape(out.shape), out=out)
    return True
