"""The functions that all convolutions of a dtype share: tiles, packing, copying, tables.

They depend on the machine alone: compiled once, kept on disk like any other text, and given to the
drivers as symbols.
"""

from __future__ import annotations

import functools

from gradwalk.compiler.backends.llvm.emit.function_text import Function
from gradwalk.compiler.backends.llvm.emit.kernel import first_lanes, load, load_every_second, store
from gradwalk.compiler.backends.llvm.emit.vector_values import Kind
from gradwalk.compiler.backends.llvm.kernels.convolution.layout import ROWS
from gradwalk.compiler.backends.llvm.kernels.convolution.narrow_tiles import (
    DOTS,
    OUTPUTS,
    VECTORS,
    dots_function,
    rows_function,
    sum_function,
)
from gradwalk.compiler.backends.llvm.kernels.convolution.tile import tile_function
from gradwalk.compiler.backends.llvm.kernels.convolution.turn import turn_function
from gradwalk.compiler.backends.llvm.kernels.products.packing import pack_function
from gradwalk.compiler.backends.llvm.runtime.object_code import Library, compile_text


def part_name(vector: Kind, name: str) -> str:
    """The full name of one of these functions: tile.8x2, pack.k, copy, ..."""
    return f"convolution.{vector.suffix}.{name}"


@functools.cache
def library(vector: Kind, many_registers: bool) -> Library:
    """All of them, in memory."""
    made = [
        tile_function(part_name(vector, f"tile.{rows}x{vectors}"), vector, rows, vectors)
        for rows in (*ROWS[many_registers], 1)
        for vectors in (1, 2)
    ]
    made += [
        pack_function(part_name(vector, "pack.k"), vector, "k"),
        pack_function(part_name(vector, "pack.any"), vector, None),
        turn_function(part_name(vector, "turn"), vector),
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
    texts = {f.name: f.finish().replace("define private", "define", 1) for f in made}
    return compile_text(texts, {line for f in made for line in f.declarations})


def offsets_function(name: str) -> Function:
    """void offsets(ptr table, i64 start, four counts, four strides):
    table[...] = start + Σ index · stride, over four dimensions in order."""
    numbers = [f"i64 %n{d}" for d in range(4)] + [f"i64 %s{d}" for d in range(4)]
    parameters = f"ptr noalias %table, i64 %start, {', '.join(numbers)}"
    f = Function(name, parameters, attributes="nounwind")

    def over(dimension: int, offset: str, place: str) -> str:
        if dimension == 4:
            f.do(f"store i64 {offset}, ptr {place}, align 8")
            return f.set(f"getelementptr i64, ptr {place}, i64 1")
        carried = [("i64", offset), ("ptr", place)]
        with f.loop("0", f"%n{dimension}", carried=carried) as loop:
            here, target = loop.carried
            after = over(dimension + 1, here, target)
            loop.carry(f.add(here, f"%s{dimension}"), after)
        return loop.results[1]

    over(0, "%start", "%table")
    return f


def copy_function(name: str, kind: Kind) -> Function:
    """void copy(ptr source, ptr target, four counts, four strides of the source, four of the
    target): an image to where there is room for padding around it."""
    numbers = [f"i64 %{what}{d}" for what in ("count", "from", "to") for d in range(4)]
    f = Function(
        name, f"ptr noalias %source, ptr noalias %target, {', '.join(numbers)}",
        attributes='nounwind "prefer-vector-width"="512"',
    )  # fmt: skip

    def at(base: str, index: str) -> str:
        return f.set(f"getelementptr {kind.element}, ptr {base}, i64 {index}")

    to_one = f.set("icmp eq i64 %to3, 1")
    in_order, second = (
        f.set(f"and i1 {to_one}, {f.set(f'icmp eq i64 %from3, {step}')}") for step in (1, 2)
    )
    vectors = f.set(f"or i1 {in_order}, {second}")
    apart = f.set(f"xor i1 {vectors}, true")

    def over(dimension: int, source: str, target: str) -> None:
        if dimension < 3:
            carried = [("ptr", source), ("ptr", target)]
            with f.loop("0", f"%count{dimension}", carried=carried) as loop:
                here, there = loop.carried
                over(dimension + 1, here, there)
                loop.carry(at(here, f"%from{dimension}"), at(there, f"%to{dimension}"))
            return
        for condition, read in ((in_order, load), (second, load_every_second)):
            with f.when(condition), f.loop("0", "%count3", str(kind.lanes)) as block:
                mask = first_lanes(f, f.set(f"sub i64 %count3, {block.index}"), kind.lanes)
                place = at(source, f.multiply(block.index, "%from3"))
                store(f, read(f, place, kind, mask), at(target, block.index), mask)
        with f.when(apart), f.loop("0", "%count3") as one:
            number = load(f, at(source, f.multiply(one.index, "%from3")), Kind(kind.dtype))
            store(f, number, at(target, f.multiply(one.index, "%to3")))

    over(0, "%source", "%target")
    return f
