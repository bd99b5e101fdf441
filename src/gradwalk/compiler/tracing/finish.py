"""The end of a trace: what the function returned, what it changed, and which program that is."""

from __future__ import annotations

import dataclasses
from collections.abc import Coroutine, Iterator
from typing import TYPE_CHECKING, Any

from gradwalk.compiler.capture.captured import Held
from gradwalk.compiler.capture.environment import Environment
from gradwalk.compiler.capture.locations import KeptState, OfGradient, OfGroup, OfState, OfTensor
from gradwalk.compiler.capture.modules import ModulesAsBefore, replaced_places
from gradwalk.compiler.capture.optimizers import OptimizerAsBefore
from gradwalk.compiler.capture.runtime_scalars import Number
from gradwalk.compiler.capture.user_code import is_filled, vars_of
from gradwalk.compiler.capture.variables import Variable
from gradwalk.compiler.ir.program import Argument, Late, Memory, Program, Term
from gradwalk.compiler.passes.dead_code import drop_unused
from gradwalk.compiler.tracing.arguments import UNALIGNED, order_of
from gradwalk.compiler.tracing.errors import untraceable
from gradwalk.compiler.tracing.gradient import Gradient, differentiate
from gradwalk.compiler.tracing.outcome import (
    Alias,
    Captured,
    Itself,
    Numeral,
    Record,
    Result,
    Slot,
    Trace,
)
from gradwalk.compiler.tracing.traced import Chain, Traced
from gradwalk.engine.tree import leaves, mapped
from gradwalk.graph.node import Freed
from gradwalk.graph.order import inputs_first
from gradwalk.graph.versions import owner_of
from gradwalk.ops.shape.reshaping import clone

if TYPE_CHECKING:
    from gradwalk.compiler.tracing.trace import StandIns
    from gradwalk.compiler.tracing.tracer import Tracer


class Finish:
    """Reads off, at the end of a run, what it returned and what it changed."""

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
        self.found: list[Any] = []  # Itself, or (traced, requires_grad)
        self.kept: list[Any] = []
        self.source_of = {id(s.traced): s.source for s in tracer.storages.values()}
        self.source_of |= {id(traced): source for traced, source in standing.sources}
        self.numerals: list[Number] = []
        self.graphs: list[tuple[int, Any]] = []  # (slot, tensor) of those to be differentiated

    def trace(self, result: Any) -> Trace:
        tracer = self.tracer
        tree = mapped(self._leaf, result)
        assigned, rebound, flags = self._changes_of_tensors()
        counted, late_writes = self._changes_of_optimizers(assigned)
        self._changes_of_modules(assigned, counted)
        assigned += [(variable, self._slot(tensor)) for variable, tensor in self.given]
        gradient = differentiate(tracer, self.graphs) if self.graphs else None
        results: list[Term] = []
        tensors = self._results(results)
        first = len(results)
        for numeral in self.numerals:
            results.append(self._own(numeral.term, results))
        tree = mapped(lambda x: _shifted(x, first), tree)
        updates = [
            (source, traced._term)
            for traced, source in [
                *[(s.traced, s.source) for s in tracer.storages.values()],
                *self.standing.sources,
            ]
            if traced._term is not source
        ]
        updates += [(source, number.term) for source, number, _ in late_writes]
        if gradient is not None:
            self._keep_residuals(gradient, results, {place for place, _ in updates})
        program = drop_unused(Program(tracer.build.calls, results, updates))
        captured, lates = self._sources(program, tensors, gradient)
        held = list(tracer.held.values())
        owners = {id(owner_of(storage.array)) for storage in tracer.storages.values()}
        self.environment.without([h.place for h in held], self.given, owners)
        return Trace(
            program=program,
            captured=captured,
            lates=lates,
            tensors=tensors,
            result=tree,
            assigned=assigned,
            rebound=rebound,
            flags=flags,
            counted=counted,
            updated=[places for _, _, places in late_writes],
            arguments=len(self.standing.originals),
            layout=self._layout(program, captured),
            needs=[(h.place, h.needed) for h in held if isinstance(h.place, (OfTensor, Variable))],
            views=[(h.place, h.array) for h in held if self._is_view(h)],
            grads=[
                (h.place, h.attributes.get("_grad") is None) for h in held if h.grad_was == "read"
            ],
            unread=[h.place for h in held if h.grad_was == "replaced"],
            optimizers=[OptimizerAsBefore(o) for o in tracer.optimizers.values()],
            modules=ModulesAsBefore(tracer.modules),
            fresh=[
                (o.optimizer, parameter, kept)
                for o in tracer.optimizers.values()
                for parameter, kept in o.fresh.items()
            ],
            environment=self.environment,
            decisions=list(tracer.decisions.values()),
            gradient=gradient,
            themselves=self.standing.themselves,
            written_arguments=[
                place.source.position for place, _ in updates if isinstance(place.source, Argument)
            ],
        )

    def _is_view(self, held: Held) -> bool:
        """Whether a tensor has a part of captured memory: then it must be this very part."""
        return isinstance(held.place, OfTensor) and id(held.array) not in self.tracer.storages

    # -- what was returned -------------------------------------------------------------------------

    def _leaf(self, thing: Any) -> Any:
        if hasattr(thing, "_array"):
            return Slot(self._slot(thing))
        if isinstance(thing, Number):
            self.numerals.append(thing)
            return Numeral(len(self.numerals) - 1, type(thing.value) is int)
        _refuse_to_return(thing)
        attributes = _attributes(thing)
        if any(_is_abstract(leaf) for leaf in leaves(list(attributes.values()))):
            made = {name: mapped(self._leaf, value) for name, value in attributes.items()}
            return Record(type(thing), made)
        return thing

    def _slot(self, tensor: Any) -> int:
        known = self.slots.get(id(tensor))
        if known is None:
            known = self.slots[id(tensor)] = len(self.found)
            self.kept.append(tensor)
            held = self.tracer.held.get(id(tensor))
            if held is not None:
                self.found.append(Itself(held.place))
            elif not isinstance(tensor._array, Traced):  # from outside, and not touched
                self.tracer.hold(tensor)
                self.found.append(Itself(self.tracer.held[id(tensor)].place))
            else:
                if tensor._node is not None and not _done(tensor._node):
                    self.graphs.append((known, tensor))
                self.found.append((tensor._array, tensor._requires_grad))
        return known

    def _results(self, results: list[Term]) -> list[Itself | Result | Alias]:
        """What to make of the program's outputs; tensors that share memory will again."""
        ways: dict[int, set[Any]] = {}
        for entry in self.found:
            if not isinstance(entry, Itself):
                traced = entry[0]
                ways.setdefault(id(traced.owner), set()).add(_hashable(traced.chain))
        numbers: dict[int, int] = {}
        tensors: list[Itself | Result | Alias] = []
        for entry in self.found:
            if isinstance(entry, Itself):
                tensors.append(entry)
                continue
            traced, requires_grad = entry
            owner = traced.owner
            if id(owner) in self.source_of:
                tensors.append(Alias(self.source_of[id(owner)], traced.chain))
            else:
                alone = len(ways[id(owner)]) == 1
                if id(owner) not in numbers:
                    numbers[id(owner)] = len(results)
                    term = traced.term if alone else owner.term
                    results.append(self._own(term, results))
                chain = () if alone else traced.chain
                tensors.append(Result(numbers[id(owner)], chain, requires_grad))
        return tensors

    def _keep_residuals(self, gradient: Gradient, results: list[Term], written: set[Term]) -> None:
        """Results for what the gradient needs and cannot find in a source afterwards."""
        for number, term in enumerate(gradient.residuals):
            if isinstance(term.source, (Memory, Argument)) and term not in written:
                continue
            gradient.among_results[number] = len(results)
            results.append(self._own(term, results))

    def _own(self, term: Term, results: list[Term]) -> Term:
        """A result in memory of its own: of a source, or of another result, a copy."""
        if term.call is not None and term not in results:
            return term
        found: Term = self.tracer.call(clone, [term], {})
        return found

    # -- what was changed --------------------------------------------------------------------------

    def _changes_of_tensors(self) -> tuple[list[Any], list[Any], list[Any]]:
        assigned: list[Any] = []
        rebound: list[Any] = []
        flags: list[Any] = []
        for held in list(self.tracer.held.values()):
            tensor = held.tensor
            if tensor._node is not None:
                raise untraceable(
                    f"a tensor from outside ({tensor!r}) was changed in place and got a history, "
                    "which the next call would go on with.",
                    "change it under no_grad(), or with what is detached.",
                )
            if tensor._array is not held.traced:
                stands_for = tensor.detach()
                rebound.append((held.place, self._slot(stands_for)))
            if tensor._requires_grad != held.needed:
                flags.append((held.place, tensor._requires_grad))
            if held.grad_was == "untouched":
                continue
            entry, now = held.attributes.get("_grad"), tensor._grad
            if now is None and (entry is not None or held.grad_was == "replaced"):
                assigned.append((OfGradient(held.place), None))
            elif now is not None and now is not entry:
                assigned.append((OfGradient(held.place), self._slot(now)))
        return assigned, rebound, flags

    def _changes_of_optimizers(self, assigned: list[Any]) -> tuple[list[Any], list[Any]]:
        counted: list[Any] = []
        writes: dict[Any, tuple[Term, Number, list[Any]]] = {}

        def note(place: Any, entry: Any, now: Any) -> None:
            if now is entry:
                return
            if isinstance(now, Number):
                source = self._late_term(entry, place)
                key = (id(source), now.key)
                writes.setdefault(key, (source, now, []))[2].append(place)
            elif hasattr(now, "_array"):
                assigned.append((place, self._slot(now)))
            elif isinstance(now, tuple) and isinstance(entry, tuple) and len(now) == len(entry):
                for part, (old, new) in enumerate(zip(entry, now, strict=True)):
                    note(OfGroup(place.optimizer, place.group, place.name, part), old, new)
            else:
                counted.append((place, now))

        for held in self.tracer.optimizers.values():
            optimizer = held.optimizer
            for i, (group, _) in enumerate(held.groups):
                entry = held.entry[id(group)]
                for name, now in group.items():
                    if name != "params":
                        note(OfGroup(optimizer, i, name), entry.get(name), now)
            for parameter, kept in optimizer.state.items():
                if parameter in held.known and parameter not in held.states:
                    continue  # it does not move
                entry = held.entry.get(id(kept), {})
                slot = held.slots.get(parameter) or KeptState(optimizer, parameter, None)
                for name, now in kept.items():
                    note(OfState(slot, name), entry.get(name), now)
        return counted, list(writes.values())

    def _changes_of_modules(self, assigned: list[Any], counted: list[Any]) -> None:
        for place, before, now in self.tracer.modules.written():
            if now is before:
                continue
            if hasattr(now, "_array"):
                assigned.append((place, self._slot(now)))
            elif isinstance(now, Number):
                raise untraceable(
                    f"{now!r} was assigned to '{place.name}' of {type(place.module).__name__}.",
                    "keep it in a tensor.",
                )
            else:
                counted.append((place, now))
        moved = replaced_places(self.tracer)
        for held in self.tracer.held.values():
            attribute = moved.get(id(held.tensor))
            if attribute is not None:  # the next call finds another tensor there
                for storage in self.tracer.storages.values():
                    storage.places = [attribute if p is held.place else p for p in storage.places]
                held.place = attribute

    def _late_term(self, entry: Any, place: Any) -> Term:
        """The late-bound number whose new value is written; a new one if there was none."""
        if isinstance(entry, Number) and isinstance(entry.term.source, Late):
            return entry.term
        return self.tracer.late(place, 0.0).term

    # -- sources -----------------------------------------------------------------------------------

    def _sources(
        self,
        program: Program,
        tensors: list[Itself | Result | Alias],
        gradient: Gradient | None,
    ) -> tuple[list[Captured], list[Any]]:
        """Number the memories and late-bound numbers that are used, from 0."""
        used = set(program.sources()) | {t.source for t in tensors if isinstance(t, Alias)}
        used |= set(gradient.residuals) if gradient is not None else set()
        captured: list[Captured] = []
        for storage in self.tracer.storages.values():
            if storage.source in used:
                storage.source.source = Memory(len(captured))
                captured.append(Captured(storage.array, storage.places))
        lates: list[Any] = []
        for term, place in self.tracer.lates:
            if term in used:
                term.source = Late(len(lates))
                lates.append(place)
        return captured, lates

    def _layout(self, program: Program, captured: list[Captured]) -> dict[Term, tuple[int, ...]]:
        """Strides, in elements, of the sources whose elements do not lie in memory in order."""
        found = {}
        for term in program.sources():
            array: Any = None
            if isinstance(term.source, Memory):
                array = captured[term.source.number].array
            elif isinstance(term.source, Argument):
                array = self.standing.originals[term.source.position]._array
            if array is not None and order_of(array) not in (None, UNALIGNED):
                found[term] = tuple(s // array.itemsize for s in array.strides)
        return found


def _refuse_to_return(thing: Any) -> None:
    """Raise for what would compute later, with what has no numbers then."""
    cells = getattr(thing, "__closure__", None) or ()
    contents = [cell.cell_contents for cell in cells if is_filled(cell)]
    later = isinstance(thing, (Iterator, Coroutine)) or any(map(_is_abstract, contents))
    if later:
        raise untraceable(
            f"a compiled function returned a {type(thing).__name__}: what it computes later is not "
            "part of the program.",
            "return what it computes (a list of a generator's results, say); do not compile "
            "generators and coroutines themselves.",
        )


def _is_abstract(thing: Any) -> bool:
    """Whether it is, or has, what the trace made."""
    if isinstance(thing, Number) or isinstance(getattr(thing, "_array", None), Traced):
        return True
    if not dataclasses.is_dataclass(thing) or isinstance(thing, type):
        return False
    return any(_is_abstract(leaf) for leaf in leaves(list(_attributes(thing).values())))


def _attributes(thing: Any) -> dict[str, Any]:
    """The attributes of an object, also of one without a dictionary."""
    if isinstance(thing, type):
        return {}
    found = dict(vars_of(thing))
    for kind in type(thing).__mro__:
        listed = vars(kind).get("__slots__", ())
        for name in (listed,) if isinstance(listed, str) else listed:
            if not name.startswith("__") and hasattr(thing, name):
                found[name] = getattr(thing, name)
    return found


def _shifted(leaf: Any, first: int) -> Any:
    """Numbers among the results stand behind the tensors."""
    if isinstance(leaf, Record):
        parts = {n: mapped(lambda x: _shifted(x, first), v) for n, v in leaf.attributes.items()}
        return Record(leaf.kind, parts)
    return Numeral(leaf.number + first, leaf.whole) if isinstance(leaf, Numeral) else leaf


def _done(node: Any) -> bool:
    """Whether its backward was called inside: then it cannot be again."""
    return any(isinstance(n.saved, Freed) for n in inputs_first([node]) if n.inputs)


def _hashable(chain: Chain) -> Any:
    return tuple((op.name, repr(attrs), index) for op, attrs, index in chain)
