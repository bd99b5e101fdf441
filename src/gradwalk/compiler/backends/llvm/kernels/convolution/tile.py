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

from gradwalk.compiler.backends.llvm.emit.function_text import Function
from gradwalk.compiler.backends.llvm.emit.vector_values import Kind
from gradwalk.compiler.backends.llvm.kernels.products.tile import add_row, row_vectors

PARAMETERS = (
    "ptr noalias %a, ptr noalias %rows, ptr noalias %steps, i64 %depth, ptr noalias %b, "
    "ptr %out, ptr noalias %places, i64 %second, i1 %adds"
)


def tile_function(name: str, kind: Kind, rows: int, vectors: int) -> Function:
    """The function of a tile."""
    f = Function(name, PARAMETERS, "private void", 'nounwind "prefer-vector-width"="512"')
    lanes, element, vector = kind.lanes, kind.element, kind.text
    size = kind.dtype.itemsize

    def offset(table: str, number: int) -> str:
        place = f.set(f"getelementptr i64, ptr {table}, i64 {number}")
        return f.set(f"load i64, ptr {place}, align 8")

    # `freeze` keeps LLVM from forming each pointer anew inside the loop.
    pointers = []
    for row in range(rows):
        start = f.set(f"freeze i64 {offset('%rows', row)}")
        pointers.append(f.set(f"getelementptr {element}, ptr %a, i64 {start}"))

    carried = [("ptr", "%b"), *[(vector, "zeroinitializer")] * (rows * vectors)]
    with f.loop("0", "%depth", carried=carried) as loop:
        row_of_b, *sums = loop.carried
        place = f.set(f"getelementptr i64, ptr %steps, i64 {loop.index}")
        step = f.set(f"load i64, ptr {place}, align 8")
        columns = row_vectors(f, kind, row_of_b, vectors)
        following = []
        for row in range(rows):
            place = f.set(f"getelementptr {element}, ptr {pointers[row]}, i64 {step}")
            following += add_row(f, kind, place, columns, sums[row * vectors : (row + 1) * vectors])
        next_row = f.set(f"getelementptr {element}, ptr {row_of_b}, i64 {lanes * vectors}")
        loop.carry(next_row, *following)
    sums = loop.results[1:]

    places = []
    for row in range(rows):
        places.append(f.set(f"getelementptr {element}, ptr %out, i64 {offset('%places', row)}"))
        if vectors == 2:
            places.append(f.set(f"getelementptr {element}, ptr {places[-1]}, i64 %second"))
    f.do("br i1 %adds, label %to_old, label %fresh")
    f.begin("to_old")
    for place, total in zip(places, sums, strict=True):
        # One after the other: two sums of a tile may belong to the same place.
        old = f.set(f"load {vector}, ptr {place}, align {size}")
        both = f.set(f"fadd {vector} {old}, {total}")
        f.do(f"store {vector} {both}, ptr {place}, align {size}")
    f.do("ret void")
    f.begin("fresh")
    for place, total in zip(places, sums, strict=True):
        f.do(f"store {vector} {total}, ptr {place}, align {size}")
    return f
