"""The order to visit a graph in: every node after all of its inputs."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

_LISTED = object()  # on the stack above a node: all of its inputs are listed


def inputs_first(roots: Iterable[Any], stop: Collection[Any] = ()) -> list[Any]:
    """All nodes reachable from `roots`, each after its inputs: a topological order.

    A depth-first search with its own stack instead of recursion, so a chain of a million nodes does
    not overflow. Nodes in `stop` are listed but not expanded. Inputs that are None (no gradient
    wanted) are skipped.
    """
    order: list[Any] = []
    seen: set[Any] = {None}
    stack = list(roots)
    stack.reverse()
    while stack:
        node = stack.pop()
        if node is _LISTED:
            order.append(stack.pop())
        elif node not in seen:
            seen.add(node)
            inputs = node.inputs
            if inputs and not (stop and node in stop):
                stack.append(node)
                stack.append(_LISTED)
                if len(inputs) == 1:
                    stack.append(inputs[0])
                else:
                    stack += inputs[::-1]  # so that the first input is listed first
            else:
                order.append(node)
    return order
