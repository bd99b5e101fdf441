"""What a backend can do: a table that the backend provides and the plan asks."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from gradwalk.ops.core.op import Op


class Capabilities(NamedTuple):
    """The questions of the plan, each a function of an elementwise op."""

    # Whether there is code for operands of these dtypes and these attributes.
    is_native: Callable[[Op, Sequence[np.dtype[Any]], Mapping[str, Any]], bool]
    # Whether computing it again costs no more than to store and load its result.
    is_cheap: Callable[[Op], bool]
