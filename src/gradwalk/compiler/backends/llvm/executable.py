"""A compiled program: the arrays it takes, the memory it owns, and how it is called."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from gradwalk.compiler.backends.llvm.emit.kernel_builder import OUT_OF_RANGE, Kernel
from gradwalk.compiler.backends.llvm.runtime.object_code import Library
from gradwalk.compiler.backends.llvm.runtime.tape import Expected, Tape
from gradwalk.compiler.ir.program import Layout, Program
from gradwalk.compiler.plan.schedule import Plan

Array = np.ndarray[Any, Any]


class Design(NamedTuple):
    """All that is decided about a program before there is code."""

    program: Program  # after all passes
    plan: Plan
    kernels: list[Kernel | None]  # of each entry; None where NumPy runs it
    reasons: dict[int, str]  # why NumPy runs these entries


class NativeExecutable:
    """A compiled program; call it with arrays for its sources."""

    def __init__(
        self,
        designed: Design,
        library: Library,
        stages: dict[str, float],
        layout: Layout,
    ) -> None:
        plan = designed.plan
        self.design_again: Callable[[], Design] = lambda: designed
        self.reasons = designed.reasons
        self.stretches: list[Tape] = []  # of native entries, between those that NumPy runs
        self.threads = 1  # at most
        self.library = library
        self.stages = stages  # seconds spent in each stage of compiling
        self.layout = layout
        self.kept: list[Any] = []  # what the code points to
        self.scalars_read = plan.scalars  # so many are read
        self.scalars_written = plan.scalar_updates  # and so many behind them are written
        self.scalars = np.zeros(plan.scalars + plan.scalar_updates + 1)
        self.status = np.zeros(8, np.int64)
        self.slots = np.zeros(0, np.int64)
        self.first: Any = None  # the tape that takes the arrays; then what follows it
        self.others: list[Callable[[], None]] = []
        # Memories and arguments that are written before something that may fail: by number.
        self.memories_at_risk: list[int] = []
        self.arguments_at_risk: list[int] = []
        # What a call needs, also a generated one (compiler/call).
        self.numbers: Any = memoryview(self.scalars.data)
        self.status_words: Any = memoryview(self.status.data)
        self.argument_order = [t.source.number for t, _ in plan.arguments]  # type: ignore[union-attr]
        self.memory_kinds: list[Expected] = []
        self.memory_order = [t.source.number for t, _ in plan.memories]  # type: ignore[union-attr]
        self.result_kinds = [(t.shape, t.dtype) for t, _ in plan.results]
        self._lock = threading.Lock()  # of the runtime scalars, the slots and the arena

    @functools.cached_property
    def design(self) -> Design:
        """What was decided about the program. It is made again when read: calls do not need it, and
        it is larger than all else that is kept."""
        return self.design_again()

    @property
    def program(self) -> Program:
        """The program after all passes."""
        return self.design.program

    @property
    def plan(self) -> Plan:
        """Its kernels in order, and where arrays lie."""
        return self.design.plan

    @property
    def kernels(self) -> list[Kernel | None]:
        """The code of each entry; None where NumPy runs it."""
        return self.design.kernels

    @property
    def start(self) -> Callable[..., str | None]:
        """Runs the first stretch on arguments and results, in their orders, and on the memories
        that `bind` was given; returns None, or describes the first array that does not fit."""
        run: Callable[..., str | None] = self.first.call
        return run

    def bind(self, memories: Sequence[Array]) -> None:
        """Change these memories from now on; the caller keeps them alive."""
        for number, one in zip(self.memory_order, self.memory_kinds, strict=True):
            problem = one.misfit(memories[number])
            if problem is not None:
                raise ValueError(f"memory {number} of a compiled function {problem}")
            self.slots[one.slot] = memories[number].ctypes.data

    def __call__(
        self, arguments: Sequence[Array], memories: Sequence[Array], scalars: Sequence[float]
    ) -> tuple[list[Array], list[float]]:
        """Return results and the new runtime scalars; memories are updated in place."""
        results = [np.empty(shape, dtype) for shape, dtype in self.result_kinds]
        given = [arguments[i] for i in self.argument_order]
        read, numbers = self.scalars_read, self.numbers
        with self._lock:
            # A generated call relies on its own numbers and memories to stay.
            before = self.scalars.copy(), self.slots.copy()
            risky = [memories[n] for n in self.memories_at_risk]
            risky += [arguments[n] for n in self.arguments_at_risk]
            copies = [array.copy() for array in risky]
            try:
                self.bind(memories)
                for i in range(read):
                    numbers[i] = scalars[i]
                problem = self.start(*given, *results)
                if problem is not None:
                    raise ValueError(problem)
                for run in (*self.others, None):
                    if self.status_words[0]:
                        self.complain()
                    if run is not None:
                        run()
                return results, numbers[read:-1].tolist()
            except BaseException:
                for array, copied in zip(risky, copies, strict=True):
                    array[...] = copied
                raise
            finally:
                self.scalars[:], self.slots[:] = before

    def complain(self) -> None:
        """Raise the failure that a kernel wrote to the status block."""
        code = int(self.status[0])
        self.status[0] = 0
        if code == OUT_OF_RANGE:
            index, length = map(int, self.status[1:3])
            raise IndexError(f"index {index} is out of range for a dimension of length {length}")
        raise RuntimeError(f"a compiled kernel failed with status {code}")
