"""Closed groups: draw every module call or scope as one node."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from gradwalk.printers.graphs.view import GraphView, ViewEdge, ViewNode


def close_groups(view: GraphView, trace: Any, depth: int = 1) -> GraphView:
    """The same graph with every group at depth `depth` drawn as one node.

    Depth 1 shows the outermost calls, 2 the calls inside them, and so on. A shallower group is
    closed too if it contains no groups; else its own operations stay visible. Leaves that only one
    group uses, its parameters, are closed in it.
    """
    home = _homes(view, trace, depth)
    inside: dict[int, list[ViewNode]] = {}
    for node in view.nodes:
        group = home[node.index]
        if group is not None:
            inside.setdefault(group, []).append(node)
    # The operations of one call are contiguous, so a group can replace its last one: its inputs
    # come before it, its consumers after.
    place: dict[int, int] = {}
    made: list[tuple[ViewNode, list[ViewNode]]] = []
    for node in view.nodes:
        group = home[node.index]
        members = [node] if group is None else inside[group]
        if members[-1] is not node:
            continue
        for member in members:
            place[member.index] = len(made)
        if group is None:
            made.append((replace(node, index=len(made)), members))
        else:
            made.append((_closed(view, members, trace.groups[group], len(made)), members))
    for node, members in made:
        node.operands = _joined(node, members, place)
    nodes = [node for node, _ in made]
    return GraphView(nodes, place[view.root], scalar=view.scalar, swept=view.swept)


def _homes(view: GraphView, trace: Any, depth: int) -> list[int | None]:
    """The group that contains each node; None where it stays visible."""
    home: list[int | None] = []
    opened = {group.above for group in trace.groups}  # groups that contain groups
    for node in view.nodes:
        path: list[int] = []
        at = trace.nodes[node.key].group
        while at is not None:
            path.append(at)
            at = trace.groups[at].above
        if len(path) >= depth:
            home.append(path[-depth])
        else:
            home.append(path[0] if path and path[0] not in opened else None)
    users: dict[int, set[int | None]] = {}
    lines: dict[int, set[str]] = {}  # of the operations that use it
    for edge in view.edges:
        users.setdefault(edge.source, set()).add(home[edge.target])
        lines.setdefault(edge.source, set()).add(view.nodes[edge.target].line)
    for node in view.nodes:
        if node.is_leaf:
            (only, *others) = users.get(node.index, {None})
            # Inputs are drawn. What belongs to the group is not: its parameters, and what it made
            # itself, such as the mask of a dropout.
            made_inside = not node.line or node.line in lines.get(node.index, ())
            own = node.needs_grad or made_inside
            home[node.index] = only if own and not others else None
    return home


def _closed(view: GraphView, members: list[ViewNode], group: Any, index: int) -> ViewNode:
    last = members[-1]
    operations = sum(1 for m in members if not m.is_leaf)
    leaves = sum(1 for m in members if m.is_leaf and m.needs_grad)
    detail = f"{operations} op{'s' * (operations != 1)}"
    if leaves:
        detail += f", {leaves} parameter{'s' * (leaves != 1)}"
    return ViewNode(
        index,
        group.name,
        group.class_name or group.kind,
        value=last.value,
        grad=last.grad,
        shape=last.shape,
        needs_grad=any(m.needs_grad for m in members),
        line=last.line,
        group=last.group,
        detail=detail,
        key=last.key,
    )


def _joined(node: ViewNode, members: list[ViewNode], place: dict[int, int]) -> tuple[Any, ...]:
    """The operands of a new node; a group has one edge from each node it reads."""
    if not node.detail:
        return tuple(
            replace(o, source=place[o.source], target=node.index) if isinstance(o, ViewEdge) else o
            for o in members[0].operands
        )
    edges: dict[int, ViewEdge] = {}
    for member in members:
        for edge in member.edges:
            source = place[edge.source]
            if source == node.index:
                continue
            if source in edges:
                edges[source].pushed = None  # several contributions have no single norm
            else:
                pushed = edge.pushed
                edges[source] = ViewEdge(source, node.index, len(edges), edge.output, None, pushed)
    return tuple(edges.values())
