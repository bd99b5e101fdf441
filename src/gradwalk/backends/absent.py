"""Accelerators that are not used here, `xpu` and `mps`: programs ask whether they are there.

>>> import gradwalk as gw
>>> gw.xpu.is_available(), gw.mps.device_count()
(False, 0)
"""

from __future__ import annotations

from typing import Any

__all__ = [
    "device_count", "empty_cache", "is_available", "manual_seed", "manual_seed_all", "synchronize",
]  # fmt: skip


def is_available() -> bool:
    """False: it is not used."""
    return False


def device_count() -> int:
    """None of them."""
    return 0


def manual_seed(seed: int) -> None:
    """Nothing: there are no numbers to draw."""


manual_seed_all = manual_seed


def empty_cache() -> None:
    """Nothing: there is no memory."""


def synchronize(device: Any = None) -> None:
    """Nothing: there is nothing to wait for."""
