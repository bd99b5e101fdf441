"""Which code is the user's, and the parameters and attributes of its functions and objects."""

from __future__ import annotations

import functools
import os
import sys
import sysconfig
from collections.abc import Iterable
from types import CellType, CodeType, FunctionType
from typing import Any

_PATHS = sysconfig.get_paths()
_INSTALLED = (
    *(_PATHS[kind] + os.sep for kind in ("stdlib", "platstdlib", "purelib", "platlib")),
    "<frozen",
)


def vars_of(thing: Any) -> dict[str, Any]:
    """The attributes of an object; none if it has no dictionary."""
    return getattr(thing, "__dict__", None) or {}


def bound(function: Any, thing: Any) -> dict[str, Any]:
    """The first parameter of a method, which is its object."""
    names = getattr(getattr(function, "__code__", None), "co_varnames", ())
    return {names[0]: thing} if names else {}


def defaults(function: FunctionType) -> dict[str, Any]:
    """The default values of parameters."""
    code, defaults = function.__code__, function.__defaults__ or ()
    names = code.co_varnames[: code.co_argcount]
    return {**dict(zip(names[len(names) - len(defaults) :], defaults, strict=True)),
            **(function.__kwdefaults__ or {})}  # fmt: skip


def is_basic(package: str) -> bool:
    """Whether a package is Python's, NumPy's or gradwalk."""
    return package in ("gradwalk", "numpy") or package in sys.stdlib_module_names


@functools.cache
def is_library(module: str | None) -> bool:
    """Whether a module is Python's, gradwalk's or installed: its variables do not change."""
    if is_basic((module or "").partition(".")[0]):
        return True
    file = getattr(sys.modules.get(module or ""), "__file__", None)
    return file is not None and is_installed(file)


def is_installed(file: str) -> bool:
    """Whether a file belongs to Python or to an installed package."""
    return file.startswith(_INSTALLED)


def is_compiled(thing: Any) -> bool:
    """Whether it is a compiled function."""
    from gradwalk.compiler.introspect.methods import Introspection

    return isinstance(thing, Introspection)


def is_filled(cell: CellType) -> bool:
    """Whether a variable of a closure has a value yet."""
    try:
        cell.cell_contents  # noqa: B018
    except ValueError:
        return False
    return True


def names(code: CodeType) -> Iterable[str]:
    """The globals, attributes and strings in a function and in the functions inside it."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from names(constant)
        elif isinstance(constant, str):
            yield constant
