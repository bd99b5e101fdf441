"""Guesses by comparing numbers: where a value that left the graph came back in."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

import numpy as np

from gradwalk.inspect.trace.live import is_tensor, memory_of, numbers_of
from gradwalk.inspect.trace.replay import is_array
from gradwalk.inspect.trace.trace import Exit, Trace, TraceNode


def came_back(trace: Trace, exit: Exit, leading: Collection[int]) -> TraceNode | None:
    """The first node towards the loss that holds or receives the numbers that left."""
    value = trace.nodes[exit.node].value
    if not is_array(value):
        return None
    for index in sorted(i for i in leading if i > exit.node or trace.nodes[i].is_leaf):
        node = trace.nodes[index]
        if node.is_leaf and index != exit.node and is_array(node.value):
            if _holds(node.value, value):
                return node
        elif index > exit.node and any(_equal(a, value) for a in node.args):
            return node
    return None


def _equal(argument: Any, value: Any) -> bool:
    return isinstance(argument, float) and np.size(value) == 1 and argument == np.ravel(value)[0]


def _holds(array: Any, value: Any) -> bool:
    """Whether an array is that value, or one number of it; 0 and 1 are no evidence."""
    if np.shape(array) == np.shape(value):
        return bool(np.array_equal(array, value))
    number = np.ravel(value)[0] if np.size(value) == 1 else 0
    return number not in (0, 1) and bool(np.any(np.asarray(array) == number))


def stand_ins(trace: Trace, p: Any, leading: Iterable[int]) -> list[str]:
    """Leaves and constants of the trace that share memory with `p` or equal it."""
    suspects = []
    live = {id(t): t for t in trace._alive if is_tensor(t)}
    mine = numbers_of(p)
    for index in sorted(leading):
        node = trace.nodes[index]
        at = "" if node.line is None else f" at {node.line}"
        if mine is None:
            same = node.is_leaf and node.value == p.data and p.data not in (0, 1)
            if same and trace.lookup(p) != index:
                suspects.append(f"the leaf made{at} holds the same number: is it made of p.data?")
        elif node.is_leaf:
            shared = any(
                np.may_share_memory(memory_of(t), memory_of(p)) and trace.lookup(t) == index
                for t in live.values()
            )
            alike = is_array(node.value) and mine.ndim and np.array_equal(node.value, mine)
            if shared:
                suspects.append(f"a tensor on the same memory, made{at}, is used in its place.")
            elif alike:
                suspects.append(f"the leaf made{at} holds the same numbers: is it a copy?")
        elif any(isinstance(a, np.ndarray) and np.may_share_memory(a, mine) for a in node.args):
            suspects.append(f"its numbers enter {node.op} without a gradient{at}.")
        elif any(a is None for a in node.args):
            suspects.append(f"{node.op}{at} has an operand that carries no gradient.")
    return suspects
