"""The Python state of a program at a model call: counters, mostly.

A re-run from the batch alone may do something else: a module may count its calls. The state
comprises the attributes of modules, the globals of the user's own files and classes, closures, and
the plain objects and containers in them. Where to look is worked out now and then; in between, a
step only reads the names on that list, and the objects that stay (settled_objects.py).
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import chain
from operator import call, is_, itemgetter
from types import FunctionType, MethodType, ModuleType
from typing import Any

import torch

from gradwalk.torch.rerun.settled_objects import Held, SettledObjects
from gradwalk.torch.rerun.state_by_type import (
    ITERATOR,
    NAMES,
    NOT_KEPT,
    NOTHING,
    PLAIN,
    Holder,
    copied,
    holders_of,
    is_heavy,
    is_interns,
    is_plain,
    is_users,
)
from gradwalk.torch.user_lines import INTERNAL, USER, files

MOST = 256  # objects to look into at a model call
OFTEN = 64  # calls: up to here, work out where to look at each power of two,
SELDOM = 256  # and from then on every so many calls
_STANDARD = frozenset(vars(torch.nn.Module())) - {"training"}  # attributes of every module
_HOOKS = tuple(name for name in _STANDARD if name.endswith("_hooks"))


class _Owner:
    """A namespace that lives as long as the program, and which of its names to read."""

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
            kind: Any = type(value)
            if is_plain(value):
                plain.append(name)
            elif holders_of(kind) or issubclass(kind, torch.Tensor):
                followed.append(name)
        # itemgetter of one name returns no tuple.
        self.plain = tuple(plain * 2 if len(plain) == 1 else plain)
        self.followed = tuple(followed)
        self.get: Callable[[Any], tuple[Any, ...]] = (
            itemgetter(*self.plain) if self.plain else lambda names: ()
        )

    def restore(self, kept: Mapping[str, Any]) -> None:
        """Bind these names to these values again."""
        for name, value in kept.items():
            if value is not NOT_KEPT and self.names.get(name, NOTHING) is not value:
                self.put(name, value)

    def followed_now(self) -> dict[str, Any]:
        """The values of names bound to more than numbers and text, without large ones."""
        values = {name: self.names.get(name, NOT_KEPT) for name in self.followed}
        return {name: NOT_KEPT if is_heavy(value) else value for name, value in values.items()}

    def is_same(self, kept: Mapping[str, Any]) -> bool:
        """Whether `followed_now` would return the same."""
        return all(map(is_, map(self.names.get, self.followed), kept.values()))

    @staticmethod
    def flat(owners: list[_Owner]) -> list[Any]:
        """The same of several, in one list."""
        return [owner.names.get(name) for owner in owners for name in owner.followed]

    @staticmethod
    def flat_kept(kept: list[dict[str, Any]]) -> list[Any]:
        """What `followed_now` returned for several, in one list."""
        return list(chain.from_iterable(map(dict.values, kept)))

    def all_now(self) -> dict[str, Any]:
        """The values of all names."""
        return {name: self.names.get(name, NOT_KEPT) for name in (*self.plain, *self.followed)}


class _Owners(list[_Owner]):
    """Several namespaces. Each model call reads all of them, so without a loop in Python."""

    def __init__(self) -> None:
        self.readers: list[Callable[[Any], tuple[Any, ...]]] = []
        self.names: list[Mapping[str, Any]] = []

    def add(self, owner: _Owner) -> None:
        """Add a namespace."""
        self.append(owner)
        self.readers.append(owner.get)
        self.names.append(owner.names)


OWNER = Holder(
    *(_Owner.followed_now, _Owner.restore, dict.values, _Owner.all_now, _Owner.is_same),
    flat=_Owner.flat,
    flat_kept=_Owner.flat_kept,
)


class State:
    """The Python state at one moment.

    An exact one, to restore after a re-run, is complete and does not copy iterators.
    """

    def __init__(self, owners: _Owners, exact: bool = False) -> None:
        self._owners = owners
        self._plain = list(map(call, owners.readers, owners.names))
        self._lengths = list(map(len, owners.names))
        self.settled: list[Held] = []  # shared with other states
        self.held: list[Held] = []
        self.seen: dict[int, Any] = {}
        self._most = sys.maxsize if exact else MOST
        self._exact = exact

    def look(self, things: Iterable[Any], known: Mapping[int, Any]) -> None:
        """Keep the contents of these objects and of those they lead to, except `known` ones."""
        waiting = list(things)
        seen = self.seen
        for thing in waiting:  # grows meanwhile
            kind: Any = type(thing)
            holders = holders_of(kind)
            if not holders or id(thing) in seen or id(thing) in known:
                continue
            if len(seen) >= self._most:
                return
            seen[id(thing)] = thing
            for how in holders:
                try:
                    kept = self._hold(how, thing)
                except Exception:  # looking at a user's object must never break the program
                    continue
                if kept is not NOT_KEPT:
                    waiting += [inner for inner in how.inside(kept) if type(inner) not in PLAIN]

    def look_at_names(self, known: Mapping[int, Any]) -> None:
        """Continue from names bound to more than numbers and text."""
        for owner in self._owners:
            if owner.followed:
                self.look(self._hold(OWNER, owner).values(), known)

    def hold_all_of(self, other: State) -> None:
        """Keep the current contents of the objects in `other`."""
        for owner in other._owners:
            if isinstance(owner.names, dict):
                self._hold(NAMES, owner.names)
            else:  # the namespace of a class
                self._hold(OWNER, owner)
        for how, thing, _ in () if other is self else other._all:
            self._hold(how, thing)

    def _hold(self, how: Holder, thing: Any) -> Any:
        kept = (how.take_all if self._exact and how.take_all else how.take)(thing)
        if kept is not NOT_KEPT:
            self.held.append((how, thing, kept))
        return kept

    @property
    def _all(self) -> list[Held]:
        return self.settled + self.held

    def restore(self) -> None:
        """Restore everything and remove names added since; copies replace iterators."""
        copies = {id(it): copied(kept) for how, it, kept in self._all if how is ITERATOR}

        def own(value: Any) -> Any:
            return copies.get(id(value), value)

        for owner, length, values in zip(self._owners, self._lengths, self._plain):
            if length < len(owner.names) and isinstance(owner.names, dict):
                for name in list(owner.names)[length:]:  # added since
                    if not is_interns(name):
                        del owner.names[name]
            owner.restore(dict(zip(owner.plain, values)))
        for how, thing, kept in self._all:
            if copies and isinstance(kept, dict):
                kept = {name: own(value) for name, value in kept.items()}
            elif copies and isinstance(kept, list):
                kept = [own(value) for value in kept]
            how.put(thing, own(kept))


class Keeper:
    """Take the Python state of a program, step after step."""

    def __init__(self) -> None:
        self._calls = 0
        self._next = 1
        self._models: tuple[int, ...] = ()
        self._owners = _Owners()
        self._known: dict[int, Any] = {}  # modules and other owners
        self._settled: SettledObjects | None = None
        self._found: dict[int, Any] = {}  # by the last look, if that followed every reference
        self._roots: list[Any] = []  # hooks and methods of models, for their closures
        self._far: list[Any] = []  # methods of the user's other classes
        self._imported = 0  # number of imported modules at the last look
        self._users: dict[int, dict[str, Any]] = {}  # globals of the user's imported files

    def now(
        self,
        modules: Sequence[torch.nn.Module],
        globals_: Sequence[dict[str, Any]],
        given: Sequence[Any],
    ) -> State:
        """Take the state at a model call: of the models, the frames' globals and `given`."""
        self._calls += 1
        models = tuple(map(id, (*modules, *globals_)))
        if self._calls >= self._next or models != self._models:
            self._models = models
            self._find_out(modules, globals_, given)
            self._next = self._calls * 2 if self._calls < OFTEN else self._calls + SELDOM
        try:
            state = State(self._owners)
        except KeyError:  # a name was deleted
            self._find_out(modules, globals_, given)
            state = State(self._owners)
        settled = self._settled
        if settled is None or settled.is_stale:
            self._filled(state, given)
            self._settle(state)
        else:
            state.look(given, settled.known)
            try:
                state.settled, loose = settled.take()
            except Exception:  # looking at a user's object must never break the program
                self._settled = None
                return self._filled(state, given)
            state.look(loose, settled.known)
        return state

    def _settle(self, state: State) -> None:
        """After a look that followed every reference: the next but one need not do so."""
        before, self._found = self._found, {}
        if before:
            self._settled = SettledObjects(state.held, before, self._known)
        else:
            owners = {id(owner): owner for owner in self._owners}
            self._settled, self._found = None, {**state.seen, **owners}

    def exactly(self, states: Iterable[State], given: Iterable[Any]) -> State:
        """Take the complete state, to restore later, including whatever `states` restore."""
        exact = self._filled(State(self._owners, exact=True), given)
        for state in (exact, *states):
            exact.hold_all_of(state)
        return exact

    def _filled(self, state: State, given: Iterable[Any]) -> State:
        # Nearest first: the number of objects to look into is limited.
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
        users = self._globals_with(globals_)
        self._settled, self._found = None, {}
        # Modules that are not watched, such as a loss, are reached by name.
        named = (v for names in (*users, *given) if isinstance(names, dict) for v in names.values())
        others = [value for value in named if isinstance(value, torch.nn.Module)]
        modules = {id(m): m for model in (*models, *others) for m in model.modules()}
        self._known = dict(modules)
        self._owners, self._roots, self._far = _Owners(), [], []
        classes: dict[type, None] = {}
        for module in modules.values():
            names = vars(module)
            self._own(names, names.__setitem__, names.keys() - _STANDARD)
            for hooks in (names.get(name) for name in _HOOKS):
                self._roots += [h for h in hooks.values() if not _of_ranks(h)] if hooks else ()
            classes.update(dict.fromkeys(type(module).__mro__))
        near = set(classes)
        for names in users:
            self._own(names, names.__setitem__, (n for n in names if not n.startswith("__")))
            classes.update(dict.fromkeys(v for v in names.values() if isinstance(v, type)))
        for kind in filter(is_users, classes):
            own = vars(kind)
            self._own(own, partial(setattr, kind), (n for n in own if not n.startswith("__")))
            roots = self._roots if kind in near else self._far
            roots += (v for v in own.values() if isinstance(v, FunctionType))
        self._roots = [root for root in self._roots if _leads_anywhere(root)]
        self._far = [root for root in self._far if _leads_anywhere(root)]

    def _globals_with(self, others: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
        """The globals of the user's imported files, and `others`."""
        if len(sys.modules) != self._imported:
            self._imported = len(sys.modules)
            for module in list(sys.modules.values()):
                names = vars(module) if isinstance(module, ModuleType) else {}
                file = names.get("__file__")
                if isinstance(file, str) and files[file] == USER:
                    self._users[id(names)] = names
        return list({**{id(names): names for names in others}, **self._users}.values())

    def _own(
        self, names: Mapping[str, Any], put: Callable[[str, Any], None], wanted: Iterable[str]
    ) -> None:
        owner = _Owner(names, put, [n for n in wanted if _leads_anywhere(names[n])])
        if owner.plain or owner.followed:
            self._owners.add(owner)
        self._known[id(names)] = names


def _of_ranks(hook: Any) -> bool:
    """Whether a hook is one of torch.distributed, whose state belongs to all ranks."""
    function = hook.__func__ if isinstance(hook, MethodType) else hook
    if not isinstance(function, FunctionType):
        return False
    file = function.__code__.co_filename
    return files[file] == INTERNAL and f"{os.sep}distributed{os.sep}" in file


def _leads_anywhere(value: Any) -> bool:
    """Whether a value can hold state: not a function without a closure, nor gradwalk's own."""
    own = value.__self__ if isinstance(value, MethodType) else value
    if type(own).__module__.startswith("gradwalk."):
        return False
    if isinstance(value, FunctionType):
        return bool(value.__closure__ or value.__dict__ or value.__defaults__)
    return True
