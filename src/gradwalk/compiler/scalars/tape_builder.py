"""From rows of steps to a tape: the forward, then the gradients.

Forward, each row is a fold (sums of products) or a map (any other op). Backward, each row first
*pulls* its gradient: a fold of the contributions of its consumers, in the order in which
`Value.backward` would add them, starting from 0. So every gradient is a sum of products too, and
has the same bits. A gradient with one contribution that is itself a gradient, as in sums, is not
computed: both have the same offset.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from itertools import compress, zip_longest
from typing import Any

from gradwalk.compiler.scalars.entries import MINUS_ZERO, PLUS_ZERO, Entries, Offsets
from gradwalk.compiler.scalars.flat_graph import Shape, Steps
from gradwalk.compiler.scalars.kernels import Kernels
from gradwalk.compiler.scalars.lanes import Row, arrange
from gradwalk.compiler.scalars.local_rules import COMPUTED, NOTHING, OPERAND, RESULT


class TapeBuilder:
    """The entries that run, and the offsets of the inputs, the loss and the gradients."""

    def __init__(self, steps: Steps, inputs: list[int], kernels: Kernels) -> None:
        self.steps = steps
        self.inputs = inputs
        self.kernels = kernels
        self.entries = Entries(kernels)
        self.ones, self.zeros = self.entries.ones, self.entries.zeros
        self.rows = arrange(steps)
        values, edges = len(steps.step_of), len(steps.targets)
        # The offsets of the number and the gradient of each Value, of the contribution along each
        # edge and of its factor.
        self.value, self.gradient = [0] * values, [0] * values
        self.contribution, self.factor = [0] * edges, [self.ones] * edges
        self.carries = [True] * edges  # a gradient, along each edge
        self.inputs_at = self._place_leaves()
        for row in self.rows:
            self._forward(row)
        self.loss = self.value[steps.root]
        self._find_arrivals()
        self.gradient[steps.root] = self.ones
        for row in reversed(self.rows):
            if any(self.wanted[steps.nodes[step]] for step in row):
                self._pull([steps.nodes[step] for step in row])
                self._contribute(row)
        self.gradients_at = self._gradients()

    def _place_leaves(self) -> int:
        """Place the constants, then the inputs side by side; return where those begin."""
        steps, entries = self.steps, self.entries
        constants = set(range(len(steps.walk), len(self.value))).difference(self.inputs)
        for leaf in constants:
            number = float(steps.leaves[leaf - len(steps.walk)].data)
            self.value[leaf] = entries.constant(number)
        for shape in steps.kinds:
            for factor in shape.rules.factors:
                entries.constant(factor.number)
        entries.begin()
        first = entries.room(len(self.inputs))
        for offset, leaf in enumerate(self.inputs, first):
            self.value[leaf] = offset
        return first

    def _shape(self, step: int) -> Shape:
        return self.steps.kinds[self.steps.shapes[step]]

    def _operands(self, row: Row) -> list[tuple[int, ...]]:
        """The offsets of the numbers that a row reads: for each position, those of all lanes."""
        value, reads = self.value, self.steps.reads
        return list(zip(*[[value[v] for v in reads[step]] for step in row], strict=True))

    # -- forward -----------------------------------------------------------------------------------

    def _forward(self, row: Row) -> None:
        """Compute a row, and set the factor of each of its edges, or that it carries nothing."""
        steps, shape, operands = self.steps, self._shape(row[0]), self._operands(row)
        if shape.terms:
            operands.append((self.ones,) * len(row))  # a plain term is × 1
            a, b = ([operands[k] for k in some] for some in shape.pairs)
            offsets = self.entries.fold(a, b, MINUS_ZERO)
            factors = [operands[k] for k in shape.partners]
        else:
            kernel = self.kernels.forward(shape.rules, vector=len(row) > 1)
            offsets = self.entries.map(kernel, operands)
            factors = []
            for k, factor in enumerate(shape.rules.factors):
                if factor.kind == OPERAND:
                    factors.append(operands[factor.operand])
                elif factor.kind == RESULT:
                    factors.append(offsets)
                else:
                    factors.append((self.entries.constant(factor.number),) * len(row))
                if factor.kind == NOTHING:
                    for step in row:
                        self.carries[steps.first_edge[step] + k] = False
        for step, offset, lane in zip(row, offsets, zip(*factors, strict=True), strict=True):
            self.value[steps.nodes[step]] = offset
            first = steps.first_edge[step]
            self.factor[first : first + len(lane)] = lane

    # -- edges, read backward ----------------------------------------------------------------------

    def _find_arrivals(self) -> None:
        """Find the Values that gradients of inputs come through, and for each of them the edges
        that its gradient arrives by, in the order of `Value.backward`."""
        targets = self.steps.targets
        self.wanted = [False] * len(self.value)
        for v in self.inputs:
            self.wanted[v] = True
        some, first = self.wanted.__getitem__, 0
        for v, reads in zip(self.steps.nodes, self.steps.reads, strict=True):
            end = first + len(reads)
            self.wanted[v] = any(compress(map(some, reads), self.carries[first:end]))
            first = end
        self.arrivals: list[list[int]] = [[] for _ in self.value]
        for edge in sorted(range(len(targets)), key=self.steps.users.__getitem__, reverse=True):
            if self.carries[edge] and self.wanted[targets[edge]]:
                self.arrivals[targets[edge]].append(edge)

    # -- backward ----------------------------------------------------------------------------------

    def _pull(self, nodes: list[int]) -> None:
        """Compute the gradients of some Values from the contributions of their consumers.

        Those with fewer contributions than others get 0 × 1 at the end: a sum that starts from +0
        is never −0, so adding +0 changes nothing.
        """
        if nodes == [self.steps.root]:
            return
        arrivals = [self.arrivals[v] for v in nodes]
        counts = list(map(len, arrivals))
        most = max(counts)
        if most * len(nodes) > 2 * sum(counts) + self.entries.block:
            for few in (True, False):
                self._pull([v for v in nodes if (len(self.arrivals[v]) <= most // 2) == few])
            return
        gradients, factors = (
            list(zip_longest(*[[of[e] for e in edges] for edges in arrivals], fillvalue=padding))
            for of, padding in ((self.contribution, self.zeros), (self.factor, self.ones))
        )
        offsets: Offsets = [self.zeros] * len(nodes)
        if most == 1 and factors[0].count(self.ones) == len(nodes):
            offsets = gradients[0]
        elif most:
            offsets = self.entries.fold(gradients, factors, PLUS_ZERO)
        for v, offset in zip(nodes, offsets, strict=True):
            self.gradient[v] = offset

    def _contribute(self, row: Row) -> None:
        """Set the contribution along each edge of a row: its gradient, or what a rule computes."""
        shape, nodes = self._shape(row[0]), [self.steps.nodes[step] for step in row]
        firsts = [self.steps.first_edge[step] for step in row]
        gradients = tuple([self.gradient[v] for v in nodes])
        count = len(self.steps.reads[row[0]])
        for first, gradient in zip(firsts, gradients, strict=True):
            self.contribution[first : first + count] = (gradient,) * count
        for k, factor in enumerate(() if shape.terms else shape.rules.factors):
            if factor.kind != COMPUTED:
                continue
            if any(self.wanted[self.steps.targets[first + k]] for first in firsts):
                kernel, names = self.kernels.backward(shape.rules, k, vector=len(row) > 1)
                offsets = dict(zip(shape.rules.op.inputs, self._operands(row), strict=True))
                offsets["g"] = gradients
                offsets["out"] = tuple([self.value[v] for v in nodes])
                contributions = self.entries.map(kernel, [offsets[name] for name in names])
                for first, offset in zip(firsts, contributions, strict=True):
                    self.contribution[first + k] = offset

    # -- the gradients of the inputs ---------------------------------------------------------------

    def _gradients(self) -> int:
        """Pull the gradients of the inputs and put them side by side; return where they begin.

        Inputs with the same contributions share a fold, or those with the same factors: then one
        factor of each product is one number for all lanes.
        """
        alone: dict[int, list[int]] = defaultdict(list)  # by number of arrivals
        for group in self._alike():
            if 2 * len(group) < self.entries.lanes:
                alone[len(self.arrivals[group[0]])] += group
            else:
                self._pull(group)
        for group in alone.values():
            self._pull(group)
        first = self.entries.room(len(self.inputs))
        if self.inputs:
            self.entries.collect_to(first, [self.gradient[v] for v in self.inputs])
        return first

    def _alike(self) -> list[list[int]]:
        """Groups of inputs with the same contributions or the same factors."""
        keys = [
            [tuple([offsets[e] for e in self.arrivals[v]]) for v in self.inputs]
            for offsets in (self.contribution, self.factor)
        ]
        sizes = [Counter(some) for some in keys]
        groups: dict[Any, list[int]] = defaultdict(list)
        for leaf, by_gradient, by_factor in zip(self.inputs, *keys, strict=True):
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
                *(f"{count:8} {name}" for name, count in entries.calls().most_common()),
            ]
        )
