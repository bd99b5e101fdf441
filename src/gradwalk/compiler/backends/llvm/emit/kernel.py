"""What every generated kernel shares: its signature, its argument block, loads and stores.

    void kernel(ptr %slots, ptr %args, i64 %thread, i64 %threads)

`args` holds for every array its slot and its byte offset, then the sizes and strides the kernel
asked for with `runtime`, in that order. What is the same in many kernels of a program (lengths of
rows, which strides are 0 or 1) is written into the text; what differs is read from `args`, so that
kernels of one structure are one function.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Hashable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from gradwalk.compiler.backends.llvm.emit.elementwise_table import spell
from gradwalk.compiler.backends.llvm.emit.function_text import Function, is_fast
from gradwalk.compiler.backends.llvm.emit.vector_values import Kind, Value
from gradwalk.compiler.ir import index_ops
from gradwalk.compiler.plan.loop_nest import Loops
from gradwalk.ops.core.op import Op

SIGNATURE = "ptr noalias %slots, ptr noalias %args, i64 %thread, i64 %threads"


class Kernel(NamedTuple):
    """A function as text, named by its content, and what its block needs after the arrays."""

    name: str
    text: str
    declarations: frozenset[str]
    sizes: tuple[int, ...]
    # Addresses of what it calls and is not in its text, by name.
    symbols: Mapping[str, int] = MappingProxyType({})


class KernelWriter(Function):
    """A kernel being written."""

    def __init__(self, arrays: int) -> None:
        super().__init__("NAME", SIGNATURE, attributes='"prefer-vector-width"="512" nounwind')
        self._arrays = arrays
        self._sizes: list[int] = []
        self.bases = [self._base(j) for j in range(arrays)]

    def _argument(self, number: int) -> str:
        place = self.set(f"getelementptr i64, ptr %args, i64 {number}")
        return self.set(f"load i64, ptr {place}, align 8")

    def _base(self, array: int) -> str:
        slot, offset = self._argument(2 * array), self._argument(2 * array + 1)
        place = self.set(f"getelementptr ptr, ptr %slots, i64 {slot}")
        base = self.set(f"load ptr, ptr {place}, align 8")
        return self.set(f"getelementptr i8, ptr {base}, i64 {offset}")

    def size(self, number: int) -> str:
        """The size with this number after the arrays of the block."""
        return self._argument(2 * self._arrays + number)

    def runtime(self, size: int) -> str:
        """A size or stride that is read from the block when the kernel runs."""
        self._sizes.append(size)
        return self._argument(2 * self._arrays + len(self._sizes) - 1)

    def share(self, count: str, unit: int = 1) -> tuple[str, str]:
        """The part of `count` that is this thread's: [first, end), cut at multiples of `unit`."""
        if unit > 1:
            up = self.set(f"add i64 {count}, {unit - 1}")
            pieces = self.set(f"sdiv i64 {up}, {unit}")
        else:
            pieces = count
        ends = []
        after = self.set("add i64 %thread, 1")
        for turn in ("%thread", after):
            product = self.set(f"mul i64 {pieces}, {turn}")
            ends.append(self.set(f"sdiv i64 {product}, %threads"))
        if unit == 1:
            return ends[0], ends[1]
        first, end = (self.set(f"mul i64 {e}, {unit}") for e in ends)
        return first, self.call("i64", "llvm.smin.i64", ("i64", end), ("i64", count))

    def kernel(self) -> Kernel:
        """The finished kernel."""
        text = self.finish()
        name = "k" + hashlib.sha256(text.encode()).hexdigest()[:20]
        return Kernel(
            name, text.replace("@NAME(", f"@{name}("), frozenset(self.declarations),
            tuple(self._sizes),
        )  # fmt: skip


_written: dict[Hashable, Kernel] = {}


def kernel_like(loops: Loops, vector_bytes: int, write: Callable[[], Kernel]) -> Kernel:
    """The kernel of some loops; one of the same structure is not written again."""
    key = (write.__qualname__, loops.structure(), vector_bytes, is_fast())
    known = _written.get(key)
    if known is None:
        if len(_written) >= 4096:  # of all programs of this process
            _written.clear()
        known = _written[key] = write()
    return known._replace(sizes=loops.sizes())


# -- loads and stores ------------------------------------------------------------------------------
# In memory a bool is a byte, in a register one bit.


def _in_memory(kind: Kind) -> Kind:
    return kind.of(np.uint8) if kind.dtype.kind == "b" else kind


def element_pointer(f: Function, base: str, dtype: np.dtype[Any], index: str) -> str:
    """Where the element with this index lies."""
    if index == "0":
        return base
    memory = _in_memory(Kind(dtype)).text
    return f.set(f"getelementptr {memory}, ptr {base}, i64 {index}")


def load(f: Function, pointer: str, kind: Kind, mask: str | None = None) -> Value:
    """Consecutive elements; lanes that the mask leaves out are 0 and touch no memory."""
    memory = _in_memory(kind)
    if mask is None:
        text = f.set(f"load {memory.text}, ptr {pointer}, align {kind.dtype.itemsize}")
    else:
        text = f.call(
            memory.text, f"llvm.masked.load.{memory.suffix}.p0", ("ptr", pointer),
            ("i32", str(kind.dtype.itemsize)), (f"<{kind.lanes} x i1>", mask),
            (memory.text, "zeroinitializer"),
        )  # fmt: skip
    found = Value(f, memory, text)
    return found.compare("ne", 0) if kind.dtype.kind == "b" else found


def load_apart(
    f: Function, pointer: str, stride: str, kind: Kind, mask: str | None = None
) -> Value:
    """Elements `stride` apart."""
    numbers = ", ".join(f"i64 {i}" for i in range(kind.lanes))
    steps = Value(f, Kind(np.dtype(np.int64)), stride).spread(kind.lanes)
    return gather(f, pointer, steps * Value(f, steps.kind, f"<{numbers}>"), kind, mask)


def load_every_second(f: Function, pointer: str, kind: Kind, mask: str) -> Value:
    """Elements 0, 2, 4, ...: two vectors are loaded, and what is between them is left out."""
    lanes = kind.lanes
    halves = []
    for half in range(2):
        chosen = [(half * lanes + i) // 2 if i % 2 == 0 else lanes for i in range(lanes)]
        spread = f.set(
            f"shufflevector <{lanes} x i1> {mask}, <{lanes} x i1> zeroinitializer, "
            f"<{lanes} x i32> <{', '.join(f'i32 {c}' for c in chosen)}>"
        )
        part = element_pointer(f, pointer, kind.dtype, str(half * lanes))
        halves.append(load(f, part, kind, spread))
    text = f.set(
        f"shufflevector {kind.text} {halves[0].text}, {kind.text} {halves[1].text}, "
        f"<{lanes} x i32> <{', '.join(f'i32 {2 * i}' for i in range(lanes))}>"
    )
    return Value(f, kind, text)


def gather(f: Function, pointer: str, offsets: Value, kind: Kind, mask: str | None = None) -> Value:
    """Elements at the given offsets."""
    memory = _in_memory(kind)
    lanes = kind.lanes
    pointers = f.set(
        f"getelementptr {memory.element}, ptr {pointer}, <{lanes} x i64> {offsets.text}"
    )
    every = "splat (i1 true)" if mask is None else mask
    text = f.call(
        memory.text, f"llvm.masked.gather.{memory.suffix}.v{lanes}p0",
        (f"<{lanes} x ptr>", pointers), ("i32", str(kind.dtype.itemsize)),
        (f"<{lanes} x i1>", every), (memory.text, "zeroinitializer"),
    )  # fmt: skip
    found = Value(f, memory, text)
    return found.compare("ne", 0) if kind.dtype.kind == "b" else found


def load_along(
    f: Function, pointer: str, stride: str, kind: Kind, mask: str | None = None
) -> Value:
    """Elements along a dimension of which the stride is known (the text 0 or 1) or read."""
    if kind.lanes == 1:
        return load(f, pointer, kind)
    if stride == "0":
        return load(f, pointer, Kind(kind.dtype)).spread(kind.lanes)
    if stride == "1":
        return load(f, pointer, kind, mask)
    return load_apart(f, pointer, stride, kind, mask)


def store_along(
    f: Function, value: Value, pointer: str, stride: str, mask: str | None = None
) -> None:
    """The same for writing."""
    if value.kind.lanes == 1:
        store(f, value, pointer)
    elif stride == "1":
        store(f, value, pointer, mask)
    else:
        store_apart(f, value, pointer, stride, mask)


def store(f: Function, value: Value, pointer: str, mask: str | None = None) -> None:
    """Consecutive elements; lanes that the mask leaves out are not written."""
    kind = value.kind
    if kind.dtype.kind == "b":
        memory = _in_memory(kind)
        text = f.set(f"zext {kind.text} {value.text} to {memory.text}")
        value = Value(f, memory, text)
    size = kind.dtype.itemsize
    if mask is None:
        f.do(f"store {value.kind.text} {value.text}, ptr {pointer}, align {size}")
    else:
        f.call(
            "void", f"llvm.masked.store.{value.kind.suffix}.p0", (value.kind.text, value.text),
            ("ptr", pointer), ("i32", str(size)), (f"<{kind.lanes} x i1>", mask),
        )  # fmt: skip


def store_apart(
    f: Function, value: Value, pointer: str, stride: str, mask: str | None = None
) -> None:
    """Elements `stride` apart, scattered."""
    kind = value.kind
    if kind.dtype.kind == "b":
        memory = _in_memory(kind)
        value = Value(f, memory, f.set(f"zext {kind.text} {value.text} to {memory.text}"))
    lanes = kind.lanes
    numbers = ", ".join(f"i64 {i}" for i in range(lanes))
    steps = Value(f, Kind(np.dtype(np.int64)), stride).spread(lanes)
    offsets = f.set(f"mul <{lanes} x i64> {steps.text}, <{numbers}>")
    pointers = f.set(
        f"getelementptr {value.kind.element}, ptr {pointer}, <{lanes} x i64> {offsets}"
    )
    f.call(
        "void", f"llvm.masked.scatter.{value.kind.suffix}.v{lanes}p0",
        (value.kind.text, value.text), (f"<{lanes} x ptr>", pointers),
        ("i32", str(kind.dtype.itemsize)),
        (f"<{lanes} x i1>", "splat (i1 true)" if mask is None else mask),
    )  # fmt: skip


# status[0] after an index that does not exist; status[1] is the index, [2] the length it counts in.
OUT_OF_RANGE = 1


def apply_op(
    f: Function,
    op: Op,
    given: Sequence[Value | float],
    attrs: Mapping[str, Any],
    dtype: np.dtype[Any],
    lanes: int,
    mask: str | None = None,
) -> Value:
    """An elementwise op of the table, or the compiler's own."""
    if op is not index_ops.checked_index:
        return spell(op, given, attrs, dtype, f, lanes)
    (index,) = given
    if not isinstance(index, Value):  # a constant of one element
        kind = Kind(dtype, lanes)
        index = Value(f, kind, kind.constant(index))
    return checked_index(f, index, str(attrs["length"]), mask)


def checked_index(f: Function, index: Value, length: str, mask: str | None = None) -> Value:
    """An index as NumPy takes it: −1 is the last. One out of range is told, and taken as 0."""
    given = index
    bound = Value(f, Kind(index.kind.dtype), length)
    limit = bound.spread(index.kind.lanes)
    index = (index < 0).choose(index + limit, index)
    wrong = (index < 0) | (index >= limit)
    if mask is not None and index.kind.lanes > 1:
        wrong = wrong & Value(f, wrong.kind, mask)
    some = wrong.text
    if index.kind.lanes > 1:
        some = f.call("i1", f"llvm.vector.reduce.or.{wrong.kind.suffix}", (wrong.kind.text, some))
    with f.when(some):
        first = wrong.choose(given, given.constant(np.iinfo(np.int64).max))
        one = first.text
        if index.kind.lanes > 1:  # of several the lowest is told
            name = f"llvm.vector.reduce.smin.{first.kind.suffix}"
            one = f.call("i64", name, (first.kind.text, one))
        place = f.set("getelementptr ptr, ptr %slots, i64 1")
        status = f.set(f"load ptr, ptr {place}, align 8")
        for number, word in enumerate((str(OUT_OF_RANGE), one, length)):
            cell = f.set(f"getelementptr i64, ptr {status}, i64 {number}")
            f.do(f"store i64 {word}, ptr {cell}, align 8")
    return wrong.choose(index.constant(0), index)


def first_lanes(f: Function, count: str, lanes: int) -> str:
    """A mask of the first `count` lanes."""
    numbers = ", ".join(f"i64 {i}" for i in range(lanes))
    limit = Value(f, Kind(np.dtype(np.int64)), count).spread(lanes)
    return f.set(f"icmp slt <{lanes} x i64> <{numbers}>, {limit.text}")


def lanes_for(dtypes: Sequence[np.dtype[Any]], vector_bytes: int) -> int:
    """How many elements of the widest of these dtypes fill a vector."""
    return vector_bytes // max((d.itemsize for d in dtypes if d.kind != "b"), default=4)
