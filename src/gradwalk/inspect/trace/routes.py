"""Paths through a trace, and their text."""

from __future__ import annotations

import textwrap
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from gradwalk.graph.source import SourceLine
from gradwalk.inspect.trace.trace import Edge, Trace

SHOWN = 6  # steps to print; the middle of a longer path is counted


@dataclass(frozen=True, slots=True)
class PathStep:
    """One node on a path."""

    node: int
    name: str
    op: str
    line: SourceLine | None

    @classmethod
    def at(cls, trace: Trace, index: int) -> PathStep:
        """The node of this index."""
        node = trace.nodes[index]
        return cls(index, trace.name(index), node.op, node.line)

    def __str__(self) -> str:
        return self.name if self.line is None else f"{self.name}, {self.line}"


def steps_at(trace: Trace, nodes: Iterable[int]) -> list[PathStep]:
    """These nodes as steps of a path."""
    return [PathStep.at(trace, index) for index in nodes]


def group_name(trace: Trace, node: int) -> str:
    """The innermost module call or scope of a node; "" outside of any."""
    groups = trace.group_path(node)
    return groups[-1].name if groups else ""


def reached(
    trace: Trace, start: int, passes: Callable[[int, int], bool] = lambda consumer, argument: True
) -> dict[int, int | None]:
    """All nodes computed from `start`, nearest first, each with its predecessor on the path.

    `passes(consumer, argument)` restricts the edges to follow.
    """
    came: dict[int, int | None] = {start: None}
    waiting = deque([start])
    while waiting:
        index = waiting.popleft()
        for consumer, argument in trace.consumers[index]:
            if consumer not in came and passes(consumer, argument):
                came[consumer] = index
                waiting.append(consumer)
    return came


def leading_to(
    trace: Trace, roots: Iterable[int], passes: Callable[[Edge], bool] = lambda edge: True
) -> set[int]:
    """`roots` and all nodes they were computed from; `passes(edge)` restricts the operands."""
    leading = set(roots)
    for index in range(max(leading, default=-1), -1, -1):  # inputs have lower numbers
        if index in leading:
            leading.update(edge.node for _, edge in trace.nodes[index].edges if passes(edge))
    return leading


def way(came: dict[int, int | None], end: int) -> list[int]:
    """The path from the start of a search to `end`."""
    path = []
    at: int | None = end
    while at is not None:
        path.append(at)
        at = came[at]
    return path[::-1]


def wrapped(text: str, first: str, then: str) -> list[str]:
    """Wrap text at 80 columns with these indents of the first and the other lines."""
    return textwrap.wrap(
        text, 80, initial_indent=first, subsequent_indent=then, break_on_hyphens=False
    )


def labelled(*entries: tuple[str, Any]) -> list[str]:
    """The lines `  head:    text` of a report, without those that have no text."""
    lines: list[str] = []
    for head, text in entries:
        if text is not None and str(text):
            lines += wrapped(f"{head + ':':<9}{text}", "  ", " " * 11)
    return lines


def listed(names: list[str], most: int) -> str:
    """The first names, and how many more there are."""
    shown = ", ".join(names[:most])
    return shown if len(names) <= most else f"{shown} and {len(names) - most} more"


def chain(steps: list[PathStep]) -> str:
    """The names along a path; of a long path, both ends."""
    return with_arrows([step.name for step in steps])


def with_arrows(names: list[str]) -> str:
    """Names joined by arrows; of many, both ends."""
    if len(names) > SHOWN:
        left_out = len(names) - SHOWN
        names = [*names[: SHOWN // 2], f"({left_out} more)", *names[-SHOWN // 2 :]]
    return " → ".join(names)
