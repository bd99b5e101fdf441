"""From an entry of the plan to a kernel: which generator writes it, and what it is given."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import replace
from typing import Any

import numpy as np

from gradwalk.compiler.graph import Call, Term
from gradwalk.compiler.llvm.columns import columns_kernel
from gradwalk.compiler.llvm.kernel import Kernel, apply_op
from gradwalk.compiler.llvm.products.kernel import product_kernel
from gradwalk.compiler.llvm.products.layout import Schedule, block_sizes, product_of
from gradwalk.compiler.llvm.rows import rows_kernel
from gradwalk.compiler.llvm.scatter import Scatter, scatter_kernel
from gradwalk.compiler.llvm.short_rows import are_short_rows, short_rows_kernel
from gradwalk.compiler.llvm.target import Host
from gradwalk.compiler.llvm.text import Function, is_fast
from gradwalk.compiler.llvm.values import Value
from gradwalk.compiler.plan.kinds import Kind, kind_of, picking
from gradwalk.compiler.plan.loops import Apply, Given, Load, Loops, Number, Store
from gradwalk.compiler.plan.lower import ProductSteps
from gradwalk.compiler.plan.places import Buffer, Place
from gradwalk.compiler.plan.plan import Entry
from gradwalk.ops.linalg import matmul_op


class NoKernel(NotImplementedError):
    """There is no native kernel for a call; it runs as NumPy."""


def kernel_of(entry: Entry, host: Host, threads: int) -> Kernel:
    """The kernel of an entry; scratch memory that it needs is added to the entry's arrays."""
    work = entry.work
    if isinstance(work, Loops):
        if work.reduced:
            return columns_kernel(work, host.vector_bytes)
        if are_short_rows(work, host.vector_bytes):
            return short_rows_kernel(work, host.vector_bytes)
        return rows_kernel(work, host.vector_bytes)
    if isinstance(work, ProductSteps) and work.call.op is matmul_op:
        return _product(entry, work, host, threads)
    if isinstance(work, Call) and kind_of(work)[0] is Kind.SCATTER:
        return _scatter(entry, work, host)
    return _image_kernel(entry, work, host, threads)


def _image_kernel(entry: Entry, work: ProductSteps | Call, host: Host, threads: int) -> Kernel:
    """The kernel of a convolution or a pooling."""
    # Imported here: a program without any does without the longest generators, a third of all.
    from gradwalk.compiler.llvm import image_calls

    try:
        if isinstance(work, ProductSteps):
            return image_calls.convolution(entry, work, _epilogue(work), host, threads)
        if work.op in image_calls.IMAGE_CALLS:
            return image_calls.IMAGE_CALLS[work.op](entry, work, host, threads)
    except image_calls.Unsuited as error:
        raise NoKernel(str(error)) from None
    raise NoKernel(f"{work.op.name} has no native kernel")


def _product(entry: Entry, work: ProductSteps, host: Host, threads: int) -> Kernel:
    shape = work.outputs[0].shape
    *batch, m, n = shape
    k = work.left.shape[-1]
    left, right = (_matrix_strides(p, shape) for p in (work.left, work.right))
    outputs = [(p.dtype, _result_strides(p)) for p in work.outputs]
    extras = [(p.dtype, p.broadcast(shape)) for p in work.extras]
    product, sizes = product_of(work.left.dtype, batch, m, n, k, left, right, outputs, extras)
    scratch = Buffer(max(Schedule.of(product, sizes, host).scratch, 64) * threads)
    place = Place(scratch, np.dtype(np.uint8), (scratch.size,), (1,))
    entry.places.insert(2, place)
    entry.writes.append(place)
    key = (product, work.loops.structure(), is_fast())
    known = _products.get(key)
    if known is None:
        known = product_kernel(product, sizes, host, _epilogue(work))
        _products[key] = known
    return replace(known, sizes=block_sizes(product, sizes, host))


_products: dict[Hashable, Kernel] = {}  # by structure: their sizes are read when they run


def _matrix_strides(place: Place, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Strides over (batch..., rows, columns), the batch broadcast to that of the result."""
    lead = len(shape) - len(place.shape)
    batch = [0 if n == 1 else s for n, s in zip(place.shape[:-2], place.strides, strict=False)]
    return (*(0,) * lead, *batch, *place.strides[-2:])


def _result_strides(place: Place) -> tuple[int, ...]:
    """Strides of a result; a single column is contiguous, not the same number everywhere."""
    return (*place.strides[:-1], 1 if place.shape[-1] == 1 else place.strides[-1])


def _epilogue(work: ProductSteps) -> _Epilogue | None:
    plain = len(work.loops.steps) == 2  # the element, and its store
    return None if plain else _Epilogue(work.loops)


class _Epilogue:
    """What is done to each vector of a finished product."""

    def __init__(self, loops: Loops) -> None:
        self.loops = loops
        self.extras = sum(not a.written for a in loops.accesses)

    def __call__(self, f: Function, value: Value, load: Any) -> list[tuple[int, Value]]:
        values: dict[int, Value] = {}
        stored = []
        for k, step in enumerate(self.loops.steps):
            match step:
                case Given():
                    values[k] = value
                case Load(access):
                    values[k] = load(access)
                case Apply(op, args, attrs, dtype):
                    given = [
                        a.value if isinstance(a := self.loops.steps[i], Number) else values[i]
                        for i in args
                    ]
                    values[k] = apply_op(f, op, given, dict(attrs), dtype, value.kind.lanes)
                case Store(access, arg):
                    target = self.loops.accesses[access].dtype
                    stored.append((access - self.extras, values[arg].to(target)))
        return stored


def _scatter(entry: Entry, call: Call, host: Host) -> Kernel:
    found = picking(call)
    assert found is not None
    out, given, *indices = entry.places
    lead, count = found.lead, found.count
    rest = out.shape[lead + count :]
    over = len(found.shape)
    if len(rest) > 1 and not out.contiguous:
        raise NoKernel("scatter to an array that is not in order")
    given_rest = given.strides[lead + over :]
    width = int(np.prod(rest, dtype=np.int64))
    in_order = Place(given.buffer, given.dtype, rest, given_rest).contiguous
    if not in_order or (width > 1 and out.strides[-1] != 1):
        raise NoKernel("scatter of rows that are not contiguous")
    arrays = [a for a in call.args[1:] if isinstance(a, Term)]
    scatter = Scatter(
        out.dtype, out.shape[:lead], found.shape, width, out.shape[lead : lead + count],
        out.strides[:lead], out.strides[lead : lead + count], given.strides[: lead + over],
        tuple(a.dtype for a in arrays), tuple(p.broadcast(found.shape) for p in indices),
        found.skip,
    )  # fmt: skip
    return scatter_kernel(scatter, host.vector_bytes)
