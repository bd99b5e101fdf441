"""Operators that ONNX defines by other operators: the rare ones run as that definition."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from gradwalk.onnx.dtypes import code_of
from gradwalk.onnx.graph import Graph
from gradwalk.onnx.operators.table import OnnxNode, Operator

Read = Callable[[Any, Mapping[str, Any]], Graph]


def function_operator(body: Callable[[OnnxNode, tuple[Any, ...]], Graph]) -> Operator:
    """An operator that runs a graph; inputs that are left out are None in it."""

    def run(node: OnnxNode, *given: Any) -> list[Any]:
        graph = body(node, given)
        missing = [None] * (len(graph.inputs) - len(given))
        return graph.run({}, *given, *missing)

    return Operator(run, values=True)


def body_of(node: OnnxNode, read: Read) -> Operator | None:
    """The operator that runs ONNX's definition of a node; None if there is none."""
    import onnx

    try:
        schema = onnx.defs.get_schema(node.op, node.version, node.domain)
    except onnx.defs.SchemaError:
        return None
    import onnx_ir as ir

    if schema.has_function:
        proto = schema.get_function_with_opset_version(node.version) or schema.function_body
        if isinstance(proto, bytes):
            proto = onnx.FunctionProto.FromString(proto)
        graph = read(ir.serde.deserialize_function(proto), _with_defaults(schema, node))
        return function_operator(lambda node, given: graph)
    if not schema.has_context_dependent_function:
        return None
    bodies: dict[tuple[Any, ...], Graph] = {}  # by the dtypes of the inputs

    def body(node: OnnxNode, given: tuple[Any, ...]) -> Graph:
        dtypes = tuple(None if value is None else value.dtype for value in given)
        if dtypes not in bodies:
            types = [
                b"" if d is None else onnx.helper.make_tensor_type_proto(
                    code_of(d), value.shape
                ).SerializeToString()
                for d, value in zip(dtypes, given, strict=True)
            ]  # fmt: skip
            proto = onnx.helper.make_node(
                node.op, [name or "" for name in node.inputs], node.outputs, node.name,
                domain=node.domain, **node.attributes,
            )  # fmt: skip
            made = schema.get_context_dependent_function(proto.SerializeToString(), types)
            function = onnx.FunctionProto.FromString(made)
            bodies[dtypes] = read(
                ir.serde.deserialize_function(function), _with_defaults(schema, node)
            )
        return bodies[dtypes]

    return function_operator(body)


def _with_defaults(schema: Any, node: OnnxNode) -> dict[str, Any]:
    """The attributes of a node, those left out with their default."""
    import onnx

    defaults = {
        name: onnx.helper.get_attribute_value(attribute.default_value)
        for name, attribute in schema.attributes.items()
        if attribute.default_value.name
    }
    decoded = {n: v.decode() if isinstance(v, bytes) else v for n, v in defaults.items()}
    return decoded | node.attributes
