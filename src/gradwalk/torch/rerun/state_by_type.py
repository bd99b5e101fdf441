"""How objects of each type hold state: how to copy it, and how to restore it.

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
from collections.abc import Callable, Collection, Iterable, Iterator
from itertools import chain
from operator import attrgetter, eq, is_
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

from gradwalk.random.generator_states import generator_state, set_generator_state
from gradwalk.torch.rerun.rng_states import GENERATORS
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

    take: Callable[[Any], Any]  # copy the contents; NOT_KEPT if they are too large
    put: Callable[[Any, Any], None] = lambda thing, kept: None  # restore them
    inside: Callable[[Any], Collection[Any]] = lambda kept: ()  # objects in the copy to look into
    take_all: Callable[[Any], Any] | None = None  # copy what `take` omits because it is large
    same: Callable[[Any, Any], bool] | None = None  # whether a new copy would be the same
    flat: Callable[[list[Any]], list[Any]] = list  # the contents of many objects, in one list
    flat_kept: Callable[[list[Any]], list[Any]] = list  # the same of their copies
    holds: bool = True  # False: no state of its own


def is_heavy(value: Any) -> bool:
    """Whether keeping it would keep much memory alive."""
    if not isinstance(value, torch.Tensor):
        return False
    return value.grad_fn is not None or (not value.is_sparse and value.nbytes > LARGEST)


def _short(take: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda items: take(items) if len(items) <= LONGEST else NOT_KEPT


# -- by name ---------------------------------------------------------------------------------------


def _light(names: dict[Any, Any]) -> dict[Any, Any]:
    return {
        name: value if type(value) in PLAIN or not is_heavy(value) else NOT_KEPT
        for name, value in names.items()
    }


def is_interns(name: Any) -> bool:
    """Whether a name belongs to Python or to torch.compile, whose code reads it from globals."""
    return isinstance(name, str) and name.startswith("__")


def _put_names(names: dict[Any, Any], kept: dict[Any, Any]) -> None:
    """Restore a dictionary, touching only what differs."""
    for name in [name for name in names if name not in kept and not is_interns(name)]:
        dict.__delitem__(names, name)
    for name, value in kept.items():
        if value is not NOT_KEPT and names.get(name, NOTHING) is not value:
            dict.__setitem__(names, name, value)


def same_names(names: Any, kept: Any) -> bool:
    """Whether names are bound to the same objects as before."""
    if type(names) not in _DICTS or len(names) != len(kept):
        return False
    return all(map(is_, names.values(), kept.values())) and all(map(eq, names, kept))


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


def _in_cell(cell: CellType) -> Any:
    try:
        value = cell.cell_contents
    except ValueError:  # still empty
        return NOTHING
    return NOT_KEPT if is_heavy(value) else value


def _same_cell(cell: CellType, kept: Any) -> bool:
    try:
        return cell.cell_contents is kept
    except ValueError:
        return kept is NOTHING


def _put_in_cell(cell: CellType, value: Any) -> None:
    if value is NOTHING:
        del cell.cell_contents
    else:
        cell.cell_contents = value


def flat_names(several: Iterable[dict[Any, Any]]) -> list[Any]:
    """The sizes, names and values of several dictionaries, without a loop in Python."""
    dicts = list(several)
    names, values = map(dict.__iter__, dicts), map(dict.values, dicts)
    return [*map(len, dicts), *chain.from_iterable(names), *chain.from_iterable(values)]


def _flat_items(lists: list[Any]) -> list[Any]:
    return [*map(len, lists), *chain.from_iterable(map(list.__iter__, lists))]


def _flat_cells(cells: list[CellType]) -> list[Any]:
    return list(map(attrgetter("cell_contents"), cells))


NAMES = Holder(_light, _put_names, dict.values, dict, same_names, flat_names, flat_names)
DICT = NAMES._replace(take=_short(_light), take_all=_short(dict))
ATTRIBUTES = Holder(
    lambda thing: _light(vars(thing)),
    lambda thing, kept: _put_names(vars(thing), kept),
    dict.values,
    lambda thing: dict(vars(thing)),
    lambda thing, kept: same_names(vars(thing), kept),
    lambda things: flat_names(map(vars, things)),
    flat_names,
)
SLOTS = Holder(_slots, _put_slots, dict.values)
CELL = Holder(_in_cell, _put_in_cell, lambda kept: (kept,), same=_same_cell, flat=_flat_cells)


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


def _put_array(array: Any, kept: Any) -> None:
    if array.flags.writeable:
        array[...] = kept


def _same_items(items: list[Any], kept: list[Any] | int) -> bool:
    if isinstance(kept, int):
        return len(items) == kept
    return len(items) == len(kept) and all(map(is_, items, kept))


LIST = Holder(_items, _put_items, _inside_items, list, _same_items, _flat_items, _flat_items)
DEQUE = Holder(_short(list), _put_all, lambda kept: kept)
SET = Holder(_short(set), _put_all)
ARRAY = Holder(lambda array: array.copy() if array.nbytes <= LARGEST else NOT_KEPT, _put_array)


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


# A copy replaces an iterator in a re-run; the program's own stays as it is.
ITERATOR = Holder(copied, take_all=lambda iterator: NOT_KEPT)


# -- the table -------------------------------------------------------------------------------------


def _of_function(function: Any) -> list[Any]:
    attributes = [function.__dict__] if function.__dict__ else []
    return [*(function.__closure__ or ()), *(function.__defaults__ or ()), *attributes]


def _leads_to(objects: Callable[[Any], Collection[Any]]) -> Holder:
    """No state of its own, but objects that may have some."""
    return Holder(objects, inside=lambda kept: kept, holds=False)


_DICTS = (dict, OrderedDict, defaultdict, Counter)
_CONTAINERS: dict[type, Holder] = {list: LIST, dict: DICT, set: SET, deque: DEQUE}
_FIXED: dict[type, Holder] = {
    **_CONTAINERS,
    **dict.fromkeys(_DICTS, DICT),
    tuple: _leads_to(_short(tuple)),
    CellType: CELL,
    FunctionType: _leads_to(_of_function),
    MethodType: _leads_to(lambda method: (method.__self__, method.__func__)),
    functools.partial: _leads_to(lambda p: (p.func, *p.args, *p.keywords.values())),
    np.ndarray: ARRAY,
    **dict.fromkeys((*_COPIED, *_NOT_COPIED), ITERATOR),
}


@functools.cache
def holders_of(kind: type) -> tuple[Holder, ...]:
    """How objects of a type hold state; empty: they hold none."""
    # SystemRandom has no state.
    if kind in PLAIN or issubclass(kind, (torch.Tensor, random.SystemRandom)):
        return ()
    if kind in _FIXED:
        return (_FIXED[kind],)
    if issubclass(kind, GENERATORS):
        return (Holder(generator_state, set_generator_state),)
    if issubclass(kind, _BaseDataLoaderIter):
        return (ITERATOR,)
    simple = kind in (SimpleNamespace, argparse.Namespace)
    # Library objects (loggers, progress bars) may be shared with other threads.
    if not (simple or is_users(kind) or issubclass(kind, torch.nn.Module)):
        return ()
    contents = [holder for base, holder in _CONTAINERS.items() if issubclass(kind, base)]
    return (ATTRIBUTES if kind.__dictoffset__ else SLOTS, *contents)


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
