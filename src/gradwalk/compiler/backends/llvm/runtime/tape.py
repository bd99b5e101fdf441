"""A tape: the kernels of a compiled step in order, with their arguments, ready to be called.

    tape = Tape(
        [TapeEntry(library["scale"], [2, 0, 3, 0, n]), TapeEntry(library["sum"], [...], BARRIER)],
        slots=5,
        arrays=[Expected(2, np.float32, (n,)), Expected(3, np.float32, (n,), writable=True)],
    )
    tape.call(x, out)

A kernel is `void kernel(ptr slots, ptr args, i64 thread, i64 threads)`: `slots` are base pointers
(0 the arena, 1 the status block, then inputs, state and outputs), `args` its own block of i64, for
operand j `args[2j]` the slot and `args[2j+1]` the byte offset, then sizes.

`call` is a builtin function (calling.py): it checks the arrays, puts their data pointers into their
slots and runs. With two arrays that takes 50 ns, of which Python's call itself is half; a ctypes
function alone takes 150 ns, and two `slots[k] = array.ctypes.data` before it 2 µs.
"""

from __future__ import annotations

import ctypes
import functools
import itertools
import operator
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import DTypeLike, NDArray

from gradwalk.compiler.backends.llvm.runtime import calling, tape_loop, thread_pool
from gradwalk.compiler.backends.llvm.runtime.tape_loop import ALONE, BARRIER, FIELD, STOP

__all__ = ["ALONE", "TapeEntry", "Expected", "BARRIER", "STOP", "Tape"]

Words = NDArray[np.int64]


class TapeEntry(NamedTuple):
    """One kernel call: its address, its block of arguments, and BARRIER, ALONE, STOP or 0."""

    kernel: int
    arguments: Sequence[int]
    flags: int = 0


class Expected(NamedTuple):
    """An array that `call` is given: its data pointer goes to `slot` if it is as described."""

    slot: int
    dtype: DTypeLike
    shape: tuple[int, ...]
    strides: tuple[int, ...] | None = None  # in bytes; None: C order
    writable: bool = False

    def words(self) -> list[int]:
        """As the builtin compares it: sizes, then strides (those of sizes 0 and 1 mean nothing)."""
        flags = calling.ALIGNED
        flags |= calling.WRITEABLE if self.writable else 0
        flags |= calling.CONTIGUOUS if self.strides is None else 0
        # NumPy has one object per builtin dtype, and arrays of it point there.
        head = [self.slot, id(np.dtype(self.dtype)), flags, len(self.shape)]
        return [*head, self.strides is not None, *self.shape, *(self.strides or ())]

    def misfit(self, array: Any) -> str | None:
        """What is wrong with an array, for people; None if nothing is."""
        if type(array) is not np.ndarray:
            return f"is a {type(array).__name__}, not an array"
        if array.dtype != self.dtype:
            return f"has dtype {array.dtype}, not {np.dtype(self.dtype)}"
        if array.shape != self.shape:
            return f"has shape {array.shape}, not {self.shape}"
        if not array.flags.aligned:
            return "is not aligned to its element size"
        if self.writable and not array.flags.writeable:
            return "is read-only"
        if self.strides is None:
            return None if array.flags.c_contiguous else "is not contiguous"
        pairs = zip(array.shape, array.strides, self.strides)
        if any(size > 1 and has != wants for size, has, wants in pairs):
            return f"has strides {array.strides}, not {self.strides}"
        return None


class _Program(np.ndarray[Any, np.dtype[np.int64]]):
    """The words the runtime reads (tape_loop.PROGRAM); as `self` of the builtin it keeps alive all
    they point to."""

    kept: tuple[Any, ...]
    expected: tuple[Expected, ...]
    misfit: Callable[..., Any] | None


class Tape:
    """Kernels in order, ready to be called.

    `slots` is how many there are, or the array of them (two tapes of one step share it). Calls
    use at most `threads` threads (0: all of the pool). `call(*arrays)` takes what `arrays`
    describes, and returns None when all is done.

    If an array does not fit, `call` returns `misfit(*arrays)` instead of running; without that
    function it raises ValueError. `keep` lives as long as `call` does: libraries, the arena.

    One thread at a time runs a tape (others wait their turn): its slots and its arena are one. A
    caller that reads results out of the arena afterwards must keep others out meanwhile.
    """

    def __init__(
        self,
        entries: Sequence[TapeEntry],
        slots: int | Words,
        *,
        arrays: Sequence[Expected] = (),
        threads: int = 0,
        misfit: Callable[..., Any] | None = None,
        keep: Any = None,
    ) -> None:
        self.slots: Words = np.zeros(slots, np.int64) if isinstance(slots, int) else slots
        self._entries = entries
        # The blocks of all entries, one after the other; they may be changed between calls.
        self.arguments = _flat([entry.arguments for entry in entries])
        sizes = (8 * len(entry.arguments) for entry in entries)
        blocks = itertools.accumulate(sizes, initial=_address(self.arguments))
        table = _flat([(e.kernel, block, e.flags) for e, block in zip(entries, blocks)])
        segments = _flat(_segments([entry.flags for entry in entries]))
        expected = _flat([one.words() for one in arrays])
        program = np.zeros(len(FIELD), np.int64).view(_Program)
        for name, value in dict(
            entries=_address(table),
            count=len(entries),
            segments=_address(segments),
            segment_count=len(segments) // 3,
            slots=_address(self.slots),
            most_threads=threads if entries else 1,
            arrays=len(arrays),
            expected=_address(expected),
            ndarray=id(np.ndarray),
            none=id(None),
            refused=id(_refused),
        ).items():
            program[FIELD[name]] = value
        program.kept = (self.slots, self.arguments, table, segments, expected, keep)
        program.expected = tuple(arrays)
        program.misfit = misfit
        self._program = program
        self.call = _builtin(program)
        thread_pool.live_programs[id(program)] = program

    def ran(self) -> bool:
        """Whether the last call came to its end, though it may have raised: Python raises what a
        signal's handler raises right after native code."""
        return bool(self._program[FIELD["ran"]])

    def seconds(self, *arrays: Any) -> list[float]:
        """Run once, entry by entry, and say how long each took (each with its own start and end of
        the pool, well under a microsecond when hot)."""
        Tape([], self.slots, arrays=self._program.expected).call(*arrays)
        thread_pool.start()
        threads = int(self._program[FIELD["most_threads"]])
        times = []
        for tape in [Tape([entry], self.slots, threads=threads) for entry in self._entries]:
            begin = time.perf_counter()
            tape.call()
            times.append(time.perf_counter() - begin)
        return times


# -- the builtin -----------------------------------------------------------------------------------


def _builtin(program: _Program) -> Callable[..., Any]:
    """The builtin that runs this program."""
    new = ctypes.pythonapi.PyCFunction_NewEx
    new.argtypes = [ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p]
    new.restype = ctypes.py_object
    return new(ctypes.addressof(thread_pool.native().method), program, None)


def _refused(program: _Program, reason: int, *arrays: Any) -> Any:
    """What the builtin calls when it did not run the program."""
    if reason == tape_loop.NO_WORKERS:
        thread_pool.start()
    elif reason == tape_loop.BUSY:
        while program[FIELD["running"]]:
            time.sleep(20e-6)
    else:
        fitting = _same_dtype_objects(program.expected, arrays)
        if fitting is None:
            return (program.misfit or functools.partial(_raise_misfit, program.expected))(*arrays)
        arrays = fitting
    return _builtin(program)(*arrays)


def _same_dtype_objects(
    expected: Sequence[Expected], arrays: Sequence[Any]
) -> tuple[Any, ...] | None:
    """The arrays with NumPy's own dtype objects, if that was all that was wrong with them: an
    unpickled array has a dtype of its own, equal to the builtin one but not the same object."""
    if len(expected) != len(arrays):
        return None
    if any(one.misfit(array) for one, array in zip(expected, arrays)):
        return None
    dtypes = [np.dtype(one.dtype) for one in expected]
    if all(array.dtype is dtype for array, dtype in zip(arrays, dtypes)):
        return None
    return tuple(array.view(dtype) for array, dtype in zip(arrays, dtypes))


def _raise_misfit(expected: Sequence[Expected], *arrays: Any) -> None:
    if len(arrays) != len(expected):
        raise ValueError(f"{len(expected)} arrays are expected, not {len(arrays)}")
    for place, (one, array) in enumerate(zip(expected, arrays, strict=True)):
        if (problem := one.misfit(array)) is not None:
            raise ValueError(f"array {place} {problem}")


def _segments(flags: Sequence[int]) -> list[tuple[int, int, int]]:
    """The entries between two meetings, as (first, end, ALONE and STOP where they hold for all)."""
    starts = [place for place, one in enumerate(flags) if place == 0 or one & BARRIER]
    return [
        (first, end, flags[first] & STOP | functools.reduce(operator.and_, flags[first:end], ALONE))
        for first, end in zip(starts, [*starts[1:], len(flags)])
    ]


def _flat(lists: Sequence[Sequence[int]]) -> Words:
    return np.array([word for words in lists for word in words], np.int64)


def _address(array: NDArray[Any]) -> int:
    return array.ctypes.data
