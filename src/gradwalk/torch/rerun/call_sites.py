"""Which variables to copy at each line that calls a model.

The first call from a line copies all variables. After its backward pass the statements in between
are known, and later calls copy only what these read: a watched program keeps hardly more memory
alive than an unwatched one.
"""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass, field
from types import CodeType, FrameType

import torch

from gradwalk.torch.rerun.call_stack import Everything, FrameSnapshot, Wanted, frames_from
from gradwalk.torch.rerun.rerun import Run, plan_of
from gradwalk.torch.rerun.snapshots import LARGEST_GRADIENT, ModelCall
from gradwalk.torch.rerun.statements import NotRepeatable

_Key = tuple[CodeType, int]


@dataclass
class _Site:
    depth: int  # of the frame to run again, counted outwards from the call
    end: _Key | None = None  # the call of backward that was planned last
    needs: set[str] = field(default_factory=set)

    def is_known(self, start: FrameSnapshot, end: FrameSnapshot) -> bool:
        """Whether the same two lines of one frame, the most usual case, were planned before."""
        return self.depth == 0 and start.is_same_frame(end) and self.end == end.key


_UNKNOWN = _Site(-1)


class Sites:
    """The known lines that call models."""

    def __init__(self) -> None:
        self._known: dict[_Key, _Site | None] = {}  # None: it cannot be run again

    def is_worth_keeping(self, gradient: torch.Tensor, call: ModelCall) -> bool:
        """Whether to keep the gradient of a call's output.

        A large one only if the statements around the call cannot be run again.
        """
        if gradient.nbytes <= LARGEST_GRADIENT:
            return True
        return bool(call.frames) and self._known.get(call.frames[0].key, _UNKNOWN) is None

    def wanted(self) -> Wanted:
        """Which variables to copy at a call."""
        site: _Site | None = _UNKNOWN

        def wanted(depth: int, snapshot: FrameSnapshot) -> Container[str] | None:
            nonlocal site
            if depth == 0:
                site = self._known.get(snapshot.key, _UNKNOWN)
            if site is _UNKNOWN:
                return Everything()
            return site.needs if site is not None and depth == site.depth else None

        return wanted

    def frames_of_backward(
        self, frame: FrameType, calls: list[ModelCall]
    ) -> tuple[list[FrameSnapshot], bool]:
        """The frames of a backward pass after these model calls, and whether that is nothing new.

        If it follows one call in the same frame, on lines that were planned before, the innermost
        frame is enough: the others take longer than all else that is done there.
        """
        innermost = frames_from(frame, deepest=1)
        if len(calls) == 1 and calls[0].frames and innermost:
            start = calls[0].frames[0]
            site = self._known.get(start.key)
            if site is not None and site.is_known(start, innermost[0]):
                return innermost, True
        return frames_from(frame), False

    def note(self, run: Run) -> None:
        """Learn from a finished backward pass which variables a re-run needs."""
        if not run.calls or not run.calls[0].frames:
            return
        start = run.calls[0].frames[0]
        key = start.key
        site = self._known.get(key, _UNKNOWN)
        if site is None or (run.frames and site.is_known(start, run.frames[0])):
            return
        try:
            plan = plan_of(run)
        except NotRepeatable:
            if self._known.pop(key, None) is None:  # known: this time it was called from elsewhere
                self._known[key] = None
            return
        if site.depth != plan.depth:
            site = self._known[key] = _Site(plan.depth)
        site.needs |= plan.statements.needs
        site.end = run.frames[0].key
