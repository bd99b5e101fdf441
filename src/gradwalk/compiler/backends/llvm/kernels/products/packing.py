"""Packing: a panel of b copied into scratch memory, row after row, so that tiles read it in order.

    void pack(ptr source, i64 source_k, i64 source_n, i64 depth, i64 columns,
              ptr panel, i64 width)

writes panel[k, j] = source[k, j] for k < depth, j < columns; the panel's rows are `width` apart.
What lies beyond `columns`, up to the next full vector, is left as it is or written with numbers
that are never used.
"""

from __future__ import annotations

from gradwalk.compiler.backends.llvm.emit.ir_builder import I64
from gradwalk.compiler.backends.llvm.emit.vector import Type, Vector, VectorBuilder

PARAMETERS = (
    "ptr noalias %source, i64 %source_k, i64 %source_n, i64 %depth, i64 %columns, "
    "ptr noalias %panel, i64 %width"
)
PIECE_BYTES = (
    16  # columns are loaded in such pieces, which shuffles transpose without crossing them
)


def write_pack(f: VectorBuilder, kind: Type, unit: str) -> None:
    """The function that packs a matrix with unit stride along n, along k or any."""
    if unit == "n":
        _copy_rows(f, kind)
    elif unit == "k":
        _transpose_columns(f, kind)
    else:
        _copy_numbers(f, kind, 0)


def _copy_rows(f: VectorBuilder, kind: Type) -> None:
    """Copy contiguous rows in vectors."""
    wide = f.compare("sgt", "%columns", kind.lanes)
    narrow = f.set(f"xor i1 {wide}, true")
    for condition, vectors in ((wide, 2), (narrow, 1)):
        with f.when(condition):
            last = (vectors - 1) * kind.lanes
            mask = f.first_lanes(f.subtract("%columns", last), kind.lanes)
            with f.loop(0, "%depth", carried=[("ptr", "%source"), ("ptr", "%panel")]) as row:
                source, panel = row.carried
                if vectors == 2:
                    f.store(f.load(source, kind), panel)
                value = f.load(f.element(source, kind.dtype, last), kind, mask)
                f.store(value, f.element(panel, kind.dtype, last))
                row.carry(
                    f.element(source, kind.dtype, "%source_k"),
                    f.element(panel, kind.dtype, "%width"),
                )


def _copy_numbers(f: VectorBuilder, kind: Type, first: I64) -> None:
    """Copy rows of any strides from `first` on, one number after the other."""
    dtype = kind.dtype
    with f.loop(first, "%depth") as row:
        source = f.element("%source", dtype, f.multiply(row.index, "%source_k"))
        panel = f.element("%panel", dtype, f.multiply(row.index, "%width"))
        with f.loop(0, "%columns", carried=[("ptr", source)]) as column:
            (place,) = column.carried
            f.store(f.load(place, Type(dtype)), f.element(panel, dtype, column.index))
            column.carry(f.element(place, dtype, "%source_n"))


def _transpose_columns(f: VectorBuilder, kind: Type) -> None:
    """Transpose contiguous columns: pieces of `lanes` columns become rows of the panel."""
    lanes, dtype = kind.lanes, kind.dtype
    length = PIECE_BYTES // dtype.itemsize
    full = f.set(f"and i64 %depth, {-length}")
    lines = f.set(f"alloca [{lanes} x ptr], align 8")  # where each column begins
    with f.loop(0, "%columns", lanes) as column:
        last = f.subtract(f.subtract("%columns", column.index), 1)
        source = f.element("%source", dtype, f.multiply(column.index, "%source_n"))
        panel = f.element("%panel", dtype, column.index)
        with f.loop(0, lanes, at_least_once=True) as lane:
            number = f.smaller(lane.index, last)  # beyond the last column: the last one again
            line = f.element(source, dtype, f.multiply(number, "%source_n"))
            f.store_word(line, lines, lane.index, "ptr")
        with f.loop(0, full, length) as block:
            pieces = []
            for place in range(lanes):
                line = f.word(lines, place, "ptr")
                pieces.append(f.load(f.element(line, dtype, block.index), Type(dtype, length)))
            row = f.element(panel, dtype, f.multiply(block.index, "%width"))
            # Every `length`-th piece is put into one vector; then these vectors are transposed, all
            # their pieces at once.
            beside = [_beside(pieces[first::length]) for first in range(length)]
            for vector in transposed(beside):
                f.store(vector, row)
                row = f.element(row, dtype, "%width")
    _copy_numbers(f, kind, full)


def transposed(vectors: list[Vector]) -> list[Vector]:
    """Transpose squares of as many lanes as there are vectors, side by side: neighbours at a
    distance exchange what is off the diagonal."""
    length, lanes = len(vectors), vectors[0].type.lanes
    distance = length // 2
    while distance:
        stay = [c - distance + lanes if c & distance else c for c in range(lanes)]
        move = [c + lanes if c & distance else c + distance for c in range(lanes)]
        for i in range(length):
            if not i & distance:
                first, second = vectors[i], vectors[i + distance]
                vectors[i] = first.shuffled(stay, second.text)
                vectors[i + distance] = first.shuffled(move, second.text)
        distance //= 2
    return vectors


def _beside(parts: list[Vector]) -> Vector:
    """Concatenate vectors."""
    while len(parts) > 1:
        lanes = range(2 * parts[0].type.lanes)
        pairs = zip(parts[::2], parts[1::2], strict=True)
        parts = [a.shuffled(lanes, b.text) for a, b in pairs]
    return parts[0]
