"""What the doctor observed of a training run: numbers of every step, recordings of a few."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from gradwalk.graph.source import SourceLine
from gradwalk.inspect.trace.trace import Trace


@dataclass
class ObservedCall:
    """One call of a model by the program itself."""

    model: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    output: Any = None


class CalledModels:
    """Several models that a program calls one after another: an encoder, then a head."""

    def __init__(self, models: list[Any]) -> None:
        self._models = models

    def modules(self) -> Iterator[Any]:
        """All modules."""
        for model in self._models:
            yield from model.modules()

    def named_modules(self) -> Iterator[tuple[str, Any]]:
        """All modules; those of different models may have the same name."""
        for model in self._models:
            yield from model.named_modules()

    def parameters(self) -> Iterator[Any]:
        """All parameters."""
        for _, parameter in self.named_parameters():
            yield parameter

    def named_parameters(self) -> Iterator[tuple[str, Any]]:
        """All parameters, each once; a name that is taken gets the number of its model."""
        names: set[str] = set()
        seen: set[int] = set()
        for number, model in enumerate(self._models):
            for name, parameter in model.named_parameters():
                if id(parameter) not in seen:
                    seen.add(id(parameter))
                    told = f"{number}.{name}" if name in names else name
                    names.add(name)
                    yield told, parameter


@dataclass
class ObservedPass:
    """One backward pass that added to the gradients of an optimizer's parameters."""

    loss: float | None  # None if its root is not one number
    line: SourceLine | None
    before: float  # norm of the gradients that it added to
    after: float


@dataclass
class ObservedStep:
    """One step of an optimizer; of a program without one, one backward pass.

    A recorded step has the trace and the calls, and its live model: a check may run the model
    again with other inputs, and must leave it as it was (testing/restored.py).
    """

    number: int  # counted from 0
    run: ObservedRun
    optimizer: Any = None  # the one that steps; None if the program has none
    passes: list[ObservedPass] = field(default_factory=list)  # since its last step
    rates: list[float] = field(default_factory=list)  # learning rates of the optimizer's groups
    gradient_norm: float | None = None  # that it steps with; None if there is no gradient
    parameter_norm: float | None = None  # of an optimizer with weight decay
    line: SourceLine | None = None  # of the step
    closure: bool = False  # the optimizer itself ran the backward passes, as often as it wanted
    moved: bool = False  # without an optimizer: whether the parameters changed since the last
    trace: Trace | None = None  # of a recorded step: forward and backward, without the update
    calls: list[ObservedCall] = field(default_factory=list)  # of a recorded step

    @property
    def losses(self) -> list[float]:
        """The losses that backward started from."""
        return [p.loss for p in self.passes if p.loss is not None]

    @property
    def model(self) -> Any:
        """The model that the program called, or all it called as one; None if it calls none."""
        models = list({id(call.model): call.model for call in self.calls}.values())
        return CalledModels(models) if len(models) > 1 else next(iter(models), None)

    @property
    def batch(self) -> Any:
        """The positional arguments that the model was called with."""
        return self.calls[0].args if self.calls else ()


@dataclass
class Replaced:
    """A module of a model that the program replaced by another."""

    name: str  # of the attribute
    line: SourceLine | None
    time: int  # counts what the program makes; see `ObservedOptimizer.time`


@dataclass
class ModeChange:
    """From which step on a model is called in another mode."""

    model: Any
    step: int
    training: bool
    line: SourceLine | None  # of the call of eval() before it


@dataclass
class ObservedOptimizer:
    """An optimizer, and where it was made."""

    optimizer: Any
    line: SourceLine | None = None
    time: int = 0

    @property
    def parameters(self) -> list[Any]:
        """The parameters in its groups."""
        return [p for group in self.optimizer.param_groups for p in group["params"]]


@dataclass
class ObservedRun:
    """A training run."""

    engine: str = ""  # "PyTorch" or "gradwalk"
    steps: list[ObservedStep] = field(default_factory=list)
    optimizers: list[ObservedOptimizer] = field(default_factory=list)
    models: list[Any] = field(default_factory=list)  # that the program itself called
    replaced: list[Replaced] = field(default_factory=list)
    schedule_lines: dict[SourceLine, int] = field(default_factory=dict)  # calls of scheduler.step
    clip_line: SourceLine | None = None  # that clips gradients
    modes: dict[int, list[ModeChange]] = field(default_factory=dict)  # of models, by `id`
    passes: int = 0  # backward passes
    trained: set[int] = field(default_factory=set)  # parameters that had a gradient, by `id`
    remade: int = 0  # optimizers that were made again for the same parameters
    harmed: bool = False  # a step was stopped: NaN, inf or an explosion
    error: BaseException | None = None  # what ended the program
    stopped: str = ""  # why the doctor ended the program before its own end

    @property
    def recorded(self) -> list[ObservedStep]:
        """The steps with a trace."""
        return [step for step in self.steps if step.trace is not None]

    @property
    def losses(self) -> list[float]:
        """The mean loss of each step."""
        return [sum(s.losses) / len(s.losses) for s in self.steps if s.losses]
