"""Graph: the nodes of an ONNX graph as steps that run one after the other."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from gradwalk.nn.graph_module import Inside, Within
from gradwalk.onnx.operators.table import Array, OnnxNode, Operator
from gradwalk.onnx.values import evaluate

Values = dict[str, Any]  # tensors, arrays, or None for an output that is left out


@dataclass(eq=False)
class NodeStep:
    """A node and what computes it."""

    node: OnnxNode
    operator: Operator
    modules: tuple[Within, ...] = ()
    graphs: dict[str, Graph] = field(default_factory=dict)  # attributes that are graphs

    def reads(self) -> set[str]:
        """The names of the values that it needs."""
        names = {name for name in self.node.inputs if name is not None}
        return names.union(*(graph.captured for graph in self.graphs.values()))

    def run(self, values: Values) -> None:
        """Compute the outputs from `values` and store them there."""
        node = self.node
        if self.graphs:
            functions = {name: partial(g.run, values) for name, g in self.graphs.items()}
            node = OnnxNode(**{**vars(node), "attributes": node.attributes | functions})
        given = [None if name is None else values[name] for name in node.inputs]
        try:
            outputs = evaluate(self.operator, node, given)
        except Exception as error:
            error.add_note(f"in {node.where()} of the ONNX graph")
            raise
        values.update(zip(node.outputs, outputs, strict=False))


@dataclass(eq=False)
class Graph:
    """Steps between inputs and outputs."""

    inputs: list[str]
    outputs: list[str]
    steps: list[NodeStep]
    constants: dict[str, Array]
    captured: set[str] = field(default_factory=set)  # values from outside

    def __post_init__(self) -> None:
        made = {*self.inputs, *self.constants, *(n for s in self.steps for n in s.node.outputs)}
        used = set(self.outputs).union(*(step.reads() for step in self.steps))
        self.captured = used - made
        self._last_uses: list[set[str]] = []  # for each step, the values that are not needed later
        kept = set(self.outputs)
        for step in reversed(self.steps):
            met = step.reads() | set(step.node.outputs)
            self._last_uses.append(met - kept)
            kept |= met
        self._last_uses.reverse()

    def run(self, outside: Values, *given: Any, inside: Inside | None = None) -> list[Any]:
        """The outputs for some inputs; what it captures comes from `outside`."""
        values: Values = {name: outside[name] for name in self.captured}
        values |= self.constants
        values |= zip(self.inputs, given, strict=True)
        for step, over in zip(self.steps, self._last_uses, strict=True):
            if inside is not None:
                inside.go_to(step.modules)
            step.run(values)
            for name in over:
                values.pop(name, None)
        return [values[name] for name in self.outputs]

    def between(self, starts: Iterable[str], end: str) -> Graph:
        """The steps that lead from some values to another, as a function."""
        inputs = list(starts)
        needed, steps = {end} - set(inputs), []
        for step in reversed(self.steps):
            if not needed.isdisjoint(step.node.outputs):
                steps.append(step)
                needed |= step.reads() - set(inputs)
        return Graph(inputs, [end], steps[::-1], self.constants)
