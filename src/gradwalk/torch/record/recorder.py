"""Record an unmodified PyTorch program as a trace.

A dispatch mode sees every operation with its operands, its result and the line that called it.
PyTorch's autograd graph is the truth about gradients: an operation belongs to the autograd node
made last before it ran (nodes are numbered), and hooks on the nodes report what each received and
pushed along each edge. A node that no operation accounts for (a custom Function, a write through a
view) is recorded as opaque.
"""

from __future__ import annotations

import sys
import threading
import weakref
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from time import perf_counter
from typing import Any

import numpy as np
import torch
from torch.nn.parameter import is_lazy

from gradwalk.graph.source import SourceLine
from gradwalk.inspect.trace.collector import seldom_collecting
from gradwalk.inspect.trace.no_grad_block import no_grad_block
from gradwalk.inspect.trace.recorder import Recorder
from gradwalk.inspect.trace.trace import Edge, Exit, Kept, Trace, TraceNode
from gradwalk.torch import private
from gradwalk.torch.private import TorchDispatchMode
from gradwalk.torch.record.autograd_graph import AutogradGraph
from gradwalk.torch.record.live_tensors import Noted, Unused
from gradwalk.torch.record.module_calls import (
    ModuleNames,
    end_failed_steps,
    outermost_alive,
    told_of_modules,
    told_of_steps,
    uncompiled,
    whole_of,
)
from gradwalk.torch.record.operations import (
    Facts,
    facts_of,
    gives,
    plain_arguments,
    tensors_in,
    version_of,
)
from gradwalk.torch.record.storages import HeldWeakly
from gradwalk.torch.translate import LEAF, Known, Made, translate
from gradwalk.torch.translate.table import is_plain
from gradwalk.torch.user_lines import caller, is_internal, line_at
from gradwalk.torch.values import ORDINARY, array_of, form_of, quick_array


class TorchTrace(Trace):
    """A trace of PyTorch tensors, which it does not keep alive."""

    def __init__(self, recorder: TorchRecorder) -> None:
        super().__init__()
        self.recorder = recorder
        self._alive = HeldWeakly()

    def lookup(self, thing: Any) -> int | None:
        """The node of a live tensor; None if it is not in the trace."""
        if isinstance(thing, torch.Tensor):
            edge = self.recorder.known(thing)
            return None if edge is None else self._reached(edge.node)
        return super().lookup(thing)

    def output(self, thing: Any) -> int:
        """Which output of its node a live tensor is."""
        edge = self.recorder.known(thing) if isinstance(thing, torch.Tensor) else None
        return 0 if edge is None else edge.output

    def last_write(self, thing: Any) -> tuple[int, SourceLine | None] | None:
        """When and where a tensor was last written in place, if that was recorded."""
        if isinstance(thing, torch.Tensor):
            return self.recorder.graph.memories.last_write(thing)
        return super().last_write(thing)


class _Mode(TorchDispatchMode):  # type: ignore[no-untyped-call]
    def __init__(self, recorder: TorchRecorder) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.recorder = recorder


def _dispatch(mode: Any, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
    return mode.recorder.dispatched(func, args, kwargs or {})


# Not in the class body: there PyTorch wraps it, slowly, to hide it from compiled code, which never
# sees this mode.
_Mode.__torch_dispatch__ = _dispatch  # type: ignore[method-assign]


class TorchRecorder(Recorder):
    """Listen to PyTorch and write a trace."""

    def __init__(
        self, keep: str | None = None, budget: int | None = None, timing: bool = False
    ) -> None:
        super().__init__(keep, budget, timing)
        self.trace: TorchTrace = TorchTrace(self)
        self.graph = AutogradGraph(self)
        self.thread = threading.get_ident()
        self._stack_of_contexts = ExitStack()
        self._mode: _Mode | None = None  # while it records
        self.running: list[Any] = []  # modules
        self.stepping: list[Any] = []  # optimizer steps: the running frame and its suspension
        self._names = ModuleNames()
        self._nameless: list[weakref.ref[torch.Tensor]] = []  # parameters without a name yet
        self._told = ExitStack()  # hooks for module calls, backward passes and steps
        self._compiled = ExitStack()  # hooks removed while compiled code runs
        self._entries: dict[int, Noted] = {}  # live tensors, by id
        self._unused: dict[int, Unused] = {}
        self._blank: set[int] = set()  # nodes of uninitialized memory
        self._silent = 0  # depth of suspensions
        self._judged = 0  # backward passes that a gradient scaler has judged
        self._last_number = -1  # of the last operation's autograd node
        self._cloned = (0, -1)  # the tensor that was copied last, by id, and the number of its node

    def __enter__(self) -> Trace:
        super().__enter__()
        self.thread = threading.get_ident()
        enter = self._stack_of_contexts.enter_context
        enter(seldom_collecting())
        self._mode = _Mode(self)
        enter(private.told_of_compiled(self._compiled_begins, self._compiled_ends))
        enter(self._told)
        self._be_told()
        enter(self._mode)
        return self.trace

    def __exit__(self, *error: Any) -> None:
        self._stack_of_contexts.close()
        super().__exit__(*error)
        nameless = [tensor() for tensor in self._nameless]
        if any(tensor is not None and self._names.of(tensor) is None for tensor in nameless):
            self.name_what_is_alive()

    def _be_told(self) -> None:
        self._told.enter_context(private.told_of_backward(self._around_backward))
        self._told.enter_context(told_of_modules(self))
        self._told.enter_context(told_of_steps(self))

    def _compiled_begins(self) -> None:
        """Suspend recording while compiled code runs."""
        self._told.close()
        assert self._mode is not None
        self._compiled.enter_context(private.mode_taken_off(self._mode))
        self._compiled.enter_context(self.silence())

    def _compiled_ends(self) -> None:
        self._compiled.close()
        self._be_told()

    @contextmanager
    def silence(self) -> Iterator[None]:
        """Suspend recording."""
        self._silent += 1
        try:
            yield
        finally:
            self._silent -= 1

    @contextmanager
    def unlistening(self) -> Iterator[None]:
        """Do not even listen while backward runs: it records nothing but what hooks report."""
        with private.mode_taken_off(self._mode) if self._mode is not None else nullcontext():
            yield
        self._last_number = private.nodes_made() - 1  # a checkpoint may have made nodes again

    def _kept(self, array: Any, what: str, index: int) -> Kept:
        if isinstance(array, torch.Tensor):
            quick = quick_array(array)
            if quick is None:
                with self.silence():
                    quick = array_of(array)
            array = quick
        return super()._kept(array, what, index)

    def entered_module(self, module: Any) -> None:
        """Open a group for a module call, named as in the outermost module."""
        if not isinstance(module, torch.nn.Module):  # a program may use both engines
            super().entered_module(module)
            return
        inner = uncompiled(module)
        if self._names.of(inner) is None:
            # For a module without parameters, such as a loss, the search is not worth its cost.
            has_parameters = next(inner.parameters(), None) is not None
            self._name_parts(whole_of(inner) if has_parameters else inner)
        self.entered(self._names.of(inner) or "", "module", type(inner).__name__)

    def _name_parts(self, module: Any) -> None:
        if not isinstance(module, torch.nn.Module):
            super()._name_parts(module)
            return
        for parameter in self._names.give(module):
            entry = self._entry(parameter)
            name = self._names.of(parameter)
            if entry is not None and name is not None:
                self.trace.names[entry.edge.node] = name

    def name_what_is_alive(self) -> None:
        """Name the parameters of live modules that were never called."""
        for module in outermost_alive():
            self._name_parts(module)

    def steps(self, optimizer: Any) -> None:
        """Note that an optimizer is about to write to its parameters."""
        line = line_at(*caller())
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                name = f"{type(optimizer).__name__}.step"
                self.graph.memories.note_write(parameter, name, line)

    # -- where a tensor stands ---------------------------------------------------------------------

    def known(self, tensor: torch.Tensor) -> Edge | None:
        """The node and output of a tensor; None if it is not in the trace yet."""
        if tensor.grad_fn is not None:
            return self.graph.edge_of(tensor)
        entry = self._entry(tensor)
        return self._used(tensor) if entry is None else entry.edge

    def _entry(self, tensor: torch.Tensor) -> Noted | None:
        entry = self._entries.get(id(tensor))
        return entry if entry is not None and entry.tensor() is tensor else None

    def noted_as(self, tensor: torch.Tensor) -> Edge | None:
        """The position that an operation noted for a tensor, whatever PyTorch's graph says."""
        entry = self._entry(tensor)
        return entry.edge if entry is not None and entry.is_current else None

    def note(self, tensor: torch.Tensor, edge: Edge) -> None:
        """Register a tensor as an output of a node."""
        memory = private.memory_of(tensor)
        self._entries[id(tensor)] = Noted(weakref.ref(tensor), edge, version_of(tensor), memory)

    def edge(self, tensor: torch.Tensor) -> Edge:
        """The edge of an operand; an unknown tensor becomes a leaf."""
        grad_fn = tensor.grad_fn
        entry = self._entry(tensor)
        if grad_fn is not None:
            if entry is not None and entry.is_result_of(grad_fn, tensor):
                return entry.edge
            return self.graph.edge_of(tensor) or self.graph.grown(tensor)
        if entry is None:
            return self._used(tensor) or self._new_leaf(tensor)
        if entry.is_current:
            return entry.edge
        # Written since, by an optimizer say: from here on it is another leaf.
        edge = self._new_leaf(tensor)
        self.trace._earlier[edge.node] = entry.edge.node
        return edge

    def _new_leaf(self, tensor: torch.Tensor) -> Edge:
        """Add a leaf for a constant or a tensor made before the recording."""
        made = TraceNode(
            index=0,
            op="",
            group=self._group,
            needs_grad=tensor.requires_grad,
            metas=(form_of(tensor),),
            line=(self.graph.memories.last_write(tensor) or (0, None))[1],
        )
        index = self.trace.add(made)
        made.values = [self._kept(tensor, "values", index)]
        if tensor.requires_grad:
            self.trace._alive.append(tensor)
        name = self._names.of(tensor)
        if name:
            self.trace.names[index] = name
        elif isinstance(tensor, torch.nn.Parameter):
            self._nameless.append(weakref.ref(tensor))
        self.note(tensor, Edge(index))
        self.graph.memories.note_memory(Edge(index), tensor)
        return Edge(index)

    # -- forward -----------------------------------------------------------------------------------

    def dispatched(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run an operation and record it."""
        number = private.nodes_made() - 1
        newest, self._last_number = number > self._last_number, number
        if self.stepping:
            end_failed_steps(self.stepping)
        if self._silent or (self._sweep is not None and not self._of_second_order):
            return func(*args, **kwargs)
        given = tensors_in(args)
        if kwargs:
            given += tensors_in(kwargs)
        needs_grad = False
        for tensor in given:
            if tensor.requires_grad:
                needs_grad = True
            if type(tensor) not in ORDINARY and is_lazy(tensor):
                return func(*args, **kwargs)  # a lazy parameter
        facts = facts_of(func)
        if facts.is_detach:
            return self._detached(func, args, kwargs, given[0])
        if facts.takes_out:
            self._take_out(given[0])
            return func(*args, **kwargs)
        if facts.scales:
            self._judge_sweeps(found_inf=given[2])
        written = facts.written(args, kwargs) if facts.is_mutable else []
        if facts.is_clone:
            self._cloned = id(given[0]), number
        elif written and (id(written[0]), number) == self._cloned:
            newest, number = True, number - 1  # PyTorch made its node, then copied the old value
        belongs = newest and needs_grad and torch.is_grad_enabled()
        known = translate(func, args, kwargs)
        if known is not None and known.op == LEAF and not (belongs and written):
            result = func(*args, **kwargs)
            for tensor in (*written, *tensors_in(result)):
                self._note_constant(facts, tensor)
            return result
        edges = {id(tensor): self.edge(tensor) for tensor in given}
        began = perf_counter()
        result = func(*args, **kwargs)
        took = perf_counter() - began
        self._silent += 1
        try:
            at = number if belongs else None
            self._note_operation(facts, args, kwargs, known, edges, given, written, result, at)
            if facts.is_norm:
                for tensor in facts.written_untold(args):
                    self._entries.pop(id(tensor), None)  # a later use is another leaf
        finally:
            self._silent -= 1
        if self.timing:
            self.trace.seconds[len(self.trace.nodes) - 1] = took
        return result

    def _detached(
        self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], tensor: torch.Tensor
    ) -> Any:
        result, before = func(*args, **kwargs), self._unused.get(id(tensor))
        # PyTorch 2.8 carries out one call of detach() as two operations.
        twice = before and before.tensor() is tensor and before.place == caller()
        source = before.source if before and twice else None
        self._note_unused(result, source or self.edge(tensor))
        return result

    def _note_operation(
        self,
        facts: Facts,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        known: Known | None,
        edges: dict[int, Edge],
        given: list[torch.Tensor],
        written: list[torch.Tensor],
        result: Any,
        number: int | None,
    ) -> None:
        made = [result] if type(result) is torch.Tensor else tensors_in(result)
        if written:
            made += [t for t in written if all(t is not m for m in made)]
        if not made:
            return
        line = line_at(*caller())
        for tensor in written:
            self.graph.memories.note_write(tensor, facts.name.removeprefix("aten."), line)
        if known is not None and written and number is not None and not gives(known, written):
            known = None  # the old value is an operand, though its gradient is 0
        if known is not None and not known.pairs and not all(map(is_plain, made)):  # x * 1j
            known = None
        nodes = self.trace.nodes
        operands: Sequence[Any]
        outputs: Sequence[int]
        if known is None:
            name, operands, attrs = facts.name, given, plain_arguments(facts.func, args, kwargs)
            outputs = range(len(made))
        else:
            name, operands, attrs = known.op, known.args, known.attrs
            outputs = known.outputs
        node = TraceNode(
            index=0,
            op=name,
            args=tuple([edges.get(id(o)) or self._as_argument(o, made) for o in operands]),
            attrs=attrs,
            group=self._group,
            line=line,
            needs_grad=number is not None,
            metas=tuple([form_of(made[k]) for k in outputs]),
        )
        if number is None and any(nodes[edge.node].needs_grad for edge in edges.values()):
            node.note = "not differentiable" if torch.is_grad_enabled() else "no_grad"
            if node.note == "no_grad":
                node.block = no_grad_block(sys._getframe(1), is_internal)
        index = self.trace.add(node)
        is_view = not written and facts.returns_view
        if is_view and any(edge.node in self._blank for edge in edges.values()):
            self._blank.add(index)
        blank = index in self._blank
        node.values = [None if blank else self._kept(made[k], "values", index) for k in outputs]
        for position, k in enumerate(outputs):
            tensor, edge = made[k], Edge(index, position)
            self.graph.memories.note_memory(edge, tensor)
            is_written = bool(written) and any(tensor is t for t in written)
            if is_written and self._stays_a_leaf(tensor):
                continue
            self.note(tensor, edge)
            noted = self._entries[id(tensor)]
            noted.being_written = is_written
            if number is not None and not written and len(made) == 1:
                noted.number, noted.operation = number, facts.plain
            if is_view and isinstance(args[0], torch.Tensor):
                noted.base_version = version_of(args[0])
        if number is not None:
            self.graph.belongs(number, index, facts.plain)

    def _as_argument(self, operand: Any, made: list[torch.Tensor]) -> Any:
        if isinstance(operand, Made):  # a mask drawn by the operation
            return self._new_leaf(made[operand.output])
        return self.edge(operand) if isinstance(operand, torch.Tensor) else operand

    def _stays_a_leaf(self, tensor: torch.Tensor) -> bool:
        """Whether a parameter written inside no_grad() stays the same leaf."""
        return tensor.requires_grad and tensor.grad_fn is None and not torch.is_grad_enabled()

    def _note_constant(self, facts: Facts, tensor: torch.Tensor) -> None:
        """Note a tensor that does not depend on earlier values."""
        if facts.is_mutable:
            self.graph.memories.note_write(tensor, facts.short, line_at(*caller()))
        self._note_unused(tensor, None)
        self._unused[id(tensor)].is_blank = facts.is_blank

    def _note_unused(self, result: torch.Tensor, source: Edge | None) -> None:
        self._unused[id(result)] = Unused(weakref.ref(result), source, caller(), self._group)

    def _used(self, tensor: torch.Tensor) -> Edge | None:
        """Turn a noted tensor that is now used into a node."""
        noted = self._unused.get(id(tensor))
        if noted is None or noted.tensor() is not tensor:
            return None
        line = line_at(*noted.place)
        if noted.source is None:
            edge = self._new_leaf(tensor)
            leaf = self.trace.nodes[edge.node]
            leaf.line = leaf.line or line
            if noted.is_blank and version_of(tensor) <= 0:
                leaf.values = [None]
                self._blank.add(edge.node)
            return edge
        source = self.trace.nodes[noted.source.node]
        node = TraceNode(
            index=0,
            op="detach",
            args=(noted.source,),
            group=noted.group,
            line=line,
            needs_grad=False,
            metas=(source.metas[noted.source.output],),
            note="detach" if source.needs_grad else "",
        )
        index = self.trace.add(node)
        node.values = [self._kept(tensor, "values", index)]
        self.note(tensor, Edge(index))
        return Edge(index)

    def _judge_sweeps(self, found_inf: torch.Tensor) -> None:
        """Mark the sweeps whose gradients a gradient scaler rejected."""
        with self.silence():
            thrown_away = bool(np.any(array_of(found_inf)))
        for sweep in self.trace.sweeps[self._judged :]:
            sweep.thrown_away = thrown_away
        self._judged = len(self.trace.sweeps)

    def _take_out(self, tensor: torch.Tensor) -> None:
        """Note that a value left the graph: `item()`, `float(x)`, `if x:`."""
        known = self.known(tensor)
        if tensor.requires_grad or (known is not None and self.trace.nodes[known.node].note):
            self.trace.exits.append(Exit(self.edge(tensor).node, "item()", line_at(*caller())))

    # -- backward ----------------------------------------------------------------------------------

    @contextmanager
    def _around_backward(self, call: private.BackwardCall) -> Iterator[None]:
        end_failed_steps(self.stepping)
        inside = any(private.is_transformed(output) for output in call.outputs)
        if self._silent or inside or threading.get_ident() != self.thread:
            yield  # `torch.func.grad` runs ordinary operations, which are recorded as such
            return
        if any(private.is_transformed(seed) for seed in call.seeds):
            with self.silence():  # several passes batched into one cannot be told apart
                yield
            return
        with self.graph.watched(call):
            yield
