"""The operation through which inputs reach outputs that must not depend on them.

Two runs are recorded on inputs that agree at some positions of an axis: before a time, or in all
rows but one. A result is *clean* if it agrees there too, along one of its axes, or along two at
once, as the scores of attention do before the mask. An operation leaks if its operands are clean
and its result is not.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Any

import numpy as np

from gradwalk.inspect.silent.rounding import differing
from gradwalk.inspect.trace.replay import is_array
from gradwalk.inspect.trace.routes import group_name
from gradwalk.inspect.trace.trace import Edge, Trace, TraceNode


@dataclass(frozen=True)
class Clean:
    """How a result agrees at the kept positions."""

    axes: tuple[int, ...]  # one axis, or two
    merged: bool = False  # the axis is part of one: (batch, time) as one axis


@dataclass(frozen=True)
class Leak:
    """An operation with clean operands and a result that is not clean."""

    trace: Trace
    node: TraceNode
    operands: tuple[Clean, ...]  # those that differ between the runs


class LeakSearch:
    """Two recordings of one model, and the positions that must agree (`kept`)."""

    def __init__(self, one: Trace, other: Trace, kept: Any, *, ordered: bool) -> None:
        self.trace = one
        self.other = other
        self.kept = kept
        self.ordered = ordered  # the kept positions are a beginning: padding may follow
        self._twins = twins(one, other)
        self._differing: dict[Edge, Any] = {}
        self._clean: dict[Edge, Clean | None] = {}

    def first(self, output: Edge) -> Leak | None:
        """The first operation that leaks on the way to an output that is not clean."""
        for node in self.trace:  # operands first: the search for what is clean does not recurse
            for k in range(len(node.metas)):
                self.clean(Edge(node.index, k))
        for by_gradient in (True, False) if self.trace.sweeps else (False,):
            found = sorted(self._leaking(output, by_gradient), key=lambda node: node.index)
            if found:
                return Leak(self.trace, found[0], tuple(self._operands(found[0])))
        return None

    def _leaking(self, output: Edge, by_gradient: bool) -> Iterator[TraceNode]:
        waiting, seen = [output], {output}
        while waiting:
            edge = waiting.pop()
            node = self.trace.nodes[edge.node]
            operands = [e for _, e in node.edges if self._differs(e)]
            dirty = [e for e in operands if self.clean(e) is None]
            if not dirty and self._differs(edge):
                yield node
            for e in dirty:
                if e not in seen and (not by_gradient or self._carries(e)):
                    seen.add(e)
                    waiting.append(e)

    def _operands(self, node: TraceNode) -> Iterator[Clean]:
        for _, edge in node.edges:
            clean = self.clean(edge) if self._differs(edge) else None
            if clean is not None:
                yield clean

    def _differs(self, edge: Edge) -> bool:
        found = self.differences(edge)
        return found is None or bool(found.any())

    def differences(self, edge: Edge) -> Any:
        """Where the runs differ in a result; None if its numbers were not kept."""
        if edge not in self._differing:
            self._differing[edge] = self._compared(edge)
        return self._differing[edge]

    def _compared(self, edge: Edge) -> Any:
        node = self.trace.nodes[edge.node]
        one: Any = node.values[edge.output] if edge.output < len(node.values) else None
        if not is_array(one):
            return None
        twin = self._twins.get(edge.node)
        if twin is None:  # the other run took another branch
            return np.ones(one.shape, bool)
        values = self.other.nodes[twin].values
        other = values[edge.output] if edge.output < len(values) else None
        return differing(one, other, node.metas[edge.output][1]) if is_array(other) else None

    def _carries(self, edge: Edge) -> bool:
        """Whether an element that differs has influence on the kept outputs."""
        node, found = self.trace.nodes[edge.node], self.differences(edge)
        if found is None or not node.needs_grad:
            return True
        gradient = self.trace.sweep.grad(edge.node, edge.output)
        if not is_array(gradient) or gradient.shape != found.shape:
            return gradient is not None
        return bool((found & (gradient != 0)).any())

    # -- clean -------------------------------------------------------------------------------------

    def clean(self, edge: Edge) -> Clean | None:
        """How a result is clean; None if it is not, or if its numbers were not kept."""
        if edge not in self._clean:
            found = self.differences(edge)
            self._clean[edge] = None if found is None else self._judged(edge, found)
        return self._clean[edge]

    def _judged(self, edge: Edge, found: Any) -> Clean | None:
        count = len(self.kept)
        exact = [axis for axis, length in enumerate(found.shape) if length == count]
        for axis in exact:
            if not _any_but(found, axis)[self.kept].any():
                return Clean((axis,))
        if self._may_be_merged(edge, len(exact)):
            for axis, length in enumerate(found.shape):
                if self._is_clean_in(_any_but(found, axis), length):
                    return Clean((axis,), merged=True)
            for axis, (length, inner) in enumerate(zip(found.shape, found.shape[1:])):
                if self._may_be_split(length * inner):
                    joined = found.reshape(*found.shape[:axis], -1, *found.shape[axis + 2 :])
                    if self._is_clean_in(_any_but(joined, axis), length * inner):
                        return Clean((axis, axis + 1), merged=True)
        for i, first in enumerate(exact):
            for second in exact[i + 1 :]:
                part = found.compress(self.kept, first).compress(self.kept, second)
                if not part.any():
                    return Clean((first, second))
        return None

    def _may_be_merged(self, edge: Edge, exact: int) -> bool:
        """Whether the axis went into another one, though some axis has its length by chance.

        What a reshape has mixed is not clean again because the next one undoes its axes alone.
        """
        count = len(self.kept)
        operands = [e for _, e in self.trace.nodes[edge.node].edges if self._differs(e)]
        clean = [(e, found) for e in operands if (found := self.clean(e)) is not None]
        if not exact:
            return not operands or bool(clean)
        return any(f.merged or self.trace.shape_of(e).count(count) > exact for e, f in clean)

    def _may_be_split(self, length: int) -> bool:
        """Whether two axes of this product may be ours: (chunks, positions), perhaps padded."""
        count = len(self.kept)
        return length == count or (self.ordered and count < length < 2 * count)

    def _is_clean_in(self, found: Any, length: int) -> bool:
        """Whether one axis is clean as (others, ours, others), or with padding."""
        count = len(self.kept)
        if length % count == 0:
            times = length // count
            for outer in (n for n in range(1, times + 1) if times % n == 0):
                view = found.reshape(outer, count, times // outer)
                if not view.any((0, 2))[self.kept].any():
                    return True
        if not self.ordered or length < 2:
            return False
        first = int(self.kept.sum())
        first = first if length > count else first * length // count
        return first > 0 and not found[:first].any()


def _any_but(found: Any, axis: int) -> Any:
    return found.any(tuple(other for other in range(found.ndim) if other != axis))


def twins(one: Trace, other: Trace) -> dict[int, int]:
    """The nodes of two recordings of one program that correspond."""
    first, second = ([_signature(trace, node) for node in trace] for trace in (one, other))
    if first == second:
        return {index: index for index in range(len(first))}
    matcher = SequenceMatcher(None, first, second, autojunk=False)
    return {
        block.a + k: block.b + k
        for block in matcher.get_matching_blocks()
        for k in range(block.size)
    }


def _signature(trace: Trace, node: TraceNode) -> tuple[Any, ...]:
    return node.op, len(node.args), node.line, group_name(trace, node.index)
