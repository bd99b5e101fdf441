"""The walk: one reverse sweep gives every gradient.

Visit the nodes from the root down, each after all of its consumers. On a visit a node's gradient is
complete; the node pushes `g × local derivative` to every input, where contributions add up.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any

import numpy as np

from gradwalk.engine.hooks import Wrap, run_after, run_before, run_hooks
from gradwalk.engine.modes import dual_level
from gradwalk.engine.pull import pull
from gradwalk.graph.node import Freed
from gradwalk.graph.order import inputs_first
from gradwalk.graph.source import caller
from gradwalk.ops.elementwise.arithmetic import add

_LARGE = 1 << 16  # elements from which a sum may have a kernel (tensors/single_calls.py)


def walk(
    roots: Iterable[tuple[Any, int, Any]],
    deliver: Callable[[Any, Any], None],
    wrap: Wrap,
    *,
    wanted: Collection[Any] | None = None,
    stop: Collection[Any] = (),
    graph: bool = False,
    retain: bool = False,
    on_step: Callable[[Any, Any, Sequence[Any]], None] | None = None,
) -> None:
    """Push gradients from `roots` (node, output index, seed) to the leaves or to `wanted`.

    Gradients are arrays, or with `graph` tensors whose own computation is recorded (`wrap` makes a
    tensor of an array). `deliver` receives each leaf (or wanted node) with its gradient; nodes that
    lead to nothing wanted, or lie behind `stop`, are not visited.
    """
    roots, stop = list(roots), set(stop)
    order = inputs_first([node for node, _, _ in roots], stop)
    needed = None if wanted is None else _leading_to(set(wanted), order)
    ends = stop if wanted is None else stop | set(wanted)  # sets: == on tensors is elementwise
    retain = retain or dual_level.get() is not None  # tangents are pushed over the graph later
    freed = Freed(*caller())
    grads: dict[Any, Any] = {}
    ours: set[Any] = set()
    for node, index, seed in roots:
        _arrive(grads, ours, graph, node, index, seed)
    for node in reversed(order):
        g = grads.pop(node, None)
        if g is None:
            continue
        hooks = node.hooks
        if hooks:
            g = run_hooks(node, g, wrap, graph)
        if needed is not None and node not in needed:  # a root that leads to nothing wanted
            continue
        inputs = node.inputs
        if not inputs or node in ends:
            if wanted is None or node in ends:
                deliver(node, g)
            if not inputs or node in stop:
                continue
            if needed is not None and needed.isdisjoint(inputs):
                continue  # what it saved stays, for a backward that goes on from here
        if hooks:
            g = run_before(node, g, wrap)
            if g is None:
                continue
        contributions: Any = pull(node, g, needed, wrap if graph else None)
        if hooks:
            contributions = run_after(node, g, contributions, wrap)
        for i, contribution in enumerate(contributions):
            if contribution is not None:
                source = inputs[i]
                if source in grads or source.many:
                    _arrive(grads, ours, graph, source, node.picks[i], contribution)
                else:
                    grads[source] = contribution
        if on_step is not None:
            on_step(node, g, contributions)
        if not retain and node.saved and (node.plan is None or node.plan.holds):
            node.saved = freed
        contributions = contribution = None  # an unshared gradient may be kept without a copy


def _leading_to(wanted: Collection[Any], order: list[Any]) -> set[Any]:
    """The nodes that are wanted or depend on a wanted one; `order` has inputs first."""
    leading: set[Any] = set()
    for node in order:
        if node in wanted or any(i in leading for i in node.inputs):
            leading.add(node)
    return leading


def _arrive(
    grads: dict[Any, Any], ours: set[Any], graph: bool, node: Any, index: int, g: Any
) -> None:
    """Add a contribution; the outputs of a multi-output node have a list.

    Contributions may alias one another (`a + b` hands the same array to both), so the first
    addition allocates, and only what it allocated (`ours`) is added to in place.
    """
    if node.many:
        places = grads.setdefault(node, [None] * len(node.out_metas))
        before, key = places[index], (node, index)
    else:
        before, key = grads.get(node), node
    if before is None:
        total = g
    elif key in ours:
        before += g
        total = before
    else:
        large = before.__class__ is np.ndarray and before.size >= _LARGE
        total = add(before, g) if large else before + g
        if not graph and total.ndim:
            ours.add(key)
    if node.many:
        places[index] = total
    else:
        grads[node] = total
