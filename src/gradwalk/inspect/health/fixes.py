"""try_fix: run the same model on the same seed and batch with one change at a time."""

from __future__ import annotations

import copy
import math
import textwrap
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from gradwalk.engine.modes import no_grad
from gradwalk.inspect.health.examination import HealthReport, examine
from gradwalk.inspect.health.findings import WIDTH, Limits
from gradwalk.inspect.health.gradient_flow import MULTIPLY, Anatomy
from gradwalk.inspect.health.update_sizes import step_norms
from gradwalk.inspect.report import Report
from gradwalk.inspect.trace.recorder import Recorder
from gradwalk.inspect.trace.routes import leading_to, listed
from gradwalk.nn import init
from gradwalk.nn.module import Module
from gradwalk.nn.utils import clip_grad_norm_
from gradwalk.ops import TABLE
from gradwalk.ops.core.dtypes import is_half
from gradwalk.random.generator import get_rng_state, manual_seed, set_rng_state
from gradwalk.tensors.autocast import without_autocast
from gradwalk.tensors.tensor import Tensor

CHANGES = ("activation", "initialisation", "learning rate", "clipping", "eps", "float32")
SMALLEST = 1e-8
GOAL = 3e-3  # of a weight's norm: how far one step should move it
# What stands in for an activation that lets too little gradient through.
SUBSTITUTES = {"sigmoid": "relu", "tanh": "relu", "relu": "leaky_relu"}
# What makes up for the slope of an activation, or for the half that a relu cuts off.
GAINS = {"sigmoid": 4.0, "relu": math.sqrt(2.0), "gelu": math.sqrt(2.0), "tanh": 5 / 3}
REMEMBERING = {"lstm": "LSTM", "gru": "GRU"}  # ops with a gate that keeps the state -> modules
REMEMBER = 3.0  # the bias of that gate: it lets sigmoid(3) = 95 % of the state through
_NAME = 26


@dataclass
class Trial(Report):
    """The model with one thing changed."""

    change: str  # "" of the model as it is
    what: str  # what exactly was done
    before: HealthReport  # at the first step
    losses: list[float] = field(default_factory=list)  # at each step, and after the last
    error: str = ""  # why it could not be run

    @property
    def cured(self) -> bool:
        """Whether no finding is left."""
        return not self.error and self.before.healthy


@dataclass
class Trials(Report):
    """The effect of each change, beside the unchanged model."""

    original: Trial
    trials: list[Trial]

    @property
    def best(self) -> Trial | None:
        """The change that left the fewest findings, and of those the lowest loss.

        None if no change beats the unchanged model.
        """
        possible = [t for t in self.trials if not t.error]
        best = min(possible, key=_badness, default=None)
        return best if best is not None and _badness(best) < _badness(self.original) else None

    def __str__(self) -> str:
        lines = [f"{'change':<42}{'findings':<20}{'loss':>8} {'after':>8}"]
        lines += [_row(trial) for trial in (self.original, *self.trials)]
        shown = self.best or (self.trials[0] if self.trials else None)
        if shown is not None and not shown.error:
            head = "best" if self.best is not None else "no change helped; the first"
            best = textwrap.fill(f"{head}: {shown.what}", WIDTH, subsequent_indent="  ")
            lines += ["", best, *_norms(self.original.before, shown)]
        return "\n".join(lines)


def _badness(trial: Trial) -> tuple[bool, int, float]:
    """Rank trials: first non-finite losses, then findings, then the loss."""
    last = trial.losses[-1] if trial.losses else math.inf
    finite = math.isfinite(last)
    return not finite, len(trial.before.findings), last if finite else math.inf


def _row(trial: Trial) -> str:
    what = trial.what or "as it is"
    what = what if len(what) <= 41 else what[:40] + "…"
    if trial.error:
        return f"{what:<42}{trial.error[:38]}"
    kinds = sorted({finding.kind for finding in trial.before.findings})
    findings = listed(kinds, 2) if kinds else "none"
    findings = findings if len(findings) <= 19 else findings[:18] + "…"
    first, last = (_narrow(loss) for loss in (trial.losses[0], trial.losses[-1]))
    return f"{what:<42}{findings:<20}{first:>8} {last:>8}"


def _narrow(number: float) -> str:
    """A number in at most eight columns."""
    texts = [f"{number:.{digits}g}" for digits in (4, 3, 2)]
    return next((text for text in texts if len(text) <= 8), texts[-1])


def _norms(before: HealthReport, trial: Trial) -> list[str]:
    """Two sizes per layer, before and after: of outputs, gradients, or steps."""
    of_steps = trial.change in ("learning rate", "clipping")
    shown = {"gradient": "gradient", "update": "step"} if of_steps else {"activation": "output"}
    shown.setdefault("gradient", "gradient")
    later = {layer.name: layer for layer in trial.before.layers}
    heads = "".join(f"  {title + ' before':>15} {'after':>8}" for title in shown.values())
    rows = [f"{'layer':<{_NAME}}{heads}"]
    for layer in before.layers:
        name = layer.name if len(layer.name) <= _NAME else "…" + layer.name[1 - _NAME :]
        cells = []
        for what in shown:
            both = (getattr(layer, what), getattr(later.get(layer.name), what, None))
            first, second = ("" if x is None else f"{x:.3g}" for x in both)
            cells.append(f"  {first:>15} {second:>8}")
        rows.append(f"{name:<{_NAME}}{''.join(cells)}".rstrip())
    return rows


def try_fix(
    make: Any,
    loss_of: Callable[[Any], Any],
    optimizer: Callable[[Any], Any] | None = None,
    *,
    changes: Sequence[str] = CHANGES,
    seed: int = 0,
    steps: int = 5,
    limits: Limits | None = None,
) -> Trials:
    """Run a model again with one thing changed at a time, and show what each change does.

    `make` makes the model (or is a model, which is copied); `loss_of(model)` is its loss on the
    batch; `optimizer(parameters)` makes its optimizer. Every run starts from the same seed, is
    examined at its first step, and then trained for `steps` steps. The changes are `activation`
    (relu for sigmoid and tanh, leaky_relu for relu), `initialisation` (orthogonal, times a gain for
    the activation; zero biases; gates of an LSTM or GRU that remember), `learning rate` (so that a
    step moves the weights by about 0.3 %), `clipping` (of the gradient norm to 1), `eps` (a
    hundred times larger, in normalisations and the optimizer) and, inside autocast, `float32` (no
    op in half precision). If no change is enough, those that helped are tried together.

    >>> import gradwalk as gw
    >>> _ = gw.manual_seed(0)
    >>> x, y = gw.randn(32, 8), gw.randn(32, 1)
    >>> def make():
    ...     layers = [m for _ in range(6) for m in (gw.nn.Linear(8, 8), gw.nn.Sigmoid())]
    ...     return gw.nn.Sequential(*layers, gw.nn.Linear(8, 1))
    >>> trials = try_fix(make, lambda model: (model(x) - y).square().mean())
    >>> [f.kind for f in trials.original.before.findings], trials.best.change
    (['vanishing'], 'initialisation')
    """
    unknown = [change for change in changes if change not in CHANGES]
    if unknown:
        raise ValueError(f"no change {', '.join(unknown)}; there are {', '.join(CHANGES)}")
    run = _Run(make, loss_of, optimizer, seed, steps, limits)
    random = get_rng_state()
    try:
        original = run.trial([_Change()])
        tried = [
            (change, run.trial([change]))
            for name in changes
            for change in _variants(name, original, run)
        ]
        trials = [trial for _, trial in tried]
        helped = _compatible([pair for pair in tried if _removed(original, pair[1])])
        if len(helped) > 1 and not any(trial.cured for trial in trials):
            trials.append(run.trial(helped))
    finally:
        set_rng_state(random)
    return Trials(original, trials)


def _removed(original: Trial, trial: Trial) -> bool:
    """Whether a change removed at least one kind of finding."""
    before, after = ({f.kind for f in t.before.findings} for t in (original, trial))
    return not trial.error and bool(before - after)


def _compatible(helped: list[tuple[_Change, Trial]]) -> list[_Change]:
    """Keep the better of activation and initialisation: each is tuned to the other."""
    either = [pair for pair in helped if pair[0].name in ("activation", "initialisation")]
    best = min(either, key=lambda pair: _badness(pair[1]), default=None)
    return [pair[0] for pair in helped if pair not in either or pair is best]


@dataclass
class _Change:
    """One thing to do differently."""

    name: str = ""
    what: str = ""
    substitute: tuple[str, str] | None = None  # one op in place of another
    prepare: Callable[[Any], None] | None = None  # of the model, before its first step
    tune: Callable[[Any], None] | None = None  # of the optimizer
    clip: float | None = None
    around: Callable[[], AbstractContextManager[Any]] | None = None  # the whole run


@dataclass
class _Run:
    """What all trials share."""

    make: Any
    loss_of: Callable[[Any], Any]
    optimizer: Callable[[Any], Any] | None
    seed: int
    steps: int
    limits: Limits | None

    def model(self) -> Any:
        manual_seed(self.seed)
        return copy.deepcopy(self.make) if isinstance(self.make, Module) else self.make()

    def trial(self, changes: list[_Change]) -> Trial:
        """Run the model with these changes; an error is part of the answer."""
        name = changes[0].name if len(changes) == 1 else "together"
        what = " + ".join(change.what for change in changes)
        with ExitStack() as stack:
            for change in changes:
                if change.substitute is not None:
                    stack.enter_context(_in_place_of(*change.substitute))
                if change.around is not None:
                    stack.enter_context(change.around())
            try:
                report, losses = self._measure(changes)
            except (ArithmeticError, ValueError, RuntimeError) as error:
                if not name:
                    raise
                said = f"{type(error).__name__}: {error}".splitlines()[0]
                return Trial(name, what, HealthReport([], []), [], said)
        return Trial(name, what, report, losses)

    def _measure(self, changes: list[_Change]) -> tuple[HealthReport, list[float]]:
        model = self.model()
        for change in changes:
            if change.prepare is not None:
                change.prepare(model)
        optimizer: Any = None if self.optimizer is None else self.optimizer(model.parameters())
        for change in changes:
            if optimizer is not None and change.tune is not None:
                change.tune(optimizer)
        clip = next((change.clip for change in changes if change.clip is not None), None)
        recorder = Recorder()
        with recorder:
            loss = self.loss_of(model)
            loss.backward()
        steps = None
        if clip is not None:
            clip_grad_norm_(model.parameters(), clip)
            anatomy = Anatomy(recorder.trace, model)
            steps = step_norms(anatomy, optimizer, as_they_are=True)
        report = examine(model, recorder.trace, optimizer, limits=self.limits, steps=steps)
        losses = [float(loss.item())]
        for step in range(self.steps if optimizer is not None else 0):
            if step:
                optimizer.zero_grad()
                self.loss_of(model).backward()
                if clip is not None:
                    clip_grad_norm_(model.parameters(), clip)
            optimizer.step()
            with no_grad():
                losses.append(float(self.loss_of(model).item()))
        return report, losses


@contextmanager
def _in_place_of(name: str, other: str) -> Iterator[None]:
    """Replace one tensor op by another everywhere: `sigmoid` computes `relu`."""
    old, new = TABLE[name], TABLE[other]
    # Of relu itself: where `relu` stands for sigmoid and leaky_relu for relu, both are meant.
    compute = new.quick[Tensor]
    quick, method = old.quick[Tensor], getattr(Tensor, name)
    attributes = dict(new.defaults)

    def instead(x: Any, *_: Any) -> Any:
        return compute(x, attributes) if attributes else compute(x)

    old.quick[Tensor] = instead
    setattr(Tensor, name, instead)
    try:
        yield
    finally:
        old.quick[Tensor] = quick
        setattr(Tensor, name, method)


def _variants(name: str, original: Trial, run: _Run) -> Iterator[_Change]:
    """The changes of one kind that make sense for this model."""
    if name == "activation":
        used = _activations(run)
        for old in SUBSTITUTES:
            if old in used:
                new = SUBSTITUTES[old]
                yield _Change(name, f"{new} in place of {old}", substitute=(old, new))
    elif name == "initialisation":
        used = _activations(run, hidden=True)
        gain = next((GAINS[op] for op in GAINS if op in used), 1.0)
        what = f"orthogonal weights × {gain:.3g}, zero biases"
        if used & REMEMBERING.keys():
            what += f", gates that remember ({REMEMBER:g})"
        yield _Change(name, what, prepare=lambda model: _initialise(model, gain))
    elif name == "clipping" and run.optimizer is not None:
        yield _Change(name, "gradient norm clipped to 1", clip=1.0)
    elif name == "learning rate" and run.optimizer is not None:
        updates = [layer.update for layer in original.before.layers if layer.update is not None]
        ratios = sorted(ratio for ratio in updates if ratio < math.inf)
        if ratios:
            limit = (run.limits or Limits()).large_update
            most, middle = ratios[-1], ratios[len(ratios) // 2]
            middle = middle or SMALLEST  # steps so small that adding them changed nothing
            factor = GOAL / (most if most > limit else middle)
            what = f"learning rate × {factor:.3g}"
            yield _Change(name, what, tune=lambda optimizer: _scale(optimizer, "lr", factor))
    elif name == "eps":
        yield _Change(
            name,
            "eps × 100",
            prepare=_larger_eps,
            tune=lambda optimizer: _scale(optimizer, "eps", 100.0),
        )
    elif name == "float32" and _runs_in_half(run):
        yield _Change(name, "every op in float32", around=without_autocast)


def _runs_in_half(run: _Run) -> bool:
    """Whether autocast makes an op run in half precision."""
    recorder = Recorder("stats")
    with recorder, no_grad():
        run.loss_of(run.model())
    return any(is_half(np.dtype(dtype)) for node in recorder.trace for _, dtype in node.metas)


def _activations(run: _Run, hidden: bool = False) -> set[str]:
    """The activations that one forward pass uses, or those before the last layer.

    An activation at the output needs no gain.
    """
    recorder = Recorder("stats")
    with recorder, no_grad():
        run.loss_of(run.model())
    trace = recorder.trace
    if not hidden:
        return {node.op for node in trace}
    layers = [node.index for node in trace if node.op in MULTIPLY]
    return {trace.nodes[index].op for index in leading_to(trace, layers)}


def _scale(optimizer: Any, option: str, factor: float) -> None:
    for group in optimizer.param_groups:
        if option in group:
            group[option] *= factor


def _larger_eps(model: Any) -> None:
    for module in model.modules():
        if isinstance(getattr(module, "eps", None), float):
            module.eps *= 100


def _initialise(model: Any, gain: float) -> None:
    """Initialise every matrix except embeddings."""
    for module in model.modules():
        if type(module).__name__.startswith("Embedding"):
            continue
        for name, parameter in module.named_parameters(recurse=False):
            if parameter.ndim > 1:
                init.orthogonal_(parameter, gain)
            elif name.startswith("bias_") and hasattr(module, "hidden_size"):
                init.zeros_(parameter)
                if module.mode in REMEMBERING.values() and name.startswith("bias_hh"):
                    # The second gate keeps the state: forget of an LSTM, update of a GRU.
                    size = module.hidden_size
                    init.constant_(parameter[size : 2 * size], REMEMBER)
            elif name == "bias" and hasattr(module, "weight") and module.weight.ndim > 1:
                init.zeros_(parameter)
