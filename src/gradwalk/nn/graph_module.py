"""GraphModule: a module made of a graph of steps that another framework wrote."""

from __future__ import annotations

from collections import Counter
from typing import Any, NamedTuple

from gradwalk.engine.modes import state
from gradwalk.nn.module import Module


class Within(NamedTuple):
    """A call of a module."""

    call: str  # unique to a call
    path: str  # "blocks.0.attention"
    class_name: str


class Unsupported(ValueError):
    """All operations of a graph that gradwalk, or another format, has no counterpart for."""

    def __init__(
        self, name: str, operations: list[tuple[str, str]], fix: str, into: str = "gradwalk"
    ) -> None:
        self.operations = Counter(operation for operation, _ in operations)
        places = dict(reversed(operations))
        width = max(map(len, self.operations))
        lines = []
        for operation, count in self.operations.most_common():
            times = "once" if count == 1 else f"{count} times, first"
            lines.append(f"  {operation:<{width}}  {times} {places[operation]}")
        super().__init__(
            f"{name} has {len(lines)} operation(s) without a counterpart in {into}:\n"
            + "\n".join(lines)
            + f"\nFix: {fix}"
        )


class Part(Module):
    """A module of the original model, with parameters, buffers and parts."""


class GraphModule(Module):
    """A module whose parts have the names of the original model.

    Attributes of its own begin with an underscore: all other names belong to the original.
    """

    def __init__(self) -> None:
        super().__init__()
        self._parts: dict[str, Module] = {"": self}

    def _part(self, path: str, class_name: str = "Part") -> Module:
        """The part at a path, created if missing, with the name of the original class."""
        if path not in self._parts:
            above, _, name = path.rpartition(".")
            self._parts[path] = part = type(class_name, (Part,), {})()
            self._part(above).add_module(name, part)
        return self._parts[path]


class Inside:
    """Tell a recording which modules the steps belong to."""

    def __init__(self, module: GraphModule) -> None:
        self.module = module
        self.watcher: Any = state.here.watcher
        self.now: tuple[Within, ...] = ()

    def go_to(self, modules: tuple[Within, ...]) -> None:
        """Leave and enter modules until inside `modules`."""
        if self.watcher is None or modules == self.now:
            return
        same = 0
        while same < min(len(modules), len(self.now)) and modules[same] == self.now[same]:
            same += 1
        for _ in self.now[same:]:
            self.watcher.left()
        for within in modules[same:]:
            self.watcher.entered_module(self.module._parts[within.path])
        self.now = modules
