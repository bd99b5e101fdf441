"""The functions that all convolutions of a dtype share: tiles, packing, copying, tables.

They depend on the machine alone: compiled once, kept on disk like any other text, and given to the
drivers as symbols.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from gradwalk.compiler.backends.llvm.emit.ir_builder import I64
from gradwalk.compiler.backends.llvm.emit.vector import Type, Vector, VectorBuilder
from gradwalk.compiler.backends.llvm.kernels.convolution.sizes import ROWS
from gradwalk.compiler.backends.llvm.kernels.products import tile as products
from gradwalk.compiler.backends.llvm.runtime.object_code import Library, compile_text

OUTPUTS = (4, 2, 1)  # of a rows tile
VECTORS = {True: (6, 1), False: (3, 1)}  # of a rows tile, by whether there are many registers
DOTS = (9, 3, 1)  # sums of a dots tile: nine places of the most common kernel


class SharedPart(NamedTuple):
    """A function, or a family of functions, that drivers call."""

    parameters: str
    write: Callable[..., None]  # (function, vector, *variant)

    @property
    def types(self) -> tuple[str, ...]:
        """The types of the parameters."""
        return tuple(parameter.split()[0] for parameter in self.parameters.split(", "))


PARTS = {"pack": SharedPart(products.PACK_PARAMETERS, products.write_pack)}


def _part(name: str, parameters: str) -> Callable[[Callable[..., None]], None]:
    """Decorate what writes the body of a part."""
    return lambda write: PARTS.update({name: SharedPart(parameters, write)})


def part_name(vector: Type, name: str, *variant: int | str) -> str:
    """The full name of a function: convolution.v16f32.tile.8x2, ..."""
    suffix = "." + "x".join(map(str, variant)) if variant else ""
    return f"convolution.{vector.suffix}.{name}{suffix}"


@functools.cache
def part_library(vector: Type, many_registers: bool) -> Library:
    """All these functions, in memory."""
    variants: dict[str, Iterable[tuple[Any, ...]]] = {name: [()] for name in PARTS} | {
        "tile": itertools.product((*ROWS[many_registers], 1), (1, 2)),
        "rows": itertools.product(OUTPUTS, VECTORS[many_registers]),
        "dots": [(rows,) for rows in DOTS],
        "pack": [("k",), ("any",)],
    }
    made = []
    for name, part in PARTS.items():
        for variant in variants[name]:
            made.append(VectorBuilder(part_name(vector, name, *variant), part.parameters))
            part.write(made[-1], vector, *variant)
    declarations = {d for f in made for d in f.declarations}
    return compile_text({f.name: f.finish() for f in made}, declarations)


def _numbered(*names: str) -> str:
    """Parameters of four dimensions."""
    return ", ".join(f"i64 %{name}{d}" for name in names for d in range(4))


@_part("offsets", f"ptr noalias %table, i64 %start, {_numbered('n', 's')}")
def _offsets(f: VectorBuilder, kind: Type) -> None:
    """table[...] = start + Σ index · stride, over four dimensions in order."""

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


@_part("copy", f"ptr noalias %source, ptr noalias %target, {_numbered('count', 'from', 'to')}")
def _copy(f: VectorBuilder, kind: Type) -> None:
    """Copy an image to where there is room for padding around it: counts, then the strides of the
    source and of the target."""
    dtype = kind.dtype
    to_one = f.compare("eq", "%to3", 1)
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


@_part(
    "transpose",
    "ptr noalias %source, i64 %source_row, i64 %rows, i64 %columns, ptr noalias %target, "
    "i64 %target_row",
)
def _transpose(f: VectorBuilder, kind: Type) -> None:
    """target[c, r] = source[r, c], in squares of whole vectors.

    Both arrays have room up to the next multiple of a vector's lanes, and what lies there is never
    used.
    """
    lanes, dtype = kind.lanes, kind.dtype
    with f.loop(0, "%rows", lanes) as row, f.loop(0, "%columns", lanes) as column:
        place = f.element("%source", dtype, f.multiply(row.index, "%source_row"), column.index)
        vectors = []
        for _ in range(lanes):
            vectors.append(f.load(place, kind))
            place = f.element(place, dtype, "%source_row")
        place = f.element("%target", dtype, f.multiply(column.index, "%target_row"), row.index)
        for vector in products.transposed(vectors):
            f.store(vector, place)
            place = f.element(place, dtype, "%target_row")


# -- tiles -----------------------------------------------------------------------------------------


@_part(
    "tile",
    "ptr noalias %a, ptr noalias %rows, ptr noalias %steps, i64 %depth, ptr noalias %b, "
    "ptr %out, ptr noalias %places, i64 %second, i1 %adds",
)
def _tile(f: VectorBuilder, kind: Type, rows: int, vectors: int) -> None:
    """The register tile of a convolution: a matrix product whose left matrix is read by offsets.

    It sums a[rows[r] + steps[k]] · b[k, :] for k = 0, 1, ... depth − 1 in registers, and stores sum
    r at out[places[r]] (its second vector at out[places[r] + second]), or (`adds`) adds it to what
    is there.

    A patch of an image is such a matrix: pixel and place in the kernel each add an offset of their
    own, so no patch is ever copied. Each number of `a` is spread over a vector and multiplied by
    the rows of b, which are contiguous. Every sum is one chain of fused multiply-adds in the order
    of k.
    """
    element = kind.element

    # `freeze` keeps LLVM from forming each pointer anew inside the loop.
    starts = [f.set(f"freeze i64 {f.word('%rows', row)}") for row in range(rows)]
    pointers = [f.pointer(element, "%a", start) for start in starts]
    zeros = [Vector(f, kind, "zeroinitializer")] * (rows * vectors)
    with f.loop(0, "%depth", carried=[("ptr", "%b"), *zeros]) as loop:
        row_of_b, *sums = loop.carried
        step = f.word("%steps", loop.index)
        places = (f.pointer(element, pointer, step) for pointer in pointers)
        following = products.add_products(f, kind, places, row_of_b, vectors, sums)
        next_row = f.pointer(element, row_of_b, kind.lanes * vectors)
        loop.carry(next_row, *following)

    targets = []
    for row in range(rows):
        targets.append(f.pointer(element, "%out", f.word("%places", row)))
        if vectors == 2:
            targets.append(f.pointer(element, targets[-1], "%second"))
    products.store_sums(f, targets, loop.results[1:])


def _starts(f: VectorBuilder, kind: Type, table: str, count: int) -> list[str]:
    """Where the vectors of x at the offsets of a table begin."""
    starts = []
    for number in range(count):
        offset = f.set(f"freeze i64 {f.word(table, number)}")
        starts.append(f.element("%x", kind.dtype, offset))
    return starts


@_part(
    "rows",
    "ptr noalias %x, ptr noalias %places, ptr noalias %steps, i64 %depth, ptr noalias %weight, "
    "i64 %weight_row, ptr noalias %out, ptr noalias %targets, i64 %out_row",
)
def _rows(f: VectorBuilder, kind: Type, outputs: int, vectors: int) -> None:
    """A tile whose vectors run along the pixels of a row.

    It sums weight[o, k] · x[places[u] + steps[k] : + a vector] over k, for some outputs o and some
    vectors u, and stores each at out[o · out_row + targets[u]].
    """
    dtype = kind.dtype

    def lines(base: str, row: I64) -> list[str]:
        return [f.element(base, dtype, f.multiply(o, row)) for o in range(outputs)]

    starts = _starts(f, kind, "%places", vectors)
    weights = lines("%weight", "%weight_row")
    zeros = [Vector(f, kind, "zeroinitializer")] * (outputs * vectors)
    with f.loop(0, "%depth", carried=zeros) as k:
        step = f.word("%steps", k.index)
        pixels = [f.load(f.element(start, dtype, step), kind) for start in starts]
        following = []
        for o, line in enumerate(weights):
            weight = f.load(f.element(line, dtype, k.index), Type(dtype)).spread(kind.lanes)
            for v, pixel in enumerate(pixels):
                following.append(weight.fused(pixel, k.carried[o * vectors + v]))
        k.carry(*following)
    # In the order of the pixels: what a vector has beyond the end of a row, the next one replaces.
    sums = iter(k.results)
    for line in lines("%out", "%out_row"):
        for v in range(vectors):
            f.store(next(sums), f.element(line, dtype, f.word("%targets", v)))


@_part(
    "dots",
    "ptr noalias %x, ptr noalias %rows, ptr noalias %x_steps, ptr noalias %y, "
    "ptr noalias %y_steps, i64 %count, i64 %valid, ptr noalias %sums",
)
def _dots(f: VectorBuilder, kind: Type, rows: int) -> None:
    """Add x[rows[r] + x_steps[n] : ] · y[y_steps[n] : ] over n to the vector sums[r]; the first
    `valid` lanes count."""
    dtype = kind.dtype
    starts = _starts(f, kind, "%rows", rows)
    mask = f.first_lanes("%valid", kind.lanes)
    targets = [f.element("%sums", dtype, r * kind.lanes) for r in range(rows)]
    before = [f.load(target, kind) for target in targets]
    with f.loop(0, "%count", carried=before) as n:
        factor = f.load(f.element("%y", dtype, f.word("%y_steps", n.index)), kind, mask)
        step = f.word("%x_steps", n.index)
        following = []
        for start, total in zip(starts, n.carried, strict=True):
            pixel = f.load(f.element(start, dtype, step), kind, mask)
            following.append(pixel.fused(factor, total))
        n.carry(*following)
    for target, total in zip(targets, n.results, strict=True):
        f.store(total, target)


@_part("lanes", "ptr noalias %vectors, i64 %count, ptr noalias %sums")
def _lanes(f: VectorBuilder, kind: Type) -> None:
    """The lanes of each vector added up, in order."""
    one = Type(kind.dtype)
    with f.loop(0, "%count") as n:
        vector = f.load(f.pointer(kind.text, "%vectors", n.index), kind)
        total = f.call(
            one.text, f"llvm.vector.reduce.fadd.{kind.suffix}",
            (one.text, one.constant(0.0)), (kind.text, vector.text),
        )  # fmt: skip
        f.store(Vector(f, one, total), f.element("%sums", kind.dtype, n.index))
