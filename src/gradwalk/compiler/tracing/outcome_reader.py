"""The end of a trace: what the function returned and changed, and which program that is."""

from __future__ import annotations

import dataclasses
from collections.abc import Coroutine, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from gradwalk.compiler.capture.captured_tensors import CapturedTensor
from gradwalk.compiler.capture.environment_guards import Environment
from gradwalk.compiler.capture.guards import ModulesGuard, OptimizerGuard, Variable
from gradwalk.compiler.capture.locations import (
    ArgumentLocation,
    GradientLocation,
    OptionLocation,
    ParameterState,
    StateLocation,
    TensorLocation,
)
from gradwalk.compiler.capture.runtime_scalars import RuntimeScalar
from gradwalk.compiler.capture.user_code import attributes_of, is_filled
from gradwalk.compiler.functional.functional_array import Chain
from gradwalk.compiler.ir.program import Argument, Layout, Memory, Program, Scalar, Term
from gradwalk.compiler.passes.simplify import drop_unused
from gradwalk.compiler.tracing.arguments import UNALIGNED, order_of
from gradwalk.compiler.tracing.errors import untraceable
from gradwalk.compiler.tracing.gradient import Gradient, differentiate
from gradwalk.compiler.tracing.outcome import (
    Alias,
    CapturedMemory,
    Itself,
    Numeral,
    PickedParts,
    Record,
    Result,
    Slot,
    TracedProgram,
)
from gradwalk.compiler.tracing.traced import Traced
from gradwalk.engine.tree import leaves, mapped
from gradwalk.graph.node import Freed
from gradwalk.graph.order import inputs_first
from gradwalk.graph.versions import owner_of
from gradwalk.ops.shape.reshaping import clone
from gradwalk.tensors.apply import refresh

if TYPE_CHECKING:
    from gradwalk.compiler.tracing.trace_function import StandIns
    from gradwalk.compiler.tracing.tracer import Tracer


class OutcomeReader:
    """Reads, at the end of a run, what it returned and what it changed."""

    def __init__(
        self,
        tracer: Tracer,
        standing: StandIns,
        environment: Environment,
        given: list[tuple[Variable, Any]],  # variables that were given a tensor
    ) -> None:
        self.given = given
        self.tracer = tracer
        self.environment = environment
        self.standing = standing
        self.slots: dict[int, int] = {}  # id of a tensor -> its number
        self.tensors: list[Any] = []  # by slot: Itself, or (traced, requires_grad)
        self.alive: list[Any] = []  # tensors whose ids are keys
        self.source_of = {id(traced): source for traced, source in self._sources()}
        self.numerals: list[tuple[Numeral, RuntimeScalar]] = []
        self.graphs: list[tuple[int, Any]] = []  # (slot, tensor) of those to be differentiated
        # What was changed: fields of TracedProgram.
        self.assigned: list[tuple[Any, int | None]] = []
        self.rebound: list[tuple[Any, int]] = []
        self.flags: list[tuple[Any, bool]] = []
        self.counted: list[tuple[Any, Any]] = []

    def read(self, result: Any) -> TracedProgram:
        """The program and what a call of it needs."""
        tracer = self.tracer
        self._relocate()
        tree = mapped(self._leaf, result)
        self._changes_of_tensors()
        scalar_writes = self._changes_of_optimizers()
        self._changes_of_modules()
        self.assigned += [(variable, self._slot(tensor)) for variable, tensor in self.given]
        gradient = differentiate(tracer, self.graphs) if self.graphs else None
        results: list[Term] = []
        tensors = self._results(results)
        for numeral, scalar in self.numerals:
            numeral.number = len(results)
            results.append(self._own(scalar.term, results))
        updates = [(source, t._term) for t, source in self._sources() if t._term is not source]
        updates += [(source, number.term) for source, number, _ in scalar_writes]
        if gradient is not None:
            self._keep_residuals(gradient, results, {target for target, _ in updates})
        program = drop_unused(Program(tracer.build.calls, results, updates))
        memories, scalars = self._number_sources(program, tensors, gradient)
        captured = list(tracer.captured.values())
        owners = {id(owner_of(storage.array)) for storage in tracer.storages.values()}
        self.environment.without([c.location for c in captured], self.given, owners)
        tracer.check_device()
        return TracedProgram(
            program=program,
            device=tracer.device,
            captured=memories,
            scalars=scalars,
            tensors=tensors,
            result=tree,
            assigned=self.assigned,
            rebound=self.rebound,
            flags=self.flags,
            counted=self.counted,
            updated=[locations for _, _, locations in scalar_writes],
            arguments=len(self.standing.originals),
            layout=self._layout(program, memories),
            needs=[
                (c.location, c.needed)
                for c in captured
                if isinstance(c.location, (TensorLocation, Variable))
            ],
            views=[(c.location, c.array) for c in captured if self._is_view(c)],
            grads=[
                (c.location, c.attributes.get("_grad") is None)
                for c in captured
                if c.grad_was == "read"
            ],
            unread=[c.location for c in captured if c.grad_was == "replaced"],
            optimizers=[OptimizerGuard(o) for o in tracer.optimizers.values()],
            modules=ModulesGuard(tracer.modules),
            fresh=[
                (o.optimizer, parameter, state)
                for o in tracer.optimizers.values()
                for parameter, state in o.fresh.items()
            ],
            environment=self.environment,
            decisions=list(tracer.decisions.values()),
            gradient=gradient,
            captured_arguments=self.standing.captured_arguments,
            written_arguments=[
                t.source.number for t, _ in updates if isinstance(t.source, Argument)
            ],
        )

    def _sources(self) -> list[tuple[Traced, Term]]:
        """Captured memory and arguments: the array for each, and the term it began with."""
        storages = self.tracer.storages.values()
        return [*((s.traced, s.source) for s in storages), *self.standing.sources]

    def _is_view(self, captured: CapturedTensor) -> bool:
        """Whether a tensor has a part of captured memory: then it must be this very part."""
        if isinstance(captured.location, ArgumentLocation):
            return False
        return id(captured.array) not in self.tracer.storages

    # -- what was returned -------------------------------------------------------------------------

    def _leaf(self, thing: Any) -> Any:
        if hasattr(thing, "_array"):
            return Slot(self._slot(thing))
        if isinstance(thing, RuntimeScalar):
            self.numerals.append((Numeral(type(thing.value) is int), thing))
            return self.numerals[-1][0]
        _refuse_to_return(thing)
        attributes = attributes_of(thing)
        if any(_is_abstract(leaf) for leaf in leaves(list(attributes.values()))):
            made = {name: mapped(self._leaf, value) for name, value in attributes.items()}
            return Record(type(thing), made)
        return thing

    def _slot(self, tensor: Any) -> int:
        """The number of a tensor that a call makes or returns."""
        known = self.slots.get(id(tensor))
        if known is not None:
            return known
        slot = self.slots[id(tensor)] = len(self.tensors)
        self.alive.append(tensor)
        captured = self.tracer.captured
        if id(tensor) not in captured and not isinstance(tensor._array, Traced):
            self.tracer.capture(tensor)  # from outside, and not touched
        if id(tensor) in captured:
            self.tensors.append(Itself(captured[id(tensor)].location))
            return slot
        if tensor._view is not None:
            refresh(tensor)  # what it is a view of may have got another history since
        if tensor._node is not None and not _done(tensor._node):
            self.graphs.append((slot, tensor))
        self.tensors.append((tensor._array, tensor._requires_grad))
        return slot

    def _results(self, results: list[Term]) -> list[Itself | Result | Alias]:
        """What to make of the program's outputs; tensors that share memory will again."""
        chains: dict[int, set[Any]] = {}
        for entry in self.tensors:
            if not isinstance(entry, Itself):
                traced = entry[0]
                way = id(traced) if traced.picked else _hashable(traced.chain)
                chains.setdefault(id(traced.owner), set()).add(way)
        numbers: dict[int, int] = {}
        tensors: list[Itself | Result | Alias] = []
        for entry in self.tensors:
            if isinstance(entry, Itself):
                tensors.append(entry)
                continue
            traced, requires_grad = entry
            owner = traced.owner
            if id(owner) in self.source_of:
                picked = self._picked(traced, results)
                tensors.append(Alias(self.source_of[id(owner)], traced.chain, picked))
                continue
            alone = len(chains[id(owner)]) == 1
            if id(owner) not in numbers:
                numbers[id(owner)] = len(results)
                results.append(self._own(traced.term if alone else owner.term, results))
            chain = () if alone else traced.chain
            picked = () if alone else self._picked(traced, results)
            tensors.append(Result(numbers[id(owner)], chain, requires_grad, picked))
        return tensors

    def _picked(self, traced: Traced, results: list[Term]) -> PickedParts:
        """The parts that lead to an array, with their indices as results of the program."""
        return tuple(
            (chain, index, tuple(self._output(n, results) for n in numbers))
            for chain, index, numbers in traced.picked
        )

    def _keep_residuals(self, gradient: Gradient, results: list[Term], written: set[Term]) -> None:
        """Return what the gradient needs and no source has after the call."""
        for number, term in enumerate(gradient.residuals):
            if isinstance(term.source, (Memory, Argument)) and term not in written:
                continue
            gradient.among_results[number] = len(results)
            results.append(self._own(term, results))

    def _output(self, term: Term, results: list[Term]) -> int:
        """The number of a new result of the program."""
        results.append(self._own(term, results))
        return len(results) - 1

    def _own(self, term: Term, results: list[Term]) -> Term:
        """A result in memory of its own: a source, or what is a result already, is copied."""
        if term.call is not None and term not in results:
            return term
        copy: Term = self.tracer.call(clone, [term], {})
        return copy

    # -- what was changed --------------------------------------------------------------------------

    def _changes_of_tensors(self) -> None:
        for captured in list(self.tracer.captured.values()):
            tensor, location = captured.tensor, captured.location
            if tensor._node is not None:
                self._history(captured)
            if tensor._array is not captured.traced:
                self.rebound.append((location, self._slot(tensor.detach())))
            if tensor._node is None and tensor._requires_grad != captured.needed:
                self.flags.append((location, tensor._requires_grad))
            if captured.grad_was == "untouched":
                continue
            before, now = captured.attributes.get("_grad"), tensor._grad
            if now is None and (before is not None or captured.grad_was == "replaced"):
                self.assigned.append((GradientLocation(location), None))
            elif now is not None and now is not before:
                self.assigned.append((GradientLocation(location), self._slot(now)))

    def _history(self, captured: CapturedTensor) -> None:
        """Note the history of a tensor from outside that was changed in place. An argument gets
        it after the call, unless backward has walked it."""
        tensor = captured.tensor
        if not isinstance(captured.location, ArgumentLocation) or captured.needed:
            raise untraceable(
                f"a tensor from outside ({tensor!r}) was changed in place and now has a "
                "history, which the next call would continue.",
                "change it under no_grad(), or detach what it is changed with.",
            )
        if not _done(tensor._node):
            self.graphs.append((self._slot(tensor), tensor))

    def _set(self, location: Any, now: Any) -> None:
        """Note a tensor or a fixed value that was put somewhere."""
        if hasattr(now, "_array"):
            self.assigned.append((location, self._slot(now)))
        else:
            self.counted.append((location, now))

    def _changes_of_optimizers(self) -> list[tuple[Term, RuntimeScalar, list[Any]]]:
        """Note what was set; return the scalars to write, each with its locations."""
        writes: dict[Any, tuple[Term, RuntimeScalar, list[Any]]] = {}

        def note(location: Any, before: Any, now: Any) -> None:
            if now is before:
                return
            if isinstance(now, RuntimeScalar):
                source = self._scalar_term(before, location)
                key = (id(source), now.key)
                writes.setdefault(key, (source, now, []))[2].append(location)
            elif isinstance(now, tuple) and isinstance(before, tuple) and len(now) == len(before):
                for part, (old, new) in enumerate(zip(before, now, strict=True)):
                    note(replace(location, part=part), old, new)
            else:
                self._set(location, now)

        for captured in self.tracer.optimizers.values():
            optimizer = captured.optimizer
            for i, (group, _) in enumerate(captured.groups):
                before = captured.replaced[id(group)]
                for name, now in group.items():
                    if name != "params":
                        note(OptionLocation(optimizer, i, name), before.get(name), now)
            for parameter, entries in optimizer.state.items():
                if parameter in captured.known and parameter not in captured.before:
                    continue  # it does not move
                before = captured.replaced.get(id(entries), {})
                state = captured.states.get(parameter)
                state = state or ParameterState(optimizer, parameter, None)
                for name, now in entries.items():
                    note(StateLocation(state, name), before.get(name), now)
        return list(writes.values())

    def _changes_of_modules(self) -> None:
        for location, before, now in self.tracer.modules.written():
            if isinstance(now, RuntimeScalar):
                kind = type(location.module).__name__
                raise untraceable(
                    f"{now!r} was assigned to '{location.name}' of {kind}.", "keep it in a tensor."
                )
            if now is not before:
                self._set(location, now)
        self._relocate()

    def _relocate(self) -> None:
        """Look for tensors that the function replaces where it found them: the next call finds
        others there."""
        moved = self.tracer.modules.replaced()
        for captured in self.tracer.captured.values():
            before, attribute = captured.location, moved.get(id(captured.tensor))
            if attribute is None:
                continue
            for storage in self.tracer.storages.values():
                storage.locations = [attribute if p is before else p for p in storage.locations]
            for slot, entry in enumerate(self.tensors):
                if isinstance(entry, Itself) and entry.location is before:
                    self.tensors[slot] = Itself(attribute)
            captured.location = attribute

    def _scalar_term(self, before: Any, location: Any) -> Term:
        """The runtime scalar whose new value is written; a new one if there was none."""
        if isinstance(before, RuntimeScalar) and isinstance(before.term.source, Scalar):
            return before.term
        return self.tracer.runtime_scalar(location, 0.0).term

    # -- sources -----------------------------------------------------------------------------------

    def _number_sources(
        self,
        program: Program,
        tensors: list[Itself | Result | Alias],
        gradient: Gradient | None,
    ) -> tuple[list[CapturedMemory], list[Any]]:
        """Number the memories and runtime scalars that are used, from 0."""
        used = set(program.sources()) | {t.source for t in tensors if isinstance(t, Alias)}
        used |= set(gradient.residuals) if gradient is not None else set()
        memories: list[CapturedMemory] = []
        for storage in self.tracer.storages.values():
            if storage.source in used:
                storage.source.source = Memory(len(memories))
                memories.append(CapturedMemory(storage.array, storage.locations))
        scalars: list[Any] = []
        for term, location in self.tracer.scalars:
            if term in used:
                term.source = Scalar(len(scalars))
                scalars.append(location)
        return memories, scalars

    def _layout(self, program: Program, memories: list[CapturedMemory]) -> Layout:
        layout = {}
        for term in program.sources():
            array: Any = None
            if isinstance(term.source, Memory):
                array = memories[term.source.number].array
            elif isinstance(term.source, Argument):
                array = self.standing.originals[term.source.number]._array
            if array is not None and order_of(array) not in (None, UNALIGNED):
                layout[term] = tuple(s // array.itemsize for s in array.strides)
        return layout


def _refuse_to_return(thing: Any) -> None:
    """Reject what would compute later, with arrays that have no numbers then."""
    cells = getattr(thing, "__closure__", None) or ()
    contents = [cell.cell_contents for cell in cells if is_filled(cell)]
    if isinstance(thing, (Iterator, Coroutine)) or any(map(_is_abstract, contents)):
        raise untraceable(
            f"a compiled function returned a {type(thing).__name__}: what it computes later is not "
            "part of the program.",
            "return what it computes (a list of a generator's results, say); do not compile "
            "generators and coroutines.",
        )


def _is_abstract(thing: Any) -> bool:
    """Whether it is something that the trace made, or a record that contains such."""
    if isinstance(thing, RuntimeScalar) or isinstance(getattr(thing, "_array", None), Traced):
        return True
    if not dataclasses.is_dataclass(thing) or isinstance(thing, type):
        return False
    return any(_is_abstract(leaf) for leaf in leaves(list(attributes_of(thing).values())))


def _done(node: Any) -> bool:
    """Whether its backward was called inside the function: it cannot be called again."""
    return any(isinstance(n.saved, Freed) for n in inputs_first([node]) if n.inputs)


def _hashable(chain: Chain) -> Any:
    return tuple((op.name, repr(attrs), index) for op, attrs, index in chain)
