"""Which kernels all threads share, and where they have to meet (barriers).

Sharing a short kernel does not pay: thread 0 runs it alone. All threads meet before a kernel that
reads or writes what another thread may still write, or writes what another may still read.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from gradwalk.compiler.ir.program import Call
from gradwalk.compiler.plan.buffers import Slice, bytes_of
from gradwalk.compiler.plan.loop_nest import Apply, Loops, Reduce, Sample, Step
from gradwalk.compiler.plan.lowering import ProductSteps, elements
from gradwalk.compiler.plan.schedule import ARENA, Entry
from gradwalk.ops.linear.matmul import matmul_op
from gradwalk.ops.network.convolution import conv_input

SHORT = 4000  # nanoseconds that one thread may take before sharing pays
LONG_OPS = {"exp", "log", "tanh", "sigmoid", "erf", "sin", "cos", "pow", "div", "sqrt"}


class Sharing(NamedTuple):
    """Whether thread 0 runs an entry alone, and whether all threads meet before it."""

    alone: bool
    meet: bool


def nanoseconds(entry: Entry) -> float:
    """A rough time for one thread: enough to tell long kernels from short ones."""
    work = entry.work
    moved = sum(bytes_of(p) for p in (*entry.reads, *entry.writes)) / 20
    if isinstance(work, ProductSteps):
        return operations(work) / 80 + 100
    if isinstance(work, Loops):
        return max(elements(work) * sum(map(_weight, work.steps)) / 40, moved) + 20
    assert isinstance(work, Call)
    return moved * 4 + 100


def _weight(step: Step) -> int:
    """The time of a step, in additions."""
    match step:
        case Sample():
            return 30
        case Apply(op):
            return 8 if op.name in LONG_OPS else 1
        case Reduce():
            return 1
    return 0


def operations(work: ProductSteps) -> int:
    """Multiplications and additions of a matrix product or convolution."""
    if work.call.op is matmul_op:
        return 2 * work.call.outputs[0].size * work.left.shape[-1]
    _, *patch = work.right.shape
    slices = work.left if work.call.op is conv_input else work.outputs[0]
    return 2 * math.prod(slices.shape) * math.prod(patch)


def runs_alone(entry: Entry, threads: int) -> bool:
    """Whether one thread runs an entry by itself."""
    return threads == 1 or nanoseconds(entry) < SHORT


def sharing(entries: Sequence[Entry], threads: int) -> list[Sharing]:
    """For each entry whether one thread runs it, and whether all meet before.

    The body of a loop is looked at twice in a row: it meets wherever it has to in either iteration.
    """
    result: dict[Entry, Sharing] = {}
    since: list[tuple[bool, set[Extent], set[Extent]]] = []  # alone, what is read, what is written
    for entry in _in_order(entries):
        alone = runs_alone(entry, threads)
        reads, writes = _extents(entry.reads), _extents(entry.writes)
        meet = any(
            not (alone and other_alone)
            and (_clash(writes, was_read | was_written) or _clash(reads, was_written))
            for other_alone, was_read, was_written in since
        )
        if meet:
            since = []
        since.append((alone, reads, writes))
        known = result.get(entry)
        result[entry] = Sharing(alone, meet or (known is not None and known.meet))
    return [result[entry] for entry in entries]


def _in_order(entries: Sequence[Entry]) -> Iterator[Entry]:
    """The entries as they run, with two iterations of each loop."""
    for run, several in itertools.groupby(entries, key=lambda entry: entry.loop):
        inside = list(several)
        yield from inside
        if run is not None:
            yield from inside


Extent = tuple[int, int, int]  # a slot, its first byte and the end


def _extents(slices: Sequence[Slice]) -> set[Extent]:
    """The memory of some arrays; outside the arena, the whole buffer."""
    return {
        (ARENA, b.offset, b.offset + b.size) if b.in_arena else (b.slot, 0, 1)
        for b in (one.buffer.memory for one in slices)
    }


def _clash(first: set[Extent], second: set[Extent]) -> bool:
    return any(
        slot == other and start < behind and begin < end
        for slot, start, end in first
        for other, begin, behind in second
    )
