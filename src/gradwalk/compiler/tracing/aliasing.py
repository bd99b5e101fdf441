"""Memory that must lie apart for a traced program to be right."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.lib.array_utils import byte_bounds

from gradwalk.compiler.tracing.errors import TraceError
from gradwalk.compiler.tracing.outcome import Trace

Array = np.ndarray[Any, Any]


def overlap(arrays: list[Array], written: list[int]) -> tuple[int, int] | None:
    """Two of the arrays that share memory, one of which is written to; None if there are none."""
    spans = sorted((*byte_bounds(a), n) for n, a in enumerate(arrays) if a.size)
    changed = set(written)
    open_spans: list[tuple[int, int]] = []  # (end, number) of those that may reach further
    for start, end, number in spans:
        open_spans = [span for span in open_spans if span[0] > start]
        for _, other in open_spans:
            if (number in changed or other in changed) and np.shares_memory(
                arrays[number], arrays[other]
            ):
                return other, number
        open_spans.append((end, number))
    return None


def check_apart(trace: Trace, written: list[int]) -> None:
    """Raise if captured memory that is changed overlaps other captured memory, or if some is not
    aligned."""
    for captured in trace.captured:
        if not captured.array.flags.aligned:
            raise TraceError(
                f"a tensor that the compiled function knows (of shape {captured.array.shape}) is "
                "not aligned to the size of its elements.\nFix: .clone() it before."
            )
    found = overlap([captured.array for captured in trace.captured], written)
    if found is not None:
        shapes = [trace.captured[n].array.shape for n in found]
        raise TraceError(
            f"two tensors that the compiled function knows (of shapes {shapes[0]} and "
            f"{shapes[1]}) share memory in a way that cannot be said by views, and one of them is "
            "changed in place.\nFix: .clone() one of them before."
        )
