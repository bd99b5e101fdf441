"""Record without copies, for tools that read the trace at once and drop it."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import numpy as np

from gradwalk.inspect.trace.from_graph import from_graph
from gradwalk.inspect.trace.live import is_torch_tensor
from gradwalk.inspect.trace.recorder import Recorder, as_trace, current
from gradwalk.inspect.trace.statistics import Size
from gradwalk.inspect.trace.trace import Kept, Trace


class LightRecorder(Recorder):
    """Reference values, and gradients at some ops ("" for leaves); measure everything else."""

    def __init__(self, gradients_at: Collection[str] = ()) -> None:
        super().__init__()
        self._gradients_at = gradients_at

    def _kept(self, array: Any, what: str, index: int) -> Kept:
        array = getattr(array, "_array", array)
        if array is None:
            return None
        return np.asarray(array) if self._refers(what, index) else Size.of(array)

    def _refers(self, what: str, index: int) -> bool:
        if what == "grads":
            return self.trace.nodes[index].op in self._gradients_at
        return what == "values"


def light_trace(second: Any, gradients_at: Collection[str] = ()) -> Trace:
    """As `as_trace`, but without copying the arrays of an unrecorded graph."""
    if is_torch_tensor(second):
        return as_trace(second)
    if not hasattr(second, "_array"):
        if second is None or isinstance(second, Trace) or hasattr(second, "_backward"):
            return as_trace(second)
        raise TypeError(f"a loss (a Tensor) or a trace is needed, not {type(second).__name__}")
    known = current()
    if known is not None and known.sweeps and known.lookup(second) == known.root:
        return known
    return from_graph(second, LightRecorder(gradients_at))
