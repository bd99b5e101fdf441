"""A backward that the program wrote by hand is audited in passing, in one of the first steps.

The graph of a loss says whether it contains custom Functions. If so, the step is run again,
recorded, and what each Function handed on is compared with differences of its own forward. A wrong
one is no reason to stop: `watch` warns.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.autograd.function import BackwardCFunction

from gradwalk.inspect.health.findings import Finding
from gradwalk.inspect.mistakes.custom_functions import function_named
from gradwalk.inspect.silent.hand_written import wrong_backward
from gradwalk.inspect.trace.trace import Trace
from gradwalk.torch.record.autograd_graph import inputs_first

LOOKS = 5  # backward passes whose graphs are searched


class BackwardAudit:
    """Audit each custom Function once; `found` holds what was wrong."""

    def __init__(
        self, again: Callable[[torch.Tensor], Trace | None], category: type[Warning]
    ) -> None:
        self.found: list[Finding] = []
        self._again = again  # records the step of a loss again, if it can
        self._category = category  # of warnings
        self._looks = LOOKS
        self._audited: set[str] = set()

    def after_backward(self, outputs: Sequence[Any]) -> None:
        """Look at a pass from `outputs` that has ended: its graph is still there."""
        if not self._looks:
            return
        losses = [t for t in outputs if isinstance(t, torch.Tensor) and t.numel() == 1]
        if len(losses) != 1:
            return
        self._looks -= 1
        names = _custom_functions(losses[0]) - self._audited
        if names:
            self._audit(losses[0], names)

    def _audit(self, loss: torch.Tensor, names: set[str]) -> None:
        trace = self._again(loss)
        if trace is None:  # it may be possible in the next step
            return
        self._audited |= names
        self.found += wrong_backward(trace)
        for finding in self.found:
            warnings.warn(f"gradwalk: {finding}", self._category, stacklevel=8)


def _custom_functions(loss: Any) -> set[str]:
    """The names of the program's own Functions in the graph of a loss."""
    nodes = inputs_first([loss.grad_fn] if loss.grad_fn is not None else [])
    kinds = {type(node) for node in nodes if isinstance(node, BackwardCFunction)}
    names = {kind.__name__.removesuffix("Backward") for kind in kinds}
    return {name for name in names if function_named(name) is not None}
