"""Modules during a trace: their attributes decide what is done, and may be changed.

`ModulesGuard` compares the attributes of every module that is called. An attribute that the
function sets (a hidden state, a weight made of others) is put back after the trace and set again in
every call.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from gradwalk.compiler.capture.guards import MISSING, hooks_of
from gradwalk.compiler.capture.locations import Location
from gradwalk.nn.module import Module, changes


@dataclass(frozen=True)
class AttributeLocation(Location):
    """An attribute of a module."""

    module: Any
    name: str

    def get(self, arguments: Any) -> Any:
        return self.module.__dict__.get(self.name)

    def set(self, value: Any, arguments: Any) -> None:
        # Guards of other compiled functions compare plain values; a tensor they read anyway.
        if not hasattr(value, "_array") and self.get([]) != value:
            changes.now += 1
        if self.name in self.module._buffers:
            self.module._buffers[self.name] = value
        object.__setattr__(self.module, self.name, value)


class CapturedModules:
    """The modules of a trace as they were when first met, and the attributes that were set."""

    def __init__(self) -> None:
        self.met: dict[int, tuple[Any, dict[str, Any]]] = {}
        self.hooked: list[tuple[Any, tuple[Any, ...]]] = []  # modules, tensors, optimizers
        self.new: dict[int, Any] = {}  # made by the function itself
        # What was set, by the module's id and the name: where it is, and what was there before.
        self.before: dict[tuple[int, str], tuple[AttributeLocation, Any]] = {}

    def enter(self, module: Any) -> None:
        """A module is called."""
        if id(module) not in self.met and id(module) not in self.new:
            self.met[id(module)] = (module, dict(module.__dict__))
            self.hooked.append((module, hooks_of(module)))
            self.enter_lists(module)

    def enter_lists(self, module: Any) -> None:
        """Note the modules inside that are never called, such as a ModuleList."""
        for inner in module.modules():
            if type(inner).forward is Module.forward and id(inner) not in self.met:
                self.met[id(inner)] = (inner, dict(inner.__dict__))

    def sets(self, module: Any, name: str) -> None:
        """An attribute is about to be set."""
        key = (id(module), name)
        if id(module) not in self.new and key not in self.before:
            old = module.__dict__.get(name, MISSING)
            self.before[key] = (AttributeLocation(module, name), old)

    def restore(self) -> None:
        """Put all attributes back."""
        for location, old in self.before.values():
            if old is not MISSING:
                location.set(old, [])
            elif location.name in location.module.__dict__:
                object.__delattr__(location.module, location.name)

    def written(self) -> list[tuple[AttributeLocation, Any, Any]]:
        """(location, value before, value now) of every attribute that was set."""
        return [
            (location, None if old is MISSING else old, location.get([]))
            for location, old in self.before.values()
        ]

    def replaced(self) -> dict[int, AttributeLocation]:
        """The locations of tensors that the function replaces by others, by the tensors' ids."""
        return {
            id(old): location
            for location, old, now in self.written()
            if hasattr(old, "_array") and now is not old
        }
