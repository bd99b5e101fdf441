"""checked_index: an op that the compiler adds to check an index where it is used."""

from __future__ import annotations

from typing import Any

import numpy as np

from gradwalk.ops.core.op import Op


def _forward(index: Any, *, length: int) -> Any:
    wrong = index[(index < -length) | (index >= length)]
    if wrong.size:
        raise IndexError(f"index {wrong.min()} is out of range for a dimension of length {length}")
    return np.where(index < 0, index + length, index)


# An index (int64) from the end becomes one from the start; one out of range raises.
checked_index = Op("checked_index", _forward, None, [None], elementwise=True)
