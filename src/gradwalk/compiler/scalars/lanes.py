"""Which steps are computed side by side, as the lanes of one row.

Steps of one height do not depend on one another, so those of one shape may share a row. A row runs
fastest if its operands are the lanes of another row, in the same order, or all the same number. So
lanes are found from the top: the terms of a sum (the losses of fifty points) are lanes if they have
one shape; then their first operands are, their second ones, and so on down. In this way the fifty
copies of a network in a graph become vectors, and a weight that they share stays one number. The
remaining steps share rows by height and shape, and collect their operands.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

from gradwalk.compiler.scalars.flat_graph import Steps

Row = list[int]  # the steps that are its lanes
FEWEST = 4  # lanes that are worth a row; fewer are computed one by one
# The same for lanes that have only height and shape in common: collecting their operands costs as
# much as a row saves, and planning it more.
FEWEST_APART = 16


def arrange(steps: Steps) -> list[Row]:
    """Rows that contain every step once, each after the rows it reads."""
    at_height: dict[int, list[int]] = defaultdict(list)
    for step, height in enumerate(steps.heights):
        at_height[height].append(step)
    lanes = _Lanes(steps)
    rows: list[Row] = []
    for height in range(max(at_height, default=0), 0, -1):
        rows += lanes.at(height, at_height[height])
    return rows[::-1]


class _Lanes:
    def __init__(self, steps: Steps) -> None:
        self.steps = steps
        self.taken = [False] * len(steps.nodes)
        self.proposed: dict[int, list[Row]] = defaultdict(list)  # by height

    def at(self, height: int, candidates: list[int]) -> list[Row]:
        """The rows of one height; all higher ones are made."""
        if len(candidates) == 1:  # as in a chain
            self._propose(candidates)
            return [candidates]
        rows = []
        for family in self.proposed.pop(height, ()):
            row = [step for step in family if not self.taken[step]]
            if len(row) >= FEWEST:
                self._take(row)
                rows.append(row)
        left: dict[int, Row] = defaultdict(list)
        for step in candidates:
            if not self.taken[step]:
                left[self.steps.shapes[step]].append(step)
        for row in left.values():
            self._take(row)
            rows += [row] if len(row) >= FEWEST_APART else [[step] for step in row]
        for row in rows:
            self._propose(row)
        return rows

    def _take(self, row: Row) -> None:
        for step in row:
            self.taken[step] = True

    def _propose(self, row: Row) -> None:
        """Propose the operands of a row, by position, as rows."""
        reads = [self.steps.reads[step] for step in row]
        for targets in reads if len(row) == 1 else zip(*reads, strict=True):
            if len(targets) >= FEWEST:
                self._families(targets)

    def _families(self, targets: Sequence[int]) -> None:
        heights, shapes, step_of = self.steps.heights, self.steps.shapes, self.steps.step_of
        distinct: Iterable[int] = dict.fromkeys(targets)
        free = [s for v in distinct if (s := step_of[v]) >= 0 and not self.taken[s]]
        if len(free) < FEWEST:
            return
        families: dict[tuple[int, int], Row] = defaultdict(list)
        for step in free:
            families[heights[step], shapes[step]].append(step)
        for (height, _), family in families.items():
            if len(family) >= FEWEST:
                self.proposed[height].append(family)
