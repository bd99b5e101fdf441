"""record: a trace of what happens inside `with record():`."""

from __future__ import annotations

import sys
import threading
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from time import perf_counter
from types import SimpleNamespace
from typing import Any

import numpy as np

from gradwalk.engine.modes import state, switch
from gradwalk.graph.source import caller, own_files, source_line, watched, where_text
from gradwalk.graph.versions import owner_of, stamp_of
from gradwalk.inspect.trace.array_statistics import NormAndCount, Statistics
from gradwalk.inspect.trace.from_values import (
    ValueWriter,
    only_one_kind,
    take_labels,
    trace_of_values,
)
from gradwalk.inspect.trace.live import guest, is_torch_tensor
from gradwalk.inspect.trace.no_grad_block import no_grad_block
from gradwalk.inspect.trace.saved_for_backward import Holdings
from gradwalk.inspect.trace.trace import Edge, Exit, Group, Kept, Sweep, Trace, TraceNode, key_of
from gradwalk.ops import TABLE
from gradwalk.ops.core.op import Op

AUTOMATIC = 64 << 20  # bytes: the default budget
KEEPS = ("all", "values", "stats")


class _Here(threading.local):
    """The traces of this thread: those in progress, and the last finished one."""

    def __init__(self) -> None:
        self.active: list[Recorder] = []
        self.last: Trace | None = None
        self.asked: Trace | None = None  # made for a tool from an unrecorded loss


_here = _Here()


def record(
    root: Any = None,
    *,
    keep: str | None = None,
    budget: int | None = None,
    timing: bool = False,
) -> Any:
    """Record a computation and its backward passes.

    As a context manager it records what happens inside the block. `keep` says what to keep of each
    tensor: "all" (value, gradient, what each edge carried), "values" (value and gradient) or
    "stats"; the default keeps all up to 64 MiB and then statistics. `budget` limits the bytes of
    kept arrays; `trace.reduced` lists what did not fit. `timing` also records how long each
    operation and each visit took (see `saved_memory`).

    Given a Value or a Tensor, it records the existing graph behind it.

    >>> import gradwalk as gw
    >>> x = gw.tensor([1.0, 2.0], requires_grad=True)
    >>> with gw.record() as trace:
    ...     (x * x).sum().backward()
    >>> trace.grad(x)
    array([2., 4.], dtype=float32)
    """
    if root is None:
        return Recorder(keep, budget, timing)
    _here.last = _trace_of(root, keep, budget)
    return _here.last


def _trace_of(root: Any, keep: str | None = None, budget: int | None = None) -> Trace:
    if hasattr(root, "_array"):
        from gradwalk.inspect.trace.from_graph import from_graph

        return from_graph(root, Recorder(keep, budget))
    if hasattr(root, "_backward"):
        return trace_of_values(root)
    if is_torch_tensor(root):
        trace: Trace = guest().trace_of(root, keep, budget)
        return trace
    raise TypeError(f"record takes a Value or a Tensor, not {type(root).__name__}")


def current() -> Trace | None:
    """The trace being recorded in this thread, else the last finished one."""
    if _here.active:
        _here.active[-1].take_labels()
        return _here.active[-1].trace
    if _here.last is not None and _here.last.scalar:
        take_labels(_here.last)
    return _here.last


def last_finished() -> Trace | None:
    """The recording that ended last in this thread."""
    return _here.last


def as_trace(second: Any = None) -> Trace:
    """The trace for a tool to read: given, made from a loss, or the current one."""
    if isinstance(second, Trace):
        return second
    if second is not None:
        for known in (current(), _here.asked):
            # Trace an unrecorded graph of Values anew: its numbers may have changed.
            fresh = known is not None and known.sweeps and not (known.scalar and known.unrecorded)
            if known is not None and fresh and known.lookup(second) == known.root:
                return known
        # Apart from `last`: a question about another loss does not replace the recording.
        _here.asked = _trace_of(second)
        return _here.asked
    known = current()
    if known is None:
        raise ValueError(
            "no computation is given. Fix: pass the loss or a trace as second argument, or "
            "compute inside `with gradwalk.record():`"
        )
    return known


def light_trace(second: Any, gradients_at: Collection[str] = ()) -> Trace:
    """As `as_trace`, but without copying the arrays of an unrecorded graph.

    For tools that read the trace at once and drop it.
    """
    if not hasattr(second, "_array"):
        if second is None or hasattr(second, "_backward") or is_torch_tensor(second):
            return as_trace(second)
        if not isinstance(second, Trace):
            raise TypeError(f"a loss (a Tensor) or a trace is needed, not {type(second).__name__}")
        return second
    known = current()
    if known is not None and known.sweeps and known.lookup(second) == known.root:
        return known
    from gradwalk.inspect.trace.from_graph import from_graph

    return from_graph(second, LightRecorder(gradients_at))


@contextmanager
def scope(name: str) -> Iterator[None]:
    """Name a part of a computation: what happens inside is one group in a recording.

    It works for Tensors and Values. Without a recording it does nothing: `record(loss)` of an
    existing graph cannot know its scopes.

    >>> import gradwalk as gw
    >>> with gw.record() as trace, gw.scope("first"):
    ...     y = gw.ones(2, requires_grad=True) * 3
    >>> trace[y].group, trace.groups[0].path
    (0, 'first')
    """
    watcher = state.here.watcher
    if watcher is None:
        yield
        return
    watcher.entered(str(name), "scope")
    try:
        yield
    finally:
        watcher.left()


class Recorder:
    """Listen to the engine (engine/modes.py: `watcher`) and write a trace."""

    def __init__(
        self, keep: str | None = None, budget: int | None = None, timing: bool = False
    ) -> None:
        if keep not in (None, *KEEPS):
            raise ValueError(f"keep is one of {', '.join(map(repr, KEEPS))}, not {keep!r}")
        if budget is not None and (not isinstance(budget, int | np.integer) or budget < 0):
            raise ValueError(f"budget is a number of bytes, not {budget!r}")
        self.trace = Trace()
        self.holdings = Holdings(self.trace)
        self.values = ValueWriter(self.trace)
        self.timing = timing
        self._began = self._took = self._mark = 0.0
        self.keep = keep or "all"
        self.budget = budget if budget is not None else AUTOMATIC if keep is None else None
        self._outer: Any = None
        # nodes, and objects that may still get a label
        self._unnamed: list[tuple[TraceNode, Any]] = []
        self._stack: list[int | None] = []  # open groups
        self._calls: dict[str, int] = {}
        self._module_names: dict[int, str] = {}
        self._sweep: Sweep | None = None
        self._of_second_order = False
        self._versions: dict[int, tuple[int, int]] = {}  # leaves -> their version when recorded

    def __enter__(self) -> Trace:
        self._outer = state.here.watcher
        switch(watcher=self)
        _here.active.append(self)
        watched(1)
        return self.trace

    def __exit__(self, *error: Any) -> None:
        watched(-1)
        inner = next((other for other in _here.active if other._outer is self), None)
        if inner is None:
            switch(watcher=self._outer)
        else:  # it goes on: a tool that observes a program ends before the program's own recording
            inner._outer = self._outer
        _here.active.remove(self)
        _here.last = self.trace
        self.take_labels()
        self.holdings.note_regions()

    def take_labels(self) -> None:
        """Update labels set after an operation was recorded: `h = x @ w; h.label = "h"`."""
        if self.trace.scalar:
            take_labels(self.trace)
        for node, owner in self._unnamed:
            node.label = node.label or getattr(owner, "label", "")

    # -- what is kept ------------------------------------------------------------------------------

    def _kept(self, array: Any, what: str, index: int) -> Kept:
        """A copy of the array if it fits the budget, else its statistics."""
        if type(array) is not np.ndarray:
            array = getattr(array, "_array", array)
            if array is None:
                return None
            array = np.asarray(array)
        allowed = self.keep == "all" or (self.keep == "values" and what != "pushed")
        room = self.budget is None or self.trace.bytes_kept + array.nbytes <= self.budget
        if allowed and room:
            self.trace.bytes_kept += array.nbytes
            return array.copy()
        if allowed:
            self.trace.reduced.setdefault(what, []).append(index)
        return Statistics.of(array)

    # -- forward -----------------------------------------------------------------------------------

    def began(self) -> None:
        """Note that an operation begins."""
        if self.timing:
            self._began = perf_counter()

    def operands(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        """Edges to the nodes of the operands; unknown operands become leaves."""
        if self._began:
            self._took, self._began = perf_counter() - self._began, 0.0
        if self._passes_by:
            return args
        return tuple(self._edge(a) if hasattr(a, "_array") else a for a in args)

    def _edge(self, tensor: Any) -> Edge:
        key = key_of(tensor)
        node = self.trace._index.get(key)
        if node is None:
            node = self._leaf(tensor, key)
        elif node in self._versions and self._versions[node] != _version(tensor._array):
            # Updated since it was recorded: from here on it is another leaf.
            stamp = stamp_of(tensor._array)
            before, node = node, self._leaf(tensor, key)
            self.trace._earlier[node] = before
            if stamp is not None:
                changed = where_text(stamp.code, stamp.position)
                self.trace.nodes[node].attrs["changed_at"] = changed
        return Edge(node, self.trace.output(tensor))

    def _leaf(self, tensor: Any, key: Any) -> int:
        """Add a leaf for a constant or a tensor made before the recording."""
        node = tensor._node
        owner = tensor if node is None else node
        array = tensor._array
        metas = ((array.shape, str(array.dtype)),)
        made = TraceNode(
            index=0,
            op="",
            label=tensor.label,
            group=self._group,
            line=source_line(owner.code, owner.position),
            needs_grad=tensor.requires_grad,
            metas=metas * (tensor._index + 1),
        )
        index = self.trace.add(made, key, *(((id(node), 0),) if node is not None else ()))
        self.trace._outputs.pop(key, None)
        self.trace._alive.append(owner)
        made.values = [None] * tensor._index + [self._kept(array, "values", index)]
        self._versions[index] = _version(array)
        self.holdings.note_memory(Edge(index, tensor._index), array)
        name = self._module_names.get(id(tensor))
        if name:
            self.trace.names[index] = name
        return index

    def made(
        self,
        op: Any,
        args: tuple[Any, ...],
        attrs: dict[str, Any],
        outputs: tuple[Any, ...],
        code: Any,
        position: int,
        note: str = "",
    ) -> None:
        """Record a finished operation; `args` are the result of `operands`."""
        if self._passes_by:
            return
        first = outputs[0]
        # A leaf updated in place inside no_grad() stays the same leaf: its gradient belongs to the
        # old elements. A later use records another leaf (see `_edge`).
        updated = any(o._node is None and o._requires_grad for o in outputs) and not note
        needs = not updated and any(o._node is not None or o._requires_grad for o in outputs)
        wanted = any(isinstance(a, Edge) and self.trace.nodes[a.node].needs_grad for a in args)
        if wanted and not needs and not note:
            note = "no_grad" if not state.here.grad_enabled else "not differentiable"
        node = TraceNode(
            index=0,
            op=op.name,
            args=args,
            attrs=attrs,
            label=first.label,
            group=self._group,
            line=source_line(code, position),
            needs_grad=needs,
            metas=tuple((o._array.shape, str(o._array.dtype)) for o in outputs),
            note=note,
            defined=op if isinstance(op, Op) and op.name not in TABLE else None,
        )
        if note == "no_grad":
            node.block = no_grad_block(sys._getframe(1), own_files.__getitem__)
        index = self.trace.add(node, *(() if updated else (key_of(o) for o in outputs)))
        node.values = [self._kept(o, "values", index) for o in outputs]
        self.trace._alive += [o if o._node is None else o._node for o in outputs]
        if not node.label:
            self._unnamed.append((node, first if first._node is None else first._node))
        for k, output in enumerate(outputs):
            self.holdings.note_memory(Edge(index, k), output._array)
            if output._node is None:
                self.trace._outputs[key_of(output)] = k
        self.holdings.note(index, next((o._node for o in outputs if o._node is not None), None))
        if self._took:
            self.trace.seconds[index], self._took = self._took, 0.0

    @property
    def _computing_again(self) -> bool:
        """Whether backward recomputes a checkpointed region, which the trace already has."""
        return self._sweep is not None and not self._of_second_order

    @property
    def _passes_by(self) -> bool:
        """Whether this trace ignores an operation on tensors."""
        if self.trace.scalar:
            only_one_kind("Values", "Tensors")
        return self._computing_again or self.trace.scalar

    def detached(self, source: Any, result: Any, note: str = "detach") -> None:
        """Record `detach()`, `.data` or `tensor(x)`: the same values without a gradient."""
        self.made(_DETACH, self.operands((source,)), {}, (result,), *caller(), note=note)

    def taken_out(self, tensor: Any, how: str) -> None:
        """Record that a value left the graph: `item()`, `numpy()`, `if x:`, ..."""
        if self.trace.scalar:
            return
        known = self.trace.lookup(tensor)
        if tensor.requires_grad or (known is not None and self.trace.nodes[known].note):
            line = source_line(*caller())
            self.trace.exits.append(Exit(self._edge(tensor).node, how, line))

    # -- Values ------------------------------------------------------------------------------------

    def made_value(self, v: Any) -> None:
        """Record an operation on Values."""
        self.values.made(v, self._group)

    def swept_values(self, root: Any) -> None:
        """Record the finished `backward()` of a Value."""
        self.values.swept(root, self._group)

    @property
    def _group(self) -> int | None:
        """The innermost open group."""
        return self._stack[-1] if self._stack else None

    # -- groups ------------------------------------------------------------------------------------

    def entered(self, path: str, kind: str, class_name: str = "") -> None:
        """Open a group for a module call or a scope."""
        above = self._group
        if self._computing_again:
            self._stack.append(above)
            return
        self._calls[path] = call = self._calls.get(path, 0) + 1
        self._stack.append(len(self.trace.groups))
        self.trace.groups.append(Group(path, kind, call, above, class_name))

    def entered_module(self, module: Any) -> None:
        """Open a group for a module call; the outermost module determines all names."""
        if id(module) not in self._module_names:
            self._name_parts(module)
        self.entered(self._module_names[id(module)], "module", type(module).__name__)

    def _name_parts(self, module: Any) -> None:
        self.trace._alive.append(module)
        for name, inner in module.named_modules():
            self._module_names.setdefault(id(inner), name or type(module).__name__)
        for name, parameter in module.named_parameters():
            self._module_names.setdefault(id(parameter), name)
            index = self.trace.lookup(parameter)
            if index is not None:
                self.trace.names.setdefault(index, name)

    def left(self) -> None:
        """Close the innermost group."""
        self._stack.pop()

    # -- backward ----------------------------------------------------------------------------------

    def sweeping(self, roots: list[tuple[Any, int, Any]], create_graph: bool = False) -> None:
        """Begin a sweep at these (node, output, seed)."""
        self._of_second_order = create_graph
        self._sweep = sweep = Sweep(seeds={}, line=source_line(*caller()))
        self.holdings.note_regions()
        for node, output, seed in roots:
            index = self._index_of_graph_node(node, output)
            if index is not None:
                sweep.seeds[Edge(index, output)] = self._kept(seed, "grads", index)
        self._mark = perf_counter()

    def _index_of_graph_node(self, node: Any, output: int = 0) -> int | None:
        index = self.trace._index
        return index.get((id(node), output), index.get((id(node), 0)))

    def visited(self, node: Any, g: Any, contributions: Any) -> None:
        """Record the pushes of one visit."""
        took = perf_counter() - self._mark  # since the last event, without our own work
        index = self._index_of_graph_node(node)
        if index is None or self._sweep is None:
            return
        self._sweep.visits.append(index)
        self._note_gradient(index, g)
        # The operands of an in-place write through a view may differ from the node's inputs.
        fits = len(contributions) == len(self.trace.nodes[index].args)
        pushed = [self._kept(c, "pushed", index) for c in (contributions if fits else ())]
        self._sweep.pushed[index] = tuple(pushed)
        if self.timing:
            self._sweep.seconds[index] = took
        self._mark = perf_counter()

    def delivered(self, leaf: Any, g: Any) -> None:
        """Record the gradient of a leaf."""
        index = self._index_of_graph_node(leaf)
        if index is not None:
            self._note_gradient(index, g)
        self._mark = perf_counter()

    def _note_gradient(self, index: int, g: Any) -> None:
        if self._sweep is not None:
            parts = g if isinstance(g, (list, tuple)) else [g]
            self._sweep.grads[index] = [self._kept(part, "grads", index) for part in parts]

    def swept(self) -> None:
        """End the sweep."""
        if self._sweep is not None and self._sweep.seeds:
            self.trace.sweeps.append(self._sweep)
        self._sweep = None


class LightRecorder(Recorder):
    """Reference values, and gradients at some ops ("" for leaves); measure everything else."""

    def __init__(self, gradients_at: Collection[str] = ()) -> None:
        super().__init__()
        self._gradients_at = gradients_at

    def _kept(self, array: Any, what: str, index: int) -> Kept:
        array = getattr(array, "_array", array)
        if array is None:
            return None
        return np.asarray(array) if self._refers(what, index) else NormAndCount.of(array)

    def _refers(self, what: str, index: int) -> bool:
        if what == "grads":
            return self.trace.nodes[index].op in self._gradients_at
        return what == "values"


def _version(array: Any) -> tuple[int, int]:
    """The memory of a tensor and how often it was changed in place."""
    stamp = stamp_of(array)
    return id(owner_of(array)), 0 if stamp is None else stamp.count


_DETACH = SimpleNamespace(name="detach")
