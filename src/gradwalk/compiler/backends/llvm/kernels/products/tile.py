"""The inner functions of products: the register tile, and packing.

A tile is rows × vectors of a product, summed over k without leaving registers.

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

TILE_PARAMETERS = (
    "ptr noalias %a, i64 %a_row, i64 %a_k, ptr noalias %b, i64 %b_k, i64 %depth, "
    "ptr noalias %out, i64 %out_row, i1 %adds"
)
PACK_PARAMETERS = (
    "ptr noalias %source, i64 %source_k, i64 %source_n, i64 %depth, i64 %columns, "
    "ptr noalias %panel, i64 %width"
)
PIECE_BYTES = (
    16  # columns are loaded in such pieces, which shuffles transpose without crossing them
)
# Three rows are one address register: p, p + row and p + 2 · row are addresses x86 can form.
ROWS_PER_POINTER = 3


def tile_function(name: str, kind: Type, rows: int, vectors: int) -> VectorBuilder:
    """Write the function of a tile."""
    f = VectorBuilder(name, TILE_PARAMETERS, private=True)
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


# -- packing ---------------------------------------------------------------------------------------


def write_pack(f: VectorBuilder, kind: Type, unit: str) -> None:
    """The function that copies a panel of b into scratch memory, row after row, so that tiles read
    it in order; b has unit stride along n, along k or any.

    It writes panel[k, j] = source[k, j] for k < depth, j < columns; the panel's rows are `width`
    apart. What lies beyond `columns`, up to the next full vector, is left as it is or written with
    numbers that are never used.
    """
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
