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

from dataclasses import dataclass
from typing import Any

import numpy as np

from gradwalk.compiler.scalars.local_rules import ADD, MUL, Rules, rules_of
from gradwalk.engine.errors import made_at
from gradwalk.ops.core.op import Op, OpError
from gradwalk.scalar.push import CONSTANT, inner_first
from gradwalk.scalar.value import Value

Offsets = np.ndarray[Any, np.dtype[np.int64]]
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
    constants: set[int]  # those leaves that are numbers of expressions, like the 2 of `2 * x`
    nodes: list[int]  # the Value that each step computes
    heights: list[int]  # 1 + the highest of its operands
    shapes: list[int]  # a position in `kinds`
    first_edge: list[int]  # and the end of the last one
    targets: list[int]  # of each edge: the Value that is read
    turns: Offsets  # of each edge: those with higher ones are added later
    kinds: list[Shape]
    step_of: list[int]  # of each Value; −1: a leaf, or inside a step

    @property
    def root(self) -> int:
        """The number of the Value that the graph was recorded for."""
        return max(len(self.walk) - 1, 0)  # without a walk it is the only leaf


def read(root: Value) -> Steps:
    """The steps of the graph behind a Value."""
    walk = inner_first(root)
    inputs = _inputs(walk)
    leaves = list(dict.fromkeys([v for some in inputs for v in some if v._left is None]))
    leaves = leaves or [root]
    number: dict[Any, int] = dict(zip((*walk, *leaves), range(len(walk) + len(leaves))))
    number[None] = -1  # where an op has fewer operands than others
    operands = np.empty((len(walk), max(map(len, inputs), default=1)), np.int64)
    for k in range(operands.shape[1]):
        column = [some[k] if len(some) > k else None for some in inputs]
        operands[:, k] = list(map(number.__getitem__, column))
    rules, numbers = _rules_of_each(walk)
    return _GraphReader(walk, leaves, operands, rules, np.array(numbers, np.int64)).steps()


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


class _GraphReader:
    """Finds sums of products, and lists the steps."""

    def __init__(
        self,
        walk: list[Value],
        leaves: list[Value],
        operands: Offsets,  # (values of the walk, most operands)
        rules: list[Rules],
        rules_of: Offsets,  # (values of the walk,)
    ) -> None:
        self.walk, self.leaves = walk, leaves
        self.operands = operands
        self.rules, self.rules_of = rules, rules_of
        self.count, self.most = operands.shape
        self.all = self.count + len(leaves)
        # Every use of a Value: its user, and as which operand.
        self.users, self.position = np.nonzero(operands >= 0)
        self.used = operands[self.users, self.position]
        self.uses = np.bincount(self.used, minlength=self.all)

    def steps(self) -> Steps:
        is_sum, is_product = (
            np.isin(self.rules_of, [n for n, r in enumerate(self.rules) if r is wanted])
            for wanted in (ADD, MUL)
        )
        before = self._before(is_sum)
        # Inside a sum: the earlier partial sums, and products that are used by it alone.
        link = before[self.users] == self.used
        product = (
            is_sum[self.users] & (self.uses[self.used] == 1) & self._walked(is_product, self.used)
        )
        inside = np.zeros(self.count, bool)
        inside[self.used[link | product]] = True
        owner = self._owners(before, product)
        # The edges, by step and then by order of addition; those of a product stand where it does.
        users, position = self.users, self.position
        edge = ~(link | product)
        at_user, at_position = np.arange(self.count), np.zeros(self.count, np.int64)
        at_user[self.used[product]] = users[product]
        at_position[self.used[product]] = position[product]
        in_product = inside & is_product
        order_in_term = np.where(in_product[users], at_position[users], position)
        key = owner[users] * self.count + at_user[users]
        key = (key * self.most + order_in_term) * self.most + position
        order = np.flatnonzero(edge)[np.argsort(key[edge], kind="stable")]
        nodes = np.flatnonzero(~inside)
        step_of = np.full(self.all, -1)
        step_of[nodes] = np.arange(len(nodes))
        counts = np.bincount(step_of[owner[users[order]]], minlength=len(nodes))
        first_edge = np.concatenate(([0], np.cumsum(counts))).tolist()
        # One term of a sum is one edge, or the two of a product.
        lone_product = is_product & ~inside
        term = np.where(in_product[users] | lone_product[users], PRODUCT, PLAIN)[order]
        starts_term = (term == PLAIN) | (position[order] == 0)
        targets = self.used[order].tolist()
        shapes, kinds = self._shapes(nodes, is_sum | is_product, term, starts_term, first_edge)
        return Steps(
            walk=self.walk,
            leaves=self.leaves,
            constants={n for n, v in enumerate(self.leaves, self.count) if v._mark == CONSTANT},
            nodes=nodes.tolist(),
            heights=self._heights(nodes.tolist(), first_edge, targets),
            shapes=shapes,
            first_edge=first_edge,
            targets=targets,
            turns=(self.count - users[order]) * self.most + position[order],
            kinds=kinds,
            step_of=step_of.tolist(),
        )

    def _walked(self, flags: Any, values: Offsets) -> Any:
        """The flags of some Values; those of leaves are False."""
        return np.append(flags, np.zeros(self.all - self.count, bool))[values]

    def _before(self, is_sum: Any) -> Offsets:
        """For each partial sum the one it adds to, if nothing else uses that; else −1."""
        goes_on = is_sum[self.users] & (self.uses[self.used] == 1) & self._walked(is_sum, self.used)
        before = np.full(self.count, -1)
        for k in reversed(range(self.most)):  # if both operands are such sums, the first
            these = goes_on & (self.position == k)
            before[self.users[these]] = self.used[these]
        return before

    def _owners(self, before: Offsets, product: Any) -> Offsets:
        """For each Value the last Value of its step."""
        owner = list(range(self.count))
        later = np.flatnonzero(before >= 0)[::-1]
        for v, earlier in zip(later.tolist(), before[later].tolist(), strict=True):
            owner[earlier] = owner[v]
        owners = np.array(owner, np.int64)
        owners[self.used[product]] = owners[self.users[product]]
        return owners

    def _shapes(
        self, nodes: Offsets, sums: Any, term: Any, starts_term: Any, first_edge: list[int]
    ) -> tuple[list[int], list[Shape]]:
        """The shape of each step, and all shapes."""
        terms = term[starts_term].astype(np.uint8).tobytes()
        first = np.concatenate(([0], np.cumsum(starts_term)))[first_edge].tolist()
        numbers: dict[Any, int] = {}
        kinds: list[Shape] = []
        shapes = []
        for step, (rules, is_sum) in enumerate(
            zip(self.rules_of[nodes].tolist(), sums[nodes].tolist(), strict=True)
        ):
            key = (rules, terms[first[step] : first[step + 1]] if is_sum else b"")
            number = numbers.get(key)
            if number is None:
                number = numbers[key] = len(kinds)
                kinds.append(Shape(self.rules[rules], key[1]))
            shapes.append(number)
        return shapes, kinds

    def _heights(self, nodes: list[int], first_edge: list[int], targets: list[int]) -> list[int]:
        height_of = [0] * self.all
        heights = []
        for step, v in enumerate(nodes):
            read = targets[first_edge[step] : first_edge[step + 1]]
            height = height_of[v] = 1 + max([height_of[target] for target in read])
            heights.append(height)
        return heights
