"""What a program keeps outside of tensors at the moment it calls a model: counters, mostly.

A step that is run again from the numbers of its batch alone need not do what it did: a module may
count its calls. Kept are the attributes of modules, the globals of the user's own files and classes
and what functions close over, and whatever plain objects and containers lie in these. Where to look
is found out now and then; in between, a step costs what it takes to read the names found. What the
modules of libraries hold are settings, mostly: of those that never changed, they are read seldom.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from operator import itemgetter
from types import FunctionType, MethodType, ModuleType
from typing import Any

import torch

from gradwalk.torch.rerun.state_holders import (
    LIST,
    LONG_LIST,
    LONGEST,
    NAMES,
    NOT_KEPT,
    NOTHING,
    PLAIN,
    Holder,
    copied,
    is_heavy,
    is_plain,
    is_users,
    ways,
)
from gradwalk.torch.user_lines import USER, files

MOST = 256  # things that are looked into at a call of a model
OFTEN = 64  # calls: at each power of two up to here it is found out anew where to look,
SELDOM = 256  # and from then on each time after this many
RESTING = 16  # calls: after so many it is seen whether settings are still the same
_DEEPEST = 4  # containers within one another
_STANDARD = frozenset(vars(torch.nn.Module())) - {"training"}  # what any module has
_HOOKS = tuple(name for name in _STANDARD if name.endswith("_hooks"))


class _Owner:
    """A dictionary of names that live as long as the program: which of them to read."""

    def __init__(
        self,
        names: Mapping[str, Any],
        put: Callable[[str, Any], None],
        wanted: Iterable[str],
    ) -> None:
        self.names = names
        self.put = put
        plain, followed = [], []
        for name in wanted:
            value = names[name]
            if is_plain(value):
                plain.append(name)
            elif ways[type(value)] is not None or isinstance(value, torch.Tensor):
                followed.append(name)
        self.plain = tuple(plain * 2 if len(plain) == 1 else plain)  # one item would be no tuple
        self.followed = tuple(followed)
        self.get: Callable[[Any], tuple[Any, ...]] = (
            itemgetter(*self.plain) if self.plain else lambda names: ()
        )

    def settings(self) -> Any:
        """All that these names mean, to be compared; None if that is more than numbers and text."""
        try:
            return {name: _settings(self.names[name]) for name in (*self.plain, *self.followed)}
        except TypeError:
            return None

    def restore(self, names: Sequence[str], values: Iterable[Any]) -> None:
        """Make these names mean this again."""
        for name, value in zip(names, values):
            if value is not NOT_KEPT and self.names.get(name, NOTHING) is not value:
                self.put(name, value)


class State:
    """All of it at one moment."""

    def __init__(
        self,
        owners: list[_Owner],
        most: int = MOST,
        exact: bool = False,
        resting: State | None = None,
    ) -> None:
        self._owners = owners
        self._resting = resting  # what was read at an earlier moment, and has not changed since
        self._plain = [owner.get(owner.names) for owner in owners]
        self._lengths = [len(owner.names) for owner in owners]
        self._followed: list[tuple[_Owner, list[Any]]] = []
        self._held: list[tuple[Holder, Any, Any]] = []  # how, what, and what it held
        self._iterators: dict[int, tuple[Any, Any]] = {}  # by identity: itself, a copy
        self._seen: dict[int, Any] = {}
        self._most = most
        self._exact = exact  # to be put back, not to be run again from: all, and as it is

    def is_still_so(self) -> bool:
        """Whether names that mean numbers and text mean the same now."""
        now = State(self._owners)
        return now._plain == self._plain and now._lengths == self._lengths

    def look(self, things: Iterable[Any], known: Mapping[int, Any]) -> None:
        """Keep what these hold, and what they lead to; what is `known` is kept already."""
        waiting = list(things)
        seen, exact = self._seen, self._exact
        for thing in waiting:  # it grows meanwhile
            way = ways[type(thing)]
            if way is None or id(thing) in seen or id(thing) in known:
                continue
            if len(seen) >= self._most:
                return
            seen[id(thing)] = thing
            if way.is_iterator:
                if not exact:
                    self._iterators[id(thing)] = thing, copied(thing)
                continue
            for how, holder in way.holds(thing):
                try:
                    kept = how.take(holder)
                except Exception:  # the program goes on, whatever its objects do when looked at
                    continue
                if exact:
                    self.hold_exactly(how, holder)
                else:
                    self._held.append((how, holder, kept))
                waiting += [inner for inner in how.inside(kept) if type(inner) not in PLAIN]
            waiting += way.leads_to(thing)

    def look_at_names(self, known: Mapping[int, Any]) -> None:
        """Go on from the names that are no plain numbers or text."""
        for owner in self._owners:
            if owner.followed:
                values = [owner.names.get(name, NOT_KEPT) for name in owner.followed]
                if not self._exact:
                    values = [NOT_KEPT if is_heavy(value) else value for value in values]
                self._followed.append((owner, values))
                self.look(values, known)

    def hold_exactly_what(self, other: State) -> None:
        """Keep what the same things hold now, all of it, as it is."""
        for owner in other._owners:
            if isinstance(owner.names, dict):
                self.hold_exactly(NAMES, owner.names)
            else:  # of a class
                names = (*owner.plain, *owner.followed)
                self._followed.append((owner, [owner.names.get(n, NOT_KEPT) for n in names]))
        if other is not self:
            for how, holder, _ in other._held:
                self.hold_exactly(how, holder)
        if other._resting is not None:
            self.hold_exactly_what(other._resting)

    def hold_exactly(self, how: Holder, holder: Any) -> None:
        """Keep all that a thing holds."""
        if how is NAMES:
            self._held.append((how, holder, dict(holder)))
        elif how in (LIST, LONG_LIST):
            self._held.append((LIST, holder, list(holder)))
        else:
            self._held.append((how, holder, how.take(holder)))

    def restore(self, take_away: bool = True) -> None:
        """Everything as it was; iterators are replaced by copies.

        `take_away`: names that were added since are gone again.
        """
        if self._resting is not None:
            self._resting.restore(take_away=False)  # since an earlier moment: no part of the step
        copies = {at: copied(kept) for at, (_, kept) in self._iterators.items()}

        def own(value: Any) -> Any:
            return copies.get(id(value), value)

        for owner, length, values in zip(self._owners, self._lengths, self._plain):
            if take_away and length < len(owner.names) and isinstance(owner.names, dict):
                for name in list(owner.names)[length:]:  # they were added since
                    del owner.names[name]
            owner.restore(owner.plain, values)
        for owner, followed in self._followed:
            owner.restore((*owner.plain, *owner.followed)[-len(followed) :], map(own, followed))
        for how, holder, kept in self._held:
            if copies and isinstance(kept, dict):
                kept = {name: own(value) for name, value in kept.items()}
            elif copies and isinstance(kept, list):
                kept = [own(value) for value in kept]
            how.put(holder, own(kept))


class Keeper:
    """Takes the state of a program, step after step."""

    def __init__(self) -> None:
        self._calls = 0
        self._next = 1
        self._models: tuple[int, ...] = ()
        self._training: list[bool] = []  # of each model
        self._owners: list[_Owner] = []
        self._read: list[_Owner] = []  # those of them that are read at every call
        self._resting = State([])  # and what the others hold
        self._settings: dict[int, Any] = {}  # of modules of libraries; None: they may change
        self._known: dict[int, Any] = {}  # modules, and what else is an owner
        self._roots: list[Any] = []  # hooks and methods of models: what they close over
        self._far: list[Any] = []  # and methods of all other classes of the user's
        self._files = UsersFiles()

    def now(
        self,
        modules: Sequence[torch.nn.Module],
        globals_: Sequence[dict[str, Any]],
        given: Sequence[Any],
    ) -> State:
        """At a call of a model: of these models, of the frames' globals, and of what is given."""
        self._calls += 1
        models = tuple(map(id, (*modules, *globals_)))
        training = [module.training for module in modules]
        if self._calls >= self._next or models != self._models or training != self._training:
            self._models, self._training = models, training
            self._find_out(modules, globals_, given)
            self._next = self._calls * 2 if self._calls < OFTEN else self._calls + SELDOM
        try:
            if self._calls % RESTING == 0 and not self._resting.is_still_so():
                self._find_out(modules, globals_, given)
            state = State(self._read, resting=self._resting)
        except KeyError:  # a name is gone
            self._find_out(modules, globals_, given)
            state = State(self._read, resting=self._resting)
        return self._filled(state, given)

    def exactly(self, states: Iterable[State], given: Iterable[Any]) -> State:
        """All there is now, to be put back later; also of what these states will set back."""
        found = self._filled(State(self._owners, sys.maxsize, exact=True), given)
        for state in (found, *states):
            found.hold_exactly_what(state)
        return found

    def _filled(self, state: State, given: Iterable[Any]) -> State:
        # The nearest first: how much is looked into has a limit.
        state.look(given, self._known)
        state.look(self._roots, self._known)
        state.look_at_names(self._known)
        state.look(self._far, self._known)
        return state

    # -- where to look -----------------------------------------------------------------------------

    def _find_out(
        self,
        models: Sequence[torch.nn.Module],
        globals_: Sequence[dict[str, Any]],
        given: Sequence[Any],
    ) -> None:
        users = self._files.globals_with(globals_)
        # Modules that are not watched, a loss of the user's own class, are as well found by name.
        named = (v for names in (*users, *given) if isinstance(names, dict) for v in names.values())
        others = [value for value in named if isinstance(value, torch.nn.Module)]
        modules = {id(m): m for model in (*models, *others) for m in model.modules()}
        self._known = dict(modules)
        self._owners, self._roots, self._far = [], [], []
        settings: dict[int, Any] = {}  # of modules of libraries
        resting: list[_Owner] = []
        classes: dict[type, None] = {}
        for module in modules.values():
            names = vars(module)
            owner = self._own(names, names.__setitem__, names.keys() - _STANDARD)
            if not any(map(is_users, type(module).__mro__)):
                before = self._settings.get(id(module), NOTHING)
                found = owner.settings()
                settings[id(module)] = found if before is NOTHING or found == before else None
                if found is not None and found == before:
                    resting.append(owner)
            for hooks in (names.get(name) for name in _HOOKS):
                self._roots += hooks.values() if hooks else ()
            classes.update(dict.fromkeys(type(module).__mro__))
        near = set(classes)
        for names in users:
            self._own(names, names.__setitem__, (n for n in names if not n.startswith("__")))
            classes.update(dict.fromkeys(v for v in names.values() if isinstance(v, type)))
        for kind in classes:
            if is_users(kind):
                own = vars(kind)
                wanted = (n for n in own if not n.startswith("__"))
                self._own(own, partial(setattr, kind), wanted)
                roots = self._roots if kind in near else self._far
                roots += (v for v in own.values() if isinstance(v, FunctionType))
        self._roots = [root for root in self._roots if _leads_anywhere(root)]
        self._far = [root for root in self._far if _leads_anywhere(root)]
        self._settings = settings
        self._owners = [owner for owner in self._owners if owner.plain or owner.followed]
        quiet = set(map(id, resting))
        self._read = [owner for owner in self._owners if id(owner) not in quiet]
        self._resting = State([owner for owner in self._owners if id(owner) in quiet])
        self._resting.look_at_names(self._known)

    def _own(
        self, names: Mapping[str, Any], put: Callable[[str, Any], None], wanted: Iterable[str]
    ) -> _Owner:
        owner = _Owner(names, put, [n for n in wanted if _leads_anywhere(names[n])])
        self._owners.append(owner)
        self._known[id(names)] = names
        return owner


def _settings(value: Any, deep: int = 0) -> Any:
    """A copy of numbers and text, and of containers of them; else, a TypeError."""
    kind = type(value)
    if is_plain(value):
        return value
    if kind not in (list, tuple, dict, set) or len(value) > LONGEST or deep > _DEEPEST:
        raise TypeError(kind)
    if kind is dict:
        return {name: _settings(inner, deep + 1) for name, inner in value.items()}
    copies = [_settings(inner, deep + 1) for inner in value]
    return set(copies) if kind is set else copies


def _leads_anywhere(value: Any) -> bool:
    """A function that closes over nothing holds nothing; gradwalk's own are no part of this."""
    own = value.__self__ if isinstance(value, MethodType) else value
    if type(own).__module__.startswith("gradwalk."):
        return False
    if isinstance(value, FunctionType):
        return bool(value.__closure__ or value.__dict__ or value.__defaults__)
    return True


class UsersFiles:
    """The globals of the user's own files that are imported."""

    def __init__(self) -> None:
        self._imported = 0  # how many modules there were
        self._found: dict[int, dict[str, Any]] = {}

    def globals_with(self, others: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
        """Of all of them, and these."""
        if len(sys.modules) != self._imported:
            self._imported = len(sys.modules)
            for module in list(sys.modules.values()):
                names = vars(module) if isinstance(module, ModuleType) else {}
                file = names.get("__file__")
                if isinstance(file, str) and files[file] == USER:
                    self._found[id(names)] = names
        return list({**{id(names): names for names in others}, **self._found}.values())
