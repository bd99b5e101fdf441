"""Find out what made a step bad: run it again, read the trace, and say it in the report."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import partial

import torch

from gradwalk.graph.source import SourceLine, source_line
from gradwalk.inspect.trace.trace import Trace
from gradwalk.torch import private
from gradwalk.torch.ranks.stopped_rank import StoppedRank
from gradwalk.torch.record.backward_errors import explained
from gradwalk.torch.record.freed_graphs import FREED
from gradwalk.torch.record.storages import OVERWRITTEN
from gradwalk.torch.rerun.call_stack import FrameSnapshot
from gradwalk.torch.rerun.rerun import Rerun, RerunOutcome, Run
from gradwalk.torch.rerun.snapshots import ModelCall
from gradwalk.torch.watch.check_step import Checked, StepFault
from gradwalk.torch.watch.step_report import StepReport

EXPLAINED = (FREED, OVERWRITTEN)
Reruns = Callable[[bool], AbstractContextManager[Rerun]]  # given whether ranks gather weights


def investigate(
    report: StepReport,
    fault: StepFault,
    checked: Checked,
    names: dict[int, str],
    live: Trace | None,
    reruns: Reruns,
    models: Sequence[torch.nn.Module],
    watch: int,
) -> None:
    """Fill in the report of a fault.

    `live` is the recording of the step, if it was recorded as it ran.
    """
    can = live is None and fault.run is not None
    rank = StoppedRank.of(watch, report.step, models, can)
    outcome = None
    if live is not None:
        report.rerun, report.rerun_told = "recorded", "none: the step was recorded as it ran"
        report.explain(live, fault.run.batch if fault.run else [], "recorded")
    elif fault.run is not None:
        finite = [call.gave_finite() for call in fault.run.calls]
        report.gave_finite = None if None in finite else all(finite)
        with reruns(rank is not None and rank.gathers) as again:
            outcome = _run_again(report, fault, checked, again, rank)
        if not report.rerun:
            report.not_shown([names[id(p)] for p in checked.parameters if id(p) in names])
    if rank is not None:
        rank.judge(report, fault, outcome)


def _run_again(
    report: StepReport,
    fault: StepFault,
    checked: Checked,
    again: Rerun,
    rank: StoppedRank | None,
) -> RerunOutcome | None:
    assert fault.run is not None
    shows = partial(fault.shows, checked.parameters)
    if rank is not None:
        shows = partial(rank.shows, fault, checked.parameters)
    outcome = again(fault.run, shows)
    report.rerun, report.rerun_told = outcome.how, outcome.told
    report.notes += outcome.notes
    if outcome.trace is not None:
        report.explain(outcome.trace, fault.run.batch, outcome.how)
    return outcome


@contextmanager
def explained_again(
    asked: private.BackwardCall, frames: list[FrameSnapshot], calls: list[ModelCall], reruns: Reruns
) -> Iterator[None]:
    """Around a backward pass: run a step whose backward fails again, for PyTorch's error to say
    which tensor it is about, and which line made it."""

    def line() -> SourceLine | None:
        return source_line(frames[0].code, frames[0].instruction) if frames else None

    with explained(asked, line, lambda node: None):
        try:
            yield
        except RuntimeError as error:
            # Only what a recording can explain is worth a second run.
            if any(words in str(error) for words in EXPLAINED):
                with reruns(False) as again:
                    second = again.failed(Run(calls, frames, None, None))
                if second is not None and str(second) == str(error):
                    for note in getattr(second, "__notes__", ()):
                        error.add_note(note)
            raise
