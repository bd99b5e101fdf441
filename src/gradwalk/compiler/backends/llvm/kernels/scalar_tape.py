"""The native part of a replay: a loop over a tape, and the kernels that its entries call.

All numbers are float64 and live in one arena; a tape is an array of i64, each entry

    address of a kernel, length of this entry, arguments ...

with places in the arena as byte offsets. A kernel is `void (ptr arena, ptr arguments)`. A *row* is
consecutive numbers in the arena, the lanes; rows are as long as full vectors, and what is in the
lanes beyond is never read by others. Kernels:

    fold     row = start + a₀·b₀ + a₁·b₁ + ..., each rounded, in this order; every a is a row, every
             b a row (its offset is marked by + 1) or one number. All sums of products are folds,
             those of the forward and those of gradients.
    collect  row = numbers from anywhere
    map      row = f(rows): an op, or the gradient that its rule passes to an operand
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gradwalk.compiler.backends.llvm.emit.elementwise_table import emit, is_native
from gradwalk.compiler.backends.llvm.emit.ir_builder import I64, IRBuilder
from gradwalk.compiler.backends.llvm.emit.kernel_builder import Kernel
from gradwalk.compiler.backends.llvm.emit.vector import Type, Vector, VectorBuilder
from gradwalk.compiler.backends.llvm.errors import NoKernel
from gradwalk.compiler.backends.llvm.runtime.object_code import Library, compile_text
from gradwalk.ops import TABLE
from gradwalk.ops.core.symbol import Symbol

DOUBLE = np.dtype(np.float64)
BLOCK = 8  # vectors that one fold keeps in registers
ROW_MARK = 1  # added to an offset
RUN = "scalar_tape_run"


def load_kernels(kernels: Sequence[Kernel]) -> Library:
    """The addresses of these kernels and of the loop that calls them."""
    texts = {k.name: k.text for k in kernels} | {RUN: _run()}
    return compile_text(texts, {d for k in kernels for d in k.declarations})


class _ScalarKernel(VectorBuilder):
    """A kernel being written."""

    def __init__(self, name: str) -> None:
        super().__init__(name, "ptr noalias %arena, ptr noalias %arguments")

    def argument(self, number: I64) -> str:
        """An argument of the entry."""
        return self.word("%arguments", number)

    def place(self, offset: I64, element: I64 = 0) -> str:
        """The pointer to an element of the row at a byte offset."""
        return self.element(self.pointer("i8", "%arena", offset), DOUBLE, element)

    def done(self) -> Kernel:
        """Return the finished kernel."""
        return Kernel(self.name, self.finish(), frozenset(self.declarations))


def _run() -> str:
    """A function that calls the kernel of each entry, up to one with the address 0."""
    f = IRBuilder(RUN, "ptr %arena, ptr %tape")
    with f.repeat(("ptr", "%tape")) as loop:
        (entry,) = loop.carried
        kernel = f.word(entry, 0, "ptr")
        f.leave_if(loop, f.set(f"icmp eq ptr {kernel}, null"))
        length = f.word(entry, 1)
        f.call_pointer("void", kernel, ("ptr", "%arena"), ("ptr", f.pointer("i64", entry, 2)))
        loop.carry(f.pointer("i64", entry, length))
    return f.finish()


def fold(vectors: int, lanes: int) -> Kernel:
    """Arguments: the row, the bits of the start, how many pairs, the pairs (a, b)."""
    f = _ScalarKernel(f"scalar_fold_{vectors}x{lanes}")
    kind = Type(DOUBLE, lanes)
    row, start, count = f.argument(0), f.word("%arguments", 1, "double"), f.argument(2)
    first = [Vector(f, Type(DOUBLE), start).spread(lanes)] * vectors
    with f.loop(0, count, carried=first, at_least_once=True) as pair:
        twice = f.set(f"shl i64 {pair.index}, 1")
        a = f.place(f.argument(f.add(twice, 3)))
        b = f.argument(f.add(twice, 4))
        if lanes == 1:
            one = f.load(f.place(b), kind)
            pair.carry(*[s + f.load(a, kind) * one for s in pair.carried])
        else:
            pair.carry(*_add_products(f, pair.carried, a, b))
    for n, total in enumerate(pair.results):
        f.store(total, f.place(row, n * lanes))
    return f.done()


def _add_products(f: _ScalarKernel, sums: list[Vector], a: str, b: str) -> list[Vector]:
    """Each sum + a × b, where b is a row if its offset is marked, else one number."""
    kind = sums[0].type

    def vectors(start: str) -> list[Vector]:
        return [f.load(f.element(start, DOUBLE, n * kind.lanes), kind) for n in range(len(sums))]

    name = f.fresh("pair")
    marked = f.set(f"trunc i64 {b} to i1")
    f.do(f"br i1 {marked}, label %{name}.row, label %{name}.number")
    ends = []
    for way in ("row", "number"):
        f.begin(f"{name}.{way}")
        if way == "row":
            factors = vectors(f.place(f.subtract(b, ROW_MARK)))
        else:
            factors = [f.load(f.place(b), Type(DOUBLE)).spread(kind.lanes)] * len(sums)
        terms = zip(sums, vectors(a), factors, strict=True)
        ends.append([total + x * factor for total, x, factor in terms])
        f.do(f"br label %{name}.after")
    f.begin(f"{name}.after")
    return [
        sums[0].named(f.set(f"phi {kind.text} [{row}, %{name}.row], [{number}, %{name}.number]"))
        for row, number in zip(*ends, strict=True)
    ]


def collect() -> Kernel:
    """Arguments: the row, how many numbers, the offset of each."""
    f = _ScalarKernel("scalar_collect")
    row, count = f.place(f.argument(0)), f.argument(1)
    with f.loop(0, count, at_least_once=True) as lane:
        number = f.load(f.place(f.argument(f.add(lane.index, 2))), Type(DOUBLE))
        f.store(number, f.element(row, DOUBLE, lane.index))
    return f.done()


def map_rows(
    name: str, operands: list[str], lanes: int, expression: Any, added: bool = False
) -> Kernel:
    """An expression of symbols with the names of the operands; `added` to 0, which turns −0 into
    +0. Arguments: the row, its vectors, its numbers (not read here), the operands, each a row."""
    f = _ScalarKernel(f"{name}_{lanes}")
    row, count = f.place(f.argument(0)), f.argument(1)
    places = {name: f.place(f.argument(k)) for k, name in enumerate(operands, 3)}
    with f.loop(0, count, at_least_once=True) as vector:
        element = f.multiply(vector.index, lanes)
        given = {
            name: f.load(f.element(place, DOUBLE, element), Type(DOUBLE, lanes))
            for name, place in places.items()
        }
        result = evaluate(f, expression, given, lanes)
        f.store(result + 0.0 if added else result, f.element(row, DOUBLE, element))
    return f.done()


def evaluate(f: IRBuilder, expression: Any, given: dict[str, Vector], lanes: int) -> Vector:
    """An expression of symbols as instructions; a part that occurs twice is written once."""
    known: dict[int, Any] = {}

    def value(part: Any) -> Any:
        if not isinstance(part, Symbol):
            return part
        if part.op is None:
            return given[part.name]
        if id(part) not in known:
            known[id(part)] = _emitted(f, part, [value(a) for a in part.args], lanes)
        return known[id(part)]

    result = value(expression)
    return result if isinstance(result, Vector) else next(iter(given.values())).constant(result)


def _emitted(f: IRBuilder, call: Symbol, arguments: list[Any], lanes: int) -> Vector:
    """One op on vectors and numbers."""
    op = call.op
    dtypes = [a.type.dtype if isinstance(a, Vector) else DOUBLE for a in arguments]
    if op is None or TABLE.get(op.name) is not op or not is_native(op, dtypes, call.attrs):
        raise NoKernel(call.name)
    return emit(op, arguments, call.attrs, call.dtype, f, lanes)
