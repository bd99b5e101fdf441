"""The arguments of a compiled function: tensors and floats may change, the rest is fixed."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from gradwalk.compiler.tracing.errors import TraceError
from gradwalk.ops.core.dtypes import get_default_dtype, get_float32_matmul_precision
from gradwalk.tensors.autocast import Key, autocast_key

UNALIGNED = "unaligned"


class TensorSignature(NamedTuple):
    """What a program depends on of a tensor it is called with."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    order: Any  # see `order_of`
    requires_grad: bool


class Signature(NamedTuple):
    """All that a program depends on of a call's arguments and modes."""

    grad_enabled: bool
    default_dtype: np.dtype[Any]
    autocast: Key | None
    matmul_precision: str
    nesting: Hashable  # what is not a tensor or float, and where tensors and floats are
    tensors: tuple[TensorSignature, ...]

    def without_shapes(self) -> Signature:
        """What two calls have in common that differ in nothing but shapes."""
        tensors = tuple([one._replace(shape=(), order=None) for one in self.tensors])
        return self._replace(tensors=tensors)


class Arguments:
    """The arguments of one call: `values` are its distinct tensors, then its floats."""

    __slots__ = ("signature", "tensors", "values")

    def __init__(self, args: Any, keywords: Any, static: frozenset[Any], grad: bool) -> None:
        self.tensors: list[Any] = []
        floats: list[float] = []
        nesting: Hashable
        if not keywords and all(hasattr(type(a), "_array") for a in args) and _distinct(args):
            self.tensors += args
            nesting = len(args)
        else:
            known: dict[int, int] = {}
            nesting = (
                tuple([self._read(a, i in static, known, floats) for i, a in enumerate(args)]),
                *[(k, self._read(a, k in static, known, floats)) for k, a in keywords.items()],
            )
        tensors = tuple(
            [
                TensorSignature(t._array.shape, t._array.dtype, order_of(t._array), t.requires_grad)
                for t in self.tensors
            ]
        )
        self.signature = Signature(
            grad,
            get_default_dtype(),
            autocast_key(),
            get_float32_matmul_precision(),
            nesting,
            tensors,
        )
        self.values: list[Any] = self.tensors + floats if floats else self.tensors

    def names(self, args: Any, keywords: Any, parameters: Sequence[str]) -> list[str]:
        """The parameter that each tensor is, or is inside of."""
        more = [f"argument {position}" for position in range(len(parameters), len(args))]
        named = [*zip([*parameters, *more], args, strict=False), *keywords.items()]
        inside = {
            id(tensor): name
            for name, part in reversed(named)
            for tensor in Arguments((part,), {}, frozenset(), self.signature.grad_enabled).tensors
        }
        return [inside[id(tensor)] for tensor in self.tensors]

    def _read(self, thing: Any, static: bool, known: dict[int, int], floats: list[float]) -> Any:
        if hasattr(type(thing), "_array"):
            position = known.get(id(thing))
            if position is None:
                position = known[id(thing)] = len(self.tensors)
                self.tensors.append(thing)
            return position
        if type(thing) is float and not static:
            floats.append(thing)
            return float
        elements: Iterable[tuple[Any, Any]] | None = None
        if issubclass(type(thing), dict):
            elements = thing.items()
        elif is_record(thing):
            elements = [(f.name, getattr(thing, f.name)) for f in dataclasses.fields(thing)]
        elif issubclass(type(thing), (tuple, list)):
            elements = enumerate(thing)
        if elements is not None:
            parts = [(k, self._read(v, static, known, floats)) for k, v in elements]
            if type(thing) not in (dict, tuple, list) and not is_record(thing):
                for name, value in getattr(thing, "__dict__", {}).items():
                    parts.append((name, self._read(value, True, known, floats)))
            return (type(thing), *parts)
        if issubclass(type(thing), np.ndarray):
            raise TraceError(
                "a compiled function was called with an ndarray; its numbers may change, so it "
                "must be a tensor.\nFix: gradwalk.from_numpy(array), which shares its memory."
            )
        return _Fixed(thing)


def order_of(array: Any) -> Any:
    """The memory order as far as a program depends on it: None if C-contiguous, UNALIGNED if the
    array must be copied because it is not aligned to the size of its elements, else the strides."""
    if not array.flags.aligned:
        return UNALIGNED
    return None if array.flags.c_contiguous else array.strides


def is_record(thing: Any) -> bool:
    """Whether it is an instance of a dataclass: its fields are arguments."""
    return hasattr(type(thing), "__dataclass_fields__")


def _distinct(args: tuple[Any, ...]) -> bool:
    return len(args) < 2 or len({id(a) for a in args}) == len(args)


class _Fixed:
    """A value that is part of a signature: 1, 1.0 and True differ."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    def __hash__(self) -> int:
        try:
            return hash(self.value)
        except (TypeError, ValueError):
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
    if hasattr(type(tree), "_array"):
        return tensor(tree)
    if type(tree) is float and name not in static:
        return number(tree, str(name))
    if issubclass(type(tree), dict):
        parts = {k: replaced(v, tensor, number, static, name) for k, v in tree.items()}
        if type(tree) is dict:
            return parts
        made = copy.copy(tree)  # with its attributes
        dict.update(made, parts)
        return made
    if is_record(tree):
        made = copy.copy(tree)
        for field in dataclasses.fields(tree):
            part = replaced(getattr(tree, field.name), tensor, number, static, name)
            object.__setattr__(made, field.name, part)
        return made
    if issubclass(type(tree), tuple) and hasattr(tree, "_fields"):
        return type(tree)(*(replaced(v, tensor, number, static, name) for v in tree))
    if issubclass(type(tree), (tuple, list)):
        listed = [replaced(v, tensor, number, static, name) for v in tree]
        if not issubclass(type(tree), list) or type(tree) is list:
            return type(tree)(listed)
        made = copy.copy(tree)
        list.__setitem__(made, slice(None), listed)
        return made
    return tree
