"""What a rank does at a bad step: tell the others, judge its side of the collective, and report."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch

from gradwalk.inspect.report import short
from gradwalk.torch.ranks.alone import sharded_parts
from gradwalk.torch.ranks.notes import ARRIVES, REPORTS, Notes, is_one_of_many
from gradwalk.torch.ranks.summary import AFTER, BEFORE, RanksSummary
from gradwalk.torch.rerun.rerun import RerunOutcome
from gradwalk.torch.watch.check_step import StepFault
from gradwalk.torch.watch.gradient_checks import exact_norm
from gradwalk.torch.watch.step_report import StepReport


class StoppedRank:
    """One rank at a bad step. All ranks make it with the same watch and step."""

    def __init__(self, watch: int, step: int, models: Sequence[torch.nn.Module], can: bool) -> None:
        self.step = step
        self._notes = Notes(f"watch-{watch}/step-{step}")
        self._notes.put("stopped", can)
        self.others = self._notes.read("stopped", range(self._notes.world), ARRIVES)
        self.norm: float | None = None  # of this rank's own gradients, before the collective
        parts = sharded_parts(models)
        everyone = len(self.others) == self._notes.world and all(self.others.values())
        # One answer for all ranks: gathering weights is a collective.
        agreed = bool(parts) and self._notes.decide("gather", "yes" if everyone else "no")
        self.gathers = agreed == "yes"
        self._divided = bool(parts)
        self._models = models
        self._text = ""  # of the report of the first bad rank

    @classmethod
    def of(
        cls, watch: int, step: int, models: Sequence[torch.nn.Module], can: bool
    ) -> StoppedRank | None:
        """This process, if it is one of several ranks."""
        return cls(watch, step, models, can) if is_one_of_many() else None

    @classmethod
    def at_the_end(cls, report: StepReport, watch: int) -> None:
        """Add this rank to a report that came after the last step."""
        rank = cls.of(watch, report.step, [], False)
        if rank is not None:
            rank.judge(report, StepFault("update"), None)

    def shows(
        self, fault: StepFault, parameters: list[torch.Tensor], losses: list[torch.Tensor]
    ) -> bool:
        """Whether the re-run on this rank alone has the fault; note the norm of its gradients."""
        if self._divided:  # the optimizer's parameters are parts; the gathered ones have gradients
            parameters = [p for model in self._models for p in model.parameters()]
        self.norm = exact_norm([p.grad for p in parameters if p.grad is not None])
        return fault.shows(parameters, losses)

    def judge(self, report: StepReport, fault: StepFault, outcome: RerunOutcome | None) -> None:
        """Say on which side of the collective the fault arose on this rank."""
        report.rank, report.world = self._notes.rank, self._notes.world
        report._stopped_rank = self
        if fault.kind in ("update", "unused"):
            return
        own_loss = fault.loss is not None and not math.isfinite(fault.loss)
        if own_loss or report.rerun:
            report.side = BEFORE
            if not own_loss:
                report.ranks = f"this rank's own gradients show it, {BEFORE}"
            else:
                report.ranks = f"the loss of this rank is {short(fault.loss)}, {BEFORE}"
        elif outcome is not None and outcome.trace is not None:
            report.side = AFTER
            norm = "" if self.norm is None else f" (norm {short(self.norm)})"
            report.ranks = (
                f"run again alone, this rank's gradients are healthy{norm}: the fault came with "
                "the collective, from another rank or from the reduction itself"
            )
            report.notes.clear()
            report.rerun_told = outcome.told or report.rerun_told
            report.fix = "look at the reports of the other ranks."
        else:
            report.ranks = "the step could not be run again on this rank alone"

    def save(self, report: StepReport, folder: Path) -> None:
        """Write this rank's report in its own place; one rank writes the summary of all."""
        own = folder / f"rank-{self._notes.rank}"
        report.save(own)
        report.save_text(own)
        norm = self.norm if self.norm is not None and math.isfinite(self.norm) else None
        self._notes.put("report", {**_told(report), "norm": norm, "text": str(report)})
        # Wait for all: a launcher ends the other ranks when the first one ends.
        told = self._notes.read("report", self.others, REPORTS)
        first = RanksSummary.of(self.step, self._notes.world, told)
        shown = told.get(min(told, default=-1) if first.rank is None else first.rank, {})
        self._text = shown.get("text", str(report))
        for one in told.values():
            one.pop("text")
        if self._speaks_for(first):
            first.save(folder, self._text)
        first.path = str(folder / "summary.txt")
        report.summary = first
        if first.side == AFTER:
            report.fix = (
                "the sum over ranks overflows: reduce in float32 (without a communication hook "
                "that compresses, or with reduce_dtype=torch.float32), or make the loss smaller."
            )
        elif report.ranks and first.rank not in (None, report.rank):
            report.ranks += f". The first bad rank is {first.rank}"
            report.fix = f"see {folder / f'rank-{first.rank}' / 'report.txt'}."
        report.save_text(own)

    def _speaks_for(self, summary: RanksSummary) -> bool:
        return self._notes.rank == min(summary.reports, default=self._notes.rank)

    def tell(self, report: StepReport, echo: Callable[[str], None]) -> None:
        """Print the summary on one rank, before any rank ends: a launcher then ends the others."""
        summary = report.summary
        if summary is None:
            return
        speaker = min(summary.reports, default=self._notes.rank)
        if self._speaks_for(summary):
            echo(f"gradwalk: {summary}\n\n{self._text}")
            self._notes.put("told", True)
        else:
            self._notes.read("told", [speaker], ARRIVES)


def _told(report: StepReport) -> dict[str, Any]:
    """What other ranks are told of a report."""
    data = report.to_dict()
    names = ("kind", "side", "op", "module", "line", "row", "seen", "path")
    told = {name: data[name] for name in names}
    told["module"] = told["module"].removeprefix("module").removeprefix(".")  # DDP's own name
    return told
