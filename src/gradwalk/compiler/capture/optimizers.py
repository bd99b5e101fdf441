"""Optimizers while a function is traced: their numbers are read late, their state is captured.

`Optimizer.step` runs as it is, NumPy code on traced arrays. Before that, every number among its
options and in its state is replaced by a Number, and state that a first step would make is made,
as a first step makes it, so that the first and the second call are one program.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gradwalk.compiler.capture.locations import KeptState, OfGroup, OfState
from gradwalk.compiler.capture.modules import hooks_of
from gradwalk.compiler.capture.runtime_scalars import Number
from gradwalk.compiler.tracing.errors import untraceable
from gradwalk.engine.modes import state as modes

if TYPE_CHECKING:
    from gradwalk.compiler.tracing.tracer import Tracer


class HeldOptimizer:
    """An optimizer as it was, and what stands in it while the trace lasts."""

    def __init__(self, tracer: Tracer, optimizer: Any) -> None:
        self.tracer = tracer
        self.optimizer = optimizer
        self.stepped = False
        self.groups = [(group, dict(group)) for group in optimizer.param_groups]
        self.params = [list(group["params"]) for group in optimizer.param_groups]
        self.states: dict[Any, dict[str, Any]] = {}  # of each parameter, before
        self.fresh: dict[Any, dict[str, Any]] = {}  # those that the first step makes
        self.shared: dict[Any, SharedNumber] = {}  # numbers that are equal for many parameters
        self.slots: dict[Any, KeptState] = {}  # of each parameter that moves
        self.known = dict(optimizer.state)
        self.names = {p: set(kept) for p, kept in optimizer.state.items()}  # before, or fresh
        self.entry: dict[int, dict[str, Any]] = {}  # what was put into each dictionary
        for i, (group, before) in enumerate(self.groups):
            put = {k: self._option(i, k, v) for k, v in before.items() if k != "params"}
            self.entry[id(group)] = put
            group.update(put)

    def _option(self, group: int, name: str, value: Any) -> Any:
        if type(value) in (int, float):
            return self.tracer.late(OfGroup(self.optimizer, group, name), value)
        if isinstance(value, tuple) and value and all(type(v) in (int, float) for v in value):
            return tuple(
                self.tracer.late(OfGroup(self.optimizer, group, name, part), v)
                for part, v in enumerate(value)
            )
        return value

    def hold_states(self) -> None:
        """Capture the state of every parameter that will move, made if it is not there."""
        for (_, before), parameters in zip(self.groups, self.params, strict=True):
            for parameter in parameters:
                if parameter._grad is None or parameter in self.states:
                    continue
                kept = self.optimizer.state.get(parameter)
                if kept is None:
                    kept = self._fresh(parameter, before)
                    if not kept:
                        continue
                    self.fresh[parameter] = dict(kept)
                    self.names[parameter] = set(kept)
                    self.optimizer.state[parameter] = kept
                self.states[parameter] = dict(kept)
                self.slots[parameter] = KeptState(self.optimizer, parameter, kept)
                put = {k: self._entry(parameter, k, v) for k, v in kept.items()}
                self.entry[id(kept)] = put
                kept.update(put)

    def _fresh(self, parameter: Any, group: dict[str, Any]) -> dict[str, Any]:
        """What a first step would make, of the real array, outside the trace."""
        traced, here = parameter._array, modes.here
        parameter._array = self.tracer.held[id(parameter)].array
        here.tracer = here.watcher = None
        try:
            made: dict[str, Any] = self.optimizer.fresh_state(parameter, group)
            return made
        finally:
            here.tracer = here.watcher = self.tracer
            parameter._array = traced

    def _entry(self, parameter: Any, name: str, value: Any) -> Any:
        place = OfState(self.slots[parameter], name)
        if hasattr(value, "_array"):
            self.tracer.hold_at(value, place)
        elif type(value) in (int, float):
            shared = self.shared.get((name, value))
            if shared is None:
                shared = self.shared[name, value] = SharedNumber(place)
                shared.number = self.tracer.late(shared, value)
            else:
                shared.members.append(place.state)
            return shared.number
        return value

    def restore(self) -> None:
        """Put everything back."""
        for group, before in self.groups:
            group.clear()
            group.update(before)
        for parameter, before in self.states.items():
            kept = self.optimizer.state.get(parameter)
            if kept is not None:
                kept.clear()
                kept.update(before)
        self.optimizer.state.clear()
        self.optimizer.state.update(self.known)


class SharedNumber:
    """A number that the state of several parameters has, such as the step count."""

    def __init__(self, place: OfState) -> None:
        self.name = place.name
        self.members = [place.state]
        self.number: Number | None = None

    def get(self, arguments: list[Any]) -> Any:
        """The number, of the first."""
        return self.members[0].kept[self.name]

    def equal(self) -> bool:
        """Whether all still have the same."""
        name = self.name
        first = self.members[0].kept[name]
        for member in self.members:
            now = member.kept[name]
            if now is not first and now != first:
                return False
        return True

    def __str__(self) -> str:
        return str(OfState(self.members[0], self.name))


class OptimizerAsBefore:
    """Whether an optimizer has the parameters, the fixed options and the kinds of state it had."""

    def __init__(self, held: HeldOptimizer) -> None:
        self.optimizer = held.optimizer
        self.params = [(group["params"], len(group["params"])) for _, group in held.groups]
        without = self.optimizer._without_meaning
        self.fixed = [
            (i, name, value)
            for i, (_, group) in enumerate(held.groups)
            for name, value in group.items()
            if name != "params" and name not in without and not _is_late(value)
        ]
        self.slots = [(slot, len(held.names[p])) for p, slot in held.slots.items()]
        # Of all parameters, also those that do not move; None if no step is made.
        self.names = held.names if held.stepped else None

    def holds(self) -> bool:
        """Whether it still has."""
        groups = self.optimizer.param_groups
        if len(groups) != len(self.params):
            return False
        for group, (params, count) in zip(groups, self.params, strict=True):
            if group["params"] is not params or len(params) != count:
                return False
        for i, name, value in self.fixed:
            now = groups[i].get(name)
            if now is not value and now != value:
                return False
        return self.names is None or self._state_as_before()

    def _state_as_before(self) -> bool:
        state, names = self.optimizer.state, self.names
        assert names is not None
        if len(state) != len(names):
            return False
        for slot, count in self.slots:
            kept = state.get(slot.parameter)
            if kept is not slot.kept or len(kept) != count:
                break
        else:  # those that do not move stay as they are
            if len(self.slots) == len(names):
                return True
        if any(names.get(parameter) != kept.keys() for parameter, kept in state.items()):
            return False
        for slot, _ in self.slots:
            slot.kept = state[slot.parameter]
        return True


def _is_late(value: Any) -> bool:
    """Whether an option is read at every call (see capture/optimizers.py)."""
    if isinstance(value, tuple):
        return all(type(v) in (int, float) for v in value)
    return type(value) in (int, float)


def hold_optimizer(tracer: Tracer, optimizer: Any) -> None:
    """Replace its numbers, and capture the state of the parameters that will move."""
    if optimizer._flat_state:
        raise untraceable(
            f"{type(optimizer).__name__}.step inside a compiled function: it looks at numbers to "
            "decide how far to go.",
            "compile the closure (the loss and its backward), and call step outside.",
        )
    for group in optimizer.param_groups:
        for parameter in group["params"]:
            tracer.reads_grad(parameter)
    held = held_optimizer(tracer, optimizer)
    if not held.stepped:
        tracer.modules.hooked.append((optimizer, hooks_of(optimizer)))
    held.stepped = True
    held.hold_states()


def held_optimizer(tracer: Tracer, optimizer: Any) -> HeldOptimizer:
    """The optimizer with its numbers replaced."""
    held: HeldOptimizer | None = tracer.optimizers.get(id(optimizer))
    if held is None:
        held = tracer.optimizers[id(optimizer)] = HeldOptimizer(tracer, optimizer)
        tracer.undo.append(held.restore)
    return held
