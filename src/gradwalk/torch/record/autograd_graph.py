"""Match PyTorch's autograd graph with the trace, and record what each autograd node received."""

from __future__ import annotations

import functools
import weakref
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from functools import partial
from time import perf_counter
from typing import Any

import numpy as np
import torch

from gradwalk.graph.source import SourceLine
from gradwalk.inspect.trace.trace import Edge, Kept, Sweep, TraceNode
from gradwalk.ops import TABLE
from gradwalk.torch import private
from gradwalk.torch.record.freed_graphs import explain_freed, note_pass
from gradwalk.torch.record.live_tensors import fits, without_backward
from gradwalk.torch.record.operations import plain_name, version_of
from gradwalk.torch.record.storages import Memories
from gradwalk.torch.translate.shapes import placed_within
from gradwalk.torch.user_lines import caller, line_at
from gradwalk.torch.values import form, form_of

LEAF = "AccumulateGrad"
_UNKNOWN_META = ((), "float32")  # for an output without a gradient
_READ_AGAIN = frozenset(("read_view", "as_strided"))  # views whose base was written to
GEOMETRY = ("size", "stride", "storage_offset")


class AutogradGraph:
    """Find the trace node of each autograd node; make one where no operation accounts for it."""

    def __init__(self, recorder: Any) -> None:
        self.recorder = recorder
        self.trace = recorder.trace
        self.memories = Memories(self.trace)
        self._key = object()  # metadata key: the trace index of an autograd node
        # Operations whose autograd node is not known yet: trace node and name. Sequence numbers
        # are per thread.
        self._by_number: dict[int, list[tuple[int, str]]] = {}
        # Arrays pushed along edges, by tensor: a weak reference, its version then, the array.
        self._carried: dict[int, tuple[Any, int, Any]] = {}
        self._outputs: dict[tuple[int, int], int] = {}  # (node, PyTorch's output) -> the trace's
        # The views from a tensor to the part of it that a node has changed.
        self._chains: dict[int, tuple[Any, ...]] = {}

    # -- which node is which -----------------------------------------------------------------------

    def belongs(self, number: int, index: int, name: str) -> None:
        """Match an operation, node `index` of the trace, with this autograd node."""
        self._by_number.setdefault(number, []).append((index, name))

    def node(self, grad_fn: Any) -> int | None:
        """The trace's node of an autograd node."""
        if is_leaf(grad_fn):
            entry = self.recorder._entry(grad_fn.variable)
            return None if entry is None else entry.edge.node
        borne = private.mark(grad_fn)
        index: int | None = borne.get(self._key)
        if index is None:
            index = self._claimed(grad_fn, private.number_of(grad_fn))
            if index is None:
                index = self._claimed(grad_fn, _last_made_for(grad_fn))
            if index is not None:
                borne[self._key] = index
        return index

    def _claimed(self, grad_fn: Any, number: int) -> int | None:
        """Match the autograd node with an operation noted under this number, if one fits."""
        for made in self._by_number.get(number, ()):
            if fits(made[1], grad_fn):
                self._by_number[number].remove(made)
                return made[0]
        return None

    def line_of(self, grad_fn: Any) -> SourceLine | None:
        """The line of an operation that this recording saw."""
        index = None if is_leaf(grad_fn) else self.node(grad_fn)
        return None if index is None else self.trace.nodes[index].line

    def edge_of(self, tensor: torch.Tensor) -> Edge | None:
        """The trace node and output of a tensor with an autograd node."""
        index = self.node(tensor.grad_fn)
        if index is None:
            return None
        noted = self.recorder.noted_as(tensor)
        if noted is not None and noted.node == index:
            self._outputs[index, tensor.output_nr] = noted.output
        edge = self._edge(index, tensor.output_nr)
        if edge.output >= len(self.trace.nodes[index].metas):  # an output that our op lacks
            self._widen(edge)
            self._fill_in(edge, tensor)
        return edge

    def _widen(self, edge: Edge) -> None:
        """Add an output to a node."""
        node = self.trace.nodes[edge.node]
        missing = edge.output + 1 - len(node.metas)
        node.metas += (_UNKNOWN_META,) * missing
        node.values += [None] * missing
        for sweep in (*self.trace.sweeps, self.recorder._sweep):
            if sweep is not None and edge.node in sweep.grads:
                sweep.grads[edge.node] += [None] * missing

    def _edge(self, index: int, output: int) -> Edge:
        return Edge(index, self._outputs.get((index, output), output))

    def _source(self, grad_fn: Any, output: int) -> Edge | None:
        index = self.node(grad_fn)
        if index is None:
            return None
        return Edge(index) if is_leaf(grad_fn) else self._edge(index, output)

    # -- nodes that no operation accounts for ------------------------------------------------------

    def grown(self, tensor: torch.Tensor) -> Edge:
        """Add the autograd node of a tensor, and all nodes behind it, to the trace."""
        with self.recorder.silence(), private.unseen():
            grad_fn = tensor.grad_fn
            for behind in inputs_first([grad_fn], self.node):
                self._grow(behind, tensor if behind is grad_fn else None)
            index = self.node(grad_fn)
            assert index is not None
            edge = self.edge_of(tensor) or Edge(index)
            self._fill_in(edge, tensor)
            self.recorder.note(tensor, edge)
        return edge

    def _grow(self, grad_fn: Any, tensor: torch.Tensor | None) -> None:
        if is_leaf(grad_fn):
            self.recorder._new_leaf(grad_fn.variable)
            return
        # Operations inside a custom Function, or a write through a view, know the line.
        inside = None if tensor is None else self.recorder.noted_as(tensor)
        twin = self._written_by(grad_fn) if inside is None else self.trace.nodes[inside.node]
        line = line_at(*caller()) if twin is None and tensor is not None else None
        edges = [
            None if source is None else self._source(source, output)
            for source, output in grad_fn.next_functions
        ]
        outputs = private.outputs_of(grad_fn)
        view = None if twin is None else self._through_view(grad_fn, twin, edges, outputs)
        view = view or self._read_by_strides(grad_fn, edges, tensor)
        op, args, attrs = view or (_name(grad_fn), tuple(edges), {})
        node = TraceNode(
            index=0,
            op=op,
            args=args,
            attrs=attrs,
            group=self.recorder._group if twin is None else twin.group,
            line=line if twin is None else twin.line,
            metas=tuple(_UNKNOWN_META if known is None else form(*known) for known in outputs),
            values=[None] * len(outputs),
        )
        index = self.trace.add(node)
        private.mark(grad_fn)[self._key] = index
        self._values_it_saved(grad_fn)

    def _written_by(self, grad_fn: Any) -> TraceNode | None:
        """The operation that wrote through a view: its autograd node is made just before, or before
        that of a copy of the old value."""
        if not grad_fn.name().endswith("CopySlices"):
            return None
        for number in (private.number_of(grad_fn) - 1, private.number_of(grad_fn) - 2):
            made = self._by_number.get(number)
            if not made or self.trace.nodes[made[-1][0]].op != "clone":
                return self.trace.nodes[made[-1][0]] if made else None
        return None

    def _through_view(
        self, grad_fn: Any, twin: TraceNode, edges: list[Edge | None], outputs: Any
    ) -> tuple[str, tuple[Any, ...], dict[str, Any]] | None:
        """A change through a view, or the view after it, as an op: name, operands, attributes."""
        name = operation_name(grad_fn)
        if name == "AsStrided" and twin.index in self._chains:
            return "read_view", tuple(edges), {"chain": self._chains[twin.index]}
        views = [place for place, edge in twin.edges if self._is_view(edge)]
        if name != "CopySlices" or not views or twin.op not in TABLE:
            return None
        edge: Any = twin.args[views[0]]
        chain = []
        while edge != edges[0] and self._is_view(edge):
            made = self.trace.nodes[edge.node]
            chain.append((TABLE[made.op], made.attrs, edge.output))
            edge = made.args[0]
        base = self.trace.nodes[edge.node].metas[edge.output]
        if edges[0] not in (None, edge) or outputs[0] is None or form(*outputs[0]) != base:
            return None
        self._chains[twin.index] = attrs = tuple(reversed(chain))
        if twin.op == "setitem" and twin.attrs["index"] == ("...",):
            return "write_view", (edge, twin.args[1]), {"chain": attrs}
        others = tuple(a for place, a in enumerate(twin.args) if place != views[0])
        own = {"op": twin.op, "place": views[0], "attrs": twin.attrs}
        return "change_view", (edge, *others), {"chain": attrs, **own}

    def _read_by_strides(
        self, grad_fn: Any, edges: list[Edge | None], view: torch.Tensor | None
    ) -> tuple[str, tuple[Any, ...], dict[str, Any]] | None:
        """A view after a write to its base, which PyTorch knows by its place in memory alone."""
        base = None if view is None else view._base
        if operation_name(grad_fn) != "AsStrided" or base is None or edges[0] is None:
            return None
        meta = self.trace.nodes[edges[0].node].metas[edges[0].output]
        attrs = placed_within(base, *(getattr(grad_fn, f"_saved_{n}") for n in GEOMETRY))
        if attrs is None or meta != form_of(base) or view is None or not view.is_floating_point():
            return None
        return "as_strided", tuple(edges), attrs

    def _is_view(self, edge: Edge) -> bool:
        node = self.trace.nodes[edge.node]
        is_view = node.op in TABLE and (TABLE[node.op].view or node.op in _READ_AGAIN)
        return is_view and len(node.edges) == len(node.args) == 1

    def _values_it_saved(self, grad_fn: Any) -> None:
        """Take the tensors that autograd nodes saved as values of trace nodes."""
        for _, saved in saved_tensors(grad_fn):
            if saved.grad_fn is None:
                continue
            index = self.node(saved.grad_fn)
            if index is not None:
                self._fill_in(self._edge(index, saved.output_nr), saved)

    def _fill_in(self, edge: Edge, tensor: torch.Tensor) -> None:
        node = self.trace.nodes[edge.node]
        if edge.output >= len(node.values) or node.values[edge.output] is not None:
            return
        metas = list(node.metas)
        metas[edge.output] = form_of(tensor)
        node.metas = tuple(metas)
        node.values[edge.output] = self.recorder._kept(tensor, "values", edge.node)

    # -- a backward pass ---------------------------------------------------------------------------

    @contextmanager
    def watched(self, call: private.BackwardCall) -> Iterator[None]:
        """Record what each node receives and pushes during a backward pass."""
        recorder = self.recorder
        nested = recorder._sweep is not None
        with recorder.silence(), private.unseen():
            starts = [t for t in call.outputs if isinstance(t, torch.Tensor)]
            roots = [recorder.edge(t) for t in starts]
            sweep = recorder._sweep if nested else Sweep(seeds={}, line=line_at(*caller()))
            if not nested:
                for edge, seed in zip(roots, call.seeds, strict=False):
                    sweep.seeds[edge] = recorder._kept(seed, "grads", edge.node)
            nodes = list(inputs_first([t.grad_fn for t in starts if t.grad_fn is not None]))
            known = {fn: index for fn in nodes if (index := self.node(fn)) is not None}
            if not nested:
                self._note_saved(known)
            hooks = [self._hook(fn, index, sweep, known, nested) for fn, index in known.items()]
        second_order = recorder._of_second_order
        recorder._sweep = sweep
        recorder._of_second_order = call.create_graph
        recorder._mark = perf_counter()
        try:
            with nullcontext() if call.create_graph else recorder.unlistening():
                yield
            self._note_results(call, sweep)
            self._tell_versions_apart(sweep)
            line = sweep.line  # not the sweep: passes are remembered
            note_pass(starts, lambda: line)
        except RuntimeError as error:
            self.memories.explain_overwritten(error, nodes, self.node)
            explain_freed(error, starts, nodes, self.line_of)
            raise
        finally:
            for handle in hooks:
                if handle is not None:
                    handle.remove()
            if not nested:
                recorder._of_second_order = second_order
                self._carried.clear()
                recorder.swept()

    def _hook(
        self, grad_fn: Any, index: int, sweep: Sweep, known: dict[Any, int], only_leaves: bool
    ) -> Any:
        """Listen to an autograd node; None if there is nothing to hear."""
        if is_leaf(grad_fn):
            return grad_fn.register_prehook(partial(self._delivered, index, sweep))
        if only_leaves:  # inside a checkpointed region that PyTorch recomputes as a whole
            return None
        return grad_fn.register_hook(partial(self._visited, grad_fn, index, sweep, known))

    def _delivered(self, index: int, sweep: Sweep, arrived: tuple[Any, ...]) -> None:
        with self.recorder.silence():
            self._add_gradient(index, 0, arrived[0], sweep)
        self.recorder._mark = perf_counter()

    def _add_gradient(self, index: int, output: int, arrived: Any, sweep: Sweep) -> None:
        kept = self._received(arrived, index)
        grads = sweep.grads.setdefault(index, [None] * len(self.trace.nodes[index].metas))
        before = grads[output]
        both = before is not None and isinstance(kept, type(before)) and hasattr(kept, "nbytes")
        grads[output] = before + kept if both else kept

    def _received(self, g: torch.Tensor, index: int) -> Kept:
        """Keep a gradient that a node received: as it was pushed, unless it was added to since."""
        pushed = self._carried.get(id(g))
        if pushed is not None and pushed[0]() is g and pushed[1] == version_of(g):
            return pushed[2]
        return self.recorder._kept(g, "grads", index)

    def _visited(
        self,
        grad_fn: Any,
        index: int,
        sweep: Sweep,
        known: dict[Any, int],
        pushed: tuple[Any, ...],
        received: tuple[Any, ...],
    ) -> None:
        recorder = self.recorder
        took = perf_counter() - recorder._mark  # since the last event, without our own work
        recorder._silent += 1
        try:
            sweep.visits.append(index)
            node = self.trace.nodes[index]
            grads: list[Kept] = [None] * len(node.metas)
            for output, g in enumerate(received):
                place = self._outputs.get((index, output), output)
                if g is not None and place < len(grads):
                    grads[place] = self._received(g, index)
            sweep.grads[index] = grads
            along: list[Kept] = [None] * len(node.args)
            for position, g in zip(self._positions(grad_fn, node, known), pushed, strict=False):
                if position is not None and g is not None:
                    along[position] = kept = recorder._kept(g, "pushed", index)
                    if isinstance(kept, np.ndarray):
                        self._carried[id(g)] = weakref.ref(g), version_of(g), kept
            sweep.pushed[index] = tuple(along)
            if recorder.timing:
                sweep.seconds[index] = took
        finally:
            recorder._silent -= 1
        recorder._mark = perf_counter()

    def _positions(self, grad_fn: Any, node: TraceNode, known: dict[Any, int]) -> list[int | None]:
        """The argument position of each edge of an autograd node."""
        free = node.edges
        positions: list[int | None] = []
        for source, output in grad_fn.next_functions:
            place = None
            index = None if source is None else known.get(source)
            if index is not None:
                output = 0 if is_leaf(source) else self._outputs.get((index, output), output)
                edge = Edge(index, output)
                for k, (position, argument) in enumerate(free):
                    if argument == edge or self._same(argument, edge):
                        place = position
                        del free[k]
                        break
            positions.append(place)
        return positions

    def _same(self, argument: Edge, edge: Edge) -> bool:
        """Whether both are the same operand. A leaf written since has a newer node."""
        at: int | None = edge.node
        while at is not None and at != argument.node:
            at = self.trace._earlier.get(at)
        return at is not None and argument.output == edge.output

    def _note_results(self, call: private.BackwardCall, sweep: Sweep) -> None:
        """Record the gradients that `torch.autograd.grad` returns instead of accumulating."""
        with self.recorder.silence():
            for tensor, g in zip(call.inputs, call.result, strict=False):
                edge = self.recorder.known(tensor) if isinstance(tensor, torch.Tensor) else None
                if edge is not None and g is not None and edge.node not in sweep.grads:
                    self._add_gradient(edge.node, edge.output, g, sweep)

    def _tell_versions_apart(self, sweep: Sweep) -> None:
        """Split the gradient of a leaf written between two uses: it is one leaf in PyTorch and two
        here.
        """
        for index in [i for i in sweep.grads if i in self.trace._earlier]:
            shares: dict[int, Any] = {}
            for user, parts in sweep.pushed.items():
                for position, edge in self.trace.nodes[user].edges:
                    part = parts[position] if position < len(parts) else None
                    if isinstance(part, np.ndarray) and self._same(edge, Edge(index)):
                        shares[edge.node] = shares.get(edge.node, 0) + part
            if len(shares) > 1 or (shares and index not in shares):
                for leaf, share in shares.items():
                    sweep.grads[leaf] = [share]
                if index not in shares:
                    del sweep.grads[index]

    def _note_saved(self, known: dict[Any, int]) -> None:
        for grad_fn, index in known.items():
            if private.saved_names(grad_fn):
                saved = list(saved_tensors(grad_fn, packed=True))
                if all(tensor is not None for _, tensor in saved):
                    self.memories.note_saved(index, saved)
            elif not is_leaf(grad_fn):
                self.trace.saved[index] = ()


_leaves: dict[Any, bool] = {}  # types of autograd nodes


def is_leaf(grad_fn: Any) -> bool:
    """Whether this node accumulates the gradient of a leaf."""
    kind = type(grad_fn)
    known = _leaves.get(kind)
    if known is None:
        known = _leaves[kind] = hasattr(kind, "variable") and LEAF in grad_fn.name()
    return known


def _last_made_for(grad_fn: Any) -> int:
    """The number of the last autograd node that PyTorch made for an operation.

    An operand that is a view of something written since gets a new node, after the operation's.
    """
    sources = (source for source, _ in grad_fn.next_functions if source is not None)
    numbers = (private.number_of(source) for source in sources if not is_leaf(source))
    return max(private.number_of(grad_fn), *numbers, 0)


def inputs_first(roots: list[Any], known: Any = None) -> Iterator[Any]:
    """The autograd nodes behind `roots`, inputs first.

    Nodes in `known`, and the nodes behind them, are skipped.
    """
    seen: set[Any] = set()
    stack = [(node, False) for node in reversed(roots)]
    while stack:
        node, done = stack.pop()
        if done:
            yield node
            continue
        if node in seen or (known is not None and known(node) is not None):
            continue
        seen.add(node)
        stack.append((node, True))
        stack += [(source, False) for source, _ in node.next_functions if source is not None]


def saved_tensors(grad_fn: Any, packed: bool = False) -> Iterator[tuple[str, Any]]:
    """The tensors an autograd node saved, by name, except those freed, overwritten or packed.

    With `packed`, those that are packed are None.
    """
    for name in private.saved_names(grad_fn):
        if private.is_packed(grad_fn, name):
            if packed:
                yield name, None
            continue
        try:
            saved = getattr(grad_fn, name)
        except RuntimeError:
            continue
        several = saved if isinstance(saved, list | tuple) else (saved,)
        for tensor in several:
            if isinstance(tensor, torch.Tensor):
                yield name.removeprefix("_saved_"), tensor


def operation_name(grad_fn: Any) -> str:
    """PyTorch's name of an autograd node: "MySquare", "AsStrided"."""
    return without_backward(str(grad_fn.name()))


# Layers that `health` looks for; their operands or sizes may be unknown.
_PRODUCTS = {
    "Addmm": "addmm", "Mm": "matmul", "Bmm": "matmul", "Mv": "matmul", "Baddbmm": "baddbmm",
    "Convolution": "conv_bias", "Embedding": "embedding",
}  # fmt: skip


def _name(grad_fn: Any) -> str:
    """Our name of the op, if there is one; a custom Function keeps its own."""
    name = operation_name(grad_fn)
    if private.is_custom(grad_fn):
        return f"{name} (Function)" if name in TABLE else name
    return _ours(name)


@functools.cache
def _ours(name: str) -> str:
    """Our op for an autograd node, if its name and edges determine it."""
    for op in TABLE.values():
        alone = op.elementwise and len(op.inputs) == 1 and not op.attributes
        if alone and plain_name(op.name) == plain_name(name):
            return op.name
    return _PRODUCTS.get(name, name)
