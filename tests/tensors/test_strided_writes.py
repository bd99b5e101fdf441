"""In-place ufuncs on parts of an array: NumPy's fast loops are not right for every stride."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gradwalk as gw
from gradwalk.ops import TABLE
from gradwalk.ops.core.op import Op
from tests.batches import check_each

UFUNCS = [
    op
    for op in TABLE.values()
    if isinstance(op.forward, np.ufunc) and hasattr(gw.Tensor, f"{op.name}_")
]


@pytest.mark.parametrize("dtype", [gw.float32, gw.float64, gw.int32, gw.int64])
def test_a_part_is_changed_as_a_whole_would_be(dtype: Any) -> None:
    def check(op: Op) -> None:
        for stride in range(1, 10):
            for count in (1, 2, 5, 17, 33):
                whole = gw.linspace(1, 60, count * stride + 1).to(dtype)
                before, part = whole.clone(), whole[: count * stride : stride]
                others = [part.clone() % 3 + 1] * (len(op.inputs) - 1)
                fresh = part.clone()
                try:
                    getattr(fresh, f"{op.name}_")(*others)
                except TypeError:  # the op makes floats of integers
                    return
                getattr(part, f"{op.name}_")(*others)
                before[: count * stride : stride] = fresh
                assert np.array_equal(whole.numpy(), before.numpy(), equal_nan=True), (
                    stride,
                    count,
                )

    assert len(UFUNCS) > 30
    check_each(UFUNCS, check)
