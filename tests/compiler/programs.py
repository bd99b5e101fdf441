"""Hand-written and random programs, with the results of the NumPy reference.

Random programs compute with small integers, so sums and products are exact in any order, and every
backend must get exactly the results of the reference.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from hypothesis import strategies as st

from gradwalk.compiler.backends import numpy as reference
from gradwalk.compiler.ir.program import Argument, Builder, Constant, Memory, Program, Scalar, Term
from gradwalk.compiler.pipeline import build, lower
from gradwalk.compiler.plan.schedule import Plan
from gradwalk.ops import TABLE
from gradwalk.ops.core.op import Shape

Array = np.ndarray[Any, Any]
WHOLE = ("slice", None, None, None)


@dataclass
class Written:
    """A program under construction: `add("mul", x, 2.0)` returns a term, `run` the results."""

    build: Builder = field(default_factory=Builder)
    arguments: list[Array] = field(default_factory=list)
    memories: list[Array] = field(default_factory=list)
    scalars: list[float] = field(default_factory=list)
    results: list[Term] = field(default_factory=list)
    updates: list[tuple[Term, Term]] = field(default_factory=list)

    def argument(self, array: Any) -> Term:
        """An argument of the program."""
        array = np.asarray(array)
        self.arguments.append(array)
        return Term(array.shape, array.dtype, source=Argument(len(self.arguments) - 1))

    def memory(self, array: Any) -> Term:
        """Captured memory, which the program may update."""
        array = np.array(array)
        self.memories.append(array)
        return Term(array.shape, array.dtype, source=Memory(len(self.memories) - 1))

    def number(self, value: float) -> Term:
        """A runtime scalar: a Python number that is read at every call."""
        self.scalars.append(value)
        return Term((), np.dtype(np.float64), source=Scalar(len(self.scalars) - 1))

    def constant(self, array: Any, dtype: Any = None) -> Term:
        """An array that is part of the program."""
        array = np.asarray(array, dtype)
        return Term(array.shape, array.dtype, source=Constant(array))

    def add(self, op: str, *args: Any, **attrs: Any) -> Any:
        """The output of a call, or a tuple of them."""
        return self.build.apply(TABLE[op], args, attrs)

    def returns(self, *terms: Term) -> Written:
        """Set the results; like the tracer, never a source, and no term twice."""
        for term in terms:
            new = term.call is None or term in self.results
            self.results.append(self.add("clone", term) if new else term)
        return self

    def becomes(self, place: Term, value: Term) -> Written:
        """Set the value of a memory or a runtime scalar after the call."""
        self.updates.append((place, value))
        return self

    @property
    def program(self) -> Program:
        """The program as it is now."""
        return Program(list(self.build.calls), list(self.results), list(self.updates))

    def expected(self) -> Outcome:
        """The results of the reference."""
        return self.outcome(reference.NumpyExecutable(self.program))

    def outcome(self, executable: Any) -> Outcome:
        """Run an executable on copies of the arrays; return its results and updates."""
        memories = [a.copy(order="K") for a in self.memories]
        arguments = [a.copy(order="K") if a.base is None else a for a in self.arguments]
        results, scalars = executable(arguments, memories, list(self.scalars))
        return Outcome(list(results), memories, list(scalars))


@dataclass
class Outcome:
    """The results and updates of a call."""

    results: list[Array]
    memories: list[Array]
    scalars: list[float]

    def arrays(self) -> list[Array]:
        """All results and updates as arrays."""
        return [*self.results, *self.memories, *map(np.asarray, self.scalars)]


def assert_equal(found: Outcome, expected: Outcome, tolerance: float = 0.0) -> None:
    """Shapes, dtypes and numbers are equal, or within a tolerance; NaN equals NaN."""
    pairs = zip(found.arrays(), expected.arrays(), strict=True)
    for position, (one, other) in enumerate(pairs):
        assert (one.shape, one.dtype) == (other.shape, other.dtype), position
        np.testing.assert_allclose(one, other, tolerance, tolerance, err_msg=str(position))


def assert_same_bits(found: Outcome, expected: Outcome) -> None:
    """Equal to the last bit, the sign of a zero included; a NaN is any NaN."""
    for one, other in zip(found.arrays(), expected.arrays(), strict=True):
        np.testing.assert_array_equal(one, other)
        if one.dtype.kind == "f":
            np.testing.assert_array_equal(np.signbit(one[one == 0]), np.signbit(other[other == 0]))


def plan_of(program: Program) -> Plan:
    """The plan that the LLVM backend gets."""
    found = lower(program).plan
    assert found is not None
    return found


def agrees(written: Written, tolerance: float | None = None, layout: Any = None) -> None:
    """Assert that native code agrees with the reference, at the first and the second call; to the
    last bit unless a tolerance is given."""
    expected, executable = written.expected(), build(written.program, layout)
    for _ in range(2):
        found = written.outcome(executable)
        if tolerance is None:
            assert_same_bits(found, expected)
        else:
            assert_equal(found, expected, tolerance)


# -- random programs -------------------------------------------------------------------------------

LENGTHS = st.sampled_from([1, 2, 3, 1, 5, 17, 33, 0])
LARGEST = 2000  # elements
BOUND = 8  # larger numbers are reduced to this range


def _shapes(draw: Any) -> Shape:
    shape = tuple(draw(st.lists(LENGTHS, max_size=3)))
    return shape if math.prod(shape) <= LARGEST else shape[:1]


def _array(draw: Any, shape: Shape, dtype: Any) -> Array:
    """Integers, sometimes with a NaN or an infinity among them."""
    source = np.random.default_rng(draw(st.integers(0, 99)))
    array = np.asarray(source.integers(-4, 5, shape)).astype(dtype)
    if array.size and draw(st.integers(0, 9)) == 0:
        array[tuple(source.integers(0, n) for n in shape)] = draw(
            st.sampled_from([np.nan, np.inf, -np.inf, -0.0])
        )
    return array


class Drawing:
    """A program that grows by random calls."""

    def __init__(self, draw: Any) -> None:
        self.draw = draw
        self.written = Written()
        self.dtype = np.dtype(draw(st.sampled_from([np.float32, np.float64])))
        w = self.written
        shapes = [_shapes(draw) for _ in range(2)]
        self.terms = [w.argument(_array(draw, shapes[i % 2], self.dtype)) for i in range(2)]
        self.memories = [
            w.memory(_array(draw, draw(st.sampled_from(shapes)), self.dtype))
            for _ in range(draw(st.integers(0, 3)))
        ]
        self.terms += self.memories

    def pick(self, test: Callable[[Term], bool] = lambda term: True) -> Term | None:
        """Draw a term that meets a condition; recent terms are more likely."""
        fit = [t for t in self.terms if test(t)]
        return fit[-1 - min(self.draw(st.integers(0, 7)), len(fit) - 1)] if fit else None

    def grow(self) -> None:
        """Add one call, or a few that belong together."""
        action = self.draw(st.sampled_from(ACTIONS))
        found = action(self)
        if found is not None and found.size <= LARGEST:
            self.terms.append(found)

    def small(self, term: Term) -> Term:
        """Reduce to small integers."""
        return self.written.add("clip", term, min=-float(BOUND), max=float(BOUND))

    def finish(self) -> Written:
        """Make some terms results, and some the new values of memories."""
        w = self.written
        for memory in self.memories:
            value = self.pick(lambda t, m=memory: t.shape == m.shape)
            if value is not None and self.draw(st.integers(0, 3)):
                w.becomes(memory, value)
        if self.draw(st.booleans()):
            scalars = w.number(3.0)
            half = w.add("mul", scalars, 0.5)
            w.becomes(scalars, w.add("sub", scalars, 1.0))
            self.terms.append(w.add("add", self.terms[0], w.add("cast", half, dtype=self.dtype)))
        for _ in range(self.draw(st.integers(1, 3))):
            found = self.pick()
            assert found is not None
            w.returns(found)
        return w


def _unary(d: Drawing) -> Term | None:
    name = d.draw(st.sampled_from(["neg", "abs", "relu", "sign", "square", "floor"]))
    found = d.written.add(name, d.pick())
    return d.small(found) if name == "square" else found


def _binary(d: Drawing) -> Term | None:
    names = ["add", "sub", "mul", "maximum", "minimum", "where"]
    name = d.draw(st.sampled_from(names))
    x = d.pick()
    assert x is not None
    number = d.draw(st.sampled_from([0.0, -0.0, 1.0, 2.0, -1.0]))
    y: Any = d.pick(lambda t: _broadcast(t, x) is not None) if d.draw(st.integers(0, 4)) else number
    if name == "where":
        return d.written.add("where", d.written.add("greater", x, y), x, y)
    return d.small(d.written.add(name, x, y))


def _broadcast(x: Term, y: Term) -> Shape | None:
    try:
        shape = np.broadcast_shapes(x.shape, y.shape)
    except ValueError:
        return None
    return shape if math.prod(shape) <= LARGEST else None


def _reduction(d: Drawing) -> Term | None:
    x = d.pick(lambda t: t.ndim > 0)
    if x is None:
        return None
    axes = tuple(sorted(d.draw(st.sets(st.integers(0, x.ndim - 1), min_size=1))))
    keepdim = d.draw(st.booleans())
    name = d.draw(st.sampled_from(["sum", "sum", "mean", "amax", "amin"]))
    if name.startswith("a") and 0 in [x.shape[a] for a in axes]:
        return None
    found = d.written.add(name, x, axis=axes, keepdim=keepdim)
    return d.small(d.written.add("floor", found) if name == "mean" else found)


def _counted(d: Drawing) -> Term | None:
    """Convert to booleans and integers, and back to floats."""
    x = d.pick(lambda t: t.ndim > 0)
    if x is None:
        return None
    w = d.written
    axis = (d.draw(st.integers(0, x.ndim - 1)),)
    more = w.add("greater", x, d.draw(st.sampled_from([0.0, 1.0])))
    name = d.draw(st.sampled_from(["sum", "any", "all"]))
    found = w.add(name, more, axis=axis, keepdim=d.draw(st.booleans()))
    whole = w.add("cast", found, dtype=np.dtype(d.draw(st.sampled_from([np.int64, np.int32]))))
    return w.add("cast", w.add("minimum", whole, BOUND), dtype=d.dtype)


def _centred(d: Drawing) -> Term | None:
    """The pattern of a normalization: x, its sum along a row, and both; in several passes."""
    x = d.pick(lambda t: t.ndim > 0 and 0 not in t.shape)
    if x is None:
        return None
    w = d.written
    axis = (d.draw(st.integers(0, x.ndim - 1)),)
    best = w.add("amax", x, axis=axis, keepdim=True)
    lower = w.add("maximum", w.add("sub", x, best), -3.0)
    total = d.small(w.add("sum", lower, axis=axis, keepdim=True))
    return d.small(w.add("mul", lower, total))


def _reshape(d: Drawing) -> Term | None:
    x = d.pick()
    assert x is not None
    others = {(x.size,), (1, x.size), (x.size, 1)}
    others |= {(k, x.size // k) for k in (2, 3, 17) if x.size % k == 0}
    if x.ndim == 3:
        others |= {(x.shape[0], x.shape[1] * x.shape[2]), (x.shape[0] * x.shape[1], x.shape[2])}
    return d.written.add("reshape", x, shape=d.draw(st.sampled_from(sorted(others))))


def _permute(d: Drawing) -> Term | None:
    x = d.pick(lambda t: t.ndim > 1)
    return x and d.written.add("permute", x, axes=tuple(d.draw(st.permutations(range(x.ndim)))))


def _expand(d: Drawing) -> Term | None:
    x = d.pick(lambda t: t.ndim < 3)
    if x is None:
        return None
    shape = tuple(d.draw(LENGTHS) if n == 1 else n for n in x.shape)
    return d.written.add("expand", x, shape=(d.draw(st.sampled_from([1, 2, 3])), *shape))


def _slice(d: Drawing) -> Term | None:
    x = d.pick(lambda t: t.ndim > 0)
    if x is None:
        return None
    parts: list[Any] = [None] if d.draw(st.integers(0, 5)) == 0 else []
    for n in x.shape[: d.draw(st.integers(1, x.ndim))]:
        some = [WHOLE, ("slice", 1, None, None), ("slice", None, None, 2), ("slice", 0, 1, None)]
        some += [("slice", None, None, -1), *([n - 1, -1] if n else [])]
        parts.append(d.draw(st.sampled_from(some)))
    return d.written.add("getitem", x, index=tuple(parts))


def _picked(d: Drawing) -> Term | None:
    """Rows by number, in any order and several times."""
    x = d.pick(lambda t: t.ndim > 0 and t.shape[0] > 0)
    if x is None:
        return None
    w = d.written
    source = np.random.default_rng(d.draw(st.integers(0, 99)))
    count = d.draw(st.sampled_from([1, 4, 0]))
    numbers = source.integers(-x.shape[0], x.shape[0], count)
    index = (w.argument if d.draw(st.booleans()) else w.constant)(numbers)
    found = w.add("getitem", x, index, index=(("array", 0),))
    if d.draw(st.booleans()):
        return d.small(w.add("put", found, index, index=(("array", 0),), shape=x.shape))
    return found


def _changed(d: Drawing) -> Term | None:
    """Overwrite part of an array: a slice, rows by number, where a mask is true, or a view."""
    x = d.pick(lambda t: t.ndim > 0 and t.shape[0] > 0)
    if x is None:
        return None
    w = d.written
    rest = x.shape[1:]
    y = d.pick(lambda t: t.shape == rest) if d.draw(st.booleans()) else None
    value: Any = d.draw(st.sampled_from([0.0, 3.0])) if y is None else y
    form = d.draw(st.sampled_from(["row", "slice", "rows", "mask", "view"]))
    if form == "row":
        return w.add("setitem", x, value, index=(d.draw(st.sampled_from([0, -1])),))
    if form == "slice":
        return w.add("setitem", x, value, index=(("slice", None, None, d.draw(STEPS)), "..."))
    if form == "rows":
        source = np.random.default_rng(d.draw(st.integers(0, 99)))
        rows = w.constant(source.integers(-x.shape[0], x.shape[0], 3))
        return w.add("setitem", x, value, rows, index=(("array", 0),))
    if form == "mask":
        mask = w.add("greater", x, 1.0)
        return w.add("setitem", x, 2.0, mask, index=(("mask", 0, x.ndim),))
    turned = TABLE["permute"], {"axes": tuple(reversed(range(x.ndim)))}, 0
    last = TABLE["getitem"], {"index": (("slice", None, None, None),) * (x.ndim - 1) + (-1,)}, 0
    part = w.add("getitem", w.add("permute", x, **turned[1]), **last[1])
    value = d.small(w.add("mul", part, 2.0)) if d.draw(st.booleans()) else value if y is None else 1
    return w.add("write_view", x, value, chain=(turned, last))


STEPS = st.sampled_from([None, 2, -1])


def _ordered(d: Drawing) -> Term | None:
    """Extremes and their positions, running sums, and sorts; positions as floats."""
    x = d.pick(lambda t: t.ndim > 0 and 0 not in t.shape)
    if x is None:
        return None
    w = d.written
    axis = d.draw(st.integers(0, x.ndim - 1))
    name = d.draw(st.sampled_from(["max", "argmin", "cumsum", "cummax", "sort", "topk"]))
    if name == "cumsum":
        return d.small(w.add(name, x, axis=axis))
    if name == "argmin":
        found = w.add(name, x, axis=(axis,), keepdim=d.draw(st.booleans()))
    elif name == "max":
        found = w.add(name, x, axis=(axis,), keepdim=True)[d.draw(st.integers(0, 1))]
    else:
        attrs = {"sort": {"descending": True}, "topk": {"k": 1, "largest": False}}.get(name, {})
        found = w.add(name, x, axis=axis, **attrs)[d.draw(st.integers(0, 1))]
    return d.small(found if found.dtype == d.dtype else w.add("cast", found, dtype=d.dtype))


def _joined(d: Drawing) -> Term | None:
    x = d.pick(lambda t: t.ndim > 0)
    if x is None:
        return None
    axis = d.draw(st.integers(0, x.ndim - 1))
    rest = [n for i, n in enumerate(x.shape) if i != axis]
    y = d.pick(
        lambda t: t.ndim == x.ndim and rest == [n for i, n in enumerate(t.shape) if i != axis]
    )
    if d.draw(st.booleans()):
        return d.written.add("concatenate", x, y, axis=axis)
    widths = tuple((1, 2) if i == axis else (0, 0) for i in range(x.ndim))
    return d.written.add("pad", x, widths=widths, value=d.draw(st.sampled_from([0, 1.0])))


def _product(d: Drawing) -> Term | None:
    x = d.pick(lambda t: t.ndim == 2)
    if x is None:
        return None
    y = d.pick(lambda t: t.ndim == 2 and t.shape[0] == x.shape[1])
    w = d.written
    if y is None or d.draw(st.booleans()):
        y = w.add("permute", x, axes=(1, 0))
    return d.small(w.add("matmul", x, y))


ACTIONS: list[Callable[[Drawing], Term | None]] = [
    _unary, _binary, _binary, _binary, _reduction, _reduction, _counted, _centred, _reshape,
    _permute, _expand, _slice, _picked, _changed, _changed, _ordered, _joined, _product,
]  # fmt: skip


@st.composite
def programs(draw: Any, most: int = 10) -> Written:
    """A random program with numbers for all its sources."""
    drawing = Drawing(draw)
    for _ in range(draw(st.integers(1, most))):
        drawing.grow()
    return drawing.finish()


def describe(written: Written) -> Sequence[str]:
    """The calls, one per line, for a failing example."""
    return [repr(call) for call in written.build.calls]
