"""PyTorch's older `cuda.amp`: mixed precision of ops on a GPU."""

from typing import Any

from gradwalk import amp
from gradwalk.amp import GradScaler, custom_bwd, custom_fwd

__all__ = ["GradScaler", "autocast", "custom_bwd", "custom_fwd"]


def autocast(enabled: bool = True, dtype: Any = None, cache_enabled: bool = True) -> amp.autocast:
    """`gradwalk.autocast("cuda", ...)`."""
    return amp.autocast("cuda", dtype, enabled, cache_enabled)
