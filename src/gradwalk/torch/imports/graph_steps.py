"""The steps of an imported graph: each applies one op of ours to earlier values."""

from __future__ import annotations

import operator
import re
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import torch

import gradwalk
from gradwalk.graph.source import SourceLine, own_files
from gradwalk.nn import functional
from gradwalk.nn.graph_module import Within
from gradwalk.ops import TABLE as OPS
from gradwalk.ops.core.op import Op
from gradwalk.torch import private
from gradwalk.torch.imports.torch_export import STOP, can_be_taken_apart
from gradwalk.torch.translate import LEAF, Made, is_known, translate
from gradwalk.torch.translate.table import numpy_dtype
from gradwalk.torch.values import array_of

Drawn = dict[str, Any]  # step -> random numbers to use instead of drawing


class ValueSource(NamedTuple):
    """A value of the graph: the step or input it comes from, and which output."""

    name: str
    output: int = 0


@dataclass
class GraphStep:
    """One operation of the graph."""

    name: str  # torch.export's name: "addmm_1"
    func: Any  # the overload
    given: tuple[Any, Any]  # arguments and keywords; values of the graph are `ValueSource`s
    modules: tuple[Within, ...] = ()  # enclosing modules, outermost first
    line: SourceLine | None = None
    op: Op | None = None  # our op; None where gradients stop, and for creation ops
    args: tuple[Any, ...] = ()
    attrs: dict[str, Any] = field(default_factory=dict)
    outputs: tuple[int, ...] = (0,)
    constant: Any = None  # a constant tensor
    draws: tuple[str, tuple[int, ...], Any] | None = None  # "rand" or "randn", shape, dtype

    @property
    def path(self) -> str:
        """The path of the innermost module."""
        return self.modules[-1].path if self.modules else ""

    def where(self) -> str:
        """The operation, its module and its line, for messages."""
        text = f"{self.name} ({self.func})"
        text += f" in module '{self.path}'" if self.path else ""
        return f"{text} at {self.line}" if self.line is not None else text

    def run(self, values: dict[ValueSource, Any], drawn: Drawn) -> None:
        """Compute the step from `values` and store its outputs there."""
        if self.constant is not None:
            result = self.constant
        elif self.draws is not None:
            kind, shape, dtype = self.draws
            result = drawn.get(self.name)
            if result is None:
                result = getattr(gradwalk, kind)(*shape, dtype=dtype)
        else:
            args = [values[a] if isinstance(a, ValueSource) else a for a in self.args]
            if self.op is None:
                result = args[0].detach()
            elif not any(isinstance(a, Made) for a in args):
                result = self.op(*args, **self.attrs)
            elif self.name in drawn:
                result = self.op(args[0], drawn[self.name], **self.attrs)
            else:
                result = functional.dropout(args[0], self.attrs["p"])
        several = self.op is not None and self.op.multiple
        for k, part in zip(self.outputs, result if several else (result,), strict=True):
            values[ValueSource(self.name, k)] = part


class Reader:
    """Read a functional graph: make steps of the nodes that its outputs need, in order."""

    def __init__(self, graph: torch.fx.Graph) -> None:
        self.steps: list[GraphStep] = []
        self.unknown: list[tuple[str, str]] = []  # operation, where
        self.apart: set[Any] = set()  # operations to decompose before reading again
        self.unsized: tuple[str, str] | None = None  # an operation whose shape depends on numbers
        self._values: dict[torch.fx.Node, Any] = {}
        for node in graph.nodes:
            if _depends_on_numbers(node.meta.get("val")):
                self.unsized = str(node.target), _where(node)
                return
            if "val" in node.meta:
                self._values[node] = _stand_in(node.meta["val"])
        needed: set[torch.fx.Node] = set()
        for node in reversed(graph.nodes):
            if node.op == "output" or node in needed:
                needed.update(node.all_input_nodes)
        for node in graph.nodes:
            if node not in needed or node.op == "placeholder":
                continue
            if node.op != "call_function":
                self.unknown.append((f"{node.op} {node.target}", _where(node)))
            elif node.target is not operator.getitem:
                self._read_node(node)

    def place(self, node: torch.fx.Node) -> ValueSource:
        """The source of a node's value."""
        if node.target is operator.getitem:
            source, index = node.args
            assert isinstance(source, torch.fx.Node) and isinstance(index, int)
            return ValueSource(source.name, index)
        return ValueSource(node.name)

    def _read_node(self, node: torch.fx.Node) -> None:
        func = node.target
        given = torch.fx.node.map_arg((node.args, node.kwargs), self.place)
        step = GraphStep(node.name, func, given, _modules(node), _line(node))
        if func is STOP:
            step.args = (given[0][0],)
            self.steps.append(step)
            return
        args, kwargs = torch.fx.node.map_arg((node.args, node.kwargs), self._values.__getitem__)
        known = translate(func, args, kwargs) if private.is_overload(func) else None
        if known is None:
            if can_be_taken_apart(func):
                self.apart.add(func)
            partly = private.is_overload(func) and is_known(func)
            self.unknown.append((f"{func}{' as called here' if partly else ''}", _where(node)))
            return
        lacking = [k for k in _outputs_used(node) if k not in known.outputs]
        if known.op == LEAF:
            self._read_leaf(step, node)
        elif lacking:
            self.unknown.append((f"output {lacking[0]} of {func}", _where(node)))
        else:
            step.op, step.attrs, step.outputs = OPS[known.op], known.attrs, known.outputs
            places = {id(self._values[n]): self.place(n) for n in node.all_input_nodes}
            step.args = tuple(
                places[id(a)] if isinstance(a, torch.Tensor) else a for a in known.args
            )
            self.steps.append(step)

    def _read_leaf(self, step: GraphStep, node: torch.fx.Node) -> None:
        """Compute a constant now; draw random numbers at every call."""
        func: Any = node.target
        value = node.meta["val"]
        name = str(func).split(".")[1]
        shape = tuple(int(n) for n in value.shape)
        if torch.Tag.nondeterministic_seeded in func.tags:
            kind = {"rand": "rand", "rand_like": "rand", "randn": "randn", "randn_like": "randn"}
            if name not in kind:
                self.unknown.append((str(func), _where(node)))
                return
            step.draws = (kind[name], shape, np.dtype(str(value.dtype).removeprefix("torch.")))
        elif name.startswith(("empty", "new_empty")):
            step.constant = gradwalk.zeros(*shape, dtype=numpy_dtype(value.dtype))
        else:
            args, kwargs = torch.fx.node.map_arg((node.args, node.kwargs), self._on_cpu)
            kwargs = {k: torch.device("cpu") if k == "device" else v for k, v in kwargs.items()}
            step.constant = tensor_of(func(*args, **kwargs))
        self.steps.append(step)

    def _on_cpu(self, node: torch.fx.Node) -> torch.Tensor:
        """Zeros for a tensor whose shape alone matters."""
        value = self._values[node]
        return torch.zeros(value.shape, dtype=value.dtype)


def tensor_of(source: Any) -> Any:
    """A gradwalk tensor with the elements of a PyTorch tensor or an array."""
    array = array_of(source) if isinstance(source, torch.Tensor) else np.asarray(source)
    if array is None:
        raise TypeError(f"a tensor of {source.dtype} on {source.device} has no values to import")
    return gradwalk.tensor(np.array(array), dtype=array.dtype)


def _depends_on_numbers(value: Any) -> bool:
    """Whether a value, or the shape of one, is only known when the graph runs."""
    if isinstance(value, (list, tuple)):
        return any(map(_depends_on_numbers, value))
    if isinstance(value, torch.Tensor):
        return any(not isinstance(n, int) for n in value.shape)
    return isinstance(value, (torch.SymInt, torch.SymFloat, torch.SymBool))


def _stand_in(value: Any) -> Any:
    """A meta tensor unique to each value of a node."""
    if isinstance(value, (list, tuple)):
        return [_stand_in(part) for part in value]
    if not isinstance(value, torch.Tensor):
        return value
    return torch.empty(tuple(int(n) for n in value.shape), dtype=value.dtype, device="meta")


def _outputs_used(node: torch.fx.Node) -> list[int]:
    """The outputs of an operation that are used."""
    if not isinstance(node.meta.get("val"), (list, tuple)):
        return [0]
    return [
        int(user.args[1])  # type: ignore[arg-type]
        for user in node.users
        if user.target is operator.getitem and user.users
    ]


# -- where in the user's program -------------------------------------------------------------------

_FRAME = re.compile(
    r'File "(?P<file>[^"]+)", line (?P<line>\d+), in (?P<function>\S+)(?:\n    (?P<text>.*))?'
)
_TORCH = torch.__file__.removesuffix("__init__.py")


def _line(node: torch.fx.Node) -> SourceLine | None:
    """The user's line: the innermost one outside of PyTorch."""
    noted = _FRAME.finditer(node.meta.get("stack_trace") or "")
    frames = [frame for frame in noted if not own_files[frame["file"]]]
    if not frames:
        return None
    users = [frame for frame in frames if not frame["file"].startswith(_TORCH)]
    frame = (users or frames)[-1]
    return SourceLine(
        frame["file"], int(frame["line"]), (frame["text"] or "").strip(), frame["function"]
    )


def _modules(node: torch.fx.Node) -> tuple[Within, ...]:
    stack = node.meta.get("nn_module_stack") or {}
    return tuple(
        Within(str(key), str(path), str(name).rpartition(".")[2])
        for key, (path, name) in stack.items()
        if path
    )


def _where(node: torch.fx.Node) -> str:
    modules, line = _modules(node), _line(node)
    text = f"in module '{modules[-1].path}' " if modules else ""
    return f"{text}at {line}" if line is not None else f"{text}(no line known)"
