"""Observe a training loop: its model calls, backward passes and steps.

The two engines tell an Observer of them (own_engine.py, torch/doctor/observer.py). It keeps the
numbers of every step and records some steps; the checks look at those before the update.
"""

from __future__ import annotations

import gc
import math
import sysconfig
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

from gradwalk.graph.source import SourceLine, own_files, source_line
from gradwalk.inspect.doctor.examination import Examination
from gradwalk.inspect.doctor.observed import (
    ModeChange,
    ObservedCall,
    ObservedOptimizer,
    ObservedPass,
    ObservedRun,
    ObservedStep,
    Replaced,
)
from gradwalk.inspect.health.findings import Finding
from gradwalk.inspect.trace.trace import Trace

RECORDED = (0, 1, 10, 100)  # steps: at the start, and when training is under way
MOST_CALLS = 64  # model calls to keep of one recorded step


class Enough(BaseException):
    """Ends the program: the doctor has seen what it wanted to see."""


class Observer:
    """Keep account of a training loop."""

    def __init__(
        self,
        engine: str,
        examine: Callable[[ObservedStep], None],
        told: Callable[[ObservedStep], None],
        most_steps: float = math.inf,
        most_seconds: float = math.inf,
    ) -> None:
        self.run = ObservedRun(engine)
        self._examine, self._told = examine, told
        self._most_steps, self._deadline = most_steps, time.monotonic() + most_seconds
        self._since: dict[int, list[ObservedPass]] = {}  # passes, by optimizer, since its step
        self._begun: list[tuple[int, float]] = []  # norms before the pass in progress
        self._recording: AbstractContextManager[Trace] | None = None
        self._trace: Trace | None = None
        self._calls: list[ObservedCall] = []
        self._inside: Any = None  # the model that is running
        self._eval_line: SourceLine | None = None  # of the last call of eval()
        self._leaves: list[Any] = []  # of the last backward pass
        self._closure = False  # the step in progress runs backward inside
        self._made = 0
        self._size: float | None = None  # of all parameters, of a program without an optimizer
        self._busy = False

    @property
    def activity(self) -> tuple[int, int]:
        """How much the program does in this engine."""
        return self.run.passes, len(self.run.models) + len(self.run.optimizers)

    # -- what an engine defines --------------------------------------------------------------------

    def recorder(self) -> AbstractContextManager[Trace]:
        """A recorder of one step."""
        raise NotImplementedError

    def norm(self, parameters: list[Any]) -> float | None:
        """The norm of the gradients of these parameters; None if they have none."""
        raise NotImplementedError

    def size(self, parameters: list[Any]) -> float:
        """The norm of these parameters."""
        raise NotImplementedError

    def line(self) -> SourceLine | None:
        """The program's line that led here."""
        raise NotImplementedError

    def aside(self) -> AbstractContextManager[None]:
        """Hide what happens inside from the program and from other tools."""
        return nullcontext()

    def hook(self, optimizer: Any) -> None:
        """Be told of the steps of an optimizer."""
        raise NotImplementedError

    def records(self, number: int) -> bool:
        """Whether to record a step."""
        return number in RECORDED

    def explained(self, error: BaseException) -> Finding:
        """What an error says, with what is known of its cause."""
        message, _, fix = str(error).partition("\nFix: ")
        ended, guilty = last_line(error), getattr(error, "gradwalk_line", None)
        return Finding(
            "error",
            "",
            math.nan,
            f"the program ends with {type(error).__name__}: {message}".removesuffix("."),
            fix.removesuffix(".") or "see the traceback",
            guilty or ended,
            ended if guilty else None,
            confidence="certain",
            basis="the program raised it",
        )

    def finish(self, error: BaseException | None, examination: Examination) -> None:
        """The program has ended: run the checks of the whole run."""
        self.run.error = error
        if error is not None and not isinstance(error, KeyboardInterrupt):
            examination.add(self.explained(error))
        elif error is not None:
            self.run.stopped = "by Ctrl-C"
        trained = self.run.trained
        examination.found[:] = [
            f for f in examination.found if f.kind != "unused" or f._about - trained
        ]
        examination.of_run(self.run)

    # -- what the program makes --------------------------------------------------------------------

    def made_optimizer(self, optimizer: Any) -> None:
        """Note a new optimizer."""
        if any(known.optimizer is optimizer for known in self.run.optimizers):
            return
        self._made += 1
        made = ObservedOptimizer(optimizer, self.line(), self._made)
        held = set(map(id, made.parameters))
        others = [k for k in self.run.optimizers if set(map(id, k.parameters)) != held]
        self.run.remade += len(self.run.optimizers) - len(others)
        self.run.optimizers[:] = [*others, made]

    def replaced_module(self, name: str) -> None:
        """Note that an attribute of a module was bound to another module."""
        self._made += 1
        self.run.replaced.append(Replaced(name, self.line(), self._made))

    def scheduled(self) -> None:
        """Note a call of `scheduler.step()`."""
        line = self.line()
        if line is not None:
            lines = self.run.schedule_lines
            lines[line] = lines.get(line, 0) + 1

    def clipped(self) -> None:
        """Note a call of `clip_grad_norm_()` or its like."""
        self.run.clip_line = self.run.clip_line or self.line()

    def adopt(self, model: Any) -> None:
        """Hook the optimizers of a model that were made before."""
        own = {id(p) for p in model.parameters()}
        for thing in gc.get_objects():
            if not any(kind.__name__ == "Optimizer" for kind in type(thing).__mro__):
                continue
            groups = getattr(thing, "param_groups", ())
            if any(id(p) in own for group in groups for p in group["params"]):
                self.hook(thing)

    # -- a step ------------------------------------------------------------------------------------

    def begin(self) -> None:
        """Begin a step."""
        self._calls = []
        if self._recording is None and self.records(len(self.run.steps)):
            self._recording = self.recorder()
            self._trace = self._recording.__enter__()

    def end_recording(self) -> Trace | None:
        """End the recording of a step; its trace."""
        recording, self._recording = self._recording, None
        if recording is None:
            return None
        recording.__exit__(None, None, None)
        trace, self._trace = self._trace, None
        return trace if trace is not None and trace.sweeps else None

    @contextmanager
    def call(self, model: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Iterator[Any]:
        """Around a call of a module; yields a function that takes the output."""
        if self._inside is not None or self._busy:
            yield lambda output: None
            return
        self._inside = model
        self._note_mode(model)
        seen = ObservedCall(model, args, kwargs)
        if all(known is not model for known in self.run.models):
            self.run.models.append(model)
        if self._recording is not None and len(self._calls) < MOST_CALLS:
            self._calls.append(seen)
        try:
            yield lambda output: setattr(seen, "output", output)
        finally:
            self._inside = None

    def left_training(self) -> None:
        """Note a call of `eval()`."""
        self._eval_line = self.line() or self._eval_line

    def _note_mode(self, model: Any) -> None:
        training = bool(getattr(model, "training", True))
        changes = self.run.modes.setdefault(id(model), [])
        if not changes or changes[-1].training != training:
            number = len(self.run.steps)
            changes.append(ModeChange(model, number, training, self._eval_line))

    def begin_backward(self, leaves: list[Any]) -> None:
        """A backward pass that adds to the `.grad` of these leaves begins."""
        self._leaves = leaves
        self._begun = [(key, self.norm(held) or 0.0) for key, held in self._held()]

    def end_backward(self, loss: float | None, line: SourceLine | None) -> None:
        """It has ended."""
        self.run.passes += 1
        after = dict(self._held())
        for key, before in self._begun:
            now = self.norm(after[key]) or 0.0
            if now != before or key == 0:
                self._since.setdefault(key, []).append(ObservedPass(loss, line, before, now))
        self._begun = []
        if not self.run.optimizers:
            self.close(None)
            self.begin()

    def _held(self) -> list[tuple[int, list[Any]]]:
        """The parameters of each optimizer; without one, the leaves of the backward pass."""
        if not self.run.optimizers:
            return [(0, self._leaves)]
        return [(id(known.optimizer), known.parameters) for known in self.run.optimizers]

    def before_step(self, optimizer: Any, closure: bool) -> None:
        """An optimizer is about to step; with a closure, backward runs inside."""
        self._closure = closure
        if not closure:
            self.close(optimizer)

    def after_step(self, optimizer: Any) -> None:
        """It has stepped."""
        if self._closure:
            self.close(optimizer)
        self.begin()

    def close(self, optimizer: Any) -> None:
        """A step is complete but for its update: examine it if it was recorded."""
        key = 0 if optimizer is None else id(optimizer)
        step = ObservedStep(len(self.run.steps), self.run, optimizer)
        step.passes, step.closure = self._since.pop(key, []), self._closure
        step.line = self.line()
        step.trace, step.calls = self.end_recording(), self._calls
        self._calls = []
        if optimizer is not None:
            step.rates = [float(g["lr"]) for g in optimizer.param_groups if "lr" in g]
        held = dict(self._held()).get(key, [])
        step.gradient_norm = self.norm(held)
        if optimizer is not None and any(g.get("weight_decay") for g in optimizer.param_groups):
            step.parameter_norm = self.size(held)
        self.run.trained.update(id(p) for p in held if p.grad is not None)
        if optimizer is None:
            size = self.size(held)
            step.moved, self._size = self._size not in (None, size), size
        self.run.steps.append(step)
        if step.number not in RECORDED and is_finite(step):
            step.trace, step.calls = None, []
        if step.trace is not None:
            self._busy = True
            try:
                with self.aside():
                    self._examine(step)
            finally:
                self._busy = False
        self._told(step)
        self._limit()

    def _limit(self) -> None:
        if len(self.run.steps) >= self._most_steps:
            self.run.stopped = f"after {len(self.run.steps)} steps"
        elif time.monotonic() > self._deadline:
            self.run.stopped = f"after {len(self.run.steps)} steps, because the time was over"
        if self.run.stopped:
            raise Enough


def is_finite(step: ObservedStep) -> bool:
    """Whether the loss and the gradients of a step are finite."""
    return all(map(math.isfinite, (*step.losses, step.gradient_norm or 0.0)))


def last_line(error: BaseException) -> SourceLine | None:
    """The innermost line of the program in a traceback."""
    found = None
    traced = error.__traceback__
    while traced is not None:
        code = traced.tb_frame.f_code
        if not own_files[code.co_filename] and _is_users(code.co_filename):
            found = source_line(code, traced.tb_lasti)
        traced = traced.tb_next
    return found


def _is_users(filename: str) -> bool:
    library = sysconfig.get_paths()["stdlib"]
    return not filename.startswith((library, "<frozen")) and "site-packages" not in filename
