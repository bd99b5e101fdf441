"""The graph node of a compiled function whose results are differentiated outside of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from gradwalk.compiler.ir.program import Argument
from gradwalk.compiler.tracing.gradient import Gradient
from gradwalk.engine.errors import AutogradError, made_at
from gradwalk.graph.node import Node
from gradwalk.graph.source import caller
from gradwalk.graph.versions import clock

if TYPE_CHECKING:
    from gradwalk.compiler.call.specialization import Specialization

Array = np.ndarray[Any, Any]


class CompiledOp:
    """The op of such a node: its rule is the program of the gradient."""

    elementwise = False
    broadcasts = False
    variadic = True
    array_only = False
    multiple = True
    inputs = ("input",)
    outputs: tuple[str, ...] = ()

    def __init__(self, name: str, specialization: Specialization) -> None:
        self.name = name
        self.specialization = specialization

    def pull(self, node: Any, g: list[Any], wrap: Callable[..., Any] | None) -> list[Any]:
        """Run the program of the gradient on the gradients of the outputs."""
        if wrap is not None:
            raise AutogradError(
                f"a second derivative through the compiled function {self.name}: only its first "
                f"was compiled.\n  made at:   {made_at(node)}\n"
                "Fix: take the inner derivative inside the compiled function."
            )
        seeds = [
            np.zeros(shape, dtype) if part is None else np.asarray(part)
            for part, (shape, dtype) in zip(g, node.out_metas, strict=True)
        ]
        given = [
            np.require(array, requirements=("C", "A"))
            for array in (*node.saved["residuals"], *seeds)
        ]
        results, _ = self.specialization.gradient()(given, [], [])
        arrived = {position for position, part in enumerate(g) if part is not None}
        reached = self.specialization.trace.gradient.reached  # type: ignore[union-attr]
        return [
            result if outputs & arrived else None  # as in eager mode: no gradient, not zeros
            for result, outputs in zip(results, reached, strict=True)
        ]


class BrokenOp(CompiledOp):
    """The op of a result that cannot be differentiated."""

    def __init__(self, name: str, specialization: Specialization, error: str) -> None:
        super().__init__(name, specialization)
        self.error = error

    def pull(self, node: Any, g: list[Any], wrap: Callable[..., Any] | None) -> list[Any]:
        """Raise what the walk through the function raised."""
        raise AutogradError(self.error)


def attach(
    specialization: Specialization,
    gradient: Gradient,
    tensors: list[Any],
    values: list[Any],
    results: list[Array],
    arguments: list[Array],
) -> None:
    """Give the results a history: one node for the whole function."""
    residuals = []
    for number, term in enumerate(gradient.residuals):
        source: Any = term.source
        if number in gradient.among_results:
            residuals.append(results[gradient.among_results[number]])
        elif isinstance(source, Argument):
            residuals.append(arguments[source.number])
        else:
            residuals.append(specialization.arrays[source.number])
    name = specialization.name
    if gradient.outputs:
        leaves = [location.get(values) for location in gradient.leaves]
        outputs = [tensors[slot] for slot in gradient.outputs]
        node = _node(CompiledOp(name, specialization), leaves, outputs)
        node.saved = {"residuals": tuple(residuals)}
    for slot, error in gradient.broken:
        leaves = [location.get(values) for location in gradient.reachable]
        _node(BrokenOp(name, specialization, error), leaves, [tensors[slot]])


def _node(op: CompiledOp, leaves: list[Any], outputs: list[Any]) -> Node:
    """The node that leads from the outputs to the leaves."""
    node = Node()
    node.op = op
    node.plan = None
    node.inputs = tuple(leaf._node or leaf for leaf in leaves)
    node.picks = tuple(leaf._index for leaf in leaves)
    node.metas = tuple((leaf.shape, leaf.dtype) for leaf in leaves)
    node.many = True
    (node.shape, node.dtype), *others = [(o.shape, o.dtype) for o in outputs]
    node.other_metas = tuple(others)
    node.clock = clock.now
    node.code, node.position = caller()
    node.saved = {}
    for index, output in enumerate(outputs):
        output._node, output._index = node, index
    return node
