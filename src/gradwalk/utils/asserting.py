"""PyTorch's `_assert` and `_check`: conditions that its compiler can see. Here they are plain."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def _assert(condition: Any, message: str) -> None:
    """An AssertionError unless the condition holds."""
    assert condition, message


def _check(cond: Any, message: Callable[[], object] | None = None) -> None:
    """A RuntimeError unless the condition holds; `message` makes its text."""
    if not cond:
        raise RuntimeError("expected a condition to hold" if message is None else str(message()))
