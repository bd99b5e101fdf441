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

from gradwalk.compiler.backends.llvm.emit.function_text import Function
from gradwalk.compiler.backends.llvm.emit.kernel import element_pointer, first_lanes, load, store
from gradwalk.compiler.backends.llvm.emit.vector_values import Kind, Value

ROWS_TYPES = ("ptr", "ptr", "ptr", "i64", "ptr", "i64", "ptr", "ptr", "i64")
DOTS_TYPES = ("ptr", "ptr", "ptr", "ptr", "ptr", "i64", "i64", "ptr")
OUTPUTS = (4, 2, 1)  # of a rows tile
VECTORS = {True: (6, 1), False: (3, 1)}  # of a rows tile, by whether there are many registers
DOTS = (9, 3, 1)  # sums of a dots tile: nine places of the most common kernel

ATTRIBUTES = 'nounwind "prefer-vector-width"="512"'


def _number(f: Function, table: str, index: str | int) -> str:
    place = f.set(f"getelementptr i64, ptr {table}, i64 {index}")
    return f.set(f"load i64, ptr {place}, align 8")


def rows_function(name: str, kind: Kind, outputs: int, vectors: int) -> Function:
    """The first of these functions."""
    f = Function(
        name, "ptr noalias %x, ptr noalias %places, ptr noalias %steps, i64 %depth, "
        "ptr noalias %weight, i64 %weight_row, ptr noalias %out, ptr noalias %targets, "
        "i64 %out_row", attributes=ATTRIBUTES,
    )  # fmt: skip
    dtype, one = kind.dtype, Kind(kind.dtype)
    starts = []
    for vector in range(vectors):
        start = f.set(f"freeze i64 {_number(f, '%places', vector)}")
        starts.append(element_pointer(f, "%x", dtype, start))
    lines = [
        element_pointer(f, "%weight", dtype, f.multiply(str(o), "%weight_row"))
        for o in range(outputs)
    ]
    with f.loop("0", "%depth", carried=[(kind.text, "zeroinitializer")] * outputs * vectors) as k:
        step = _number(f, "%steps", k.index)
        pixels = [load(f, element_pointer(f, start, dtype, step), kind) for start in starts]
        following = []
        for o, line in enumerate(lines):
            weight = load(f, element_pointer(f, line, dtype, k.index), one).spread(kind.lanes)
            for v, pixel in enumerate(pixels):
                total = Value(f, kind, k.carried[o * vectors + v])
                following.append(weight.fused(pixel, total).text)
        k.carry(*following)
    # In the order of the pixels: what a vector has beyond the end of a row, the next one replaces.
    for o in range(outputs):
        line = element_pointer(f, "%out", dtype, f.multiply(str(o), "%out_row"))
        for v in range(vectors):
            place = element_pointer(f, line, dtype, _number(f, "%targets", v))
            store(f, Value(f, kind, k.results[o * vectors + v]), place)
    return f


def dots_function(name: str, kind: Kind, rows: int) -> Function:
    """The second of these functions."""
    f = Function(
        name, "ptr noalias %x, ptr noalias %rows, ptr noalias %x_steps, ptr noalias %y, "
        "ptr noalias %y_steps, i64 %count, i64 %valid, ptr noalias %sums", attributes=ATTRIBUTES,
    )  # fmt: skip
    dtype = kind.dtype
    starts = []
    for row in range(rows):
        start = f.set(f"freeze i64 {_number(f, '%rows', row)}")
        starts.append(element_pointer(f, "%x", dtype, start))
    mask = first_lanes(f, "%valid", kind.lanes)
    targets = [element_pointer(f, "%sums", dtype, str(r * kind.lanes)) for r in range(rows)]
    before = [(kind.text, load(f, target, kind).text) for target in targets]
    with f.loop("0", "%count", carried=before) as n:
        place = element_pointer(f, "%y", dtype, _number(f, "%y_steps", n.index))
        factor = load(f, place, kind, mask)
        step = _number(f, "%x_steps", n.index)
        following = []
        for row, start in enumerate(starts):
            pixel = load(f, element_pointer(f, start, dtype, step), kind, mask)
            following.append(pixel.fused(factor, Value(f, kind, n.carried[row])).text)
        n.carry(*following)
    for target, total in zip(targets, n.results, strict=True):
        store(f, Value(f, kind, total), target)
    return f


def sum_function(name: str, kind: Kind) -> Function:
    """void lanes(ptr vectors, i64 count, ptr sums): the lanes of each vector added up, in order."""
    f = Function(name, "ptr noalias %vectors, i64 %count, ptr noalias %sums", attributes=ATTRIBUTES)
    element = kind.element
    with f.loop("0", "%count") as n:
        place = f.set(f"getelementptr {kind.text}, ptr %vectors, i64 {n.index}")
        vector = load(f, place, kind)
        total = f.call(
            element, f"llvm.vector.reduce.fadd.{kind.suffix}",
            (element, Kind(kind.dtype).constant(0.0)), (kind.text, vector.text),
        )  # fmt: skip
        target = f.set(f"getelementptr {element}, ptr %sums, i64 {n.index}")
        store(f, Value(f, Kind(kind.dtype), total), target)
    return f
