"""The CPU, as programs ask for any device: `getattr(torch, device.type).synchronize()`."""

from __future__ import annotations

from typing import Any

from gradwalk import amp as _amp
from gradwalk.cuda.streams import Stream, current_stream, stream
from gradwalk.ops.core.longer_paths import longer_paths
from gradwalk.optim.grad_scaler import GradScaler

__all__ = [
    "GradScaler", "Stream", "autocast", "current_device", "current_stream", "device_count",
    "is_available", "is_initialized", "set_device", "stream", "synchronize",
]  # fmt: skip

longer_paths(__name__, "amp")  # PyTorch's older `cpu.amp.autocast()`


def autocast(enabled: bool = True, dtype: Any = None, cache_enabled: bool = True) -> _amp.autocast:
    """`gradwalk.autocast("cpu", ...)`."""
    return _amp.autocast("cpu", dtype, enabled, cache_enabled)


def is_available() -> bool:
    """True: there is always a CPU."""
    return True


def is_initialized() -> bool:
    """True: it needs no preparation."""
    return True


def device_count() -> int:
    """1: all cores are one device.

    >>> import gradwalk as gw
    >>> gw.cpu.device_count(), gw.cpu.current_device()
    (1, 'cpu')
    """
    return 1


def current_device() -> str:
    """The name of the only one."""
    return "cpu"


def set_device(device: Any) -> None:
    """Nothing: there is one."""


def synchronize(device: Any = None) -> None:
    """Nothing: a call on the CPU returns when it has computed."""
