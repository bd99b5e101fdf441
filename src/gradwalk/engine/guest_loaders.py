"""How to load what is above: another engine (a guest, such as PyTorch) whose tensors the tools
read, and the backend whose arrays tensors hold on a device.

`inspect` must not import `torch`, nor `tensors` the compiler, so the package registers loaders
here, and they call them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

loaders: dict[str, Callable[[], Any]] = {}  # "torch" -> imports gradwalk/torch/guest.py
