"""The scalar form of one element of a tensor operation: its numbers and operations.

An element of a matrix product is a dot product, of a sum a chain of additions, of a reshape the
element that moved there. For ops without index arithmetic here, the op itself tells: pulling a
gradient that is 1 at the element and 0 elsewhere shows what the element depends on, and numbered
operands show which factors belong together.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from string import ascii_uppercase
from typing import Any

import numpy as np

from gradwalk.inspect.trace import replay
from gradwalk.inspect.trace.trace import Edge, Shape, Trace, TraceNode
from gradwalk.ops import TABLE
from gradwalk.ops.core.dtypes import is_floating
from gradwalk.ops.core.op import Op

Element = tuple[Edge, int]  # an operand and a place in it, counted through its flattened form
MOST_WRITTEN_OUT = 4096  # terms of one chain; a longer one is not for reading


def _itself(maker: Maker, nodes: list[int]) -> int:
    return nodes[0]


@dataclass(slots=True)
class Form:
    """`build` makes an element out of `parts`: other elements, or plain numbers."""

    parts: Sequence[Any]
    build: Callable[[Maker, list[int]], int] = _itself
    note: str = ""  # what the reader should know about it


class Maker:
    """Appends scalar operations to a trace of numbers."""

    def __init__(self) -> None:
        self.trace = Trace()
        self.trace.scalar = True
        self._numbers: dict[Any, int] = {}

    def leaf(self, value: Any, label: str = "", needs_grad: bool = True) -> int:
        """Add a leaf."""
        value = value if isinstance(value, (bool, np.bool_)) else float(value)
        made = TraceNode(0, "", label=label, needs_grad=needs_grad, values=[value])
        return self.trace.add(made)

    def number(self, value: float) -> int:
        """A constant; equal ones are one node."""
        key = (type(value), value)
        if key not in self._numbers:
            self._numbers[key] = self.leaf(value, needs_grad=False)
        return self._numbers[key]

    def apply(self, name: str, *args: int, **attrs: Any) -> int:
        """One operation on numbers."""
        values = [self.trace.nodes[a].values[0] for a in args]
        result = TABLE[name].on_numbers(values, attrs)
        node = TraceNode(0, name, tuple(map(Edge, args)), attrs, values=[result])
        return self.trace.add(node)

    def chain(self, name: str, parts: Sequence[int]) -> int:
        """((a op b) op c) op d."""
        return reduce(lambda total, part: self.apply(name, total, part), parts)

    def times(self, part: int, factor: float) -> int:
        """A multiple; once is the number itself."""
        if factor == 1:
            return part
        return self.apply("neg", part) if factor == -1 else self.apply(
            "mul", self.number(factor), part
        )  # fmt: skip


@dataclass
class Operation:
    """A node of a tensor trace, with cached facts about its elements."""

    trace: Trace
    node: TraceNode
    op: Op

    @cached_property
    def args(self) -> list[Any]:
        """The operands as arrays."""
        return replay.typed(self.node, replay.known_operands(self.trace, self.node))

    @cached_property
    def numbered(self) -> list[Any]:
        """The outputs if the elements of all floating operands are numbered, from 1 on."""
        args, count = [], 0
        for value, argument in zip(self.args, self.node.args):
            if moves(value, argument):
                args.append(np.arange(count, count + value.size).reshape(value.shape) + 1)
                count += value.size
            else:
                args.append(value)
        attrs = self.node.attrs
        attrs = {**attrs, "dtype": np.dtype(np.int64)} if self.op.name == "cast" else attrs
        return replay.outputs_of(self.op, self.op.forward(*args, **attrs))

    def value(self, output: int, flat: int) -> float:
        """The element itself."""
        kept = self.node.values[output]
        return float(np.asarray(kept).reshape(-1)[flat])

    def row(self, output: int, flat: int) -> list[tuple[Element, float]]:
        """d element / d operand, where it is not 0: one pull."""
        pulled = replay.pull(self.trace, self.node, replay.one_hot(self.node, output, flat))
        terms = []
        for argument, contribution in zip(self.node.args, pulled):
            if contribution is None or not isinstance(argument, Edge):
                continue
            slopes = np.asarray(contribution).reshape(-1)
            terms += [((argument, int(i)), float(slopes[i])) for i in np.flatnonzero(slopes)]
        return terms


def moves(value: Any, argument: Any) -> bool:
    """Whether an operand has elements that an op can move: floats of another node."""
    return isinstance(argument, Edge) and is_floating(value.dtype)


# -- the forms -------------------------------------------------------------------------------------


def form_of(operation: Operation, output: int, flat: int) -> Form | None:
    """The scalar form of an element; None for a composite, which must be opened."""
    op = operation.op
    edges = operation.node.edges
    if edges and all(0 in operation.trace.shape_of(edge) for _, edge in edges):
        return _sum_of([], operation.value(output, flat))  # the sum of nothing, say
    if op.elementwise:
        return _elementwise(operation, flat)
    special = _SPECIAL.get(op.name)
    if special is not None:
        form = special(operation, output, flat)
        if form is not None:
            return form
    if op.name in LAYOUT:
        return _moved(operation, output, flat)
    if op.linear or op.name in LINEAR:
        return _weighted(operation, output, flat)
    if op.multilinear:
        return _products(operation, flat)
    return None


def linearised(operation: Operation, output: int, flat: int) -> Form:
    """value + Σ slope × (x − x now), written as a weighted sum and the rest."""
    terms = operation.row(output, flat)
    rest = operation.value(output, flat)
    args = dict(zip(operation.node.args, operation.args))
    for (edge, place), slope in terms:
        rest -= slope * float(np.asarray(args[edge]).reshape(-1)[place])
    note = (
        f"{operation.op.name} has no scalar form here: it is shown as the straight line that "
        "touches it at these values"
    )
    return _sum_of(terms, rest, note)


def _sum_of(terms: list[tuple[Element, float]], rest: float = 0.0, note: str = "") -> Form:
    def build(maker: Maker, nodes: list[int]) -> int:
        parts = [maker.times(part, slope) for part, (_, slope) in zip(nodes, terms)]
        if rest or not parts:
            parts.append(maker.number(rest))
        return maker.chain("add", parts)

    _written_out(len(terms))
    return Form([part for part, _ in terms], build, note)


def _written_out(count: int) -> None:
    if count > MOST_WRITTEN_OUT:
        raise TooLarge(f"one element is made of {count:,} terms, too many to write out")


class TooLarge(ValueError):
    """The scalar subgraph of an element is too large to read."""


def _elementwise(operation: Operation, flat: int) -> Form:
    node, op = operation.node, operation.op
    place = np.unravel_index(flat, node.shape)
    parts: list[Element | float] = []
    for argument in node.args:
        if isinstance(argument, Edge):
            parts.append((argument, broadcast_place(place, operation.trace.shape_of(argument))))
        else:
            parts.append(_number_at(argument, place))
    return Form(parts, lambda maker, nodes: maker.apply(op.name, *nodes, **node.attrs))


def broadcast_place(place: Sequence[Any], shape: Shape) -> int:
    """The index in an operand of `shape` of an element of the broadcast result."""
    own = place[len(place) - len(shape) :]
    inside = tuple(0 if n == 1 else int(i) for i, n in zip(own, shape))
    return int(np.ravel_multi_index(inside, shape)) if shape else 0


def _number_at(argument: Any, place: Sequence[Any]) -> float:
    array = np.asarray(argument)
    if array.dtype == bool:
        return bool(array.reshape(-1)[broadcast_place(place, array.shape)])
    return float(array.reshape(-1)[broadcast_place(place, array.shape)])


def _sum_of_products(groups: Sequence[tuple[Element, ...]], plus: Sequence[Element] = ()) -> Form:
    """Σ over the groups of the product of a group, and `plus` at the end."""
    _written_out(len(groups))
    parts = [part for group in groups for part in group]

    def build(maker: Maker, nodes: list[int]) -> int:
        left = iter(nodes)
        products = [maker.chain("mul", [next(left) for _ in group]) for group in groups]
        return maker.chain("add", [*products, *left] or [maker.number(0.0)])

    return Form([*parts, *plus], build)


def _contracted(
    operation: Operation, flat: int, equation: str, plus: Sequence[Element] = ()
) -> Form | None:
    """A contraction in the notation of einsum: a product per value of the letters summed over.

    An operand with fewer dimensions than letters lacks the first of them.
    """
    inputs, out = equation.split("->")
    terms = inputs.split(",")
    edges = operation.node.args[: len(terms)]
    if not all(isinstance(edge, Edge) for edge in edges) or "." in inputs:
        return None
    shapes = [operation.trace.shape_of(edge) for edge in edges]
    terms = [term[len(term) - len(shape) :] for term, shape in zip(terms, shapes)]
    sizes: dict[str, int] = {}
    for term, shape in zip(terms, shapes):
        for letter, n in zip(term, shape):
            sizes[letter] = max(n, sizes.get(letter, 1))
    at: dict[str, Any] = dict(zip(out, np.unravel_index(flat, operation.node.shape)))
    summed = {letter: n for letter, n in sizes.items() if letter not in at}
    count = math.prod(summed.values())
    _written_out(count)
    at.update(zip(summed, np.indices(tuple(summed.values())).reshape(len(summed), count)))
    columns = []
    for term, edge, shape in zip(terms, edges, shapes):
        index = tuple(0 if n == 1 else at[letter] for letter, n in zip(term, shape))
        places = np.ravel_multi_index(index, shape) if shape else 0
        columns.append([(edge, i) for i in np.broadcast_to(places, count).tolist()])
    return _sum_of_products(list(zip(*columns)), plus)


def _matmul(operation: Operation, output: int, flat: int) -> Form | None:
    batch = ascii_uppercase[: len(operation.node.shape) - 2]
    return _contracted(operation, flat, f"{batch}ik,{batch}kj->{batch}ij")


def _linear(operation: Operation, output: int, flat: int) -> Form | None:
    rows, bias = ascii_uppercase[: len(operation.node.shape) - 1], operation.node.args[2]
    if not isinstance(bias, Edge):
        return None
    unit = broadcast_place((flat % operation.node.shape[-1],), operation.trace.shape_of(bias))
    return _contracted(operation, flat, f"{rows}k,uk->{rows}u", [(bias, unit)])


def _einsum(operation: Operation, output: int, flat: int) -> Form | None:
    return _contracted(operation, flat, operation.node.attrs["equation"])


def _reduced_places(operation: Operation, flat: int) -> tuple[Edge, list[int]]:
    """The elements of the operand that one element of a reduction is made of."""
    (edge,) = (a for a in operation.node.args if isinstance(a, Edge))
    shape = operation.trace.shape_of(edge)
    attrs = operation.node.attrs
    axes = attrs.get("axis")
    axes = tuple(range(len(shape))) if axes is None else tuple(np.atleast_1d(axes).tolist())
    axes = tuple(a % len(shape) for a in axes) if shape else ()
    kept = tuple(1 if i in axes else n for i, n in enumerate(shape))
    place = np.unravel_index(flat, kept)
    index = tuple(slice(None) if i in axes else int(p) for i, p in enumerate(place))
    _written_out(math.prod(shape[i] for i in axes))
    numbers = np.arange(math.prod(shape)).reshape(shape)
    return edge, [int(i) for i in np.asarray(numbers[index]).reshape(-1)]


def _sum(operation: Operation, output: int, flat: int) -> Form:
    edge, places = _reduced_places(operation, flat)
    return _sum_of([((edge, i), 1.0) for i in places])


def _mean(operation: Operation, output: int, flat: int) -> Form:
    edge, places = _reduced_places(operation, flat)
    return Form(
        [(edge, i) for i in places],
        lambda maker, nodes: maker.apply(
            "div", maker.chain("add", nodes), maker.number(float(len(nodes)))
        ),
    )


def _router(choose: str) -> Callable[[Operation, int, int], Form | None]:
    """The largest (or smallest) of several: a chain of maximum, unless several share it."""

    def form(operation: Operation, output: int, flat: int) -> Form | None:
        if output:
            return None
        if operation.op.name == "max_pool":
            window = _pooled_places(operation, flat)
            if window is None:
                return None
            edge, places = window
        else:
            edge, places = _reduced_places(operation, flat)
        values = np.asarray(operation.args[0]).reshape(-1)[places]
        best = values.max() if choose == "maximum" else values.min()
        if np.count_nonzero(values == best) != 1:
            return _chosen(operation, output, flat)
        return Form([(edge, i) for i in places], lambda maker, window: maker.chain(choose, window))

    return form


def _pooled_places(operation: Operation, flat: int) -> tuple[Edge, list[int]] | None:
    """The window of one element of max_pool, asked of the sum over the same windows."""
    attrs = dict(operation.node.attrs)
    if any(d != 1 for d in attrs.pop("dilation")):
        return None
    edge = operation.node.args[0]
    shape = operation.trace.shape_of(edge)
    sums = TraceNode(
        operation.node.index, "pool_sum", (edge,), attrs, metas=((operation.node.shape, "float64"),)
    )
    (row,) = replay.pull(
        operation.trace, sums, replay.one_hot(sums, 0, flat), {edge: np.zeros(shape)}
    )
    return edge, [int(i) for i in np.flatnonzero(row)]


def _chosen(operation: Operation, output: int, flat: int) -> Form | None:
    """An element picked by its size: the one that won, or the mean of those that tie."""
    terms = operation.row(output, flat)
    note = f"{operation.op.name} passes on the element that won; which one depends on the values"
    if not terms or not math.isclose(sum(slope for _, slope in terms), 1.0, rel_tol=1e-5):
        return None
    return _sum_of(terms, note=note)


# -- asked of the op itself ------------------------------------------------------------------------


def _moved(operation: Operation, output: int, flat: int) -> Form:
    """A layout op: run it once on numbered elements, and see which number came here."""
    number = int(operation.numbered[output].reshape(-1)[flat]) - 1
    for value, argument in zip(operation.args, operation.node.args):
        if moves(value, argument):
            if number < value.size:
                return Form([(argument, number)])
            number -= value.size
    raise replay.NotReplayable(f"{operation.op.name} did not keep its elements")


def _weighted(operation: Operation, output: int, flat: int) -> Form:
    """A linear op: the weights of the sum are the element's derivatives."""
    terms = operation.row(output, flat)
    rest = 0.0 if terms else operation.value(output, flat)  # padding, say
    return _sum_of(terms, rest)


def _products(operation: Operation, flat: int) -> Form | None:
    """A bilinear op: with the other operand's elements numbered, an element's derivative is the
    number of the one it is multiplied by.
    """
    node = operation.node
    edges = [a for a in node.args if isinstance(a, Edge)]
    if len(edges) != 2 or len(node.args) != 2:
        return None
    arrays = [np.asarray(a) for a in operation.args]
    numbered = [np.arange(1.0, a.size + 1).reshape(a.shape) for a in arrays]
    hot = np.zeros(node.shape)
    hot.reshape(-1)[flat] = 1
    plan = operation.op.plan((True, True)).write()
    shown = []
    for args in ((arrays[0], numbered[1]), (numbered[0], arrays[1])):
        doubles = [np.asarray(a, np.float64) for a in args]
        saved = plan.save(operation.op.forward(*doubles, **node.attrs), *doubles)
        shown.append(plan.pull(hot, saved, node.attrs))
    partners = [np.rint(np.asarray(shown[i][i])).astype(np.int64).reshape(-1) for i in (0, 1)]
    left = np.flatnonzero(partners[0])
    pairs = [(int(i), int(partners[0][i]) - 1) for i in left]
    right = partners[1]
    fits = all(0 <= j < right.size and right[j] - 1 == i for i, j in pairs)
    if not fits or len(pairs) != np.count_nonzero(right):
        return None
    return _sum_of_products([((edges[0], i), (edges[1], j)) for i, j in pairs])


LAYOUT = {
    "alias", "cast", "clone", "concatenate", "diagonal", "expand", "flip", "gather_last", "getitem",
    "permute", "reshape", "split", "windows",
}  # fmt: skip
LINEAR = {"embedding", "pad", "put", "scatter_last", "setitem", "sum_rows", "write_view"}
_SPECIAL: dict[str, Callable[[Operation, int, int], Form | None]] = {
    "amax": _router("maximum"),
    "amin": _router("minimum"),
    "cummax": _chosen,
    "cummin": _chosen,
    "einsum": _einsum,
    "kthvalue": _chosen,
    "linear": _linear,
    "matmul": _matmul,
    "max": _router("maximum"),
    "max_pool": _router("maximum"),
    "mean": _mean,
    "median": _chosen,
    "median_along": _chosen,
    "min": _router("minimum"),
    "sort": _chosen,
    "sum": _sum,
    "topk": _chosen,
}
