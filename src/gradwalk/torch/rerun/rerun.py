"""Run a failed step again, recorded: the program's own statements, or else the model alone.

A re-run leaves no mark: it restores gradients, buffers, random states and the Python state of the
program (python_state.py), optimizers do not step, and nothing is printed. Only effects outside the
process, such as a written file, cannot be undone.
"""

from __future__ import annotations

import contextlib
import io
import textwrap
import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest import mock

import torch
from torch.optim.optimizer import register_optimizer_step_pre_hook

from gradwalk.inspect.trace.trace import Trace
from gradwalk.torch import private
from gradwalk.torch.ranks.alone import Answers, refuse_if_divided
from gradwalk.torch.record.autograd_graph import inputs_first, is_leaf
from gradwalk.torch.record.recorder import TorchRecorder
from gradwalk.torch.rerun.call_stack import FrameSnapshot
from gradwalk.torch.rerun.python_state import Keeper
from gradwalk.torch.rerun.rng_states import Randomness
from gradwalk.torch.rerun.snapshots import ModelCall, WatchedModel, outputs_in
from gradwalk.torch.rerun.statements import (
    LeftTheBlock,
    NotRepeatable,
    Statements,
    statements_between,
)
from gradwalk.torch.watch.gradient_checks import all_finite, parameters_of

MOST_KEPT = 256 << 20  # bytes of batches to keep while gradients accumulate
MOST_RUNS = 256  # backward passes to keep for one step


@dataclass(eq=False)
class Run:
    """One backward pass of the program, and the model calls that it reached."""

    calls: list[ModelCall]
    frames: list[FrameSnapshot]  # of the call of backward, innermost first
    loss: torch.Tensor | None  # its root, if that is a single number
    before: torch.Tensor | float | None  # norm of the gradients before it; None if there were none
    recorded: Trace | None = None  # filled on demand

    @property
    def batch(self) -> list[tuple[int, ...]]:
        """The shapes of the tensors that the first model was called with."""
        return [tuple(tensor.shape) for call in self.calls[:1] for tensor in call.tensors]

    def began_at(self, loss: torch.Tensor) -> bool:
        """Whether this is the backward pass of `loss`."""
        return self.loss is not None and self.loss.data_ptr() == loss.data_ptr()

    def release(self) -> None:
        """Release the batch, although the program may keep the loss."""
        for call in self.calls:
            call.box.clear()


def bound_memory(runs: list[Run]) -> None:
    """Bound the memory of kept batches while gradients accumulate: drop the first passes."""
    kept = sum(call.bytes for run in runs for call in run.calls)
    while (kept > MOST_KEPT or len(runs) > MOST_RUNS) and len(runs) > 1:
        dropped = runs.pop(0)
        kept -= sum(call.bytes for call in dropped.calls)


@dataclass
class RerunOutcome:
    """The result of a re-run."""

    trace: Trace | None = None
    how: str = ""  # "statements" of the program, the "model" alone, or "" if nothing ran
    told: str = ""  # what was run
    notes: list[str] = field(default_factory=list)  # caveats


@dataclass
class RerunPlan:
    """The statements to run again, and their frame."""

    depth: int  # of the frame, counted outwards from the call of the model
    start: FrameSnapshot
    statements: Statements


def plan_of(run: Run) -> RerunPlan:
    """Plan the statements from the first model call to the end of backward, in one frame."""
    if not run.calls:
        raise NotRepeatable("no module was called before the loss")
    for depth, start in enumerate(run.calls[0].frames):
        for end in run.frames:
            # The innermost frame only: a statement further out does much more than this step.
            if start.is_same_frame(end):
                return RerunPlan(depth, start, statements_between(start, end))
    raise NotRepeatable("no function of the program calls both the model and backward")


class Rerun:
    """Run a step again."""

    def __init__(
        self,
        models: Iterable[WatchedModel],
        optimizers: Iterable[torch.optim.Optimizer],
        keeper: Keeper,
        budget: int,
        answers: Answers | None = None,
    ) -> None:
        self.models = list(models)
        self.optimizers = list(optimizers)
        self.keeper = keeper
        self.budget = budget
        self.answers = answers  # of collectives, if this is one of several ranks
        self.compilation_off = False
        self.losses: list[torch.Tensor] = []  # of the backward passes in the re-run
        self._gradients: dict[int, tuple[torch.Tensor, torch.Tensor | None]] = {}
        self._passes = 0  # backward passes in progress
        self._only_pushed = False  # whether every non-finite number was pushed into the model

    def __call__(self, run: Run, shows_fault: Callable[[list[torch.Tensor]], bool]) -> RerunOutcome:
        """Run the statements again; if they do not show the fault, the model alone.

        `shows_fault(losses)` checks the gradients for the fault.
        """
        outcome = RerunOutcome()
        with self._leaving_no_mark(run):
            for how, attempt in (("statements", self._statements), ("model", self._model)):
                recorder = TorchRecorder(budget=self.budget)
                made = self._try(attempt, run, recorder, outcome)
                if made is None:
                    continue
                told, notes = made
                was_run = outcome.trace is not None  # the statements ran without the fault
                if shows_fault(self.losses) and not (self._only_pushed and was_run):
                    outcome.trace, outcome.told, outcome.how = recorder.trace, told, how
                    outcome.notes += notes
                    break
                outcome.notes.append(f"{told}, and the fault did not occur again")
                outcome.told = outcome.told or told
                outcome.trace = outcome.trace or recorder.trace
        outcome.notes += [note for call in run.calls for note in call.changed_since()]
        return outcome

    def _try(
        self, attempt: Attempt, run: Run, recorder: TorchRecorder, outcome: RerunOutcome
    ) -> tuple[str, list[str]] | None:
        """Make one attempt and return its description; None, and a note, if it fails."""
        for tensor, _ in self._gradients.values():
            tensor.grad = None
        self.losses.clear()
        self._only_pushed = False
        what = "the model alone" if attempt == self._model else "the statements"
        try:
            refuse_if_divided(model.module for model in self.models)
            with contextlib.ExitStack() as stack:
                if self.compilation_off:
                    stack.enter_context(torch.compiler.set_stance("force_eager"))
                return attempt(run, recorder)
        except NotRepeatable as error:
            outcome.notes.append(f"{what} could not be run again: {error}")
        except LeftTheBlock:
            outcome.notes.append("the second time, the statements took a different branch")
        except Exception as error:  # the program's own code may raise anything
            short = textwrap.shorten(str(error), 120)
            outcome.notes.append(f"{what} failed the second time: {type(error).__name__}: {short}")
        return None

    def recorded(self, run: Run) -> Trace | None:
        """Record the statements of a healthy step again; None if the loss differs."""
        if run.loss is None:
            return None
        recorder = TorchRecorder(budget=self.budget)
        with self._leaving_no_mark(run):
            if self._try(self._statements, run, recorder, RerunOutcome()) is None:
                return None
        same = bool(self.losses) and _same_bits(self.losses[-1], run.loss)
        return recorder.trace if same else None

    def changed(
        self,
        run: Run,
        how: str,
        change: contextlib.AbstractContextManager[Any],
        look: Callable[[list[torch.Tensor]], None],
    ) -> Trace | None:
        """Run a step again under a change; `look(losses)` sees its gradients. None if it fails."""
        recorder = TorchRecorder(budget=self.budget)
        attempt = self._model if how == "model" else self._statements
        with self._leaving_no_mark(run), change:
            if self._try(attempt, run, recorder, RerunOutcome()) is None:
                return None
            look(self.losses)
        return recorder.trace

    def failed(self, run: Run) -> RuntimeError | None:
        """Run the statements of a step whose backward failed again, recorded; their error.

        A recording explains PyTorch's errors (record/backward_errors.py).
        """
        recorder = TorchRecorder(budget=self.budget)
        with self._leaving_no_mark(run):
            try:
                self._statements(run, recorder)
            except RuntimeError as error:
                return error
            except (Exception, LeftTheBlock):
                return None
        return None

    # -- two attempts ------------------------------------------------------------------------------

    def _statements(self, run: Run, recorder: TorchRecorder) -> tuple[str, list[str]]:
        """Run the program's own statements."""
        plan = plan_of(run)
        if plan.start.variables is None:
            raise NotRepeatable("the variables of that frame were not kept")
        run.calls[0].restore()
        with recorder:
            plan.statements.run(plan.start)
        first, last = plan.statements.first, plan.statements.last
        file = Path(plan.start.code.co_filename).name
        told = (
            f"gradwalk ran line {first} of {file} again and recorded it"
            if first == last
            else f"gradwalk ran lines {first} to {last} of {file} again and recorded them"
        )
        if not self.losses or run.loss is None:
            return told, []
        if _same_bits(self.losses[-1], run.loss):
            return f"{told}; the loss is the same bit for bit", []
        answered = self.answers.note if self.answers is not None else ""
        return told, [
            answered
            or f"the second time, the loss is {_number(self.losses[-1])}, not {_number(run.loss)}: "
            "the step is not deterministic, or something changed afterwards"
        ]

    def _model(self, run: Run, recorder: TorchRecorder) -> tuple[str, list[str]]:
        """Run the models alone, and push the kept gradients of their outputs through them."""
        if not run.calls:
            raise NotRepeatable("none was called before the loss")
        notes = []
        with recorder:
            for call in run.calls:
                with call.as_it_was(), torch.enable_grad():
                    args, kwargs = _detached((call.args, call.kwargs))
                    output = _called(call, args, kwargs)
                outputs = outputs_in(output)
                pushed = {
                    i: g
                    for i, g in call.output_gradients.items()
                    if i < len(outputs) and outputs[i].requires_grad
                }
                if pushed:
                    roots = [outputs[i] for i in pushed]
                    for root, kept in zip(roots, pushed.values()):
                        # An output may depend on another: the kept gradient is the whole sum.
                        root.register_hook(lambda _, kept=kept: kept)  # type: ignore[no-untyped-call]
                    finite = all(map(all_finite, outputs))
                    self._only_pushed = finite and not all(map(all_finite, pushed.values()))
                    torch.autograd.backward(roots, list(pushed.values()))
                else:
                    notes.append("the gradient of the model's output was too large to keep")
        return (
            "gradwalk ran the model again with its batch, recorded it, and pushed the gradient of "
            "its output back through it"
        ), notes

    # -- leaving no mark ---------------------------------------------------------------------------

    @contextlib.contextmanager
    def _leaving_no_mark(self, run: Run) -> Iterator[None]:
        models = {id(m): m for m in (*self.models, *(call.model for call in run.calls))}.values()
        randomness = Randomness.now({device for model in models for device in model.devices})
        given = [thing for call in run.calls for thing in call.given]
        state = self.keeper.exactly([call.state for call in run.calls], given)
        buffers = [b for model in models for b in model.buffers_now(float("inf"))]
        for parameter in self._parameters():
            self._keep_gradient(parameter)
        batches = [call.batch.restore() for call in run.calls]
        try:
            with (
                contextlib.redirect_stdout(io.StringIO()),
                contextlib.redirect_stderr(io.StringIO()),
                warnings.catch_warnings(),
                private.told_of_backward(self._around_backward),
                _nothing_steps(self.optimizers),
            ):
                warnings.simplefilter("ignore")
                yield
        finally:
            for tensor, gradient in self._gradients.values():
                tensor.grad = gradient
            for batch in reversed(batches):
                batch.restore_all()
            for buffer in buffers:
                buffer.restore()
            state.restore()
            randomness.restore()

    def _parameters(self) -> Iterator[torch.Tensor]:
        for model in self.models:
            yield from model.module.parameters()
        for optimizer in self.optimizers:
            yield from parameters_of(optimizer)

    def _keep_gradient(self, tensor: torch.Tensor) -> None:
        self._gradients.setdefault(id(tensor), (tensor, tensor.grad))

    @contextlib.contextmanager
    def _around_backward(self, call: private.BackwardCall) -> Iterator[None]:
        """Also keep the gradients of leaves that are not parameters."""
        if call.accumulates:
            roots = [t.grad_fn for t in call.outputs if getattr(t, "grad_fn", None) is not None]
            for leaf in inputs_first(roots):
                if is_leaf(leaf) and id(leaf.variable) not in self._gradients:
                    self._keep_gradient(leaf.variable)
                    leaf.variable.grad = None
            if not self._passes:  # not a nested pass of a checkpoint
                self.losses += [t.detach() for t in call.outputs[:1]]
        self._passes += 1
        try:
            yield
        finally:
            self._passes -= 1


Attempt = Callable[[Run, TorchRecorder], tuple[str, list[str]]]


@contextlib.contextmanager
def _nothing_steps(optimizers: Iterable[torch.optim.Optimizer]) -> Iterator[None]:
    """Disable optimizers and gradient scalers."""

    def nothing(*args: Any, **keywords: Any) -> None:
        return None

    def unknown(optimizer: Any, args: Any, keywords: Any) -> None:
        raise NotRepeatable(f"an optimizer that is not watched ({type(optimizer).__name__}) steps")

    with contextlib.ExitStack() as stack:
        for optimizer in optimizers:
            stack.enter_context(mock.patch.object(optimizer, "step", nothing))
        for name in ("step", "unscale_", "update"):
            stack.enter_context(mock.patch.object(torch.amp.GradScaler, name, nothing))
        stack.callback(register_optimizer_step_pre_hook(unknown).remove)
        yield


def _called(call: ModelCall, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call a model from the user's line, so that the recording shows that line."""
    position = call.frames[0].position if call.frames else None
    if position is None:
        return call.model.module(*args, **kwargs)
    text = "\n" * (position[0] - 1) + "module(*args, **kwargs)"
    code = compile(text, call.frames[0].code.co_filename, "eval")
    return eval(code, {"module": call.model.module, "args": args, "kwargs": kwargs})


def _detached(given: Any) -> Any:
    """Turn arguments with a history into leaves."""
    leaves, spec = private.flattened(given)
    return private.rebuilt(
        [t.detach().requires_grad_() if getattr(t, "grad_fn", None) else t for t in leaves], spec
    )


def _same_bits(a: torch.Tensor, b: torch.Tensor) -> bool:
    return a.shape == b.shape and bool(torch.isclose(a, b, rtol=0, atol=0, equal_nan=True).all())


def _number(loss: torch.Tensor) -> str:
    return f"{loss.item():.9g}" if loss.numel() == 1 else f"a tensor of {tuple(loss.shape)}"
