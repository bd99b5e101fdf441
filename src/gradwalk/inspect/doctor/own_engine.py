"""Observe the training loop of a gradwalk program."""

from __future__ import annotations

import functools
import math
from contextlib import AbstractContextManager, ExitStack
from typing import Any, Self
from unittest import mock

import numpy as np

from gradwalk.engine import gradients
from gradwalk.engine.modes import state
from gradwalk.graph.order import inputs_first
from gradwalk.graph.source import SourceLine, caller, source_line
from gradwalk.inspect.doctor.observer import Observer
from gradwalk.inspect.trace.array_statistics import norm_of
from gradwalk.inspect.trace.live import gradient_of, numbers_of
from gradwalk.inspect.trace.recorder import current, last_finished, record
from gradwalk.inspect.trace.trace import Trace
from gradwalk.nn import utils as nn_utils
from gradwalk.nn.module import Module
from gradwalk.optim.optimizer import Optimizer
from gradwalk.optim.schedule_base import LRScheduler

BUDGET = 64 << 20  # bytes of arrays to keep of a recorded step


class OwnObserver(Observer):
    """Told of everything that a training loop of gradwalk does, while it is entered."""

    def __init__(self, *given: Any, **limits: Any) -> None:
        super().__init__("gradwalk", *given, **limits)
        self._hooks = ExitStack()
        self._passes = 0  # in progress
        self._last: Trace | None = None  # the last recording when the step began

    def __enter__(self) -> Self:
        self._patch(gradients, "backward", self._backward)
        self._patch(Module, "__call__", self._call)
        self._patch(Module, "__setattr__", self._sets)
        self._patch(Module, "eval", self._eval)
        self._patch(Optimizer, "__init__", self._new_optimizer)
        self._patch(LRScheduler, "step", self._schedule)
        for name in ("clip_grad_norm_", "clip_grad_value_"):
            self._patch(nn_utils, name, self._clip)
        self.begin()
        return self

    def __exit__(self, *error: Any) -> None:
        self.end_recording()
        self._hooks.close()

    def _patch(self, owner: Any, name: str, ours: Any) -> None:
        original = getattr(owner, name)

        @functools.wraps(original)
        def patched(*args: Any, **kwargs: Any) -> Any:
            if self._busy or state.here.tracer is not None:
                return original(*args, **kwargs)
            return ours(original, *args, **kwargs)

        self._hooks.enter_context(mock.patch.object(owner, name, patched))

    # -- what the base class asks ------------------------------------------------------------------

    def recorder(self) -> AbstractContextManager[Trace]:
        """A recorder of one step."""
        recorder: AbstractContextManager[Trace] = record(budget=BUDGET)
        return recorder

    def begin(self) -> None:
        """Begin a step; while the program records one itself, only that recording goes on."""
        if state.here.watcher is None:
            super().begin()
        self._last = last_finished()

    def end_recording(self) -> Trace | None:
        """The trace of a step; the program's own, if it recorded the step itself."""
        theirs = current() if state.here.watcher is not self._recording else last_finished()
        before = self._last
        trace = super().end_recording()
        if trace is not None or theirs is None or theirs is before or not theirs.sweeps:
            return trace
        return theirs

    def norm(self, parameters: list[Any]) -> float | None:
        """The norm of the gradients of these parameters; None if they have none."""
        arrays = [g for p in parameters if (g := gradient_of(p)) is not None]
        return math.hypot(*(norm_of(g) for g in arrays)) if arrays else None

    def size(self, parameters: list[Any]) -> float:
        """The norm of these parameters."""
        return math.hypot(*(norm_of(numbers_of(p)) for p in parameters))

    def line(self) -> SourceLine | None:
        """The program's line that led here."""
        return source_line(*caller())

    def records(self, number: int) -> bool:
        """Every step: a NaN can be explained only by the recording of its step."""
        return True

    # -- what the engine does ----------------------------------------------------------------------

    def _backward(self, original: Any, tensors: Any, *args: Any, **kwargs: Any) -> None:
        if self._passes or self._inside is not None:
            original(tensors, *args, **kwargs)
            return
        roots = [tensors] if hasattr(tensors, "_node") else list(tensors)
        nodes = () if self.run.optimizers else inputs_first(t.grad_fn or t for t in roots)
        self.begin_backward([node for node in nodes if hasattr(node, "_grad")])
        line = self.line()
        self._passes += 1
        try:
            original(tensors, *args, **kwargs)
        finally:
            self._passes -= 1
        numbers = numbers_of(roots[0])
        single = len(roots) == 1 and np.size(numbers) == 1
        self.end_backward(float(np.reshape(numbers, ())) if single else None, line)

    def _call(self, original: Any, module: Any, *args: Any, **kwargs: Any) -> Any:
        if not state.here.grad_enabled:
            return original(module, *args, **kwargs)
        with self.call(module, args, kwargs) as gave:
            output = original(module, *args, **kwargs)
            gave(output)
            return output

    def _sets(self, original: Any, module: Any, name: str, value: Any) -> None:
        known = module.__dict__.get("_modules", {}).get(name)
        original(module, name, value)
        if isinstance(value, Module) and known is not None and known is not value:
            self.replaced_module(name)

    def _eval(self, original: Any, module: Any) -> Any:
        self.left_training()
        return original(module)

    def _new_optimizer(self, original: Any, optimizer: Any, *args: Any, **kwargs: Any) -> None:
        original(optimizer, *args, **kwargs)
        self.hook(optimizer)

    def _clip(self, original: Any, *args: Any, **kwargs: Any) -> Any:
        self.clipped()
        return original(*args, **kwargs)

    def _schedule(self, original: Any, *args: Any, **kwargs: Any) -> Any:
        self.scheduled()
        return original(*args, **kwargs)

    def hook(self, optimizer: Any) -> None:
        """Be told of the steps of an optimizer."""
        self.made_optimizer(optimizer)
        enter = self._hooks.enter_context
        enter(optimizer.register_step_pre_hook(self._before_step))
        enter(optimizer.register_step_post_hook(self._after_step))

    def _before_step(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        if not self._busy and state.here.tracer is None:
            closure = kwargs.get("closure", args[1] if len(args) > 1 else None)
            self.before_step(optimizer, callable(closure))

    def _after_step(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        if not self._busy and state.here.tracer is None:
            self.after_step(optimizer)
