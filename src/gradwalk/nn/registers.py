"""The registers of a module, by kind: what is written into one is the module's attribute as well.

>>> import gradwalk as gw
>>> layer = gw.nn.Linear(2, 1)
>>> layer._parameters["weight"] = gw.ones(1, 2)
>>> layer.weight
tensor([[1., 1.]])
"""

from __future__ import annotations

import weakref
from collections.abc import Mapping, MutableMapping
from typing import Any

from gradwalk.engine.hooks import changes

REGISTERS = ("_parameters", "_buffers", "_modules")


class Register(dict[str, Any]):
    """The parameters, buffers or modules of one module; a copy of it is a plain dictionary.

    `methods` are the names that stay methods. None says that the class of the module defines
    `__getattr__`, which is then asked for every entry: none is in `__dict__`.
    """

    __slots__ = ("_methods", "_owner")

    def __init__(self, owner: Any, methods: frozenset[str] | None) -> None:
        self._owner = weakref.ref(owner)
        self._methods = methods

    def __setitem__(self, name: str, value: Any) -> None:
        changes.now += 1
        super().__setitem__(name, value)
        owner = self._owner()
        if owner is None:
            return
        if self._methods is None:
            owner.__dict__.pop(name, None)
        elif name not in self._methods:
            owner.__dict__[name] = value

    def __delitem__(self, name: str) -> None:
        changes.now += 1
        super().__delitem__(name)
        owner = self._owner()
        if owner is not None:
            owner.__dict__.pop(name, None)

    update: Any = MutableMapping.update  # by the methods above
    setdefault: Any = MutableMapping.setdefault

    def pop(self, name: str, *default: Any) -> Any:
        if default and name not in self:
            return default[0]
        value = self[name]
        del self[name]
        return value

    def popitem(self) -> tuple[str, Any]:
        name = next(reversed(self))
        return name, self.pop(name)

    def clear(self) -> None:
        for name in list(self):
            del self[name]

    def __ior__(self, other: Any) -> Any:  # type: ignore[misc]
        self.update(other)
        return self

    def __reduce__(self) -> Any:
        return dict, (dict(self),)


def install(
    owner: Any, name: str, entries: Mapping[str, Any], methods: frozenset[str] | None
) -> None:
    """Make `entries` a register of a module, in place of the one it has."""
    attributes = owner.__dict__
    for gone in attributes.get(name, {}).keys() - entries.keys():
        attributes.pop(gone, None)
    register = attributes[name] = Register(owner, methods)
    register.update(entries)
