"""Observe the training loop of a PyTorch program, for the doctor."""

from __future__ import annotations

import functools
import sys
import tempfile
import warnings
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Any, Self
from unittest import mock

import torch
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook
from torch.optim.lr_scheduler import LRScheduler
from torch.optim.optimizer import register_optimizer_step_pre_hook

from gradwalk.graph.source import SourceLine, own_files
from gradwalk.inspect.doctor.examination import Examination
from gradwalk.inspect.doctor.observer import Observer
from gradwalk.inspect.doctor.tools import nan_finding
from gradwalk.inspect.health.findings import Finding
from gradwalk.inspect.trace.trace import Trace
from gradwalk.torch import private
from gradwalk.torch.record.autograd_graph import inputs_first, is_leaf
from gradwalk.torch.record.backward_errors import explain
from gradwalk.torch.record.freed_graphs import note_pass
from gradwalk.torch.record.module_calls import uncompiled
from gradwalk.torch.record.recorder import TorchRecorder
from gradwalk.torch.user_lines import caller, line_at
from gradwalk.torch.watch.active_watches import aside, is_aside
from gradwalk.torch.watch.gradient_checks import exact_norm, unrecorded
from gradwalk.torch.watch.step_report import StepReport, StepStopped, StepWarning
from gradwalk.torch.watch.watch import Watch

NOTE = "gradwalk: "  # begins what is added to an error of PyTorch
BUDGET = 64 << 20  # bytes of arrays to keep of a recorded step


class TorchObserver(Observer):
    """Hooks on everything that a training loop of PyTorch does; `remove` takes them off."""

    def __init__(self, *given: Any, **limits: Any) -> None:
        super().__init__("PyTorch", *given, **limits)
        self.recorders: list[TorchRecorder] = []  # their traces know lines of earlier steps
        self._hooks = ExitStack()
        self._running: list[tuple[Any, AbstractContextManager[Any], Any]] = []

    def __enter__(self) -> Self:
        enter = self._hooks.enter_context
        enter(warnings.catch_warnings())
        warnings.simplefilter("ignore", StepWarning)  # a wrong backward becomes a finding
        enter(private.told_of_backward(self._around_backward))
        enter(torch.compiler.set_stance("force_eager"))  # compiled code cannot be looked into
        enter(register_module_forward_pre_hook(self._before_call))
        enter(register_module_forward_hook(self._after_call, always_call=True))
        enter(register_optimizer_step_pre_hook(self._meet))
        self._patch(torch.optim.Optimizer, "__init__", after=self._new_optimizer)
        self._patch(torch.nn.Module, "__setattr__", before=self._sets)
        self._patch(torch.nn.Module, "eval", before=lambda *_: self.left_training())
        self._patch(LRScheduler, "step", before=lambda *_: self.scheduled())
        for name in ("clip_grad_norm_", "clip_grad_value_"):
            self._patch(torch.nn.utils, name, before=lambda *_: self.clipped())
        self._folder = enter(tempfile.TemporaryDirectory())
        self._watch = Watch(None, None, folder=self._folder)
        self._hooks.callback(self._watch.remove)
        self.begin()
        return self

    def __exit__(self, *error: Any) -> None:
        self.end_recording()
        self._hooks.close()

    def _patch(self, owner: Any, name: str, before: Any = None, after: Any = None) -> None:
        original = getattr(owner, name)

        @functools.wraps(original)
        def patched(*args: Any, **kwargs: Any) -> Any:
            if before is not None and not self._quiet:
                before(*args)
            result = original(*args, **kwargs)
            if after is not None and not self._quiet:
                after(*args)
            return result

        self._hooks.enter_context(mock.patch.object(owner, name, patched))

    @property
    def _quiet(self) -> bool:
        return self._busy or is_aside()

    def finish(self, error: BaseException | None, examination: Examination) -> None:
        """The program has ended, perhaps after it caught what stopped a step."""
        if not isinstance(error, StepStopped) and self._watch.reports:
            self.run.harmed = True
            examination.add(of_report(self._watch.reports[0]))
        super().finish(error, examination)

    def explained(self, error: BaseException) -> Finding:
        """What an error says; of a stopped step, what made it harmful."""
        if isinstance(error, StepStopped):
            self.run.harmed = True
            return of_report(error.report)
        finding = super().explained(error)
        note = next((n for n in getattr(error, "__notes__", ()) if n.startswith(NOTE)), "")
        if note:
            message, _, fix = note.removeprefix(NOTE).partition(" Fix: ")
            finding.message = f"{type(error).__name__}: {message}".removesuffix(".")
            finding.change = fix.removesuffix(".")
            finding.basis = "PyTorch raised it; the tensors were found in the autograd graph"
        return finding

    # -- what the base class asks ------------------------------------------------------------------

    def recorder(self) -> AbstractContextManager[Trace]:
        """A recorder of one step."""
        self.recorders.append(TorchRecorder(budget=BUDGET))
        return self.recorders[-1]

    def norm(self, parameters: list[Any]) -> float | None:
        """The norm of the gradients of these parameters; None if they have none."""
        gradients = [p.grad for p in parameters if p.grad is not None]
        with unrecorded():
            return exact_norm(gradients) if gradients else None

    def size(self, parameters: list[Any]) -> float:
        """The norm of these parameters."""
        with unrecorded():
            return exact_norm(parameters)

    def line(self) -> SourceLine | None:
        """The program's line that led here."""
        line = line_at(*caller())
        return line if line is None or line.caller is None else line.caller

    @contextmanager
    def aside(self) -> Iterator[None]:
        """Hide what happens inside from a watch."""
        with aside():
            yield

    # -- what PyTorch tells ------------------------------------------------------------------------

    def _new_optimizer(self, optimizer: Any, *_: Any) -> None:
        frame: Any = sys._getframe(2)
        while frame is not None and frame.f_globals.get("__name__", "").startswith("torch."):
            frame = frame.f_back
        if frame is None or not own_files[frame.f_code.co_filename]:  # not a twin of a tool's
            self.made_optimizer(optimizer)

    def _sets(self, module: Any, name: str, value: Any) -> None:
        known = module.__dict__.get("_modules", {}).get(name)
        if isinstance(value, torch.nn.Module) and known is not None and known is not value:
            self.replaced_module(name)

    def _before_call(self, module: Any, args: tuple[Any, ...]) -> None:
        if torch.is_grad_enabled() and not self._quiet and not self._running:
            around = self.call(uncompiled(module), args, {})
            self._running.append((module, around, around.__enter__()))

    def _after_call(self, module: Any, args: Any, output: Any) -> None:
        if self._running and self._running[-1][0] is module:
            _, around, gave = self._running.pop()
            gave(output)
            around.__exit__(None, None, None)

    @contextmanager
    def _around_backward(self, asked: private.BackwardCall) -> Iterator[None]:
        if not asked.accumulates or self._quiet or self._running:
            yield
            return
        self.begin_backward([] if self.run.optimizers else leaves_of(asked.outputs))
        line = self.line()
        recording = self.recorders[-1] if self._recording is not None else None
        try:
            yield
        except RuntimeError as error:
            explain(error, asked.outputs, self._line_of, recording)
            raise
        note_pass(asked.outputs, lambda: line)
        roots = [t.detach() for t in asked.outputs if isinstance(t, torch.Tensor)]
        single = len(roots) == 1 and roots[0].numel() == 1
        with unrecorded():
            loss = float(roots[0]) if single else None
        self.end_backward(loss, line)

    def _line_of(self, grad_fn: Any) -> SourceLine | None:
        """The line of an operation that any recording saw."""
        lines = (recorder.graph.line_of(grad_fn) for recorder in reversed(self.recorders))
        return next((line for line in lines if line is not None), None)

    def _meet(self, optimizer: torch.optim.Optimizer, *_: Any) -> None:
        """Hook one optimizer, once; see `Watch._watch_optimizer`."""
        hooked = self._before_step in optimizer._optimizer_step_pre_hooks.values()
        if not hooked and not self._quiet:
            self.hook(optimizer)

    def hook(self, optimizer: Any) -> None:
        """Be told of the steps of an optimizer."""
        self.made_optimizer(optimizer)
        self._hooks.enter_context(optimizer.register_step_pre_hook(self._before_step))
        self._hooks.enter_context(optimizer.register_step_post_hook(self._after_step))

    def _before_step(self, optimizer: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if not self._quiet:
            closure = kwargs.get("closure", args[1] if len(args) > 1 else None)
            self.before_step(optimizer, callable(closure))

    def _after_step(self, optimizer: Any, *_: Any) -> None:
        if not self._quiet:
            self.after_step(optimizer)


def leaves_of(outputs: Sequence[Any]) -> list[torch.Tensor]:
    """The leaves that a backward pass adds to."""
    roots = [t.grad_fn for t in outputs if getattr(t, "grad_fn", None) is not None]
    return [fn.variable for fn in inputs_first(roots) if is_leaf(fn)]


def of_report(report: StepReport) -> Finding:
    """The report of a stopped step as a finding."""
    where = f"at step {report.step}"
    rerun = f"{where}; {report.rerun_told}" if report.rerun_told else where
    if report.found:
        return nan_finding(report.found, rerun)
    known = report.finding
    return Finding(
        report.kind,
        report.module or (known.layer if known else ""),
        report.gradient_norm or 0.0,
        f"{report.seen}" + (f"; {known.message}" if known else ""),
        report.fix.removesuffix("."),
        report.line,
        known.cause if known else None,
        known.factors if known else [],
        confidence="likely" if report.kind in ("explosion", "spike") else "certain",
        basis=rerun,
    )
