"""The functions that all convolutions of a dtype share: tiles, packing, copying, tables.

They depend on the machine alone: compiled once, kept on disk like any other text, and given to the
drivers as symbols.
"""

from __future__ import annotations

import functools

from gradwalk.compiler.backends.llvm.emit.ir_builder import I64, IRBuilder
from gradwalk.compiler.backends.llvm.emit.vector import Type
from gradwalk.compiler.backends.llvm.emit.vector_builder import VectorBuilder
from gradwalk.compiler.backends.llvm.kernels.convolution.narrow_tiles import (
    DOTS,
    OUTPUTS,
    VECTORS,
    dots_function,
    rows_function,
    sum_function,
)
from gradwalk.compiler.backends.llvm.kernels.convolution.sizes import ROWS
from gradwalk.compiler.backends.llvm.kernels.convolution.tile import tile_function
from gradwalk.compiler.backends.llvm.kernels.products.packing import pack_function, transposed
from gradwalk.compiler.backends.llvm.runtime.object_code import Library, compile_text


def part_name(vector: Type, name: str) -> str:
    """The full name of one of these functions: tile.8x2, pack.k, copy, ..."""
    return f"convolution.{vector.suffix}.{name}"


@functools.cache
def part_library(vector: Type, many_registers: bool) -> Library:
    """All these functions, in memory."""
    made: list[IRBuilder] = [
        tile_function(part_name(vector, f"tile.{rows}x{vectors}"), vector, rows, vectors)
        for rows in (*ROWS[many_registers], 1)
        for vectors in (1, 2)
    ]
    made += [
        pack_function(part_name(vector, "pack.k"), vector, "k"),
        pack_function(part_name(vector, "pack.any"), vector, None),
        transpose_function(part_name(vector, "transpose"), vector),
        copy_function(part_name(vector, "copy"), vector),
        offsets_function(part_name(vector, "offsets")),
        sum_function(part_name(vector, "lanes"), vector),
    ]
    made += [
        rows_function(part_name(vector, f"rows.{outputs}x{vectors}"), vector, outputs, vectors)
        for outputs in OUTPUTS
        for vectors in VECTORS[many_registers]
    ]
    made += [dots_function(part_name(vector, f"dots.{rows}"), vector, rows) for rows in DOTS]
    declarations = {d for f in made for d in f.declarations}
    return compile_text({f.name: f.finish() for f in made}, declarations)


def offsets_function(name: str) -> IRBuilder:
    """void offsets(ptr table, i64 start, four counts, four strides):
    table[...] = start + Σ index · stride, over four dimensions in order."""
    numbers = [f"i64 %n{d}" for d in range(4)] + [f"i64 %s{d}" for d in range(4)]
    f = IRBuilder(name, f"ptr noalias %table, i64 %start, {', '.join(numbers)}")

    def over(dimension: int, offset: I64, place: str) -> str:
        if dimension == 4:
            f.do(f"store i64 {offset}, ptr {place}, align 8")
            return f.pointer("i64", place, 1)
        carried = [("i64", offset), ("ptr", place)]
        with f.loop(0, f"%n{dimension}", carried=carried) as loop:
            here, target = loop.carried
            after = over(dimension + 1, here, target)
            loop.carry(f.add(here, f"%s{dimension}"), after)
        return loop.results[1]

    over(0, "%start", "%table")
    return f


def copy_function(name: str, kind: Type) -> VectorBuilder:
    """void copy(ptr source, ptr target, four counts, four strides of the source, four of the
    target): copy an image to where there is room for padding around it."""
    numbers = [f"i64 %{what}{d}" for what in ("count", "from", "to") for d in range(4)]
    f = VectorBuilder(name, f"ptr noalias %source, ptr noalias %target, {', '.join(numbers)}")
    dtype = kind.dtype
    to_one = f.set("icmp eq i64 %to3, 1")
    in_order, second = (
        f.set(f"and i1 {to_one}, {f.set(f'icmp eq i64 %from3, {step}')}") for step in (1, 2)
    )
    vectors = f.set(f"or i1 {in_order}, {second}")
    apart = f.set(f"xor i1 {vectors}, true")

    def over(dimension: int, source: str, target: str) -> None:
        if dimension < 3:
            carried = [("ptr", source), ("ptr", target)]
            with f.loop(0, f"%count{dimension}", carried=carried) as loop:
                here, there = loop.carried
                over(dimension + 1, here, there)
                loop.carry(
                    f.element(here, dtype, f"%from{dimension}"),
                    f.element(there, dtype, f"%to{dimension}"),
                )
            return
        for condition, read in ((in_order, f.load), (second, f.load_every_second)):
            with f.when(condition), f.loop(0, "%count3", kind.lanes) as block:
                mask = f.first_lanes(f.subtract("%count3", block.index), kind.lanes)
                place = f.element(source, dtype, f.multiply(block.index, "%from3"))
                f.store(read(place, kind, mask), f.element(target, dtype, block.index), mask)
        with f.when(apart), f.loop(0, "%count3") as one:
            place = f.element(source, dtype, f.multiply(one.index, "%from3"))
            to = f.element(target, dtype, f.multiply(one.index, "%to3"))
            f.store(f.load(place, Type(dtype)), to)

    over(0, "%source", "%target")
    return f


def transpose_function(name: str, kind: Type) -> VectorBuilder:
    """void transpose(ptr source, i64 source_row, i64 rows, i64 columns, ptr target,
    i64 target_row): target[c, r] = source[r, c], in squares of whole vectors. Both arrays have room
    up to the next multiple of a vector's lanes, and what lies there is never used."""
    f = VectorBuilder(
        name, "ptr noalias %source, i64 %source_row, i64 %rows, i64 %columns, "
        "ptr noalias %target, i64 %target_row",
    )  # fmt: skip
    lanes, dtype = kind.lanes, kind.dtype
    with f.loop(0, "%rows", lanes) as row, f.loop(0, "%columns", lanes) as column:
        place = f.element("%source", dtype, f.multiply(row.index, "%source_row"), column.index)
        vectors = []
        for _ in range(lanes):
            vectors.append(f.load(place, kind))
            place = f.element(place, dtype, "%source_row")
        place = f.element("%target", dtype, f.multiply(column.index, "%target_row"), row.index)
        for vector in transposed(vectors):
            f.store(vector, place)
            place = f.element(place, dtype, "%target_row")
    return f
