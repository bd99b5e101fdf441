"""The register tile: rows × vectors of a product, summed over k without leaving registers.

    void tile(ptr a, i64 a_row, i64 a_k, ptr b, i64 b_k, i64 depth, ptr out, i64 out_row, i1 adds)

sums a[r, k] · b[k, :] for k = 0, 1, ... depth − 1 in `rows` × `vectors` registers and stores the
sums in `out`, or (`adds`) adds them to what is there. Every number is one chain of fused
multiply-adds in the order of k, so it is the same whichever tile, panel or thread computes it.
Strides are in elements; a row of b and of out is contiguous.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from gradwalk.compiler.backends.llvm.emit.ir_builder import I64
from gradwalk.compiler.backends.llvm.emit.vector import Type, Vector, VectorBuilder

PARAMETERS = (
    "ptr noalias %a, i64 %a_row, i64 %a_k, ptr noalias %b, i64 %b_k, i64 %depth, "
    "ptr noalias %out, i64 %out_row, i1 %adds"
)
# Three rows are one address register: p, p + row and p + 2 · row are addresses x86 can form.
ROWS_PER_POINTER = 3


def tile_function(name: str, kind: Type, rows: int, vectors: int) -> VectorBuilder:
    """Write the function of a tile."""
    f = VectorBuilder(name, PARAMETERS, private=True)
    element = kind.element

    # `freeze` hides from LLVM that the pointers are multiples of one stride apart: it would form
    # each from the one before, a chain of additions as long as the multiplications take.
    steps: list[I64] = [0, "%a_row", f.set("shl i64 %a_row, 1")]
    groups = []
    for row in range(0, rows, ROWS_PER_POINTER):
        offset = f.set(f"freeze i64 {f.multiply(row, '%a_row')}") if row else 0
        groups.append(f.pointer(element, "%a", offset))

    # One iteration per k: the vectors of b's row, each times one number of every row of a.
    zeros = [Vector(f, kind, "zeroinitializer")] * (rows * vectors)
    pointers_at_first = [("ptr", p) for p in ("%b", *groups)]
    with f.loop(0, "%depth", carried=[*pointers_at_first, *zeros]) as loop:
        row_of_b, *pointers = loop.carried[: 1 + len(groups)]
        sums = loop.carried[1 + len(groups) :]
        places = (
            f.pointer(element, pointers[row // ROWS_PER_POINTER], steps[row % ROWS_PER_POINTER])
            for row in range(rows)
        )
        following = add_products(f, kind, places, row_of_b, vectors, sums)
        next_b = f.pointer(element, row_of_b, "%b_k")
        next_a = [f.pointer(element, p, "%a_k") for p in pointers]
        loop.carry(next_b, *next_a, *following)
    targets = []
    for row in range(rows):
        line = f.pointer(element, "%out", f.multiply(row, "%out_row"))
        targets += [f.pointer(kind.text, line, v) for v in range(vectors)]
    store_sums(f, targets, loop.results[1 + len(groups) :])
    return f


def add_products(
    f: VectorBuilder, kind: Type, places: Iterable[str], row_of_b: str, vectors: int,
    sums: Sequence[Vector],
) -> list[Vector]:  # fmt: skip
    """The sums of a tile with one row of b added, times the number of each row of a."""
    starts = [f.pointer(kind.text, row_of_b, v) for v in range(vectors)]
    columns = [f.load(start, kind) for start in starts]
    following = []
    for row, place in enumerate(places):
        number = f.load(place, Type(kind.dtype)).spread(kind.lanes)
        own = sums[row * vectors : (row + 1) * vectors]
        following += [number.fused(c, s) for c, s in zip(columns, own, strict=True)]
    return following


def store_sums(f: VectorBuilder, targets: Sequence[str], sums: Sequence[Vector]) -> None:
    """Store sums, or if %adds add them to what is there; the function ends here."""
    with f.when("%adds"):
        for target, total in zip(targets, sums, strict=True):
            # One after the other: two sums of a tile may belong to the same place.
            f.store(f.load(target, total.type) + total, target)
        f.give()
    for target, total in zip(targets, sums, strict=True):
        f.store(total, target)
