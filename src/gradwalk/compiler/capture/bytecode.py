"""What the code of a function reads: variables, and what it reaches from them.

`config.rates[0]` is the chain `global config, attribute rates, item 0`. Chains are read off the
bytecode, so that functions typed at a prompt have them too. A local variable that was given a chain
stands for it.
"""

from __future__ import annotations

import dis
from functools import lru_cache
from types import CodeType
from typing import NamedTuple


class Link(NamedTuple):
    """A step from one thing to the next: how ("global", "free", "local" for the first; then
    "attribute" or "item"), and by which name or key."""

    how: str
    name: object


Chain = tuple[Link, ...]


@lru_cache(maxsize=1000)
def chains(code: CodeType) -> tuple[Chain, ...]:
    """What a function, or one inside it, reads and uses."""
    reader = _Reader(code)
    for instruction in dis.get_instructions(code):
        reader.step(instruction)
    reader.use()
    found = reader.found
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            for first, *rest in chains(inner):
                if first.how == "local":
                    continue
                if first.how == "global" or first.name in code.co_freevars:
                    found[(first, *rest)] = None
                else:  # a variable of this function
                    for head in ((Link("local", first.name),), *reader.aliases.get(first.name, ())):
                        found[(*head, *rest)] = None
    return tuple(found)


class _Reader:
    """Goes through instructions and notes chains."""

    def __init__(self, code: CodeType) -> None:
        self.code = code
        self.found: dict[Chain, None] = {}
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
        self.now = [(*chain, link) for chain in self.now if len(chain) < 8]

    def use(self) -> None:
        """The value is used: the chain ends here."""
        for chain in self.now:
            self.found[chain] = None
        self.now, self.key = [], []
