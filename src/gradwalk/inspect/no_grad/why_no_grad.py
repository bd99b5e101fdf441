"""why_no_grad: the first cut between a parameter and the loss, if its gradient is None or zero."""

from __future__ import annotations

from collections import deque
from typing import Any

import numpy as np

from gradwalk.engine.errors import AutogradError
from gradwalk.graph.order import inputs_first
from gradwalk.graph.source import SourceLine
from gradwalk.inspect.no_grad.answer import Cut, WhyNoGrad
from gradwalk.inspect.no_grad.cuts import (
    Cause,
    all_zero,
    closed,
    is_flat,
    vanished,
)
from gradwalk.inspect.no_grad.look_alikes import came_back, stand_ins
from gradwalk.inspect.report import short
from gradwalk.inspect.trace.array_statistics import Statistics
from gradwalk.inspect.trace.from_graph import _add
from gradwalk.inspect.trace.live import gradient_of, guest, is_tensor, is_torch_tensor
from gradwalk.inspect.trace.recorder import Recorder, as_trace, current
from gradwalk.inspect.trace.replay import is_array
from gradwalk.inspect.trace.routes import group_name, leading_to, reached, steps_at, way
from gradwalk.inspect.trace.trace import Exit, Trace, TraceNode


def why_no_grad(p: Any, second: Any = None) -> WhyNoGrad:
    """Say why the gradient of `p` is None or zero: the first cut on the way to the loss.

    `second` is the loss or a trace; inside or after `with record():` it is optional. An unrecorded
    loss can only show that no path leads to `p`: the lines of a detach() or no_grad() are not in
    its graph.

    >>> import gradwalk as gw
    >>> w = gw.tensor([1.0, 2.0], requires_grad=True)
    >>> v = gw.tensor([3.0, 4.0], requires_grad=True)
    >>> with gw.record():
    ...     loss = (w.detach() * v).sum()
    ...     loss.backward()
    >>> answer = gw.why_no_grad(w)
    >>> answer.verdict, answer.kind, answer.op
    ('none', 'detach', 'detach')
    """
    trace, root, known = _trace_and_root(second)
    index = trace.find(p) if isinstance(p, (int, str, TraceNode)) else trace.lookup(p)
    return _Search(trace, root, p, index, known).answer()


RECORDED, GRAPH, USED_UP = "recorded", "graph", "used up"  # how much is known: cuts, numbers, ways


def _trace_and_root(second: Any) -> tuple[Trace, int, str]:
    """The trace to read, the node of the loss, and how much is known."""
    if second is None or isinstance(second, Trace):
        trace = as_trace(second)
        return trace, trace.root, GRAPH if trace.scalar else RECORDED
    known = current()
    if known is not None:
        root = known.lookup(second)
        if root is not None:
            return known, root, GRAPH if known.scalar else RECORDED
    try:
        trace = as_trace(second)
    except AutogradError:  # backward has freed what the graph saved; its shape is still there
        trace = _structure(second)
        return trace, trace.root, USED_UP
    return trace, trace.root, GRAPH


def _structure(root: Any) -> Trace:
    """The operations behind a tensor, without values."""
    if is_torch_tensor(root):
        trace: Trace = guest().structure_of(root)
        return trace
    recorder = Recorder("stats")
    for node in inputs_first([root.grad_fn or root]):
        _add(recorder.trace, recorder, node)
    recorder.trace._alive.append(root)
    return recorder.trace


class _Search:
    """One question, and the walk from the parameter towards the loss."""

    def __init__(self, trace: Trace, root: int, p: Any, index: int | None, known: str) -> None:
        self.trace = trace
        self.root = root
        self.index = index
        self.known = known
        self.live: Any = None if isinstance(p, (int, str, TraceNode)) else p
        self.output = trace.output(self.live)
        self.leading = leading_to(trace, [root])
        self.is_foreign = is_torch_tensor(self.live)
        self.recording = f"`with gradwalk{'.torch' * self.is_foreign}.record():`"
        self.name = self._name()

    def _name(self) -> str:
        if self.index is not None:
            return self.trace.name(self.index)
        named = guest().name_of(self.live) if self.is_foreign else getattr(self.live, "label", "")
        return str(named) or f"this {type(self.live).__name__}"

    # -- the answer --------------------------------------------------------------------------------

    def answer(self) -> WhyNoGrad:
        index = self.index
        if index is None:
            return self._not_there()
        node = self.trace.nodes[index]
        grad = self._gradient(index)
        if grad is not None and not self.trace.sweeps and not self._is_open(index):
            answer = self._without(node, None)
            answer.suspects.append("its .grad comes from another backward pass.")
            return answer
        return self._without(node, grad)

    def _without(self, node: TraceNode, grad: Any) -> WhyNoGrad:
        """The answer for this gradient."""
        index = node.index
        if grad is not None and not all_zero(grad):
            return self._flows(node, grad)
        if not node.needs_grad:
            return self._asks_for_none(node)
        if index not in self.leading:
            return self._unused(node)
        if grad is None:
            cuts = self._cuts(index, zeros=False)
            return self._report("none", cuts) if cuts else self._whole(node)
        cuts = self._cuts(index, zeros=True)
        return self._report("zero", cuts) if cuts else self._freed()

    def _gradient(self, index: int) -> Any:
        """What arrived in the last backward pass; if there was none, what the tensor holds."""
        if self.trace.sweeps:
            return self.trace.sweep.grad(index, self.output)
        return gradient_of(self.live)

    def _about(self, kind: str, reason: str, fix: str, verdict: str = "none") -> WhyNoGrad:
        node = None if self.index is None else self.trace.nodes[self.index]
        line = getattr(self.live, "line", None) if node is None else node.line
        return WhyNoGrad(
            name=self.name,
            verdict=verdict,
            kind=kind,
            reason=reason,
            fix=fix,
            node=self.index,
            op="" if node is None else node.op,
            line=line,
            scalar=self.trace.scalar,
        )

    def _report(self, verdict: str, cuts: list[Cut]) -> WhyNoGrad:
        first, *others = cuts
        about = {**vars(first), "name": self.name}
        return WhyNoGrad(**about, verdict=verdict, others=others, scalar=self.trace.scalar)

    def _flows(self, node: TraceNode, grad: Any) -> WhyNoGrad:
        known = Statistics.of(grad)
        zeros = f", {known.zeros} of {known.count} elements are 0" if known.count > 1 else ""
        answer = self._about("", f"its norm is {short(known.norm)}{zeros}.", "", "flows")
        answer.line = None
        live = self.live
        if is_tensor(live) and gradient_of(live) is None and self.trace.sweeps:
            if not live.is_leaf or (live.requires_grad and not self.trace.unrecorded):
                return self._not_kept(node, f"a gradient arrived (norm {short(known.norm)})")
            if live.requires_grad:
                answer.reason += " Its .grad is None because backward() has not been called."
        return answer

    def _asks_for_none(self, node: TraceNode) -> WhyNoGrad:
        """`p` itself requires no gradient."""
        if node.note or not node.is_leaf:
            nodes = self.trace.nodes
            wanted = (position for position, edge in node.edges if nodes[edge.node].needs_grad)
            position = next(wanted, None)
            cause = None if position is None else closed(self.trace, node, position)
            if cause is not None:
                return self._report("none", [self._cut(cause, node.index, [node.index])])
            sources = ", ".join(sorted({self.trace.name(i) for i in node.inputs})[:4])
            return self._about(
                "no gradient below",
                f"it is computed from {sources}, and none of these needs a gradient.",
                "make what is to be learned with requires_grad=True before it is used.",
            )
        if "float" not in node.metas[0][1]:
            return self._about(
                "integer leaf",
                f"it holds {node.metas[0][1]}, and integers have no derivative.",
                "make it with a float dtype, if it is to be learned.",
            )
        late = getattr(self.live, "requires_grad", False)
        return self._about(
            "requires_grad",
            "it needed no gradient when it was used; requires_grad was set later."
            if late
            else "its requires_grad is False.",
            "set requires_grad before the forward pass."
            if late
            else "make it with requires_grad=True (as nn.Parameter inside a Module), or call "
            "requires_grad_() before the forward pass.",
        )

    def _whole(self, node: TraceNode) -> WhyNoGrad:
        """Nothing arrived, although there is no cut."""
        if self.known == USED_UP and is_tensor(self.live):
            return self._not_kept(node, "backward() has been called")
        if not self.trace.sweeps:
            loss = self.trace.nodes[self.root]
            if not loss.needs_grad and loss.index != node.index:
                return self._about("no graph", "the loss needs no gradient.", "")
            return self._about(
                "no backward",
                "the path to the loss is unbroken, and no backward pass was recorded.",
                "call loss.backward(), inside the recording if there is one.",
            )
        return self._about(
            "not asked for",
            "the path to the loss is unbroken, but the backward pass went only to other tensors, "
            "or started elsewhere.",
            "name it in inputs=, or call backward() of this loss without inputs.",
        )

    def _not_kept(self, node: TraceNode, arrived: str) -> WhyNoGrad:
        """Something arrived, but there is no .grad."""
        if not self.live.is_leaf:
            return self._about(
                "not a leaf",
                f"{arrived}, but it is the result of {node.op or 'an operation'}, and only leaves "
                "keep what arrives in .grad.",
                "call retain_grad() on it before backward(). If it was meant to be a parameter, "
                "its name was bound to a result (w = w - ...): update it in place inside no_grad() "
                "instead.",
            )
        asked = ", or only those of other tensors were asked for" * (self.known == USED_UP)
        return self._about(
            "cleared",
            f"{arrived}, and the gradient was cleared since{asked}.",
            "read .grad before zero_grad(), or before grad = None.",
        )

    def _is_open(self, start: int) -> bool:
        """Whether gradients can pass along some path to the loss."""

        def opens(consumer: int, position: int) -> bool:
            return closed(self.trace, self.trace.nodes[consumer], position) is None

        is_connected = self.root in reached(self.trace, start, opens)
        return is_connected and self.trace.nodes[self.root].needs_grad

    def _freed(self) -> WhyNoGrad:
        return self._about(
            "unknown",
            "backward has freed the values of this graph, so the cut is unknown.",
            f"compute inside {self.recording}, or backward(retain_graph=True).",
            verdict="zero",
        )

    # -- no way to the loss ------------------------------------------------------------------------

    def _not_there(self) -> WhyNoGrad:
        """`p` is not in the trace."""
        root = self.trace.nodes[self.root]
        if root.is_leaf and not root.needs_grad:
            return self._about(
                "no graph",
                "the loss itself needs no gradient: nothing behind it was recorded.",
                f"compute the loss inside {self.recording} and ask again, to see the line.",
            )
        answer = self._about(
            "unused",
            "the loss is computed without it.",
            "use it in the computation of the loss.",
        )
        if self.trace.scalar:
            answer.fix += " Its .data and float(...) are plain numbers and carry no gradient."
        elif self.known != RECORDED:
            answer.fix += (
                f" If you think it is: compute inside {self.recording} and ask again, "
                "which also shows a detach() or no_grad()."
            )
        if is_tensor(self.live) and not self.live.requires_grad:
            answer.kind = "requires_grad"
            answer.reason = (
                "its requires_grad is False, and a graph holds only what needs a gradient."
                if self.known != RECORDED
                else "the loss is computed without it, and its requires_grad is False as well."
            )
        return self._with_suspects(answer)

    def _with_suspects(self, answer: WhyNoGrad) -> WhyNoGrad:
        if self.live is not None:
            answer.suspects = stand_ins(self.trace, self.live, self.leading)
        return answer

    def _unused(self, node: TraceNode) -> WhyNoGrad:
        """`p` is in the trace, but no path leads to the loss."""
        came = reached(self.trace, node.index)
        for exit in (e for e in self.trace.exits if e.node in came):
            back = came_back(self.trace, exit, self.leading)
            return self._left(exit, back, way(came, exit.node))
        answer = self._about(
            "unused", "no operation uses it.", "use it in the computation of the loss."
        )
        last = max(came)
        if last != node.index:
            end = self.trace.nodes[last]
            if end.op == "detach":  # what follows is not recorded, as numpy() is not
                left = Exit(end.inputs[0], "detach()", end.line)
                back = came_back(self.trace, left, self.leading)
                return self._left(left, back, way(came, last))
            answer.path = steps_at(self.trace, way(came, last))
            answer.reason = (
                f"it goes into {self.trace.name(last)}"
                + ("" if end.line is None else f" ({end.line})")
                + ", and the loss is computed without that."
            )
            answer.fix = f"use the result of {end.op} in the loss."
        return self._with_suspects(answer)

    def _left(self, exit: Any, back: TraceNode | None, path: list[int]) -> WhyNoGrad:
        name = self.trace.name(exit.node)
        reason = f"{name} leaves the graph here ({exit.how}): plain numbers carry no gradient."
        fix = f"go on with the tensor {name} itself instead of {exit.how}."
        if exit.how == "bool()":
            reason = f"{name} only decides which branch runs, and a choice has no derivative."
            fix = "compute both branches: where(condition, a, b), or a smooth weight."
        answer = self._about("left the graph", reason, fix)
        answer.line = exit.line
        answer.node, answer.op = exit.node, self.trace.nodes[exit.node].op
        answer.path = steps_at(self.trace, path)
        if back is not None:
            at = "" if back.line is None else f" at {back.line}"
            what = "a new leaf made" if back.is_leaf else f"an operand of {back.op}"
            answer.suspects = [f"the same numbers come back as {what}{at}."]
            answer.beyond = steps_at(self.trace, [back.index, *self._onward(back.index)])
        return answer

    # -- the walk ----------------------------------------------------------------------------------

    def _cuts(self, start: int, zeros: bool) -> list[Cut]:
        """The first cut on every path from `start` to the loss, nearest first.

        For a zero gradient, paths that pass nothing at all come last.
        """
        came: dict[int, int | None] = {start: None}
        waiting = deque([start])
        cuts: dict[int, Cut] = {}
        shut: dict[int, Cut] = {}
        while waiting:
            index = waiting.popleft()
            if zeros:
                cause = self._lost_on_arrival(index)
                if cause is not None:
                    cuts[index] = self._cut(cause, index, way(came, index))
                    continue
            for consumer, position in self.trace.consumers[index]:
                node = self.trace.nodes[consumer]
                edge = node.args[position]
                if consumer not in self.leading or (index == start and edge.output != self.output):
                    continue
                cause, onward = closed(self.trace, node, position), False
                place = shut if cause is not None else cuts
                if cause is None:
                    cause, onward = self._passes(node, position) if zeros else (None, True)
                if cause is not None:
                    path = way(came, index) if cause.before else [*way(came, index), consumer]
                    if path[-1] not in place:
                        place[path[-1]] = self._cut(cause, path[-1], path)
                if onward and consumer not in came:
                    came[consumer] = index
                    waiting.append(consumer)
        # What a straight-through estimator detaches is meant; any other cut is a better answer.
        return sorted(
            [*cuts.values(), *shut.values()], key=lambda cut: cut.kind == "straight-through"
        )

    def _lost_on_arrival(self, index: int) -> Cause | None:
        """Whether a node with gradient 0 fails to pass on what arrives."""
        if not self.trace.sweeps:
            return None
        sweep = self.trace.sweep
        if any(edge.node == index and all_zero(seed) for edge, seed in sweep.seeds.items()):
            return Cause(
                "zero seed",
                "the backward pass started with a gradient of 0.",
                "look at the gradient= that backward() was given.",
            )
        arriving = [
            (consumer, sweep.pushed[consumer][position])
            for consumer, position in self.trace.consumers[index]
            if position < len(sweep.pushed.get(consumer, ()))
        ]
        parts = [(c, part) for c, part in arriving if part is not None and not all_zero(part)]
        if not parts:
            return None
        total = sum(np.asarray(part) for _, part in parts if is_array(part))
        if np.any(total):
            return Cause(
                "hook",
                "what arrives is not 0, but a hook (register_hook) replaces it by 0.",
                "look at what the hook returns.",
            )
        names = " and ".join(dict.fromkeys(self.trace.name(c) for c, _ in parts[:4]))
        return Cause(
            "cancelled",
            f"what arrives from {names} adds up to exactly 0: the contributions cancel.",
            "is it used with opposite signs (x - x), so that the loss does not depend on it?",
            at=parts[0][0],
        )

    def _passes(self, node: TraceNode, position: int) -> tuple[Cause | None, bool]:
        """Whether the zeros arise here, and whether zeros also arrive."""
        if not self.trace.sweeps:  # without numbers, only what is flat everywhere can be told
            cause = vanished(self.trace, node, position)
            return (cause, False) if cause.kind == "flat" else (None, True)
        pushed = self.trace.sweep.pushed.get(node.index, ())
        if position >= len(pushed):
            return None, True
        if not all_zero(pushed[position]):
            return None, False
        grads = self.trace.sweep.grads.get(node.index, [])
        if all(g is None or all_zero(g) for g in grads):
            flat = is_flat(self.trace, node, position)
            return vanished(self.trace, node, position) if flat else None, True
        return vanished(self.trace, node, position), False

    def _cut(self, cause: Cause, index: int, path: list[int]) -> Cut:
        node = self.trace.nodes[index]
        return Cut(
            name=self.trace.name(index),
            kind=cause.kind,
            reason=cause.reason,
            fix=cause.fix,
            node=index,
            op=node.op,
            layer=group_name(self.trace, index),
            line=self._line(cause, node),
            passing=cause.passing,
            path=steps_at(self.trace, path),
            beyond=steps_at(self.trace, self._onward(index)),
        )

    def _line(self, cause: Cause, node: TraceNode) -> SourceLine | None:
        """The line to show: of a no_grad() block the line that begins it."""
        if cause.kind == "no_grad" and node.block is not None:
            return node.block
        return node.line if cause.at is None else self.trace.nodes[cause.at].line

    def _onward(self, index: int) -> list[int]:
        """The shortest path from a node to the loss, without the node itself."""
        came = reached(self.trace, index, lambda consumer, _: consumer in self.leading)
        return way(came, self.root)[1:] if self.root in came else []
