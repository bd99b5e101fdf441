"""Running extremes: ops that the compiler itself adds, of which cummax and cummin are made."""

from __future__ import annotations

from typing import Any

import numpy as np

from gradwalk.ops.core.op import Op


def _running(name: str, best: np.ufunc) -> Op:
    def forward(x: Any, *, axis: int) -> Any:
        return best.accumulate(x, axis=axis)

    return Op(name, forward, None, [None], elementwise=False, shape=lambda x, *, axis: x)


# The largest and the smallest of all elements up to each; a NaN stays.
running_max = _running("running_max", np.maximum)
running_min = _running("running_min", np.minimum)
