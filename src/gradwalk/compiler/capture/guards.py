"""Guards: what a trace read, and each call compares before it runs the program.

    Variable         a cell of a closure, an element, an attribute: by value or by identity
    Container        the elements of a list, dictionary or set
    Reading          what a function returns: a context variable, a weak reference, the bytes of a
                     buffer
    ArrayOutside     the elements of an ndarray
    ModulesGuard     the attributes of modules, and hooks
    OptimizerGuard   the parameters, options and state of an optimizer

`environment_guards.py` finds out what a function reads; `call/guard_code.py` writes the comparisons
as code. If a guard does not hold, the call traces anew.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from operator import is_
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from gradwalk.compiler.capture.locations import Location
from gradwalk.nn.module import changes
from gradwalk.optim.optimizer import IGNORED

if TYPE_CHECKING:
    from gradwalk.compiler.capture.modules import CapturedModules
    from gradwalk.compiler.capture.optimizers import CapturedOptimizer

PLAIN = (bool, int, float, complex, str, bytes, type(None), slice, range)
MISSING: Any = object()


def is_plain(value: Any) -> bool:
    """Whether a guard compares it by value, and not by identity."""
    # Of the type: an object may answer for its class, and anything else, as it likes.
    return type(value) in PLAIN or issubclass(type(value), (np.generic, np.dtype))


def same(now: Any, before: Any) -> bool:
    """Whether a guard accepts a value: the same object, or an equal plain value."""
    if now is before:
        return True
    return type(now) is type(before) and is_plain(before) and bool(now == before)


@dataclass(eq=False)
class Variable(Location):
    """A cell of a closure, an element of a dictionary or list (globals too), or an attribute.

    It is the location of a tensor if the next call may find another tensor there.
    """

    how: str  # "cell", "item", "attribute", or "method": the function of a bound method
    holder: Any
    name: Any  # or index
    value: Any  # in the trace

    def now(self) -> Any:
        """Its value now; MISSING if it has none."""
        try:
            if self.how == "cell":
                return self.holder.cell_contents
            if self.how == "item":
                return self.holder[self.name]
            value = getattr(self.holder, self.name)
            return value.__func__ if self.how == "method" else value
        except (AttributeError, LookupError, TypeError, ValueError):
            return MISSING

    def get(self, arguments: Any) -> Any:
        """The tensor, or None if it is none."""
        value = self.now()
        return value if hasattr(type(value), "_array") else None

    def set(self, value: Any, arguments: Any = ()) -> None:
        if self.how == "cell":
            self.holder.cell_contents = value
        elif self.how == "item":
            self.holder[self.name] = value
        else:
            setattr(self.holder, self.name, value)

    def put_back(self) -> None:
        """Restore the value it had in the beginning."""
        if self.value is not MISSING:
            self.set(self.value)
        elif self.how == "attribute":
            delattr(self.holder, self.name)
        else:
            del self.holder[self.name]

    def __str__(self) -> str:
        return f"'{self.name}'"


class Container:
    """A list, dictionary or set that the function iterates over: its elements are guarded."""

    __slots__ = ("elements", "free", "holder", "keys")

    def __init__(self, holder: Any) -> None:
        self.holder = holder
        self.free: set[Any] = set()  # keys where any tensor may be
        self.note()

    def note(self) -> None:
        """Note its elements as they are now."""
        self.elements = self.now()
        self.keys: list[Any] = self.places()

    def places(self) -> list[Any]:
        """The keys, or the indices, of its elements."""
        return list(self.holder if _is_mapping(self.holder) else range(len(self.holder)))

    def now(self) -> list[Any]:
        return list(self.holder.values() if _is_mapping(self.holder) else self.holder)

    def changed(self) -> bool:
        """Whether it has other elements than noted."""
        holder, mapping = self.holder, _is_mapping(self.holder)
        if len(holder) == len(self.elements) and all(
            map(is_, holder.values() if mapping else holder, self.elements)
        ):
            return mapping and list(holder) != self.keys
        new = dict(zip(self.places(), self.now(), strict=True))
        old = dict(zip(self.keys, self.elements, strict=True))
        for key in self.free:
            if hasattr(type(new.get(key)), "_array"):
                del new[key]
                old.pop(key, None)
        return list(new) != list(old) or not all(map(same, new.values(), old.values()))

    def variables(self) -> list[Variable]:
        """Its elements as variables; none for a set, or a list that grew or shrank."""
        if isinstance(self.holder, dict):
            old = dict(zip(self.keys, self.elements, strict=True))
            return [Variable("item", self.holder, k, old.get(k, MISSING)) for k in self.holder]
        if isinstance(self.holder, list) and len(self.holder) == len(self.elements):
            return [Variable("item", self.holder, k, v) for k, v in enumerate(self.elements)]
        return []

    def put_back(self) -> None:
        """Restore its elements."""
        if isinstance(self.holder, list):
            self.holder[:] = self.elements
            return
        self.holder.clear()
        if isinstance(self.holder, dict):
            self.holder.update(zip(self.keys, self.elements, strict=True))
        else:
            add = getattr(self.holder, "extend", None) or self.holder.update
            add(self.elements)


def _is_mapping(holder: Any) -> bool:
    return issubclass(type(holder), (dict, MappingProxyType))


class Reading:
    """What a function returned during the search for guards, and must return again."""

    __slots__ = ("read", "value")

    def __init__(self, read: Callable[[], Any]) -> None:
        self.read = read
        self.value = read()

    def changed(self) -> bool:
        return not same(self.read(), self.value)


class ArrayOutside:
    """An ndarray that the function reads; if NumPy computes with it, its elements are guarded."""

    __slots__ = ("elements", "holder", "read")

    def __init__(self, holder: np.ndarray[Any, Any]) -> None:
        self.holder = holder
        self.read = False  # whether NumPy computes with it for certain
        self.note()

    def note(self) -> None:
        """Note its elements as they are now."""
        self.elements = self.holder.tobytes()

    def changed(self) -> bool:
        return self.holder.tobytes() != self.elements

    def put_back(self) -> None:
        """Restore its elements."""
        if not self.holder.dtype.hasobject:
            before = np.frombuffer(self.elements, self.holder.dtype)
            self.holder[...] = before.reshape(self.holder.shape)


# -- modules ---------------------------------------------------------------------------------------

_COMPARED = (bool, int, float, str, type(None), tuple)  # attributes of these types, by value
_OWN = ("_parameters", "_buffers", "_modules", "_non_persistent_buffers_set", "_hooks")


def hooks_of(thing: Any) -> tuple[Any, ...]:
    """Which hooks a module, an optimizer or a tensor has, by the numbers of their handles."""
    kinds = getattr(thing, "hooks", None) if hasattr(thing, "_array") else thing._hooks
    return tuple(number for functions in (kinds or {}).values() for number in functions)


class ModulesGuard:
    """Whether the modules of a trace still have their attributes, and everything its hooks.

    It compares them only if `changes` counted something since the last time.
    """

    def __init__(self, captured: CapturedModules) -> None:
        self.seen = -1  # the count of changes when the guard last held
        written = captured.before.keys()
        self.attributes = [
            (module, name, value)
            for module, attributes in captured.met.values()
            for name, value in attributes.items()
            if name not in _OWN and (id(module), name) not in written
        ]
        # An object may get a method of its own, in front of that of its class.
        self.attributes += [
            (module, "forward", None)
            for module, attributes in captured.met.values()
            if "forward" not in attributes and (id(module), "forward") not in written
        ]
        # Of one that the function replaces only its value counts, or that it is a tensor.
        self.attributes += [
            (location.module, location.name, None if old is MISSING else old)
            for location, old in captured.before.values()
            if not hasattr(old, "_array")
        ]
        self.tensors = [p for p, old in captured.before.values() if hasattr(old, "_array")]
        self.hooked = captured.hooked

    def holds(self) -> bool:
        """Whether they do."""
        if changes.now == self.seen and not self.tensors:
            return True
        for module, name, value in self.attributes:
            now = module.__dict__.get(name)
            if now is not value and not (type(now) is type(value) in _COMPARED and now == value):
                return False
        if any(not hasattr(location.get([]), "_array") for location in self.tensors):
            return False
        if any(hooks_of(thing) != before for thing, before in self.hooked):
            return False
        self.seen = changes.now
        return True


# -- optimizers ------------------------------------------------------------------------------------


def is_scalar(value: Any) -> bool:
    """Whether an option is read at every call: a number, or a tuple of numbers."""
    parts = value if isinstance(value, tuple) else (value,)
    return all(type(v) in (int, float) for v in parts)


class OptimizerGuard:
    """Whether an optimizer has the parameters, the fixed options and the kinds of state it had."""

    def __init__(self, captured: CapturedOptimizer) -> None:
        self.optimizer = captured.optimizer
        self.params = [(group["params"], len(group["params"])) for _, group in captured.groups]
        self.fixed = [
            (i, name, value)
            for i, (_, group) in enumerate(captured.groups)
            for name, value in group.items()
            if name != "params" and name not in IGNORED and not is_scalar(value)
        ]
        self.states = [(state, len(captured.names[p])) for p, state in captured.states.items()]
        # Of all parameters, also those that do not move; None if no step is made.
        self.names = captured.names if captured.stepped else None

    def holds(self) -> bool:
        """Whether it still has; note where its state is now."""
        groups = self.optimizer.param_groups
        if len(groups) != len(self.params):
            return False
        for group, (params, count) in zip(groups, self.params, strict=True):
            if group["params"] is not params or len(params) != count:
                return False
        for i, name, value in self.fixed:
            now = groups[i].get(name)
            if now is not value and now != value:
                return False
        return self.names is None or self._state_holds(self.names)

    def _state_holds(self, names: dict[Any, set[str]]) -> bool:
        now = self.optimizer.state
        if len(now) != len(names):
            return False
        for state, count in self.states:
            entries = now.get(state.parameter)
            if entries is not state.entries or len(entries) != count:
                break
        else:  # those that do not move stay as they are
            if len(self.states) == len(names):
                return True
        if any(names.get(parameter) != entries.keys() for parameter, entries in now.items()):
            return False
        for state, _ in self.states:
            state.entries = now[state.parameter]
        return True
