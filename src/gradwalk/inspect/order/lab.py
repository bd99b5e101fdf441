"""The order lab: run backward in any order, and see which paths are lost or extra."""

from __future__ import annotations

import itertools
import math
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from gradwalk.inspect.order.answer import (
    NodeGradient,
    OrderRun,
    names_in_order,
    node_of,
    place_of,
)
from gradwalk.inspect.order.path_sums import Amounts, BackwardGraph, as_run, over_all_paths
from gradwalk.inspect.order.recipes import RECIPES, Recipe, consumers_first, recipe_called
from gradwalk.inspect.order.single_paths import size_of
from gradwalk.inspect.report import Report, columns, short
from gradwalk.inspect.trace.recorder import as_trace
from gradwalk.inspect.trace.trace import Edge, Trace

MOST_NODES = 8  # nodes to permute at most: 40320 orders
RULE = "A path counts if its nodes that have inputs are visited from the root down."


def run_order(
    loss: Any = None, order: Any = "right", *, overwrite: bool = False, top: int = 5
) -> OrderRun:
    """Run backward in a visit order of your own, and compare with the right gradients.

    `loss` is a Value, a Tensor or a trace (None: the last recording). `order` lists the nodes to
    visit: Values, Tensors, labels or indices; it may skip or repeat nodes. A list of lists means
    one call of backward for each, with nothing cleared in between. The name of a recipe (see
    `RECIPES`) is an order too. With `overwrite` an arrival replaces the gradient, as if one wrote
    `=` for `+=`. The answer lists the `top` largest lost and extra paths. No `.grad` changes.

    >>> import gradwalk as gw
    >>> a = gw.Value(2.0, label="a")
    >>> b, c = a + 1, 3 * a
    >>> d = b * c
    >>> b.label, c.label, d.label = "b", "c", "d"
    >>> print(gw.run_order(d, [b, d, c]))
    visited b, d, c: 1 of 4 gradients is wrong
    node  got  correct  lost  extra  first pair out of order
    a       9       15     6      —  b before d
    b       6        6     —      —
    c       3        3     —      —
    d       1        1     —      —
    lost on the way to a, 1 of 2 paths:
      6  d → b → a: b was visited before d
    """
    trace = as_trace(loss)
    graph = BackwardGraph(trace)
    recipe = order if isinstance(order, Recipe) else None
    if isinstance(order, str):
        recipe = recipe_called(order)
    if recipe is None:
        return OrderRun(_passes(trace, order), overwrite, top=top, _graph=graph)
    overwrite = overwrite or recipe.overwrite
    return OrderRun(recipe.passes(graph), overwrite, recipe.name, top=top, _graph=graph)


def run_recipes(x: Any, loss: Any = None) -> RecipeRuns:
    """The gradient of `x` by each recipe for a backward pass.

    >>> import gradwalk as gw
    >>> x = gw.Value(3.0, label="x")
    >>> print(gw.run_recipes(x, (x * 1) * (x + 1)))
    gradient of x: 7 is right
    recipe           got  lost  extra  what it does
    right              7     —      —  each node after all of its consumers
    plain recursion    7     —      —  each node pushes, then calls its inputs
    depth-first        7     —      —  depth-first, each node when it is first met
    breadth-first      7     —      —  nearest to the root first
    overwrite          3     4      —  the right order with = instead of +=
    twice             21     —      7  run twice, inner gradients not cleared
    (twice: 14 would be right)
    """
    trace = as_trace(loss)
    runs: dict[str, NodeGradient] = {}
    impossible: dict[str, str] = {}
    for name in RECIPES:
        try:
            runs[name] = run_order(trace, name)[x]
        except ValueError as error:
            if name == "right":
                raise
            impossible[name] = str(error)
    return RecipeRuns(runs, impossible)


@dataclass
class RecipeRuns(Report):
    """One gradient by several recipes."""

    runs: dict[str, NodeGradient]
    impossible: dict[str, str] = field(default_factory=dict)  # recipe -> why it was not run

    def __getitem__(self, name: str) -> NodeGradient:
        return self.runs[name]

    def __str__(self) -> str:
        right, twice = self.runs["right"], self.runs.get("twice")
        rows = [("recipe", "got", "lost", "extra", "what it does")]
        for name, run in self.runs.items():
            rows.append((name, *run.numbers(), RECIPES[name].text))
        lines = [f"gradient of {right.name}: {right.number(right.correct)} is right"]
        lines += columns(rows)
        if twice is not None:
            lines.append(f"(twice: {twice.number(twice.correct)} would be right)")
        for name, why in self.impossible.items():
            lines += textwrap.wrap(f"{name} was not run: {why}", 79, subsequent_indent="  ")
        return "\n".join(lines)


def every_order(x: Any, loss: Any = None, nodes: Sequence[Any] | None = None) -> EveryOrder:
    """The gradient of `x` in every order of `nodes` (default: all nodes with inputs).

    >>> import gradwalk as gw
    >>> a = gw.Value(2.0, label="a")
    >>> d = (a + 1) * (3 * a)
    >>> gw.every_order(a, d).counts
    {15.0: 2, 9.0: 1, 6.0: 1, 0.0: 2}
    """
    trace = as_trace(loss)
    graph = BackwardGraph(trace)
    place = place_of(graph, x)
    chosen = consumers_first(graph) if nodes is None else _visits(trace, nodes)
    if len(chosen) > MOST_NODES:
        raise ValueError(
            f"{len(chosen)} nodes have {math.factorial(len(chosen))} orders; every_order tries "
            f"those of at most {MOST_NODES} nodes. Fix: name some of them in `nodes`."
        )
    weights = Amounts(graph)
    outcomes: dict[float, list[list[str]]] = {}
    for order in itertools.permutations(chosen):
        got = _one_number(as_run(graph, weights, [order], overwrite=False)[place])
        outcomes.setdefault(got, []).append([trace.name(node) for node in order])
    right = _one_number(over_all_paths(graph, weights)[place])
    # The right ones first, then from the nearest to the farthest.
    ordered = sorted(outcomes.items(), key=lambda item: abs(item[0] - right))
    return EveryOrder(graph.place_name(place), right, dict(ordered))


def _one_number(amount: Any) -> float:
    """A gradient as one number, rounded so that the order of additions does not matter."""
    if amount is None:
        return 0.0
    return float(f"{amount if isinstance(amount, float) else size_of(amount):.12g}")


@dataclass
class EveryOrder(Report):
    """One gradient (of arrays: its norm) in every order of some nodes."""

    name: str
    correct: float
    orders: dict[float, list[list[str]]]  # what comes out -> the orders that give it

    @property
    def counts(self) -> dict[float, int]:
        """The number of orders for each result."""
        return {number: len(orders) for number, orders in self.orders.items()}

    def __str__(self) -> str:
        total = sum(self.counts.values())
        wide = max(len("got"), *(len(short(number)) for number in self.orders))
        lines = [f"gradient of {self.name} in {total} orders: {short(self.correct)} is right"]
        lines.append(f"{'got':>{wide}}  orders  for example")
        for number, orders in self.orders.items():
            lines.append(f"{short(number):>{wide}}  {len(orders):>6}  {names_in_order(orders[0])}")
        return "\n".join([*lines, RULE])


# -- reading an order ------------------------------------------------------------------------------


def _passes(trace: Trace, order: Any) -> list[list[int]]:
    if isinstance(order, str):
        order = order.replace(",", " ").split()
    if not isinstance(order, (list, tuple)) or isinstance(order, Edge):
        raise TypeError(
            "an order is a list of nodes, their labels as text ('d b c a'), or the name of a "
            f"recipe ({', '.join(RECIPES)}), not {type(order).__name__}"
        )
    if order and all(isinstance(part, list) for part in order):
        return [_visits(trace, part) for part in order]
    return [_visits(trace, order)]


def _visits(trace: Trace, order: Sequence[Any]) -> list[int]:
    labels = _labels(trace) if any(isinstance(thing, str) for thing in order) else {}
    visits = []
    for number, thing in enumerate(order, 1):
        named = labels.get(thing, ()) if isinstance(thing, str) else ()
        try:
            visits.append(named[0] if len(named) == 1 else node_of(trace, thing))
        except KeyError as error:
            why = error.args[0]
            if isinstance(thing, str) and len(order) == 1:
                why += f"; recipes are: {', '.join(RECIPES)}"
            raise ValueError(f"visit {number} of the order: {why}") from None
    return visits


def _labels(trace: Trace) -> dict[str, list[int]]:
    """Map labels to nodes once: each `trace.find` scans all nodes."""
    labels: dict[str, list[int]] = {}
    for node in trace.nodes:
        for name in {node.label, trace.names.get(node.index, "")}:
            labels.setdefault(name, []).append(node.index)
    return labels
