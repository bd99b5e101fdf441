"""Watch: stop training before the first harmful step, and explain it.

A healthy step costs one norm of the gradient and a snapshot of what the call of the model depends
on. Only when something is wrong does Watch run the step again, recorded (rerun/rerun.py), and read
the trace (step_report.py).
"""

from __future__ import annotations

import os
import sys
import threading
import warnings
import weakref
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any, Self

import torch
from torch.optim.optimizer import register_optimizer_step_pre_hook

from gradwalk.inspect.trace.trace import Trace
from gradwalk.torch import private
from gradwalk.torch.investigate.failed_backward import explain_again
from gradwalk.torch.investigate.investigate import investigate
from gradwalk.torch.private_compiled import tell_of, told_of_calls
from gradwalk.torch.private_foreach import TotalNorm
from gradwalk.torch.ranks.agreement import Agreement
from gradwalk.torch.ranks.alone import alone
from gradwalk.torch.ranks.stopped_rank import StoppedRank
from gradwalk.torch.ranks.unused import marks_of, unused_parameters
from gradwalk.torch.record.freed_graphs import note_pass
from gradwalk.torch.record.module_calls import ModelNames
from gradwalk.torch.rerun.backward_audit import BackwardAudit
from gradwalk.torch.rerun.call_sites import Sites
from gradwalk.torch.rerun.call_stack import frames_from
from gradwalk.torch.rerun.python_state import Keeper
from gradwalk.torch.rerun.rerun import Rerun, Run, bound_memory
from gradwalk.torch.rerun.snapshots import ModelCall, WatchedModel, given_to, outputs_in
from gradwalk.torch.user_lines import USER, files
from gradwalk.torch.watch.active_watches import active, aside, is_aside
from gradwalk.torch.watch.check_step import Checked, StepFault
from gradwalk.torch.watch.gradient_checks import gradients_of, is_skipped, norm_of, unrecorded
from gradwalk.torch.watch.late_look import LateLook, LateLooks
from gradwalk.torch.watch.learning import Learning
from gradwalk.torch.watch.loop_notes import after_backward, before_backward, not_held
from gradwalk.torch.watch.recorded_steps import StepRecordings
from gradwalk.torch.watch.scaled_steps import ScaledSteps, told_of_scaled_steps
from gradwalk.torch.watch.step_report import StepReport, StepStopped, StepWarning
from gradwalk.torch.watch.watched_things import keep, several, with_a_look

ACTIONS = ("raise", "warn")
BUDGET = 256 << 20  # bytes of arrays to keep of a step that is run again
_OUTPUTS = 8  # outputs of a model whose gradients are kept


class Watch:
    """Stop before the first `optimizer.step()` whose gradients are NaN, inf or have exploded, or
    whose update would move a layer much further than usual.

    `watch` then runs the step again, recorded, and raises `StepStopped`, which names the op that
    made the NaN, its line and module, and the row of the batch. It saves the trace in `folder` for
    the studio. With `action="warn"` it warns instead, and training goes on. Pass several models
    and optimizers (of a GAN) as lists; None stands for all that the program uses.

    A gradient has exploded if its norm is `explosion` times the usual norm of this training and
    above `floor` (default: the norm of all parameters). During the first `warmup` steps the square
    of the factor applies. `explosion=math.inf` checks for NaN and inf only.

    On a GPU it looks one step late, so that the program never waits for the device: a harmful step
    is undone (parameters, optimizer, buffers, random states) before `StepStopped` is raised. The
    copies that this takes are as large as the parameters and the optimizer's state; if the GPU has
    no room for them, or with `late=False`, watch waits for the device in every step instead.

    `record_from` records every step from that one on, for faults that no re-run shows.
    As a context manager it stops watching at the end. `steps` counts the steps let through;
    `overhead` is the seconds per step that watching took, `reports` holds the findings, `jumps` the
    steps where one row made the loss jump, but not above what it was at the start.

    >>> import torch, gradwalk.torch
    >>> model = torch.nn.Linear(2, 1)
    >>> optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    >>> with gradwalk.torch.watch(model, optimizer) as watched:
    ...     for _ in range(3):
    ...         optimizer.zero_grad()
    ...         model(torch.ones(4, 2)).square().mean().backward()
    ...         optimizer.step()
    >>> watched.steps
    3
    """

    def __init__(
        self,
        model: torch.nn.Module | Sequence[torch.nn.Module] | None,
        optimizer: torch.optim.Optimizer | Sequence[torch.optim.Optimizer] | None,
        *,
        explosion: float = 1e3,
        warmup: int = 10,
        floor: float | None = None,
        folder: str | os.PathLike[str] = ".",
        action: str = "raise",
        budget: int = BUDGET,
        record_from: int | None = None,
        late: bool | None = None,
    ) -> None:
        if action not in ACTIONS:
            raise ValueError(f"action is one of {', '.join(map(repr, ACTIONS))}, not {action!r}")
        if not explosion > 1:
            raise ValueError(f"explosion is a factor above 1, not {explosion!r}")
        models = several(model, torch.nn.Module)
        optimizers = several(optimizer, torch.optim.Optimizer)
        self._agreement = Agreement()
        self._limits = explosion, warmup, floor, self._agreement
        self.folder, self.action, self.budget = Path(folder), action, budget
        self.steps = 0
        self.reports: list[StepReport] = []
        self.jumps: list[StepReport] = []  # of the loss, by a row, that stopped nothing
        self.models: dict[int, WatchedModel] = {}
        self.optimizers: dict[int, Checked] = {}
        given = None if model is None else {id(m) for top in models for m in top.modules()}
        self._sites, self._names, self._keeper = Sites(), ModelNames(), Keeper()
        self._runs: list[Run] = []  # backward passes since the last step
        self._stepped = False  # whether an optimizer has stepped since; another may follow
        self._reached: list[ModelCall] = []  # calls that the current backward pass has reached
        self._outermost: torch.nn.Module | None = None  # the model that is running
        self._call: ModelCall | None = None  # its current call
        self._last: list[ModelCall] = []  # completed since the last backward pass, a few
        self._passes = 0  # backward passes in progress
        self._scaled = ScaledSteps()
        self._meets_all = optimizer is None
        self._warned = False  # and no step has been healthy since
        self._thread: int | None = None  # the thread of the first call
        self._seconds = 0.0
        self._hooks = ExitStack()
        self._learning = Learning(self._meet, self.models, given)
        self._recordings = StepRecordings(record_from, budget)
        self._unused: list[torch.Tensor] = []  # parameters that DDP waits for
        # A recording is of one step: it must be judged before the next one begins.
        self._late = LateLooks(late if record_from is None else False, self.optimizers)
        self._begun = 0  # backward passes
        self._total = TotalNorm()  # of gradients that several passes add up
        self.backwards = BackwardAudit(self.recorded_again, StepWarning)  # of custom Functions
        self._hooks.enter_context(private.told_of_backward(self._around_backward))
        self._hooks.enter_context(told_of_calls(self._before_call, self._after_call))
        self._hooks.enter_context(told_of_scaled_steps(self.optimizers, self._after_scaled_step))
        for module in models:
            self._watch_module(module)
        if optimizer is None:
            self._hooks.enter_context(register_optimizer_step_pre_hook(self._watch_optimizer))
        for known in optimizers:
            self._checked(known)
            self._watch_optimizer(known)
        if model is None:
            self._learning.begin()
        active.add(self)
        self._recordings.begin(0)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: Any, *error: Any) -> None:
        self.remove()
        if kind is None:
            self.check_parameters()
        elif issubclass(kind, Exception) and kind is not StepStopped:
            self._look_back(at_the_end=True)  # a step that is not judged may have caused the error

    def remove(self) -> None:
        """Stop watching: remove all hooks. The reports stay."""
        self._learning.end()
        self._recordings.end()
        self._hooks.close()
        self._forget()
        active.discard(self)

    @property
    def overhead(self) -> float:
        """The seconds per step that watching took, waiting for a GPU included."""
        return self._seconds / max(self.steps, 1)

    @property
    def _quiet(self) -> bool:
        thread = threading.get_ident()
        if self._thread is None:
            self._thread = thread
        return thread != self._thread or is_aside()

    # -- calls of models ---------------------------------------------------------------------------

    def _watch_module(self, module: torch.nn.Module) -> None:
        keep(self.models, module, WatchedModel(module))
        if not tell_of(module):  # compiled in place, its hooks would be inside the compiled code
            hook = self._hooks.enter_context
            hook(module.register_forward_pre_hook(self._before_call, with_kwargs=True))
            hook(module.register_forward_hook(self._after_call, always_call=True))

    def _meet(self, module: torch.nn.Module, args: Any) -> None:
        """Watch a module that the program calls, from this call on."""
        if self._outermost is None and not self._quiet:
            self._watch_module(module)
            self._before_call(module, args, {})  # this call has its hooks already

    def _before_call(
        self, module: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> None:
        if torch.compiler.is_compiling() or self._outermost is not None:
            return
        if not torch.is_grad_enabled() or self._quiet or self._passes:  # or a checkpoint recomputes
            return
        self._look_back()
        began = perf_counter()
        self._outermost = module
        model = self.models.get(id(module))
        if model is None or model.was_moved:
            model = keep(self.models, module, WatchedModel(module))
        frames = frames_from(sys._getframe(1), self._sites.wanted())
        state = self._keeper.now(
            [known.module for known in self.models.values()],
            [snapshot.globals for snapshot in frames if files[snapshot.code.co_filename] == USER],
            given_to(frames, args, kwargs),
        )
        late = self._late.is_meant_for(model)
        self._call = ModelCall(model, args, kwargs, frames, state, copies=late)
        self._late.calls(self._call)
        self._names.note(module, (frames[0].variables or {}) if frames else {})
        self._seconds += perf_counter() - began

    def _after_call(self, module: torch.nn.Module, args: Any, output: Any) -> None:
        if module is not self._outermost:
            return
        began = perf_counter()
        call, self._call, self._outermost = self._call, None, None
        if call is not None:
            self._last = [*self._last[-3:], call]
            outputs = outputs_in(output)
            call.outputs = [weakref.ref(tensor) for tensor in outputs]
            for position, tensor in enumerate(outputs):
                if tensor.requires_grad and position < _OUTPUTS:
                    private.listen(tensor, partial(self._received, call.box, position))
        self._seconds += perf_counter() - began

    def _received(self, box: list[ModelCall], position: int, gradient: torch.Tensor) -> None:
        """Note the gradient of a model's output."""
        if is_aside() or not self._passes or not box:
            return
        call = box[0]
        if call not in self._reached:
            self._reached.append(call)
        if self._sites.is_worth_keeping(gradient, call):
            call.output_gradients[position] = gradient.detach()

    # -- a backward pass ---------------------------------------------------------------------------

    @contextmanager
    def _around_backward(self, asked: private.BackwardCall) -> Iterator[None]:
        if not asked.accumulates or self._passes or self._quiet:
            yield
            return
        self._look_back()
        began = perf_counter()
        self._begun += 1
        frames, is_usual = self._sites.frames_of_backward(sys._getframe(1), self._last)
        before_backward(self.optimizers.values())
        before, marks = self._norm_before(), marks_of(self.models.values())
        self._passes, self._reached = 1, []
        self._seconds += perf_counter() - began
        try:
            yield
        except RuntimeError as error:
            where = frames_from(sys._getframe(1))
            explain_again(error, asked.outputs, where, self._last, self._rerun)
            raise
        finally:
            self._passes = 0
        began = perf_counter()
        note_pass(asked.outputs, frames[0].line if frames else lambda: None)
        roots = [t.detach() for t in asked.outputs if isinstance(t, torch.Tensor)]
        loss = roots[0] if len(roots) == 1 and roots[0].numel() == 1 else None
        calls = sorted(self._reached, key=lambda call: call.number)
        if is_usual and calls != self._last:  # it went through an older call
            frames, is_usual = frames_from(sys._getframe(1)), False
        run = Run(calls, frames, loss, before)
        after_backward(self.optimizers.values(), frames[0].key if frames else None)
        self._reached, self._last = [], []
        modules = (call.model.module for call in calls)
        self._unused = [] if marks is None else unused_parameters(modules, marks)
        self._runs.append(run)
        if not is_usual:
            self._sites.note(run)
        if len(self._runs) > 1:
            bound_memory(self._runs)
        self._seconds += perf_counter() - began
        self.backwards.after_backward(asked.outputs)

    def _norm_before(self) -> torch.Tensor | float | None:
        """The norm of the gradients before a backward pass that may add to them."""
        if self._stepped:
            self._forget()
        if not self._runs:
            return None
        gradients = [g for o in self.optimizers.values() for g in gradients_of(o.optimizer)]
        if not gradients:  # set to None since: the program skipped the step
            self._skipped(self._runs)
            self._forget()
            return None
        return norm_of(gradients, self._total)

    def _skipped(self, runs: list[Run], checked: Checked | None = None, scaler: Any = None) -> None:
        """Count a skipped step. A GradScaler has handled it, if a smaller scale helps."""
        checked = checked or next(iter(self.optimizers.values()), None)
        fault = None if checked is None else self._scaled.skipped(runs, checked.optimizer, scaler)
        if checked is not None and fault is not None:
            self._report(checked, fault)

    def _after_scaled_step(
        self, scaler: Any, optimizer: torch.optim.Optimizer, stepped: bool
    ) -> None:
        if self._quiet or not (self._meets_all or id(optimizer) in self.optimizers):
            return
        self._scaled.made(scaler)
        if not stepped:
            self._watch_optimizer(optimizer)
            self._skipped(self._runs, self._checked(optimizer), scaler)
            self._forget()

    def _forget(self) -> None:
        """Forget the backward passes of the last step."""
        gone, self._runs = self._runs, []
        self._release(gone)
        self._stepped = False

    def _release(self, runs: list[Run]) -> None:
        """Release the batches of backward passes, unless a step that used them is not judged."""
        needed = [*self._runs, *(run for look in self._late for run in look.runs)]
        for run in runs:
            if run not in needed:
                run.release()

    # -- a step ------------------------------------------------------------------------------------

    def _before_step(
        self, optimizer: torch.optim.Optimizer, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        if self._quiet:
            return None
        checked = self._checked(optimizer)
        watched = with_a_look(args, kwargs, partial(self._after_closure, checked))
        if watched is not None:
            self._passed(checked)
            return watched
        self._look_back(at_a_step=True)
        began = perf_counter()
        at_once = checked.is_suspicious or self._unused
        is_late = not at_once and self._late.begin(checked, self._runs, self._begun)
        if not is_late and is_skipped(optimizer):
            self._skipped(self._runs)
            self._forget()
            return None
        fault = None if is_late else checked.check(self._runs, waits_for=self._unused)
        self._seconds += perf_counter() - began
        if fault is not None:
            self._report(checked, fault)
        self._passed(checked)
        if fault is None and not is_late:
            self._was_healthy()
        self._learning.adjust(checked, self._runs)
        self._recordings.end()  # the recording ends before the update
        return None

    def _watch_optimizer(self, optimizer: torch.optim.Optimizer, *_: Any) -> None:
        """Hook one optimizer. Global hooks will not do: a step iterates over them, and a recording
        that begins or ends would change them meanwhile."""
        if self._before_step not in optimizer._optimizer_step_pre_hooks.values():
            self._hooks.enter_context(optimizer.register_step_pre_hook(self._before_step))
            if self._recordings.first is not None:
                self._hooks.enter_context(optimizer.register_step_post_hook(self._after_step))

    def _after_step(self, *_: Any) -> None:
        if not self._quiet:
            self._recordings.begin(self.steps)

    def _checked(self, optimizer: torch.optim.Optimizer) -> Checked:
        known = self.optimizers.get(id(optimizer))
        return known or keep(self.optimizers, optimizer, Checked(optimizer, *self._limits))

    def _after_closure(self, checked: Checked, is_first: bool) -> None:
        # A line search tries distant points: judge explosions by the first gradient only.
        fault = None if self._quiet else checked.check(self._runs, explodes=is_first)
        if fault is not None:
            self._report(checked, fault, step=checked.steps - 1)
        self._learning.adjust(checked, self._runs)
        self._forget()

    def _was_healthy(self) -> None:
        self._warned = False
        self._scaled.lost = 0

    def _passed(self, checked: Checked) -> None:
        """Count a step."""
        checked.loop.before_step(checked.steps)
        checked.steps += 1
        self.steps = max(self.steps, checked.steps)
        self._stepped = True

    # -- a step that was made before it is judged --------------------------------------------------

    def _look_back(self, at_a_step: bool = False, at_the_end: bool = False) -> None:
        """Judge earlier steps whose numbers have arrived; undo and report a harmful one."""
        if not self._late.pending:
            return
        began = perf_counter()
        for look in self._late.due(self._begun, at_a_step, at_the_end):
            healthy = look.read()
            self._seconds += perf_counter() - began
            if look.is_skipped:
                self._skipped(look.runs)
            elif healthy:
                self._was_healthy()
            elif not self._warned:
                self._undo(look)
            self._release(look.runs)
            began = perf_counter()
        self._seconds += perf_counter() - began

    def _undo(self, look: LateLook) -> None:
        """Undo a harmful step, for good if that stops the program, and report it."""
        for_good = self.action == "raise"
        with aside(), unrecorded(), self._late.undone(look, for_good):
            fault = look.fault()
            if for_good:
                look.checked.steps = look.step
                self.steps = max(known.steps for known in self.optimizers.values())
            if fault is not None:
                self._report(look.checked, fault, look.step, late=True)

    # -- a finding ---------------------------------------------------------------------------------

    def _report(
        self, checked: Checked, fault: StepFault, step: int | None = None, late: bool = False
    ) -> None:
        if self._warned:  # reported already, and no step has been healthy since
            return
        names = self._names.of_parameters(models := [m.module for m in self.models.values()])
        report = checked.report(fault, names, checked.steps if step is None else step)
        report.notes += not_held(names, models, self.optimizers.values())
        me, live = self._agreement.number, self._recordings.end()
        investigate(report, fault, checked, names, live, self._rerun, models, me)
        if report.is_quiet or self.action == "warn":
            checked.let_through(fault)
        if not late:
            self._forget()
        if not report.is_quiet:
            self._tell(report)
        elif report.row is not None:
            self.jumps.append(report)

    @contextmanager
    def _rerun(self, gathers: bool = False) -> Iterator[Rerun]:
        """Run a step again, apart from the program and on this rank alone.

        `gathers`: all ranks do so, and gather the weights that they share first.
        """
        optimizers = [known.optimizer for known in self.optimizers.values()]
        models = [known.module for known in self.models.values()]
        with aside(), unrecorded(), alone(models, gathers) as answers:
            known = self.models.values()
            yield Rerun(known, optimizers, self._keeper, self.budget, answers)

    def recorded_again(self, loss: torch.Tensor) -> Trace | None:
        """Run the last step with this loss again and return its trace; None if there is none."""
        run = next((run for run in reversed(self._runs) if run.began_at(loss)), None)
        if run is None or is_aside():
            return None
        if run.recorded is None:
            with self._rerun() as again:
                run.recorded = again.recorded(run)
        return run.recorded

    def _tell(self, report: StepReport) -> None:
        report.save_of_rank(self.folder)
        self.reports.append(report)
        if self.action == "raise":
            raise StepStopped(report)
        self._warned = True
        warnings.warn(f"gradwalk: {report}", StepWarning, stacklevel=4)

    def check_parameters(self) -> None:
        """After the last step: judge it, and report parameters that its update left non-finite."""
        self._look_back(at_the_end=True)
        names = self._names.of_parameters([model.module for model in self.models.values()])
        for checked in self.optimizers.values():
            report = checked.left_behind(names)
            if report is not None and not self.reports:
                StoppedRank.at_the_end(report, self._agreement.number)
                self._tell(report)
