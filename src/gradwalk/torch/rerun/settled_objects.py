"""Objects that hold Python state and stay where they are from one model call to the next.

Finding them means following every reference of the program. Once two looks in a row have found the
same objects, later looks only compare their contents with the last ones, and follow what is new.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from operator import is_
from typing import Any

from gradwalk.torch.rerun.state_by_type import NOT_KEPT, PLAIN, Holder, holders_of

Held = tuple[Holder, Any, Any]  # how, which object, its contents


class _Alike:
    """Objects that hold state in the same way: most often one look finds all of them unchanged."""

    def __init__(self, how: Holder) -> None:
        self.how = how
        self.positions: list[int] = []  # among all that are settled
        self.things: list[Any] = []
        self.kept: list[Any] = []
        self._flat: list[Any] | None = None  # the contents of all; None: compare one by one

    def note(self) -> None:
        """Note the contents that were kept."""
        try:
            self._flat = self.how.flat_kept(self.kept)
        except TypeError:  # only the length of a long list is kept
            self._flat = None

    def are_same(self) -> bool:
        """Whether all have the contents that were kept. No is not certain."""
        try:
            now = self.how.flat(self.things)
        except (TypeError, ValueError):  # an empty cell
            return False
        before = self._flat
        return before is not None and len(now) == len(before) and all(map(is_, now, before))

    def changed(self) -> list[int]:
        """The places of those with other contents."""
        assert self.how.same is not None
        same = map(self.how.same, self.things, self.kept)
        return [place for place, is_same in enumerate(same) if not is_same]


def _groups(held: list[Held]) -> list[_Alike]:
    groups: dict[int, _Alike] = {}
    for position, (how, thing, kept) in enumerate(held):
        group = groups.setdefault(id(how), _Alike(how))
        group.positions.append(position)
        group.things.append(thing)
        group.kept.append(kept)
    for group in groups.values():
        group.note()
    return list(groups.values())


class SettledObjects:
    """The objects that were found and also are among `before`, by `id`."""

    def __init__(
        self, found: Iterable[Held], before: Mapping[int, Any], known: Mapping[int, Any]
    ) -> None:
        # What an immutable object leads to is settled, too.
        settled = [held for held in found if id(held[1]) in before]
        self._things = {id(thing): thing for _, thing, _ in settled}
        self.known = {**known, **self._things}  # there is no need to look into these
        self.is_stale = False  # whether one of them may have left the program
        self._held = [held for held in settled if held[0].same is not None]
        self._alike = _groups(self._held)
        self._others = [held[:2] for held in settled if held[0].same is None and held[0].holds]
        self._loose: dict[int, list[Any]] = {}  # objects to look into, by position in `_held`
        for position in range(len(self._held)):
            self._note_loose(position)

    def take(self) -> tuple[list[Held], list[Any]]:
        """All objects with their contents, and the objects in them to look into.

        Do not write to the first list: the next look returns the same if nothing has changed.
        """
        changed = [group for group in self._alike if not group.are_same()]
        if changed:
            self._held = self._held.copy()
            for group in changed:
                self._renew(group)
        loose = [thing for things in self._loose.values() for thing in things]
        if not self._others:
            return self._held, loose
        others = [(how, thing, how.take(thing)) for how, thing in self._others]
        held = self._held + [entry for entry in others if entry[2] is not NOT_KEPT]
        return held, loose

    def _renew(self, group: _Alike) -> None:
        how = group.how
        for place in group.changed():
            thing, before = group.things[place], group.kept[place]
            kept = how.take(thing)
            if kept is NOT_KEPT:  # it has grown too large
                self.is_stale = True
                continue
            group.kept[place] = kept
            self._held[group.positions[place]] = how, thing, kept
            self._note_loose(group.positions[place])
            now = set(map(id, how.inside(kept)))
            if any(id(old) in self._things and id(old) not in now for old in how.inside(before)):
                self.is_stale = True
        group.note()

    def _note_loose(self, position: int) -> None:
        how, _, kept = self._held[position]
        kinds: list[tuple[Any, Any]] = [(type(thing), thing) for thing in how.inside(kept)]
        loose = [
            thing
            for kind, thing in kinds
            if kind not in PLAIN and id(thing) not in self.known and holders_of(kind)
        ]
        if loose:
            self._loose[position] = loose
        else:
            self._loose.pop(position, None)
