"""Turning sums: from rows of pixels, with channels side by side, to rows of channels.

    void turn(ptr source, i64 source_row, i64 rows, i64 columns, ptr target, i64 target_row)

writes target[c, r] = source[r, c], in squares of whole vectors: both arrays have room up to the
next multiple of a vector's lanes, and what lies there is never used.
"""

from __future__ import annotations

from gradwalk.compiler.backends.llvm.emit.function_text import Function
from gradwalk.compiler.backends.llvm.emit.kernel import element_pointer, load, store
from gradwalk.compiler.backends.llvm.emit.vector_values import Kind
from gradwalk.compiler.backends.llvm.kernels.products.packing import transposed

TYPES = ("ptr", "i64", "i64", "i64", "ptr", "i64")


def turn_function(name: str, kind: Kind) -> Function:
    """The function."""
    f = Function(
        name, "ptr noalias %source, i64 %source_row, i64 %rows, i64 %columns, "
        "ptr noalias %target, i64 %target_row", attributes='nounwind "prefer-vector-width"="512"',
    )  # fmt: skip
    lanes = kind.lanes
    with f.loop("0", "%rows", str(lanes)) as row, f.loop("0", "%columns", str(lanes)) as column:
        start = f.add(f.multiply(row.index, "%source_row"), column.index)
        place = element_pointer(f, "%source", kind.dtype, start)
        vectors = []
        for _ in range(lanes):
            vectors.append(load(f, place, kind))
            place = element_pointer(f, place, kind.dtype, "%source_row")
        start = f.add(f.multiply(column.index, "%target_row"), row.index)
        place = element_pointer(f, "%target", kind.dtype, start)
        for vector in transposed(f, vectors):
            store(f, vector, place)
            place = element_pointer(f, place, kind.dtype, "%target_row")
    return f
