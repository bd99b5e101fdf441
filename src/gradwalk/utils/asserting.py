"""PyTorch's `_assert`, `_check`: conditions that its compiler can see. Here they are plain."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def _assert(condition: Any, message: str) -> None:
    """An AssertionError unless the condition holds."""
    assert condition, message


def _assert_async(input: Any, assert_msg: str = "expected an element that is not zero") -> None:
    """A RuntimeError unless the one element is true, at once."""
    if not input:
        raise RuntimeError(assert_msg)


def _check(cond: Any, message: Callable[[], object] | None = None) -> None:
    """A RuntimeError unless the condition holds; `message` makes its text."""
    if not cond:
        raise RuntimeError("expected a condition to hold" if message is None else str(message()))
