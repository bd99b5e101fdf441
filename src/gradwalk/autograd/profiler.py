"""PyTorch's older place of `gradwalk.profiler`."""

import importlib
from typing import Any

__all__ = ["EventList", "emit_nvtx", "profile", "record_function"]

_profiler: Any = importlib.import_module("gradwalk.profiler")
profile = emit_nvtx = _profiler.profile
record_function = _profiler.record_function
EventList = list
