"""How long each kernel of a program takes, on memory of its own: the user's arrays do not change.

Arguments are random (zeros where they are integers: a valid index), captured memory is copied. A
kernel whose time depends on the numbers themselves, such as a scatter, is timed on easy ones.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from gradwalk.compiler.backends.llvm.executable import NativeExecutable, as_run
from gradwalk.compiler.ir.program import Memory, Term

Array = np.ndarray[Any, Any]
RUNS = 5  # of which the fastest counts, kernel by kernel


def seconds(executable: NativeExecutable, memories: Sequence[Array]) -> list[float]:
    """Measure every entry of the plan; in a loop, all iterations together."""
    designed = executable.design
    plan = designed.plan
    twin = NativeExecutable(designed, executable.library, {}, executable.layout, executable.threads)
    twin.scalars[:] = 0.5
    draw = np.random.default_rng(0)
    given: list[Array] = []
    copies: dict[int, Array] = {}
    for term, _ in (*plan.arguments, *plan.memories):
        array = _shaped(term, executable.layout.get(term))
        if isinstance(term.source, Memory) and term.source.number < len(memories):
            array[...] = memories[term.source.number]
        else:
            array[...] = draw.normal(size=term.shape) if term.dtype.kind == "f" else 0
        if isinstance(term.source, Memory):
            copies[term.source.number] = array
        else:
            given.append(array)
    twin.bind([copies.get(number, np.empty(0)) for number in range(max(copies, default=-1) + 1)])
    given += [np.empty(term.shape, term.dtype) for term, _ in plan.results]
    order = [number for number, _ in as_run(plan.entries)]
    fastest = [0.0] * len(plan.entries)
    for number, *times in zip(order, *(_once(twin, given) for _ in range(RUNS)), strict=True):
        fastest[number] += min(times)
    return fastest


def _once(twin: NativeExecutable, given: list[Array]) -> list[float]:
    """Time one run, entry by entry."""
    tapes = {id(tape.call): tape for tape in twin.stretches}
    times = twin.stretches[0].seconds(*given)
    for run in twin.others:
        if id(run) in tapes:
            times += tapes[id(run)].seconds()
        else:
            begin = time.perf_counter()
            run()
            times.append(time.perf_counter() - begin)
    return times


def _shaped(term: Term, strides: tuple[int, ...] | None) -> Array:
    """An array of a term's shape with these strides, in elements (None: in order)."""
    if strides is None:
        return np.empty(term.shape, term.dtype)
    ways = [max(n - 1, 0) * s for n, s in zip(term.shape, strides, strict=True)]
    start = -sum(way for way in ways if way < 0)
    memory = np.empty(start + sum(way for way in ways if way > 0) + 1, term.dtype)
    in_bytes = [s * term.dtype.itemsize for s in strides]
    return np.lib.stride_tricks.as_strided(memory[start:], term.shape, in_bytes)
