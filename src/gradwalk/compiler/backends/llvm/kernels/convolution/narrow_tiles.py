"""Tiles whose vectors run along the pixels of a row, for convolutions with few channels in a group.

    void rows(ptr x, ptr places, ptr steps, i64 depth, ptr weight, i64 weight_row,
              ptr out, ptr targets, i64 out_row)

sums weight[o, k] · x[places[u] + steps[k] : + a vector] over k, for some outputs o and some vectors
u, and stores each at out[o · out_row + targets[u]].

    void dots(ptr x, ptr rows, ptr x_steps, ptr y, ptr y_steps, i64 count, i64 valid, ptr sums)

adds x[rows[r] + x_steps[n] : ] · y[y_steps[n] : ] over n to the vector sums[r]; the first `valid`
lanes count.
"""

from __future__ import annotations

from gradwalk.compiler.backends.llvm.emit.ir_builder import I64
from gradwalk.compiler.backends.llvm.emit.vector import Type, Vector, pairs, renamed
from gradwalk.compiler.backends.llvm.emit.vector_builder import VectorBuilder

OUTPUTS = (4, 2, 1)  # of a rows tile
VECTORS = {True: (6, 1), False: (3, 1)}  # of a rows tile, by whether there are many registers
DOTS = (9, 3, 1)  # sums of a dots tile: nine places of the most common kernel


def _starts(f: VectorBuilder, kind: Type, table: str, count: int) -> list[str]:
    """Where the vectors of x at the offsets of a table begin."""
    starts = []
    for number in range(count):
        offset = f.set(f"freeze i64 {f.word(table, number)}")
        starts.append(f.element("%x", kind.dtype, offset))
    return starts


def rows_function(name: str, kind: Type, outputs: int, vectors: int) -> VectorBuilder:
    """Write the function `rows`."""
    f = VectorBuilder(
        name, "ptr noalias %x, ptr noalias %places, ptr noalias %steps, i64 %depth, "
        "ptr noalias %weight, i64 %weight_row, ptr noalias %out, ptr noalias %targets, "
        "i64 %out_row",
    )  # fmt: skip
    dtype = kind.dtype

    def lines(base: str, row: I64) -> list[str]:
        return [f.element(base, dtype, f.multiply(o, row)) for o in range(outputs)]

    starts = _starts(f, kind, "%places", vectors)
    weights = lines("%weight", "%weight_row")
    zeros = [Vector(f, kind, "zeroinitializer")] * (outputs * vectors)
    with f.loop(0, "%depth", carried=pairs(zeros)) as k:
        totals = renamed(zeros, k.carried)
        step = f.word("%steps", k.index)
        pixels = [f.load(f.element(start, dtype, step), kind) for start in starts]
        following = []
        for o, line in enumerate(weights):
            weight = f.load(f.element(line, dtype, k.index), Type(dtype)).spread(kind.lanes)
            for v, pixel in enumerate(pixels):
                following.append(weight.fused(pixel, totals[o * vectors + v]).text)
        k.carry(*following)
    # In the order of the pixels: what a vector has beyond the end of a row, the next one replaces.
    sums = iter(renamed(zeros, k.results))
    for line in lines("%out", "%out_row"):
        for v in range(vectors):
            f.store(next(sums), f.element(line, dtype, f.word("%targets", v)))
    return f


def dots_function(name: str, kind: Type, rows: int) -> VectorBuilder:
    """Write the function `dots`."""
    f = VectorBuilder(
        name, "ptr noalias %x, ptr noalias %rows, ptr noalias %x_steps, ptr noalias %y, "
        "ptr noalias %y_steps, i64 %count, i64 %valid, ptr noalias %sums",
    )  # fmt: skip
    dtype = kind.dtype
    starts = _starts(f, kind, "%rows", rows)
    mask = f.first_lanes("%valid", kind.lanes)
    targets = [f.element("%sums", dtype, r * kind.lanes) for r in range(rows)]
    before = [f.load(target, kind) for target in targets]
    with f.loop(0, "%count", carried=pairs(before)) as n:
        factor = f.load(f.element("%y", dtype, f.word("%y_steps", n.index)), kind, mask)
        step = f.word("%x_steps", n.index)
        following = []
        for start, total in zip(starts, renamed(before, n.carried), strict=True):
            pixel = f.load(f.element(start, dtype, step), kind, mask)
            following.append(pixel.fused(factor, total).text)
        n.carry(*following)
    for target, total in zip(targets, renamed(before, n.results), strict=True):
        f.store(total, target)
    return f


def sum_function(name: str, kind: Type) -> VectorBuilder:
    """void lanes(ptr vectors, i64 count, ptr sums): the lanes of each vector added up, in order."""
    f = VectorBuilder(name, "ptr noalias %vectors, i64 %count, ptr noalias %sums")
    one = Type(kind.dtype)
    with f.loop(0, "%count") as n:
        vector = f.load(f.pointer(kind.text, "%vectors", n.index), kind)
        total = f.call(
            one.text, f"llvm.vector.reduce.fadd.{kind.suffix}",
            (one.text, one.constant(0.0)), (kind.text, vector.text),
        )  # fmt: skip
        f.store(Vector(f, one, total), f.element("%sums", kind.dtype, n.index))
    return f
