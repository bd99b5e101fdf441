"""The kernels of a tape: native where LLVM code can be emitted for the op, else in Python.

The tape calls a Python kernel like the others; it computes number by number with the op's own
definition: slow, with the same results, for ops of users and the few without native code.
"""

from __future__ import annotations

import ctypes
import hashlib
from collections.abc import Callable
from typing import Any

import numpy as np

from gradwalk.compiler.backends.llvm.emit.ir_builder import IRBuilder
from gradwalk.compiler.backends.llvm.emit.kernel_builder import Kernel
from gradwalk.compiler.backends.llvm.emit.vector import Vector
from gradwalk.compiler.backends.llvm.errors import NoKernel
from gradwalk.compiler.backends.llvm.kernels import scalar_tape
from gradwalk.compiler.scalars.local_rules import LocalFactor, Rules
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
        self._names: dict[Any, Any] = {}

    def load(self) -> tuple[Any, dict[str, int]]:
        """The library of the native kernels, and the addresses of all."""
        library = scalar_tape.load_kernels(list(self.texts.values()))
        addresses = {name: library[name] for name in self.texts}
        for name, callback in self.in_python.items():
            addresses[name] = ctypes.cast(callback, ctypes.c_void_p).value or 0
        return library, addresses

    def fold(self, vectors: int) -> str:
        """The fold of rows of this many vectors; 0 for single numbers."""
        return self._named(
            ("fold", vectors), lambda: scalar_tape.fold(vectors or 1, self.lanes if vectors else 1)
        )

    def collect(self) -> str:
        return self._named("collect", scalar_tape.collect)

    def _named(self, key: Any, write: Callable[[], Kernel]) -> str:
        if key not in self._names:
            text = write()
            self.texts[text.name] = text
            self._names[key] = text.name
        known: str = self._names[key]
        return known

    # -- maps --------------------------------------------------------------------------------------

    def forward(self, rules: Rules, vector: bool) -> str:
        """The op itself, on its inputs in order."""
        key = (rules.key, "forward", vector)
        if key not in self._names:
            lanes = self.lanes if vector else 1
            name = _name(rules, "forward")
            try:
                text = scalar_tape.map_rows(
                    name, len(rules.op.inputs), lanes, lambda f, xs: _forward(f, rules, xs, lanes)
                )
                self.texts[text.name] = text
                self._names[key] = text.name
            except NoKernel:
                self._names[key] = self._python(
                    f"{name}_{lanes}", len(rules.op.inputs), _number(rules)
                )
        known: str = self._names[key]
        return known

    def backward(self, rules: Rules, position: int, vector: bool) -> tuple[str, list[str]]:
        """The kernel of the op's contribution to one operand, and the names it reads in order."""
        key = (rules.key, position, vector)
        if key not in self._names:
            lanes = self.lanes if vector else 1
            name = _name(rules, f"to_{rules.op.inputs[position]}")
            factor = rules.factors[position]
            names = factor.reads
            try:
                text = scalar_tape.map_rows(
                    name, len(names), lanes, lambda f, xs: _backward(f, factor, names, xs, lanes)
                )
                self.texts[text.name] = text
                self._names[key] = (text.name, names)
            except NoKernel:
                names = ["g", "out", *rules.op.inputs]
                handed = _contribution(rules, position)
                python = self._python(f"{name}_{lanes}", len(names), handed)
                self._names[key] = (python, names)
        known: tuple[str, list[str]] = self._names[key]
        return known

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


def _name(rules: Rules, what: str) -> str:
    digest = hashlib.sha256(repr(sorted(rules.attrs.items())).encode()).hexdigest()[:8]
    return f"scalar_{rules.op.name}_{what}" + (f"_{digest}" if rules.attrs else "")


def _forward(f: IRBuilder, rules: Rules, operands: list[Vector], lanes: int) -> Vector:
    symbols = [Symbol(name) for name in rules.op.inputs]
    given = dict(zip(rules.op.inputs, operands, strict=True))
    return scalar_tape.evaluate(f, rules.op(*symbols, **rules.attrs), given, lanes)


def _backward(
    f: IRBuilder, factor: LocalFactor, names: list[str], operands: list[Vector], lanes: int
) -> Vector:
    if factor.expression is None:
        raise NoKernel("a rule that is no formula")
    given = dict(zip(names, operands, strict=True))
    # A contribution is added to 0, which turns −0 into +0.
    return scalar_tape.evaluate(f, factor.expression, given, lanes) + 0.0


def _number(rules: Rules) -> Callable[..., float]:
    """The op on Python numbers."""
    return lambda *operands: float(rules.op.on_numbers(operands, rules.attrs))


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
