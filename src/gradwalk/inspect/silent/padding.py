"""Padding that changes the loss: counted among the targets, or read by the predictions.

Rows of different lengths are filled up to one length. What they are filled up with must not matter:
the step is computed again with other numbers there, and the loss must stay.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from gradwalk.inspect.health.findings import Finding
from gradwalk.inspect.report import short
from gradwalk.inspect.silent.leak_causes import is_recurrent
from gradwalk.inspect.silent.leaks import Leak, LeakSearch
from gradwalk.inspect.silent.replayed import Replays
from gradwalk.inspect.silent.step_parts import Head, StepParts
from gradwalk.inspect.trace.routes import group_name, leading_to
from gradwalk.inspect.trace.trace import Edge, Shape, Trace, TraceNode

FEWEST = 3  # numbers of padding in a batch, which chance does not make
_PRODUCTS = frozenset(("matmul", "bmm"))
_AVERAGES = frozenset(("mean", "max", "amax", "min", "logsumexp", "var", "std"))
_WEIGHTED = frozenset(("softmax", "safe_softmax", "attention", "masked_attention",
                       "grouped_attention"))  # fmt: skip


@dataclass(frozen=True)
class Padded:
    """An input (batch, time, ...) whose rows end with padding."""

    edge: Edge
    where: Any  # (batch, time): True where it is padding
    number: Any  # what it was filled up with

    @property
    def rows(self) -> list[int]:
        """The row with most padding, and the first ones with any.

        Where the size of the batch is a multiple of the length, the axis of rows may pass for one
        of positions; the first rows then stand for first positions, which are no padding.
        """
        lengths = self.where.sum(1)
        return list(dict.fromkeys([int(lengths.argmax()), *map(int, np.nonzero(lengths)[0][:2])]))


def padding_in_step(trace: Trace) -> list[Finding]:
    """Padding that the loss counts, or that predictions read."""
    parts = StepParts(trace)
    for head in parts.heads:
        for padded in padded_inputs(parts, head):
            found = _counted(parts, head, padded)
            for row in padded.rows:
                found = found or _read(parts, head, padded, row)
            if found is not None:
                return [found]
    return []


def padded_inputs(parts: StepParts, head: Head) -> Iterator[Padded]:
    """The inputs of a prediction that end with padding, in some rows more than in others."""
    for edge in parts.entries(head.prediction):
        values = parts.values(edge)
        shape = values.shape
        node = parts.trace.nodes[edge.node]
        if node.op and node.group is not None:
            continue  # a table that the model makes, such as relative positions, is no data
        if values.dtype.kind in "iu" and len(shape) == 2:
            number = _filler(values)
            if number is not None:
                yield Padded(edge, _at_the_end(values == number), number)
        elif values.dtype.kind == "f" and len(shape) == 3:
            where = _at_the_end((values == 0).all(2))
            if _is_padding(where, (values == 0).all(2)):
                yield Padded(edge, where, 0.0)


def _filler(values: Any) -> Any:
    """The number that rows are filled up with: it occurs at their ends alone."""
    for number in np.unique(values[:, -1]):
        if _is_padding(_at_the_end(values == number), values == number):
            return number
    return None


def _at_the_end(same: Any) -> Any:
    return np.logical_and.accumulate(same[:, ::-1], axis=1)[:, ::-1]


def _is_padding(where: Any, same: Any) -> bool:
    lengths = where.sum(1)
    return bool(
        where.shape[0] > 1
        and where.sum() >= FEWEST
        and lengths.max() > 1
        and lengths.min() < lengths.max() < where.shape[1]
        and (where == same).all()
    )


# -- counted in the loss ---------------------------------------------------------------------------


def _counted(parts: StepParts, head: Head, padded: Padded) -> Finding | None:
    """Whether predictions at padding take part in the loss."""
    trace, goal = parts.trace, head.prediction
    values = parts.values(goal)
    if values is None:
        return None
    at = _positions(padded.where, parts.shape(head.target), values.shape)
    if at is None:
        return None
    replays = Replays(trace, [goal], [Edge(trace.root)])
    other = np.array(values).reshape(_long(values.shape))
    other[at] = other[at] + np.random.default_rng(0).standard_normal(other[at].shape)
    other = other.reshape(values.shape)
    before, after = (
        float(np.ravel(t.nodes[trace.root].value)[0])
        for t in (replays.unchanged, replays.run({goal: other.astype(values.dtype)}))
    )
    if not np.isfinite(after) or abs(after - before) <= 1e-6 * max(abs(before), 1e-6):
        return None
    share = float(padded.where.mean())
    return Finding(
        "padding",
        "",
        share,
        f"the loss counts padding: {100 * share:.0f} % of the positions are filled up with "
        f"{padded.number}, and their predictions change the loss.",
        f"leave them out: ignore_index={padded.number} for a cross entropy, or a mask, "
        "(loss * mask).sum() / mask.sum().",
        head.node.line,
        confidence="certain",
        basis=f"the loss was computed again with other predictions at padding alone: "
        f"{short(after)} instead of {short(before)}.",
    )


def _long(shape: Shape) -> Shape:
    """A shape without axes of length 1."""
    return tuple(n for n in shape if n > 1)


def _positions(where: Any, target: Shape, prediction: Shape) -> Any:
    """Padded positions as an index of a prediction; None if targets are not one per position."""
    wanted, shape = _long(target), _long(prediction)
    if wanted == (where.size,) and shape[0] == where.size:
        return (where.reshape(-1),)
    if wanted[:2] != where.shape:
        return None
    if shape[:2] == where.shape:
        return (where,)
    if len(shape) == 3 and (shape[0], shape[2]) == where.shape:  # (batch, classes, time)
        rows, times = np.nonzero(where)
        return rows, slice(None), times
    return None


# -- read by predictions ---------------------------------------------------------------------------


def _read(parts: StepParts, head: Head, padded: Padded, row: int) -> Finding | None:
    """Whether what stands at a row's padding changes predictions that count."""
    trace, goal = parts.trace, head.prediction
    values = parts.values(padded.edge)
    kept = ~padded.where[row]
    changed = np.array(values)
    rest = np.setdiff1d(np.unique(values), [padded.number])
    at = (row, ~kept)
    filler = np.random.default_rng(0)
    if values.dtype.kind == "f":
        changed[at] = filler.standard_normal(changed[at].shape) * values.std()
    else:
        changed[at] = filler.choice(rest, changed[at].shape)
    replays = Replays(trace, [padded.edge], [goal])
    search = LeakSearch(replays.unchanged, replays.run({padded.edge: changed}), kept, ordered=False)
    leak = search.first(goal)
    if search.clean(goal) is not None or leak is None:
        return None
    told = _meaning(parts, leak, padded)
    if told is None:
        return None
    message, fix = told
    reader = _reader(parts, leak)
    return Finding(
        "padding",
        group_name(trace, reader.index),
        float(padded.where.mean()),
        f"padding changes predictions: {message}",
        fix,
        reader.line,
        confidence="certain" if reader.op in _WEIGHTED else "likely",
        basis=f"the step was computed again with other numbers at the padding of row {row} "
        "alone, and predictions that count changed.",
    )


def _reader(parts: StepParts, leak: Leak) -> TraceNode:
    """The operation that reads padding; of a product with attention's weights, what made them.

    If all weights are at padding, they stay as large as they are, and only the product changes.
    """
    if leak.node.op in _PRODUCTS:
        for _, edge in leak.node.edges:
            made = parts.trace.nodes[parts.source(edge).node]
            if made.op in _WEIGHTED:
                return made
    return leak.node


def _meaning(parts: StepParts, leak: Leak, padded: Padded) -> tuple[str, str] | None:
    """What reads padding, and a change; None for a sum, to which zeros add nothing."""
    op = _reader(parts, leak).op
    if op in _WEIGHTED:
        return (
            f"{op} gives weight to padded positions.",
            "a mask over the keys: scores.masked_fill(is_padding[:, None, :], -inf), or "
            "key_padding_mask=is_padding; is_padding is True at padding, not at what counts.",
        )
    if op in _AVERAGES or (op == "sum" and not _is_zero(parts, leak, padded)):
        return (
            f"{op} is taken over padded positions too.",
            "(x * mask).sum(1) / mask.sum(1), where mask is 1 at positions that count.",
        )
    if op in ("getitem", "index_select", "select") and _follows_recurrence(parts, leak):
        return (
            "the last position of a shorter row is padding, after which the state was read.",
            "the state at each row's own end: pack_padded_sequence, or out[arange, lengths - 1].",
        )
    if is_recurrent(leak.trace, leak.node.index):
        return (
            f"{op} runs on over padding, and its last state is used.",
            "pack_padded_sequence, or out[arange, lengths - 1].",
        )
    return None


def _is_zero(parts: StepParts, leak: Leak, padded: Padded) -> bool:
    """Whether what is summed is 0 at padding: an embedding with padding_idx, a mask."""
    values = parts.values(leak.node.edges[0][1])
    if values is None or values.shape[:2] != padded.where.shape:
        return True
    return not values[padded.where].any()


def _follows_recurrence(parts: StepParts, leak: Leak) -> bool:
    """Whether what an operation reads comes from a recurrent layer, as one op or as many."""
    before = leading_to(parts.trace, [leak.node.index])
    return any(is_recurrent(parts.trace, index) for index in before)
