"""Note what each recorded node saves for backward.

Memory is identified by number: two nodes that save the same array, or views of it, refer to the
same memory. Memory of leaves that require a gradient does not count: parameters exist anyway.
"""

from __future__ import annotations

import weakref
from typing import Any

from gradwalk.engine.checkpoint import Recompute
from gradwalk.engine.tree import leaves
from gradwalk.graph.abstract import is_array
from gradwalk.graph.versions import owner_of
from gradwalk.inspect.trace.trace import Edge, Saved, Trace


class Holdings:
    """Fill `trace.saved`, `trace.memory`, `trace.regions` and `trace.region_saved`."""

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        self._numbers: dict[int, tuple[Any, int]] = {}  # id of an array -> weak reference, number
        self._count = 0
        self._own: set[int] = set()  # memory of leaves that require a gradient
        self._nodes: dict[int, Any] = {}  # the graph's nodes, by index in the trace
        self._regions: dict[Any, int] = {}

    def note_memory(self, edge: Edge, array: Any) -> None:
        """Note the memory of an output."""
        self.trace.memory[edge] = Saved("out", owner_of(array).nbytes, self._number(array))

    def note(self, index: int, node: Any) -> None:
        """Note what a node of the graph saves; `index` is its number in the trace."""
        if node is None or not node.inputs:
            return
        self._nodes[index] = node
        for source in node.inputs:
            if source is not None and not source.inputs:
                self._own.add(self._number(source._array))
        if isinstance(node.saved, dict):
            self.trace.saved[index] = self._kept(node)

    def note_regions(self) -> None:
        """Note the nodes in checkpointed regions, and what the regions save."""
        for index, node in self._nodes.items():
            if not isinstance(node.saved, Recompute) or index in self.trace.regions:
                continue
            region = node.saved.region
            if region not in self._regions:
                number = self._regions[region] = len(self._regions)
                tensors = leaves((region.args, region.keywords))
                arrays = [("argument", t._array) for t in tensors if hasattr(t, "_array")]
                self.trace.region_saved[number] = self._listed(arrays)
            self.trace.regions[index] = self._regions[region]

    def _kept(self, node: Any) -> tuple[Saved, ...]:
        arrays = []
        for name, value in node.saved.items():
            several = value if isinstance(value, tuple) else (value,)
            arrays += [(name, array) for array in several if is_array(array)]
        return self._listed(arrays)

    def _listed(self, named: list[tuple[str, Any]]) -> tuple[Saved, ...]:
        saved = []
        for name, array in named:
            number = self._number(array)
            if number not in self._own:
                saved.append(Saved(name, owner_of(array).nbytes, number))
        return tuple(saved)

    def _number(self, array: Any) -> int:
        owner = owner_of(array)
        known = self._numbers.get(id(owner))
        if known is not None and known[0]() is owner:
            return known[1]
        self._count += 1
        self._numbers[id(owner)] = weakref.ref(owner), self._count
        return self._count
