"""How to load the side of another engine (a guest, such as PyTorch) whose tensors the tools read.

`inspect` must not import `torch`, so the package registers a loader here, and `inspect` calls it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

loaders: dict[str, Callable[[], Any]] = {}  # "torch" -> imports gradwalk/torch/guest.py
