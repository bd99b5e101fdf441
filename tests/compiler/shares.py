"""Run a kernel as several threads would: each share in turn, in one thread."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import numpy as np

from gradwalk.compiler.backends.llvm.emit.kernel_builder import Kernel
from gradwalk.compiler.backends.llvm.runtime.object_code import compile_text
from gradwalk.compiler.plan.buffers import Buffer, Slice, contiguous_strides

Array = np.ndarray[Any, Any]
_signature = ctypes.CFUNCTYPE(
    None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64
)


def place_of(array: Array) -> Slice:
    """An array as the plan describes it; dimensions of length 1 have stride 0."""
    if array.size == 0:
        strides = contiguous_strides(array.shape)
        return Slice(Buffer(0), array.dtype, array.shape, strides)
    pairs = zip(array.shape, array.strides, strict=True)
    strides = tuple(0 if n == 1 else s // array.itemsize for n, s in pairs)
    return Slice(Buffer(array.nbytes), array.dtype, array.shape, strides)


def run_shares(kernel: Kernel, arrays: Sequence[Array], threads: int) -> int:
    """Run every thread's share, the last thread first; return the status."""
    library = compile_text({kernel.name: kernel.text}, kernel.declarations, kernel.symbols)
    status = np.zeros(8, np.int64)
    pointers = [0, status.ctypes.data, *(a.ctypes.data for a in arrays)]
    slots = np.array(pointers, np.int64)
    block = [word for j in range(len(arrays)) for word in (2 + j, 0)]
    arguments = np.array([*block, *kernel.sizes], np.int64)
    call = _signature(library[kernel.name])
    for thread in reversed(range(threads)):
        call(slots.ctypes.data, arguments.ctypes.data, thread, threads)
    return int(status[0])


def scratch_memory(size: int) -> Array:
    """Aligned bytes that are NaN as floats, which exposes reads before a write."""
    memory = np.full(size + 64, 255, np.uint8)
    start = -memory.ctypes.data % 64
    return memory[start : start + size]
