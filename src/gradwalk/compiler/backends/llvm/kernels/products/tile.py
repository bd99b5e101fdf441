"""The register tile: rows × vectors of a product, summed over k without leaving registers.

    void tile(ptr a, i64 a_row, i64 a_k, ptr b, i64 b_k, i64 depth, ptr out, i64 out_row, i1 adds)

sums a[r, k] · b[k, :] for k = 0, 1, ... depth − 1 in `rows` × `vectors` registers and stores the
sums in `out`, or (`adds`) adds them to what is there. Every number is one chain of fused
multiply-adds in the order of k, so it is the same whichever tile, panel or thread computes it.
Strides are in elements; a row of b and of out is contiguous.
"""

from __future__ import annotations

from collections.abc import Sequence

from gradwalk.compiler.backends.llvm.emit.function_text import Function
from gradwalk.compiler.backends.llvm.emit.vector_values import Kind

PARAMETERS = (
    "ptr noalias %a, i64 %a_row, i64 %a_k, ptr noalias %b, i64 %b_k, i64 %depth, "
    "ptr noalias %out, i64 %out_row, i1 %adds"
)
# Three rows are one address register: p, p + row and p + 2 · row are addresses x86 can form.
ROWS_PER_POINTER = 3


def tile_function(name: str, kind: Kind, rows: int, vectors: int) -> Function:
    """The function of a tile."""
    f = Function(name, PARAMETERS, "private void", 'nounwind "prefer-vector-width"="512"')
    element, vector = kind.element, kind.text
    size = kind.dtype.itemsize

    # `freeze` hides from LLVM that the pointers are multiples of one stride apart: it would form
    # each from the one before, a chain of additions as long as the multiplications take.
    steps = ["0", "%a_row", f.set("shl i64 %a_row, 1")]
    groups = []
    for row in range(0, rows, ROWS_PER_POINTER):
        offset = f.set(f"freeze i64 {f.multiply(str(row), '%a_row')}") if row else "0"
        groups.append(f.set(f"getelementptr {element}, ptr %a, i64 {offset}"))

    # One turn per k: the vectors of b's row, each times one number of every row of a.
    carried = [("ptr", "%b"), *(("ptr", p) for p in groups)]
    carried += [(vector, "zeroinitializer")] * (rows * vectors)
    with f.loop("0", "%depth", carried=carried) as loop:
        row_of_b = loop.carried[0]
        pointers, sums = loop.carried[1 : 1 + len(groups)], loop.carried[1 + len(groups) :]
        columns = row_vectors(f, kind, row_of_b, vectors)
        following = []
        for row in range(rows):
            pointer, step = pointers[row // ROWS_PER_POINTER], steps[row % ROWS_PER_POINTER]
            place = f.set(f"getelementptr {element}, ptr {pointer}, i64 {step}")
            following += add_row(f, kind, place, columns, sums[row * vectors : (row + 1) * vectors])
        next_b = f.set(f"getelementptr {element}, ptr {row_of_b}, i64 %b_k")
        next_a = [f.set(f"getelementptr {element}, ptr {p}, i64 %a_k") for p in pointers]
        loop.carry(next_b, *next_a, *following)
    sums = loop.results[1 + len(groups) :]

    places = []
    for row in range(rows):
        step = f.multiply(str(row), "%out_row")
        line = f.set(f"getelementptr {element}, ptr %out, i64 {step}")
        places += [f.set(f"getelementptr {vector}, ptr {line}, i64 {v}") for v in range(vectors)]
    f.do("br i1 %adds, label %to_old, label %fresh")
    f.begin("to_old")
    for place, total in zip(places, sums):
        old = f.set(f"load {vector}, ptr {place}, align {size}")
        both = f.set(f"fadd {vector} {old}, {total}")
        f.do(f"store {vector} {both}, ptr {place}, align {size}")
    f.do("ret void")
    f.begin("fresh")
    for place, total in zip(places, sums):
        f.do(f"store {vector} {total}, ptr {place}, align {size}")
    return f


def row_vectors(f: Function, kind: Kind, row: str, count: int) -> list[str]:
    """The vectors of one row of b."""
    places = [f.set(f"getelementptr {kind.text}, ptr {row}, i64 {v}") for v in range(count)]
    return [f.set(f"load {kind.text}, ptr {p}, align {kind.dtype.itemsize}") for p in places]


def add_row(
    f: Function, kind: Kind, place: str, columns: Sequence[str], sums: Sequence[str]
) -> list[str]:
    """The sums of one row of a tile with the number at `place` times b's row added."""
    vector, element = kind.text, kind.element
    number = f.set(f"load {element}, ptr {place}, align {kind.dtype.itemsize}")
    first = f.set(f"insertelement {vector} poison, {element} {number}, i64 0")
    spread = f.set(
        f"shufflevector {vector} {first}, {vector} poison, <{kind.lanes} x i32> zeroinitializer"
    )
    return [
        f.call(vector, f"llvm.fma.{kind.suffix}", (vector, spread), (vector, c), (vector, s))
        for c, s in zip(columns, sums, strict=True)
    ]
