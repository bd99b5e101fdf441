"""What a function sees besides its arguments: plain values in closures, globals and on `self`.

A trace freezes them, so they are conditions of the program: a call after one has changed traces
anew. Optimizers among them are held from the beginning, so that reading a learning rate before
the step is as late as reading it in the step.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Iterator
from types import CellType, CodeType, FunctionType, MethodType
from typing import Any

from gradwalk.graph.source import own_files, where_text
from gradwalk.nn.module import Module
from gradwalk.optim.optimizer import Optimizer

_PLAIN = (bool, int, float, str)
Holder = CellType | dict[str, Any]


class Environment:
    """The plain values that a function, and the functions it calls by name, can see."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.values: list[tuple[Holder, str, Any]] = []  # where it is, its name, its value
        self.optimizers: list[Optimizer] = []
        self._seen: set[int] = set()
        self._search(function)

    def unchanged(self) -> bool:
        """Whether all values are what they were."""
        for holder, name, value in self.values:
            now = _now(holder, name)
            if now is not value and (type(now) is not type(value) or now != value):
                return False
        return True

    def warn_of_changes(self, code: CodeType | None) -> None:
        """Warn if the function itself changed one: later calls will not."""
        for i, (holder, name, value) in enumerate(self.values):
            now = _now(holder, name)
            if now is not value and now != value:
                self.values[i] = (holder, name, now)
                warnings.warn(
                    f"a compiled function changed '{name}' from {value!r} to {now!r} while it was "
                    f"traced ({where_text(code, 0)}); later calls will not. Fix: change it "
                    "outside, or keep it in a tensor that is changed in place.",
                    UserWarning,
                    stacklevel=6,
                )

    # -- searching ---------------------------------------------------------------------------------

    def _search(self, thing: Any) -> None:
        if id(thing) in self._seen:
            return
        self._seen.add(id(thing))
        if isinstance(thing, functools.partial):
            self._search(thing.func)
        elif isinstance(thing, MethodType):
            self._search_object(thing.__self__, thing.__func__)
            self._search(thing.__func__)
        elif isinstance(thing, FunctionType):
            if not own_files[thing.__code__.co_filename]:
                self._search_function(thing)
        elif isinstance(thing, Optimizer):
            self.optimizers.append(thing)
        elif isinstance(thing, (list, tuple)):
            for part in thing:
                if isinstance(part, Optimizer):
                    self._search(part)
        elif isinstance(thing, dict):
            self._search(list(thing.values()))
        elif hasattr(thing, "function"):  # a compiled function inside another
            self._search(thing.function)

    def _search_function(self, function: FunctionType) -> None:
        names = set(_names(function.__code__))
        variables = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
        for name, cell in variables:
            if _is_filled(cell):
                self._found(cell, name, cell.cell_contents)
        for name in names & function.__globals__.keys():
            self._found(function.__globals__, name, function.__globals__[name])

    def _search_object(self, thing: Any, method: Any) -> None:
        """`self` of a method: those of its attributes that the method names."""
        if isinstance(thing, Module) or not hasattr(thing, "__dict__"):
            return
        attributes = vars(thing)
        for name in set(_names(getattr(method, "__code__", None))) & attributes.keys():
            self._found(attributes, name, attributes[name])

    def _found(self, holder: Holder, name: str, value: Any) -> None:
        if type(value) in _PLAIN or value is None:
            self.values.append((holder, name, value))
        else:
            self._search(value)


def _now(holder: Holder, name: str) -> Any:
    if isinstance(holder, dict):
        return holder.get(name)
    return holder.cell_contents if _is_filled(holder) else None


def _is_filled(cell: CellType) -> bool:
    try:
        cell.cell_contents  # noqa: B018
    except ValueError:
        return False
    return True


def _names(code: CodeType | None) -> Iterator[str]:
    """The names of globals and attributes in a function and in those inside it."""
    if code is not None:
        yield from code.co_names
        for constant in code.co_consts:
            if isinstance(constant, CodeType):
                yield from _names(constant)
