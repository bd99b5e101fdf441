"""The text of a failed check: what disagrees, module, operation, line, and a change to try."""

from __future__ import annotations

from typing import Any

from gradwalk.inspect.trace.routes import group_name, labelled, wrapped
from gradwalk.inspect.trace.trace import Trace


def failure(headline: str, *entries: tuple[str, Any], fix: str = "") -> AssertionError:
    """An error to raise."""
    lines = [*wrapped(headline, "", "  "), *labelled(*entries)]
    if fix:
        lines += wrapped(f"Fix: {fix}", "", "     ")
    return AssertionError("\n".join(lines))


def place(trace: Trace, index: int) -> list[tuple[str, Any]]:
    """Where an operation is: its name, its module, its line."""
    node = trace.nodes[index]
    name = node.op or trace.names.get(index) or "a tensor made from plain numbers"
    return [("op", name), ("in", group_name(trace, index) or "no module"), ("at", node.line)]
