"""PyTorch's private `_dynamo` and `_inductor`, for programs that set how `compile` works: what they
set has no effect, and the marks they put on functions change nothing.

>>> import gradwalk as gw
>>> gw._dynamo.config.suppress_errors = True
>>> gw._dynamo.config.suppress_errors, gw._inductor.config.triton.cudagraphs
(True, False)
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

from gradwalk.engine.guest_loaders import loaders

__all__: list[str] = []

_OF_THE_COMPILER = (
    "allow_in_graph", "assume_constant_result", "disable", "is_compiling", "reset",
)  # fmt: skip


def __getattr__(name: str) -> Any:
    """PyTorch has these in `compiler` as well; it is imported when one is asked for."""
    if name not in _OF_THE_COMPILER:
        raise AttributeError(f"module 'gradwalk._dynamo' has no attribute {name!r}")
    return getattr(loaders["compiler"](), name)


class _Unset:
    """A setting, or a group of them, that the program has not set."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        setattr(self, name, _Unset())
        return getattr(self, name)

    def __bool__(self) -> bool:
        return False

    def __repr__(self) -> str:
        return "False"


class _Settings(ModuleType, _Unset):
    """Settings that are kept for the program that reads them; one that was not set is false."""

    @contextlib.contextmanager
    def patch(self, *changes: Any, **more: Any) -> Iterator[None]:
        """Settings for a block, or a function that it decorates."""
        yield


def run(fn: Any = None) -> Any:
    """The function itself."""
    return fn


def optimize(*args: Any, **options: Any) -> Callable[[Any], Any]:
    """PyTorch's first name of `compile`, as a decorator: the function itself."""
    return run


def mark_dynamic(t: Any, index: Any = None, **options: Any) -> None:
    """Nothing: another shape is compiled anew."""


maybe_mark_dynamic = mark_static = mark_static_address = mark_unbacked = mark_dynamic


def graph_break(msg: str = "") -> None:
    """Nothing: a function is compiled as a whole, or not at all."""


def _module(name: str, **contents: Any) -> ModuleType:
    """A module without a file, for the import statement as well."""
    made = (_Settings if name.endswith("config") else ModuleType)(name, "Settings without effect.")
    vars(made).update(contents)
    sys.modules[name] = made
    return made


config = _module("gradwalk._dynamo.config")
_inductor = _module("gradwalk._inductor", config=_module("gradwalk._inductor.config"))
