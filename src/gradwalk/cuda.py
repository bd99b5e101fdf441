"""PyTorch's questions about GPUs, answered for the CPU."""

from __future__ import annotations

__all__ = ["device_count", "empty_cache", "is_available", "manual_seed", "manual_seed_all"]


def is_available() -> bool:
    """False: tensors live on the CPU.

    >>> import gradwalk as gw
    >>> "cuda" if gw.cuda.is_available() else "cpu"
    'cpu'
    """
    return False


def device_count() -> int:
    """0."""
    return 0


def manual_seed(seed: int) -> None:
    """Nothing, as in PyTorch where there is no GPU; see `gradwalk.manual_seed`."""


def manual_seed_all(seed: int) -> None:
    """Nothing, as in PyTorch where there is no GPU; see `gradwalk.manual_seed`."""


def empty_cache() -> None:
    """Nothing."""
