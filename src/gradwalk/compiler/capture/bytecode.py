"""What the bytecode of a function reads: variables, and what it reaches from them.

`config.rates[0]` is the chain `global config, attribute rates, item 0`. Functions typed at a prompt
have bytecode too. A local variable that was given a chain stands for it.
"""

from __future__ import annotations

import dis
from functools import lru_cache
from types import CodeType
from typing import NamedTuple


class Link(NamedTuple):
    """One link of a chain: "global", "free" or "local" for the first, then "attribute" or "item";
    and its name or key."""

    how: str
    name: object


Chain = tuple[Link, ...]


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
        self.now = [(*chain, link) for chain in self.now if len(chain) < 8]

    def use(self) -> None:
        """End the chain: its value is used."""
        for chain in self.now:
            self.chains[chain] = None
        self.now, self.key = [], []
