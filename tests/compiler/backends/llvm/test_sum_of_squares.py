"""The sum of the squares of arrays given by their addresses."""

import math
from array import array
from typing import Any

import numpy as np
import pytest

from gradwalk.compiler.backends.llvm.runtime.sum_of_squares import sum_of_squares

SIZES = (0, 1, 3, 15, 16, 63, 64, 65, 129, 1000)


def total(arrays: list[Any]) -> float:
    native = sum_of_squares(arrays[0].itemsize)
    assert native is not None
    places = array("q", [each.ctypes.data for each in arrays])
    sizes = array("q", [each.size for each in arrays])
    return native(places.buffer_info()[0], sizes.buffer_info()[0], len(arrays))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_arrays_of_any_size(dtype: type) -> None:
    rng = np.random.default_rng(0)
    arrays: list[Any] = [rng.standard_normal(size).astype(dtype) for size in SIZES]
    expected = math.fsum(float((each.astype(np.float64) ** 2).sum()) for each in arrays)
    assert total(arrays) == pytest.approx(expected, 1e-6 if dtype is np.float32 else 1e-14)
    for size, each in zip(SIZES, arrays, strict=True):
        if size:
            for bad in (math.nan, math.inf):  # in the first element and in the last
                kept = each[[0, -1]].copy()
                for place in (0, -1):
                    each[place] = bad
                    assert not math.isfinite(total(arrays)), (size, place)
                    each[[0, -1]] = kept
