"""Paths through a trace, and their text."""

from __future__ import annotations

import textwrap
from collections import deque
from dataclasses import dataclass

from gradwalk.graph.source import SourceLine
from gradwalk.inspect.trace.trace import Trace

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


def reached(trace: Trace, start: int) -> dict[int, int | None]:
    """All nodes computed from `start`, nearest first, each with its predecessor on the path."""
    came: dict[int, int | None] = {start: None}
    waiting = deque([start])
    while waiting:
        index = waiting.popleft()
        for consumer, _ in trace.consumers[index]:
            if consumer not in came:
                came[consumer] = index
                waiting.append(consumer)
    return came


def leading_to(trace: Trace, root: int) -> set[int]:
    """`root` and all nodes it was computed from, whether gradients flow or not."""
    found = {root}
    waiting = [root]
    while waiting:
        for source in trace.nodes[waiting.pop()].inputs:
            if source not in found:
                found.add(source)
                waiting.append(source)
    return found


def way(came: dict[int, int | None], end: int) -> list[int]:
    """The path from the start of a search to `end`."""
    found = []
    at: int | None = end
    while at is not None:
        found.append(at)
        at = came[at]
    return found[::-1]


def wrapped(text: str, first: str, then: str) -> list[str]:
    """Wrap text at 80 columns with these indents of the first and the other lines."""
    return textwrap.wrap(
        text, 80, initial_indent=first, subsequent_indent=then, break_on_hyphens=False
    )


def chain(steps: list[PathStep]) -> str:
    """The names along a path; of a long path, both ends."""
    return with_arrows([step.name for step in steps])


def with_arrows(names: list[str]) -> str:
    """Names joined by arrows; of many, both ends."""
    if len(names) > SHOWN:
        left_out = len(names) - SHOWN
        names = [*names[: SHOWN // 2], f"({left_out} more)", *names[-SHOWN // 2 :]]
    return " → ".join(names)
