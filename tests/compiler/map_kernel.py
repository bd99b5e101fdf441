"""A kernel with one elementwise expression, compiled and called on arrays.

It computes full vectors first and then the rest one by one, so it tests each emitter with many
lanes and with one.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gradwalk.compiler.backends.llvm.emit.ir_builder import Declaration, IRBuilder
from gradwalk.compiler.backends.llvm.emit.vector import Type, Vector, VectorBuilder, lanes_for
from gradwalk.compiler.backends.llvm.runtime.object_code import Library, assembly, compile_module
from gradwalk.compiler.backends.llvm.target import host

Array = np.ndarray[Any, Any]
Body = Callable[[IRBuilder, int, list[Vector]], Vector]


class MapKernel:
    """`body(function, lanes, values)` over arrays of these dtypes; call it with the arrays."""

    def __init__(self, body: Body, dtypes: Sequence[Any], result: Any, name: str = "map") -> None:
        self.name = name
        self.dtypes = [np.dtype(d) for d in dtypes]
        self.result = np.dtype(result)
        self.declarations: set[Declaration] = set()
        self.text = self._write(body)
        self._call: Callable[..., None] | None = None

    def _write(self, body: Body) -> str:
        names = [f"%in{k}" for k in range(len(self.dtypes))]
        parameters = ", ".join(f"ptr noalias {name}" for name in (*names, "%out"))
        f = VectorBuilder(self.name, f"{parameters}, i64 %n")
        full = lanes_for([*self.dtypes, self.result], host().vector_bytes)
        rest = f.set(f"srem i64 %n, {full}")
        whole = f.set(f"sub i64 %n, {rest}")
        for first, end, lanes in ((0, whole, full), (whole, "%n", 1)):
            with f.loop(first, end, lanes) as loop:
                values = [
                    f.load(f.element(name, dtype, loop.index), Type(dtype, lanes))
                    for name, dtype in zip(names, self.dtypes)
                ]
                out = body(f, lanes, values)
                assert out.type == Type(self.result, lanes), (out.type, self.result)
                f.store(out, f.element("%out", self.result, loop.index))
        self.declarations = f.declarations
        return f.finish()

    def assembly(self) -> str:
        """The assembly code."""
        return assembly({self.name: self.text}, self.declarations)

    def use(self, library: Library) -> None:
        """Call the code in this library from now on."""
        pointers = [ctypes.c_void_p] * (len(self.dtypes) + 1)
        self._call = library.function(self.name, None, *pointers, ctypes.c_int64)

    def __call__(self, *arrays: Array, out: Array | None = None) -> Array:
        if self._call is None:
            compile_maps([self])
        assert self._call is not None
        given = [np.ascontiguousarray(a, d) for a, d in zip(arrays, self.dtypes, strict=True)]
        out = np.empty(given[0].shape, self.result) if out is None else out
        self._call(*(a.ctypes.data for a in (*given, out)), given[0].size)
        return out


def compile_maps(kernels: Sequence[MapKernel]) -> None:
    """Compile kernels together: starting LLVM takes as long as ten of them."""
    declarations = sorted({d.text for kernel in kernels for d in kernel.declarations})
    text = "\n".join([*declarations, *(kernel.text for kernel in kernels)])
    library = compile_module(text, [kernel.name for kernel in kernels])
    for kernel in kernels:
        kernel.use(library)


def ulps(found: Array, truth: Array) -> Array:
    """The error of `found` against a more precise reference, in units in the last place.

    An equal infinity, or a NaN in both, is no error; any other mismatch counts as infinite.
    """
    with np.errstate(all="ignore"):
        nearest = truth.astype(found.dtype)
        unit = np.spacing(np.abs(nearest)).astype(truth.dtype)
        error = np.abs(found.astype(truth.dtype) - truth) / unit
    same = (found == nearest) & ~np.isfinite(nearest) | np.isnan(found) & np.isnan(truth)
    return np.where(same, 0, np.where(np.isnan(error), np.inf, error)).astype(np.float64)
