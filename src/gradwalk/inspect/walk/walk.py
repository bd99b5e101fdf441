"""Walk: step through a recorded computation, forward and backward, with undo."""

from __future__ import annotations

import bisect
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from gradwalk.inspect.order.path_sums import Amounts, BackwardGraph, over_all_paths
from gradwalk.inspect.order.recipes import consumers_first
from gradwalk.inspect.report import Report, columns, plain
from gradwalk.inspect.trace.recorder import as_trace
from gradwalk.inspect.trace.replay import NotReplayable, is_array
from gradwalk.inspect.trace.routes import leading_to
from gradwalk.inspect.trace.trace import Edge, Kept, Sweep, Trace
from gradwalk.inspect.walk.step import Breakpoint, Complete, Incomplete, Push, WalkStep
from gradwalk.inspect.walk.wording import arrow_down, kept_text, way_down

ROWS = 40  # leaves to print


def walk(loss: Any = None) -> Walk:
    """Step through a computation and its backward pass.

    `loss` is a Value, a Tensor or a trace, also from a file (None: the last recording). First every
    node gets its value, then each pushes its gradient.

    >>> import gradwalk as gw
    >>> a, b = gw.Value(2.0, label="a"), gw.Value(-3.0, label="b")
    >>> e = a * b
    >>> e.label = "e"
    >>> w = walk(e)
    >>> print(w.run_to("b"))
    step 2 of 4, forward: b = −3 (leaf)
    >>> print(w.jump(4))
    step 4 of 4, backward: e = a × b, a swapper, received 1
      to a: g × b = 1 × −3 = −3
      to b: g × a = 1 × 2 = 2
      complete: a = −3; raise it to lower e
      complete: b = 2; lower it to lower e
    >>> w.undo().phase, w.grad("a")
    ('forward', None)
    """
    return Walk(as_trace(loss))


class Walk(Report):
    """A position in a walk. `position` counts the steps done."""

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        self.position = 0
        self.breakpoints: list[Breakpoint] = []
        self.stopped_by = ""  # why the last run stopped
        self.note = ""  # why there is no backward phase
        self._sweep = self._find_sweep()
        self._forward = sorted(leading_to(trace, {e.node for e in self._sweep.seeds}))
        self._visits = list(self._sweep.visits)
        self._number = {node: i for i, node in enumerate(self._forward, 1)}
        self._visit_number = {node: i for i, node in enumerate(self._visits)}
        # For every node the (visit, argument) pairs that bring it something, in order.
        self._arrivals: dict[int, list[tuple[int, int]]] = {}
        self._completes: dict[int, list[int]] = {}  # visit -> nodes that are complete with it
        self._count_arrivals()

    def _find_sweep(self) -> Sweep:
        """The last backward pass; without one, that from the last node."""
        if self.trace.sweeps:
            return self.trace.sweep
        made = Sweep(seeds={})
        try:
            graph = BackwardGraph(self.trace)
            grads = over_all_paths(graph, Amounts(graph))
            for place, seed in graph.seeds.items():
                node = graph.node_at[place]
                made.seeds[Edge(node, place - graph.first_place[node])] = seed
            made.visits = [n for n in consumers_first(graph) if self.trace.nodes[n].needs_grad]
            made.grads = {n: [grads[p] for p in graph.places(n)] for n in graph.reached}
            for node in made.visits:
                pushed = graph.pull(node, made.grads[node])
                by_argument = {a: part for (a, _), part in zip(graph.edges[node], pushed)}
                count = len(self.trace.nodes[node].args)
                made.pushed[node] = tuple(by_argument.get(a) for a in range(count))
        except NotReplayable as error:
            self.note = f"there is no backward phase: {error}"
            return Sweep(seeds={Edge(len(self.trace) - 1): None})
        return made

    def _count_arrivals(self) -> None:
        for visit, node in enumerate(self._visits):
            for argument, edge, _ in self._pushes_of(node):
                self._arrivals.setdefault(edge.node, []).append((visit, argument))
        for node, arrivals in self._arrivals.items():
            self._completes.setdefault(arrivals[-1][0], []).append(node)

    def _pushes_of(self, index: int) -> list[tuple[int, Edge, Kept]]:
        """The pushes of a visit as (argument, edge, amount)."""
        node = self.trace.nodes[index]
        pushed = self._sweep.pushed.get(index, ())
        if len(pushed) != len(node.args):  # not recorded one by one
            wanted = [(a, e) for a, e in node.edges if self.trace.nodes[e.node].needs_grad]
            return [(argument, edge, None) for argument, edge in wanted]
        return [(a, e, pushed[a]) for a, e in node.edges if pushed[a] is not None]

    # -- where we are ------------------------------------------------------------------------------

    def __len__(self) -> int:
        return len(self._forward) + len(self._visits)

    @property
    def done(self) -> bool:
        """Whether there is no further step."""
        return self.position == len(self)

    @property
    def phase(self) -> str:
        """The phase of the last step; "forward" before the first."""
        return "forward" if self.position <= len(self._forward) else "backward"

    @property
    def current(self) -> WalkStep | None:
        """The last step done; None before the first."""
        return self.at(self.position) if self.position else None

    def at(self, number: int) -> WalkStep:
        """What happens in a step, from 1 on, wherever the walk stands."""
        if not 1 <= number <= len(self):
            raise ValueError(f"there is no step {number}: the steps are 1 to {len(self)}")
        visit = number - 1 - len(self._forward)
        index = self._forward[number - 1] if visit < 0 else self._visits[visit]
        node = self.trace.nodes[index]
        step = WalkStep(
            number=number,
            phase="forward" if visit < 0 else "backward",
            index=index,
            name=self.trace.name(index),
            op=node.op,
            line=node.line,
            shape=node.shape,
            value=node.value,
            _walk=self,
        )
        if visit >= 0:
            step.received = self.received(index)
            step.pushes = [
                Push(index, argument, edge.node, self.trace.name(edge.node), amount, self)
                for argument, edge, amount in self._pushes_of(index)
            ]
            step.completed = [self._complete(done) for done in self._completes.get(visit, ())]
        return step

    def received(self, index: int) -> Kept:
        """The whole gradient of a node; a list if it has several outputs."""
        parts = self._sweep.grads.get(index)
        return None if parts is None else parts[0] if len(parts) == 1 else list(parts)

    def _complete(self, index: int) -> Complete:
        gradient, leaf = self.received(index), self.trace.nodes[index].is_leaf
        way = way_down(gradient, self.trace.name(self._sweep.root)) if leaf else ""
        return Complete(
            index, self.trace.name(index), gradient, len(self._arrivals[index]), leaf, way
        )

    def incomplete(self, number: int | None = None) -> list[Incomplete]:
        """The nodes with incomplete gradients after a step (default: now)."""
        visits = (self.position if number is None else number) - len(self._forward)
        waiting = []
        for index, arrivals in self._arrivals.items():
            arrived = bisect.bisect_left(arrivals, (visits, -1))
            if 0 < arrived < len(arrivals):
                waits = dict.fromkeys(self._visits[v] for v, _ in arrivals[arrived:])
                waiting.append(
                    Incomplete(
                        index,
                        self.trace.name(index),
                        self._so_far(index, visits),
                        arrived,
                        len(arrivals) - arrived,
                        [self.trace.name(node) for node in waits],
                    )
                )
        return waiting

    def _so_far(self, index: int, visits: int) -> Kept:
        """What has arrived at a node after some visits; None if nothing, or not kept."""
        if visits < 0:
            return None
        arrivals = self._arrivals.get(index, [])
        arrived = bisect.bisect_left(arrivals, (visits, -1))
        parts: list[Kept] = [None] * len(self.trace.nodes[index].metas)
        for edge, seed in self._sweep.seeds.items():
            if edge.node == index:
                parts[edge.output] = seed
        if arrived == len(arrivals) and index in self._sweep.grads:
            return self.received(index)
        for visit, argument in arrivals[:arrived]:
            node = self._visits[visit]
            edge = self.trace.nodes[node].args[argument]
            amounts = {a: amount for a, _, amount in self._pushes_of(node)}
            amount, before = amounts[argument], parts[edge.output]
            if not is_array(amount) or (before is not None and not is_array(before)):
                return None
            parts[edge.output] = amount if before is None else before + amount
        return parts[0] if len(parts) == 1 else parts

    def value(self, thing: Any) -> Kept:
        """The value of a node so far; None before it is computed."""
        index = self.trace.find(thing)
        known = self._number.get(index, len(self) + 1) <= self.position
        return self.trace.nodes[index].value if known else None

    def grad(self, thing: Any) -> Kept:
        """What has arrived at a node so far; None if nothing."""
        return self._so_far(self.trace.find(thing), self.position - len(self._forward))

    # -- moving ------------------------------------------------------------------------------------

    def step(self) -> WalkStep | None:
        """Do the next step; None at the end."""
        if self.done:
            return None
        self.position += 1
        return self.current

    def undo(self) -> WalkStep | None:
        """Undo the last step; return the one before it, None at the beginning."""
        self.position = max(self.position - 1, 0)
        return self.current

    def jump(self, position: int) -> WalkStep | None:
        """Go to a position, forward or back."""
        if not 0 <= position <= len(self):
            raise ValueError(f"there is no position {position}: they are 0 to {len(self)}")
        self.position = position
        return self.current

    def play(self) -> Iterator[WalkStep]:
        """Yield the remaining steps."""
        while not self.done:
            self.position += 1
            yield self.at(self.position)

    def run_to(self, target: Any) -> WalkStep:
        """Run until a node is visited, or a node that was made on a line.

        `target` is a Value, a Tensor, a label, a node of the trace, a line number, or
        "file.py:12". A leaf is not visited on the way back: the step that completes its gradient
        counts. The line that called backward is the first step back.
        """
        numbers = self._steps_of(target)
        later = bisect.bisect_right(numbers, self.position)
        if later == len(numbers):
            where = f"its steps are {', '.join(map(str, numbers))}" if numbers else "it has no step"
            raise ValueError(
                f"{_spelled(target)} is not visited after step {self.position}: {where}. "
                "Fix: jump(number) goes either way."
            )
        self.position = numbers[later]
        return self.at(self.position)

    def run_until(
        self,
        predicate: Callable[[WalkStep], Any] | None = None,
        *,
        grad_above: float | None = None,
        nan: bool = False,
        inf: bool = False,
        shape: tuple[int | None, ...] | None = None,
    ) -> WalkStep | None:
        """Run to the first step where something holds; None if the walk ends before.

        `predicate` takes a step. `stopped_by` then says what held.
        """
        return self._run([Breakpoint(grad_above, nan, inf, shape, predicate)])

    def break_at(
        self,
        predicate: Callable[[WalkStep], Any] | None = None,
        *,
        grad_above: float | None = None,
        nan: bool = False,
        inf: bool = False,
        shape: tuple[int | None, ...] | None = None,
    ) -> Breakpoint:
        """Add a breakpoint for `run`; remove it from `breakpoints` again to forget it."""
        self.breakpoints.append(Breakpoint(grad_above, nan, inf, shape, predicate))
        return self.breakpoints[-1]

    def run(self) -> WalkStep | None:
        """Run to the next breakpoint; None if the walk ends before."""
        return self._run(self.breakpoints)

    def _run(self, breakpoints: list[Breakpoint]) -> WalkStep | None:
        self.stopped_by = ""
        for step in self.play():
            for breakpoint in breakpoints:
                self.stopped_by = breakpoint.hit(step)
                if self.stopped_by:
                    return step
        return None

    def _steps_of(self, target: Any) -> list[int]:
        """The numbers of the steps that visit something, in order."""
        if isinstance(target, str) and ":" in target:
            file, _, line = target.rpartition(":")
            if line.isdigit():
                return self._steps_on(int(line), file)
        if isinstance(target, int):
            return self._steps_on(target)
        return self._steps_at([self.trace.find(target)])

    def _steps_at(self, nodes: list[int]) -> list[int]:
        steps = set()
        for node in nodes:
            if node in self._number:
                steps.add(self._number[node])
            visit = self._visit_number.get(node)
            if visit is None and node in self._arrivals:
                visit = self._arrivals[node][-1][0]
            if visit is not None:
                steps.add(len(self._forward) + 1 + visit)
        return sorted(steps)

    def _steps_on(self, line: int, file: str = "") -> list[int]:
        def there(made: Any) -> bool:
            return made is not None and made.line == line and _same_file(made.file, file)

        steps = self._steps_at([i for i in self._forward if there(self.trace.nodes[i].line)])
        if there(self._sweep.line) and self._visits:
            steps.append(len(self._forward) + 1)
        if not steps:
            place = f"{file}:{line}" if file else f"line {line}"
            lines = sorted({str(n.line).partition(": ")[0] for n in self.trace.nodes if n.line})
            known = ", ".join(lines[:6]) + (", ..." if len(lines) > 6 else "")
            raise ValueError(f"no node was made on {place}; lines are: {known or 'not recorded'}")
        return sorted(set(steps))

    # -- as text -----------------------------------------------------------------------------------

    def to_dict(self) -> dict[str, Any]:
        """Plain data: where the walk stands."""
        return {
            "position": self.position,
            "steps": len(self),
            "forward": len(self._forward),
            "phase": self.phase,
            "done": self.done,
            "current": plain(self.current),
            "incomplete": plain(self.incomplete()),
            "stopped_by": self.stopped_by,
            "note": self.note,
        }

    def __str__(self) -> str:
        root = self.trace.name(self._sweep.root)
        counts = f"{len(self._forward)} steps forward, {len(self._visits)} backward"
        lines = [f"walk of {root}: {counts}; {self.position} done"]
        lines += [self.note] if self.note else []
        if self.current is not None:
            lines.append(str(self.current))
        if self.done and self._visits:
            lines += self._leaf_lines(root)
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        """The graph at this step, above the text."""
        from gradwalk.inspect.show import step_html

        return step_html(self.trace, self._forward, self.position, str(self))

    def _leaf_lines(self, root: str) -> list[str]:
        """The gradients of the leaves that have a name, or of all if none has."""
        nodes = (self.trace.nodes[index] for index in self._forward)
        leaves = [n for n in nodes if n.is_leaf and n.index in self._sweep.grads]
        named = [n for n in leaves if n.label or n.index in self.trace.names]
        rows = [("leaf", "value", "gradient", f"to lower {root}")]
        for node in (named or leaves)[:ROWS]:
            gradient = self.received(node.index)
            name = self.trace.name(node.index)
            rows.append((name, kept_text(node.value), kept_text(gradient), arrow_down(gradient)))
        more = len(named or leaves) - ROWS
        return [*columns(rows), *([f"... and {more} more"] if more > 0 else [])]


def _same_file(file: str, wanted: str) -> bool:
    """Whether a name means this file: in full, or by its last parts."""
    if not wanted:
        return True
    parts, end = Path(file).parts, Path(wanted).parts
    return parts[-len(end) :] == end


def _spelled(target: Any) -> str:
    if isinstance(target, int):
        return f"line {target}"
    return repr(target) if isinstance(target, str) else f"this {type(target).__name__}"
