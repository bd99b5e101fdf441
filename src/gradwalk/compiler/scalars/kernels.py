"""The kernels a tape needs: native where the compiler can spell the op, else Python's own.

A kernel of Python is called from the tape like the others and computes number by number with the
op's own definition: slow, but the same results, for ops of users and the few without a spelling.
"""

from __future__ import annotations

import ctypes
import hashlib
from collections.abc import Callable
from typing import Any

import numpy as np

from gradwalk.compiler.backends.llvm.emit.function_text import Function
from gradwalk.compiler.backends.llvm.emit.vector_values import Value
from gradwalk.compiler.backends.llvm.runtime import scalar_tape
from gradwalk.compiler.backends.llvm.runtime.scalar_tape import Unspelled
from gradwalk.compiler.scalars.local_rules import LocalFactor, Rules
from gradwalk.ops.core.symbol import Symbol
from gradwalk.scalar.push import NOT_REAL

_CALLBACK = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)


class Kernels:
    """Kernels by name, asked for while a tape is written; `load` gives their addresses."""

    def __init__(self, lanes: int) -> None:
        self.lanes = lanes
        self.texts: dict[str, scalar_tape.Text] = {}
        self.in_python: dict[str, Any] = {}
        self.failure: BaseException | None = None  # raised by a kernel of Python, told afterwards
        self._names: dict[Any, Any] = {}

    def load(self) -> tuple[Any, dict[str, int]]:
        """The library of the native kernels, and the addresses of all."""
        library = scalar_tape.load_kernels(list(self.texts.values()))
        addresses = {name: library[name] for name in self.texts}
        for name, callback in self.in_python.items():
            addresses[name] = ctypes.cast(callback, ctypes.c_void_p).value or 0
        return library, addresses

    def fold(self, vectors: int) -> str:
        """The fold of rows of so many vectors; 0: of single numbers."""
        return self._named(
            ("fold", vectors), lambda: scalar_tape.fold(vectors or 1, self.lanes if vectors else 1)
        )

    def collect(self) -> str:
        """What collects numbers."""
        return self._named("collect", scalar_tape.collect)

    def _named(self, key: Any, write: Callable[[], scalar_tape.Text]) -> str:
        if key not in self._names:
            text = write()
            self.texts[text.name] = text
            self._names[key] = text.name
        found: str = self._names[key]
        return found

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
            except Unspelled:
                self._names[key] = self._python(
                    f"{name}_{lanes}", len(rules.op.inputs), _number(rules)
                )
        found: str = self._names[key]
        return found

    def backward(self, rules: Rules, position: int, vector: bool) -> tuple[str, list[str]]:
        """What the op's rule hands back to one operand, and the names it reads in order."""
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
            except Unspelled:
                names = ["g", "out", *rules.op.inputs]
                handed = _contribution(rules, position)
                python = self._python(f"{name}_{lanes}", len(names), handed)
                self._names[key] = (python, names)
        found: tuple[str, list[str]] = self._names[key]
        return found

    def _python(self, name: str, operands: int, compute: Callable[..., float]) -> str:
        """A kernel that computes each lane with a function of Python numbers."""

        def kernel(arena: int, arguments: int) -> None:
            try:
                row, _, count, *given = (ctypes.c_int64 * (3 + operands)).from_address(arguments)
                rows = [_numbers_at(arena + place, count) for place in given]
                _numbers_at(arena + row, count)[:] = [compute(*lane) for lane in zip(*rows)]
            except BaseException as error:  # it must not pass through native code
                self.failure = self.failure or error

        self.in_python[name] = _CALLBACK(kernel)
        return name


def _numbers_at(address: int, count: int) -> Any:
    return (ctypes.c_double * count).from_address(address)


def _name(rules: Rules, what: str) -> str:
    """A name for a kernel of an op; what is computed is in its text."""
    digest = hashlib.sha256(repr(sorted(rules.attrs.items())).encode()).hexdigest()[:8]
    return f"scalar_{rules.op.name}_{what}" + (f"_{digest}" if rules.attrs else "")


def _forward(f: Function, rules: Rules, operands: list[Value], lanes: int) -> Value:
    symbols = [Symbol(name) for name in rules.op.inputs]
    given = dict(zip(rules.op.inputs, operands, strict=True))
    return scalar_tape.evaluate(f, rules.op(*symbols, **rules.attrs), given, lanes)


def _backward(
    f: Function, factor: LocalFactor, names: list[str], operands: list[Value], lanes: int
) -> Value:
    if factor.expression is None:
        raise Unspelled("a rule that is no formula")
    found = scalar_tape.evaluate(
        f, factor.expression, dict(zip(names, operands, strict=True)), lanes
    )
    return found + 0.0  # what arrives at an input is added to 0, which makes +0 of −0


def _number(rules: Rules) -> Callable[..., float]:
    """The op on Python numbers."""
    return lambda *operands: float(rules.op.on_numbers(operands, rules.attrs))


def _contribution(rules: Rules, position: int) -> Callable[..., float]:
    """What the op hands back to one operand, from its gradient, result and operands."""
    wanted = tuple(k == position for k in range(len(rules.op.inputs)))
    plan = rules.op.plan(wanted).write()

    def contribution(*numbers: Any) -> float:
        try:
            g, out, *operands = numbers
            found = plan.pull(g, plan.save(out, *operands), rules.attrs)[position]
            if not isinstance(found, complex):
                return 0.0 + float(found)
        except NOT_REAL:
            pass
        with np.errstate(all="ignore"):  # as IEEE has it
            g, out, *operands = map(np.float64, numbers)
            return 0.0 + float(plan.pull(g, plan.save(out, *operands), rules.attrs)[position])

    return contribution
