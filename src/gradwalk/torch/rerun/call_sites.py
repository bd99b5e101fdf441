"""The lines that call models: which variables it takes to run each of them again.

Of a line that was not met before all variables are copied, once. When its backward is over, the
statements between are known, and from then on only what they read is copied: a watched program
holds on to hardly more than an unwatched one.
"""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass, field
from types import CodeType

from gradwalk.torch.rerun.call_stack import Everything, Place, Wanted
from gradwalk.torch.rerun.rerun import Run, plan_of
from gradwalk.torch.rerun.snapshots import Call
from gradwalk.torch.rerun.statements import NotRepeatable

_Key = tuple[CodeType, int]


@dataclass
class _Site:
    depth: int  # of the frame whose statements are run again, from the call outwards
    frame: CodeType
    ends: set[_Key] = field(default_factory=set)  # the places of backward that belong to it
    needs: set[str] = field(default_factory=set)


class Sites:
    """What is known of each line that called a model."""

    def __init__(self) -> None:
        self._known: dict[_Key, _Site | None] = {}  # None: it cannot be run again

    def is_hopeless(self, call: Call) -> bool:
        """Whether the statements around a call cannot be run again."""
        return bool(call.places) and self._known.get(call.places[0].key, _UNKNOWN) is None

    def wanted(self) -> Wanted:
        """Which variables to copy at a call."""
        site: _Site | None = _UNKNOWN

        def wanted(depth: int, place: Place) -> Container[str] | None:
            nonlocal site
            if depth == 0:
                site = self._known.get(place.key, _UNKNOWN)
            if site is _UNKNOWN:
                return Everything()
            return site.needs if site is not None and depth == site.depth else None

        return wanted

    def note(self, run: Run) -> None:
        """A backward pass is over: what would it take to run it again?"""
        if not run.calls or not run.calls[0].places:
            return
        places = run.calls[0].places
        key = places[0].key
        site = self._known.get(key, _UNKNOWN)
        if site is None:
            return
        if site is not _UNKNOWN:
            end = _end(site, places, run.places)
            if end is None:
                del self._known[key]  # called from elsewhere: all variables, the next time
                return
            if end.key in site.ends:
                return
        try:
            plan = plan_of(run)
        except NotRepeatable:
            self._known[key] = None
            return
        if site is _UNKNOWN or site.depth != plan.depth:
            site = self._known[key] = _Site(plan.depth, plan.start.code)
        site.ends.add(plan.end.key)
        site.needs |= plan.statements.needs


_UNKNOWN = _Site(-1, Sites.__init__.__code__)


def _end(site: _Site, places: list[Place], ends: list[Place]) -> Place | None:
    """Where backward was called in the frame that is known; None if it was another."""
    here = places[site.depth] if site.depth < len(places) else None
    if here is None or here.code is not site.frame:
        return None
    return next((end for end in ends if here.is_same_frame(end)), None)
