"""The kernels of a tape: native where LLVM code can be emitted for the op, else in Python.

The tape calls a Python kernel like the others; it computes number by number with the op's own
definition: slow, with the same results, for ops of users and the few without native code.
"""

from __future__ import annotations

import ctypes
import hashlib
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

from gradwalk.compiler.backends.llvm.emit.kernel_builder import Kernel
from gradwalk.compiler.backends.llvm.errors import NoKernel
from gradwalk.compiler.backends.llvm.kernels import scalar_tape
from gradwalk.compiler.scalars.local_rules import Rules
from gradwalk.ops.core.symbol import Symbol
from gradwalk.scalar.push import NOT_REAL

_CALLBACK = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)


class Kernels:
    """Kernels by name, requested while a tape is built; `load` returns their addresses."""

    def __init__(self, lanes: int) -> None:
        self.lanes = lanes
        self.texts: dict[str, Kernel] = {}
        self.in_python: dict[str, Any] = {}
        self.failure: BaseException | None = None  # of a Python kernel, raised after the run
        self._names: dict[Any, str] = {}

    def load(self) -> tuple[Any, dict[str, int]]:
        """The library of the native kernels, and the addresses of all."""
        library = scalar_tape.load_kernels(list(self.texts.values()))
        addresses = {name: library[name] for name in self.texts}
        for name, callback in self.in_python.items():
            addresses[name] = ctypes.cast(callback, ctypes.c_void_p).value or 0
        return library, addresses

    def fold(self, vectors: int) -> str:
        """The fold of rows of this many vectors; 0 for single numbers."""
        lanes = self.lanes if vectors else 1
        return self._known(("fold", vectors), scalar_tape.fold, vectors or 1, lanes)

    def collect(self) -> str:
        """The kernel that copies numbers side by side."""
        return self._known("collect", scalar_tape.collect)

    def forward(self, rules: Rules, vector: bool) -> str:
        """The op itself, on its inputs in order."""
        inputs = rules.op.inputs

        def native(name: str, lanes: int) -> Kernel:
            expression = rules.op(*map(Symbol, inputs), **rules.attrs)
            return scalar_tape.map_rows(name, list(inputs), lanes, expression)

        def number(*operands: Any) -> float:
            return float(rules.op.on_numbers(operands, rules.attrs))

        return self._map(rules, "forward", vector, native, len(inputs), number)

    def backward(self, rules: Rules, position: int, vector: bool) -> tuple[str, list[str]]:
        """The kernel of the op's contribution to one operand, and the names it reads in order."""
        factor = rules.factors[position]

        def native(name: str, lanes: int) -> Kernel:
            if factor.expression is None:
                raise NoKernel("a rule that is no formula")
            return scalar_tape.map_rows(name, factor.reads, lanes, factor.expression, added=True)

        everything = ["g", "out", *rules.op.inputs]
        what = f"to_{rules.op.inputs[position]}"
        contribution = _contribution(rules, position)
        name = self._map(rules, what, vector, native, len(everything), contribution)
        return name, everything if name in self.in_python else factor.reads

    def _known(self, key: Any, write: Callable[..., Kernel], *args: Any) -> str:
        """The name of a kernel, which is written when it is first needed."""
        if key not in self._names:
            text = write(*args)
            self.texts[text.name] = text
            self._names[key] = text.name
        return self._names[key]

    def _map(
        self,
        rules: Rules,
        what: str,
        vector: bool,
        native: Callable[[str, int], Kernel],
        operands: int,
        compute: Callable[..., float],
    ) -> str:
        """The name of a map; where there is no native code, of one that calls `compute`."""
        key = (rules, what, vector)
        if key in self._names:
            return self._names[key]
        lanes = self.lanes if vector else 1
        digest = hashlib.sha256(repr(sorted(rules.attrs.items())).encode()).hexdigest()[:8]
        name = f"scalar_{rules.op.name}_{what}" + (f"_{digest}" if rules.attrs else "")
        try:
            return self._known(key, native, name, lanes)
        except NoKernel:
            self._names[key] = self._python(f"{name}_{lanes}", operands, compute)
            return self._names[key]

    def _python(self, name: str, operands: int, compute: Callable[..., float]) -> str:
        """A kernel that computes each lane with a function of Python numbers."""

        def kernel(arena: int, arguments: int) -> None:
            try:
                row, _, count, *given = (ctypes.c_int64 * (3 + operands)).from_address(arguments)
                rows = [_numbers_at(arena + offset, count) for offset in given]
                _numbers_at(arena + row, count)[:] = [compute(*lane) for lane in zip(*rows)]
            except BaseException as error:  # it must not pass through native code
                self.failure = self.failure or error

        self.in_python[name] = _CALLBACK(kernel)
        return name


def _numbers_at(address: int, count: int) -> Any:
    return (ctypes.c_double * count).from_address(address)


@lru_cache(maxsize=1024)
def _contribution(rules: Rules, position: int) -> Callable[..., float]:
    """The op's contribution to one operand, from its gradient, result and operands."""
    wanted = tuple(k == position for k in range(len(rules.op.inputs)))
    plan = rules.op.plan(wanted).write()

    def contribution(*numbers: Any) -> float:
        try:
            g, out, *operands = numbers
            pulled = plan.pull(g, plan.save(out, *operands), rules.attrs)[position]
            if not isinstance(pulled, complex):
                return 0.0 + float(pulled)
        except NOT_REAL:
            pass
        with np.errstate(all="ignore"):  # as IEEE has it
            g, out, *operands = map(np.float64, numbers)
            return 0.0 + float(plan.pull(g, plan.save(out, *operands), rules.attrs)[position])

    return contribution
