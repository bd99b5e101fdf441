"""The silent checks as rows of the doctor's list: each takes one observed step."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from gradwalk.inspect.doctor.observed import ObservedStep
from gradwalk.inspect.health.findings import Finding
from gradwalk.inspect.silent import (
    cut_draws,
    hand_written,
    mixing,
    padding,
    shared_weights,
    unshifted,
)
from gradwalk.inspect.silent.loss_mistakes import LossMistake, loss_mistakes
from gradwalk.inspect.silent.softmax_axes import softmax_axes
from gradwalk.inspect.trace.replay import NotReplayable
from gradwalk.inspect.trace.routes import group_name
from gradwalk.inspect.trace.trace import Trace


def losses(step: ObservedStep) -> list[Finding] | None:
    """Losses that are computed from the wrong thing."""
    return _mistakes(step, loss_mistakes)


def softmaxes(step: ObservedStep) -> list[Finding] | None:
    """Softmaxes over the wrong axis."""
    return _mistakes(step, softmax_axes)


def weights(step: ObservedStep) -> list[Finding] | None:
    """Weights that are shared by mistake, and copies that were meant to be shared."""
    return None if step.trace is None else shared_weights.shared_weights(step.trace, step.model)


def backward(step: ObservedStep) -> list[Finding] | None:
    """Wrong backward functions of the program."""
    return _looked(step, hand_written.wrong_backward)


def draws(step: ObservedStep) -> list[Finding] | None:
    """Random draws that cut the gradient of their parameters."""
    return _looked(step, cut_draws.cut_draws)


def rows(step: ObservedStep) -> list[Finding] | None:
    """Rows of the batch that influence one another."""
    return _looked(step, mixing.mixed_rows)


def future(step: ObservedStep) -> list[Finding] | None:
    """Predictions that see what they predict."""
    return _looked(
        step, lambda trace: mixing.leaking_future(trace) or unshifted.unshifted_targets(trace)
    )


def pads(step: ObservedStep) -> list[Finding] | None:
    """Padding that changes the loss."""
    return _looked(step, padding.padding_in_step)


def _looked(step: ObservedStep, check: Callable[[Trace], list[Finding]]) -> list[Finding] | None:
    """What a check finds; None if the step cannot be computed again."""
    if step.trace is None or not step.trace.sweeps:
        return None
    try:
        return check(step.trace)
    except NotReplayable:
        return None


def _mistakes(
    step: ObservedStep, check: Callable[[Trace], Iterable[LossMistake]]
) -> list[Finding] | None:
    """Mistakes at one operation each, as findings."""
    trace = step.trace
    if trace is None or not trace.sweeps:
        return None
    found: dict[tuple[str, object], Finding] = {}
    for mistake in check(trace):
        node = trace.nodes[mistake.node]
        layer = group_name(trace, mistake.node)
        finding = Finding(
            mistake.kind,
            layer,
            1.0,
            f"{node.op}: {mistake.why}",
            mistake.fix,
            node.line,
            confidence="certain",
            basis="the recorded numbers and shapes show it.",
        )
        found.setdefault((mistake.kind, node.line), finding)
    return list(found.values())
