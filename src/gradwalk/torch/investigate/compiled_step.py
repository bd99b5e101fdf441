"""Whose fault a bad step of compiled code is: the model's or the compiler's.

The step runs again with compilation off. If the fault is still there, it is the model's, and the
uncompiled step names its line. If not, it is the compiler's: the captured graph then runs with its
first operations compiled by the same backend and the others one by one, until it is known which
operation brings the fault.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import torch

from gradwalk.graph.source import SourceLine
from gradwalk.torch import private_compiled
from gradwalk.torch.rerun.rerun import Rerun, Run

MOST_TRIALS = 16  # re-runs to search with, each of which compiles
Shows = Callable[[list[torch.Tensor]], bool]


class PartlyCompiled:
    """A backend that compiles the first `count` operations of a step and interprets the others."""

    def __init__(self, backend: Any) -> None:
        self.backend = backend
        self.count = 0
        self.nodes: list[torch.fx.Node] = []  # the operations, in the order of capture

    def __call__(self, graph: torch.fx.GraphModule, examples: list[Any]) -> Callable[..., Any]:
        """Capture a graph. Which part of it is compiled is decided at each call."""
        begin = len(self.nodes)
        own = [n for n in graph.graph.nodes if n.op.startswith("call_")]
        self.nodes += own
        made: dict[int, Any] = {0: graph.forward}

        def run(*args: Any) -> Any:
            count = min(max(self.count - begin, 0), len(own))
            if count not in made:
                made[count] = self._split(graph, own, count)
            return made[count](*args)

        return run

    def _split(self, graph: torch.fx.GraphModule, own: list[Any], count: int) -> Any:
        from torch.fx.passes.split_module import split_module

        first = set(own[:count])
        parts = split_module(graph, None, lambda node: 0 if node in first else 1)  # type: ignore[arg-type]
        parts.submod_0 = _CompiledPart(parts.submod_0, self.backend)  # type: ignore[arg-type]
        return parts.forward


class _CompiledPart(torch.nn.Module):
    """A part of a graph that a backend compiles at its first call."""

    def __init__(self, part: torch.fx.GraphModule, backend: Any) -> None:
        super().__init__()
        self.single = _gives_tuple(part)  # whether it has one output, not a tuple of them
        self.part, self.backend = part, backend
        self.compiled: Any = None

    def forward(self, *args: Any) -> Any:
        if self.compiled is None:
            self.compiled = self.backend(self.part, list(args))
        result = self.compiled(*args)
        return result[0] if self.single else result


def _gives_tuple(part: torch.fx.GraphModule) -> bool:
    """Make a graph return a tuple, which backends expect; return whether it did not."""
    output = next(node for node in part.graph.nodes if node.op == "output")
    if isinstance(output.args[0], list | tuple):
        return False
    output.args = ((output.args[0],),)
    part.recompile()
    return True


def find_in_compiled(again: Rerun, run: Run, how: str, shows: Shows) -> torch.fx.Node | None:
    """The first operation that brings the fault once it is compiled; None if it is not found."""
    backend = private_compiled.backend_of(
        [m for call in run.calls for m in call.model.module.modules()]
    )
    partly = PartlyCompiled(backend)
    stance = torch.compiler.set_stance

    def is_bad(count: int) -> bool | None:
        answers: list[bool] = []
        partly.count = count
        again.changed(
            run,
            how,
            stance("default", force_backend=partly),
            lambda losses: answers.append(shows(losses)),
        )
        return answers[0] if answers else None

    if is_bad(0) is not False or not partly.nodes:
        return None
    low, high = 0, len(partly.nodes)  # the fault is absent with `low`, present with `high`
    if not is_bad(high):
        return None
    for _ in range(MOST_TRIALS):
        if high - low == 1:
            return partly.nodes[high - 1]
        middle = (low + high) // 2
        answer = is_bad(middle)
        if answer is None:
            return None
        low, high = (low, middle) if answer else (middle, high)
    return None


def place_of(node: torch.fx.Node) -> tuple[str, SourceLine | None]:
    """The operation of a captured node and its line in the program."""
    name = getattr(node.target, "__name__", str(node.target))
    lines = [text.strip() for text in (node.stack_trace or "").splitlines()]
    places = [i for i, text in enumerate(lines) if text.startswith("File ")]
    if not places:
        return name, None
    found = re.match(r'File "(.*)", line (\d+), in (.*)', lines[places[-1]])
    if found is None:
        return name, None
    text = lines[places[-1] + 1] if places[-1] + 1 < len(lines) else ""
    return name, SourceLine(found[1], int(found[2]), text, found[3])
