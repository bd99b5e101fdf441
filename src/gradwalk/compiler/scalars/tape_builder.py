"""From rows of steps to a tape: the forward, then the gradients.

Forward, each row is a fold (sums of products) or a map (any other op). Backward, each row first
*pulls* its gradient: a fold of the contributions of its consumers, in the order in which
`Value.backward` would add them, starting from 0. So every gradient is a sum of products too, and
has the same bits. A gradient with one contribution that is itself a gradient, as in sums, is not
computed: both have the same offset.

A row of one step goes through the same stages number by number: a graph that is one long chain has
as many rows as Values.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Any

import numpy as np

from gradwalk.compiler.scalars.entries import MINUS_ZERO, PLUS_ZERO, Entries
from gradwalk.compiler.scalars.flat_graph import PRODUCT, Offsets, Shape, Steps
from gradwalk.compiler.scalars.kernels import Kernels
from gradwalk.compiler.scalars.lanes import Row, arrange
from gradwalk.compiler.scalars.local_rules import COMPUTED, NOTHING, NUMBER, OPERAND, RESULT


class TapeBuilder:
    """The entries that run, and the offsets of the inputs, the loss and the gradients."""

    def __init__(self, steps: Steps, inputs: list[int], kernels: Kernels) -> None:
        self.steps = steps
        self.inputs = inputs
        self.kernels = kernels
        self.entries = Entries(kernels)
        self.ones, self.zeros = self.entries.ones, self.entries.zeros
        self.rows = arrange(steps)
        # The offsets of the number and the gradient of each Value, of the contribution along each
        # edge and of its factor. Each is an array and, for work number by number, a memoryview of
        # the same memory.
        values, edges = len(steps.step_of), len(steps.targets)
        self.value_at, self.gradient_at = np.zeros((2, values), np.int64)
        self.handed_at, self.factor_at = np.zeros((2, edges), np.int64)
        self.value, self.gradient = self.value_at.data, self.gradient_at.data
        self.handed, self.factor = self.handed_at.data, self.factor_at.data
        self.targets = np.array(steps.targets, np.int64)
        self.first_edge = np.array(steps.first_edge, np.int64)
        self.nodes = np.array(steps.nodes, np.int64)
        self.inputs_at = self._place_leaves()
        for row in self.rows:
            self._forward(row)
        self.loss = self.value[steps.root]
        self._find_factors()
        self._sort_edges()
        self.gradient[steps.root] = self.ones
        for row in reversed(self.rows):
            self._backward(row)
        self.gradients_at = self._gradients()

    def _place_leaves(self) -> int:
        """Slice the constants, then the inputs side by side; return where those begin."""
        steps, entries = self.steps, self.entries
        constants = set(range(len(steps.walk), len(self.value_at))).difference(self.inputs)
        for leaf in constants:
            number = float(steps.leaves[leaf - len(steps.walk)].data)
            self.value[leaf] = entries.constant(number)
        for shape in steps.kinds:
            for factor in shape.rules.factors:
                entries.constant(factor.number)
        entries.begin()
        first = entries.room(len(self.inputs))
        self.value_at[self.inputs] = first + np.arange(len(self.inputs))
        return first

    # -- forward -----------------------------------------------------------------------------------

    def _edges(self, row: Row) -> tuple[Shape, Offsets]:
        """The shape of a row's steps and the numbers of their edges, (lanes, operands)."""
        shape = self.steps.kinds[self.steps.shapes[row[0]]]
        return shape, self.first_edge[row][:, None] + np.arange(shape.edges)

    def _edges_of_one(self, step: int) -> tuple[Shape, range]:
        first = self.steps.first_edge
        return self.steps.kinds[self.steps.shapes[step]], range(first[step], first[step + 1])

    def _forward(self, row: Row) -> None:
        if len(row) == 1:
            return self._forward_one(row[0])
        shape, edges = self._edges(row)
        operands = self.value_at[self.targets[edges]]
        if shape.terms:
            a, b = _factors(shape.terms, operands, self.ones)
            offset = self.entries.fold(a, b, MINUS_ZERO)
        else:
            kernel = self.kernels.forward(shape.rules, vector=True)
            offset = self.entries.map(kernel, list(operands.T))
        self.value_at[self.nodes[row]] = offset

    def _forward_one(self, step: int) -> None:
        shape, edges = self._edges_of_one(step)
        operands = [self.value[self.steps.targets[e]] for e in edges]
        if shape.terms:
            left = iter(operands)
            pairs: list[int] = []
            for kind in shape.terms:
                pairs += (next(left), next(left) if kind == PRODUCT else self.ones)
            offset = self.entries.fold_one(pairs, MINUS_ZERO)
        else:
            offset = self.entries.map_one(self.kernels.forward(shape.rules, vector=False), operands)
        self.value[self.steps.nodes[step]] = offset

    # -- edges, read backward ----------------------------------------------------------------------

    def _find_factors(self) -> None:
        """Find the factor of each edge, and the edges that carry nothing."""
        self.carries = np.ones(len(self.handed_at), bool)
        self.factor_at[:] = self.ones
        of_shape: dict[int, list[int]] = defaultdict(list)
        for step, number in enumerate(self.steps.shapes):
            of_shape[number].append(step)
        for row in of_shape.values():
            shape, edges = self._edges(row)
            operands = self.value_at[self.targets[edges]]
            if shape.terms:
                a, b = _factors(shape.terms, np.arange(shape.edges)[None], -1)
                product = b[0] >= 0
                first, second = a[0][product], b[0][product]
                self.factor_at[edges[:, first]] = operands[:, second]
                self.factor_at[edges[:, second]] = operands[:, first]
                continue
            for k, factor in enumerate(shape.rules.factors):
                if factor.kind == NOTHING:
                    self.carries[edges[:, k]] = False
                elif factor.kind == NUMBER:
                    self.factor_at[edges[:, k]] = self.entries.constant(factor.number)
                elif factor.kind == OPERAND:
                    self.factor_at[edges[:, k]] = operands[:, factor.operand]
                elif factor.kind == RESULT:
                    self.factor_at[edges[:, k]] = self.value_at[self.nodes[row]]

    def _sort_edges(self) -> None:
        """Sort the edges that lead to gradients of inputs, by target and then by turn."""
        steps = self.steps
        wanted = [False] * len(self.value_at)
        for v in self.inputs:
            wanted[v] = True
        carries = self.carries.tolist()
        for step, v in enumerate(steps.nodes):
            first, last = steps.first_edge[step], steps.first_edge[step + 1]
            read = zip(steps.targets[first:last], carries[first:last], strict=True)
            wanted[v] = any(wanted[target] and carrying for target, carrying in read)
        self.wanted = wanted
        going = np.flatnonzero(self.carries & np.array(wanted, bool)[self.targets])
        turns, targets = steps.turns[going], self.targets[going]
        self.going = going[np.argsort(targets * (turns.max(initial=0) + 1) + turns, kind="stable")]
        arriving = np.bincount(targets, minlength=len(self.value_at))
        self.first_arriving = np.concatenate(([0], np.cumsum(arriving)))
        self.first_arriving_list = self.first_arriving.tolist()
        self.going_list = self.going.tolist()

    # -- backward ----------------------------------------------------------------------------------

    def _backward(self, row: Row) -> None:
        """Compute the gradients of a row, and its contributions to its operands."""
        if not any(self.wanted[self.steps.nodes[step]] for step in row):
            return
        if len(row) == 1:
            self._pull_one(self.steps.nodes[row[0]])
            self._hand_back_one(row[0])
        else:
            self._pull(self.nodes[row])
            self._hand_back(row)

    def _pull(self, nodes: Offsets) -> None:
        """Compute the gradients of some Values from the contributions of their consumers.

        Those with fewer contributions than others get 0 × 1 at the end: a sum that starts from +0
        is never −0, so adding +0 changes nothing.
        """
        first = self.first_arriving[nodes]
        counts = self.first_arriving[nodes + 1] - first
        most = int(counts.max())
        if most * len(nodes) > 2 * counts.sum() + self.entries.block:
            few = counts <= most // 2
            self._pull(nodes[few])
            self._pull(nodes[~few])
            return
        if most == 0:
            self.gradient_at[nodes] = self.zeros
            return
        there = np.arange(most) < counts[:, None]
        edges = self.going[np.where(there, first[:, None] + np.arange(most), 0)]
        gradients = np.where(there, self.handed_at[edges], self.zeros)
        factors = np.where(there, self.factor_at[edges], self.ones)
        if most == 1 and (factors == self.ones).all():
            self.gradient_at[nodes] = gradients[:, 0]
        else:
            self.gradient_at[nodes] = self.entries.fold(gradients, factors, PLUS_ZERO)

    def _pull_one(self, v: int) -> None:
        if v == self.steps.root:
            return
        edges = self.going_list[self.first_arriving_list[v] : self.first_arriving_list[v + 1]]
        if not edges:
            self.gradient[v] = self.zeros
        elif len(edges) == 1 and self.factor[edges[0]] == self.ones:
            self.gradient[v] = self.handed[edges[0]]
        else:
            pairs: list[int] = []
            for e in edges:
                pairs += (self.handed[e], self.factor[e])
            self.gradient[v] = self.entries.fold_one(pairs, PLUS_ZERO)

    def _hand_back(self, row: Row) -> None:
        """Set the contribution along each edge of a row: its gradient, or what a rule computes."""
        shape, edges = self._edges(row)
        nodes = self.nodes[row]
        self.handed_at[edges] = self.gradient_at[nodes][:, None]
        for k, factor in enumerate(() if shape.terms else shape.rules.factors):
            targets = self.targets[edges]
            if factor.kind == COMPUTED and any(self.wanted[v] for v in targets[:, k].tolist()):
                kernel, names = self.kernels.backward(shape.rules, k, vector=True)
                offsets = dict(zip(shape.rules.op.inputs, self.value_at[targets].T, strict=True))
                offsets |= {"g": self.gradient_at[nodes], "out": self.value_at[nodes]}
                row_of = [offsets[name] for name in names]
                self.handed_at[edges[:, k]] = self.entries.map(kernel, row_of)

    def _hand_back_one(self, step: int) -> None:
        shape, edges = self._edges_of_one(step)
        v = self.steps.nodes[step]
        for e in edges:
            self.handed[e] = self.gradient[v]
        for k, factor in enumerate(() if shape.terms else shape.rules.factors):
            if factor.kind == COMPUTED and self.wanted[self.steps.targets[edges[k]]]:
                kernel, names = self.kernels.backward(shape.rules, k, vector=False)
                operands = [self.value[self.steps.targets[e]] for e in edges]
                offsets = dict(zip(shape.rules.op.inputs, operands, strict=True))
                offsets |= {"g": self.gradient[v], "out": self.value[v]}
                given = [offsets[name] for name in names]
                self.handed[edges[k]] = self.entries.map_one(kernel, given)

    # -- the gradients of the inputs ---------------------------------------------------------------

    def _gradients(self) -> int:
        """Pull the gradients of the inputs and put them side by side; return where they begin.

        Inputs with the same contributions share a fold, or those with the same factors: then one
        factor of each product is one number for all lanes.
        """
        alone: dict[int, list[int]] = defaultdict(list)  # by number of arrivals
        for group in self._alike(np.array(self.inputs, np.int64)):
            if 2 * len(group) < self.entries.lanes:
                counts = np.diff(self.first_arriving_list)[group]
                alone[int(counts[0])] += group
            else:
                self._pull(np.array(group, np.int64))
        for group in alone.values():
            if group != [self.steps.root]:
                self._pull(np.array(group, np.int64))
        first = self.entries.room(len(self.inputs))
        if self.inputs:
            self.entries.collect_to(first, self.gradient_at[self.inputs])
        return first

    def _alike(self, leaves: Offsets) -> list[list[int]]:
        """Groups of leaves with the same contributions or the same factors."""
        first, last = self.first_arriving[leaves], self.first_arriving[leaves + 1]
        counts = (last - first).tolist()
        # Each list of offsets as one number: a sum with a random weight for every position.
        starts = np.repeat(self.first_arriving[:-1], np.diff(self.first_arriving))
        positions = np.arange(len(self.going)) - starts
        weights = np.random.default_rng(0).integers(1, 2**62, positions.max(initial=0) + 1)
        keys = []
        for offsets in (self.handed_at, self.factor_at):
            sums = np.cumsum(offsets[self.going] * weights[positions])  # wraps around
            sums = np.concatenate(([0], sums))
            keys.append(list(zip(counts, (sums[last] - sums[first]).tolist(), strict=True)))
        sizes = [Counter(some) for some in keys]
        groups: dict[Any, list[int]] = defaultdict(list)
        for leaf, by_gradient, by_factor in zip(leaves.tolist(), *keys, strict=True):
            more = sizes[0][by_gradient] >= sizes[1][by_factor]
            groups[(0, by_gradient) if more else (1, by_factor)].append(leaf)
        return list(groups.values())

    # -- what it is --------------------------------------------------------------------------------

    def explain(self) -> str:
        """What was recorded, and what runs."""
        steps, entries = self.steps, self.entries
        lanes = sum(len(row) for row in self.rows if len(row) > 1)
        return "\n".join(
            [
                f"{len(steps.walk)} operations on {len(self.inputs)} leaves and "
                f"{len(steps.leaves) - len(self.inputs)} constants",
                f"{len(steps.nodes)} steps (a sum of products is one), "
                f"{max(steps.heights, default=0)} levels",
                f"{len(self.rows)} rows; {lanes} steps share one, "
                f"{max(map(len, self.rows), default=0)} the longest",
                f"{8 * entries.size} bytes of numbers, {8 * len(entries.entries)} bytes of tape; "
                "kernels called:",
                *(f"{count:8} {name}" for name, count in entries.calls.most_common()),
            ]
        )


def _factors(terms: bytes, operands: Offsets, ones: int) -> tuple[Offsets, Offsets]:
    """The two factors of each term of a sum, (lanes, terms) both: a plain term is × 1."""
    kinds = np.frombuffer(terms, np.uint8).astype(np.int64)
    first = np.cumsum(kinds + 1) - kinds - 1
    second = np.minimum(first + 1, operands.shape[1] - 1)
    return operands[:, first], np.where(kinds == PRODUCT, operands[:, second], ones)
