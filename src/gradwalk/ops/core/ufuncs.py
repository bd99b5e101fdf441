"""Which op a NumPy ufunc is, so that `np.tanh(tensor)` and `array * tensor` give tensors."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np


@cache
def _table() -> dict[Any, Callable[..., Any]]:
    from gradwalk.ops import TABLE
    from gradwalk.ops.linear.matmul import matmul

    table = {op.forward: op for op in TABLE.values() if isinstance(op.forward, np.ufunc)}
    # These three are the ufunc but for integers or booleans.
    nearly = {np.power: TABLE["pow"], np.sign: TABLE["sign"], np.square: TABLE["square"]}
    return {**table, **nearly, np.matmul: matmul}


def op_of_ufunc(ufunc: Any) -> Callable[..., Any] | None:
    """The op with this ufunc as its forward, None if there is none."""
    return _table().get(ufunc)
