"""Where a traced function reads values: variables, containers and NumPy arrays."""

from __future__ import annotations

from operator import is_
from typing import Any

import numpy as np

from gradwalk.compiler.capture.locations import Location

PLAIN = (bool, int, float, complex, str, bytes, type(None), slice, range)
MISSING: Any = object()


def is_plain(value: Any) -> bool:
    """Whether a guard compares it by value, and not by identity."""
    return type(value) in PLAIN or isinstance(value, (np.generic, np.dtype))


def same(now: Any, before: Any) -> bool:
    """Whether a guard accepts a value: the same object, or an equal plain value."""
    if now is before:
        return True
    return type(now) is type(before) and is_plain(before) and bool(now == before)


class Variable(Location):
    """A cell of a closure, an element of a dictionary or list (globals too), or an attribute.

    It is the location of a tensor if the next call may find another tensor there.
    """

    __slots__ = ("holder", "how", "name", "value")

    def __init__(self, how: str, holder: Any, name: Any, value: Any) -> None:
        self.how = how  # "cell", "item" or "attribute"
        self.holder = holder
        self.name = name  # or index
        self.value = value  # in the trace

    def now(self) -> Any:
        """Its value now; MISSING if it has none."""
        try:
            if self.how == "cell":
                return self.holder.cell_contents
            return self.holder[self.name] if self.how == "item" else getattr(self.holder, self.name)
        except (AttributeError, LookupError, TypeError, ValueError):
            return MISSING

    def get(self, arguments: Any) -> Any:
        """The tensor, or None if it is none."""
        value = self.now()
        return value if hasattr(value, "_array") else None

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
        count = range(len(self.elements))
        self.keys: list[Any] = list(self.holder if isinstance(self.holder, dict) else count)

    def now(self) -> list[Any]:
        return list(self.holder.values() if isinstance(self.holder, dict) else self.holder)

    def changed(self) -> bool:
        """Whether it has other elements than noted."""
        now = self.now()
        if len(now) == len(self.elements) and all(map(is_, now, self.elements)):
            return isinstance(self.holder, dict) and list(self.holder) != self.keys
        count = range(len(now))
        new = dict(zip(self.holder if isinstance(self.holder, dict) else count, now, strict=True))
        old = dict(zip(self.keys, self.elements, strict=True))
        for key in self.free:
            if hasattr(new.get(key), "_array"):
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


class ArrayOutside:
    """An ndarray that the function reads; if NumPy computes with it, its elements are guarded."""

    __slots__ = ("elements", "holder", "read")

    def __init__(self, holder: np.ndarray[Any, Any]) -> None:
        self.holder = holder
        self.read = False  # whether NumPy computes with it for certain
        self.elements = holder.tobytes()

    def changed(self) -> bool:
        return self.holder.tobytes() != self.elements
