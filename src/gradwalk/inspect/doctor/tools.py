"""The other tools as checks of the doctor: find_nan, health, why_no_grad, audit."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from gradwalk.inspect.doctor.observed import ObservedRun, ObservedStep
from gradwalk.inspect.doctor.observer import is_finite
from gradwalk.inspect.health.examination import examine
from gradwalk.inspect.health.findings import Finding
from gradwalk.inspect.mistakes.audit import MANY, audit
from gradwalk.inspect.mistakes.custom_functions import function_named
from gradwalk.inspect.nan.answer import FoundNan
from gradwalk.inspect.nan.find_nan import find_nan
from gradwalk.inspect.no_grad.why_no_grad import why_no_grad
from gradwalk.inspect.trace.array_statistics import norm_of
from gradwalk.inspect.trace.live import gradient_of
from gradwalk.inspect.trace.routes import listed
from gradwalk.inspect.trace.trace import Trace

SHOWN = 4  # names
# One step of a small network may move a weight by more than a tenth of its norm, and train well;
# half of its units may give 0 for one batch.
MODERATE = {"update": (0.1, 0.5), "dead": (0.0, 0.9)}


def nonfinite(step: ObservedStep) -> list[Finding] | None:
    """NaN and inf in the loss or a gradient."""
    if is_finite(step) and _finite_leaves(step.trace):
        return []
    found = find_nan(step.trace)
    return [nan_finding(found, f"step {step.number} was recorded as it ran")] if found else None


def _finite_leaves(trace: Trace | None) -> bool:
    """Whether the gradients of all leaves are finite: tensors may be trained without a module."""
    if trace is None or not trace.sweeps:
        return True
    leaves = (node for node in trace if node.is_leaf and node.needs_grad)
    grads = (trace.sweep.grad(node.index) for node in leaves)
    return all(g is None or math.isfinite(norm_of(g)) for g in grads)


def nan_finding(found: FoundNan, basis: str) -> Finding:
    """The answer of find_nan as a finding."""
    message = f"{found._headline()}. {found.reason[:1].upper()}{found.reason[1:]}"
    return Finding(
        "NaN",
        found.layer,
        math.nan,
        message.removesuffix("."),
        found.fix.removesuffix("."),
        found.line,
        confidence="certain",
        basis=basis,
    )


def unhealthy(step: ObservedStep) -> list[Finding] | None:
    """What `health` finds, but for parameters without a gradient."""
    if step.trace is None or not is_finite(step) or step.trace.scalar:
        return None
    report = examine(step.model, step.trace, step.optimizer)
    found = [f for f in report.findings if f.kind != "unused"]
    if step.rates and not any(step.rates):  # a warm-up may begin at 0; rates.py judges rates
        found = [f for f in found if f.kind != "update"]
    for finding in found:
        if finding.kind == "update":
            made = (k.line for k in step.run.optimizers if k.optimizer is step.optimizer)
            finding.line = finding.line or next(made, None)
        low, high = MODERATE.get(finding.kind, (0.0, 0.0))
        moderate = low < finding.value < high
        finding.confidence = finding.confidence or ("possible" if moderate else "likely")
        finding.basis = finding.basis or f"measured at step {step.number}"
    return found


def without_gradient(step: ObservedStep) -> list[Finding] | None:
    """Parameters that get no gradient, or one of zeros."""
    trace = step.trace
    if trace is None or not is_finite(step) or trace.scalar:
        return None
    cuts: dict[Any, tuple[Any, list[str], set[int]]] = {}
    for name, parameter in _trained_by(step):
        gradient = gradient_of(parameter)
        if gradient is not None and (step.number == 0 or np.any(gradient)):
            continue  # a zero may be that of the first step only (LoRA)
        if gradient is not None and _is_shift(step, parameter):
            continue
        answer = why_no_grad(parameter, trace)
        if answer and answer.kind != "cleared":  # training_loop.py judges that
            key = answer.kind, answer.line, name.rpartition(".")[0] if not answer.line else ""
            _, names, about = cuts.setdefault(key, (answer, [], set()))
            names.append(name)
            about.add(id(parameter))
    return [_cut(step, *cut) for cut in cuts.values()]


def _trained_by(step: ObservedStep) -> list[tuple[str, Any]]:
    """The parameters that a step should move, with their names."""
    assert step.trace is not None
    called = [call.model for call in step.calls]
    named = {id(p): (name, p) for model in called for name, p in model.named_parameters()}
    if step.optimizer is not None:  # and what was called without gradients
        groups = step.optimizer.param_groups
        held = {id(p): p for group in groups for p in group["params"]}
        named = {key: pair for key, pair in named.items() if key in held}
        for key, parameter in held.items():
            index = step.trace.lookup(parameter)
            if key not in named and index is not None:
                named[key] = step.trace.name(index), parameter
    return [(name, p) for name, p in named.values() if p.requires_grad]


def _is_shift(step: ObservedStep, parameter: Any) -> bool:
    """Whether it is a bias beside a weight that learns: a softmax or a norm may follow.

    They give the same for numbers that are shifted together, so the bias gets a gradient of zeros.
    """
    for module in (module for call in step.calls for module in call.model.modules()):
        if module._parameters.get("bias") is parameter:
            gradient = gradient_of(module._parameters.get("weight"))
            return gradient is not None and bool(np.any(gradient))
    return False


def _cut(step: ObservedStep, answer: Any, names: list[str], about: set[int]) -> Finding:
    is_none = answer.verdict == "none"
    what = "no gradient" if is_none else "a gradient of zeros"
    return Finding(
        "unused" if is_none else "zero",
        answer.layer or names[0].rpartition(".")[0],
        float(len(names)),
        f"{listed(names, SHOWN)} get {what}: {answer.reason}".removesuffix("."),
        answer.fix.removesuffix(".") or "use them in forward, or freeze them",
        answer.line,
        confidence="certain" if is_none else "likely",
        basis=f"no path from them to the loss in the recording of step {step.number}"
        if is_none
        else f"measured at step {step.number}",
        _about=about,
    )


def wrong_backwards(run: ObservedRun) -> list[Finding] | None:
    """Derivatives of a gradwalk program that differ from central differences.

    PyTorch's own are right; inspect/silent/ looks at those that a program writes for it.
    """
    if run.engine != "gradwalk":
        return None
    small = [
        s for s in run.recorded if s.trace and len(s.trace.sweep.visits) <= MANY and is_finite(s)
    ]
    if not small:
        return None
    step = small[0]
    return [
        Finding(
            "wrong backward",
            fault.name,
            math.nan,
            f"{fault.name}: {fault.text}".removesuffix("."),
            "correct its backward; gradcheck compares it with central differences",
            fault.line,
            confidence="certain",
            basis=f"central differences of this operation, on the values of step {step.number}",
        )
        for fault in audit(step.trace).faults
        if function_named(fault.op) is None
    ]
