"""Which entries all threads share, and where they have to meet.

A short entry is not worth sharing: thread 0 runs it alone. All threads meet before an entry that
touches what another thread may still be writing, or writes what another may still be reading.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gradwalk.compiler.graph import Call
from gradwalk.compiler.plan.loops import Apply, Loops, Reduce
from gradwalk.compiler.plan.lower import ProductSteps, elements
from gradwalk.compiler.plan.places import Buffer, Place, bytes_of
from gradwalk.compiler.plan.plan import Entry

SHORT = 4000  # nanoseconds that one thread may take before sharing pays
LONG_OPS = {"exp", "log", "tanh", "sigmoid", "erf", "sin", "cos", "pow", "div", "sqrt"}


@dataclass(frozen=True)
class Sharing:
    """Whether thread 0 runs an entry alone, and whether all threads meet before it."""

    alone: bool
    meet: bool


def nanoseconds(entry: Entry) -> float:
    """About how long one thread takes: only to tell long entries from short ones."""
    work = entry.work
    moved = sum(bytes_of(p) for p in (*entry.reads, *entry.writes)) / 20
    if isinstance(work, ProductSteps):
        *_, m, k = work.left.shape
        count = max(work.outputs[0].shape[-1], 1)
        batch = 1
        for n in work.outputs[0].shape[:-2]:
            batch *= n
        return 2 * batch * m * k * count / 80 + 100
    if isinstance(work, Loops):
        heavy = sum(
            8 if isinstance(s, Apply) and s.op.name in LONG_OPS else 1
            for s in work.steps
            if isinstance(s, (Apply, Reduce))
        )
        return max(elements(work) * heavy / 40, moved) + 20
    assert isinstance(work, Call)
    return moved * 4 + 100


def sharing(entries: Sequence[Entry], threads: int) -> list[Sharing]:
    """For each entry who runs it, and whether to meet before."""
    found = []
    since: list[tuple[bool, list[Place], list[Place]]] = []  # alone, reads, writes
    for entry in entries:
        alone = threads == 1 or nanoseconds(entry) < SHORT
        meet = any(
            not (alone and other_alone) and _clash(entry, reads, writes)
            for other_alone, reads, writes in since
        )
        if meet:
            since = []
        since.append((alone, entry.reads, entry.writes))
        found.append(Sharing(alone, meet))
    return found


def _clash(entry: Entry, reads: list[Place], writes: list[Place]) -> bool:
    return any(_overlap(a, b) for a in entry.writes for b in (*reads, *writes)) or any(
        _overlap(a, b) for a in entry.reads for b in writes
    )


def _overlap(first: Place, second: Place) -> bool:
    a, b = first.buffer, second.buffer
    if not (a.in_arena and b.in_arena):
        return a is b or (not a.in_arena and not b.in_arena and a.slot == b.slot)
    return a.offset < _end(b) and b.offset < _end(a)


def _end(buffer: Buffer) -> int:
    return buffer.offset + buffer.size
