"""The graphs an engine is tried on: small ones for each mistake, then whole ones."""

from __future__ import annotations

import functools
import json
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

from gradwalk.course.checker import runner
from gradwalk.course.checker.random_graphs import WRITTEN, random_graph
from gradwalk.graph.order import inputs_first
from gradwalk.inspect.expression.parser import parse
from gradwalk.inspect.trace.trace import Trace
from gradwalk.printers.scalars import number
from gradwalk.scalar.value import Value

GRAPHS = Path(__file__).with_name("graphs.toml")
CHECKED_VALUES = Path(__file__).with_name("checked_values.json")
LONG = 20_000  # operations in the longest chain
RANDOM_GRAPHS = 12
EQUAL = "equal"  # stands for an op where two nodes have the same value


class Stage(NamedTuple):
    """A part of the exercise, with its points."""

    key: str
    title: str
    points: int


STAGES = (
    Stage("values", "values", 15),
    Stage("locals", "local derivatives", 20),
    Stage("adding", "adding what arrives", 15),
    Stage("order", "order of visits", 15),
    Stage("graphs", "whole graphs", 15),
    Stage("again", "backward again", 10),
    Stage("long", "long chains", 10),
)
OUT_OF = sum(stage.points for stage in STAGES)


@dataclass(frozen=True)
class GraphTrial:
    """One graph, the calls made on it, and the nodes that are read afterwards."""

    stage: str
    text: str  # for people
    steps: tuple[tuple[Any, ...], ...]
    names: tuple[str, ...]  # of every node
    calls: tuple[tuple[str, int], ...]  # backward, or setting a gradient to zero
    watched: tuple[int, ...]
    source: str = ""  # the expression it was made from
    values: Mapping[str, float] = field(default_factory=dict)
    checked: tuple[float, ...] | None = None  # the numbers PyTorch computed
    inside: str = ""  # the op that it tries between others, or EQUAL

    @functools.cached_property
    def expected(self) -> tuple[float, ...]:
        """Value and gradient of each watched node, one after the other."""
        if self.checked is not None:
            return self.checked
        nodes = runner.compute(Value, self.steps)
        return tuple(runner.numbers_after(nodes, self.calls, self.watched))

    @property
    def request(self) -> tuple[Any, Any, Any]:
        """The request to the learner's process."""
        return self.steps, self.calls, self.watched

    @property
    def ops(self) -> set[str]:
        """The ops it uses."""
        return {step[0] for step in self.steps} - {"leaf"}

    @functools.cached_property
    def trace(self) -> Trace:
        """Its recording; its node names are those of the expression."""
        return parse(self.source).build(self.values).trace()

    def step_text(self, index: int) -> str:
        """One step, as a person writes it: `2 − a`."""
        op, *operands = self.steps[index]
        shown = [self.names[x[0]] if isinstance(x, tuple) else number(x) for x in operands]
        return SPELLED[op].format(*shown)


def in_print(source: str) -> str:
    """An expression as people write it."""
    return source.replace(" * ", "·").replace("*", "·").replace("-", "−")


# How people write each operation.
SPELLED = {op: in_print(text).replace("^", "**") for op, text in WRITTEN.items()}


def trial(
    stage: str,
    source: str,
    values: Mapping[str, float],
    calls: Sequence[str] | None = None,
    leaves_only: bool = False,
) -> GraphTrial:
    """A trial from an expression; `calls` names the nodes that backward is called on.

    In `calls`, `0 x` sets the gradient of x to zero. None: backward of the last node, once.
    """
    root = parse(source).build(values).root
    steps: list[tuple[Any, ...]] = []
    names: list[str] = []
    index: dict[int, int] = {}
    for v in inputs_first([root]):
        if v.inputs:
            assert not isinstance(v.op, str)
            operands = [(index[id(i)],) if id(i) in index else _plain(i.data) for i in v.inputs]
            steps.append((v.op.name, *operands, *map(_plain, v.attrs.values())))
        elif v.label:
            steps.append(("leaf", float(v.data)))
        else:
            continue  # a constant: a plain number where it is used
        index[id(v)] = len(names)
        names.append(v.label)
    called = [names[-1]] if calls is None else calls
    return GraphTrial(
        stage=stage,
        text=_text(source, values) + _calls_in_words(calls or ()),
        steps=tuple(steps),
        names=tuple(names),
        calls=tuple(
            ("zero" if name.startswith("0 ") else "backward", names.index(name.removeprefix("0 ")))
            for name in called
        ),
        watched=tuple(i for i, s in enumerate(steps) if not leaves_only or s[0] == "leaf"),
        source=source,
        values=values,
    )


def _plain(x: float) -> float:
    """Whole numbers as int: people write a**2 and 1 + a."""
    return int(x) if float(x).is_integer() else float(x)


def _text(source: str, values: Mapping[str, float]) -> str:
    return (
        f"{in_print(source)} at {', '.join(f'{name} = {number(x)}' for name, x in values.items())}"
    )


def _calls_in_words(calls: Sequence[str]) -> str:
    parts = [
        f"the gradient of {name[2:]} set to 0" if name.startswith("0 ") else f"backward of {name}"
        for name in calls
    ]
    return f", {', then '.join(parts)}" if parts else ""


# -- what is tried ---------------------------------------------------------------------------------


@functools.lru_cache(maxsize=4)
def trials(seed: int) -> tuple[GraphTrial, ...]:
    """All trials in the order they are run; the seed draws random graphs."""
    given = tomllib.loads(GRAPHS.read_text(encoding="utf-8"))
    drawn = [random_graph(f"{seed}/{i}") for i in range(RANDOM_GRAPHS)]
    return (
        *(trial("values", source, at, calls=()) for source, at in given["one_operation"]),
        *(trial("locals", source, at) for source, at in given["one_operation"]),
        *(trial("adding", source, at) for source, at in given["adding"]),
        *(trial("order", source, at) for source, at in given["order"]),
        *(trial("graphs", source, at) for source, at in (*given["graphs"], *drawn)),
        *(one for op, text, at in given["inside"] for one in _inside(op, text, at)),
        *(replace(trial("graphs", *one), inside=EQUAL) for one in given["equal"]),
        *checked_trials(),
        *(trial("again", s, at, calls, leaves_only=True) for s, at, calls in given["again"]),
        *long_trials(),
    )


def _inside(op: str, expression: str, values: Mapping[str, float]) -> list[GraphTrial]:
    """One operation between others, and twice with the same inputs."""
    steps = "h = 2*a; k = 3*b; " if "b" in values else "h = 2*a; "
    ends = ("f = 4*g", f"q = {expression}; f = 4*g + 5*q")
    made = [trial("graphs", f"{steps}g = {expression}; {end}", values) for end in ends]
    return [replace(one, inside=op) for one in made]


def checked_trials() -> list[GraphTrial]:
    """Graphs whose numbers PyTorch computed, once: learners need no PyTorch.

    `python -m tests.course.freeze` writes the file, and a test computes it again.
    """
    frozen = []
    for entry in json.loads(CHECKED_VALUES.read_text(encoding="utf-8")):
        made = trial("graphs", entry["source"], entry["values"])
        numbers = [x for name in made.names for x in (entry["data"][name], entry["grad"][name])]
        frozen.append(replace(made, checked=tuple(numbers)))
    return frozen


def long_trials() -> list[GraphTrial]:
    """Deep graphs, for engines that recurse, walk every path, or search a list."""
    chain: list[tuple[Any, ...]] = [("leaf", 2.0)]
    for i in range(LONG // 2):
        chain += [("mul", (2 * i,), 1), ("add", (2 * i + 1,), 0)]
    reused: list[tuple[Any, ...]] = [("leaf", 0.5), ("mul", (0,), 1)]
    reused += [("add", (i,), (0,)) for i in range(1, LONG // 10)]
    doubled: list[tuple[Any, ...]] = [("leaf", 1.0), *(("add", (i,), (i,)) for i in range(50))]
    return [
        _long(f"a chain of {LONG:,} operations", chain),
        _long(f"a sum that uses one leaf {LONG // 10:,} times, one after the other", reused),
        _long("v = v + v, 50 times: 2⁵⁰ paths, 100 edges", doubled),
    ]


def _long(text: str, steps: list[tuple[Any, ...]]) -> GraphTrial:
    last = len(steps) - 1
    names = ("x", *(f"v{i}" for i in range(1, last + 1)))
    return GraphTrial("long", text, tuple(steps), names, (("backward", last),), (0, last))
