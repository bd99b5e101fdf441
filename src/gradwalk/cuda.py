"""GPUs, as PyTorch asks for them. JAX is looked for when a question needs it."""

from __future__ import annotations

from gradwalk.engine.guest_loaders import loaders

__all__ = [
    "current_device", "device_count", "empty_cache", "is_available", "manual_seed",
    "manual_seed_all", "synchronize",
]  # fmt: skip


def is_available() -> bool:
    """Whether JAX is installed and sees a GPU.

    >>> import gradwalk as gw
    >>> gw.cuda.is_available() == (gw.cuda.device_count() > 0)
    True
    """
    return device_count() > 0


def device_count() -> int:
    """The GPUs that JAX sees; 0 without JAX."""
    try:
        xla = loaders["xla"]()
    except ImportError:
        return 0
    return len(xla.devices_of("cuda"))


def current_device() -> int:
    """The number of the GPU that "cuda" means: the first."""
    return 0


def synchronize(device: object = None) -> None:
    """Wait until the GPUs have computed everything they were given."""
    if is_available():
        loaders["xla"]().synchronize()


def manual_seed(seed: int) -> None:
    """Nothing: a device draws from the same stream as the CPU; see `gradwalk.manual_seed`."""


def manual_seed_all(seed: int) -> None:
    """Nothing: a device draws from the same stream as the CPU; see `gradwalk.manual_seed`."""


def empty_cache() -> None:
    """Nothing: JAX manages the memory of its devices."""
