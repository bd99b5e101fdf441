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

from gradwalk.compiler.backends.llvm.emit.ir_builder import I64, Declaration
from gradwalk.compiler.backends.llvm.emit.vector import Type, VectorBuilder
from gradwalk.compiler.backends.llvm.kernels.convolution.parts import PARTS, part_library, part_name
from gradwalk.compiler.backends.llvm.kernels.convolution.sizes import Convolution, up
from gradwalk.compiler.backends.llvm.runtime.object_code import Library, compile_text
from gradwalk.compiler.backends.llvm.target import Host

PARAMETERS = (
    "ptr noalias %bases, ptr noalias %sizes, i64 %thread, i64 %threads, ptr %finish, ptr %strides"
)
WORD = 8  # bytes of a table's entry
ALIGNMENT = 64


class Driver(VectorBuilder):
    """A driver being written.

    Arrays: two operands, scratch memory, then outputs and extras, which only the epilogue uses.
    """

    def __init__(self, name: str, conv: Convolution, host: Host) -> None:
        self.conv = conv
        self.vector = Type(conv.dtype, host.lanes(conv.dtype.itemsize))
        super().__init__(part_name(self.vector, name), PARAMETERS)
        self.many_registers = host.has_many_registers
        self.lanes = self.vector.lanes
        self.scratch_bytes = 0  # for each thread
        self.first, self.second, self.scratch = (self.word("%bases", n, "ptr") for n in range(3))
        self.indices = self.set("alloca [3 x i64], align 8", "indices")
        for number in range(3):
            self.store_word(0, self.indices, number)

    def compiled(self) -> Library:
        """The driver in memory; one of the same text is compiled once."""
        declarations = frozenset(self.declarations)
        return _compiled(self.name, self.finish(), declarations, self.vector, self.many_registers)

    # -- sizes and memory --------------------------------------------------------------------------

    def size(self, number: int) -> str:
        """One of the sizes."""
        return self.word("%sizes", number)

    def areas(self, **sizes: int) -> dict[str, str]:
        """Areas of scratch memory of these sizes in bytes, each thread's own."""
        starts = []
        for size in sizes.values():
            starts.append(self.scratch_bytes)
            self.scratch_bytes += up(size, ALIGNMENT)
        mine = self.multiply("%thread", self.runtime(self.scratch_bytes))
        scratch = self.pointer("i8", self.scratch, mine)
        return {
            name: self.pointer("i8", scratch, self.runtime(start))
            for name, start in zip(sizes, starts, strict=True)
        }

    def at(self, base: str, *terms: I64) -> str:
        """A pointer to an element."""
        return self.element(base, self.vector.dtype, *terms)

    def entry(self, table: str, index: I64) -> str:
        """A pointer into a table."""
        return self.pointer("i64", table, index)

    def part(self, name: str, *variant: int | str) -> str:
        """One of the functions of parts.py."""
        full = part_name(self.vector, name, *variant)
        self.declarations.add(Declaration("void", full, PARTS[name].types))
        return f"@{full}"

    def call_part(self, name: str, *values: I64, function: str = "") -> None:
        """Call a part, or one of its variants."""
        arguments = zip(PARTS[name].types, values, strict=True)
        self.call_pointer("void", function or self.part(name), *arguments)

    # -- tables, copies, epilogue ------------------------------------------------------------------

    def offsets(self, table: str, start: I64, numbers: Sequence[I64]) -> None:
        """table[...] = start + Σ index · stride, in order; four counts and four strides."""
        self.call_part("offsets", table, start, *numbers)

    def fill_table(self, table: str, counts: Sequence[int], strides: Sequence[int]) -> None:
        """Fill a table from 0, with numbers that are read when the kernel runs."""
        self.offsets(table, 0, self.runtimes(*counts, *strides))

    def copy(
        self, source: str, target: str, counts: Sequence[I64], source_strides: Sequence[I64],
        target_strides: Sequence[I64],
    ) -> None:  # fmt: skip
        """Copy an array of four dimensions."""
        self.call_part("copy", source, target, *counts, *source_strides, *target_strides)

    def finish_rows(
        self, image: I64, channel: I64, pixel: I64, channels: I64, pixels: I64, sums: str, row: I64
    ) -> None:
        """The epilogue on sums[channels, pixels], whose rows are `row` apart."""
        self.do(f"store i64 {image}, ptr {self.indices}, align 8")
        numbers = (channel, pixel, channels, pixels)
        self.call_pointer(
            "void", "%finish", ("ptr", "%bases"), ("ptr", "%strides"), ("ptr", self.indices),
            *(("i64", n) for n in numbers), ("ptr", sums), ("i64", row),
        )  # fmt: skip


@functools.cache
def _compiled(
    name: str, text: str, declarations: frozenset[Declaration], vector: Type, many_registers: bool
) -> Library:
    parts = part_library(vector, many_registers).addresses
    used = {d.name: parts[d.name] for d in declarations if d.name in parts}
    return compile_text({name: text}, declarations, used)
