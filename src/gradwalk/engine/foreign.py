"""Engines beside our own, whose tensors the tools also read; the package says how to load each.

`inspect` stands below `torch` and must do without it, so it finds PyTorch's side here, by name.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

loaders: dict[str, Callable[[], Any]] = {}  # "torch" -> what imports gradwalk/torch/guest.py
