"""One graph for any size of the open dimensions, from graphs that were written at several sizes.

The graphs have the same nodes and differ in constants: a shape, the end of a slice, 1/n. Each such
number is found as a sum of products of sizes, checked at one more size, and computed in the graph
from the shapes of the inputs.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from gradwalk.graph.source import source_line
from gradwalk.onnx.dtypes import code_of
from gradwalk.onnx.dynamic_dimensions import Dimensions, Point
from gradwalk.onnx.writers.table import GraphWriter, Value

Array = np.ndarray[Any, Any]
Sum = dict[tuple[str, ...], int]  # products of sizes, by their names, and a factor for each


class SizeFixed(ValueError):
    """A program depends on a size in a way that a file cannot say."""


class SymbolicGraph:
    """The graph of the first writer, made valid at every size.

    `writers[i]` wrote the same program at the sizes `points[i]`.
    """

    def __init__(
        self,
        writers: Sequence[GraphWriter],
        inputs: Sequence[Sequence[Value]],
        points: Sequence[Point],
        dimensions: Dimensions,
    ) -> None:
        self.writers, self.points = writers, points
        self.names = list(points[0])
        products = range(len(self.names) + 1)
        self.products = [p for n in products for p in itertools.combinations(self.names, n)]
        self.inputs = inputs[0]
        self.write = GraphWriter(writers[0].ir, prefix="size_")
        self._places = {name: place for place, name in reversed(dimensions.items())}
        self._sizes: dict[str, Value] = {}
        self._described = [_descriptions(w, i) for w, i in zip(writers, inputs, strict=True)]

    def nodes(self) -> list[Any]:
        """The nodes in order, with those that compute sizes before the ones that use them."""
        rows = [[n for n in w.nodes if n.op_type != "Constant"] for w in self.writers]
        if len({len(row) for row in rows}) != 1:
            raise SizeFixed("the function computes something else at another size")
        constants = [node for node in self.writers[0].nodes if node.op_type == "Constant"]
        self.write.nodes = constants
        for versions in zip(*rows, strict=True):
            self._merge(versions)
            self.write.nodes.append(versions[0])
        return self.write.nodes

    def _merge(self, versions: Sequence[Any]) -> None:
        """Make the inputs of a node valid at every size."""
        node = versions[0]
        if len({(v.op_type, len(v.inputs), str(v.attributes)) for v in versions}) != 1:
            raise self._fixed(node, "it is another node, or has another attribute, at another size")
        for place in range(len(node.inputs)):
            found = [
                told(version.inputs[place])
                for told, version in zip(self._described, versions, strict=True)
            ]
            if not isinstance(found[0], np.ndarray):
                if any(isinstance(f, np.ndarray) or f != found[0] for f in found):
                    raise self._fixed(node, "it reads another value at another size")
            elif any(not _same(f, found[0]) for f in found):
                made = self._constant(node, place, found)
                node.replace_input_with(place, made)

    def _constant(self, node: Any, place: int, arrays: list[Any]) -> Value:
        """A constant that depends on sizes, computed."""
        first = arrays[0]
        if any(not isinstance(a, np.ndarray) or a.dtype != first.dtype for a in arrays):
            raise self._fixed(node, "it reads another value at another size")
        if any(a.ndim != first.ndim for a in arrays):
            raise self._fixed(node, "a constant has another number of dimensions at another size")
        if node.op_type == "Reshape" and place == 1:
            differing = [i for i in range(first.size) if len({int(a[i]) for a in arrays}) > 1]
            if len(differing) == 1 and (first >= 0).all():  # it follows from the others
                return self.write.ints([*first[: differing[0]], -1, *first[differing[0] + 1 :]])
        made = (
            self._numbers(arrays) if len({a.shape for a in arrays}) == 1 else self._repeated(arrays)
        )
        if made is None:
            raise self._fixed(node, f"a constant of shape {first.shape} depends on it")
        return made

    def _numbers(self, arrays: list[Array]) -> Value | None:
        """A few numbers, each of which is a size, a product of sizes, or one divided by it."""
        first = arrays[0]
        if first.ndim > 1 or first.size > 64:
            return None
        if first.dtype.kind == "i":
            sums = [self._sum([int(a.flat[i]) for a in arrays]) for i in range(first.size)]
            made = self._vector(sums)
            if made is None:
                return None
            made = made if first.dtype == np.int64 else self._cast(made, first.dtype)
            return made if first.ndim else self.write("Squeeze", made)
        if first.size != 1 or first.dtype.kind != "f":
            return None
        values = np.array([float(a.item()) for a in arrays])
        for inverse in (False, True):
            with np.errstate(divide="ignore"):
                whole = np.rint(1 / values if inverse else values)
                exact = 1 / whole if inverse else whole
            if not np.isfinite(whole).all() or (exact.astype(first.dtype) != values).any():
                continue
            made = self._vector([self._sum([int(n) for n in whole])])
            if made is not None:
                made = self._cast(made, first.dtype)
                made = self.write("Reciprocal", made) if inverse else made
                return made if first.ndim else self.write("Squeeze", made)
        return None

    def _repeated(self, arrays: list[Array]) -> Value | None:
        """An array that repeats itself along open dimensions, or counts along one of them."""
        ndim = arrays[0].ndim
        shape = self._vector([self._sum([a.shape[axis] for a in arrays]) for axis in range(ndim)])
        if shape is None:
            return None
        open_axes = [axis for axis in range(ndim) if len({a.shape[axis] for a in arrays}) > 1]
        triangle = self._triangle(arrays, open_axes)
        if triangle is not None:
            return triangle
        counted = None
        for axis in open_axes:
            strips = [a.take([0], axis) for a in arrays]
            if all((a == s).all() for a, s in zip(arrays, strips, strict=True)):
                arrays = strips
            elif counted is None:
                counted = axis
            else:
                return None
        if counted is None:
            if any(not _same(a, arrays[0]) for a in arrays):
                return None
            return self.write("Expand", self.write.constant(arrays[0]), shape)
        if arrays[0].dtype.kind != "i" or any(a.size != a.shape[counted] for a in arrays):
            return None
        flat = [a.reshape(-1) for a in arrays]
        start = flat[0][0]
        step = flat[0][1] - start if flat[0].size > 1 else start.dtype.type(1)
        if any((f != start + step * np.arange(f.size, dtype=f.dtype)).any() for f in flat):
            return None
        return self.write("Expand", self._range(arrays, counted, start, step), shape)

    def _range(self, arrays: list[Array], axis: int, start: Any, step: Any) -> Value:
        """Numbers that count along an axis, whose length is known to be a sum."""
        length = self._vector([self._sum([a.shape[axis] for a in arrays])])
        count = self._cast(self.write("Squeeze", length), start.dtype)
        first, each = self.write.constant(start), self.write.constant(step)
        end = self.write("Add", self.write("Mul", count, each), first)
        column = [-1 if one == axis else 1 for one in range(arrays[0].ndim)]
        return self.write("Reshape", self.write("Range", first, end, each), column)

    def _triangle(self, arrays: list[Array], open_axes: list[int]) -> Value | None:
        """A causal mask: one number on and below a diagonal, another above it."""
        if len(open_axes) != 2 or any(a.size < 2 or a.size != math.prod(
            [a.shape[axis] for axis in open_axes]) for a in arrays):  # fmt: skip
            return None
        rows, columns = open_axes
        matrices = [a.reshape(a.shape[rows], a.shape[columns]) for a in arrays]
        for diagonal in (0, -1):
            below, above = matrices[0][-1, 0], matrices[0][0, -1]
            kept = [np.tril(np.ones(m.shape, bool), diagonal) for m in matrices]
            wanted = [np.where(keep, below, above) for keep in kept]
            if all((m == w).all() for m, w in zip(matrices, wanted, strict=True)):
                row = self._range(arrays, rows, np.int64(diagonal), np.int64(1))
                column = self._range(arrays, columns, np.int64(0), np.int64(1))
                keep = self.write("LessOrEqual", column, row)
                if below.dtype.kind == "b":  # ONNX Runtime chooses between no booleans
                    return keep if below else self.write("Not", keep)
                low, high = self.write.constant(below), self.write.constant(above)
                return self.write("Where", keep, low, high)
        return None

    # -- sizes -------------------------------------------------------------------------------------

    def _sum(self, values: list[int]) -> Sum | None:
        """The sum of products of sizes that has these values at the points."""
        table = [
            [math.prod([point[name] for name in product]) for product in self.products]
            for point in self.points
        ]
        corners = 2 ** len(self.names)
        solved = np.linalg.solve(
            np.array(table[:corners], float), np.array(values[:corners], float)
        )
        factors = [int(n) for n in np.rint(solved)]
        for row, value in zip(table, values, strict=True):
            if sum(f * n for f, n in zip(factors, row, strict=True)) != value:
                return None
        return {p: f for p, f in zip(self.products, factors, strict=True) if f}

    def _vector(self, sums: Sequence[Sum | None]) -> Value | None:
        """Numbers as one int64 vector."""
        parts = []
        for one in sums:
            if one is None:
                return None
            parts.append(self._computed(one))
        return parts[0] if len(parts) == 1 else self.write("Concat", *parts, axis=0)

    def _computed(self, one: Sum) -> Value:
        total = None
        for product, factor in one.items():
            made = self.write.ints([factor]) if factor != 1 or not product else None
            for name in product:
                size = self._size(name)
                made = size if made is None else self.write("Mul", made, size)
            total = made if total is None else self.write("Add", total, made)
        return self.write.ints([0]) if total is None else total

    def _size(self, name: str) -> Value:
        if name not in self._sizes:
            number, axis = self._places[name]
            source = self.inputs[number]
            self._sizes[name] = self.write("Shape", source, start=axis, end=axis + 1)
        return self._sizes[name]

    def _cast(self, value: Value, dtype: Any) -> Value:
        return value if dtype == np.int64 else self.write("Cast", value, to=code_of(dtype))

    def dimension(self, sizes: list[int]) -> Any:
        """A dimension of an output as a file states it: a number, a name, or neither."""
        if len(set(sizes)) == 1:
            return sizes[0]
        found = self._sum(sizes)
        for name in self.names:
            if found == {(name,): 1}:
                return name
        return None

    def _fixed(self, node: Any, why: str) -> SizeFixed:
        call = self.writers[0].calls.get(id(node))
        line = None if call is None or call.line is None else source_line(*call.line)
        at = "" if call is None else f" in {call.op.name}" + (f" at {line}" if line else "")
        return SizeFixed(f"{node.op_type}{at}: {why}")


def _same(a: Any, b: Any) -> bool:
    if not isinstance(a, np.ndarray) or (a.dtype, a.shape) != (b.dtype, b.shape):
        return False
    at_once = a.__array_interface__["data"] == b.__array_interface__["data"]
    return (at_once and a.strides == b.strides) or a.tobytes() == b.tobytes()


def _descriptions(write: GraphWriter, inputs: Sequence[Value]) -> Any:
    """What an input of a node is: an array if constant, else something to compare by."""
    known: dict[int, Any] = {id(value): ("input", i) for i, value in enumerate(inputs)}
    computed = 0
    for node in write.nodes:
        if node.op_type == "Constant":
            known[id(node.outputs[0])] = node.attributes["value"].value.numpy()
            continue
        known |= {id(value): (computed, i) for i, value in enumerate(node.outputs)}
        computed += 1

    def described(value: Any) -> Any:
        if value is None:
            return None
        return known[id(value)] if id(value) in known else value.const_value.numpy()

    return described
