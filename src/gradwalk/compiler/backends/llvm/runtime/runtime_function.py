"""Functions of the runtime, written with IRBuilder: what threads, atomics and C structs add to it.

It is LLVM because everything the runtime needs (threads, futexes, Python's C API) is in the process
already: no C compiler, and nothing to install.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from gradwalk.compiler.backends.llvm.emit.ir_builder import I64, IRBuilder
from gradwalk.compiler.backends.llvm.target import Host

# How a spinning thread tells its core so, as (function, arguments).
_PAUSE: dict[str, tuple[str, tuple[tuple[str, I64], ...]]] = {
    "x86_64": ("llvm.x86.sse2.pause", ()),
    "aarch64": ("llvm.aarch64.isb", (("i32", 15),)),
}


class RuntimeFunction(IRBuilder):
    """A function of the runtime being written; `head` is its first line in LLVM."""

    def __init__(self, head: str, host: Host) -> None:
        super().__init__(head, "")
        self._head = f"define {head} {{"
        self.host = host

    def ours(self, result: str, name: str, *arguments: tuple[str, I64]) -> str:
        """Call another function of the runtime."""
        return self.call_pointer(result, f"@{name}", *arguments)

    def field(self, kind: str, place: str, offset: int) -> str:
        """Load what lies so many bytes into an object."""
        return self.set(f"load {kind}, ptr {self.pointer('i8', place, offset)}")

    def atomic(self, place: str, order: str) -> str:
        """Load an i64 that other threads write."""
        return self.set(f"load atomic i64, ptr {place} {order}, align 8")

    def update(self, how: str, place: str, number: I64, order: str) -> None:
        """Change an i64 that other threads write: add, sub, or, and, xchg."""
        self.set(f"atomicrmw {how} ptr {place}, i64 {number} {order}")

    def bits(self, how: str, first: I64, second: I64) -> str:
        """and, or, xor, shl, lshr of two i64."""
        return self.set(f"{how} i64 {first}, {second}")

    def take(self, lock: str, owner: int = 1) -> str:
        """Take a lock, an i32 that is 0 while it is free; whether it was, as an i1."""
        pair = self.set(f"cmpxchg ptr {lock}, i32 0, i32 {owner} acquire monotonic")
        return self.set(f"extractvalue {{ i32, i1 }} {pair}, 1")

    def release(self, lock: str) -> None:
        """Free a lock."""
        self.do(f"store atomic i32 0, ptr {lock} release, align 4")

    def pause(self) -> None:
        """Tell the core that this thread spins."""
        if self.host.architecture in _PAUSE:
            name, arguments = _PAUSE[self.host.architecture]
            self.call("void", name, *arguments)


class Definition(NamedTuple):
    """A function of the runtime: its first line in LLVM, and what writes its body."""

    head: str
    write: Callable[[RuntimeFunction], object]


def define(
    head: str, definitions: list[Definition]
) -> Callable[[Callable[[RuntimeFunction], None]], None]:
    """Decorate what writes the body of a function, and add it to the definitions."""
    return lambda write: definitions.append(Definition(head, write))


def module_text(definitions: Iterable[Definition], host: Host) -> str:
    """The functions, and declarations of those that they call."""
    functions = []
    for head, write in definitions:
        functions.append(RuntimeFunction(head, host))
        write(functions[-1])
    declared = sorted({d.text for function in functions for d in function.declarations})
    return "\n".join([*declared, *(function.finish() for function in functions)])
