"""An index that is checked where it is used: an op that the compiler itself adds."""

from __future__ import annotations

from typing import Any

import numpy as np

from gradwalk.ops.core.op import Op


def _forward(index: Any, *, length: int) -> Any:
    wrong = index[(index < -length) | (index >= length)]
    if wrong.size:
        raise IndexError(f"index {wrong.min()} is out of range for a dimension of length {length}")
    return np.where(index < 0, index + length, index)


# Counts (int64) from the end become counts from the start; what is out of range is an error.
checked_index = Op("checked_index", _forward, None, [None], elementwise=True)
