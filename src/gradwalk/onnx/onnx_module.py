"""load: an ONNX model as a module that runs, trains, compiles and is recorded."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np

from gradwalk.io.errors import content_of, wrong
from gradwalk.nn.graph_module import GraphModule, Inside, Unsupported
from gradwalk.nn.parameter import Parameter
from gradwalk.onnx.dtypes import dtype_of
from gradwalk.onnx.files import ModelFile
from gradwalk.onnx.graph import Graph
from gradwalk.onnx.operators.table import Array
from gradwalk.onnx.reader import GraphReader, frozen
from gradwalk.onnx.values import tensor_of
from gradwalk.ops.core.dtypes import is_floating
from gradwalk.tensors.creation import tensor
from gradwalk.tensors.tensor import Tensor


def load(path: str | os.PathLike[str]) -> OnnxModule:
    """Return the model in an ONNX file as a module.

    Its tensors of floating-point numbers with at least one dimension are parameters under their
    names; running statistics of BatchNormalization are buffers. It takes the inputs of the graph
    in order, or by name, and returns the output, or a tuple of them. All operators that gradwalk
    does not have are listed in one error. Reading a file executes nothing.

    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "linear.onnx"
    >>> import gradwalk as gw
    >>> gw.onnx.save(gw.nn.Linear(3, 2), (gw.ones(4, 3),), path)
    >>> net = gw.onnx.load(path)
    >>> [name for name, _ in net.named_parameters()]
    ['weight', 'bias']
    >>> net(gw.ones(4, 3)).shape
    (4, 2)
    """
    return OnnxModule(ModelFile(path))


class OnnxModule(GraphModule):
    """What `load` returns: a module whose forward runs the nodes of the graph."""

    def __init__(self, file: ModelFile) -> None:
        super().__init__()
        self._path = Path(file.path).name
        graph = file.model.graph
        held = {name: value.const_value for name, value in graph.initializers.items()}
        held |= _in_nodes(graph)
        self._held: dict[str, tuple[Any, str]] = {}  # the parts and names of parameters, buffers
        self._inputs = {v.name: _declared(v) for v in graph.inputs if v.name not in held}
        reader = GraphReader(file.model, file.array)
        constants: dict[str, Array] = {}
        for name, found in held.items():
            if found is None:
                raise ValueError(f"{self._path}: the initializer '{name}' has no value")
            try:
                constants[name] = file.array(found)
            except TypeError as error:
                reader.unknown.append((str(error), "among the initializers"))
        learned, statistics = _roles(graph, constants)
        fixed = {n: frozen(a) for n, a in constants.items() if n not in learned | statistics}
        with content_of(file.path):
            versions = file.model.opset_imports
            self._graph: Graph = reader.graph(graph, versions, fixed, held=held)
        if reader.unknown:
            raise Unsupported(
                self._path,
                reader.unknown,
                "export the model with other operators, or as functions of the file.",
            )
        if missing := self._graph.captured - held.keys():
            names = ", ".join(sorted(map(repr, missing)))  # bytes, if it is no UTF-8
            raise wrong(file.path, f"it reads {names}, which nothing makes")
        for step in self._graph.steps:
            for within in step.modules:
                self._part(within.path, within.class_name)
        for name in constants:
            if name in learned:
                self._hold(name, Parameter(constants[name]))
            elif name in statistics:
                self._hold(name, tensor(constants[name], dtype=constants[name].dtype))

    def _hold(self, name: str, own: Tensor) -> None:
        """Register a parameter or buffer under its name; dots separate parts."""
        path, _, last = name.rpartition(".")
        try:
            part = self._part(path)
            self._register_in(part, last, own)
        except (KeyError, TypeError):  # no name for an attribute, or already one
            part, last = self, name.replace(".", "_") + "_"
            self._register_in(part, last, own)
        self._held[name] = part, last

    @staticmethod
    def _register_in(part: Any, name: str, own: Tensor) -> None:
        if isinstance(own, Parameter):
            part.register_parameter(name, own)
        else:
            part.register_buffer(name, own)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Return the output of the graph, or a tuple of its outputs."""
        given = dict(zip(self._inputs, args, strict=False)) | kwargs
        if len(args) > len(self._inputs) or given.keys() != self._inputs.keys():
            wanted = ", ".join(self._inputs)
            raise TypeError(f"{self._path} takes {wanted}; it was called with {', '.join(given)}")
        values = [self._checked(name, given[name]) for name in self._inputs]
        held = {name: getattr(part, last) for name, (part, last) in self._held.items()}
        inside = Inside(self)
        try:
            outputs = self._graph.run(held, *values, inside=inside)
        finally:
            inside.go_to(())
        results = [tensor_of(value) for value in outputs]
        return results[0] if len(results) == 1 else tuple(results)

    def _checked(self, name: str, value: Any) -> Any:
        """An argument as a tensor of the declared dtype and shape."""
        dtype, shape = self._inputs[name]
        if isinstance(value, list) or dtype is None:
            return value
        if not isinstance(value, Tensor):
            value = tensor(np.asarray(value), dtype=dtype)
        if value.dtype != dtype:
            raise TypeError(
                f"{self._path}: input '{name}' is of {dtype}, it was given {value.dtype}. "
                f"Fix: {name}.to({dtype})."
            )
        if shape is None:
            return value
        pairs = zip(shape, value.shape, strict=False)
        if len(shape) != value.ndim or any(n not in (None, own) for n, own in pairs):
            asked = tuple("any" if n is None else n for n in shape)
            raise ValueError(
                f"{self._path}: input '{name}' has shape {asked}, it was given "
                f"{tuple(value.shape)}. Fix: export the model with a dynamic dimension there."
            )
        return value

    def extra_repr(self) -> str:
        return f"{self._path}: {', '.join(self._inputs)} -> {', '.join(self._graph.outputs)}"


def _roles(graph: Any, constants: dict[str, Array]) -> tuple[set[str], set[str]]:
    """The initializers that are learned, and those that are running statistics."""
    from gradwalk.onnx.tables import OPERATORS

    statistics, used_as_tensor = set(), set()
    for node in graph.all_nodes():
        operator = OPERATORS.get(("" if node.domain == "ai.onnx" else node.domain, node.op_type))
        for i, value in enumerate(node.inputs):
            if value is None:
                continue
            if node.op_type == "BatchNormalization" and i in (3, 4):
                statistics.add(value.name)
            elif operator is None or i not in operator.numbers:
                used_as_tensor.add(value.name)
    floats = {n for n, a in constants.items() if is_floating(a.dtype) and a.ndim}
    return (floats & used_as_tensor) - statistics, floats & statistics


def _declared(value: Any) -> tuple[Any, tuple[int | None, ...] | None]:
    """The dtype and the shape of an input; None for what may vary."""
    if value.type is None or type(value.type).__name__ != "TensorType":
        return None, None
    dtype = dtype_of(value.dtype.value, f"input '{value.name}'")
    if value.shape is None:
        return dtype, None
    # Paddle writes -1 for a dimension that is open.
    return dtype, tuple(n if isinstance(n, int) and n >= 0 else None for n in value.shape)


def _in_nodes(graph: Any) -> dict[str, Any]:
    """The tensors of several floats that the file holds in nodes of its own, as Paddle does."""
    found = {}
    for node in graph:
        value = node.attributes.get("value") if node.op_type == "Constant" else None
        tensor = None if value is None else value.value
        if tensor is not None and tensor.dtype.is_floating_point() and tensor.size > 1:
            found[node.outputs[0].name] = tensor
    return found
