"""The accelerator of this machine, if JAX sees one: PyTorch's device-neutral names."""

from __future__ import annotations

from typing import Any

from gradwalk import cuda
from gradwalk.engine.guest_loaders import loaders
from gradwalk.tensors.devices import device

__all__ = [
    "current_accelerator", "current_device_idx", "current_device_index", "device_count",
    "empty_cache", "is_available", "max_memory_allocated", "memory_allocated", "synchronize",
]  # fmt: skip


def current_accelerator(check_available: bool = False) -> device | None:
    """The kind of accelerator, "cuda" or "tpu"; None without one.

    >>> import gradwalk as gw
    >>> (gw.accelerator.current_accelerator() is not None) == gw.accelerator.is_available()
    True
    """
    try:
        xla = loaders["xla"]()
    except ImportError:
        return None
    return next((device(kind) for kind in ("cuda", "tpu") if xla.devices_of(kind)), None)


def is_available() -> bool:
    """Whether there is an accelerator."""
    return current_accelerator() is not None


def device_count() -> int:
    """How many there are of the current kind."""
    kind = current_accelerator()
    return 0 if kind is None else len(loaders["xla"]().devices_of(kind))


def current_device_index() -> int:
    """The number of the accelerator that its kind alone means: the first."""
    return cuda.current_device()


current_device_idx = current_device_index


def memory_allocated(device_index: Any = None) -> int:
    """The bytes that arrays take now; 0 where JAX does not count them."""
    return cuda.memory_allocated(device_index or current_accelerator())


def max_memory_allocated(device_index: Any = None) -> int:
    """The most bytes that were in use since the program began."""
    return cuda.max_memory_allocated(device_index or current_accelerator())


synchronize = cuda.synchronize
empty_cache = cuda.empty_cache
