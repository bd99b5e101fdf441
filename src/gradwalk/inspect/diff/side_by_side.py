"""Two compared traces as one, with what was found, for the studio."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from gradwalk.inspect.diff.answer import FoundDifference, TraceDifference
from gradwalk.inspect.trace.beside import Beside, FindingBeside, NodeBeside
from gradwalk.inspect.trace.trace import Edge, Group, Sweep, Trace, TraceNode


def side_by_side(answer: TraceDifference) -> Trace:
    """One trace in which A and B are a group each; `gradwalk.studio.show` draws both."""
    both = Trace()
    both.scalar = False  # numbers are drawn as tensors are: two graphs do not fit the walk of one
    sweep = Sweep(seeds={})
    titles = [letter if name == letter else f"{letter}: {name}"
              for letter, name in zip("AB", answer.names)]  # fmt: skip
    first_b = _laid(both, sweep, answer.b, titles[1])  # the studio draws the last root on top
    first_a = _laid(both, sweep, answer.a, titles[0])
    if sweep.seeds:
        both.sweeps = [sweep]
    both.bytes_kept = answer.a.bytes_kept + answer.b.bytes_kept
    findings = [_finding(one, first_a, first_b) for one in answer.findings]
    both.beside = Beside(_nodes(answer, first_a, first_b), findings)
    return both


def _laid(both: Trace, sweep: Sweep, trace: Trace, title: str) -> int:
    """Add the nodes of one trace; return by how much their numbers grow."""
    first, outer = len(both.nodes), len(both.groups)
    both.groups.append(Group(title, "scope", 1, None, ""))
    for group in trace.groups:
        above = outer if group.above is None else group.above + outer + 1
        both.groups.append(dataclasses.replace(group, above=above))

    def shifted(argument: Any) -> Any:
        if not isinstance(argument, Edge):
            return argument
        return Edge(argument.node + first, argument.output)

    for node in trace.nodes:
        inside = outer if node.group is None else node.group + outer + 1
        args = tuple(map(shifted, node.args))
        label = trace.name(node.index)  # as the report names it
        both.add(dataclasses.replace(_as_tensor(node), args=args, group=inside, label=label))
    both.names.update({index + first: name for index, name in trace.names.items()})
    for what, nodes in trace.reduced.items():
        both.reduced.setdefault(what, []).extend(index + first for index in nodes)
    for last in trace.sweeps[-1:]:
        seeds = zip(last.seeds, _arrays(last.seeds.values()))
        sweep.seeds.update({shifted(edge): seed for edge, seed in seeds})
        sweep.visits += [index + first for index in last.visits]
        sweep.grads.update({i + first: _arrays(g) for i, g in last.grads.items()})
        sweep.pushed.update({i + first: tuple(_arrays(p)) for i, p in last.pushed.items()})
    return first


def _as_tensor(node: TraceNode) -> TraceNode:
    """A node of a graph of numbers as one of 0-d tensors."""
    metas = tuple((shape, "float64" if dtype == "float" else dtype) for shape, dtype in node.metas)
    return dataclasses.replace(node, metas=metas, values=_arrays(node.values))


def _arrays(kept: Any) -> list[Any]:
    return [np.asarray(x, np.float64) if isinstance(x, int | float) else x for x in kept]


def _nodes(answer: TraceDifference, first_a: int, first_b: int) -> list[NodeBeside]:
    marked: dict[int, NodeBeside] = {}
    for b, (a, apart) in answer.counterparts.items():
        marked.setdefault(a + first_a, NodeBeside(a + first_a, b + first_b, None, None, ""))
        marked[b + first_b] = NodeBeside(b + first_b, a + first_a, None, apart, "")
    for row in answer.operations:
        a, b = row.a.node + first_a, row.b.node + first_b
        marked[a] = NodeBeside(a, b, None, None, row.verdict)
        marked[b] = NodeBeside(b, a, row.own, row.accumulated, row.verdict)
    for one in answer.findings:
        word = one.kind if one.kind in ("precision", "gradient") else "differs"
        for place, first in ((one.a, first_a), (one.b, first_b)):
            if place is None:
                continue
            index = place.node + first
            before = marked.get(index) or NodeBeside(index, None, one.own, one.accumulated, word)
            marked[index] = dataclasses.replace(before, verdict=word)
    return [marked[index] for index in sorted(marked)]


def _finding(one: FoundDifference, first_a: int, first_b: int) -> FindingBeside:
    places = [(one.b, first_b), (one.a, first_a)]
    nodes = tuple(place.node + first for place, first in places if place is not None)
    at = one.b or one.a
    return FindingBeside(
        kind=one.kind,
        layer="" if at is None else f"{at.op} {at.module}".strip(),
        nodes=nodes,
        text=f"{one.what} {one.why}",
        line="" if at is None or at.line is None else str(at.line),
        chain="",
        fix=one.fix,
    )
