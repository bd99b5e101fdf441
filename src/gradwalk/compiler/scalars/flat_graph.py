"""A recorded graph of Values as flat lists of steps.

A step computes one Value: by an op, or by a whole *sum of products*. In

    act = sum((w * x for w, x in zip(ws, xs)), b)

every `w * x` and every partial sum is used once, by the next partial sum, so the Values of `act`
are one step with the terms b, w₀·x₀, w₁·x₁, ... The order of additions stays.

Every operand of a step is an edge: forward reads a number along it, backward sends a gradient. An
edge carries the gradient of its step × a factor (`local_rules.py`). `Value.backward` would add it
when it visits the edge's user, a Value of the step: it goes through the walk from its end.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, chain, count
from typing import Any

from gradwalk.compiler.scalars.local_rules import ADD, MUL, OPERAND, RESULT, Rules, rules_of
from gradwalk.engine.errors import made_at
from gradwalk.ops.core.op import Op, OpError
from gradwalk.scalar.push import CONSTANT, inner_first
from gradwalk.scalar.value import Value

PLAIN, PRODUCT = 0, 1  # the kinds of terms of a sum
_Edges = tuple[list[int], list[int], bytearray]  # the reads and users of a sum, and its terms


@dataclass(frozen=True)
class Shape:
    """What the steps of one row have in common."""

    rules: Rules
    terms: bytes = b""  # of a sum of products: PLAIN or PRODUCT, in order of addition

    @cached_property
    def pairs(self) -> list[int]:
        """The edges a₀, b₀, a₁, b₁, ... of the terms; a plain one has the 1 after the last edge."""
        firsts = list(accumulate([1 + kind for kind in self.terms], initial=0))
        terms = zip(firsts[:-1], self.terms, strict=True)
        return [e for a, kind in terms for e in (a, a + 1 if kind == PRODUCT else firsts[-1])]

    @cached_property
    def factors(self) -> list[int]:
        """The factor of each edge: an operand, the constant of an edge after those, −1: the result.
        In a sum it is the other edge of the term."""
        if self.terms:
            a, b = self.pairs[::2], self.pairs[1::2]
            other = dict(zip(a + b, b + a, strict=True))
            return [other[edge] for edge in range(len(a) + sum(self.terms))]
        return [
            factor.operand if factor.kind in (OPERAND, RESULT) else k
            for k, factor in enumerate(self.rules.factors, len(self.rules.factors))
        ]


@dataclass
class Steps:
    """The graph. A number below `len(walk)` is a Value of the walk, the others are leaves."""

    walk: list[Value]  # with inputs, each after its own inputs
    leaves: list[Value]  # in the order in which the walk first uses them
    nodes: list[int]  # the Value that each step computes
    reads: list[Sequence[int]]  # the Values that each step reads, one for each edge
    users: list[int]  # of each edge: the Value of the walk that has it as an input
    shapes: list[int]  # of each step: a position in `kinds`
    kinds: list[Shape]

    def __post_init__(self) -> None:
        self.first_edge = list(accumulate(map(len, self.reads), initial=0))  # and the last's end
        self.targets = list(chain.from_iterable(self.reads))  # of each edge: the Value it reads
        self.constants = {  # those leaves that are numbers of expressions, like the 2 of `2 * x`
            n for n, v in enumerate(self.leaves, len(self.walk)) if v._mark == CONSTANT
        }
        height_of = [0] * (len(self.walk) + len(self.leaves))
        self.step_of = [-1] * len(height_of)  # of each Value; −1: a leaf, or inside a step
        self.heights = []  # of each step: 1 + the highest of its operands
        for step, (v, read) in enumerate(zip(self.nodes, self.reads, strict=True)):
            self.step_of[v] = step
            height_of[v] = height = 1 + max([height_of[target] for target in read])
            self.heights.append(height)

    @property
    def root(self) -> int:
        """The number of the Value that the graph was recorded for."""
        return max(len(self.walk) - 1, 0)  # without a walk it is the only leaf


def read(root: Value) -> Steps:
    """The steps of the graph behind a Value."""
    walk = inner_first(root)
    number = defaultdict(count(len(walk)).__next__, zip(walk, range(len(walk)), strict=True))
    operands = [  # leaves get the next numbers; slots are several times faster than `inputs`
        (number[v._left],)
        if v._right is None
        else (number[v._left], number[v._right])
        if v._extra is None
        else tuple([number[operand] for operand in v.inputs])
        for v in walk
    ]
    leaves = list(number)[len(walk) :] or [root]
    rules, rules_of = _rules_of_each(walk)
    sums, inside = _sums(operands, [rules[n] for n in rules_of], len(leaves))
    nodes = [v for v, hidden in enumerate(inside) if not hidden]
    alone = [bytes([PRODUCT] if rule is MUL else []) for rule in rules]  # the terms of no sum
    kinds: dict[tuple[int, bytes], int] = {}
    reads: list[Sequence[int]] = []
    users: list[int] = []
    shapes: list[int] = []
    for v in nodes:
        rule, some = rules_of[v], operands[v]
        read, by, terms = sums[v] or (some, (v,) * len(some), alone[rule])
        reads.append(read)
        users += by
        shapes.append(kinds.setdefault((rule, bytes(terms)), len(kinds)))
    known = [Shape(rules[rule], terms) for rule, terms in kinds]
    return Steps(walk, leaves, nodes, reads, users, shapes, known)


def _sums(
    operands: list[tuple[int, ...]], rules: list[Rules], leaves: int
) -> tuple[list[_Edges | None], list[bool]]:
    """The edges and terms of each sum, and for each Value of the walk whether it is part of a sum:
    an earlier partial sum or a product, used by that sum alone. A sum goes on with the lists of the
    partial sum it adds to."""
    uses = Counter(chain.from_iterable(operands))
    part = [rule if uses[v] == 1 else None for v, rule in enumerate(rules)] + [None] * leaves
    inside = [False] * len(rules)
    sums: list[_Edges | None] = [None] * len(rules)
    for v, rule in enumerate(rules):
        if rule is not ADD:
            continue
        first, second = rest = operands[v]
        edges = None
        if part[first] is ADD:
            edges, rest, inside[first] = sums[first], (second,), True
        elif part[second] is ADD:
            edges, rest, inside[second] = sums[second], (first,), True
        sums[v] = reads, users, terms = edges or ([], [], bytearray())
        for u in rest:
            if part[u] is MUL:
                inside[u] = True
                reads += operands[u]
                users += (u, u)
                terms.append(PRODUCT)
            else:
                reads.append(u)
                users.append(v)
                terms.append(PLAIN)
    return sums, inside


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
