"""Optimizers during a trace: their numbers become runtime scalars, their state is captured.

`Optimizer.step` runs as it is, NumPy code on traced arrays. Before that, every number among its
options and in its state is replaced by a RuntimeScalar, and state that a first step would make is
made, so that the first and the second call are one program.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gradwalk.compiler.capture.guards import hooks_of, is_scalar
from gradwalk.compiler.capture.locations import (
    Location,
    OptionLocation,
    ParameterState,
    StateLocation,
)
from gradwalk.compiler.capture.runtime_scalars import RuntimeScalar
from gradwalk.compiler.tracing.errors import untraceable
from gradwalk.engine.modes import switch

if TYPE_CHECKING:
    from gradwalk.compiler.tracing.tracer import Tracer


class CapturedOptimizer:
    """An optimizer as it was, and what replaces its numbers during the trace."""

    def __init__(self, tracer: Tracer, optimizer: Any) -> None:
        self.tracer = tracer
        self.optimizer = optimizer
        self.stepped = False
        self.groups = [(group, dict(group)) for group in optimizer.param_groups]
        self.params = [list(group["params"]) for group in optimizer.param_groups]
        self.before: dict[Any, dict[str, Any]] = {}  # the state of each parameter that moves
        self.fresh: dict[Any, dict[str, Any]] = {}  # states that the first step makes
        self.shared: dict[Any, SharedScalar] = {}  # numbers that are equal for many parameters
        self.states: dict[Any, ParameterState] = {}  # of each parameter that moves
        self.known = dict(optimizer.state)
        self.names = {p: set(entries) for p, entries in optimizer.state.items()}  # before, or fresh
        self.replaced: dict[int, dict[str, Any]] = {}  # the new entries of each dictionary
        for i, (group, options) in enumerate(self.groups):
            new = {k: self._option(i, k, v) for k, v in options.items() if k != "params"}
            self.replaced[id(group)] = new
            group.update(new)

    def _option(self, group: int, name: str, value: Any) -> Any:
        if type(value) in (int, float):
            return self.tracer.runtime_scalar(OptionLocation(self.optimizer, group, name), value)
        if isinstance(value, tuple) and value and is_scalar(value):
            return tuple(
                self.tracer.runtime_scalar(OptionLocation(self.optimizer, group, name, part), v)
                for part, v in enumerate(value)
            )
        return value

    def capture_states(self) -> None:
        """Capture the state of every parameter that will move; make it if it is not there."""
        for (_, options), parameters in zip(self.groups, self.params, strict=True):
            for parameter in parameters:
                if parameter._grad is None or parameter in self.before:
                    continue
                entries = self.optimizer.state.get(parameter)
                if entries is None:
                    entries = self._fresh(parameter, options)
                    if not entries:
                        continue
                    self.fresh[parameter] = dict(entries)
                    self.names[parameter] = set(entries)
                    self.optimizer.state[parameter] = entries
                self.before[parameter] = dict(entries)
                self.states[parameter] = ParameterState(self.optimizer, parameter, entries)
                new = {k: self._entry(parameter, k, v) for k, v in entries.items()}
                self.replaced[id(entries)] = new
                entries.update(new)

    def _fresh(self, parameter: Any, options: dict[str, Any]) -> dict[str, Any]:
        """What a first step would make of the real array, outside the trace."""
        traced = parameter._array
        parameter._array = self.tracer.captured[id(parameter)].array
        switch(tracer=None, watcher=None)
        try:
            made: dict[str, Any] = self.optimizer.fresh_state(parameter, options)
            return made
        finally:
            switch(tracer=self.tracer, watcher=self.tracer)
            parameter._array = traced

    def _entry(self, parameter: Any, name: str, value: Any) -> Any:
        location = StateLocation(self.states[parameter], name)
        if hasattr(value, "_array"):
            self.tracer.capture_at(value, location)
        elif type(value) in (int, float):
            shared = self.shared.get((name, value))
            if shared is None:
                shared = self.shared[name, value] = SharedScalar(location)
                shared.scalar = self.tracer.runtime_scalar(shared, value)
            else:
                shared.members.append(location.state)
            return shared.scalar
        return value

    def restore(self) -> None:
        """Put everything back."""
        for group, options in self.groups:
            group.clear()
            group.update(options)
        for parameter, before in self.before.items():
            entries = self.optimizer.state.get(parameter)
            if entries is not None:
                entries.clear()
                entries.update(before)
        self.optimizer.state.clear()
        self.optimizer.state.update(self.known)


class SharedScalar(Location):
    """A number that the state of several parameters has, such as the step count."""

    def __init__(self, location: StateLocation) -> None:
        self.name = location.name
        self.members = [location.state]
        self.scalar: RuntimeScalar | None = None

    def get(self, arguments: Any) -> Any:
        return self.members[0].entries[self.name]

    def __str__(self) -> str:
        return str(StateLocation(self.members[0], self.name))


def capture_step(tracer: Tracer, optimizer: Any) -> None:
    """Before a step: replace its numbers, and capture the state of the parameters that move."""
    if optimizer._flat_state:
        raise untraceable(
            f"{type(optimizer).__name__}.step inside a compiled function: it reads values to "
            "decide how far to go.",
            "compile the closure (the loss and its backward), and call step outside.",
        )
    for group in optimizer.param_groups:
        for parameter in group["params"]:
            tracer.reads_grad(parameter)
    captured = capture_optimizer(tracer, optimizer)
    if not captured.stepped:
        tracer.modules.hooked.append((optimizer, hooks_of(optimizer)))
    captured.stepped = True
    captured.capture_states()


def capture_optimizer(tracer: Tracer, optimizer: Any) -> CapturedOptimizer:
    """Replace the numbers of an optimizer."""
    captured: CapturedOptimizer | None = tracer.optimizers.get(id(optimizer))
    if captured is None:
        captured = tracer.optimizers[id(optimizer)] = CapturedOptimizer(tracer, optimizer)
        tracer.undo.append(captured.restore)
    return captured
