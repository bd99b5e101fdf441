"""Kernels for single eager calls (tensors/single_calls.py).

Tracing runs the very function that NumPy would run, on abstract arrays. So no op is defined a
second time here: a kernel is the Program of one forward or one rule, compiled.
"""

from __future__ import annotations

import contextvars
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from gradwalk.compiler.backends.llvm.executable import NativeExecutable
from gradwalk.compiler.backends.llvm.runtime.object_code import CompileError
from gradwalk.compiler.ir.program import Argument, Program, Term
from gradwalk.compiler.pipeline import build, no_collections
from gradwalk.compiler.tracing.errors import TraceError
from gradwalk.compiler.tracing.traced import Traced
from gradwalk.compiler.tracing.tracer import Tracer, tracing

Array = np.ndarray[Any, Any]


class TracedCall:
    """The program of one call, and what the call returns."""

    def __init__(
        self, function: Callable[..., Any], arrays: Sequence[Array], static: Mapping[str, Any]
    ) -> None:
        tracer = Tracer()
        terms = [Term(a.shape, a.dtype, source=Argument(i)) for i, a in enumerate(arrays)]
        traced = [Traced(tracer, term) for term in terms]
        with tracing(tracer):
            found = function(*traced, **static)
            self.several = isinstance(found, (tuple, list))
            # An array here is the same in every call, None is a gradient that is not wanted.
            self.outputs = list(found) if self.several else [found]
            self.computed = [i for i, o in enumerate(self.outputs) if isinstance(o, Traced)]
            results = [self.outputs[i].term for i in self.computed]
            updates = [(t, a._term) for t, a in zip(terms, traced, strict=True) if a._term is not t]
            self.program = Program(tracer.build.calls, results, updates)
            self.is_whole = bool(results or updates) and not tracer.storages
        self.is_whole = self.is_whole and all(t.call is not None for t in results)
        # Of arrays that do not lie in row-major order; they are read and written where they lie.
        self.layout = {
            term: tuple([stride // a.itemsize for stride in a.strides])
            for term, a in zip(terms, arrays, strict=True)
            if not a.flags.c_contiguous
        }
        for i in self.computed:
            self.outputs[i] = None


def kernel(
    function: Callable[..., Any], arrays: Sequence[Array], static: Mapping[str, Any]
) -> Callable[..., Any] | None:
    """Native code for function(*arrays, **static) on such arrays, with the same strides; None if
    NumPy is to compute it: a part has no native code, or llvmlite is missing.

    What the function writes to its arrays, the code writes there.
    """
    try:
        with no_collections():
            # In a context of its own: the caller may be recording.
            reading = contextvars.Context().run(TracedCall, function, arrays, static)
            if not reading.is_whole:
                return None
            executable: NativeExecutable = build(reading.program, reading.layout)
    except (TraceError, CompileError, ImportError):
        return None
    if executable.others:
        return None
    return _call(executable, reading)


def _call(executable: NativeExecutable, reading: TracedCall) -> Callable[..., Any]:
    """A function of the arrays that runs the executable; it returns None for arrays whose memory
    is not aligned or, if it is to be written, read-only. A call that only writes returns True."""
    order, kinds, start = executable.argument_order, executable.result_kinds, executable.start
    outputs, computed, several = reading.outputs, reading.computed, reading.several
    empty, status = np.empty, executable.status_words

    def call(*arrays: Array) -> Any:
        results = [empty(shape, dtype) for shape, dtype in kinds]
        if start(*[arrays[i] for i in order], *results) is not None:
            return None
        if status[0]:
            executable.complain()
        if not several:
            return results[0] if results else True
        answer = list(outputs)
        for i, result in zip(computed, results, strict=True):
            answer[i] = result
        return tuple(answer)

    return call
