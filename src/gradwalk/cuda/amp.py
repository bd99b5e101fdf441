"""PyTorch's older `cuda.amp`: mixed precision of ops on a GPU."""

from typing import Any

from gradwalk import amp
from gradwalk.amp import GradScaler

__all__ = ["GradScaler", "autocast"]


class autocast(amp.autocast):
    """`gradwalk.autocast("cuda", ...)`."""

    def __init__(self, enabled: bool = True, dtype: Any = None, cache_enabled: bool = True) -> None:
        super().__init__("cuda", dtype, enabled, cache_enabled)
