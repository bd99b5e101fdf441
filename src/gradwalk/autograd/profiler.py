"""PyTorch's older place of `gradwalk.profiler`."""

from gradwalk.profiler import profile as profile
from gradwalk.profiler import record_function as record_function

__all__ = ["emit_nvtx", "profile", "record_function"]

emit_nvtx = profile
