"""Checks of the training loop: what it does between two steps of an optimizer."""

from __future__ import annotations

import statistics
from typing import Any

import numpy as np

from gradwalk.graph.source import SourceLine
from gradwalk.inspect.doctor.observed import ObservedRun, ObservedStep
from gradwalk.inspect.health.findings import Finding
from gradwalk.inspect.report import short

MOST = 0.5  # share of the steps that show it: once may be a skipped step or the last batch
FEWEST = 2  # steps that show it


def _steps_of(run: ObservedRun) -> list[list[ObservedStep]]:
    """The steps of each optimizer, or of the program itself."""
    optimizers = [known.optimizer for known in run.optimizers] or [None]
    return [[s for s in run.steps if s.optimizer is optimizer] for optimizer in optimizers]


def _often(shown: list[ObservedStep], steps: list[ObservedStep]) -> bool:
    return len(shown) >= FEWEST and len(shown) > MOST * len(steps)


# -- gradients that are left over, erased, or used twice -------------------------------------------


def left_over(run: ObservedRun) -> list[Finding] | None:
    """Gradients of the last step that are still there when backward adds to them."""
    findings = []
    looked = False
    for steps in _steps_of(run):
        later = [step for step in steps[1:] if step.passes]
        looked = looked or bool(later)
        shown = [step for step in later if all(p.before > 0 for p in step.passes)]
        if steps and steps[0].optimizer is None:
            shown = [step for step in shown if step.moved]
        if not _often(shown, later):
            continue
        line = shown[0].passes[0].line
        name = _name(steps[0])
        norms = [step.gradient_norm for step in (steps[0], shown[-1])]
        findings.append(
            Finding(
                "left over",
                "",
                len(shown) / len(later),
                f"backward adds to the gradients of the step before, because nothing clears them "
                f"between two steps{name}: each step moves along the sum of all gradients so far "
                f"(norm {short(norms[0])} at step {steps[0].number}, {short(norms[1])} at step "
                f"{shown[-1].number})",
                "optimizer.zero_grad() before each backward()"
                if steps[0].optimizer is not None
                else "set every .grad to None after the update",
                line,
                shown[0].line,
                confidence="certain",
                basis=f"the gradients were not zero before backward in {len(shown)} of "
                f"{len(later)} steps",
            )
        )
    return findings if looked else None


def _name(step: ObservedStep) -> str:
    if step.optimizer is None or len(step.run.optimizers) < 2:
        return ""
    return f" of {type(step.optimizer).__name__}"


def erased(run: ObservedRun) -> list[Finding] | None:
    """Backward passes whose gradients are cleared before the step uses them."""
    findings = []
    looked = False
    for steps in _steps_of(run):
        if not steps or steps[0].optimizer is None:
            continue
        looked = True
        none = [s for s in steps if s.passes and not s.gradient_norm and s.passes[-1].after > 0]
        if _often(none, steps) or (none and len(steps) == len(none)):
            findings.append(_nothing_left(none, steps))
            continue
        several = [s for s in steps if len(s.passes) > 1 and _one_line(s) and not s.closure]
        shown = [s for s in several if all(p.before == 0 for p in s.passes)]
        if _often(shown, steps):
            findings.append(_only_the_last(shown, steps))
    return findings if looked else None


def _nothing_left(shown: list[ObservedStep], steps: list[ObservedStep]) -> Finding:
    return Finding(
        "erased",
        "",
        1.0,
        f"{type(steps[0].optimizer).__name__}.step() finds no gradient: it is cleared between "
        "backward() and step(), so no parameter moves",
        "call zero_grad() before backward() or after step(), not between them",
        shown[0].line,
        shown[0].passes[-1].line,
        confidence="certain",
        basis=f"backward made a gradient and step() found none, in {len(shown)} of {len(steps)} "
        "steps",
    )


def _only_the_last(shown: list[ObservedStep], steps: list[ObservedStep]) -> Finding:
    count = int(statistics.median(len(s.passes) for s in shown))
    return Finding(
        "erased",
        "",
        float(count),
        f"of {count} backward passes for each step only the last counts: the gradients are "
        "cleared before each of them, so nothing accumulates",
        "clear the gradients once per step, after step(), not once per batch",
        _one_line(shown[0]),
        shown[0].line,
        confidence="certain",
        basis=f"the gradients were zero before every backward in {len(shown)} of {len(steps)} "
        "steps",
    )


def _one_line(step: ObservedStep) -> SourceLine | None:
    """The line of all backward passes of a step, if it is one: a loop over batches."""
    lines = {p.line for p in step.passes}
    return lines.pop() if len(lines) == 1 else None


def steps_without_backward(run: ObservedRun) -> list[Finding] | None:
    """An optimizer that never steps, or that steps twice with the same gradient."""
    findings = []
    idle = [known for known in run.optimizers if not _stepped(run, known.optimizer)]
    if run.optimizers and len(idle) == len(run.optimizers) and run.passes >= FEWEST + 1:
        kind = type(idle[0].optimizer).__name__
        findings.append(
            Finding(
                "never stepped",
                "",
                float(run.passes),
                f"{run.passes} backward passes ran and {kind}.step() was never called: no "
                "parameter moves",
                "call optimizer.step() after backward()",
                idle[0].line,
                confidence="certain",
                basis="counted while the program ran",
            )
        )
    for steps in _steps_of(run):
        if not steps or steps[0].optimizer is None:
            continue
        shown = [s for s in steps[1:] if not s.passes and s.gradient_norm]
        if len(shown) >= FEWEST and len(shown) >= 0.4 * len(steps):
            findings.append(
                Finding(
                    "stepped twice",
                    "",
                    len(shown) / len(steps),
                    f"{len(shown)} of {len(steps)} steps of {type(steps[0].optimizer).__name__} "
                    "had no backward pass before them: they move along the gradient of the step "
                    "before once more",
                    "call optimizer.step() once per backward()",
                    shown[0].line,
                    confidence="certain",
                    basis="counted while the program ran",
                )
            )
    return findings if run.passes else None


def _stepped(run: ObservedRun, optimizer: object) -> bool:
    return any(step.optimizer is optimizer for step in run.steps)


def remade(run: ObservedRun) -> list[Finding] | None:
    """An optimizer that is made again for every step, and forgets its state."""
    if not run.optimizers:
        return None
    known = run.optimizers[-1]
    group = known.optimizer.param_groups[0]
    keeps = any(group.get(name) for name in ("momentum", "betas", "alpha", "rho"))
    if run.remade < FEWEST or run.remade < MOST * len(run.steps) or not keeps:
        return []
    return [
        Finding(
            "remade",
            "",
            float(run.remade),
            f"{type(known.optimizer).__name__} is made again for every step ({run.remade + 1} "
            f"times in {len(run.steps)} steps): its momentum and averages begin at 0 each time",
            "make the optimizer once, before the loop",
            known.line,
            confidence="certain",
            basis="counted while the program ran",
        )
    ]


def left_in_eval(run: ObservedRun) -> list[Finding] | None:
    """A model that trains in training mode at first, and never again after an eval()."""
    findings = []
    for changes in run.modes.values():
        if [change.training for change in changes] != [True, False]:
            continue
        last = changes[-1]
        rest = len(run.steps) - last.step
        layers = sorted({name for m in last.model.modules() if (name := _differs_in_eval(m))})
        if rest < FEWEST or not layers:
            continue
        findings.append(
            Finding(
                "eval mode",
                "",
                float(rest),
                f"from step {last.step} on the model trains in eval mode: eval() was called, and "
                f"train() was not called again. {', '.join(layers)} behave as in prediction",
                "model.train() before the training of each epoch",
                last.line,
                confidence="likely",
                basis=f"read at each call: {last.step} steps in training mode, then {rest} without",
            )
        )
    return findings if run.modes else None


def _differs_in_eval(module: Any) -> str:
    """The class of a module that computes something else in eval mode; "" of others."""
    name = type(module).__name__
    drops = "Dropout" in name and getattr(module, "p", 0) > 0
    drops = drops or bool(getattr(module, "dropout", 0.0) and name in ("LSTM", "GRU", "RNN"))
    return name if drops or "BatchNorm" in name else ""


# -- settings --------------------------------------------------------------------------------------


def vanished_eps(run: ObservedRun) -> list[Finding] | None:
    """An eps that is 0 in the dtype of its parameters."""
    findings = []
    for known in run.optimizers:
        for group in known.optimizer.param_groups:
            eps = group.get("eps")
            halves = [p for p in group["params"] if str(p.dtype) == "torch.float16"]
            if not eps or group.get("fused") or not halves:
                continue  # gradwalk's own, and fused ones, compute in float32
            if float(np.float16(eps)) != 0:
                continue
            findings.append(
                Finding(
                    "eps",
                    "",
                    float(eps),
                    f"eps={eps:g} of {type(known.optimizer).__name__} is 0 in float16, the dtype "
                    f"of {len(halves)} of its parameters: where the second moment underflows, the "
                    "update divides by zero",
                    "parameters in float32 with autocast, or eps=1e-4",
                    known.line,
                    confidence="certain",
                    basis=f"float16({eps:g}) is 0; read from the optimizer",
                )
            )
            break
    return findings if run.optimizers else None
