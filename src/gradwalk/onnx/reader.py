"""Read an ONNX graph into steps: look up each operator, and fold what is constant."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

import numpy as np

from gradwalk.nn.graph_module import Within
from gradwalk.onnx.graph import Graph, NodeStep
from gradwalk.onnx.operators.table import PREVIEW, Array, OnnxNode, Operator
from gradwalk.onnx.schema_functions import body_of, function_operator
from gradwalk.onnx.tables import OPERATORS

MOST_STEPS = 1_000_000  # functions that call functions may multiply
MOST_FOLDED = 65_536  # elements of the operands of a node that is computed at load
# What they return may be far larger than what they are given, so they are never folded.
GROWING = {
    "CenterCropPad", "Col2Im", "ConstantOfShape", "Expand", "EyeLike", "If", "Loop", "MaxUnpool",
    "MelWeightMatrix", "OneHot", "Pad", "Range", "Resize", "Scan", "Tile", "Upsample",
}  # fmt: skip


class GraphReader:
    """Reads the graphs of one model."""

    def __init__(self, model: Any, array_of: Callable[[Any], Array]) -> None:
        self.model = model
        self.array_of = array_of  # of a tensor of the file
        self.unknown: list[tuple[str, str]] = []  # operation, where
        self.count = 0
        self._inside: list[Any] = []  # functions that are being read
        self._bodies: dict[Any, Graph] = {}  # of functions, by what they are called with

    def graph(
        self,
        graph: Any,
        versions: Mapping[str, int],
        constants: dict[str, Array],
        attributes: Mapping[str, Any] | None = None,
        held: Collection[str] = (),
    ) -> Graph:
        """A graph, or the body of a function called with some attributes, as steps.

        Inputs and constants that are `held` have a value in the file, and are captured.
        """
        known = dict(constants)
        inputs = [value.name for value in graph.inputs if value.name not in held]
        read = Graph(inputs, [], [], known)
        for found in graph:
            if found.op_type == "Constant" and found.outputs[0].name in held:
                continue
            self.count += 1
            if self.count > MOST_STEPS:
                raise ValueError(f"it has more than {MOST_STEPS} nodes, functions included")
            step = self._step(found, versions, attributes or {}, read)
            if step is None:
                continue
            folded = self._folded(step, known)
            if folded is None:
                read.steps.append(step)
            else:
                known |= zip(step.node.outputs, folded, strict=False)
        outputs = [value.name for value in graph.outputs]
        return Graph(read.inputs, outputs, read.steps, _used(outputs, read.steps, known))

    def _step(
        self, found: Any, versions: Mapping[str, int], bound: Mapping[str, Any], graph: Graph
    ) -> NodeStep | None:
        domain = "" if found.domain == "ai.onnx" else found.domain
        graphs: dict[str, Graph] = {}
        plain: dict[str, Any] = {}
        for name, attribute in found.attributes.items():
            value = self._attribute(attribute, versions, bound)
            if isinstance(value, Graph):
                graphs[name] = value
            elif value is not None:
                plain[name] = value
        node = OnnxNode(
            found.name or f"{found.op_type}_{self.count}",
            found.op_type,
            domain,
            versions.get(domain, versions.get("ai.onnx", 1)),
            tuple(None if value is None else value.name for value in found.inputs),
            tuple(value.name or f"({found.name})" for value in found.outputs),
            plain,
        )
        operator = self._operator(found, node, graphs)
        if operator is None:
            return None
        if (domain, node.op) == (PREVIEW, "Gradient"):
            graphs["function"] = graph.between([*plain["xs"], *plain.get("zs", ())], plain["y"])
        return NodeStep(node, operator, modules_of(node.name), graphs)

    def _operator(self, found: Any, node: OnnxNode, graphs: dict[str, Graph]) -> Operator | None:
        """What computes a node: a function of the file, an operator of ours, or ONNX's own
        definition of it in other operators."""
        function = self.model.functions.get(found.op_identifier())
        if function is not None:
            body = self._function(function, node.attributes | graphs)
            return function_operator(lambda node, given: body)
        known = OPERATORS.get((node.domain, node.op))
        if known is None:
            known = body_of(node, self._body)
        if known is None:
            what = f"{node.op} of {node.domain}" if node.domain else node.op
            self.unknown.append((f"{what} (version {node.version})", f"at node '{node.name}'"))
        return known

    def _function(self, function: Any, attributes: dict[str, Any]) -> Graph:
        """The body of a function of the file, called with some attributes."""
        key = (function.identifier(), *sorted((n, repr(a)) for n, a in attributes.items()))
        plain = all(isinstance(a, (int, float, str, tuple)) for a in attributes.values())
        if plain and key in self._bodies:
            return self._bodies[key]
        if function in self._inside:
            raise ValueError(f"its function '{function.name}' calls itself")
        self._inside.append(function)
        defaults = {name: a for name, a in function.attributes.items() if a.value is not None}
        bound = {name: self._attribute(a, {}, {}) for name, a in defaults.items()} | attributes
        self._bodies[key] = self.graph(function, function.opset_imports, {}, bound)
        self._inside.pop()
        return self._bodies[key]

    def _body(self, function: Any, attributes: Mapping[str, Any]) -> Graph:
        """ONNX's own definition of an operator, called with some attributes."""
        return self.graph(function, function.opset_imports, {}, attributes)

    def _attribute(
        self, attribute: Any, versions: Mapping[str, int], bound: Mapping[str, Any]
    ) -> Any:
        if attribute.is_ref():
            return bound.get(attribute.ref_attr_name)
        kind, value = attribute.type.name, attribute.value
        if kind == "TENSOR":
            return self.array_of(value)
        if kind == "GRAPH":
            constants = {
                name: self.array_of(held.const_value) for name, held in value.initializers.items()
            }
            return self.graph(value, versions, constants, bound)
        if kind in ("FLOATS", "INTS", "STRINGS"):
            return tuple(value)
        return value if kind in ("FLOAT", "INT", "STRING") else None

    def _folded(self, step: NodeStep, known: dict[str, Array]) -> list[Any] | None:
        """The outputs of a node, if all that it needs is constant and small."""
        node, operator = step.node, step.operator
        reads = step.reads()
        if operator.varies or operator.values or node.op in GROWING or not reads <= known.keys():
            return None
        if sum(known[name].size for name in reads) > MOST_FOLDED:
            return None
        values: dict[str, Any] = {name: known[name] for name in reads}
        step.run(values)
        return [values.get(name) for name in node.outputs]


def _used(outputs: list[str], steps: list[NodeStep], known: dict[str, Array]) -> dict[str, Array]:
    """The constants that a graph needs when it runs."""
    needed = set(outputs).union(*(step.reads() for step in steps))
    return {name: frozen(array) for name, array in known.items() if name in needed}


def frozen(array: Array) -> Array:
    """An array that cannot change, of its own memory."""
    if array.flags.writeable or not array.flags.owndata:
        array = np.array(array)
        array.flags.writeable = False
    return array


def modules_of(name: str) -> tuple[Within, ...]:
    """The modules of a node, from its name: "/blocks.0/attention/MatMul"."""
    parts = [part for part in name.split("/")[:-1] if part]
    if not name.startswith("/") or not all(map(_is_path, parts)):
        return ()
    paths = [".".join(parts[: i + 1]) for i in range(len(parts))]
    return tuple(Within(path, path, "Part") for path in paths)


def _is_path(part: str) -> bool:
    return all(piece.isidentifier() or piece.isdigit() for piece in part.split("."))
