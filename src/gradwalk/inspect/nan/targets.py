"""What find_nan searches: the trace of a loss, of a recording, or of what a function computes."""

from __future__ import annotations

import sys
from typing import Any

from gradwalk.engine.errors import AutogradError
from gradwalk.inspect.trace.live import guest, is_tensor, is_torch_tensor
from gradwalk.inspect.trace.recorder import as_trace, current, record
from gradwalk.inspect.trace.trace import Trace


def trace_and_root(target: Any, budget: int | None) -> tuple[Trace, int | None, bool]:
    """The trace, the node in question if any, and whether a function was called."""
    if target is None or isinstance(target, Trace):
        return as_trace(target), None, False
    if callable(target):
        with _recording(budget) as trace:
            result = target()
        if hasattr(result, "_backward") and not hasattr(result, "_array"):
            return record(result), None, True  # Values are recorded from their graph
        known = trace.lookup(result) if is_tensor(result) else None
        return trace, known, True
    known_trace = current()
    if known_trace is not None:
        index = known_trace.lookup(target)
        if index is not None:
            return known_trace, index, False
    if not is_tensor(target) and not hasattr(target, "_backward"):
        raise TypeError(
            "find_nan takes a function to call, a loss (a Value or a Tensor), or a trace, not "
            f"{type(target).__name__}"
        )
    try:
        return record(target), None, False
    except AutogradError as error:
        raise AutogradError(
            "find_nan: the backward pass has freed the numbers of this graph.\n"
            "Fix: find_nan(lambda: step()), which records what the function computes, or "
            f"compute inside `with gradwalk{'.torch' * is_torch_tensor(target)}.record():`."
        ) from error


def _recording(budget: int | None) -> Any:
    """A recording of a function that may use PyTorch, if PyTorch is loaded."""
    if "torch" in sys.modules:
        return guest().recorder(budget)
    return record(budget=budget)
