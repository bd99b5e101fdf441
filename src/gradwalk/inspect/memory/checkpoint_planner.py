"""Plan checkpoints: cut a computation into segments so that live memory fits a budget.

The computation is a row of units: module calls, and what is computed between them. A unit is either
kept (what it saves stays alive) or part of a checkpointed segment (its arguments stay alive, and
what it saves lives only while the segment runs, in forward and again in backward). Dynamic
programming over the units finds the choice that recomputes least: for every number of bytes in use
it keeps the cheapest prefix. Memory shared by two units may count twice there, never too little;
the final plan is then simulated exactly.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from gradwalk.engine.checkpoint import checkpoint
from gradwalk.graph.source import SourceLine
from gradwalk.inspect.memory.liveness import Regions, Saving, operations
from gradwalk.inspect.report import Report
from gradwalk.inspect.trace.array_statistics import in_bytes
from gradwalk.inspect.trace.trace import Trace, TraceNode

LARGEST_SHARE = 1 / 3  # of all bytes: a unit that keeps more is opened, if it has modules inside
WAYS = 400  # plans to follow per unit; of more, a spread over the bytes
BACKWARD = 2.0  # times the forward, where nothing was timed


@dataclass
class Unit:
    """A module call, or what is computed between two of them."""

    name: str  # "" between modules
    group: int | None  # the module call
    nodes: list[TraceNode]
    cost: float  # of its forward: seconds, or operations
    own: dict[int, int] = field(default_factory=dict)  # memory it made and keeps -> bytes
    given: dict[int, int] = field(default_factory=dict)  # memory it was given and keeps -> bytes

    @property
    def line(self) -> SourceLine | None:
        """Of its first operation."""
        return self.nodes[0].line


@dataclass
class Segment:
    """Consecutive units to be wrapped in one checkpoint."""

    first: int  # position among the plan's units
    last: int
    modules: list[str]
    line: SourceLine | None
    keeps: int  # bytes of its arguments
    frees: int  # bytes that are no longer kept
    cost: float  # of computing it again

    def __str__(self) -> str:
        inside = self.modules
        return inside[0] if len(inside) == 1 else f"{inside[0]} … {inside[-1]}"


@dataclass
class CheckpointPlan(Report):
    """The modules to wrap in `gradwalk.checkpoint`, the resulting peak and the cost."""

    budget: int
    peak: int  # bytes, predicted
    without: int  # the peak if nothing is checkpointed
    segments: list[Segment]
    recomputed: float  # by all of forward and backward: 0.33 if every forward is done twice
    timed: bool  # whether that is measured time, or a count of operations
    units: list[str] = field(default_factory=list)  # the modules, in order
    _between: list[int] = field(default_factory=list)  # units after which something is computed

    def run(self, modules: Sequence[Callable[[Any], Any]], x: Any, under: str = "") -> Any:
        """modules[-1](...(modules[0](x))), checkpointed as planned.

        `modules` are those that were recorded one behind the other, such as an nn.Sequential; if
        they are a part of the model, `under` is its name: `plan.run(model.blocks, x, "blocks")`.
        """
        if not under and len(self.units) == len(modules):
            names = self.units  # also of modules that lie in no other
        else:
            names = [f"{under}.{k}" if under else str(k) for k in range(len(modules))]
        # A module that no gradient goes through, such as a Flatten at the front, is not in a plan.
        place = {self.units.index(name): k for k, name in enumerate(names) if name in self.units}
        if not place or (not under and len(place) != len(self.units)):
            raise ValueError(
                f"the plan covers {len(self.units)} modules ({', '.join(self.units[:6])}, ...), "
                f"not these {len(modules)}. Fix: pass `under`, the name of the module that holds "
                "them, or wrap what `segments` lists by hand."
            )
        if any(position in self._between for position in sorted(place)[:-1]):
            raise ValueError(
                "the model computes something else between these modules, which `run` would skip. "
                "Fix: wrap what `segments` lists by hand, each with its own computation."
            )
        starts = {
            place[segment.first]: place[segment.last]
            for segment in self.segments
            if segment.first in place and segment.last in place
        }
        at = 0
        while at < len(modules):
            last = starts.get(at)
            if last is None:
                x = modules[at](x)
                at += 1
            else:
                x = checkpoint(_chain, list(modules)[at : last + 1], x)
                at = last + 1
        return x

    def __str__(self) -> str:
        if not self.segments:
            peak = in_bytes(self.peak)
            return f"nothing to checkpoint: {peak} fits into {in_bytes(self.budget)}"
        lines = [
            f"checkpoint {len(self.segments)} segment(s): at most {in_bytes(self.peak)} alive "
            f"instead of {in_bytes(self.without)}",
            f"recomputes {self.recomputed:.0%} of a step, "
            + ("as timed" if self.timed else "by its operations (record(timing=True) measures)"),
        ]
        for s in self.segments:
            lines.append(f"  {s!s:<40} keeps {in_bytes(s.keeps):>9}, frees {in_bytes(s.frees):>9}")
        return "\n".join(lines)


def _chain(modules: list[Any], x: Any) -> Any:
    for module in modules:
        x = module(x)
    return x


def make_plan(trace: Trace, saving: Saving, budget: int) -> CheckpointPlan:
    """The cheapest plan that stays within a budget; ValueError if there is none."""
    if isinstance(budget, bool) or not isinstance(budget, (int, float)):
        raise TypeError(f"the budget is a number of bytes, such as 64 * 2**20, not {budget!r}")
    if trace.regions:
        raise ValueError(
            "this recording has checkpointed regions already. Fix: plan from a recording of the "
            "model without them."
        )
    timed = bool(trace.seconds)
    units = _units(trace, saving, timed)
    without = _peak(saving, units, [])
    ranges = [] if without <= budget else _within(saving, units, budget)
    forward = sum(unit.cost for unit in units)
    again = sum(units[k].cost for first, last in ranges for k in range(first, last + 1))
    backward = sum(trace.sweep.seconds.values()) if timed and trace.sweeps else BACKWARD * forward
    named = [k for k, unit in enumerate(units) if unit.name]
    number = {k: position for position, k in enumerate(named)}
    segments = []
    for first, last in ranges:
        inside = [k for k in named if first <= k <= last]
        nodes = [node for k in range(first, last + 1) for node in units[k].nodes]
        kept = {s.memory: s.bytes for n in nodes for s in saving.kept.get(n.index, ())}
        arguments = saving.read_by(nodes)
        segments.append(
            Segment(
                number[inside[0]],
                number[inside[-1]],
                [units[k].name for k in inside],
                units[first].line,
                sum(a.bytes for a in arguments),
                sum(kept.values()) - sum(kept.get(a.memory, 0) for a in arguments),
                sum(units[k].cost for k in range(first, last + 1)),
            )
        )
    return CheckpointPlan(
        budget,
        _peak(saving, units, ranges),
        without,
        segments,
        again / (forward + backward) if forward + backward else 0.0,
        timed,
        [units[k].name for k in named],
        [number[k] for k in named if k + 1 < len(units) and not units[k + 1].name],
    )


# -- units -----------------------------------------------------------------------------------------


def _units(trace: Trace, saving: Saving, timed: bool) -> list[Unit]:
    """Split the computation into units, none of which saves too large a share."""
    sizes = {n.index: sum(s.bytes for s in saving.kept.get(n.index, ())) for n in saving.nodes}
    total = sum(sizes.values()) or 1
    inside = {group.above for group in trace.groups if group.above is not None}
    opened: set[int | None] = set()
    while True:
        units = _row(trace, saving, opened, timed)
        large = {
            unit.group
            for unit in units
            if unit.group in inside
            and sum(sizes[n.index] for n in unit.nodes) > LARGEST_SHARE * total
        }
        if not large:
            break
        opened |= large
    for unit in units:  # the memory that it saves: its own outputs and its operands
        given = {s.memory for s in saving.read_by(unit.nodes)}
        for saved in (s for node in unit.nodes for s in saving.kept.get(node.index, ())):
            (unit.given if saved.memory in given else unit.own)[saved.memory] = saved.bytes
    return units


def _row(trace: Trace, saving: Saving, opened: set[int | None], timed: bool) -> list[Unit]:
    """Assign each node to its outermost unopened group, and merge neighbours of one group."""
    units: list[Unit] = []
    for node in saving.nodes:
        groups = []
        at = node.group
        while at is not None:
            groups.append(at)
            at = trace.groups[at].above
        group = next((g for g in reversed(groups) if g not in opened), None)
        if not units or units[-1].group != group:
            units.append(Unit("" if group is None else trace.groups[group].name, group, [], 0.0))
        units[-1].nodes.append(node)
        units[-1].cost += trace.seconds.get(node.index, 0.0) if timed else operations(trace, node)
    return units


def _peak(saving: Saving, units: list[Unit], ranges: list[tuple[int, int]]) -> int:
    """The simulated peak of live memory."""
    regions = Regions()
    for number, (first, last) in enumerate(ranges):
        nodes = [node for k in range(first, last + 1) for node in units[k].nodes]
        regions.of_node.update({node.index: number for node in nodes})
        regions.kept[number] = saving.read_by(nodes)
    return max((moment.bytes for moment in saving.timeline(regions, held=True)), default=0)


def _within(saving: Saving, units: list[Unit], budget: int) -> list[tuple[int, int]]:
    """The cheapest segments whose simulated peak fits the budget."""
    aim = budget
    while (ranges := _cheapest(saving, units, aim)) is not None:
        if _peak(saving, units, ranges) <= budget:
            return ranges
        aim = int(aim * 0.97)
    raise ValueError(_too_small(saving, units, budget))


# -- the choice ------------------------------------------------------------------------------------


@dataclass(slots=True)
class _State:
    """A plan for the first units."""

    held: int  # bytes
    cost: float
    before: _State | None
    segment: tuple[int, int] | None  # the last thing: a segment, or a unit that is kept

    @property
    def kept(self) -> bool:
        """Whether the last unit is kept: its outputs are alive anyway."""
        return self.before is not None and self.segment is None


def _cheapest(saving: Saving, units: list[Unit], budget: int) -> list[tuple[int, int]] | None:
    """The segments of the cheapest plan, None if no plan stays within the budget."""
    if budget <= 0:
        return None
    ways: list[dict[tuple[int, bool], _State]] = [{} for _ in range(len(units) + 1)]
    _offer(ways[0], _State(0, 0.0, None, None))
    for at, unit in enumerate(units):
        alive: dict[int, int] = units[at - 1].own if at else {}
        sizes = _sizes_from(saving, units, at) if unit.name else []
        for state in _frontier(ways[at]):
            shared = alive if state.kept else {}
            given = sum(size for memory, size in unit.given.items() if memory not in shared)
            held = state.held + given + sum(unit.own.values())
            if held <= budget:
                _offer(ways[at + 1], _State(held, state.cost, state, None))
            cost = state.cost
            for last, (arguments, inner) in enumerate(sizes, at):
                cost += units[last].cost
                kept = sum(size for memory, size in arguments if memory not in shared)
                if state.held + kept + inner > budget:
                    break  # with more units it only grows
                if units[last].name:
                    way = _State(state.held + kept, cost, state, (at, last))
                    _offer(ways[last + 1], way)
    best = min(ways[-1].values(), key=lambda state: (state.cost, state.held), default=None)
    if best is None:
        return None
    ranges = []
    walk: _State | None = best
    while walk is not None:
        if walk.segment is not None:
            ranges.append(walk.segment)
        walk = walk.before
    return ranges[::-1]


def _sizes_from(
    saving: Saving, units: list[Unit], first: int
) -> list[tuple[list[tuple[int, int]], int]]:
    """For segments from one unit to each later one: the arguments, and the bytes kept inside."""
    start = units[first].nodes[0].index
    arguments: dict[int, int] = {}
    inner: dict[int, int] = {}
    sizes = []
    for unit in units[first:]:
        # What was made before the segment is an argument; nodes only read what came before them.
        for place in saving.read_by(unit.nodes):
            if saving.made_by[place.memory] < start:
                arguments[place.memory] = place.bytes
        for memory, size in (*unit.own.items(), *unit.given.items()):
            if memory not in arguments:
                inner[memory] = size
        sizes.append((list(arguments.items()), sum(inner.values())))
    return sizes


def _offer(ways: dict[tuple[int, bool], _State], state: _State) -> None:
    known = ways.get((state.held, state.kept))
    if known is None or state.cost < known.cost:
        ways[state.held, state.kept] = state


def _frontier(ways: dict[tuple[int, bool], _State]) -> list[_State]:
    """The Pareto front of bytes and cost."""
    front: list[_State] = []
    for kept in (True, False):
        lowest = math.inf
        best: list[_State] = []
        mine = (state for state in ways.values() if state.kept is kept)
        for state in sorted(mine, key=lambda state: (state.held, state.cost)):
            if state.cost < lowest:
                best.append(state)
                lowest = state.cost
        if len(best) > WAYS:  # the first holds least and the last costs least: both stay
            best = [best[k * (len(best) - 1) // (WAYS - 1)] for k in range(WAYS)]
        front += best
    return front


def _too_small(saving: Saving, units: list[Unit], budget: int) -> str:
    """The error for a budget that is too small, with the smallest that works."""
    low, high = int(budget), _peak(saving, units, [])
    smallest = high
    while high - low > max(1, high // 500):
        middle = (low + high) // 2
        ranges = _cheapest(saving, units, middle)
        if ranges is None:
            low = middle
        else:
            high = middle
            smallest = min(smallest, _peak(saving, units, ranges))
    return (
        f"no checkpoints of these {len([u for u in units if u.name])} modules get below "
        f"{in_bytes(smallest)}; the budget is {in_bytes(budget)}. Fix: a smaller batch, smaller "
        "modules, or a larger budget."
    )
