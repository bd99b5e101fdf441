"""PyTorch's `SummaryWriter`, written by the package tensorboardX: `pip install tensorboardX`."""

from __future__ import annotations

import functools
import importlib
from typing import Any

from gradwalk.engine.tree import mapped
from gradwalk.tensors.tensor import Tensor


def __getattr__(name: str) -> Any:
    if name != "SummaryWriter":
        raise AttributeError(f"module 'gradwalk.utils.tensorboard' has no attribute {name!r}")
    return _writer()


@functools.cache
def _writer() -> type:
    """tensorboardX's writer, with arrays for our tensors."""
    try:
        base = importlib.import_module("tensorboardX").SummaryWriter
    except ImportError as error:
        raise ImportError(
            "SummaryWriter writes with the package tensorboardX: pip install tensorboardX"
        ) from error

    def plain(value: Any) -> Any:
        return value.detach().cpu().numpy() if isinstance(value, Tensor) else value

    def method(name: str) -> Any:
        @functools.wraps(getattr(base, name))
        def add(self: Any, *args: Any, **options: Any) -> Any:
            return getattr(base, name)(self, *mapped(plain, list(args)), **mapped(plain, options))

        return add

    wrapped = {name: method(name) for name in dir(base) if name.startswith("add_")}
    return type("SummaryWriter", (base,), {"__doc__": base.__doc__, **wrapped})
