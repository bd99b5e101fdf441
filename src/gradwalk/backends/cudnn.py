"""PyTorch's `backends.cudnn`. Convolutions do not use cuDNN, so its switches change nothing."""

import contextlib
from typing import Any

__all__ = [
    "allow_tf32", "benchmark", "deterministic", "enabled", "flags", "is_available", "version",
]  # fmt: skip

allow_tf32 = True
benchmark = False
deterministic = False
enabled = True


def is_available() -> bool:
    """False: cuDNN is not used."""
    return False


def version() -> int | None:
    """None: cuDNN is not used."""
    return None


def flags(**switches: Any) -> Any:
    """A context with other switches, which change nothing."""
    return contextlib.nullcontext()
