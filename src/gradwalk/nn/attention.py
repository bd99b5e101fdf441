"""PyTorch's `nn.attention`: which kernel computes attention is a hint that changes nothing here."""

from __future__ import annotations

import enum
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from gradwalk.nn import flex_attention as flex_attention

sys.modules[f"{__name__}.flex_attention"] = flex_attention  # where PyTorch has it

__all__ = ["SDPBackend", "sdpa_kernel"]


class SDPBackend(enum.Enum):
    """PyTorch's kernels of attention."""

    ERROR = -1
    MATH = 0
    FLASH_ATTENTION = 1
    EFFICIENT_ATTENTION = 2
    CUDNN_ATTENTION = 3
    OVERRIDEABLE = 4


@contextmanager
def sdpa_kernel(backends: Any, set_priority: bool = False) -> Iterator[None]:
    """Accepted as a hint: there is one definition of attention, and a compiler that fuses it.

    >>> import gradwalk as gw
    >>> with gw.nn.attention.sdpa_kernel(gw.nn.attention.SDPBackend.MATH):
    ...     gw.nn.functional.scaled_dot_product_attention(*[gw.ones(1, 2, 4)] * 3).shape
    (1, 2, 4)
    """
    yield
