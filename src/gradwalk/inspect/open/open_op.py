"""open_op: a composite op as the operations it is made of, with the same gradients.

`open_op` returns the inside as a small trace; `unfolded` returns a copy of a trace in which chosen
nodes are open, each as a group. The original trace never changes.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from gradwalk.engine import gradients
from gradwalk.inspect.open.expansions import Expansion, expansions_of
from gradwalk.inspect.report import Report, short
from gradwalk.inspect.trace import replay
from gradwalk.inspect.trace.from_values import trace_of_values
from gradwalk.inspect.trace.recorder import Recorder, as_trace
from gradwalk.inspect.trace.trace import Edge, Group, Sweep, Trace, TraceNode, key_of
from gradwalk.inspect.walk.wording import expression
from gradwalk.inspect.why.path_counts import local_derivatives
from gradwalk.scalar.value import Value


@dataclass
class Opened(Report):
    """The inside of one node."""

    name: str
    node: int  # in the trace it was opened in
    op: str
    steps: list[str]  # the operations inside, one line each
    inputs: list[int | None]  # for every argument the node inside that stands for it
    outputs: list[Edge]  # which nodes inside are the outputs
    gradient: Any  # what the node received, None if nothing
    contributions: list[Any]  # what each argument receives through the operations inside
    closed: list[Any]  # and through the node as one op
    largest_difference: float  # between the two, relative to the largest contribution
    trace: Trace = field(repr=False)  # the operations inside, with their backward pass

    @property
    def equal(self) -> bool:
        """Whether open and closed give the same gradients, up to rounding."""
        single = any(getattr(c, "dtype", None) == np.float32 for c in self.closed)
        return self.largest_difference <= (1e-4 if single else 1e-9)

    def __str__(self) -> str:
        lines = [f"{self.name} ({self.op}) opens into {len(self.steps)} operation(s):"]
        lines += [f"  {step}"[:80] for step in self.steps]
        if self.gradient is None:
            lines.append("No gradient arrived here.")
        elif self.equal:
            lines.append("Open and closed give the same gradients.")
        else:
            apart = short(self.largest_difference)
            lines.append(f"Open and closed do NOT give the same gradients: {apart} apart.")
        return "\n".join(lines)


def open_op(trace: Any, node: Any = None) -> Opened:
    """Expand a node into operations on the same operands, with the same incoming gradient.

    >>> import gradwalk as gw
    >>> a = gw.Value(0.5, label="a")
    >>> print(gw.open_op(gw.record(a.tanh()), 1))
    tanh#1 (tanh) opens into 5 operation(s):
      mul#2 = 2 × a = 1
      exp#3 = exp(mul#2) = 2.718
      sub#5 = exp#3 − 1 = 1.718
      add#7 = exp#3 + 1 = 3.718
      div#8 = sub#5 / add#7 = 0.4621
    Open and closed give the same gradients.
    """
    trace, index = trace_and_node(trace, node)
    op = replay.op_of(trace.nodes[index])
    forms = [] if op is None else expansions_of(op, trace.scalar)
    return opened_by(trace, index, forms)


def opened_by(trace: Trace, index: int, forms: list[Expansion]) -> Opened:
    """A node opened by the first of several definitions that gives its gradients."""
    node = trace.nodes[index]
    if not forms:
        what = "a leaf" if node.is_leaf else f"{node.op}, one step to the engine"
        raise ValueError(f"{trace.name(index)} is {what}: there is nothing in it to open")
    given = trace.sweeps[-1].grads.get(index) if trace.sweeps else None
    if given is not None and not any(replay.is_array(g) for g in given):
        given = None
    closed = [None] * len(node.args) if given is None else _closed(trace, node, given)
    for form in forms:
        inside = (_inside_number if trace.scalar else _inside_tensor)(trace, node, form, given)
        inner, places, ends = inside
        contributions = [
            None if c is None or i is None or not inner.sweeps else inner.sweep.grad(i)
            for c, i in zip(closed, places)
        ]
        opened = Opened(
            name=trace.name(index),
            node=index,
            op=node.op,
            steps=[_step_text(inner, n) for n in inner if not n.is_leaf],
            inputs=places,
            outputs=ends,
            gradient=None if given is None else given[0],
            contributions=contributions,
            closed=closed,
            largest_difference=_difference(contributions, closed, given),
            trace=inner,
        )
        if opened.equal:
            break
    return opened


def trace_and_node(first: Any, second: Any) -> tuple[Trace, int]:
    """The trace and the node in it, in whichever order they were given."""
    if second is None:
        first, second = as_trace(), first
    elif isinstance(second, Trace) or not isinstance(first, Trace):
        first, second = as_trace(second), first
    return first, first.find(second)


def _closed(trace: Trace, node: TraceNode, given: list[Any]) -> list[Any]:
    """What the node pushed, or would push, along each argument."""
    pushed = trace.sweep.pushed.get(node.index) or ()
    if pushed and all(p is None or replay.is_array(p) for p in pushed):
        return list(pushed)
    return replay.pull(trace, node, given)


# The trace inside, for every argument its leaf there, and the outputs.
Inside = tuple[Trace, list[int | None], list[Edge]]


def _inside_number(
    trace: Trace, node: TraceNode, form: Expansion, given: list[Any] | None
) -> Inside:
    values = [
        Value(number, label=_name_of(trace, argument))
        for number, argument in zip(replay.known_operands(trace, node), node.args)
    ]
    with replay.computing():
        root = form(*values, **node.attrs)
    inner = trace_of_values(root)
    if given is not None:
        backward_in_numbers(inner, float(given[0]))
    return inner, [inner.lookup(v) for v in values], [Edge(len(inner) - 1)]


def _inside_tensor(
    trace: Trace, node: TraceNode, form: Expansion, given: list[Any] | None
) -> Inside:
    recorder = Recorder(keep="all")
    args = replay.typed(node, replay.known_operands(trace, node))
    tensors: list[Any] = []
    places: list[int | None] = []
    with replay.computing(recorder), np.errstate(all="ignore"):
        for value, argument in zip(args, node.args):
            place = None
            if isinstance(value, np.ndarray):
                wants = isinstance(argument, Edge) and trace.nodes[argument.node].needs_grad
                # One leaf per argument: an operand used twice receives two contributions.
                value = replay.leaf_tensor(value, wants, _name_of(trace, argument))
                place = recorder._leaf(value, key_of(value))
            tensors.append(value)
            places.append(place)
        result = form(*tensors, **node.attrs)
        outs = list(result) if len(node.metas) > 1 else [result]
        ends = [recorder._edge(out) for out in outs]
        if given is not None:
            wanted = zip(outs, given)
            pairs = [(o, g) for o, g in wanted if replay.is_array(g) and o.requires_grad]
            seeds = [replay.leaf_tensor(np.asarray(g, o.dtype)) for o, g in pairs]
            gradients.backward([o for o, _ in pairs], seeds)
    return recorder.trace, places, ends


def _name_of(trace: Trace, argument: Any) -> str:
    return trace.name(argument.node) if isinstance(argument, Edge) else ""


def _difference(inner: list[Any], expected: list[Any], given: list[Any] | None) -> float:
    """The largest difference, relative to the largest number that comes in or goes out."""
    worst = 0.0
    size = max((largest(g) for g in given or () if replay.is_array(g)), default=0.0)
    for one, other in zip(inner, expected):
        if other is not None:
            right = np.asarray(other, np.float64)
            mine = np.zeros(right.shape) if one is None else np.asarray(one, np.float64)
            same = (mine == right) | (np.isnan(mine) & np.isnan(right))
            with np.errstate(all="ignore"):
                apart = np.where(same, 0.0, np.abs(mine - right))
            worst = max(worst, float(np.where(np.isnan(apart), np.inf, apart).max(initial=0)))
            size = max(size, largest(right))
    return worst / size if size and np.isfinite(worst) else worst


def largest(array: Any) -> float:
    """The largest magnitude among the finite elements."""
    sizes = np.abs(np.asarray(array, np.float64))
    return float(sizes[np.isfinite(sizes)].max(initial=0.0))


def backward_in_numbers(trace: Trace, seed: float, root: int | None = None) -> None:
    """Give a scalar trace its only backward pass, starting from its root with `seed`."""
    root = len(trace.nodes) - 1 if root is None else root
    slopes = local_derivatives(trace, [n.index for n in trace.nodes[: root + 1] if n.op])
    sweep = Sweep(seeds={Edge(root): seed})
    grads = [0.0] * len(trace.nodes)
    grads[root] = seed
    for index in range(root, -1, -1):
        node = trace.nodes[index]
        if node.is_leaf:
            continue
        sweep.visits.append(index)
        g = grads[index]
        pushed = tuple(
            [None if s is None or not isinstance(a, Edge) else g * s
             for s, a in zip(slopes[index], node.args)]
        )  # fmt: skip
        sweep.pushed[index] = pushed
        for edge, contribution in zip(node.args, pushed):
            if contribution is not None:
                grads[edge.node] += contribution
    sweep.grads = {index: [g] for index, g in enumerate(grads)}
    trace.sweeps[:] = [sweep]


def _step_text(trace: Trace, node: TraceNode) -> str:
    """One operation on one line: its name, how it is computed, its number if it is one."""
    text = f"{trace.name(node.index)} = {expression(trace, node)}"
    value = node.value
    return f"{text} = {short(value)}" if replay.is_array(value) and np.ndim(value) == 0 else text


# -- a whole trace with some nodes open ------------------------------------------------------------


def unfolded(trace: Trace, *nodes: Any) -> Trace:
    """Copy a trace with the given nodes open, each as a group of kind "op".

    Values and gradients of all other nodes stay the same. Nodes inside an opened node can be opened
    in turn, one level at a time.

    >>> import gradwalk as gw
    >>> x = gw.tensor([1.0, 2.0], requires_grad=True)
    >>> trace = gw.record(gw.softmax(x, 0)[0])
    >>> [n.op for n in gw.unfolded(trace, 1) if n.op]
    ['amax', 'sub', 'exp', 'sum', 'div', 'getitem']
    """
    opened = {trace.find(node): open_op(trace, trace.find(node)) for node in nodes}
    copy = Trace()
    copy.scalar, copy.reduced, copy.bytes_kept = trace.scalar, trace.reduced, trace.bytes_kept
    copy.groups = list(trace.groups)
    copy._alive = trace._alive
    moved: dict[Edge, Edge] = {}  # outputs in the trace -> in the copy
    inside: dict[int, dict[int, int]] = {}  # opened node -> its inner nodes -> in the copy
    for node in trace.nodes:
        if node.index in opened:
            inside[node.index] = _lay_open(copy, node, opened[node.index], moved)
            continue
        args = tuple(moved[a] if isinstance(a, Edge) else a for a in node.args)
        index = copy.add(dataclasses.replace(node, args=args, values=list(node.values)))
        for output in range(max(len(node.metas), 1)):
            moved[Edge(node.index, output)] = Edge(index, output)
    for index, name in trace.names.items():
        copy.names[moved[Edge(index)].node] = name
    for key, index in trace._index.items():
        place = moved.get(Edge(index, key[1])) or moved[Edge(index)]
        copy._index[key] = place.node
    for number, sweep in enumerate(trace.sweeps):
        last = number == len(trace.sweeps) - 1
        if last or not opened:  # what went on inside is known of the last one
            copy.sweeps.append(_moved_sweep(sweep, opened, moved, inside))
    return copy


def _lay_open(
    copy: Trace, node: TraceNode, opened: Opened, moved: dict[Edge, Edge]
) -> dict[int, int]:
    """Add the inner nodes of an opened one; its operands are those of the trace."""
    copy.groups.append(Group(opened.name, "op", 1, node.group, node.op))
    group = len(copy.groups) - 1
    stands_for = {
        place: moved[argument]
        for place, argument in zip(opened.inputs, node.args)
        if place is not None and isinstance(argument, Edge)
    }
    laid: dict[int, int] = {}
    ends = {edge.node for edge in opened.outputs}
    for inner in opened.trace.nodes:
        if inner.index in stands_for:
            continue
        args = tuple(
            (stands_for.get(a.node) or Edge(laid[a.node], a.output)) if isinstance(a, Edge) else a
            for a in inner.args
        )
        label = node.label if inner.index in ends else inner.label
        made = dataclasses.replace(
            inner, args=args, group=group, line=node.line, label=label, values=list(inner.values)
        )
        laid[inner.index] = copy.add(made)
    for output, edge in enumerate(opened.outputs):
        outer = stands_for.get(edge.node)
        moved[Edge(node.index, output)] = outer or Edge(laid[edge.node], edge.output)
    return laid


def _moved_sweep(
    sweep: Sweep,
    opened: dict[int, Opened],
    moved: dict[Edge, Edge],
    inside: dict[int, dict[int, int]],
) -> Sweep:
    copied = Sweep(seeds={moved[edge]: seed for edge, seed in sweep.seeds.items()}, line=sweep.line)
    for index, grads in sweep.grads.items():
        if index not in opened:
            copied.grads[moved[Edge(index)].node] = list(grads)
    for index in sweep.visits:
        if index not in opened:
            place = moved[Edge(index)].node
            copied.visits.append(place)
            copied.pushed[place] = sweep.pushed[index]
            continue
        within, inner = inside[index], opened[index].trace
        if not inner.sweeps:
            continue
        for visited in inner.sweep.visits:
            copied.visits.append(within[visited])
            copied.pushed[within[visited]] = inner.sweep.pushed[visited]
        for place, grads in inner.sweep.grads.items():
            if place in within:
                copied.grads[within[place]] = list(grads)
    return copied
