"""Rows of a batch that influence one another, and positions that see the future.

The step is computed again with one row, or with all later positions, changed. What the loss
compares with the target of another row, or of an earlier position, must stay.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from gradwalk.inspect.health.findings import Finding
from gradwalk.inspect.report import short
from gradwalk.inspect.silent.leak_causes import is_recurrent, row_leak, time_leak
from gradwalk.inspect.silent.leaks import Leak, LeakSearch
from gradwalk.inspect.silent.other_numbers import is_mask, other_numbers
from gradwalk.inspect.silent.replayed import Replays
from gradwalk.inspect.silent.step_parts import WHOLE, Head, StepParts
from gradwalk.inspect.trace.routes import group_name
from gradwalk.inspect.trace.trace import Edge, Trace

MOST_ROWS = 2  # of which each costs a forward pass
# Over these axes items may be meant to meet: without a batch, they are the positions.
_MEETING = ("attention", "masked_attention", "grouped_attention", "conv")
_BY_INDEX = frozenset(("getitem", "index_select", "gather", "scatter_add", "index_add", "scatter"))


def mixed_rows(trace: Trace) -> list[Finding]:
    """Whether a row of the batch changes what is compared with the target of another row."""
    parts = StepParts(trace)
    for head, goal in _goals(parts):
        count = parts.shape(parts.source(head.target, WHOLE))[0]
        entries = [e for e in parts.entries(goal) if parts.shape(e)[:1] == (count,)]
        entries = [e for e in entries if not is_mask(parts.values(e)) and not _square(parts, e)]
        if not entries or count < 2 or (parts.shape(goal) or (1,))[0] % count:
            continue
        if any(axis == 0 for _, axis in next_positions(parts, head, entries)):
            continue  # the first axis is time
        if _independent_along_second(parts, goal, head, entries):
            continue
        for kept in _all_but_one(count):
            found = _row_finding(parts, entries, goal, kept)
            if found is not None:
                return [found]
    return []


def _row_finding(parts: StepParts, entries: list[Edge], goal: Edge, kept: Any) -> Finding | None:
    leak, change = _leak(parts, entries, goal, 0, kept, ordered=False)
    if leak is None or _may_mix(parts, leak, entries):
        return None
    why, fix = row_leak(leak)
    changed = int(np.flatnonzero(~kept)[0])
    return _finding(
        "rows mix",
        leak,
        f"rows of the batch influence one another: {leak.node.op} carries row {changed} into "
        f"others; {why}",
        fix,
        change,
        f"the step was computed again with row {changed} changed, and other rows changed too.",
    )


def leaking_future(trace: Trace) -> list[Finding]:
    """Whether a model that is trained to predict the next position sees it."""
    parts = StepParts(trace)
    for head, goal in _goals(parts):
        entries = [e for e in parts.entries(goal) if not is_mask(parts.values(e))]
        for entry, axis in next_positions(parts, head, entries):
            found = _future_finding(parts, goal, entry, axis)
            if found is not None:
                return [found]
    return []


def _future_finding(parts: StepParts, goal: Edge, entry: Edge, axis: int) -> Finding | None:
    # Other inputs stay: a decoder may see all positions of what an encoder was given.
    length = parts.shape(entry)[axis]
    middle = max(1, length // 2)
    kept = np.arange(length) < middle
    leak, change = _leak(parts, [entry], goal, axis, kept, ordered=True)
    if leak is None:
        return None
    why, fix = time_leak(leak)
    return _finding(
        "future leaks",
        leak,
        "the targets are the inputs one position later, and the predictions see them: "
        f"{leak.node.op} carries later positions into earlier ones; {why}",
        fix,
        change,
        f"the step was computed again with the inputs from position {middle} on changed, and "
        "predictions before it changed too.",
    )


def _finding(kind: str, leak: Leak, message: str, fix: str, change: float, basis: str) -> Finding:
    trace, index = leak.trace, leak.node.index
    basis = f"{basis[:-1]} by up to {short(change)}."
    layer = group_name(trace, index)
    return Finding(kind, layer, change, message, fix, leak.node.line, confidence="certain",
                   basis=basis)  # fmt: skip


def _goals(parts: StepParts) -> Iterator[tuple[Head, Edge]]:
    """The predictions that meet targets, as logits where a log_softmax over the classes follows."""
    for head in parts.heads:
        goal = head.prediction
        node = parts.trace.nodes[parts.source(goal, WHOLE).node]
        if node.op == "log_softmax" and head.node.op == "nll_loss" and node.attrs["axis"] == 1:
            goal = node.edges[0][1]
        if parts.values(goal) is not None:
            yield head, goal


def next_positions(parts: StepParts, head: Head, entries: list[Edge]) -> list[tuple[Edge, int]]:
    """The inputs, and the axis, along which the target is an input one position later."""
    target = parts.values(parts.source(head.target, WHOLE))
    compared = parts.values(head.target)
    if target is None or compared is None:
        return []
    found = []
    for entry in entries:
        given = parts.values(entry)
        for wanted in (compared, target):
            for axis in range(min(given.ndim, 2)):
                if _is_shifted(given, wanted, axis):
                    found.append((entry, axis))
    return list(dict.fromkeys(found))


def _is_shifted(given: Any, target: Any, axis: int) -> bool:
    """Whether target[t] is given[t + 1] along an axis; the target may be flat."""
    length = given.shape[axis]
    if length < 3 or given.dtype.kind != target.dtype.kind:
        return False
    if target.shape != given.shape:
        if target.size != given.size:
            return False
        target = target.reshape(given.shape)
    later = given.take(range(1, length), axis)
    wanted = target.take(range(length - 1), axis)
    if len(np.unique(later)) < 2:
        return False
    same = later == wanted
    # An ignored target (-100) is no counterexample; a target that is the input is no shift.
    known = wanted >= 0 if target.dtype.kind in "iu" else np.ones(wanted.shape, bool)
    unmoved = bool((given == target).all())
    return bool(same[known].all()) and known.mean() > 0.5 and not unmoved


def _independent_along_second(
    parts: StepParts, goal: Edge, head: Head, entries: list[Edge]
) -> bool:
    """Whether the batch is the second axis: rows of it do not meet, positions of the first do."""
    count = parts.shape(entries[0])[1] if len(parts.shape(entries[0])) > 1 else 0
    if count < 2 or count not in parts.shape(goal)[:2]:
        return False
    along = [e for e in entries if parts.shape(e)[1:2] == (count,)]
    kept = np.arange(count) != count - 1
    searched = _search(parts, along, goal, 1, kept, ordered=False)
    if searched is None:
        return False
    found = searched.differences(goal)
    axis = 1 if len(found.shape) > 1 and found.shape[1] == count else 0
    others = tuple(a for a in range(found.ndim) if a != axis)
    apart = not found.any(others)[kept].any() if found.shape[axis] == count else False
    return bool(apart and found.any() and _meets_first(parts, goal, entries))


def _meets_first(parts: StepParts, goal: Edge, entries: list[Edge]) -> bool:
    """Whether the first axis is walked over by a recurrence or attention, as time is."""
    return any(_meets(parts.trace, i) for i in parts.trace_between(entries, goal))


def _meets(trace: Trace, index: int) -> bool:
    return trace.nodes[index].op.startswith(_MEETING) or is_recurrent(trace, index)


def _square(parts: StepParts, edge: Edge) -> bool:
    """An adjacency matrix: it says which rows are meant to meet."""
    shape = parts.shape(edge)
    return len(shape) >= 2 and shape[0] == shape[1] and parts.trace.nodes[edge.node].is_leaf


def _may_mix(parts: StepParts, leak: Leak, entries: list[Edge]) -> bool:
    """Whether rows may be meant to meet in an operation: graphs, sequences without a batch."""
    op, trace = leak.node.op, leak.trace
    data = [e for _, e in leak.node.edges if not trace.nodes[e.node].needs_grad]
    count = len(parts.values(entries[0]))
    if any(count in trace.shape_of(e) and trace.shape_of(e).count(count) > 1 for e in data):
        return True  # a product with an adjacency matrix
    if op in _BY_INDEX and any("int" in trace.nodes[e.node].metas[e.output][1] for e in data):
        return True  # messages along given edges
    pair = any(len(clean.axes) == 2 and not clean.merged for clean in leak.operands)
    if pair or _meets(trace, leak.node.index):
        return not any(_has_inner_axis(parts.values(e)) for e in entries)
    reduces = "axis" in leak.node.attrs or "axes" in leak.node.attrs
    if reduces and op in ("mean", "var", "std", "sum", "norm"):
        return _is_batch_statistic(leak)
    return False


def _has_inner_axis(values: Any) -> bool:
    """Whether an input has another axis than rows and features: (batch, time[, features])."""
    return bool(values.ndim >= (2 if values.dtype.kind in "iu" else 3))


def _is_batch_statistic(leak: Leak) -> bool:
    """A mean over all but the features, as batch norm by hand takes it, or of one number per row.

    One number for all rows and features is none: a norm over the features was meant.
    """
    given = leak.trace.shape_of(leak.node.edges[0][1])
    axes: Any = leak.node.attrs.get("axis", leak.node.attrs.get("axes"))
    axes = axes if isinstance(axes, tuple) else (axes,)
    groups = leak.trace.group_path(leak.node.index)
    name = groups[-1].class_name.lower() if groups else ""
    if any(word in name for word in ("layernorm", "rmsnorm")):
        return False
    return len(given) - len({a % len(given) for a in axes}) == (len(given) > 1)


def _all_but_one(count: int) -> Iterator[Any]:
    for row in np.unique(np.linspace(0, count - 1, min(count, MOST_ROWS)).round().astype(int)):
        yield np.arange(count) != row


def _search(
    parts: StepParts, entries: list[Edge], goal: Edge, axis: int, kept: Any, *, ordered: bool
) -> LeakSearch | None:
    """Replay with the inputs changed where they are not kept; None if nothing could change."""
    noise = np.random.Generator(np.random.PCG64(0))
    replays = Replays(parts.trace, entries, [goal])
    changes = {}
    for edge in entries:
        array = np.array(parts.values(edge))
        at = (slice(None),) * axis + (~kept,)
        array[at] = other_numbers(array, array[at], noise)
        changes[edge] = array
    return LeakSearch(replays.unchanged, replays.run(changes), kept, ordered=ordered)


def _leak(
    parts: StepParts, entries: list[Edge], goal: Edge, axis: int, kept: Any, *, ordered: bool
) -> tuple[Leak | None, float]:
    """The operation through which what is not kept reaches the kept predictions, and how far."""
    search = _search(parts, entries, goal, axis, kept, ordered=ordered)
    if search is None:
        return None, 0.0
    leak = search.first(goal)
    if search.clean(goal) is not None or leak is None:
        return None, 0.0
    one, other = (t.nodes[goal.node].values[goal.output] for t in (search.trace, search.other))
    with np.errstate(all="ignore"):
        apart = np.abs(np.asarray(one, float) - np.asarray(other, float))
    return leak, float(np.nanmax(np.where(np.isfinite(apart), apart, 0.0), initial=0.0))
