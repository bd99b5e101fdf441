"""Packing: a panel of b copied into scratch memory, row after row, so that tiles read it in order.

    void pack(ptr source, i64 source_k, i64 source_n, i64 depth, i64 columns,
              ptr panel, i64 width)

writes panel[k, j] = source[k, j] for k < depth, j < columns; the panel's rows are `width` apart.
What lies beyond `columns`, up to the next full vector, is left as it is or written with numbers
that are never used.
"""

from __future__ import annotations

from gradwalk.compiler.backends.llvm.emit.function_text import Function
from gradwalk.compiler.backends.llvm.emit.kernel import first_lanes, load, store
from gradwalk.compiler.backends.llvm.emit.vector_values import Kind, Value

PARAMETERS = (
    "ptr noalias %source, i64 %source_k, i64 %source_n, i64 %depth, i64 %columns, "
    "ptr noalias %panel, i64 %width"
)
PIECE_BYTES = 16  # columns are loaded in such pieces, which shuffles turn without crossing them


def pack_function(name: str, kind: Kind, unit: str | None) -> Function:
    """The function that packs a matrix with unit stride along n, along k or neither."""
    f = Function(name, PARAMETERS, "private void", 'nounwind "prefer-vector-width"="512"')
    if unit == "n":
        _copy_rows(f, kind)
    elif unit == "k":
        _turn_columns(f, kind)
    else:
        _copy_numbers(f, kind, "0")
    return f


def _at(f: Function, kind: Kind, base: str, index: str) -> str:
    return f.set(f"getelementptr {kind.element}, ptr {base}, i64 {index}")


def _copy_rows(f: Function, kind: Kind) -> None:
    """Rows are contiguous: copy vectors."""
    lanes = str(kind.lanes)
    wide = f.set(f"icmp sgt i64 %columns, {lanes}")
    narrow = f.set(f"xor i1 {wide}, true")
    for condition, vectors in ((wide, 2), (narrow, 1)):
        with f.when(condition):
            left = f.set(f"sub i64 %columns, {(vectors - 1) * kind.lanes}")
            mask = first_lanes(f, left, kind.lanes)
            with f.loop("0", "%depth", carried=[("ptr", "%source"), ("ptr", "%panel")]) as row:
                source, panel = row.carried
                if vectors == 2:
                    store(f, load(f, source, kind), panel)
                last = str((vectors - 1) * kind.lanes)
                value = load(f, _at(f, kind, source, last), kind, mask)
                store(f, value, _at(f, kind, panel, last))
                row.carry(_at(f, kind, source, "%source_k"), _at(f, kind, panel, "%width"))


def _copy_numbers(f: Function, kind: Kind, first: str) -> None:
    """Any strides: the rows from `first` on, one number after the other."""
    one = Kind(kind.dtype)
    with f.loop(first, "%depth") as row:
        source = _at(f, kind, "%source", f.multiply(row.index, "%source_k"))
        panel = _at(f, kind, "%panel", f.multiply(row.index, "%width"))
        with f.loop("0", "%columns", carried=[("ptr", source)]) as column:
            (place,) = column.carried
            store(f, load(f, place, one), _at(f, kind, panel, column.index))
            column.carry(_at(f, kind, place, "%source_n"))


def _turn_columns(f: Function, kind: Kind) -> None:
    """Columns are contiguous: pieces of `lanes` columns make as many rows as a piece is long."""
    lanes = kind.lanes
    length = PIECE_BYTES // kind.dtype.itemsize
    full = f.set(f"and i64 %depth, {-length}")
    lines = f.set(f"alloca [{lanes} x ptr], align 8")  # where each column begins
    with f.loop("0", "%columns", str(lanes)) as column:
        left = f.set(f"sub i64 %columns, {column.index}")
        last = f.set(f"sub i64 {left}, 1")
        source = _at(f, kind, "%source", f.multiply(column.index, "%source_n"))
        panel = _at(f, kind, "%panel", column.index)
        with f.loop("0", str(lanes), at_least_once=True) as lane:
            number = f.smaller(lane.index, last)  # beyond the last column: the last one again
            line = _at(f, kind, source, f.multiply(number, "%source_n"))
            f.do(f"store ptr {line}, ptr {_line_of(f, lines, lane.index)}, align 8")
        with f.loop("0", full, str(length)) as block:
            pieces = []
            for place in range(lanes):
                line = f.set(f"load ptr, ptr {_line_of(f, lines, str(place))}, align 8")
                pieces.append(load(f, _at(f, kind, line, block.index), Kind(kind.dtype, length)))
            row = _at(f, kind, panel, f.multiply(block.index, "%width"))
            for turned in _turned(f, pieces):
                store(f, turned, row)
                row = _at(f, kind, row, "%width")
    _copy_numbers(f, kind, full)


def _line_of(f: Function, lines: str, number: str) -> str:
    return f.set(f"getelementptr ptr, ptr {lines}, i64 {number}")


def _turned(f: Function, pieces: list[Value]) -> list[Value]:
    """pieces[lane][k] as vectors[k][lane].

    Every `length`-th piece is put into one vector; then `length` such vectors are transposed, all
    their pieces at once.
    """
    length = pieces[0].kind.lanes
    return transposed(f, [_beside(f, pieces[first::length]) for first in range(length)])


def transposed(f: Function, vectors: list[Value]) -> list[Value]:
    """Squares of as many lanes as there are vectors, side by side, each transposed: neighbours at a
    distance exchange what is off the diagonal."""
    length, lanes = len(vectors), vectors[0].kind.lanes
    distance = length // 2
    while distance:
        stay = [c - distance + lanes if c & distance else c for c in range(lanes)]
        move = [c + lanes if c & distance else c + distance for c in range(lanes)]
        for i in range(length):
            if not i & distance:
                pair = vectors[i], vectors[i + distance]
                vectors[i] = _shuffled(f, *pair, stay)
                vectors[i + distance] = _shuffled(f, *pair, move)
        distance //= 2
    return vectors


def _beside(f: Function, parts: list[Value]) -> Value:
    """Vectors as one, in their order."""
    while len(parts) > 1:
        places = list(range(2 * parts[0].kind.lanes))
        parts = [_shuffled(f, a, b, places) for a, b in zip(parts[::2], parts[1::2])]
    return parts[0]


def _shuffled(f: Function, first: Value, second: Value, places: list[int]) -> Value:
    kind = first.kind
    chosen = ", ".join(f"i32 {p}" for p in places)
    text = f.set(
        f"shufflevector {kind.text} {first.text}, {kind.text} {second.text}, "
        f"<{len(places)} x i32> <{chosen}>"
    )
    return Value(f, Kind(kind.dtype, len(places)), text)
