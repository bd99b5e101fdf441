"""Things that hold numbers outside of tensors: what each holds now, and how it is given back.

A counter may stand in an attribute, in a list, in a variable that a function closes over, or in an
iterator. Iterators alone cannot be set back: in a step that is run again a copy stands in for them,
and for those that cannot be copied one that says so when it is asked.
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

from gradwalk.torch.rerun.statements import NotRepeatable
from gradwalk.torch.user_lines import USER, files

LARGEST = 1 << 20  # bytes of a tensor or an array that is kept
LONGEST = 256  # elements: of longer lists only the length is kept
NOTHING = object()  # a cell, slot or name that is empty
NOT_KEPT = object()  # stands for what is too large, or leads to a graph

# What cannot change, or leads to nothing that does.
PLAIN = frozenset(
    {
        *(int, float, bool, str, bytes, complex, NoneType, EllipsisType, range, slice, type),
        *(torch.dtype, torch.device, torch.Size, torch.layout, ModuleType, BuiltinFunctionType),
    }
)


class Holder(NamedTuple):
    """One way of holding something."""

    take: Callable[[Any], Any]  # what it holds, as a copy
    put: Callable[[Any, Any], None]  # makes it hold that again
    inside: Callable[[Any], Iterable[Any]]  # of what was taken, where to look further


def is_heavy(value: Any) -> bool:
    """Whether to keep it would keep much memory from being freed."""
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
    """Make a dictionary hold the same again, touching only what is different."""
    for name in [name for name in names if name not in kept]:
        dict.__delitem__(names, name)
    for name, value in kept.items():
        if value is not NOT_KEPT and names.get(name, NOTHING) is not value:
            dict.__setitem__(names, name, value)


NAMES = Holder(_light, put_names, lambda kept: kept.values())


def _slots(thing: Any) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for kind in type(thing).__mro__:
        listed = vars(kind).get("__slots__", ())
        for name in (listed,) if isinstance(listed, str) else listed:
            if not name.startswith("__"):
                found[name] = getattr(thing, name, NOTHING)
    return _light(found)


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
    except ValueError:  # nothing was put into it yet
        return NOTHING
    return NOT_KEPT if is_heavy(value) else value


CELL = Holder(_in_cell, _put_in_cell, lambda kept: (kept,))


# -- one after the other ---------------------------------------------------------------------------


def _put_list(items: list[Any], kept: list[Any]) -> None:
    items[:] = kept


def _shorten(items: list[Any], length: int) -> None:
    del items[length:]  # of a long list: what was appended since


def _put_all(items: Any, kept: Any) -> None:
    items.clear()
    (items.extend if isinstance(items, deque) else items.update)(kept)


LIST = Holder(list, _put_list, lambda kept: kept)
LONG_LIST = Holder(len, _shorten, lambda kept: ())
DEQUE = Holder(list, _put_all, lambda kept: kept)
SET = Holder(set, _put_all, lambda kept: ())


def _put_array(array: Any, kept: Any) -> None:
    if array.flags.writeable:
        array[...] = kept


ARRAY = Holder(np.copy, _put_array, lambda kept: ())


# -- random numbers --------------------------------------------------------------------------------

GENERATORS = (torch.Generator, random.Random, np.random.Generator, np.random.RandomState)


def state_of_generator(generator: Any) -> Any:
    """The state of a generator of random numbers that the program made itself."""
    if isinstance(generator, torch.Generator | np.random.RandomState):
        return generator.get_state()
    if isinstance(generator, random.Random):
        return generator.getstate()
    return generator.bit_generator.state


def set_state_of_generator(generator: Any, state: Any) -> None:
    """The inverse of `state_of_generator`."""
    if isinstance(generator, torch.Generator | np.random.RandomState):
        generator.set_state(state)
    elif isinstance(generator, random.Random):
        generator.setstate(state)
    else:
        generator.bit_generator.state = state


RANDOM = Holder(state_of_generator, set_state_of_generator, lambda kept: ())


# -- iterators -------------------------------------------------------------------------------------

_ITERATED: tuple[Iterable[Any], ...] = ([], (), "", b"", range(0))
_COPIED = tuple(type(iter(items)) for items in _ITERATED)
_OF_ITERTOOLS = tuple(kind for kind in vars(itertools).values() if isinstance(kind, type))
_NOT_COPIED = (GeneratorType, enumerate, zip, map, filter, reversed, *_OF_ITERTOOLS)


class Spent:
    """Stands, in a step that is run again, for an iterator that cannot be copied."""

    def __init__(self, kind: str) -> None:
        self._kind = kind

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        raise NotRepeatable(
            f"they take the next of a {self._kind}, and what it has given it does not give again"
        )


def copied(iterator: Any) -> Any:
    """The same once more, from where it stands."""
    if type(iterator) is itertools.count:
        # By its text, count(3) or count(3, 2): it cannot be copied from Python 3.14 on.
        try:
            return itertools.count(*ast.literal_eval(f"({repr(iterator)[6:-1]},)"))
        except (ValueError, SyntaxError):  # of numbers of another kind
            return Spent("count")
    if type(iterator) in _COPIED:
        return copy.copy(iterator)
    return iterator if type(iterator) is Spent else Spent(type(iterator).__name__)


# -- which is which --------------------------------------------------------------------------------


Held = tuple[tuple[Holder, Any], ...]


class Way(NamedTuple):
    """What to do with a thing of some type that is met."""

    holds: Callable[[Any], Held] = lambda thing: ()
    leads_to: Callable[[Any], Iterable[Any]] = lambda thing: ()  # besides what it holds
    is_iterator: bool = False


def _function(function: Any) -> Iterator[Any]:
    yield from function.__closure__ or ()
    yield from function.__defaults__ or ()
    if function.__dict__:
        yield function.__dict__


def _short(holder: Holder) -> Way:
    return Way(lambda items: ((holder, items),) if len(items) <= LONGEST else ())


_CONTAINERS: dict[type, Way] = {
    list: Way(lambda items: ((LIST if len(items) <= LONGEST else LONG_LIST, items),)),
    dict: _short(NAMES),
    set: _short(SET),
    deque: _short(DEQUE),
}
_FIXED: dict[type, Way] = {
    **_CONTAINERS,
    **dict.fromkeys((OrderedDict, defaultdict, Counter), _CONTAINERS[dict]),
    tuple: Way(leads_to=lambda items: items if len(items) <= LONGEST else ()),
    CellType: Way(lambda cell: ((CELL, cell),)),
    FunctionType: Way(leads_to=_function),
    MethodType: Way(leads_to=lambda method: (method.__self__, method.__func__)),
    functools.partial: Way(leads_to=lambda p: (p.func, *p.args, *p.keywords.values())),
    np.ndarray: Way(lambda array: ((ARRAY, array),) if array.nbytes <= LARGEST else ()),
    **dict.fromkeys((*_COPIED, *_NOT_COPIED), Way(is_iterator=True)),
}


class _Ways(dict[type, Way | None]):
    """What to do with things of each type; None: nothing, it leads nowhere."""

    def __missing__(self, kind: type) -> Way | None:
        self[kind] = found = self._way(kind)
        return found

    def _way(self, kind: type) -> Way | None:
        # That of the system has no state.
        if kind in PLAIN or issubclass(kind, (torch.Tensor, random.SystemRandom)):
            return None
        if kind in _FIXED:
            return _FIXED[kind]
        if issubclass(kind, GENERATORS):
            return Way(lambda generator: ((RANDOM, generator),))
        if issubclass(kind, _BaseDataLoaderIter):
            return Way(is_iterator=True)
        simple = kind in (SimpleNamespace, argparse.Namespace)
        # Objects of libraries (loggers, progress bars) may be shared with threads of their own.
        if not (simple or is_users(kind) or issubclass(kind, torch.nn.Module)):
            return None
        attributes = Way(
            lambda thing: ((NAMES, vars(thing)),) if kind.__dictoffset__ else ((SLOTS, thing),)
        )
        of = next((way for base, way in _CONTAINERS.items() if issubclass(kind, base)), None)
        return attributes if of is None else Way(lambda t: (*attributes.holds(t), *of.holds(t)))


ways = _Ways()


def is_users(kind: type) -> bool:
    """Whether a class stands in one of the user's own files."""
    file = getattr(sys.modules.get(kind.__module__), "__file__", None)
    if file is not None and kind.__module__ != "__main__":
        return files[file] == USER
    # Of a program that another one runs: then its module is not to be had by its name.
    methods = (thing for thing in vars(kind).values() if type(thing) is FunctionType)
    names = (method.__code__.co_filename for method in methods)
    return any(files[name] == USER and not name.startswith("<") for name in names)


def is_plain(value: Any) -> bool:
    """Whether a value can only be replaced, not change."""
    kind = type(value)
    return kind in PLAIN or (kind is tuple and all(type(item) in PLAIN for item in value))
