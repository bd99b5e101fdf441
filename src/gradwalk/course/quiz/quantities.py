"""Compute quantities written as text: what a question asks for, what a mistake would give.

The same words as in lessons (docs/learn/lessons.md), which the page computes, and a few more for
the question bank (docs/learn/course.md has all of them).
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import gradwalk
from gradwalk.inspect.expression.parser import expression, parse
from gradwalk.inspect.order.answer import OrderRun
from gradwalk.inspect.order.lab import run_order
from gradwalk.inspect.order.recipes import recipe_called
from gradwalk.inspect.trace.trace import Trace
from gradwalk.inspect.why.path_counts import local_derivatives
from gradwalk.inspect.why.why import why

_FORM = re.compile(
    r"(?P<word>[a-z]+)(?: (?P<name>\w+)(?:\.(?P<argument>\d))?)?(?: \((?P<more>.+)\))?"
)
# In `compute`: slope_a and grad_a are the gradient of a, paths_a its paths, and local_f_0 is the
# local derivative along the edge into f from its first operand.
_NAMED_IN_COMPUTE = re.compile(
    r"(?P<word>grad|slope|paths)_(?P<name>\w+)|local_(?P<consumer>\w+)_(?P<argument>\d)", re.ASCII
)
_MOST_PATHS = 64
# 1,500 may mean one and a half or a thousand and more, so it is rejected.
_NUMBER = re.compile(
    r"(?![1-9]\d?\d?,\d{3}$)(\d+[.,]?\d*|[.,]\d+)(e[+-]?\d+)?", re.IGNORECASE | re.ASCII
)
_NAMED = {"inf": math.inf, "∞": math.inf, "nan": math.nan}


def read_number(text: str) -> float | None:
    """Read a number as people write it and as the page reads it; None if it is not one.

    >>> read_number("1,5"), read_number("− 3/2"), read_number("1,500")
    (1.5, -1.5, None)
    """
    above, slash, below = (part.strip() for part in re.sub("[−–]", "-", text).partition("/"))
    top, bottom = _read_plain(above), _read_plain(below) if slash else 1.0
    if top is None or bottom is None:
        return None
    if bottom == 0:
        return math.nan if top == 0 else math.copysign(math.inf, top) * math.copysign(1, bottom)
    return top / bottom


def _read_plain(text: str) -> float | None:
    sign, size = ("", text) if text[:1] not in ("+", "-") else (text[0], text[1:].strip())
    plain = _NUMBER.fullmatch(size)
    number = float(size.replace(",", ".")) if plain else _NAMED.get(size.lower())
    return -number if number is not None and sign == "-" else number


class Quantities:
    """The numbers of one graph at certain values.

    >>> of = Quantities("f = a*a", {"a": 3})
    >>> of("gradient a"), of("overwritten a"), of("paths a"), of("compute a + grad_a")
    (6.0, 3.0, 2.0, 9.0)
    """

    def __init__(self, source: str, values: Mapping[str, float]) -> None:
        self.trace: Trace = parse(source).build(values).trace()
        self.index = {node.label: node.index for node in self.trace if node.label}

    def __call__(self, text: str, **more: float) -> float:
        """One quantity; `more` are further names that `compute` may use."""
        if text.startswith("minus "):
            return -self(text.removeprefix("minus "), **more)
        if text.startswith("compute "):
            return self._compute(text.removeprefix("compute "), more)
        plain = read_number(text)
        if plain is not None:
            return plain
        match = _FORM.fullmatch(text)
        measure = _MEASURES.get(match["word"]) if match else None
        if match is None or measure is None:
            raise ValueError(f"'{text}' is not a quantity; choose one of: {', '.join(_MEASURES)}")
        given = [x for x in (match["name"], match["argument"], match["more"]) if x is not None]
        try:
            return float(measure(self, *given))
        except (TypeError, LookupError) as error:
            raise ValueError(f"'{text}' cannot be computed: {error}") from None

    def _compute(self, source: str, more: Mapping[str, float]) -> float:
        """An expression over values by name, and what _NAMED_IN_COMPUTE names."""
        known = {}
        for used in parse(source).leaves:
            named = _NAMED_IN_COMPUTE.fullmatch(used)
            name = named and (named["name"] or named["consumer"])
            if used in more:
                known[used] = more[used]
            elif used in self.index:
                known[used] = self.value(used)
            elif named and name in self.index:
                edge = f"local {name}.{named['argument']}"
                word = "paths" if named["word"] == "paths" else "gradient"
                known[used] = self(edge if named["consumer"] else f"{word} {name}")
            else:
                raise ValueError(f"'compute {source}': nothing is called {used}")
        return float(expression(source, known).data)

    def value(self, name: str) -> float:
        """The value of a node."""
        return float(self.trace.nodes[self.index[name]].values[0])

    def gradient(self, name: str) -> float:
        """The gradient of the root with respect to a node."""
        return float(self.trace.sweep.grad(self.index[name]) or 0.0)

    def local(self, name: str, argument: str) -> float:
        """The local derivative along the edge into a node from one of its operands."""
        consumer = self.index[name]
        return float(local_derivatives(self.trace, [consumer])[consumer][int(argument)])

    def run(self, order: str = "right") -> OrderRun:
        """Visits in this order, or by this recipe."""
        nodes = None if recipe_called(order) else [self.index[name] for name in order.split()]
        return run_order(self.trace, order if nodes is None else nodes)

    def through(self, name: str, other: str) -> float:
        """The part of its gradient that comes along paths through another node."""
        asked = why(self.index[name], self.trace, top=_MOST_PATHS)
        if asked.path_count > _MOST_PATHS:
            raise KeyError(f"{asked.path_count} paths are too many")
        return sum(path.amount for path in asked.paths if self.index[other] in path.nodes)

    def visits(self, recipe: str) -> int:
        """How many visits a recipe makes."""
        if recipe_called(recipe) is None:
            raise KeyError(f"there is no recipe {recipe}")
        return sum(map(len, self.run(recipe).passes))

    @property
    def sources(self) -> list[int]:
        """The node that each edge begins at; a·a has two edges, constants have none."""
        nodes = set(self.index.values())
        return [edge.node for n in self.trace for _, edge in n.edges if edge.node in nodes]


_MEASURES: dict[str, Callable[..., float]] = {
    "value": Quantities.value,
    "gradient": Quantities.gradient,
    "slope": Quantities.gradient,  # for lessons that come before the word
    "local": Quantities.local,
    # What a right backward pass hands along that edge.
    "push": lambda of, name, argument: of.local(name, argument) * of.gradient(name),
    # Its gradient if each arrival overwrites, with visits in a right order.
    "overwritten": lambda of, name: of.run("overwrite")[of.index[name]].got,
    # Its gradient after visits in an order; what that order loses of it.
    "received": lambda of, name, order: of.run(order)[of.index[name]].got,
    "lost": lambda of, name, order: of.run(order)[of.index[name]].lost.total,
    "through": Quantities.through,
    # How many paths lead to it from the root, how many edges there are, how many leave a node.
    "paths": lambda of, name: of.run()[of.index[name]].paths,
    "edges": lambda of: len(of.sources),
    "uses": lambda of, name: of.sources.count(of.index[name]),
    "visits": Quantities.visits,
}


# -- shapes of arrays ------------------------------------------------------------------------------

FUNCTIONS = ("add", "sub", "mul", "matmul", "tanh", "relu", "exp", "sum", "mean")


class Shapes:
    """The shapes in one computation, and those of its gradients, as text.

    >>> shape = Shapes({"X": (4, 3), "W": (3, 2)}, [["Y", "matmul", "X", "W"], ["L", "sum", "Y"]])
    >>> shape("gradient W"), shape("value Y"), shape("transposed W"), shape("jacobian Y W")
    ('(3, 2)', '(4, 2)', '(2, 3)', '(8, 6)')
    """

    def __init__(self, leaves: Mapping[str, Sequence[int]], steps: Sequence[Sequence[str]]) -> None:
        self._named: dict[str, Any] = {
            name: gradwalk.ones(*shape, requires_grad=True) for name, shape in leaves.items()
        }
        for name, function, *operands in steps:
            if function not in FUNCTIONS:
                raise ValueError(f"'{function}' is not one of {', '.join(FUNCTIONS)}")
            made = getattr(gradwalk, function)(*(self._named[operand] for operand in operands))
            made.retain_grad()
            self._named[name] = made
        made.backward()

    def __call__(self, text: str) -> str:
        """A shape: `gradient W`, `value Y`, `transposed W` or `jacobian Y W`."""
        word, *names = text.split()
        if word not in _SHAPES:
            raise ValueError(f"'{text}' is not a shape; choose one of: {', '.join(_SHAPES)}")
        try:
            return str(tuple(_SHAPES[word](*(self._named[name] for name in names))))
        except (KeyError, TypeError) as error:
            raise ValueError(f"'{text}' cannot be computed: {error}") from None


_SHAPES: dict[str, Callable[..., Sequence[int]]] = {
    "gradient": lambda x: x.grad.shape,
    "value": lambda x: x.shape,
    "transposed": lambda x: x.shape[::-1],
    "jacobian": lambda out, x: (math.prod(out.shape), math.prod(x.shape)),
}
