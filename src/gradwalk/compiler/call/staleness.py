"""Staleness: a compiled function is traced again from time to time, and must give the same program.

Guards see most changes of what a function reads, and the call after a change compiles anew. What
they do not see is found here: `scheduled` runs at the 2nd, 8th, 64th, 512th, ... call of a program,
before it runs. A difference is an error.

The second trace is not to be noticed: what the function prints or logs is dropped, what it changes
is put back, and random numbers are drawn as in the first one. A function that does what cannot be
undone, or reads a clock, is not traced again (`unchecked` says why).

Cost: `QUICK` seconds at most for each of the first four checks; any other waits until the calls
have taken `RATIO` times as long.
"""

from __future__ import annotations

import contextlib
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from gradwalk.compiler.call.writer import NEVER
from gradwalk.compiler.capture.guards import Variable
from gradwalk.compiler.tracing.arguments import UNALIGNED, TensorSignature, replaced
from gradwalk.compiler.tracing.deferred_signals import signals_deferred
from gradwalk.compiler.tracing.differences import difference
from gradwalk.compiler.tracing.errors import LeakedError, StaleError
from gradwalk.compiler.tracing.outcome import TracedProgram
from gradwalk.graph.source import where_text
from gradwalk.tensors.apply import wrap

FACTOR = 8  # from one scheduled call to the next
RATIO = 100  # time in calls for each time in checks
QUICK = 0.02  # seconds: a check that takes less keeps to the schedule ...
ALWAYS = 512  # ... up to this call

_cpu_time = getattr(time, "thread_time", time.perf_counter)  # a busy machine does not count

# Trace for (positional arguments, those by name), given captured arrays that own their memory.
Again = Callable[[Any, Any, Sequence[Any]], TracedProgram]


class Staleness:
    """When one program is checked, and how."""

    def __init__(
        self,
        name: str,
        trace: TracedProgram,
        again: Again,
        call: tuple[Any, Any],
        static: frozenset[Any],
        tensors: tuple[TensorSignature, ...],
    ) -> None:
        self.name = name
        self.trace = trace
        self.again = again
        self.unchecked = trace.environment.unrepeatable()
        self.seconds = 0.0  # of this thread's work for the last check
        self.last = (0, time.perf_counter())  # the call after which it was, and when
        self._sample = _Sample(call, static, tensors, trace)

    def first(self) -> int:
        """After how many calls the first check is due."""
        return NEVER if self.unchecked else 1

    def scheduled(self, count: int, arrays: list[Any], args: Any, keywords: Any) -> int:
        """Check, if it costs little enough, after `count` calls; return when the next is due."""
        at, when = self.last
        elapsed = time.perf_counter() - when
        early = count < ALWAYS and self.seconds <= QUICK
        if count > 1 and not early and elapsed < RATIO * self.seconds:
            calls = (RATIO * self.seconds - elapsed) * (count - at) / max(elapsed, 1e-9)
            return count + max(1, int(calls))
        try:
            self.check(arrays, args, keywords)
        except LeakedError as error:
            self.unchecked = "it keeps a tensor that it made while it was traced"
            warnings.warn(
                f"{self.name} cannot be traced again to see if its program is still right: {error}",
                UserWarning,
                stacklevel=5,
            )
            return NEVER
        self.last = (count, time.perf_counter())
        due = FACTOR
        while due - 1 <= count:
            due *= FACTOR
        return due - 1

    def check(self, arrays: list[Any], args: Any, keywords: Any) -> None:
        """Trace the function again; raise if it gives another program."""
        start = _cpu_time()
        # What is found in a variable counts as memory of its own anyway.
        whole = [
            array
            for array, memory in zip(arrays, self.trace.captured, strict=True)
            if not all(isinstance(location, Variable) for location in memory.locations)
        ]
        with signals_deferred(), unnoticed(self.trace):
            now = self.again(args, keywords, whole)
        found = difference(self.trace, arrays, now)
        self.seconds = _cpu_time() - start
        if found is not None:
            lines = [("before", found.before), ("now", found.now)]
            if found.before is not None and found.before == found.now:
                lines = [("used at", found.now)]
            text = [f"  {name + ':':<11}{where_text(*line)}" for name, line in lines if line]
            raise StaleError(
                "\n".join([f"{self.name} reads a value that has changed: {found.what}.", *text])
                + "\nFix: pass the value as an argument (a float or a tensor), or keep it in a "
                "tensor and change that in place. The next call compiles the function anew."
            )

    def sample(self) -> tuple[Any, Any]:
        """Arguments like those of the call that was traced."""
        return self._sample.make()


class _Sample:
    """The arguments of a call without the memory of its tensors."""

    def __init__(
        self,
        call: tuple[Any, Any],
        static: frozenset[Any],
        tensors: tuple[TensorSignature, ...],
        trace: TracedProgram,
    ) -> None:
        self.static = static
        self.places: dict[int, _Place] = {}

        def place(tensor: Any) -> Any:
            known = self.places.get(id(tensor))
            if known is None:
                number = len(self.places)
                kept = trace.captured_arguments.get(number)
                known = _Place(type(tensor), tensors[number], tensor._grad is not None, kept)
                self.places[id(tensor)] = known
            return known

        self.call = tuple(replaced(part, place, lambda v, _: v, static, None) for part in call)

    def make(self) -> tuple[Any, Any]:
        made: dict[int, Any] = {}

        def fill(place: Any) -> Any:
            return made.setdefault(id(place), place.tensor())

        args, keywords = (
            replaced(part, fill, lambda v, _: v, self.static, None) for part in self.call
        )
        return args, keywords


class _Place:
    """Where a tensor was; it has an `_array`, as a tensor has, to be found in nested arguments."""

    _array = None

    def __init__(self, kind: Any, signature: TensorSignature, has_grad: bool, kept: Any) -> None:
        self.kind = kind
        self.signature = signature
        self.has_grad = has_grad
        self.kept = kept  # a tensor that the function knows by itself

    def tensor(self) -> Any:
        """A tensor of zeros like the one that was there."""
        if self.kept is not None:
            return self.kept
        shape, dtype, order, requires_grad = self.signature
        if order is None:
            array = np.zeros(shape, dtype)
        elif order == UNALIGNED:
            count = int(np.prod(shape)) * dtype.itemsize
            array = np.zeros(count + 1, np.uint8)[1:].view(dtype).reshape(shape)
        else:
            reach = sum(abs(step) * (n - 1) for step, n in zip(order, shape, strict=True))
            start = sum(-step * (n - 1) for step, n in zip(order, shape, strict=True) if step < 0)
            memory = np.zeros(reach + dtype.itemsize, np.uint8)
            array = np.ndarray(shape, dtype, memory, start, order)
        tensor = object.__new__(self.kind)
        tensor._set(array, None, 0)
        tensor._requires_grad = requires_grad
        tensor._grad = wrap(np.zeros(shape, dtype)) if self.has_grad else None
        return tensor


# -- so that nobody notices ------------------------------------------------------------------------


@contextlib.contextmanager
def unnoticed(trace: TracedProgram) -> Iterator[None]:
    """Let this thread print and log nothing, and draw the random numbers of the first trace."""
    environment = trace.environment
    now = [(ask, put, ask()) for _, ask, put, _ in environment.drawn if put is not None]
    for _, _, put, before in environment.drawn:
        if put is not None:
            put(before)
    with contextlib.ExitStack() as stack:
        for stream in ("stdout", "stderr"):
            stack.enter_context(_silenced(sys, stream))
        logging = sys.modules.get("logging")
        if logging is not None:
            stack.enter_context(_no_records(logging))
        try:
            yield
        finally:
            for _, put, state in now:
                put(state)


class _OtherThreads:
    """A stream that drops what one thread writes."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self._thread = threading.get_ident()

    def write(self, text: Any) -> Any:
        if threading.get_ident() == self._thread:
            return len(text)
        return self._stream.write(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


@contextlib.contextmanager
def _silenced(holder: Any, name: str) -> Iterator[None]:
    stream = getattr(holder, name)
    quiet = _OtherThreads(stream)
    setattr(holder, name, quiet)
    try:
        yield
    finally:
        if getattr(holder, name) is quiet:
            setattr(holder, name, stream)


@contextlib.contextmanager
def _no_records(logging: Any) -> Iterator[None]:
    """Let this thread's records go nowhere."""
    handle, thread = logging.Logger.callHandlers, threading.get_ident()

    def from_other_threads(logger: Any, record: Any) -> None:
        if threading.get_ident() != thread:
            handle(logger, record)

    logging.Logger.callHandlers = from_other_threads
    try:
        yield
    finally:
        logging.Logger.callHandlers = handle
