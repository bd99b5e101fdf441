"""PyTorch's `version` and `__config__`: no part of this package is built for CUDA or ROCm; JAX
reaches GPUs.
"""

import numpy as _np

__all__ = ["cuda", "hip", "show"]

cuda: str | None = None
hip: str | None = None


def show() -> str:
    """What it computes with, as `__config__.show()`."""
    return f"gradwalk built on:\n  - NumPy {_np.__version__}\n"
