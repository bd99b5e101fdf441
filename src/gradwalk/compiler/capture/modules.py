"""Modules while a function is traced: what they are decides what is done, and may be changed.

The attributes of every module that is called are a condition of the program. An attribute that
the function sets (a hidden state, a weight made of others) is put back after the trace and set
again in every call.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from gradwalk.nn.module import Module, changes

if TYPE_CHECKING:
    from gradwalk.compiler.tracing.tracer import Tracer

_MISSING: Any = object()
_PLAIN = (bool, int, float, str, type(None), tuple)
_OWN = ("_parameters", "_buffers", "_modules", "_non_persistent_buffers_set", "_hooks")


def hooks_of(thing: Any) -> tuple[Any, ...]:
    """Which hooks a module, an optimizer or a tensor has, by the numbers of their handles."""
    kinds = getattr(thing, "hooks", None) if hasattr(thing, "_array") else thing._hooks
    return tuple(number for functions in (kinds or {}).values() for number in functions)


@dataclass(frozen=True)
class OfAttribute:
    """An attribute of a module, as a place."""

    module: Any
    name: str

    def get(self, arguments: list[Any]) -> Any:
        """What is there, or None."""
        return self.module.__dict__.get(self.name)

    def set(self, value: Any, arguments: list[Any]) -> None:
        """Replace it; not an event for other compiled functions, which read what they find."""
        if not hasattr(value, "_array") and self.get([]) != value:
            changes.now += 1  # a plain value is a condition
        if self.name in self.module._buffers:
            self.module._buffers[self.name] = value
        object.__setattr__(self.module, self.name, value)


class HeldModules:
    """The modules of a trace: as they were when first met, and which attributes were set."""

    def __init__(self) -> None:
        self.met: dict[int, tuple[Any, dict[str, Any]]] = {}
        self.hooked: list[tuple[Any, tuple[Any, ...]]] = []  # whatever may have hooks, and which
        self.new: dict[int, Any] = {}  # made by the function itself
        self.before: dict[tuple[int, str], tuple[OfAttribute, Any]] = {}

    def enter(self, module: Any) -> None:
        """A module is called."""
        if id(module) not in self.met and id(module) not in self.new:
            self.met[id(module)] = (module, dict(module.__dict__))
            self.hooked.append((module, hooks_of(module)))
            self.enter_lists(module)

    def enter_lists(self, module: Any) -> None:
        """The modules inside that are never called, such as a ModuleList: what they have counts."""
        for inner in module.modules():
            if type(inner).forward is Module.forward and id(inner) not in self.met:
                self.met[id(inner)] = (inner, dict(inner.__dict__))

    def sets(self, module: Any, name: str) -> None:
        """An attribute is about to be set."""
        key = (id(module), name)
        if id(module) not in self.new and key not in self.before:
            old = module.__dict__.get(name, _MISSING)
            self.before[key] = (OfAttribute(module, name), old)

    def restore(self) -> None:
        """Put all attributes back."""
        for place, old in self.before.values():
            if old is not _MISSING:
                place.set(old, [])
            elif place.name in place.module.__dict__:
                object.__delattr__(place.module, place.name)

    def set_attributes(self) -> list[tuple[Any, str]]:
        """(module, name) of every attribute that was set."""
        return [(place.module, place.name) for place, _ in self.before.values()]

    def written(self) -> list[tuple[OfAttribute, Any, Any]]:
        """(place, value before, value now) of every attribute that was set."""
        return [
            (place, None if old is _MISSING else old, place.get([]))
            for place, old in self.before.values()
        ]


class ModulesAsBefore:
    """Whether the modules of a trace still have the attributes they had, and everything the hooks.

    What needs looking at only when `changes` has moved is here.
    """

    def __init__(self, held: HeldModules) -> None:
        self.seen = -1  # the count of changes when this was last found to be so
        written = held.before.keys()
        self.attributes = [
            (module, name, value)
            for module, attributes in held.met.values()
            for name, value in attributes.items()
            if name not in _OWN and (id(module), name) not in written
        ]
        # One that the function replaces is a condition only by being a tensor or not, and if it
        # is none, by its value.
        self.attributes += [
            (place.module, place.name, None if old is _MISSING else old)
            for place, old in held.before.values()
            if not hasattr(old, "_array")
        ]
        self.tensors = [p for p, old in held.before.values() if hasattr(old, "_array")]
        self.hooked = held.hooked

    def holds(self) -> bool:
        """Whether they have."""
        if changes.now == self.seen and not self.tensors:
            return True
        for module, name, value in self.attributes:
            now = module.__dict__.get(name)
            if now is not value and not (type(now) is type(value) in _PLAIN and now == value):
                return False
        if any(not hasattr(place.get([]), "_array") for place in self.tensors):
            return False
        if any(hooks_of(thing) != before for thing, before in self.hooked):
            return False
        self.seen = changes.now
        return True


def replaced_places(tracer: Tracer) -> dict[int, OfAttribute]:
    """Where tensors are found that a module's attribute held, if the function replaces that."""
    return {
        id(old): place
        for place, old in tracer.modules.before.values()
        if hasattr(old, "_array") and place.get([]) is not old
    }
