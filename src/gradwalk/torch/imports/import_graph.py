"""import_graph: a PyTorch model as a gradwalk function with the same operations.

`import_graph` exports a module or function on example arguments with torch.export, translates every
operation to an op of ours, and compares the value and gradients of each with PyTorch's.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch.export.graph_signature import InputKind, OutputKind, TensorArgument

import gradwalk
from gradwalk.engine.modes import no_grad
from gradwalk.nn.graph_module import GraphModule, Inside, Unsupported
from gradwalk.nn.module import Module
from gradwalk.nn.parameter import Parameter
from gradwalk.ops.core.dtypes import is_floating
from gradwalk.tensors.tensor import Tensor
from gradwalk.torch import private
from gradwalk.torch.imports import torch_export
from gradwalk.torch.imports.graph_steps import (
    Drawn,
    GraphStep,
    Reader,
    ValueSource,
    tensor_of,
)
from gradwalk.torch.imports.verify import check_steps, check_whole
from gradwalk.torch.values import array_of, form_of


def import_graph(
    fn: Callable[..., Any], *args: Any, tolerance: float | None = None, **kwargs: Any
) -> Imported:
    """Return a gradwalk function that computes what a PyTorch module or function computes.

    `args` and `kwargs` are example arguments, torch tensors. The result takes gradwalk tensors of
    the same shapes and owns the module's parameters under their names. On the example arguments,
    `import_graph` compares each operation with PyTorch's (the value, and the gradients of its
    operands), then the outputs of the whole and the gradients of parameters and arguments.
    Differences may reach `tolerance` × the largest element; the default is 1e-4 in float32, 1e-8 in
    float64 and 2e-2 in half precision, and a difference that float64 does not have is rounding. A
    complex tensor becomes a real one with one more dimension, of length 2. One error lists all
    operations without a counterpart.

    >>> import torch, gradwalk as gw
    >>> from gradwalk.torch import import_graph
    >>> net = import_graph(torch.nn.Linear(3, 2), torch.ones(4, 3))
    >>> [name for name, _ in net.named_parameters()]
    ['weight', 'bias']
    >>> net(gw.ones(4, 3)).shape
    (4, 2)
    """
    module = fn if isinstance(fn, torch.nn.Module) else torch_export.Wrapped(fn)
    graph = torch_export.exported(module, args, kwargs)
    program = torch_export.functional(graph)
    reader = Reader(program.graph)
    # known operations called with arguments that only their decomposition supports
    if reader.apart:
        program = torch_export.functional(graph, reader.apart)
        reader = Reader(program.graph)
    if reader.unsized is not None:
        operation, where = reader.unsized
        read = "item() or tolist()" if "_local_scalar_dense" in operation else operation
        what = f"the result of {read} decides a number or a shape"
        raise torch_export.not_a_graph(module, what, f"\n  {where}")
    name = torch_export.name_of(module)
    if reader.unknown:
        raise Unsupported(
            name,
            reader.unknown,
            "import the parts without them, or record the program with gradwalk.torch.record(), "
            "where they are opaque nodes.",
        )
    imported = Imported(module, program, reader, (args, kwargs))
    drawn = check_steps(imported, tolerance)
    check_whole(imported, module, drawn, tolerance)
    return imported


class Imported(GraphModule):
    """What `import_graph` returns: a module whose forward runs the imported steps."""

    def __init__(
        self,
        module: torch.nn.Module,
        program: torch_export.Program,
        reader: Reader,
        example: tuple[Any, Any],
    ) -> None:
        super().__init__()
        self._name = torch_export.name_of(module)
        self._steps: list[GraphStep] = reader.steps
        self._example = example
        signature = program.graph_signature
        nodes = {node.name: node for node in program.graph.nodes}
        # Parameters and buffers, in their parts.
        self._held: dict[ValueSource, tuple[Module, str]] = {}
        self._constants: dict[ValueSource, Tensor] = {}
        self._complex: set[ValueSource] = set()  # of both: here they are pairs of real numbers
        # Source and example of each argument.
        self._arguments: list[tuple[ValueSource | None, Any]] = []
        for step in self._steps:
            for within in step.modules:
                self._part(within.path, within.class_name)
        self._hold(program, torch_export.learned(module))
        self._in_spec, self._out_spec = program.call_spec.in_spec, program.call_spec.out_spec
        self._results: list[Any] = []  # a source or a constant
        self._updates: list[tuple[ValueSource, ValueSource]] = []  # new values of buffers
        for spec in signature.output_specs:
            place: Any = spec.arg.name if isinstance(spec.arg, TensorArgument) else None
            place = reader.place(nodes[place]) if place in nodes else spec.arg.value
            if spec.kind is OutputKind.BUFFER_MUTATION:
                held = next(s.arg.name for s in signature.input_specs if s.target == spec.target)
                self._updates.append((ValueSource(held), place))
            elif spec.kind is OutputKind.USER_OUTPUT:
                self._results.append(place)
            else:
                own = any(s.target == spec.target for s in signature.input_specs)
                what = "parameter" if own else "argument"
                raise ValueError(
                    f"{self._name} changes its {what} {spec.target!r} in place. Fix: let it "
                    "return the new value instead (x = x + 1, not x += 1)."
                )

    # -- what it is made of ------------------------------------------------------------------------

    def _hold(self, program: torch_export.Program, learned: dict[str, torch.Tensor]) -> None:
        """Copy parameters, buffers and constants; note the arguments."""
        tensors = {**program.constants, **program.state_dict}
        shared: dict[int, Tensor] = {}
        # torch.export treats a tensor that a function captures as a constant.
        around = {tensor.data_ptr(): name for name, tensor in learned.items()}
        example = iter(private.flattened(self._example)[0])
        for spec in program.graph_signature.input_specs:
            if spec.kind is InputKind.USER_INPUT:
                given = next(example)
                tensor = isinstance(spec.arg, TensorArgument)
                self._arguments.append((ValueSource(spec.arg.name) if tensor else None, given))
                continue
            if spec.kind not in (InputKind.PARAMETER, InputKind.BUFFER, InputKind.CONSTANT_TENSOR):
                raise ValueError(f"{self._name}: its input {spec.target!r} is of an unknown kind")
            source, place = tensors[spec.target], ValueSource(spec.arg.name)
            target = spec.target
            if source.is_complex():
                self._complex.add(place)
            if spec.kind is InputKind.CONSTANT_TENSOR:
                if source.data_ptr() not in around:
                    self._constants[place] = tensor_of(source)
                    continue
                target = around[source.data_ptr()]
                source = learned[target]
            path, _, name = target.rpartition(".")
            part = self._part(path)
            if id(source) not in shared:
                array = np.array(array_of(source))
                buffer = spec.kind is InputKind.BUFFER or not is_floating(array.dtype)
                shared[id(source)] = (
                    gradwalk.tensor(array, dtype=array.dtype)
                    if buffer
                    else Parameter(array, source.requires_grad)
                )
            own = shared[id(source)]
            if isinstance(own, Parameter):
                part.register_parameter(name, own)
            else:
                part.register_buffer(name, own)
            self._held[place] = (part, name)

    # -- running -----------------------------------------------------------------------------------

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Return the outputs, nested as in PyTorch."""
        values = self._run((args, kwargs), {})
        results = [values[r] if isinstance(r, ValueSource) else r for r in self._results]
        with no_grad():
            for held, place in self._updates:
                part, name = self._held[held]
                getattr(part, name).copy_(values[place])
        return private.rebuilt(results, self._out_spec)

    def _run(self, given: tuple[Any, Any], drawn: Drawn) -> dict[ValueSource, Any]:
        """Compute every value of the graph for the arguments `given`."""
        values: dict[ValueSource, Any] = dict(self._constants)
        updated = {held for held, _ in self._updates}
        for place, (part, name) in self._held.items():
            held = getattr(part, name)
            # Backward may need the old value of a buffer.
            values[place] = held.clone() if place in updated else held
        self._take(given, values)
        inside = Inside(self)
        try:
            for step in self._steps:
                inside.go_to(step.modules)
                step.run(values, drawn)
        finally:
            inside.go_to(())
        return values

    def _take(self, given: tuple[Any, Any], values: dict[ValueSource, Any]) -> None:
        leaves, spec = private.flattened(given)
        if spec != self._in_spec:
            raise TypeError(
                f"{self._name} was imported for arguments like {_outline(self._example)}; it was "
                f"called with {_outline(given)}"
            )
        for (place, example), leaf in zip(self._arguments, leaves, strict=True):
            if place is None:
                if leaf != example:
                    raise ValueError(
                        f"{self._name} was imported with the constant {example!r}; it was called "
                        f"with {leaf!r}. Fix: import it again with that."
                    )
                continue
            if not isinstance(leaf, Tensor):
                leaf = tensor_of(leaf)
            shape = form_of(example)[0]
            if tuple(leaf.shape) != shape:
                raise ValueError(
                    f"{self._name} was imported for an argument of shape {shape}; "
                    f"it was called with shape {tuple(leaf.shape)}. Fix: import it again with that."
                )
            values[place] = leaf


def _outline(given: Any) -> str:
    leaves, spec = private.flattened(given)
    names = [
        f"tensor {tuple(leaf.shape)}" if hasattr(leaf, "shape") else repr(leaf) for leaf in leaves
    ]
    args, kwargs = private.rebuilt(names, spec)
    listed = [str(a) for a in args] + [f"{k}={v}" for k, v in kwargs.items()]
    return f"({', '.join(listed)})"
