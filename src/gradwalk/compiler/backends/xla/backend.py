"""The XLA backend: a program becomes one function of jax arrays, which XLA compiles.

State is one donated argument: XLA may write new values where the old ones were. Runtime scalars
are another, so that a new learning rate compiles nothing. What depends on numbers of the host alone
(step counts, the offset of a random stream) is computed there.

XLA does not fail at an index out of range, so a call also computes whether all of them were in
range, waits for the answer, and changes no memory if one was not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import jax
import numpy as np

from gradwalk.compiler.backends import Lowered, Stages
from gradwalk.compiler.backends.xla.bounds import bounds, complaint, out_of_range
from gradwalk.compiler.backends.xla.device_array import DeviceArray
from gradwalk.compiler.backends.xla.forwards import FORWARDS
from gradwalk.compiler.backends.xla.forwards.network import loop_forward
from gradwalk.compiler.backends.xla.machine import DeviceMachine, machine
from gradwalk.compiler.ir.compiler_ops import ELEMENTWISE_RANDOM, random_permutation
from gradwalk.compiler.ir.loops import loop
from gradwalk.compiler.ir.program import (
    Call,
    Layout,
    Memory,
    Program,
    Scalar,
    Term,
    run,
    source_values,
)
from gradwalk.tensors.devices import device

PASSES = ("drop_unused",)
CAPABILITIES = None


def build(
    lower: Callable[[], Lowered], layout: Layout, fast_math: bool, stages: Stages
) -> XlaExecutable:
    """XLA compiles at the first call, when the device is known."""
    return XlaExecutable(lower().program)


class XlaExecutable:
    """A program that XLA runs, on the device of the arrays it is called with."""

    plan = None

    def __init__(self, program: Program) -> None:
        self.program = program
        streams = _random_states(program)
        on_host = [(t, v) for t, v in program.updates if t in streams or _is_scalar(t)]
        self.on_device = [(t, v) for t, v in program.updates if (t, v) not in on_host]
        self.host_program = Program(_needed(program, [v for _, v in on_host]), [], on_host)
        self.calls = _needed(program, [*program.results, *(v for _, v in self.on_device)])
        self.streams = {_number(t) for t in streams}
        self.jitted: dict[Any, Any] = {}  # by the shardings of the state

    def __call__(
        self, arguments: Sequence[Any], memories: Sequence[Any], scalars: Sequence[float]
    ) -> tuple[list[Any], list[float]]:
        """Run it once; new values of memories replace the old ones."""
        here = _machine([*arguments, *memories])
        state = {n: here.array(m).term for n, m in enumerate(memories) if n not in self.streams}
        words = {n: memories[n] for n in self.streams}
        given = [None if a is None else here.array(a).term for a in arguments]
        changed = self._on_host(arguments, memories, scalars)
        jitted = self._jitted(here.placement(list(state.values())), state)
        results, state, ok = jitted(state, words, given, np.array(scalars, np.float64))
        for number, value in state.items():
            _put(memories[number], value)
        if not ok:
            raise IndexError(self._first_bad(here, arguments, memories, scalars))
        updates = []
        for target, value in changed:
            if _is_scalar(target):
                updates.append(value.item())
            else:
                memories[_number(target)][...] = value
        on_device = any(isinstance(a, DeviceArray) for a in (*arguments, *memories))
        made = [DeviceArray(here, r) if on_device else np.array(r) for r in results]
        return made, updates

    def _jitted(self, placement: Any, state: dict[int, Any]) -> Any:
        """The function for XLA; updated state has the shardings that it had before."""
        if placement not in self.jitted:
            after = None if placement is None else dict(zip(state, placement, strict=True))
            self.jitted[placement] = jax.jit(
                self._run, donate_argnums=0, out_shardings=(None, after, None)
            )
        return self.jitted[placement]

    def _run(self, state: Any, words: Any, given: Any, numbers: Any) -> Any:
        """What XLA compiles: results, all memories, and whether every index was in range."""
        memories = {**state, **words}
        values = source_values(self.program, given, memories, numbers)  # type: ignore[arg-type]
        wrong = _evaluate(self.calls, values)
        ok = ~jax.numpy.any(jax.numpy.stack(wrong)) if wrong else np.True_
        after = dict(state)
        for target, value in self.on_device:
            number = _number(target)
            now = jax.numpy.asarray(values[value], target.dtype)
            after[number] = jax.numpy.where(ok, now, state[number]) if wrong else now
        return [jax.numpy.asarray(values[t], t.dtype) for t in self.program.results], after, ok

    def _on_host(self, arguments: Any, memories: Any, scalars: Any) -> list[tuple[Term, Any]]:
        """New values of runtime scalars and random streams."""
        values = source_values(self.host_program, arguments, memories, scalars)
        values = {t: np.asarray(v) if isinstance(v, DeviceArray) else v for t, v in values.items()}
        for call in self.host_program.calls:
            outputs = run(call, [values[a] if isinstance(a, Term) else a for a in call.args])
            values.update(zip(call.outputs, outputs, strict=True))
        return [(target, np.asarray(values[value])) for target, value in self.host_program.updates]

    def _first_bad(self, here: DeviceMachine, arguments: Any, memories: Any, scalars: Any) -> str:
        """Run op by op until an index is out of range, and name it."""
        given = [None if a is None else here.array(a).term for a in arguments]
        state = [m if n in self.streams else here.array(m).term for n, m in enumerate(memories)]
        values = source_values(self.program, given, state, scalars)
        for call in self.calls:
            args = [values[a] if isinstance(a, Term) else a for a in call.args]
            for index, length in bounds(call.op, args, call.attrs):
                if out_of_range(index, length):
                    return f"{complaint(index, length)}, in {call.op.name}; nothing was changed"
            _evaluate([call], values)
        return "an index is out of range; nothing was changed"


def _evaluate(calls: Iterable[Call], values: dict[Term, Any]) -> list[Any]:
    """Compute calls, and for each index array whether it leaves its dimension."""
    wrong = []
    for call in calls:
        args = [values[a] if isinstance(a, Term) else a for a in call.args]
        wrong += [out_of_range(*bound) for bound in bounds(call.op, args, call.attrs)]
        if call.op is loop:
            outputs = loop_forward(_body)(*args, **call.attrs)
        else:
            outputs = FORWARDS[call.op.name](*args, **call.attrs)
        outputs = outputs if call.op.multiple else (outputs,)
        values.update(zip(call.outputs, outputs, strict=True))
    return wrong


def _body(program: Program, given: Sequence[Any]) -> list[Any]:
    """Run the body of a loop."""
    values = source_values(program, given, (), ())
    _evaluate(program.calls, values)
    return [values[t] for t in program.results]


def _needed(program: Program, ends: Iterable[Term]) -> list[Call]:
    """The calls that lead to some terms, in order."""
    wanted = set(ends)
    kept = []
    for call in reversed(program.calls):
        if not wanted.isdisjoint(call.outputs):
            kept.append(call)
            wanted.update(call.terms)
    return kept[::-1]


def _number(term: Term) -> int:
    """The number of a memory."""
    assert isinstance(term.source, Memory)
    return term.source.number


def _is_scalar(term: Term) -> bool:
    return isinstance(term.source, Scalar)


def _random_states(program: Program) -> set[Term]:
    """The memories that are states of random streams."""
    return {
        call.args[0]
        for call in program.calls
        if call.op in (*ELEMENTWISE_RANDOM, random_permutation)
        and isinstance(call.args[0], Term)
        and isinstance(call.args[0].source, Memory)
    }


def _machine(arrays: Sequence[Any]) -> DeviceMachine:
    """The machine of the arrays; XLA on the CPU for NumPy's."""
    for array in arrays:
        if isinstance(array, DeviceArray):
            found: DeviceMachine = array.machine
            return found
    return machine(device("xla", 0))


def _put(memory: Any, value: Any) -> None:
    """Replace the value of a memory."""
    if isinstance(memory, DeviceArray):
        memory.assign(value)
    else:
        memory[...] = np.asarray(value)
