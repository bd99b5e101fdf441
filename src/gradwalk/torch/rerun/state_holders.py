"""How each type of Python object holds state, and how to restore it.

A counter may be an attribute, an element of a list, a closure variable or an iterator. Iterators
cannot be reset: in a re-run a copy replaces them, and where no copy is possible a stand-in that
raises when asked for the next item.
"""

from __future__ import annotations

import argparse
import ast
import copy
import functools
import itertools
import random
import sys
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterable, Iterator
from types import (
    BuiltinFunctionType,
    CellType,
    EllipsisType,
    FunctionType,
    GeneratorType,
    MethodType,
    ModuleType,
    NoneType,
    SimpleNamespace,
)
from typing import Any, NamedTuple

import numpy as np
import torch
from torch.utils.data.dataloader import _BaseDataLoaderIter

from gradwalk.torch.rerun.rng_states import GENERATORS, generator_state, set_generator_state
from gradwalk.torch.rerun.statements import NotRepeatable
from gradwalk.torch.user_lines import USER, files

LARGEST = 1 << 20  # bytes of a tensor or array to keep
LONGEST = 256  # elements; of a longer list only the length is kept
NOTHING = object()  # an empty cell, slot or name
NOT_KEPT = object()  # a value that is too large, or has a graph

# Immutable types, and types that lead to no state.
PLAIN = frozenset(
    {
        *(int, float, bool, str, bytes, complex, NoneType, EllipsisType, range, slice, type),
        *(torch.dtype, torch.device, torch.Size, torch.layout, ModuleType, BuiltinFunctionType),
    }
)


class Holder(NamedTuple):
    """One way of holding state."""

    take: Callable[[Any], Any]  # copy the contents
    put: Callable[[Any, Any], None]  # restore them
    inside: Callable[[Any], Iterable[Any]]  # objects in the copy to look into
    take_all: Callable[[Any], Any] | None = None  # copy what `take` omits because it is large


def is_heavy(value: Any) -> bool:
    """Whether keeping it would keep much memory alive."""
    if not isinstance(value, torch.Tensor):
        return False
    return value.grad_fn is not None or (not value.is_sparse and value.nbytes > LARGEST)


# -- by name ---------------------------------------------------------------------------------------


def _light(names: dict[Any, Any]) -> dict[Any, Any]:
    return {
        name: value if type(value) in PLAIN or not is_heavy(value) else NOT_KEPT
        for name, value in names.items()
    }


def put_names(names: dict[Any, Any], kept: dict[Any, Any]) -> None:
    """Restore a dictionary, touching only what differs."""
    for name in [name for name in names if name not in kept]:
        dict.__delitem__(names, name)
    for name, value in kept.items():
        if value is not NOT_KEPT and names.get(name, NOTHING) is not value:
            dict.__setitem__(names, name, value)


NAMES = Holder(_light, put_names, lambda kept: kept.values(), dict)


def _slots(thing: Any) -> dict[str, Any]:
    slots: dict[str, Any] = {}
    for kind in type(thing).__mro__:
        listed = vars(kind).get("__slots__", ())
        for name in (listed,) if isinstance(listed, str) else listed:
            if not name.startswith("__"):
                slots[name] = getattr(thing, name, NOTHING)
    return _light(slots)


def _put_slots(thing: Any, kept: dict[str, Any]) -> None:
    for name, value in kept.items():
        now = getattr(thing, name, NOTHING)
        if value is NOTHING and now is not NOTHING:
            object.__delattr__(thing, name)
        elif value is not NOT_KEPT and now is not value:
            object.__setattr__(thing, name, value)


SLOTS = Holder(_slots, _put_slots, lambda kept: kept.values())


def _put_in_cell(cell: CellType, value: Any) -> None:
    if value is NOTHING:
        del cell.cell_contents
    elif value is not NOT_KEPT:
        cell.cell_contents = value


def _in_cell(cell: CellType) -> Any:
    try:
        value = cell.cell_contents
    except ValueError:  # still empty
        return NOTHING
    return NOT_KEPT if is_heavy(value) else value


CELL = Holder(_in_cell, _put_in_cell, lambda kept: (kept,))


# -- one after the other ---------------------------------------------------------------------------


def _items(items: list[Any]) -> list[Any] | int:
    return list(items) if len(items) <= LONGEST else len(items)


def _put_items(items: list[Any], kept: list[Any] | int) -> None:
    if isinstance(kept, int):
        del items[kept:]  # appended since
    else:
        items[:] = kept


def _inside_items(kept: list[Any] | int) -> list[Any]:
    return kept if isinstance(kept, list) and len(kept) <= LONGEST else []


def _put_all(items: Any, kept: Any) -> None:
    items.clear()
    (items.extend if isinstance(items, deque) else items.update)(kept)


LIST = Holder(_items, _put_items, _inside_items, list)
DEQUE = Holder(list, _put_all, lambda kept: kept)
SET = Holder(set, _put_all, lambda kept: ())


def _put_array(array: Any, kept: Any) -> None:
    if array.flags.writeable:
        array[...] = kept


ARRAY = Holder(np.copy, _put_array, lambda kept: ())
RANDOM = Holder(generator_state, set_generator_state, lambda kept: ())


# -- iterators -------------------------------------------------------------------------------------

_ITERATED: tuple[Iterable[Any], ...] = ([], (), "", b"", range(0))
_COPIED = tuple(type(iter(items)) for items in _ITERATED)
_OF_ITERTOOLS = tuple(kind for kind in vars(itertools).values() if isinstance(kind, type))
_NOT_COPIED = (GeneratorType, enumerate, zip, map, filter, reversed, *_OF_ITERTOOLS)


class Spent:
    """Stand-in for an iterator that cannot be copied."""

    def __init__(self, kind: str) -> None:
        self._kind = kind

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        raise NotRepeatable(f"they take the next item of a {self._kind}, which cannot be rewound")


def copied(iterator: Any) -> Any:
    """Copy an iterator at its current position."""
    if type(iterator) is itertools.count:
        # From its text, count(3) or count(3, 2): Python 3.14 no longer copies it.
        try:
            return itertools.count(*ast.literal_eval(f"({repr(iterator)[6:-1]},)"))
        except (ValueError, SyntaxError):  # numbers of another type
            return Spent("count")
    if type(iterator) in _COPIED:
        return copy.copy(iterator)
    return iterator if type(iterator) is Spent else Spent(type(iterator).__name__)


# -- the table -------------------------------------------------------------------------------------


Held = tuple[tuple[Holder, Any], ...]


class StateKind(NamedTuple):
    """How objects of one type hold state."""

    holds: Callable[[Any], Held] = lambda thing: ()
    leads_to: Callable[[Any], Iterable[Any]] = lambda thing: ()  # other objects to look into
    is_iterator: bool = False


def _function(function: Any) -> Iterator[Any]:
    yield from function.__closure__ or ()
    yield from function.__defaults__ or ()
    if function.__dict__:
        yield function.__dict__


def _short(holder: Holder) -> StateKind:
    return StateKind(lambda items: ((holder, items),) if len(items) <= LONGEST else ())


_CONTAINERS: dict[type, StateKind] = {
    list: StateKind(lambda items: ((LIST, items),)),
    dict: _short(NAMES),
    set: _short(SET),
    deque: _short(DEQUE),
}
_FIXED: dict[type, StateKind] = {
    **_CONTAINERS,
    **dict.fromkeys((OrderedDict, defaultdict, Counter), _CONTAINERS[dict]),
    tuple: StateKind(leads_to=lambda items: items if len(items) <= LONGEST else ()),
    CellType: StateKind(lambda cell: ((CELL, cell),)),
    FunctionType: StateKind(leads_to=_function),
    MethodType: StateKind(leads_to=lambda method: (method.__self__, method.__func__)),
    functools.partial: StateKind(leads_to=lambda p: (p.func, *p.args, *p.keywords.values())),
    np.ndarray: StateKind(lambda array: ((ARRAY, array),) if array.nbytes <= LARGEST else ()),
    **dict.fromkeys((*_COPIED, *_NOT_COPIED), StateKind(is_iterator=True)),
}


@functools.cache
def kind_of_state(kind: type) -> StateKind | None:
    """How objects of a type hold state; None: they hold none."""
    # SystemRandom has no state.
    if kind in PLAIN or issubclass(kind, (torch.Tensor, random.SystemRandom)):
        return None
    if kind in _FIXED:
        return _FIXED[kind]
    if issubclass(kind, GENERATORS):
        return StateKind(lambda generator: ((RANDOM, generator),))
    if issubclass(kind, _BaseDataLoaderIter):
        return StateKind(is_iterator=True)
    simple = kind in (SimpleNamespace, argparse.Namespace)
    # Library objects (loggers, progress bars) may be shared with other threads.
    if not (simple or is_users(kind) or issubclass(kind, torch.nn.Module)):
        return None
    content = next((of.holds for base, of in _CONTAINERS.items() if issubclass(kind, base)), None)

    def holds(thing: Any) -> Held:
        attributes = (NAMES, vars(thing)) if kind.__dictoffset__ else (SLOTS, thing)
        return (attributes, *content(thing)) if content else (attributes,)

    return StateKind(holds)


def is_users(kind: type) -> bool:
    """Whether one of the user's own files defines the class."""
    file = getattr(sys.modules.get(kind.__module__), "__file__", None)
    if file is not None and kind.__module__ != "__main__":
        return files[file] == USER
    # A program run by another program is not in sys.modules under its name.
    methods = (thing for thing in vars(kind).values() if type(thing) is FunctionType)
    names = (method.__code__.co_filename for method in methods)
    return any(files[name] == USER and not name.startswith("<") for name in names)


def is_plain(value: Any) -> bool:
    """Whether a value is immutable."""
    kind = type(value)
    return kind in PLAIN or (kind is tuple and all(type(item) in PLAIN for item in value))
