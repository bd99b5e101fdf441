"""save: a function or module as an ONNX file."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import gradwalk
from gradwalk.compiler.ir.program import Argument, Constant, Memory, Term
from gradwalk.compiler.tracing.outcome import TracedProgram
from gradwalk.compiler.tracing.trace_function import trace
from gradwalk.engine.errors import AutogradError
from gradwalk.engine.modes import no_grad
from gradwalk.engine.tree import leaves
from gradwalk.io.atomic import writing
from gradwalk.nn.graph_module import Unsupported
from gradwalk.nn.module import Module
from gradwalk.onnx.dtypes import code_of
from gradwalk.onnx.dynamic_dimensions import Dimensions, Point, dynamic_dimensions, points, resized
from gradwalk.onnx.files import onnx_ir
from gradwalk.onnx.symbolic_graph import SizeFixed, SymbolicGraph
from gradwalk.onnx.writers.table import NEWEST, OLDEST, GraphWriter
from gradwalk.onnx.writers.tables import WRITERS
from gradwalk.onnx.written_program import is_written, ready
from gradwalk.tensors.tensor import Tensor

IR_VERSION = 10  # of the file format


def save(
    fn: Callable[..., Any],
    args: Any,
    path: str | os.PathLike[str],
    *,
    input_names: Sequence[str] = (),
    output_names: Sequence[str] = (),
    opset: int = NEWEST,
    external_data: str | None = None,
    dynamic_axes: Any = None,
    dynamic_shapes: Any = None,
) -> None:
    """Write what a module or function computes of `args` as an ONNX file.

    The function is traced on tensors like `args`, whose shapes are those of the file, except for
    the dimensions that `dynamic_axes={"x": {0: "batch"}}` names (or PyTorch's `dynamic_shapes`):
    those may have any size. To find out how the program depends on them, it is traced at several
    sizes; a size that the program fixes is an error. Layers
    such as attention, LSTM or layer norm are one node each, if the operator set `opset` has them.
    A module is written as it evaluates. Parameters keep their names. With `external_data`, the
    name of a second file beside the first, tensors are stored there.

    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "softmax.onnx"
    >>> import gradwalk as gw
    >>> gw.onnx.save(lambda x: x.softmax(1), (gw.zeros(1, 2),), path)
    >>> gw.onnx.load(path)(gw.zeros(1, 2))
    tensor([[0.5000, 0.5000]])
    """
    ir = onnx_ir()
    if not OLDEST <= opset <= NEWEST:
        raise ValueError(f"opset is {opset}; gradwalk writes {OLDEST} to {NEWEST}")
    given = args if isinstance(args, tuple) else (args,)
    names = list(input_names) or _argument_names(fn, given)
    dimensions = dynamic_dimensions(dynamic_axes, dynamic_shapes, names, given)

    def graph_at(args: tuple[Any, ...]) -> _Graph:
        return _Graph(ir, fn, args, _traced(fn, args), opset, names, output_names)

    with _evaluating(fn):
        graph = _open(graph_at, given, dimensions) if dimensions else graph_at(given).build()
    model = ir.Model(
        graph, ir_version=IR_VERSION, producer_name="gradwalk",
        producer_version=gradwalk.__version__,
    )  # fmt: skip
    if external_data is not None:
        ir.save(model, path, format="protobuf", external_data=external_data)
        return
    content = ir.serde.serialize_model(model).SerializeToString()
    with writing(Path(path)) as file:
        file.write(content)


def export(
    model: Callable[..., Any],
    args: Any,
    f: str | os.PathLike[str],
    *,
    input_names: Sequence[str] | None = None,
    output_names: Sequence[str] | None = None,
    opset_version: int | None = None,
    dynamic_axes: Any = None,
    dynamic_shapes: Any = None,
    **options: Any,
) -> None:
    """`save` under PyTorch's name for it, `torch.onnx.export`.

    Options that only say how PyTorch's exporter works (`verbose`, `dynamo`, `export_params`,
    `do_constant_folding`) change nothing here.
    """
    unknown = options.keys() - _EXPORTER_OPTIONS
    if unknown:
        raise NotImplementedError(
            f"onnx.export: {', '.join(sorted(unknown))}: not here. Fix: leave this out."
        )
    save(
        model,
        args,
        f,
        input_names=input_names or (),
        output_names=output_names or (),
        opset=NEWEST if opset_version is None else opset_version,
        dynamic_axes=dynamic_axes,
        dynamic_shapes=dynamic_shapes,
    )


_EXPORTER_OPTIONS = {"do_constant_folding", "dynamo", "export_params", "training", "verbose"}


def _traced(fn: Callable[..., Any], args: tuple[Any, ...]) -> TracedProgram:
    """The program of a function, each result in memory of its own."""

    def function(*given: Any) -> list[Any]:
        results = [leaf for leaf in leaves(fn(*given)) if leaf is not None]
        for result in results:
            if not isinstance(result, Tensor):
                raise TypeError(
                    f"gradwalk.onnx.save: the function returned {type(result).__name__}; a graph "
                    "has tensors as outputs. Fix: return tensors."
                )
        return [result.clone() for result in results]

    fixed = frozenset(range(len(args)))  # numbers among the arguments
    try:
        with no_grad():
            return trace(function, args, static=fixed, keeps_composites=True)
    except AutogradError:  # it computes gradients: composites are opened
        return trace(function, args, static=fixed)


@contextmanager
def _evaluating(fn: Any) -> Iterator[None]:
    """Let a module evaluate: no dropout, running statistics."""
    modules = [module for _, module in _modules_of(fn)]
    before = [(part, part.training) for module in modules for part in module.modules()]
    for module in modules:
        module.eval()
    try:
        yield
    finally:
        for part, training in before:
            part.training = training


def _modules_of(fn: Any) -> list[tuple[str, Module]]:
    """The modules that a function is or uses, and what it calls them."""
    if isinstance(fn, Module):
        return [("", fn)]
    owner = getattr(fn, "__self__", None)
    if isinstance(owner, Module):
        return [("", owner)]
    if not inspect.isfunction(fn):
        return []
    variables = inspect.getclosurevars(fn)
    named = {**variables.globals, **variables.nonlocals}
    return [(name, thing) for name, thing in named.items() if isinstance(thing, Module)]


def _open(
    graph_at: Callable[[tuple[Any, ...]], _Graph], args: tuple[Any, ...], dimensions: Dimensions
) -> Any:
    """The graph with open dimensions, from programs traced at several sizes."""
    failed: Exception | None = None
    for chosen in points(dimensions, args):
        try:
            graphs = [graph_at(resized(args, dimensions, point)) for point in chosen]
            return graphs[0].build(graphs[1:], chosen, dimensions)
        except Unsupported:
            raise
        except SizeFixed as error:
            failed = error
        except Exception as error:  # whatever the function raises at a size that it does not take
            failed = failed or error
    labels = ", ".join(sorted(set(dimensions.values())))
    raise ValueError(
        f"gradwalk.onnx.save: {labels} cannot be left open. {failed}\nFix: take sizes from the "
        "input (x.shape[0]) instead of numbers, give dimensions that are always equal the same "
        "name, or leave the dimension out."
    ) from failed


class _Graph:
    """Writes one traced program."""

    def __init__(
        self,
        ir: Any,
        fn: Any,
        args: tuple[Any, ...],
        traced: TracedProgram,
        opset: int,
        input_names: Sequence[str],
        output_names: Sequence[str],
    ) -> None:
        self.ir, self.opset, self.traced = ir, opset, traced
        self.name = getattr(fn, "__name__", type(fn).__name__)
        self.program = ready(traced.program, opset)
        # after them, a program returns what a gradient outside would need
        self.results = self.program.results[: len(traced.tensors)]
        self.input_names = list(input_names)
        self.output_names = list(output_names)
        self.held_names: dict[int, str] = {}  # of parameters and buffers, by id of the tensor
        for prefix, module in _modules_of(fn):
            for name, tensor in (*module.named_parameters(), *module.named_buffers()):
                self.held_names[id(tensor)] = f"{prefix}.{name}" if prefix else name
        self.arguments = [leaf for leaf in leaves(list(args)) if isinstance(leaf, Tensor)]

    def build(
        self,
        others: Sequence[_Graph] = (),
        at: Sequence[Point] = (),
        dimensions: Dimensions | None = None,
    ) -> Any:
        """The graph; with open dimensions, from this one and those of other sizes."""
        write, inputs, initializers = self._written()
        outputs = [self._output(write, i, term) for i, term in enumerate(self.results)]
        nodes = write.nodes
        if dimensions:
            rows = [other._written() for other in others]
            symbolic = SymbolicGraph(
                [write, *(row[0] for row in rows)], [inputs, *(row[1] for row in rows)],
                at, dimensions,
            )  # fmt: skip
            nodes = symbolic.nodes()
            for (number, axis), name in dimensions.items():
                inputs[number].shape[axis] = name
            for i, value in enumerate(outputs):
                shapes = [graph.results[i].shape for graph in (self, *others)]
                value.shape = self.ir.Shape([symbolic.dimension(list(n)) for n in zip(*shapes)])
        used = _needed(nodes, outputs)
        return self.ir.Graph(
            inputs, outputs, nodes=used, initializers=_met(initializers, used),
            opset_imports={"": self.opset}, name=self.name,
        )  # fmt: skip

    def _written(self) -> tuple[GraphWriter, list[Any], list[Any]]:
        """The nodes, the inputs, and the initializers.

        All ops that ONNX does not have are listed in one error.
        """
        missing = [call for call in self.program.calls if not is_written(call, self.opset)]
        if missing:
            raise Unsupported(
                self.name,
                [(call.op.name, f"of {call.outputs[0]}") for call in missing],
                "write them with other operations, or save the parts without them.",
                f"ONNX's operator set {self.opset}",
            )
        write = GraphWriter(self.ir)
        inputs, initializers = self._sources(write)
        for call in self.program.calls:
            write.call = call
            written = WRITERS[call.op.name].write(write, call, *write.operands(call))
            outputs = written if call.op.multiple else (written,)
            write.values |= zip(call.outputs, outputs, strict=True)
        return write, inputs, initializers

    def _value(self, name: str, term: Any, tensor: Any = None) -> Any:
        code = self.ir.DataType(code_of(term.dtype))
        return self.ir.Value(
            name=name, shape=self.ir.Shape(term.shape), type=self.ir.TensorType(code),
            const_value=tensor,
        )  # fmt: skip

    def _sources(self, write: GraphWriter) -> tuple[list[Any], list[Any]]:
        """Values for what no call makes: the inputs, and the initializers."""
        names = (*self.input_names, *(f"input_{i}" for i in range(len(self.arguments))))
        inputs = [self._value(n, t) for n, t in zip(names, self.arguments, strict=False)]
        initializers: list[Any] = []
        for term in self.program.sources():
            source = term.source
            if isinstance(source, Argument):
                write.values[term] = inputs[source.number]
            elif isinstance(source, Constant):
                write.values[term] = write.constant(source.array)
            elif isinstance(source, Memory):
                memory = self.traced.captured[source.number]
                name = self._held_name(memory.locations, source.number)
                data = self.ir.Tensor(
                    memory.array, dtype=self.ir.DataType(code_of(term.dtype)), name=name
                )
                write.values[term] = self._value(name, term, data)
                initializers.append(write.values[term])
            else:
                raise ValueError(
                    "gradwalk.onnx.save: the function reads a number that changes between calls. "
                    "Fix: pass it as a tensor."
                )
        return inputs, initializers

    def _held_name(self, locations: list[Any], number: int) -> str:
        for location in locations:
            tensor = getattr(location, "tensor", None)
            if id(tensor) in self.held_names:
                return self.held_names[id(tensor)]
        return f"captured_{number}"

    def _output(self, write: GraphWriter, number: int, term: Term) -> Any:
        """A result under a name of its own."""
        given = self.output_names[number : number + 1]
        value = write.values[term]  # an Identity, because the trace copied it
        alone = len(self.results) == 1
        value.name = given[0] if given else "output" if alone else f"output_{number}"
        value.shape = self.ir.Shape(term.shape)
        value.type = self.ir.TensorType(self.ir.DataType(code_of(term.dtype)))
        return value


def _argument_names(fn: Any, args: tuple[Any, ...]) -> list[str]:
    """A name for each tensor: that of its parameter."""
    function = fn.forward if isinstance(fn, Module) else fn
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        parameters = []
    plain = [p.name for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD]
    names = []
    for i, argument in enumerate(args):
        name = plain[i] if i < len(plain) else f"input_{i}"
        inner = [leaf for leaf in leaves(argument) if isinstance(leaf, Tensor)]
        names += [name] if inner == [argument] else [f"{name}_{j}" for j in range(len(inner))]
    return names


def _needed(nodes: list[Any], outputs: list[Any]) -> list[Any]:
    """The nodes that lead to the outputs."""
    wanted, kept = set(map(id, outputs)), []
    for node in reversed(nodes):
        if any(id(value) in wanted for value in node.outputs):
            kept.append(node)
            wanted |= {id(value) for value in node.inputs if value is not None}
    return kept[::-1]


def _met(initializers: list[Any], nodes: list[Any]) -> list[Any]:
    """The initializers that nodes read."""
    read = {id(value) for node in nodes for value in node.inputs}
    return [value for value in initializers if id(value) in read]
