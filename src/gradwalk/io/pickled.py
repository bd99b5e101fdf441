"""Reading the pickles that `torch.save` writes, without executing anything.

A pickle is a program for a small stack machine. This module runs the instructions that build
containers, numbers and text. Where a pickle names a class or a function, `KNOWN` says what stands
for it; any other name is refused. Nothing is imported and nothing of the file is called.
"""

from __future__ import annotations

import pickletools
from argparse import Namespace
from collections import Counter, OrderedDict, defaultdict
from collections.abc import Callable
from pathlib import Path, PurePath, PurePosixPath, PureWindowsPath
from types import SimpleNamespace
from typing import IO, Any

import numpy as np

_LITERAL = {
    "BININT", "BININT1", "BININT2", "LONG1", "LONG4", "BINFLOAT", "BINUNICODE", "SHORT_BINUNICODE",
    "BINUNICODE8", "SHORT_BINBYTES", "BINBYTES", "BINSTRING", "SHORT_BINSTRING",
}  # fmt: skip
_FIXED: dict[str, Callable[[], Any]] = {
    "NONE": lambda: None, "NEWTRUE": lambda: True, "NEWFALSE": lambda: False,
    "EMPTY_DICT": dict, "EMPTY_LIST": list, "EMPTY_TUPLE": tuple, "EMPTY_SET": set,
}  # fmt: skip
_TUPLES = {"TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3}
_NOTHING = {"PROTO", "FRAME", "STOP"}


class PickleRefused(ValueError):
    """A pickle asks for something that is not data."""


class _ArrayClass:
    """Stands for NumPy's class of arrays, which a pickle names and must not call."""

    def __repr__(self) -> str:
        return "numpy.ndarray"


_ARRAY = _ArrayClass()


def _new_array(kind: Any, *rest: Any) -> Any:
    """The empty array that a pickle of NumPy's begins with."""
    if kind is not _ARRAY:
        raise PickleRefused(f"it has an array of type {kind!r:.60}")
    return np.empty(0)


def _array_dtype(name: Any, *rest: Any) -> Any:
    if not isinstance(name, str) or np.dtype(name).kind not in "biufcSU":
        raise PickleRefused(f"it has an array of {name!r:.60}, which is not numbers or text")
    return np.dtype(name, copy=True)  # whose order of bytes follows


def _array_scalar(dtype: Any, content: Any) -> Any:
    if not isinstance(dtype, np.dtype) or not isinstance(content, bytes):
        raise PickleRefused("it has a number of NumPy's in a form that is not known")
    return np.frombuffer(content, dtype, 1)[0]


def _byte_array(content: Any = b"") -> bytearray:
    if not isinstance(content, bytes):  # of a number, it would make that many
        raise PickleRefused(f"it has a bytearray of {content!r:.60}")
    return bytearray(content)


class _Factory:
    """Stands for what a defaultdict makes; a pickle names it and must not call it."""

    def __init__(self, kind: type) -> None:
        self.kind = kind


def _default_dict(factory: Any = None) -> defaultdict[Any, Any]:
    if isinstance(factory, _Factory):
        return defaultdict(factory.kind)
    if factory not in (None, set):
        raise PickleRefused(f"it has a defaultdict of {factory!r:.60}")
    return defaultdict(factory)


def _note_versions(state: Any, versions: Any) -> None:
    """Keep what a state dict notes of its modules; nothing else has a use."""
    if isinstance(versions, dict) and all(isinstance(each, dict) for each in versions.values()):
        state._metadata = versions


def _fill(made: Any, state: Any) -> None:
    """Give a new array its numbers, or a new dtype its order of bytes.

    NumPy trusts the size and the flags of a dtype, and some flags make pointers of bytes: they must
    be those of the dtype itself.
    """
    if isinstance(made, np.dtype):
        own = {"U": (made.itemsize, 4, 8), "S": (made.itemsize, 1, 0)}.get(made.kind, (-1, -1, 0))
        plain = (
            isinstance(state, tuple)
            and state[:1] + state[2:] == (3, None, None, None, *own)
            and state[1] in ("<", ">", "|", "=")
        )
    else:
        plain = (
            isinstance(state, tuple)
            and len(state) == 5
            and isinstance(state[2], np.dtype)
            and isinstance(state[4], bytes)
            and not made.size
        )
    if not plain:
        raise PickleRefused(f"it has a {type(made).__name__} of NumPy's in a form not known")
    made.__setstate__(state)


# What scripts keep their options in: nothing but attributes.
NAMESPACES = (Namespace, SimpleNamespace)
FACTORIES = {kind.__name__: kind for kind in (list, dict, int, float, str, bool)}
_BUILTINS: dict[str, Any] = {
    "set": set,
    "frozenset": frozenset,
    "complex": complex,
    "bytearray": _byte_array,
    "bytes": lambda: b"",
    **{name: _Factory(kind) for name, kind in FACTORIES.items()},
}
_PATHS: dict[str, type[PurePath]] = {
    "PosixPath": Path,
    "WindowsPath": Path,
    "PurePosixPath": PurePosixPath,
    "PureWindowsPath": PureWindowsPath,
}

# What pickles of data besides tensors name. Others are added by the reader of a format.
KNOWN: dict[str, Any] = {
    **{
        f"{module}.{n}": to for module in ("builtins", "__builtin__") for n, to in _BUILTINS.items()
    },
    **{f"{module}.{n}": to for module in ("pathlib", "pathlib._local") for n, to in _PATHS.items()},
    **{f"{kind.__module__}.{kind.__name__}": kind for kind in NAMESPACES},
    "collections.OrderedDict": OrderedDict,
    "collections.Counter": Counter,
    "collections.defaultdict": _default_dict,
    "numpy.ndarray": _ARRAY,
    "numpy.dtype": _array_dtype,
    "numpy.core.multiarray._reconstruct": _new_array,
    "numpy._core.multiarray._reconstruct": _new_array,
    "numpy.core.multiarray.scalar": _array_scalar,
    "numpy._core.multiarray.scalar": _array_scalar,
    "_codecs.encode": lambda text, how="latin1": text.encode("latin1"),
}


def unpickled(file: IO[bytes], known: dict[str, Any], storage: Callable[[Any], Any]) -> Any:
    """The object that the next pickle of a file describes.

    `known` has what stands for each name; `storage` gets the persistent ids.
    """
    stack: list[Any] = []
    marks: list[int] = []
    memo: dict[int, Any] = {}

    def taken(at: int) -> list[Any]:
        """Everything from a place of the stack on."""
        if not 0 <= at <= len(stack):
            raise ValueError("the pickle takes more than there is")
        found = stack[at:]
        del stack[at:]
        return found

    argument: Any
    for code, argument, _ in pickletools.genops(file):
        name = code.name
        if name in _LITERAL:
            stack.append(argument)
        elif name in _FIXED:
            stack.append(_FIXED[name]())
        elif name in _TUPLES:
            stack.append(tuple(taken(len(stack) - _TUPLES[name])))
        elif name == "MARK":
            marks.append(len(stack))
        elif name == "TUPLE":
            stack.append(tuple(taken(marks.pop())))
        elif name in ("BINPUT", "LONG_BINPUT"):
            memo[argument] = stack[-1]
        elif name == "MEMOIZE":
            memo[len(memo)] = stack[-1]
        elif name in ("BINGET", "LONG_BINGET"):
            stack.append(memo[argument])
        elif name in ("SETITEM", "SETITEMS"):
            pairs = taken(len(stack) - 2 if name == "SETITEM" else marks.pop())
            _of(stack[-1], dict).update(zip(pairs[::2], pairs[1::2], strict=True))
        elif name in ("APPEND", "APPENDS"):
            items = taken(len(stack) - 1 if name == "APPEND" else marks.pop())
            _of(stack[-1], list).extend(items)
        elif name == "ADDITEMS":
            items = taken(marks.pop())
            _of(stack[-1], set).update(items)
        elif name in ("GLOBAL", "STACK_GLOBAL"):
            module, _, own = (
                argument.partition(" ") if name == "GLOBAL" else (stack.pop(-2), "", stack.pop())
            )
            stack.append(_named(f"{module}.{own}", known))
        elif name == "REDUCE":
            arguments = _of(stack.pop(), tuple)
            function = stack.pop()
            if not callable(function) or not any(function is one for one in known.values()):
                raise PickleRefused(f"it calls {function!r:.60}, which is no constructor of data")
            stack.append(function(*arguments))
        elif name == "NEWOBJ":
            arguments, kind = stack.pop(), stack.pop()
            if kind not in NAMESPACES or arguments:
                raise PickleRefused(f"it makes a {kind!r:.60}")
            stack.append(kind())
        elif name == "BUILD":
            state = stack.pop()
            if isinstance(stack[-1], (np.ndarray, np.dtype)):
                _fill(stack[-1], state)
            elif isinstance(stack[-1], OrderedDict) and isinstance(state, dict):
                _note_versions(stack[-1], state.get("_metadata"))
            elif isinstance(stack[-1], NAMESPACES) and isinstance(state, dict):
                for attribute, value in state.items():
                    vars(stack[-1])[_of(attribute, str)] = value
            else:
                raise PickleRefused(f"it sets attributes of a {type(stack[-1]).__name__}")
        elif name == "BINPERSID":
            stack.append(storage(stack.pop()))
        elif name not in _NOTHING:
            raise PickleRefused(f"it uses the instruction {name}, which plain data does not need")
    if len(stack) != 1:
        raise ValueError("the pickle leaves more than one object")
    return stack[0]


def _named(name: str, known: dict[str, Any]) -> Any:
    if name not in known:
        raise PickleRefused(
            f"it has a {name}, and making one could execute code. Fix: in PyTorch, save only "
            "tensors and numbers: torch.save(model.state_dict(), path)"
        )
    return known[name]


def _of(thing: Any, kind: type) -> Any:
    if not isinstance(thing, kind):
        raise ValueError(f"a {type(thing).__name__} where a {kind.__name__} belongs")
    return thing
