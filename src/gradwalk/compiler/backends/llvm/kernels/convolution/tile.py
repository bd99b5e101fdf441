"""The register tile of a convolution: a matrix product whose left matrix is read by offsets.

    void tile(ptr a, ptr rows, ptr steps, i64 depth, ptr b, ptr out, ptr places, i64 second,
              i1 adds)

sums a[rows[r] + steps[k]] · b[k, :] for k = 0, 1, ... depth − 1 in registers, and stores sum r at
out[places[r]] (its second vector at out[places[r] + second]), or (`adds`) adds it to what is there.

A patch of an image is such a matrix: pixel and place in the kernel each add an offset of their own,
so no patch is ever copied. Each number of `a` is spread over a vector and multiplied by the rows of
b, which are contiguous. Every sum is one chain of fused multiply-adds in the order of k.
"""

from __future__ import annotations

from gradwalk.compiler.backends.llvm.emit.vector import Type, Vector, pairs, renamed
from gradwalk.compiler.backends.llvm.emit.vector_builder import VectorBuilder
from gradwalk.compiler.backends.llvm.kernels.products.tile import add_products, store_sums

PARAMETERS = (
    "ptr noalias %a, ptr noalias %rows, ptr noalias %steps, i64 %depth, ptr noalias %b, "
    "ptr %out, ptr noalias %places, i64 %second, i1 %adds"
)


def tile_function(name: str, kind: Type, rows: int, vectors: int) -> VectorBuilder:
    """Write the function of a tile."""
    f = VectorBuilder(name, PARAMETERS)
    element = kind.element

    # `freeze` keeps LLVM from forming each pointer anew inside the loop.
    starts = [f.set(f"freeze i64 {f.word('%rows', row)}") for row in range(rows)]
    pointers = [f.pointer(element, "%a", start) for start in starts]
    zeros = [Vector(f, kind, "zeroinitializer")] * (rows * vectors)
    with f.loop(0, "%depth", carried=[("ptr", "%b"), *pairs(zeros)]) as loop:
        row_of_b, *sums = loop.carried
        step = f.word("%steps", loop.index)
        places = (f.pointer(element, pointer, step) for pointer in pointers)
        following = add_products(f, kind, places, row_of_b, vectors, renamed(zeros, sums))
        next_row = f.pointer(element, row_of_b, kind.lanes * vectors)
        loop.carry(next_row, *(v.text for v in following))

    targets = []
    for row in range(rows):
        targets.append(f.pointer(element, "%out", f.word("%places", row)))
        if vectors == 2:
            targets.append(f.pointer(element, targets[-1], "%second"))
    store_sums(f, targets, renamed(zeros, loop.results[1:]))
    return f
