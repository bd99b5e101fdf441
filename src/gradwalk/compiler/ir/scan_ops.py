"""Running extremes: ops that the compiler adds to define cummax and cummin."""

from __future__ import annotations

from typing import Any

import numpy as np

from gradwalk.ops.core.op import Op


def _running(name: str, best: np.ufunc) -> Op:
    def forward(x: Any, *, axis: int) -> Any:
        return best.accumulate(x, axis=axis)

    return Op(name, forward, None, [None], elementwise=False, shape=lambda x, *, axis: x)


# The largest and the smallest of all elements up to each; NaN propagates.
running_max = _running("running_max", np.maximum)
running_min = _running("running_min", np.minimum)
