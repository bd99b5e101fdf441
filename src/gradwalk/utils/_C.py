"""The few names of PyTorch's private `_C` that programs call: they compute nothing.

>>> import gradwalk as gw
>>> gw._C._get_tracing_state() is None
True
"""

from __future__ import annotations

from gradwalk.engine.modes import state as _modes

__all__: list[str] = []


def _log_api_usage_once(event: str) -> None:
    """Nothing: there is no log of what is used."""


def _get_tracing_state() -> None:
    """None: there is no TorchScript."""


def _are_functorch_transforms_active() -> bool:
    """Whether this runs inside `vmap`."""
    return _modes.here.level is not None
