"""The Python state of a program at a model call: counters, mostly.

A re-run from the batch alone may do something else: a module may count its calls. The state
comprises the attributes of modules, the globals of the user's own files and classes, closures, and
the plain objects and containers in them. Where to look is worked out now and then; in between, a
step only reads the names on that list. Attributes of library modules are mostly settings; those
that never changed are read rarely.
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

MOST = 256  # objects to look into at a model call
OFTEN = 64  # calls: up to here, work out where to look at each power of two,
SELDOM = 256  # and from then on every so many calls
RESTING = 16  # calls between two checks that settings are unchanged
_DEEPEST = 4  # nesting of containers
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
            if is_plain(value):
                plain.append(name)
            elif ways[type(value)] is not None or isinstance(value, torch.Tensor):
                followed.append(name)
        self.plain = tuple(
            plain * 2 if len(plain) == 1 else plain
        )  # itemgetter of one name returns no tuple
        self.followed = tuple(followed)
        self.get: Callable[[Any], tuple[Any, ...]] = (
            itemgetter(*self.plain) if self.plain else lambda names: ()
        )

    def settings(self) -> Any:
        """A comparable copy of the values; None if they are more than numbers and text."""
        try:
            return {name: _settings(self.names[name]) for name in (*self.plain, *self.followed)}
        except TypeError:
            return None

    def restore(self, names: Sequence[str], values: Iterable[Any]) -> None:
        """Bind these names to these values again."""
        for name, value in zip(names, values):
            if value is not NOT_KEPT and self.names.get(name, NOTHING) is not value:
                self.put(name, value)


class State:
    """The Python state at one moment."""

    def __init__(
        self,
        owners: list[_Owner],
        most: int = MOST,
        exact: bool = False,
        resting: State | None = None,
    ) -> None:
        self._owners = owners
        self._resting = resting  # read earlier and unchanged since
        self._plain = [owner.get(owner.names) for owner in owners]
        self._lengths = [len(owner.names) for owner in owners]
        self._followed: list[tuple[_Owner, list[Any]]] = []
        self._held: list[tuple[Holder, Any, Any]] = []  # how, which object, its contents
        self._iterators: dict[int, tuple[Any, Any]] = {}  # by `id`: itself, a copy
        self._seen: dict[int, Any] = {}
        self._most = most
        self._exact = exact  # for restoring after a re-run: complete, and without copies

    def is_still_so(self) -> bool:
        """Whether names bound to numbers and text are unchanged."""
        now = State(self._owners)
        return now._plain == self._plain and now._lengths == self._lengths

    def look(self, things: Iterable[Any], known: Mapping[int, Any]) -> None:
        """Keep the contents of these objects and of those they lead to, except `known` ones."""
        waiting = list(things)
        seen, exact = self._seen, self._exact
        for thing in waiting:  # grows meanwhile
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
                except Exception:  # looking at a user's object must never break the program
                    continue
                if exact:
                    self.hold_exactly(how, holder)
                else:
                    self._held.append((how, holder, kept))
                waiting += [inner for inner in how.inside(kept) if type(inner) not in PLAIN]
            waiting += way.leads_to(thing)

    def look_at_names(self, known: Mapping[int, Any]) -> None:
        """Continue from names bound to more than numbers and text."""
        for owner in self._owners:
            if owner.followed:
                values = [owner.names.get(name, NOT_KEPT) for name in owner.followed]
                if not self._exact:
                    values = [NOT_KEPT if is_heavy(value) else value for value in values]
                self._followed.append((owner, values))
                self.look(values, known)

    def hold_exactly_what(self, other: State) -> None:
        """Keep the complete current contents of the objects in `other`."""
        for owner in other._owners:
            if isinstance(owner.names, dict):
                self.hold_exactly(NAMES, owner.names)
            else:  # the namespace of a class
                names = (*owner.plain, *owner.followed)
                self._followed.append((owner, [owner.names.get(n, NOT_KEPT) for n in names]))
        if other is not self:
            for how, holder, _ in other._held:
                self.hold_exactly(how, holder)
        if other._resting is not None:
            self.hold_exactly_what(other._resting)

    def hold_exactly(self, how: Holder, holder: Any) -> None:
        """Keep the complete contents of an object."""
        if how is NAMES:
            self._held.append((how, holder, dict(holder)))
        elif how in (LIST, LONG_LIST):
            self._held.append((LIST, holder, list(holder)))
        else:
            self._held.append((how, holder, how.take(holder)))

    def restore(self, take_away: bool = True) -> None:
        """Restore everything; copies replace iterators.

        With `take_away`, names added since are removed.
        """
        if self._resting is not None:
            self._resting.restore(take_away=False)  # taken before the step
        copies = {at: copied(kept) for at, (_, kept) in self._iterators.items()}

        def own(value: Any) -> Any:
            return copies.get(id(value), value)

        for owner, length, values in zip(self._owners, self._lengths, self._plain):
            if take_away and length < len(owner.names) and isinstance(owner.names, dict):
                for name in list(owner.names)[length:]:  # added since
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
    """Take the Python state of a program, step after step."""

    def __init__(self) -> None:
        self._calls = 0
        self._next = 1
        self._models: tuple[int, ...] = ()
        self._training: list[bool] = []  # of each model
        self._owners: list[_Owner] = []
        self._read: list[_Owner] = []  # owners to read at every call
        self._resting = State([])  # the contents of the others
        self._settings: dict[int, Any] = {}  # of library modules; None: they change
        self._known: dict[int, Any] = {}  # modules and other owners
        self._roots: list[Any] = []  # hooks and methods of models, for their closures
        self._far: list[Any] = []  # methods of the user's other classes
        self._files = UsersFiles()

    def now(
        self,
        modules: Sequence[torch.nn.Module],
        globals_: Sequence[dict[str, Any]],
        given: Sequence[Any],
    ) -> State:
        """Take the state at a model call: of the models, the frames' globals and `given`."""
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
        except KeyError:  # a name was deleted
            self._find_out(modules, globals_, given)
            state = State(self._read, resting=self._resting)
        return self._filled(state, given)

    def exactly(self, states: Iterable[State], given: Iterable[Any]) -> State:
        """Take the complete state, to restore later, including whatever `states` restore."""
        exact = self._filled(State(self._owners, sys.maxsize, exact=True), given)
        for state in (exact, *states):
            exact.hold_exactly_what(state)
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
        users = self._files.globals_with(globals_)
        # Modules that are not watched, such as a loss, are reached by name.
        named = (v for names in (*users, *given) if isinstance(names, dict) for v in names.values())
        others = [value for value in named if isinstance(value, torch.nn.Module)]
        modules = {id(m): m for model in (*models, *others) for m in model.modules()}
        self._known = dict(modules)
        self._owners, self._roots, self._far = [], [], []
        settings: dict[int, Any] = {}  # of library modules
        resting: list[_Owner] = []
        classes: dict[type, None] = {}
        for module in modules.values():
            names = vars(module)
            owner = self._own(names, names.__setitem__, names.keys() - _STANDARD)
            if not any(map(is_users, type(module).__mro__)):
                before = self._settings.get(id(module), NOTHING)
                now = owner.settings()
                settings[id(module)] = now if before is NOTHING or now == before else None
                if now is not None and now == before:
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
    """Copy numbers, text and containers of them; raise TypeError for anything else."""
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
    """Whether a value can hold state: not a function without a closure, nor gradwalk's own."""
    own = value.__self__ if isinstance(value, MethodType) else value
    if type(own).__module__.startswith("gradwalk."):
        return False
    if isinstance(value, FunctionType):
        return bool(value.__closure__ or value.__dict__ or value.__defaults__)
    return True


class UsersFiles:
    """The globals of the user's imported files."""

    def __init__(self) -> None:
        self._imported = 0  # number of modules at the last look
        self._found: dict[int, dict[str, Any]] = {}

    def globals_with(self, others: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
        """The globals of all of them, and `others`."""
        if len(sys.modules) != self._imported:
            self._imported = len(sys.modules)
            for module in list(sys.modules.values()):
                names = vars(module) if isinstance(module, ModuleType) else {}
                file = names.get("__file__")
                if isinstance(file, str) and files[file] == USER:
                    self._found[id(names)] = names
        return list({**{id(names): names for names in others}, **self._found}.values())
