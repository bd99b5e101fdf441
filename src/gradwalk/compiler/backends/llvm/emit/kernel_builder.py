"""KernelBuilder: the signature of every generated kernel, its argument block, its failures.

    void kernel(ptr %slots, ptr %args, i64 %thread, i64 %threads)

`args` holds for every array its slot and its byte offset, then the sizes and strides the kernel
asked for with `runtime`, in that order. What is the same in many kernels of a program (lengths of
rows, which strides are 0 or 1) is written into the text; what differs is read from `args`, so that
kernels of one structure are one function.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from gradwalk.compiler.backends.llvm.emit.ir_builder import I64, Declaration, IRBuilder
from gradwalk.compiler.backends.llvm.emit.vector import Type, Vector, VectorBuilder

SIGNATURE = "ptr noalias %slots, ptr noalias %args, i64 %thread, i64 %threads"
STATUS = 1  # the slot of the status block
# status[0] after an index that does not exist; status[1] is the index, [2] the length it counts in.
OUT_OF_RANGE = 1
_PLACEHOLDER = "NAME"  # of a kernel, until its text is complete and names it


class Kernel(NamedTuple):
    """A function as text, named by its content, and what its block needs after the arrays."""

    name: str
    text: str
    declarations: frozenset[Declaration]
    sizes: tuple[int, ...] = ()
    can_fail: bool = False  # whether it may write to the status block
    scratch: int = 0  # bytes of scratch memory for each thread
    # Addresses of functions it calls that are not in its text, by name.
    symbols: Mapping[str, int] = MappingProxyType({})


class KernelBuilder(VectorBuilder):
    """A kernel being written."""

    def __init__(self, arrays: int) -> None:
        super().__init__(_PLACEHOLDER, SIGNATURE)
        self._arrays = arrays
        self.can_fail = False
        self.bases = [self._base(j) for j in range(arrays)]

    def _base(self, array: int) -> str:
        slot, offset = self.word("%args", 2 * array), self.word("%args", 2 * array + 1)
        return self.pointer("i8", self.word("%slots", slot, "ptr"), offset)

    def size(self, number: int) -> str:
        """The size with this number after the arrays of the block."""
        return self.word("%args", 2 * self._arrays + number)

    def kernel(self, *helpers: IRBuilder, **facts: Any) -> Kernel:
        """The finished kernel, with private functions that it calls (`helper_name`)."""
        parts = (*helpers, self)
        text = "\n".join(part.finish() for part in parts)
        name = "k" + hashlib.sha256(text.encode()).hexdigest()[:20]
        kernel = Kernel(
            name, text.replace(f"@{_PLACEHOLDER}", f"@{name}"),
            frozenset().union(*(part.declarations for part in parts)),
            tuple(self.sizes), self.can_fail,
        )  # fmt: skip
        return kernel._replace(**facts)

    def checked_index(self, index: Vector, length: I64, mask: str | None = None) -> Vector:
        """An index as NumPy takes it: −1 is the last.

        An index out of range is written to the status block and taken as 0.
        """
        self.can_fail = True
        given, lanes = index, index.type.lanes
        limit = Vector(self, Type(index.type.dtype), length).spread(lanes)
        index = (index < 0).choose(index + limit, index)
        wrong = (index < 0) | (index >= limit)
        if mask is not None and lanes > 1:
            wrong = wrong & Vector(self, wrong.type, mask)
        with self.when(wrong.across("or")):
            # Of several the lowest is reported.
            one = wrong.choose(given, given.constant(np.iinfo(np.int64).max)).across("smin")
            status = self.word("%slots", STATUS, "ptr")
            for number, word in enumerate((OUT_OF_RANGE, one, length)):
                self.store_word(word, status, number)
        return wrong.choose(index.constant(0), index)


def helper_name(what: str) -> str:
    """The name of a private function of a kernel: its own name, and this."""
    return f"{_PLACEHOLDER}.{what}"
