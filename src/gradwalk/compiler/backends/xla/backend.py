"""The XLA backend: a program becomes one function of jax arrays, which XLA compiles.

The memories that a program changes are one donated argument: XLA may write new values where the old
ones were. Runtime scalars are another, so that a new learning rate compiles nothing. What depends
on numbers of the host alone (step counts, the offset of a random stream) is computed there.

A step with an index out of range, or, if the program asks for it, with numbers that are not finite,
changes no memory (`pending_steps.py`).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from gradwalk.compiler.backends import Lowered, Stages
from gradwalk.compiler.backends.xla.bound_memories import BoundMemories, machine_of
from gradwalk.compiler.backends.xla.bounds import bounds, complaint, out_of_range
from gradwalk.compiler.backends.xla.device_array import DeviceArray
from gradwalk.compiler.backends.xla.forwards import FORWARDS
from gradwalk.compiler.backends.xla.forwards.network import loop_forward
from gradwalk.compiler.backends.xla.machine import DeviceMachine, machine
from gradwalk.compiler.backends.xla.packed_state import StateLayout
from gradwalk.compiler.backends.xla.pending_steps import Step
from gradwalk.compiler.backends.xla.platform import traced_for
from gradwalk.compiler.backends.xla.weight_gathers import WeightGathers
from gradwalk.compiler.functional.whole_ops import name_for_users
from gradwalk.compiler.ir.compiler_ops import ELEMENTWISE_RANDOM, random_permutation
from gradwalk.compiler.ir.finite_errors import complaint as not_finite
from gradwalk.compiler.ir.listing import line_of
from gradwalk.compiler.ir.loops import loop
from gradwalk.compiler.ir.program import (
    Argument,
    Call,
    Constant,
    Layout,
    Memory,
    Program,
    Scalar,
    Term,
    run,
    source_values,
)
from gradwalk.tensors.devices import device

PASSES = ("drop_unused", "merge_equal_calls")
CAPABILITIES = None
# What a half is rounded to is what the next kernel reads: XLA would pass it on in float32.
OPTIONS = {"xla_allow_excess_precision": False}
MOST_IN_CODE = 64  # elements of a constant that is part of the code; larger ones are arguments


def build(
    lower: Callable[[], Lowered], layout: Layout, fast_math: bool, stages: Stages
) -> XlaExecutable:
    """XLA compiles at the first call, when the device is known."""
    return XlaExecutable(lower().program)


class XlaExecutable:
    """A program that XLA runs, on the device of the arrays it is called with."""

    plan = None
    name = "program"  # of the user's function
    # Puts runtime scalars and the offsets of streams back after a step that changed nothing.
    put_back: Callable[[Sequence[Any], dict[int, int]], None] = staticmethod(lambda *_: None)

    def __init__(self, program: Program) -> None:
        self.program = program
        streams = _random_states(program)
        apart = [(t, v) for t, v in program.updates if t in streams or _is_scalar(t)]
        changes = [update for update in program.updates if update not in apart]
        # Numbers that depend on tensors, such as the scale of a GradScaler, come from the device.
        self.fetched = [(t, v) for t, v in apart if not _from_numbers(program, v, streams)]
        on_host = [update for update in apart if update not in self.fetched]
        self.host_program = Program(_needed(program, [v for _, v in on_host]), [], on_host)
        finite = program.must_be_finite
        self.results = [*program.results, *(v for _, v in self.fetched)]
        self.calls = _needed(program, [*self.results, *finite, *(v for _, v in changes)])
        self.streams = sorted(_number(t) for t in streams)
        self.new_values = {_number(t): (v, t.dtype) for t, v in changes}
        sources = program.sources()
        memories = {_number(t) for t in sources if isinstance(t.source, Memory)}
        self.changed = sorted(self.new_values)
        self.scalars = [t for t, _ in program.updates if _is_scalar(t)]
        self.kept = sorted(memories - set(self.changed) - set(self.streams))
        self.constants = [t for t in sources if _is_large(t)]
        self.checked = bool(finite) or any(map(_may_fail, self.calls))
        self.jitted: dict[Any, Any] = {}  # by the machine, the state's shardings and layout
        self._uploaded: dict[DeviceMachine, list[Any]] = {}
        self.shapes: Any = None  # of the arguments of `_run`, once it ran
        self._bound = BoundMemories((), (), ())

    def __call__(
        self,
        arguments: Sequence[Any],
        memories: Sequence[Any],
        scalars: Sequence[float],
        gradients: Any = None,
    ) -> tuple[list[Any], list[float]]:
        """Run it once; new values of memories replace the old ones. `gradients`
        (call/kept_gradients.py) takes some of the results; the others are returned."""
        if memories is not self._bound.memories:
            self._bound = BoundMemories(memories, self.changed, self.kept)
        bound = self._bound
        here = bound.machine or _machine(arguments)
        pending = here.pending
        if self.changed and not self.checked:
            pending.settle()  # it would change memory whatever became of the steps before it
        changed = self._on_host(arguments, memories, scalars)
        operands = self._operands(here, arguments, bound, scalars)
        first = self.shapes is None
        here.before_run(self.program, first, operands)
        if first:
            self.shapes = jax.tree.map(_shape_of, operands)
        jitted = self._jitted(here, bound.layout, operands[0], operands[1], operands[3])
        if gradients is not None and not first:  # compiling may fail
            gradients.forget(here)
        after, results, ok = jitted(*operands)
        bound.put(after)
        if self.checked:
            pending.add(self._step(ok, here, operands, memories, list(scalars)))
        numbers = {}
        for target, value in changed:
            if _is_scalar(target):
                numbers[target] = value.item()
            else:
                memories[_number(target)][...] = value
        for target, _ in reversed(self.fetched):
            numbers[target] = results.pop().item()
        updates = [numbers[target] for target in self.scalars]
        if bound.machine is None and not any(isinstance(a, DeviceArray) for a in arguments):
            pending.settle()
            make: Any = np.array
        else:
            make = functools.partial(DeviceArray, here)
        if gradients is not None:
            gradients.put([results[n] for n in gradients.numbers], make)
            results = [results[n] for n in gradients.others]
        return [make(result) for result in results], updates

    def _operands(
        self, here: DeviceMachine, arguments: Sequence[Any], bound: BoundMemories, scalars: Any
    ) -> tuple[Any, ...]:
        """What `_run` takes, as jax arrays."""
        constants = self._uploaded.get(here)
        if constants is None:
            constants = [here.array(t.source.array).term for t in self.constants]  # type: ignore[union-attr]
            self._uploaded[here] = constants
        return (
            bound.state(here),
            bound.others(here),
            [np.array(bound.memories[n]) for n in self.streams],
            [None if a is None else here.array(a).term for a in arguments],
            np.array(scalars, np.float64),
            constants,
            here.pending.flag if self.checked else None,
        )

    def _jitted(
        self, here: DeviceMachine, layout: StateLayout, state: Any, kept: Any, given: Any
    ) -> Any:
        """The function for XLA; updated state has the shardings that it had before."""
        placement, axes = here.placement(state), here.axes_of(given)
        known = self.jitted.get((here, placement, axes, layout))
        if known is None:
            after = None if placement is None else list(placement)
            memories = zip([*self.changed, *self.kept], [*state, *kept], strict=True)
            whole = {n: here.whole_along(axes, value) for n, value in memories} if axes else {}

            def run(*operands: Any) -> Any:
                traced_for.set(here.device.type)
                return self._run(whole, layout, *operands)

            run.__name__ = self.name  # XLA's name for the program, too

            known = jax.jit(
                run, donate_argnums=0, out_shardings=(after, None, None), compiler_options=OPTIONS
            )
            self.jitted[here, placement, axes, layout] = known
        return known

    @property
    def lowered(self) -> Any:
        """What XLA was given at the first call; JAX keeps it, and what XLA made of it."""
        first = next(iter(self.jitted.values()), None)
        if first is None:
            raise RuntimeError("XLA has not compiled it yet. Fix: call it once, without an error.")
        return first.lower(*self.shapes)

    @property
    def compiled(self) -> Any:
        """XLA's program of the first call, to be read; it was compiled then."""
        return self.lowered.compile()

    def sharding_of(self, argument: int) -> Any:
        """Over which axes of the mesh each dimension of an argument was divided at first."""
        here, *_ = next(iter(self.jitted))
        return here.sharding_of(self.shapes[3][argument])

    def text(self, form: str | None = None) -> str:
        """The program as StableHLO, as XLA optimized it for the device (HLO), or both."""
        lowered = self.lowered
        parts = [] if form == "hlo" else [lowered.as_text()]
        if form != "stablehlo":
            parts.append(lowered.compile().as_text())
        return "\n".join(part.rstrip("\n") for part in parts)

    def _run(
        self,
        whole: dict[int, Any],
        layout: StateLayout,
        state: Any,
        kept: Any,
        words: Any,
        given: Any,
        numbers: Any,
        constants: Any,
        flag: Any,
    ) -> Any:
        """What XLA compiles: new memories, results, and whether the memories may change.

        Memories come first: JAX reuses a donated argument for the first result of its shape.
        """
        before = layout.values(state)
        values = self._sources(before, kept, words, given, numbers, constants)
        sources = [t for t in values if isinstance(t.source, Memory)]
        wanted = {t: whole[_number(t)] for t in sources if whole.get(_number(t)) is not None}
        wrong = _evaluate(self.calls, values, WeightGathers(wanted))
        wrong += [~jnp.isfinite(values[t]).all() for t in self.program.must_be_finite]
        ok = flag
        if self.checked:
            ok = jnp.logical_and(flag, ~jnp.any(jnp.stack(wrong)))
        new = [self.new_values[number] for number in self.changed]
        after = layout.state([jnp.asarray(values[value], dtype) for value, dtype in new], state)
        if self.checked:
            after = [jnp.where(ok, now, old) for now, old in zip(after, state, strict=True)]
        return after, [jnp.asarray(values[t], t.dtype) for t in self.results], ok

    def _sources(
        self, state: Any, kept: Any, words: Any, given: Any, numbers: Any, constants: Any
    ) -> dict[Term, Any]:
        """The value of each source."""
        memories = {
            **dict(zip(self.changed, state, strict=True)),
            **dict(zip(self.kept, kept, strict=True)),
            **dict(zip(self.streams, words, strict=True)),
        }
        values = source_values(self.program, given, memories, numbers)  # type: ignore[arg-type]
        values.update(zip(self.constants, constants, strict=True))
        return values

    def _on_host(self, arguments: Any, memories: Any, scalars: Any) -> list[tuple[Term, Any]]:
        """New values of runtime scalars and random streams."""
        if not self.host_program.updates:
            return []
        values = source_values(self.host_program, arguments, memories, scalars)
        values = {t: np.asarray(v) if isinstance(v, DeviceArray) else v for t, v in values.items()}
        for call in self.host_program.calls:
            outputs = run(call, [values[a] if isinstance(a, Term) else a for a in call.args])
            values.update(zip(call.outputs, outputs, strict=True))
        return [(target, np.asarray(values[value])) for target, value in self.host_program.updates]

    # -- steps that change nothing -----------------------------------------------------------------

    def _step(
        self, ok: Any, here: DeviceMachine, operands: Any, memories: Any, scalars: list[Any]
    ) -> Step:
        """A call, with what is needed to say why it failed and to undo it."""
        _, _, words, given, numbers, _, _ = operands
        size = sum(a.nbytes for a in given if a is not None)
        offsets = {n: int(w.view(np.uint64)[1]) for n, w in zip(self.streams, words, strict=True)}

        def why() -> Exception:
            """The state is what it was before this step, which is run again, op by op."""
            constants = self._uploaded[here]
            now = BoundMemories(memories, self.changed, self.kept)
            state, kept = now.values(here), now.others(here)
            scalars = jnp.asarray(numbers)
            return self._first_bad(self._sources(state, kept, words, given, scalars, constants))

        return Step(ok, size, why, functools.partial(self.put_back, scalars, offsets))

    def _first_bad(self, values: dict[Term, Any]) -> Exception:
        """Run op by op until an index is out of range or a number is not finite, and name it."""
        for call in self.calls:
            args = [values[a] if isinstance(a, Term) else a for a in call.args]
            line, name = line_of(call), name_for_users(call.op)
            place = f"\n  {line}" if line else ""
            for bound in bounds(call.op, args, call.attrs):
                if out_of_range(*bound):
                    said = complaint(bound)
                    return IndexError(f"{said}, in {name}; nothing was changed{place}")
            within = _evaluate([call], values)
            if within and any(map(bool, within)):  # in the body of a loop
                said = "an index is out of range, in a loop"
                return IndexError(f"{said}; nothing was changed{place}")
            if self.program.must_be_finite and _makes_not_finite(args, call, values):
                return not_finite(call, name)
        return not_finite(None)


# -- running calls ---------------------------------------------------------------------------------


def _evaluate(
    calls: Iterable[Call], values: dict[Term, Any], gathers: WeightGathers | None = None
) -> list[Any]:
    """Compute calls, and for each index array whether it leaves its dimension."""
    wrong = []
    for call in calls:
        args = [values[a] if isinstance(a, Term) else a for a in call.args]
        if gathers is not None:
            args = gathers.operands(call, args)
        wrong += [out_of_range(*bound) for bound in bounds(call.op, args, call.attrs)]
        with jax.named_scope(_scope(call)):
            if call.op is loop:
                outputs, within = loop_forward(_body)(*args, **call.attrs)
                wrong += within
            else:
                outputs = FORWARDS[call.op.name](*args, **call.attrs)
        outputs = outputs if call.op.multiple else (outputs,)
        values.update(zip(call.outputs, outputs, strict=True))
    return wrong


def _scope(call: Call) -> str:
    """The user's line and the op, for the names of instructions in `source()` and in profiles."""
    line = line_of(call)
    return call.op.name if line is None else f"{Path(line.file).name}:{line.line}/{call.op.name}"


def _body(program: Program, given: Sequence[Any]) -> tuple[list[Any], list[Any]]:
    """Run the body of a loop; return its results, and whether indices are out of range."""
    values = source_values(program, given, (), ())
    wrong = _evaluate(program.calls, values)
    return [values[t] for t in program.results], wrong


def _may_fail(call: Call) -> bool:
    """Whether a call has indices that may be out of range."""
    if call.op is loop:
        return any(map(_may_fail, call.attrs["body"].calls))
    return bool(bounds(call.op, call.args, call.attrs))


def _makes_not_finite(args: Sequence[Any], call: Call, values: dict[Term, Any]) -> bool:
    """Whether a call made a NaN or an infinity of finite operands."""

    def finite(array: Any) -> bool:
        return not jnp.issubdtype(array.dtype, jnp.floating) or bool(jnp.isfinite(array).all())

    made = [value for t in call.outputs if isinstance(value := values[t], jax.Array)]
    given = [jnp.asarray(a) for a in args]
    return not all(map(finite, made)) and all(map(finite, given))


# -- parts of a program ----------------------------------------------------------------------------


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


def _from_numbers(program: Program, value: Term, streams: set[Term]) -> bool:
    """Whether a value depends on runtime scalars and random streams alone."""
    given = {value, *(t for call in _needed(program, [value]) for t in call.terms)}
    return not any(isinstance(t.source, (Memory, Argument)) and t not in streams for t in given)


def _is_large(term: Term) -> bool:
    """Whether a constant is an argument. Masks decide on shapes, so they are part of the code."""
    constant = isinstance(term.source, Constant)
    return constant and term.size > MOST_IN_CODE and term.dtype != bool


def _random_states(program: Program) -> set[Term]:
    """The memories that are states of random streams."""
    return {
        call.args[0]
        for call in program.calls
        if call.op in (*ELEMENTWISE_RANDOM, random_permutation)
        and isinstance(call.args[0], Term)
        and isinstance(call.args[0].source, Memory)
    }


# -- arrays ----------------------------------------------------------------------------------------


def _machine(arrays: Sequence[Any]) -> DeviceMachine:
    """The machine of the arrays; XLA on the CPU for NumPy's."""
    return machine_of(arrays) or machine(device("xla", 0))


def _shape_of(array: Any) -> Any:
    sharding = getattr(array, "sharding", None)
    return jax.ShapeDtypeStruct(np.shape(array), array.dtype, sharding=sharding)
