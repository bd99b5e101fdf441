"""The report of a stopped step: kind, op, line, module, row of the batch, and a fix."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from gradwalk.graph.source import SourceLine
from gradwalk.inspect.health.examination import examine
from gradwalk.inspect.health.findings import Finding, percent
from gradwalk.inspect.health.loss_rows import outlying_loss
from gradwalk.inspect.nan.answer import FoundNan
from gradwalk.inspect.nan.find_nan import find_nan
from gradwalk.inspect.report import Report, json_safe, short
from gradwalk.inspect.trace.array_statistics import array_of, norm_of
from gradwalk.inspect.trace.file import save_trace
from gradwalk.inspect.trace.routes import group_name, labelled, wrapped
from gradwalk.inspect.trace.trace import Shape, Trace
from gradwalk.io.atomic import write_atomically
from gradwalk.ops import TABLE
from gradwalk.torch.ranks.summary import RanksSummary
from gradwalk.torch.watch.spikes import Spike

GROWN = 100.0  # growth of the parameters' norm beyond which the weights diverge
OUTLIER = 10.0  # a row stands out beyond this multiple of the median row


@dataclass
class StepReport(Report):
    """Why a step was stopped.

    `kind` is "NaN" or "Inf" (in a gradient or the loss), "explosion", "update": the update of an
    earlier step made a parameter non-finite, "unused": DDP waits for the gradient of a parameter
    that the loss does not reach, or "spike": the update would move a layer much further than usual,
    or one row made the loss jump.
    """

    kind: str
    step: int  # counted from 0, of this optimizer
    optimizer: str
    seen: str = ""  # what the check saw
    loss: float | None = None
    gradient_norm: float | None = None
    usual_norm: float | None = None  # the norm that gradients had before
    gradients: list[str] = field(default_factory=list)  # parameters whose gradient is not finite
    growth: float = 1.0  # norm of the parameters relative to the first step
    op: str = ""
    line: SourceLine | None = None
    module: str = ""
    row: int | None = None  # of the batch; the first affected
    rows: list[int] = field(default_factory=list)  # all affected rows
    fix: str = ""
    found: FoundNan | None = None  # what find_nan says about the re-run
    finding: Finding | None = None  # what health says about an explosion
    rerun: str = ""  # "statements", "model", "recorded" live, or "" if it could not be run again
    rerun_told: str = ""
    rates: str = ""  # how the learning rate went
    notes: list[str] = field(default_factory=list)
    tried: list[str] = field(default_factory=list)  # changes to the step, and their effects
    path: str = ""  # of the trace
    is_over: bool = False  # whether it came after the last step, with no step left to stop
    gave_finite: bool | None = None  # whether the model's output was finite; None: not known
    why: str = ""  # of a spike
    layers: list[str] = field(default_factory=list)  # of a spike: the weights that move furthest
    token: int | None = None  # of a spike: the position in the row, where the loss has one
    mechanism: str = ""  # of a spike: "loss", "rate", "moment", "gradient" or "momentum"
    _spike: Spike | None = None
    _share: str = ""  # of the row, in words
    rank: int | None = None  # of this process, if it is one of several
    world: int = 1  # number of ranks
    side: str = ""  # of the collective on which the fault arose; "": not known
    ranks: str = ""  # how the side is known
    blamed: str = ""  # of a compiled step: "model" or "compiler"
    compiled: str = ""  # how that is known
    summary: RanksSummary | None = None  # of the reports of all ranks
    _trace: Trace | None = None
    _stopped_rank: Any = None  # tells the other ranks

    @property
    def is_quiet(self) -> bool:
        """Whether only the loss has jumped: not above its start, or not because of one row."""
        spike = self._spike
        return spike is not None and (spike.is_harmless or (not spike.moves and self.row is None))

    @property
    def live(self) -> str:
        """How to record the same step as it runs."""
        return (
            f"run the program once more with watch(..., record_from={self.step}) or `gradwalk run "
            f"--watch --record-from {self.step}`, which records that step as it runs"
        )

    def not_shown(self, parameters: Sequence[str]) -> None:
        """Say what is known, and what to do, when no re-run showed the fault."""
        self.rerun_told = "the fault did not occur again: see the notes"
        if self.gave_finite is False:
            self.notes.append(
                "the model's output was already not finite: the fault arose inside the model"
            )
        elif self.gave_finite:
            self.notes.append(
                "the model's output was finite: the fault arose after it, or in backward"
            )
        bad = [name for name in parameters if name in set(self.gradients)]
        if bad and len(bad) == len(parameters):
            self.notes.append("the gradients of all parameters are not finite")
        elif bad:
            self.notes.append(
                f"in the order of the model, the gradients from {bad[0]} to {bad[-1]} are not "
                f"finite, {len(bad)} of {len(parameters)}: the fault arose there, or after the last"
            )
        if self._spike is None:
            self.fix = f"{self.live}. Keep the random seed, so that it is the same run."

    def __str__(self) -> str:
        stopped = "found after the last step," if self.is_over else "stopped before step"
        where = f"{stopped} {self.step} (counted from 0) of {self.optimizer}"
        where = where if self.rank is None else f"rank {self.rank} of {self.world} {where}"
        lines = wrapped(f"{where}: {self.seen}.", "", "  ")
        told = self.found or self.finding
        about = str(told).splitlines() if told else self._known()
        fix = next((i for i, text in enumerate(about) if text.startswith("Fix:")), len(about))
        lines += about[:fix]
        more = f", and {len(self.rows) - 1} more" if len(self.rows) > 1 else ""
        module = f" in {self.module}" if self.module else ""
        indirect = self.found and self.found.op != self.op
        lines += labelled(
            ("used by", f"{self.op}{module}, {self.line}" if indirect else ""),
            ("row", "" if self.row is None else f"{self.row} of the batch{more}{self._share}"),
            *(("layer", layer) for layer in self.layers),
            ("ranks", f"{self.ranks}." if self.ranks else ""),
            ("compile", f"{self.compiled}." if self.compiled else ""),
            ("rate", "" if self.mechanism == "rate" else self.rates),  # `why` tells it
            ("re-run", f"{self.rerun_told}." if self.rerun_told else ""),
            *(("tried", f"{effect}.") for effect in self.tried),
            *(("note", f"{note}.") for note in self.notes),
        )
        if self.path:
            healthy = "" if self.rerun else " (of the re-run, without the fault)"
            lines.append(f"  trace:   {self.path}{healthy}")
            lines.append(f"           (open it with: gradwalk studio {self.path})")
        return "\n".join([*lines, *about[fix:]])

    def _known(self) -> list[str]:
        lines = labelled(
            ("why", f"{self.why}." if self.why else ""),
            ("op", self.op),
            ("line", self.line),
            ("in", self.module),
        )
        return [*lines, *(wrapped(f"Fix: {self.fix}", "", "     ") if self.fix else [])]

    def blame_compiler(self, trace: Trace | None) -> None:
        """Say what to do about a fault of the compiler."""
        self._trace = trace
        self.fix = (
            "keep that operation out of compiled code with @torch.compiler.disable, use "
            'torch.compile(..., backend="aot_eager"), or another version of PyTorch; and report '
            "it, with the trace and that line."
        )

    def explain(self, trace: Trace, batch: Sequence[Shape], how: str) -> None:
        """Read from the trace which op made the fault, where, and for which row."""
        self._trace = trace
        try:
            self._explain(trace, batch, how)
        except Exception as error:  # report the fault even if its explanation fails
            self.notes.append(f"its trace could not be read: {type(error).__name__}: {error}")

    def _explain(self, trace: Trace, batch: Sequence[Shape], how: str) -> None:
        if self._spike is not None:
            self._explain_spike(self._spike, trace, batch)
            return
        if self.kind == "explosion":
            if trace.sweeps:
                self._explain_explosion(trace, batch)
            return
        cause = find_nan(trace)
        if not cause:
            return
        self.found = cause
        if cause.kind == "seed" and how == "model":
            sure = "" if self.gave_finite else ", unless the model behaved differently this time"
            cause.reason = (
                "the model's output is finite, but the gradient that came back to it is not: the "
                f"fault arose outside the model, between its output and the loss{sure}. Those "
                "lines could not be run again."
            )
            cause.fix = (
                f"look at the lines between the call of the model and backward(), or {self.live}."
            )
        if cause.kind == "weights" and cause.node not in trace.names:
            # A batch that gradients are asked for, too.
            cause.kind = "data"
            cause.reason = "this argument of the model contained it from the start."
            cause.fix = "clean the data: drop such rows, or fill them (nan_to_num) before training."
        cause.fix = self._with_rate(cause.fix)
        if self.kind == "update" and cause.kind == "weights" and self.step > 0:
            cause.reason = (
                f"the update of step {self.step - 1} wrote it, from finite gradients, or the "
                "program wrote it afterwards."
            )
            cause.fix = (
                "a smaller learning rate, an eps above 0 in the optimizer, or clip_grad_norm_; "
                "or look for what else writes to it."
            )
        self.op, self.line, self.module, self.fix = cause.op, cause.line, cause.layer, cause.fix
        node = None if cause.node is None else trace.nodes[cause.node]
        if node is not None and node.is_leaf:
            self._first_use(trace, node.index)
        if node is not None and cause.kind != "weights":
            # An operation on a part of the batch does not tell which; what it went into may.
            for index in (node.index, *(step.node for step in cause.passed)):
                self.rows = bad_rows(_bad_array(trace, index, cause.direction), batch)
                if self.rows:
                    self.row = self.rows[0]
                    break

    def _explain_explosion(self, trace: Trace, batch: Sequence[Shape]) -> None:
        report = examine(None, trace)
        exploding = [f for f in report.findings if f.kind == "exploding"]
        self.finding = exploding[0] if exploding else None
        self.row = outlying_row(trace, batch)
        if self.finding is not None:
            self.op = self.finding.factors[0].op if self.finding.factors else ""
            self.line, self.module = self.finding.line, self.finding.layer
            self.finding.change = self.fix = self._with_rate(self.finding.change)
            return
        self.fix = (
            "look at that row of the data; clip_grad_norm_ keeps one batch from moving the weights."
            if self.row is not None
            else "a smaller learning rate, a warm-up, or clip_grad_norm_ before step()."
        )
        norms = {index: norm_of(trace.sweep.grad(index)) for index in trace.names}
        if not norms:
            return
        largest = max(norms, key=lambda i: math.inf if math.isnan(norms[i]) else norms[i])
        self.seen += (
            f"; the largest part is that of {trace.names[largest]} ({short(norms[largest])})"
        )
        self._first_use(trace, largest)

    def _explain_spike(self, spike: Spike, trace: Trace, batch: Sequence[Shape]) -> None:
        found = outlying_loss(trace, batch[0] if batch else ())
        if found is not None:
            self.row, self.token, self.line, self.op = found.row, found.token, found.line, found.op
            token = "" if found.token is None else f", token {found.token} of it most"
            self._share = (
                f": {percent(found.share)} of the loss, {short(found.times)} times the median "
                f"row{token}"
            )
        elif spike.mechanism in ("gradient", "moment"):
            self.row = outlying_row(trace, batch)
        if self.row is not None:
            self.fix = spike.change(self.row)
        if found is None and self.layers:
            name = self.layers[0].partition(":")[0]
            leaf = next((index for index, known in trace.names.items() if known == name), None)
            if leaf is not None:
                self._first_use(trace, leaf)

    def _with_rate(self, fix: str) -> str:
        """Put the learning rate first if the weights have diverged."""
        rate = "a smaller learning rate or a warm-up, because the weights diverge"
        return f"{rate}; {fix}" if self.growth > GROWN else fix

    def _first_use(self, trace: Trace, leaf: int) -> None:
        """Name the first operation on a leaf; views do not count."""
        users = [consumer for consumer, _ in trace.consumers[leaf]]
        while users and _is_same_numbers(trace.nodes[users[0]].op):
            users = [consumer for consumer, _ in trace.consumers[users[0]]]
        if users:
            user = trace.nodes[users[0]]
            self.op, self.line = user.op, user.line
            self.module = group_name(trace, user.index)

    # -- files -------------------------------------------------------------------------------------

    def save_of_rank(self, folder: Path) -> None:
        """Write the trace; of one of several ranks the report too, and the summary of all."""
        if self._stopped_rank is None:
            self.save(folder)
        else:
            self._stopped_rank.save(self, folder)

    def save(self, folder: Path) -> None:
        """Write the trace without overwriting an earlier one."""
        if self._trace is None:
            return
        path = free_path(folder / f"gradwalk-step-{self.step}.trace")
        try:
            folder.mkdir(parents=True, exist_ok=True)
            save_trace(self._trace, path)
        except (OSError, ValueError) as error:
            why = getattr(error, "strerror", None) or error
            self.notes.append(f"the trace could not be saved as {path}: {why}")
        else:
            self.path = str(path)

    def save_text(self, folder: Path) -> None:
        """Write the report as text and as JSON."""
        folder.mkdir(parents=True, exist_ok=True)
        write_atomically(folder / "report.txt", [f"{self}\n".encode()])
        text = json.dumps(json_safe(self.to_dict()), indent=2, allow_nan=False)
        write_atomically(folder / "report.json", [f"{text}\n".encode()])


class StepStopped(RuntimeError):
    """A harmful step was stopped: `report` says why, `trace` is the recording.

    Gradients, parameters and random states are those from before the step.
    """

    def __init__(self, report: StepReport) -> None:
        super().__init__(str(report))
        self.report = report
        self.trace = report._trace
        self.path = report.path


class StepWarning(RuntimeWarning):
    """The warning of `watch(..., action="warn")`."""


def free_path(path: Path) -> Path:
    """The path itself, or name-2.trace, name-3.trace, ...: nothing is overwritten."""
    if not path.exists():
        return path
    numbered = (path.with_name(f"{path.stem}-{n}{path.suffix}") for n in itertools.count(2))
    return next(p for p in numbered if not p.exists())


# -- which row of the batch ------------------------------------------------------------------------


def bad_rows(array: Any, batch: Sequence[Shape]) -> list[int]:
    """The rows of the batch with non-finite elements, as far as shapes tell.

    `batch` has the shapes of the model's arguments; the first axis of the first is the batch. An
    axis of batch × time, as in `logits.view(-1, classes)`, is split.
    """
    rows = batch[0][0] if batch and batch[0] else 0
    if array is None or rows < 1 or not array.ndim:
        return []
    places = np.argwhere(~np.isfinite(array))  # (elements, axes)
    if array.shape[0] == rows:
        rows_hit = places[:, 0]
    elif len(batch[0]) > 1 and array.shape[0] == rows * batch[0][1]:
        rows_hit = places[:, 0] // batch[0][1]
    elif array.ndim > 1 and array.shape[1] == rows:  # time first
        rows_hit = places[:, 1]
    else:
        return []
    return [int(row) for row in np.unique(rows_hit)]


def _bad_array(trace: Trace, index: int, direction: str) -> Any:
    """The non-finite array of a node: its value, or in backward its gradient or push."""
    kept: list[Any] = list(trace.nodes[index].values)
    if direction == "backward":
        kept = [p for sweep in trace.sweeps for p in sweep.pushed.get(index, ())]
        kept += [g for sweep in trace.sweeps for g in sweep.grads.get(index, ())]
    arrays = (array_of(k) for k in kept)
    return next((a for a in arrays if a is not None and not np.isfinite(a).all()), None)


def _is_same_numbers(op: str) -> bool:
    """Whether an operation only shows its operand in another shape or dtype."""
    known = TABLE.get(op)
    return op == "cast" or (known is not None and bool(known.view))


def outlying_row(trace: Trace, batch: Sequence[Shape]) -> int | None:
    """The row with by far the largest gradient, close to the loss; None if no row stands out."""
    rows = batch[0][0] if batch and batch[0] else 0
    if rows < 2 or not trace.sweeps:
        return None
    for index in trace.sweep.visits:
        grad = array_of(trace.sweep.grad(index))
        if grad is None or not grad.ndim or grad.shape[0] != rows:
            continue
        sizes = np.linalg.norm(grad.reshape(rows, -1).astype(np.float64), axis=1)
        worst = int(np.argmax(sizes))
        stands_out = sizes[worst] > OUTLIER * max(float(np.median(sizes)), 1e-300)
        return worst if stands_out else None
    return None
