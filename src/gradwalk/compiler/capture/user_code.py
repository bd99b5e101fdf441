"""The user's code: which code that is, and what its bytecode reads.

Bytecode reads variables, and what it reaches from them: `config.rates[0]` is the chain `global
config, attribute rates, item 0`. Functions typed at a prompt have bytecode too. A local variable
that was given a chain stands for it.
"""

from __future__ import annotations

import dis
import functools
import os
import sys
import sysconfig
from collections.abc import Iterable
from functools import lru_cache
from types import CellType, CodeType, FunctionType
from typing import Any, NamedTuple

_PATHS = sysconfig.get_paths()
_INSTALLED = (
    *(_PATHS[kind] + os.sep for kind in ("stdlib", "platstdlib", "purelib", "platlib")),
    "<frozen",
)


def is_masked(thing: Any) -> bool:
    """Whether a class of the user's answers for every attribute of its objects, `__class__` and
    `__dict__` among them: only `type` tells the truth about those."""
    return isinstance(type(thing).__getattribute__, FunctionType) and not is_compiled(thing)


def vars_of(thing: Any) -> Any:
    """The attributes in the dictionary of an object; none if it has no dictionary."""
    if is_masked(thing):
        try:
            return object.__getattribute__(thing, "__dict__")
        except AttributeError:
            return {}
    return getattr(thing, "__dict__", None) or {}


def attributes_of(thing: Any) -> dict[str, Any]:
    """The attributes of an object, in its dictionary and in slots."""
    if isinstance(thing, type):
        return {}
    attributes = dict(vars_of(thing))
    if is_masked(thing):
        return attributes
    for kind in type(thing).__mro__:
        listed = vars(kind).get("__slots__", ())
        for name in (listed,) if isinstance(listed, str) else listed:
            if name.startswith("__") and not name.endswith("__"):
                name = f"_{kind.__name__.lstrip('_')}{name}"
            if not name.startswith("__") and hasattr(thing, name):
                attributes[name] = getattr(thing, name)
    return attributes


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
    from gradwalk.compiler.introspect.introspection import Introspection

    return issubclass(type(thing), Introspection)


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


# -- what bytecode reads ---------------------------------------------------------------------------


class Link(NamedTuple):
    """One link of a chain: "global", "free" or "local" for the first, then "attribute" or "item";
    and its name or key."""

    how: str
    name: object


Chain = tuple[Link, ...]
_LONGEST = 24


@lru_cache(maxsize=1000)
def chains(code: CodeType) -> tuple[Chain, ...]:
    """The chains that a function, or one inside it, reads."""
    reader = _BytecodeReader(code)
    for instruction in dis.get_instructions(code):
        reader.step(instruction)
    reader.use()
    read = reader.chains
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            for first, *rest in chains(inner):
                if first.how == "local":
                    continue
                if first.how == "global" or first.name in code.co_freevars:
                    read[(first, *rest)] = None
                else:  # a variable of this function
                    for head in ((Link("local", first.name),), *reader.aliases.get(first.name, ())):
                        read[(*head, *rest)] = None
    return tuple(read)


class _BytecodeReader:
    """Collects chains, instruction by instruction."""

    def __init__(self, code: CodeType) -> None:
        self.code = code
        self.chains: dict[Chain, None] = {}
        self.aliases: dict[object, dict[Chain, None]] = {}  # of local variables
        self.now: list[Chain] = []  # what the last instruction put on the stack, if it is a chain
        self.key: list[object] = []  # a constant on top of it

    def step(self, instruction: dis.Instruction) -> None:
        name, value = instruction.opname, instruction.argval
        if name in ("CACHE", "PRECALL", "RESUME", "PUSH_NULL", "EXTENDED_ARG", "NOP"):
            return
        if name in ("LOAD_GLOBAL", "LOAD_NAME"):
            self.start(Link("global", value))
        elif name == "LOAD_DEREF" or name.startswith("LOAD_FAST"):
            for one in value if isinstance(value, tuple) else (value,):
                self.start_variable(one)
        elif name in ("LOAD_ATTR", "LOAD_METHOD"):
            self.go_on(Link("attribute", value))
        elif name in ("LOAD_CONST", "LOAD_SMALL_INT") and self.now and not self.key:
            self.key = [value]
        elif name == "BINARY_SUBSCR" or (name == "BINARY_OP" and instruction.argrepr == "[]"):
            if self.key and isinstance(self.key[0], (str, int)):
                self.go_on(Link("item", self.key[0]))
            else:
                self.use()
        elif name.startswith("STORE_FAST") or name == "STORE_DEREF":
            stored, *others = value if isinstance(value, tuple) else (value,)
            for chain in self.now:
                self.aliases.setdefault(stored, {})[chain] = None
            self.use()
            if stored in self.code.co_freevars:
                self.start_variable(stored)
                self.use()
            if name == "STORE_FAST_LOAD_FAST":
                self.start_variable(others[0])
        elif name in ("STORE_GLOBAL", "STORE_NAME"):
            self.start(Link("global", value))
            self.use()
        else:
            self.use()

    def start(self, first: Link) -> None:
        self.use()
        self.now = [(first,)]

    def start_variable(self, name: object) -> None:
        self.use()
        free = name in self.code.co_freevars
        self.now = [(Link("free" if free else "local", name),), *self.aliases.get(name, {})]

    def go_on(self, link: Link) -> None:
        self.key = []
        for chain in self.now:
            if len(chain) == _LONGEST:
                self.chains[chain] = None  # from here on it counts as passed on
        self.now = [(*chain, link) for chain in self.now if len(chain) < _LONGEST]

    def use(self) -> None:
        """End the chain: its value is used."""
        for chain in self.now:
            self.chains[chain] = None
        self.now, self.key = [], []
