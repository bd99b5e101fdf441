"""Columns: reductions that keep the innermost dimension, such as the gradient of a bias.

Each thread takes some blocks of columns, a few vectors wide, and goes through all rows with one
accumulator per vector: every column is added up from the first row to the last, as NumPy does.
What is computed on the way may be stored as well.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from gradwalk.compiler.backends.llvm.emit.combine import combine, identity
from gradwalk.compiler.backends.llvm.emit.kernel import (
    Kernel,
    KernelWriter,
    apply_op,
    element_pointer,
    first_lanes,
    kernel_like,
    lanes_for,
    load_along,
    store_along,
)
from gradwalk.compiler.backends.llvm.emit.vector_values import Kind, Value
from gradwalk.compiler.plan.loop_nest import Apply, Load, Loops, Number, Reduce, Store

WIDEST = 4  # vectors in a block of columns


def columns_kernel(loops: Loops, vector_bytes: int) -> Kernel:
    """The kernel of some loops with `reduced` dimensions."""
    return kernel_like(loops, vector_bytes, lambda: _Columns(loops, vector_bytes).write())


class _Columns:
    def __init__(self, loops: Loops, vector_bytes: int) -> None:
        self.loops = loops
        self.steps = loops.steps
        moving = [s.dtype for s in self.steps if not isinstance(s, (Store, Number))]
        self.lanes = lanes_for(moving, vector_bytes)
        self.reductions = [k for k, s in enumerate(self.steps) if isinstance(s, Reduce)]
        results = set(self.reductions)
        stores = [s for s in self.steps if isinstance(s, Store)]
        self.inside = [s for s in stores if s.arg not in results]
        self.at_end = [s for s in stores if s.arg in results]
        (length,) = loops.row
        self.width = max(1, min(WIDEST, length // self.lanes))
        self.f = KernelWriter(len(loops.accesses))

    def write(self) -> Kernel:
        f, loops = self.f, self.loops
        inner = len(loops.outer) + len(loops.reduced)
        self.strides = [
            [
                str(s) if s == 0 or (s == 1 and d == inner) else f.size(loops.size_of_stride(k, d))
                for d, s in enumerate(a.strides)
            ]
            for k, a in enumerate(loops.accesses)
        ]
        outer = [f.size(d) for d in range(len(loops.outer))]
        self.reduced = [f.size(len(outer) + d) for d in range(len(loops.reduced))]
        (length,) = loops.row
        block = self.width * self.lanes
        blocks = -(-length // block)
        first, end = f.share(functools.reduce(f.multiply, outer, str(blocks)))
        with f.loop(first, end) as unit:
            number = f.set(f"urem i64 {unit.index}, {blocks}")
            row = f.set(f"udiv i64 {unit.index}, {blocks}")
            self.indices: list[str] = []
            for size in reversed(outer):
                self.indices.insert(0, f.set(f"urem i64 {row}, {size}"))
                row = f.set(f"udiv i64 {row}, {size}")
            column = f.multiply(number, str(block))
            if length % block == 0:
                self._block(column, None)
            else:
                self._last_block(column, length, block)
        return f.kernel()

    def _last_block(self, column: str, length: int, block: int) -> None:
        """A whole block, or what is left: vector by vector, the lanes beyond the end masked."""
        f = self.f
        left = f.set(f"sub i64 {length}, {column}")
        whole = f.set(f"icmp sge i64 {left}, {block}")
        if length >= block:
            with f.when(whole):
                self._block(column, None)
        partial = f.set(f"xor i1 {whole}, true")
        with f.when(partial):
            masks = []
            for u in range(self.width):
                rest = f.set(f"sub i64 {left}, {u * self.lanes}")
                masks.append(first_lanes(f, rest, self.lanes))
            self._block(column, masks)

    def _block(self, column: str, masks: list[str] | None) -> None:
        f = self.f
        self.columns = [f.add(column, str(u * self.lanes)) for u in range(self.width)]
        self.masks: list[str | None] = [*masks] if masks else [None] * self.width
        given = [
            Value(f, kind, kind.constant(identity(step.how, step.dtype)))
            for _ in range(self.width)
            for step in (self.steps[k] for k in self.reductions)
            if isinstance(step, Reduce) and (kind := Kind(step.dtype, self.lanes))
        ]
        totals = self._nest(0, [], given)
        count = len(self.reductions)
        for u in range(self.width):
            values = dict(zip(self.reductions, totals[u * count : (u + 1) * count], strict=True))
            for s in self.at_end:
                self._store(s.access, values[s.arg], [], u)

    def _nest(self, dimension: int, indices: list[str], given: list[Value]) -> list[Value]:
        """The loops over what is reduced; returns the accumulators."""
        f = self.f
        if dimension == len(self.reduced):
            found: list[Value] = []
            count = len(self.reductions)
            for u in range(self.width):
                found += self._turn(indices, u, given[u * count : (u + 1) * count])
            return found
        carried = [(v.kind.text, v.text) for v in given]
        with f.loop("0", self.reduced[dimension], carried=carried) as loop:
            inside = [Value(f, v.kind, t) for v, t in zip(given, loop.carried, strict=True)]
            found = self._nest(dimension + 1, [*indices, loop.index], inside)
            loop.carry(*(v.text for v in found))
        return [Value(f, v.kind, t) for v, t in zip(given, loop.results, strict=True)]

    def _turn(self, indices: list[str], u: int, totals: list[Value]) -> list[Value]:
        values: dict[int, Value] = {}
        for k, step in enumerate(self.steps):
            match step:
                case Load(access, dtype):
                    values[k] = self._load(access, dtype, indices, u)
                case Apply(op, args, attrs, dtype):
                    given: list[Any] = [
                        a.value if isinstance(a := self.steps[i], Number) else values[i]
                        for i in args
                    ]
                    values[k] = apply_op(
                        self.f, op, given, dict(attrs), dtype, self.lanes, self.masks[u]
                    )
        for s in self.inside:
            self._store(s.access, values[s.arg], indices, u)
        found = []
        for k, total in zip(self.reductions, totals, strict=True):
            step = self.steps[k]
            assert isinstance(step, Reduce)
            found.append(combine(step.how, total, values[step.arg].to(step.dtype)))
        return found

    def _place(self, access: int, indices: list[str], u: int) -> tuple[str, str]:
        f, strides = self.f, self.strides[access]
        full = [*self.indices, *(indices or ["0"] * len(self.reduced)), self.columns[u]]
        offset = f.add(*(f.multiply(i, s) for i, s in zip(full, strides, strict=True)))
        dtype = self.loops.accesses[access].dtype
        return element_pointer(f, f.bases[access], dtype, offset), strides[-1]

    def _load(self, access: int, dtype: np.dtype[Any], indices: list[str], u: int) -> Value:
        pointer, stride = self._place(access, indices, u)
        return load_along(self.f, pointer, stride, Kind(dtype, self.lanes), self.masks[u])

    def _store(self, access: int, value: Value, indices: list[str], u: int) -> None:
        pointer, stride = self._place(access, indices, u)
        value = value.to(self.loops.accesses[access].dtype)
        store_along(self.f, value, pointer, stride, self.masks[u])
