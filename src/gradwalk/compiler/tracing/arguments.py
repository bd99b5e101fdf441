"""What a compiled function is called with: tensors and floats may change, the rest is fixed."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable, Hashable
from typing import Any

import numpy as np

from gradwalk.compiler.tracing.errors import TraceError
from gradwalk.ops.core.dtypes import get_default_dtype

UNALIGNED = "unaligned"


class Arguments:
    """One call's arguments taken apart.

    `values` are its distinct tensors, then its floats; `key` is everything else that a program
    depends on: how they are nested, what is not a tensor, shapes and dtypes.
    """

    __slots__ = ("key", "tensors", "values")

    def __init__(self, args: Any, keywords: Any, static: frozenset[Any], grad: bool) -> None:
        self.tensors: list[Any] = []
        key: list[Any] = [grad, get_default_dtype()]
        floats: list[float] = []
        if not keywords and all(hasattr(a, "_array") for a in args) and _distinct(args):
            self.tensors += args
        else:
            known: dict[int, int] = {}
            for i, a in enumerate(args):
                key.append(self._read(a, i in static, known, floats))
            for name, a in keywords.items():
                key += (name, self._read(a, name in static, known, floats))
        for tensor in self.tensors:
            array = tensor._array
            order = order_of(array)
            key += (array.shape, array.dtype, order, tensor.requires_grad)
        self.key: Hashable = tuple(key)
        self.values: list[Any] = self.tensors + floats if floats else self.tensors

    def _read(self, thing: Any, static: bool, known: dict[int, int], floats: list[float]) -> Any:
        if hasattr(thing, "_array"):
            position = known.get(id(thing))
            if position is None:
                position = known[id(thing)] = len(self.tensors)
                self.tensors.append(thing)
            return position
        if type(thing) is float and not static:
            floats.append(thing)
            return float
        if isinstance(thing, dict):
            parts = [(k, self._read(v, static, known, floats)) for k, v in thing.items()]
            return (type(thing), *parts)
        if is_record(thing):
            fields = [(f.name, getattr(thing, f.name)) for f in dataclasses.fields(thing)]
            parts = [(n, self._read(v, static, known, floats)) for n, v in fields]
            return (type(thing), *parts)
        if isinstance(thing, (tuple, list)):
            return (type(thing), *[self._read(v, static, known, floats) for v in thing])
        if isinstance(thing, np.ndarray):
            raise TraceError(
                "a compiled function was called with an ndarray; its numbers may change, so it "
                "must be a tensor.\nFix: gradwalk.from_numpy(array), which shares its memory."
            )
        return _Fixed(thing)


def order_of(array: Any) -> Any:
    """How it lies in memory, as far as a program depends on it: None if in order. One that is not
    aligned to the size of its elements is copied, and then is."""
    if not array.flags.aligned:
        return UNALIGNED
    return None if array.flags.c_contiguous else array.strides


def is_record(thing: Any) -> bool:
    """Whether it is an object of a data class: its fields are arguments."""
    return dataclasses.is_dataclass(thing) and not isinstance(thing, type)


def _distinct(args: tuple[Any, ...]) -> bool:
    return len(args) < 2 or len({id(a) for a in args}) == len(args)


class _Fixed:
    """A value that is part of the key: equal if of one type and equal."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    def __hash__(self) -> int:
        try:
            return hash(self.value)
        except TypeError:
            return id(self.value)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, _Fixed) or type(other.value) is not type(self.value):
            return False
        if self.value is other.value:
            return True
        same = self.value == other.value
        return same is True and hash(self) == hash(other)


def replaced(tree: Any, tensor: Callable[[Any], Any], number: Callable[[float, str], Any],
             static: frozenset[Any], name: Any) -> Any:  # fmt: skip
    """The same nesting with tensors and floats replaced."""
    if hasattr(tree, "_array"):
        return tensor(tree)
    if type(tree) is float and name not in static:
        return number(tree, str(name))
    if isinstance(tree, dict):
        return {k: replaced(v, tensor, number, static, name) for k, v in tree.items()}
    if is_record(tree):
        made = copy.copy(tree)
        for field in dataclasses.fields(tree):
            part = replaced(getattr(tree, field.name), tensor, number, static, name)
            object.__setattr__(made, field.name, part)
        return made
    if isinstance(tree, tuple) and hasattr(tree, "_fields"):
        return type(tree)(*(replaced(v, tensor, number, static, name) for v in tree))
    if isinstance(tree, (tuple, list)):
        return type(tree)([replaced(v, tensor, number, static, name) for v in tree])
    return tree
