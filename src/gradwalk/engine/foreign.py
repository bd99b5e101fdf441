"""Loaders of other engines, whose tensors the tools also read.

`inspect` must not import `torch`, so it finds PyTorch's side here, by name.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

loaders: dict[str, Callable[[], Any]] = {}  # "torch" -> what imports gradwalk/torch/guest.py
