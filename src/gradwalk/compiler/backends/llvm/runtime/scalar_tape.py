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
    map      row = f(rows): an op, or what its rule hands back to an operand
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gradwalk.compiler.backends.llvm.emit.elementwise_table import is_native, spell
from gradwalk.compiler.backends.llvm.emit.function_text import Function
from gradwalk.compiler.backends.llvm.emit.kernel import load, store
from gradwalk.compiler.backends.llvm.emit.vector_values import Kind, Value
from gradwalk.compiler.backends.llvm.runtime.object_code import Library, compile_text
from gradwalk.ops import TABLE
from gradwalk.ops.core.symbol import Symbol

DOUBLE = np.dtype(np.float64)
BLOCK = 8  # vectors that one fold keeps in registers
ROW_MARK = 1  # added to an offset
RUN = "scalar_tape_run"
_SIGNATURE = "ptr noalias %arena, ptr noalias %arguments"
_ATTRIBUTES = '"prefer-vector-width"="512" nounwind'


class Unspelled(NotImplementedError):
    """An op that is not written in LLVM."""


@dataclass(frozen=True)
class Text:
    """A kernel as text."""

    name: str
    text: str
    declarations: frozenset[str] = frozenset()


def load_kernels(kernels: Sequence[Text]) -> Library:
    """The addresses of these kernels and of the loop that calls them."""
    texts = {k.name: k.text for k in kernels} | {RUN: _run()}
    return compile_text(texts, set().union(*(k.declarations for k in kernels)))


class _Kernel(Function):
    """A kernel being written."""

    def __init__(self, name: str) -> None:
        super().__init__(name, _SIGNATURE, attributes=_ATTRIBUTES)

    def argument(self, number: int | str, kind: str = "i64") -> str:
        """An argument of the entry."""
        place = self.set(f"getelementptr i64, ptr %arguments, i64 {number}")
        return self.set(f"load {kind}, ptr {place}, align 8")

    def place(self, offset: str, element: int | str = 0) -> str:
        """The pointer to an element of the row at a byte offset."""
        start = self.set(f"getelementptr i8, ptr %arena, i64 {offset}")
        return self.step(start, element)

    def step(self, start: str, element: int | str) -> str:
        """So many elements further."""
        if element == 0:
            return start
        return self.set(f"getelementptr double, ptr {start}, i64 {element}")

    def done(self) -> Text:
        """The text."""
        return Text(self.name, self.finish(), frozenset(self.declarations))


def _run() -> str:
    """Calls the kernel of each entry, up to one with the address 0."""
    return f"""define void @{RUN}(ptr %arena, ptr %tape) {{
entry:
  br label %next
next:
  %at = phi ptr [%tape, %entry], [%after, %call]
  %kernel = load ptr, ptr %at, align 8
  %end = icmp eq ptr %kernel, null
  br i1 %end, label %done, label %call
call:
  %place = getelementptr i64, ptr %at, i64 1
  %length = load i64, ptr %place, align 8
  %arguments = getelementptr i64, ptr %at, i64 2
  call void %kernel(ptr %arena, ptr %arguments)
  %after = getelementptr i64, ptr %at, i64 %length
  br label %next
done:
  ret void
}}
"""


def fold(vectors: int, lanes: int) -> Text:
    """Arguments: the row, the bits of the start, how many pairs, the pairs (a, b)."""
    f = _Kernel(f"scalar_fold_{vectors}x{lanes}")
    kind = Kind(DOUBLE, lanes)
    row, start, count = f.argument(0), f.argument(1, "double"), f.argument(2)
    first = Value(f, Kind(DOUBLE), start).spread(lanes).text
    carried = [(kind.text, first)] * vectors
    with f.loop("0", count, carried=carried, at_least_once=True) as pair:
        twice = f.set(f"shl i64 {pair.index}, 1")
        a = f.place(f.argument(f.set(f"add i64 {twice}, 3")))
        b = f.argument(f.set(f"add i64 {twice}, 4"))
        sums = [Value(f, kind, text) for text in pair.carried]
        if lanes == 1:
            one = load(f, f.place(b), kind)
            pair.carry(*[(s + load(f, a, kind) * one).text for s in sums])
        else:
            pair.carry(*_add_products(f, sums, a, b))
    for n, text in enumerate(pair.results):
        store(f, Value(f, kind, text), f.place(row, n * lanes))
    return f.done()


def _add_products(f: _Kernel, sums: list[Value], a: str, b: str) -> list[str]:
    """Each sum + a × b, where b is a row if its offset is marked, else one number."""
    kind = sums[0].kind
    name = f.fresh("pair")
    marked = f.set(f"trunc i64 {b} to i1")
    f.do(f"br i1 {marked}, label %{name}.row, label %{name}.number")
    ends = []
    for way in ("row", "number"):
        f.begin(f"{name}.{way}")
        if way == "row":
            start = f.place(f.set(f"sub i64 {b}, {ROW_MARK}"))
            factors = [load(f, f.step(start, n * kind.lanes), kind) for n in range(len(sums))]
        else:
            factors = [load(f, f.place(b), Kind(DOUBLE)).spread(kind.lanes)] * len(sums)
        ends.append(
            [
                (s + load(f, f.step(a, n * kind.lanes), kind) * factor).text
                for n, (s, factor) in enumerate(zip(sums, factors, strict=True))
            ]
        )
        f.do(f"br label %{name}.after")
    f.begin(f"{name}.after")
    return [
        f.set(f"phi {kind.text} [{row}, %{name}.row], [{number}, %{name}.number]")
        for row, number in zip(*ends, strict=True)
    ]


def collect() -> Text:
    """Arguments: the row, how many numbers, the offset of each."""
    f = _Kernel("scalar_collect")
    row = f.place(f.argument(0))
    count = f.argument(1)
    number = Kind(DOUBLE)
    with f.loop("0", count, at_least_once=True) as lane:
        offset = f.argument(f.set(f"add i64 {lane.index}, 2"))
        store(f, load(f, f.place(offset), number), f.step(row, lane.index))
    return f.done()


def map_rows(
    name: str, operands: int, lanes: int, compute: Callable[[Function, list[Value]], Value]
) -> Text:
    """Arguments: the row, its vectors, its numbers (not read here), the operands, each a row."""
    f = _Kernel(f"{name}_{lanes}")
    kind = Kind(DOUBLE, lanes)
    row = f.place(f.argument(0))
    count = f.argument(1)
    given = [f.place(f.argument(3 + k)) for k in range(operands)]
    with f.loop("0", count, at_least_once=True) as vector:
        element = f.set(f"mul i64 {vector.index}, {lanes}")
        values = [load(f, f.step(place, element), kind) for place in given]
        store(f, compute(f, values), f.step(row, element))
    return f.done()


def evaluate(f: Function, expression: Any, given: dict[str, Value], lanes: int) -> Value:
    """An expression of symbols as instructions; what stands in it twice is written once."""
    known: dict[int, Any] = {}

    def value(part: Any) -> Any:
        if not isinstance(part, Symbol):
            return part
        if part.op is None:
            return given[part.name]
        if id(part) not in known:
            arguments = [value(a) for a in part.args]
            known[id(part)] = _spelled(f, part, arguments, lanes)
        return known[id(part)]

    found = value(expression)
    return found if isinstance(found, Value) else next(iter(given.values())).constant(found)


def _spelled(f: Function, call: Symbol, arguments: list[Any], lanes: int) -> Value:
    """One op on values and numbers."""
    op = call.op
    dtypes = [a.kind.dtype if isinstance(a, Value) else DOUBLE for a in arguments]
    if op is None or TABLE.get(op.name) is not op or not is_native(op, dtypes, call.attrs):
        raise Unspelled(call.name)
    return spell(op, arguments, call.attrs, call.dtype, f, lanes)
