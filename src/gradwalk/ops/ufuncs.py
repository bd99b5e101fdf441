"""Which op a NumPy ufunc is, so that `np.tanh(tensor)` and `array * tensor` give tensors."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from gradwalk.ops.op import Op


@cache
def _table() -> dict[Any, Op]:
    from gradwalk.ops import TABLE
    from gradwalk.ops.linalg import matmul_op

    found = {op.forward: op for op in TABLE.values() if isinstance(op.forward, np.ufunc)}
    return {**found, np.matmul: matmul_op}


def op_of_ufunc(ufunc: Any) -> Op | None:
    """The op with this ufunc as its forward, None if there is none."""
    return _table().get(ufunc)
