"""What the drivers of convolutions share: sizes, scratch memory, tables of offsets, copies, and the
epilogue.

    void driver(ptr bases, ptr sizes, i64 thread, i64 threads, ptr finish, ptr strides)

Writing a driver for some convolution gives both its text, which is the same for all of a dtype, and
the sizes that it reads when it runs: `runtime` notes a number and reads it. `finish` is the
epilogue of a kernel, which finds the strides of outputs and extras in `strides`.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

from gradwalk.compiler.backends.llvm.emit.function_text import Function
from gradwalk.compiler.backends.llvm.emit.vector_values import Kind
from gradwalk.compiler.backends.llvm.kernels.convolution.layout import has_many_registers, up
from gradwalk.compiler.backends.llvm.kernels.convolution.parts import library, part_name
from gradwalk.compiler.backends.llvm.runtime.object_code import Library, compile_text
from gradwalk.compiler.backends.llvm.target import Host

TYPES = ("ptr", "ptr", "i64", "i64", "ptr", "ptr")
PARAMETERS = (
    "ptr noalias %bases, ptr noalias %sizes, i64 %thread, i64 %threads, ptr %finish, ptr %strides"
)
WORD = 8  # bytes of a table's entry
ALIGNMENT = 64


class Driver(Function):
    """A driver being written. Arrays: two operands, scratch memory, then outputs
    and extras, which only the epilogue touches."""

    def __init__(self, name: str, dtype: Any, host: Host) -> None:
        dtype = np.dtype(dtype)
        self.vector = Kind(dtype, host.lanes(dtype.itemsize))
        super().__init__(part_name(self.vector, name), PARAMETERS, attributes="nounwind")
        self.many_registers = has_many_registers(host)
        self.lanes = self.vector.lanes
        self.sizes: list[int] = []
        self.scratch_bytes = 0  # for each thread
        self.first, self.second, self.scratch = (
            self.set(f"load ptr, ptr {self._pointer('ptr', '%bases', number)}, align 8")
            for number in range(3)
        )
        self.indices = self.set("alloca [3 x i64], align 8", "indices")
        for number in range(3):
            place = self._pointer("i64", self.indices, number)
            self.do(f"store i64 0, ptr {place}, align 8")

    def _pointer(self, kind: str, base: str, index: str | int) -> str:
        return self.set(f"getelementptr {kind}, ptr {base}, i64 {index}")

    def compiled(self) -> Library:
        """The driver in memory; one of the same text is compiled once."""
        return _compiled(
            self.name, self.finish(), frozenset(self.declarations), self.vector, self.many_registers
        )

    # -- sizes, memory, arithmetic -----------------------------------------------------------------

    def runtime(self, size: int) -> str:
        """A size or stride that is read when the kernel runs."""
        self.sizes.append(size)
        place = self._pointer("i64", "%sizes", len(self.sizes) - 1)
        return self.set(f"load i64, ptr {place}, align 8")

    def share(self, count: int) -> tuple[str, str]:
        """The part of `count` units that is this thread's: [first, end)."""
        units = self.runtime(count)
        after = self.set("add i64 %thread, 1")
        first, end = (
            self.set(f"udiv i64 {self.multiply(units, turn)}, %threads")
            for turn in ("%thread", after)
        )
        return first, end

    def areas(self, **sizes: int) -> dict[str, str]:
        """Areas of scratch memory of so many bytes, each thread's own."""
        starts = []
        for size in sizes.values():
            starts.append(self.scratch_bytes)
            self.scratch_bytes += up(size, ALIGNMENT)
        mine = self.multiply("%thread", self.runtime(self.scratch_bytes))
        scratch = self._pointer("i8", self.scratch, mine)
        return {
            name: self._pointer("i8", scratch, self.runtime(start))
            for name, start in zip(sizes, starts, strict=True)
        }

    def at(self, base: str, *terms: str) -> str:
        """A pointer to an element."""
        return self._pointer(self.vector.element, base, self.add(*terms))

    def entry(self, table: str, index: str) -> str:
        """A pointer into a table."""
        return self._pointer("i64", table, index)

    def clear(self, area: str, size: str) -> None:
        """Zeros in so many bytes."""
        self.call(
            "void", "llvm.memset.p0.i64", ("ptr", area), ("i8", "0"), ("i64", size), ("i1", "false")
        )

    def minus(self, first: str, second: str) -> str:
        """The difference of two i64."""
        return self.set(f"sub nsw i64 {first}, {second}")

    def divided(self, number: str, size: str) -> tuple[str, str]:
        """Quotient and remainder."""
        quotient = self.set(f"udiv i64 {number}, {size}")
        return quotient, self.minus(number, self.multiply(quotient, size))

    def choose(self, condition: str, kind: str, yes: str, no: str) -> str:
        """One of two values."""
        return self.set(f"select i1 {condition}, {kind} {yes}, {kind} {no}")

    def differs(self, first: str, second: str) -> str:
        """Whether two i64 are different."""
        return self.set(f"icmp ne i64 {first}, {second}")

    def part(self, name: str, *types: str) -> str:
        """One of the functions of parts.py, declared."""
        full = part_name(self.vector, name)
        self.declarations.add(f"declare void @{full}({', '.join(types)})")
        return f"@{full}"

    # -- tables, copies, epilogue ------------------------------------------------------------------

    def offsets(self, table: str, start: str, numbers: Sequence[str]) -> None:
        """table[...] = start + Σ index · stride, in order; four counts and four strides."""
        function = self.part("offsets", "ptr", *("i64",) * 9)
        given = ", ".join(f"i64 {n}" for n in (start, *numbers))
        self.do(f"call void {function}(ptr {table}, {given})")

    def fill_table(self, table: str, counts: Sequence[int], strides: Sequence[int]) -> None:
        """The same from 0, with numbers that are read when the kernel runs."""
        self.offsets(table, "0", [self.runtime(n) for n in (*counts, *strides)])

    def copy(
        self, source: str, target: str, counts: Sequence[str], source_strides: Sequence[str],
        target_strides: Sequence[str],
    ) -> None:  # fmt: skip
        """Copy an array of four dimensions."""
        function = self.part("copy", "ptr", "ptr", *("i64",) * 12)
        given = ", ".join(f"i64 {n}" for n in (*counts, *source_strides, *target_strides))
        self.do(f"call void {function}(ptr {source}, ptr {target}, {given})")

    def finish_rows(
        self, image: str, channel: str, pixel: str, channels: str, pixels: str, sums: str, row: str
    ) -> None:
        """The epilogue on sums[channels, pixels], whose rows are `row` apart."""
        self.do(f"store i64 {image}, ptr {self.indices}, align 8")
        self.do(
            f"call void %finish(ptr %bases, ptr %strides, ptr {self.indices}, i64 {channel}, "
            f"i64 {pixel}, i64 {channels}, i64 {pixels}, ptr {sums}, i64 {row})"
        )


@functools.cache
def _compiled(
    name: str, text: str, declarations: frozenset[str], vector: Kind, many_registers: bool
) -> Library:
    parts = library(vector, many_registers)
    used = {n: a for n, a in parts.addresses.items() if f"@{n}(" in "".join(declarations)}
    return compile_text({name: text}, declarations, used)
