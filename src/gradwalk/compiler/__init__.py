"""gradwalk.compile: a function, or a whole training step, as one native function.

function.py   `compile`, and the object it returns
pipeline.py   the order of the stages: trace -> passes -> plan -> backend -> call
ir/           Program: calls of ops on terms
tracing/      runs a function once on abstract arrays, which gives a Program
capture/      what the function reads besides its arguments, and where a call finds it
passes/       Program -> Program: simpler, with less to do
plan/         which calls become one kernel, and where arrays are in memory
backends/     NumPy, the reference, and LLVM
call/         the generated function that a call runs
introspect/   explain(), source(), graph
scalars/      recorded graphs of Values as native code
"""

from __future__ import annotations

from typing import Any

from gradwalk.engine.modes import state as _modes

__all__ = [
    "allow_in_graph", "assume_constant_result", "cudagraph_mark_step_begin", "disable",
    "is_compiling", "is_dynamo_compiling", "is_exporting", "reset",
]  # fmt: skip

# PyTorch's `compiler`: questions and marks in the code of models.


def is_compiling() -> bool:
    """Whether a function is being traced, to be compiled."""
    return _modes.here.tracer is not None


is_dynamo_compiling = is_compiling


def is_exporting() -> bool:
    """False: a function is exported as it is compiled."""
    return False


def disable(fn: Any = None, recursive: bool = True, *, reason: str | None = None) -> Any:
    """The function itself, which is traced with what calls it; usable with and without brackets."""
    return (lambda function: function) if fn is None else fn


def allow_in_graph(fn: Any) -> Any:
    """The function itself: every function is traced."""
    return fn


assume_constant_result = allow_in_graph


def cudagraph_mark_step_begin() -> None:
    """Nothing: there are no CUDA graphs."""


def reset() -> None:
    """Nothing: what was compiled stays; another shape or dtype is compiled anew."""
