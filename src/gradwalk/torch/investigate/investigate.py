"""Find out what made a step bad: run it again, read the trace, and say it in the report."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import torch

from gradwalk.inspect.diff.diff import diff
from gradwalk.inspect.trace.trace import Trace
from gradwalk.torch import private
from gradwalk.torch.investigate.compiled_step import (
    Shows,
    find_in_compiled,
    place_of,
)
from gradwalk.torch.investigate.failed_backward import Reruns
from gradwalk.torch.investigate.float32_trial import half_is_involved, try_float32, uses_half
from gradwalk.torch.ranks.stopped_rank import StoppedRank
from gradwalk.torch.rerun.rerun import Rerun, RerunOutcome, Run
from gradwalk.torch.watch.check_step import Checked, StepFault
from gradwalk.torch.watch.step_report import StepReport


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
        report.gave_finite = None if None in finite or not finite else all(finite)
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
    compiled: list[None] = []
    with private.told_of_compiled(partial(compiled.append, None), lambda: None):
        outcome = again(fault.run, shows)
    if compiled:
        outcome = _without_compilation(report, fault.run, outcome, again, shows)
    report.rerun, report.rerun_told = outcome.how, outcome.told
    report.notes += outcome.notes
    if outcome.trace is not None and report.blamed != "compiler":
        report.explain(outcome.trace, fault.run.batch, outcome.how)
        if outcome.how:
            _try_float32(report, fault, outcome, again, shows, checked.parameters)
    return outcome


def _without_compilation(
    report: StepReport, run: Run, compiled: RerunOutcome, again: Rerun, shows: Shows
) -> RerunOutcome:
    """Run a compiled step again with compilation off: model fault or compiler fault."""
    again.compilation_off = True
    plain = again(run, shows)
    if plain.how:
        report.blamed = "model"
        report.compiled = "the fault is the model's: with compilation off it is there as well"
        plain.told += ", with compilation off"
        return plain
    again.compilation_off = False
    if plain.trace is None or not compiled.how:
        report.compiled = "which of the model and the compiler made the fault is not known"
        return compiled
    report.blamed = "compiler"
    report.compiled = (
        "the fault is the compiler's: it occurs again in the compiled step, and with compilation "
        "off it does not"
    )
    report.blame_compiler(compiled.trace)
    try:
        _narrow_down(report, run, compiled, plain.trace, again, shows)
    except Exception as error:  # report the fault even if it cannot be narrowed down
        report.notes.append(f"the search for the operation failed: {type(error).__name__}: {error}")
    return compiled


def _narrow_down(
    report: StepReport,
    run: Run,
    compiled: RerunOutcome,
    plain: Trace,
    again: Rerun,
    shows: Shows,
) -> None:
    """Name the operation whose compiled code makes the fault, and how the two steps differ."""
    node = find_in_compiled(again, run, compiled.how, shows)
    if node is not None:
        report.op, report.line = place_of(node)
        report.compiled += f". It begins when {report.op} is compiled"
    first = None if compiled.trace is None else diff(plain, compiled.trace).first
    if first is not None:
        said = f"{first.what} {first.why}".rstrip(".")
        report.notes.append(f"the two steps differ, A with compilation off, B compiled: {said}")


def _try_float32(
    report: StepReport,
    fault: StepFault,
    outcome: RerunOutcome,
    again: Rerun,
    shows: Shows,
    parameters: list[torch.Tensor],
) -> None:
    """Where half precision may be the fault, try float32 and report its effect."""
    trace, found, run = outcome.trace, report.found, fault.run
    if trace is None or found is None or run is None or not uses_half(run):
        return
    if found.kind in ("data", "weights") or not half_is_involved(trace, found.node):
        return
    where = report.line, report.module
    scale = 1.0 if fault.scale is None else fault.scale[1]
    trials = try_float32(again, run, outcome.how, trace, *where, shows, parameters, scale)
    report.tried = [str(trial) for trial in trials]
    cured = next((trial for trial in trials if trial.cured), None)
    if cured is not None:
        found.fix = report.fix = (
            f"run {cured.what} in float32 (tried: it cures the step), inside `with "
            f"torch.autocast(device_type, enabled=False):` with operands .float(). Or {found.fix}"
        )
