"""PyTorch's `serialization`: `load`, `save`, and the lists of classes that a file may hold.

`load` executes nothing, whatever such a list says: a file of other objects is refused.

>>> import gradwalk as gw
>>> with gw.serialization.safe_globals([dict]):
...     gw.serialization.get_safe_globals()
[]
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any, TypeAlias

from gradwalk.io import load as load
from gradwalk.io import save as save

__all__ = [
    "DEFAULT_PROTOCOL", "MAP_LOCATION", "add_safe_globals", "clear_safe_globals",
    "get_safe_globals", "load", "safe_globals", "save",
]  # fmt: skip

MAP_LOCATION: TypeAlias = Callable[[Any, str], Any] | str | dict[str, str] | None  # of `load`
DEFAULT_PROTOCOL = 2  # of pickle, in PyTorch's files


def add_safe_globals(safe_globals: list[Any]) -> None:
    """Nothing: `load` makes no objects of these classes."""


def clear_safe_globals() -> None:
    """Nothing: the list is always empty."""


def get_safe_globals() -> list[Any]:
    """An empty list: `load` makes tensors, numbers and text in containers, and nothing else."""
    return []


def safe_globals(safe_globals: list[Any]) -> AbstractContextManager[None]:
    """A context in which `load` does what it does elsewhere."""
    return nullcontext()
