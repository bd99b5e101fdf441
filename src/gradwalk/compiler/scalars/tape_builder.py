"""From rows of steps to a tape: the forward, then the gradients.

Forward, each row is a fold (sums of products) or a map (any other op). Backward, each row first
*pulls* its gradient: a fold of the contributions of its consumers, in the order in which
`Value.backward` would add them, starting from 0. So every gradient is a sum of products too, and
has the same bits. A gradient with one contribution that is itself a gradient, as in sums, is not
computed: both have the same offset.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from itertools import chain, compress, zip_longest
from typing import Any

from gradwalk.compiler.scalars.entries import MINUS_ZERO, PLUS_ZERO, Entries, Offsets
from gradwalk.compiler.scalars.flat_graph import Shape, Steps
from gradwalk.compiler.scalars.kernels import Kernels
from gradwalk.compiler.scalars.lanes import Row, arrange
from gradwalk.compiler.scalars.local_rules import COMPUTED, NOTHING


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
        self.inputs_at = self._place_leaves()
        for row in self.rows:
            self._forward(row)
        self.loss = self.value[steps.root]
        self._find_arrivals()
        self.gradient[steps.root] = self.ones
        for row in reversed(self.rows):
            if True in [self.wanted[steps.nodes[step]] for step in row]:
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
        self.constants = [
            [entries.constant(f.number) for f in shape.rules.factors] for shape in steps.kinds
        ]
        entries.begin()
        first = entries.room(len(self.inputs))
        for offset, leaf in enumerate(self.inputs, first):
            self.value[leaf] = offset
        return first

    def _shape(self, step: int) -> Shape:
        return self.steps.kinds[self.steps.shapes[step]]

    def _operands(self, row: Row) -> list[Any]:
        """The offsets of the numbers that a row reads: for each position, those of all lanes."""
        value, reads = self.value, self.steps.reads
        return list(zip(*[[value[v] for v in reads[step]] for step in row], strict=True))

    # -- forward -----------------------------------------------------------------------------------

    def _forward(self, row: Row) -> None:
        """Compute a row, and set the factors of its edges."""
        if len(row) == 1:
            return self._forward_one(row[0])
        steps, shape = self.steps, self._shape(row[0])
        offsets = self._operands(row)
        if shape.terms:
            offsets.append((self.ones,) * len(row))
            pairs = [offsets[k] for k in shape.pairs]
            results = self.entries.fold(pairs[::2], pairs[1::2], MINUS_ZERO)
        else:
            results = self.entries.map(self.kernels.forward(shape.rules, vector=True), offsets)
            offsets += [(n,) * len(row) for n in self.constants[steps.shapes[row[0]]]]
        offsets.append(results)
        factors = zip(*[offsets[k] for k in shape.factors], strict=True)
        for step, result, lane in zip(row, results, factors, strict=True):
            self.value[steps.nodes[step]] = result
            first = steps.first_edge[step]
            self.factor[first : first + len(lane)] = lane

    def _forward_one(self, step: int) -> None:
        steps, shape = self.steps, self._shape(step)
        offsets = [self.value[v] for v in steps.reads[step]]
        if shape.terms:
            offsets.append(self.ones)
            result = self.entries.fold_one([offsets[k] for k in shape.pairs], MINUS_ZERO)
        else:
            kernel = self.kernels.forward(shape.rules, vector=False)
            result = self.entries.map_one(kernel, offsets)
            offsets += self.constants[steps.shapes[step]]
        offsets.append(result)
        self.value[steps.nodes[step]] = result
        first, end = steps.first_edge[step : step + 2]
        self.factor[first:end] = [offsets[k] for k in shape.factors]

    # -- edges, read backward ----------------------------------------------------------------------

    def _find_arrivals(self) -> None:
        """Find the Values that gradients of inputs come through, and for each of them the edges
        that its gradient arrives by, in the order of `Value.backward`."""
        steps = self.steps
        self.wanted = wanted = [False] * len(self.value)
        for v in self.inputs:
            wanted[v] = True
        by_kind = [
            [bool(s.terms) or s.rules.factors[k].kind != NOTHING for k in range(len(s.factors))]
            for s in steps.kinds
        ]
        carries = [by_kind[kind] for kind in steps.shapes]  # a gradient, along each edge
        for v, reads, some in zip(steps.nodes, steps.reads, carries, strict=True):
            wanted[v] = any(compress(map(wanted.__getitem__, reads), some))
        self.arrivals: dict[int, list[int]] = defaultdict(list)
        targets, arrivals = steps.targets, self.arrivals
        carried = list(chain.from_iterable(carries))
        for edge in sorted(range(len(carried)), key=steps.users.__getitem__, reverse=True):
            target = targets[edge]
            if carried[edge] and wanted[target]:
                arrivals[target].append(edge)

    # -- backward ----------------------------------------------------------------------------------

    def _pull(self, nodes: list[int]) -> None:
        """Compute the gradients of some Values from the contributions of their consumers.

        Those with fewer contributions than others get 0 × 1 at the end: a sum that starts from +0
        is never −0, so adding +0 changes nothing.
        """
        if nodes == [self.steps.root]:
            return
        if len(nodes) == 1:
            return self._pull_one(nodes[0])
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
        offsets: Offsets = [self.zeros] * len(nodes)  # without arrivals
        if most == 1 and factors[0].count(self.ones) == len(nodes):
            offsets = gradients[0]
        elif most:
            offsets = self.entries.fold(gradients, factors, PLUS_ZERO)
        for v, offset in zip(nodes, offsets, strict=True):
            self.gradient[v] = offset

    def _pull_one(self, v: int) -> None:
        pairs: list[int] = []
        for edge in self.arrivals[v]:
            pairs += (self.contribution[edge], self.factor[edge])
        if len(pairs) == 2 and pairs[1] == self.ones:
            self.gradient[v] = pairs[0]
        else:
            self.gradient[v] = self.entries.fold_one(pairs, PLUS_ZERO) if pairs else self.zeros

    def _contribute(self, row: Row) -> None:
        """Set the contribution along each edge of a row: its gradient, or what a rule computes."""
        steps, shape = self.steps, self._shape(row[0])
        firsts = [steps.first_edge[step] for step in row]
        nodes = [steps.nodes[step] for step in row]
        count = len(shape.factors)
        for first, v in zip(firsts, nodes, strict=True):
            self.contribution[first : first + count] = [self.gradient[v]] * count
        for k in () if shape.terms else range(count):
            computed = shape.rules.factors[k].kind == COMPUTED
            if computed and True in [self.wanted[steps.targets[first + k]] for first in firsts]:
                kernel, names = self.kernels.backward(shape.rules, k, vector=len(row) > 1)
                offsets = dict(zip(shape.rules.op.inputs, self._operands(row), strict=True))
                offsets["g"] = tuple([self.gradient[v] for v in nodes])
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
