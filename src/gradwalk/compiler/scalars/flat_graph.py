"""A recorded graph of Values as flat lists of steps.

A step computes one Value: by an op, or by a whole *sum of products*. In

    act = sum((w * x for w, x in zip(ws, xs)), b)

every `w * x` and every partial sum is used once, by the next partial sum, so the Values of `act`
are one step with the terms b, w₀·x₀, w₁·x₁, ... The order of additions stays.

Every operand of a step is an edge: forward reads a number along it, backward sends a gradient. An
edge carries the gradient of its step × a factor (`local_rules.py`), and `turn` is when the walk of
`Value.backward` would have added it.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

from gradwalk.compiler.scalars.local_rules import ADD, MUL, Rules, rules_of
from gradwalk.engine.errors import made_at
from gradwalk.ops.core.op import Op, OpError
from gradwalk.scalar.push import CONSTANT, inner_first
from gradwalk.scalar.value import Value

PLAIN, PRODUCT = 0, 1  # the kinds of terms of a sum


@dataclass(frozen=True)
class Shape:
    """What the steps of one row have in common."""

    rules: Rules
    terms: bytes = b""  # of a sum of products: PLAIN or PRODUCT, in order of addition


@dataclass
class Steps:
    """The graph. A number below `len(walk)` is a Value of the walk, the others are leaves."""

    walk: list[Value]  # with inputs, each after its own inputs
    leaves: list[Value]  # in the order in which the walk first uses them
    nodes: list[int] = field(default_factory=list)  # the Value that each step computes
    heights: list[int] = field(default_factory=list)  # 1 + the highest of its operands
    shapes: list[int] = field(default_factory=list)  # a position in `kinds`
    first_edge: list[int] = field(default_factory=lambda: [0])  # and the end of the last one
    targets: list[int] = field(default_factory=list)  # of each edge: the Value that is read
    turns: list[int] = field(default_factory=list)  # of each edge: higher ones are added later
    kinds: list[Shape] = field(default_factory=list)

    def __post_init__(self) -> None:
        count = len(self.walk) + len(self.leaves)
        self.step_of = [-1] * count  # of each Value; −1: a leaf, or inside a step
        self.constants = {  # those leaves that are numbers of expressions, like the 2 of `2 * x`
            n for n, v in enumerate(self.leaves, len(self.walk)) if v._mark == CONSTANT
        }

    @property
    def root(self) -> int:
        """The number of the Value that the graph was recorded for."""
        return max(len(self.walk) - 1, 0)  # without a walk it is the only leaf


def read(root: Value) -> Steps:
    """The steps of the graph behind a Value."""
    walk = inner_first(root)
    inputs = _inputs(walk)
    leaves = list(dict.fromkeys([v for some in inputs for v in some if v._left is None])) or [root]
    number = dict(zip((*walk, *leaves), range(len(walk) + len(leaves)), strict=True))
    operands = [list(map(number.__getitem__, some)) for some in inputs]
    rules, rules_of = _rules_of_each(walk)
    before, inside = _parts_of_sums(operands, [rules[n] for n in rules_of])
    steps = Steps(walk, leaves)
    most = max(map(len, operands), default=1)
    height_of = [0] * len(number)
    kinds: dict[tuple[int, bytes], int] = {}
    for v, hidden in enumerate(inside):
        if hidden:
            continue
        targets, turn, terms = operands[v], (len(walk) - v) * most, b""
        turns = list(range(turn, turn + len(targets)))
        rule = rules[rules_of[v]]
        if rule is ADD:
            targets, turns, terms = _sum(v, operands, before, inside, most)
        elif rule is MUL:
            terms = bytes([PRODUCT])
        height_of[v] = 1 + max([height_of[target] for target in targets])
        steps.step_of[v] = len(steps.nodes)
        steps.nodes.append(v)
        steps.heights.append(height_of[v])
        steps.targets += targets
        steps.turns += turns
        steps.first_edge.append(len(steps.targets))
        steps.shapes.append(kinds.setdefault((rules_of[v], terms), len(kinds)))
    steps.kinds += [Shape(rules[rule], terms) for rule, terms in kinds]
    return steps


def _parts_of_sums(operands: list[list[int]], rules: list[Rules]) -> tuple[list[int], list[bool]]:
    """For each Value of the walk the partial sum it adds to, or −1; and whether it is a part of a
    sum itself: an earlier partial sum or a product, used by that sum alone."""
    uses = Counter(chain.from_iterable(operands))
    before, inside = [-1] * len(rules), [False] * len(rules)
    for v, rule in enumerate(rules):
        if rule is ADD:
            for u in operands[v]:
                if u >= len(rules) or uses[u] != 1:
                    continue
                if rules[u] is ADD and before[v] < 0:
                    before[v] = u
                    inside[u] = True
                elif rules[u] is MUL:
                    inside[u] = True
    return before, inside


def _sum(
    v: int, operands: list[list[int]], before: list[int], inside: list[bool], most: int
) -> tuple[list[int], list[int], bytes]:
    """The targets and turns of the edges of a sum, and its terms, in order of addition."""
    sums = [v]
    while before[sums[-1]] >= 0:
        sums.append(before[sums[-1]])
    targets: list[int] = []
    turns: list[int] = []
    terms = bytearray()
    for here in reversed(sums):
        for turn, u in enumerate(operands[here], (len(before) - here) * most):
            if u == before[here]:
                continue
            if u < len(inside) and inside[u]:
                turn = (len(before) - u) * most
                targets += operands[u]
                turns += (turn, turn + 1)
                terms.append(PRODUCT)
            else:
                targets.append(u)
                turns.append(turn)
                terms.append(PLAIN)
    return targets, turns, bytes(terms)


def _inputs(walk: list[Value]) -> list[tuple[Any, ...]]:
    """The inputs of each Value, from its slots: several times faster than `inputs`."""
    return [
        (v._left,) if v._right is None else (v._left, v._right) if v._extra is None else v.inputs
        for v in walk
    ]


def _rules_of_each(walk: list[Value]) -> tuple[list[Rules], list[int]]:
    """The rules in use, and for each Value which of them made it."""
    rules: list[Rules] = []
    known: dict[Any, int] = {}
    numbers = []
    for v in walk:
        key: Any = v.op
        if v._extra is not None:
            if "backward" in v._extra:
                raise _by_hand(v, "has a `_backward` of its own")
            if v.attrs:
                key = (v.op, tuple(v.attrs.items()))
        number = known.get(key)
        if number is None:
            if not isinstance(v.op, Op):
                raise _by_hand(v, f"was made with op {v.op!r}")
            number = known[key] = len(rules)
            rules.append(rules_of(v.op, dict(v.attrs)))
        numbers.append(number)
    return rules, numbers


def _by_hand(v: Value, what: str) -> OpError:
    return OpError(
        f"a Value of this graph {what} (at {made_at(v)}): compile can replay ops only. Define it "
        "with gradwalk.elementwise, which gives it a derivative that can be compiled."
    )
