"""What restrains training, set too strong: clipping, weight decay, dropout."""

from __future__ import annotations

import math
import statistics
from typing import Any

from gradwalk.inspect.doctor.loss_curve import FALLS, verdict
from gradwalk.inspect.doctor.observed import ObservedOptimizer, ObservedRun, ObservedStep
from gradwalk.inspect.health.findings import Finding
from gradwalk.inspect.report import short
from gradwalk.inspect.trace.written_at import assignment

FEWEST = 3  # steps to judge by
CLIPPED = 0.01  # the share of a gradient that clipping leaves
EQUAL = 1e-3  # relative difference of factors that are one number
SHRINKS = 0.02  # the share of a weight that decay takes at each step: half of it in 35 steps
PULLS = 3.0  # times the gradient
BEGINNING = 10  # steps: later the gradients of a healthy model are small, too
DROPS = 0.9
WELL = 0.3  # share of the loss that is gone: whatever restrains it, it learns


def restrained(run: ObservedRun) -> list[Finding] | None:
    """Clipping, weight decay and dropout of a training that learns little."""
    if not run.optimizers or len(run.steps) < FEWEST:
        return None
    judged = verdict(run.losses)
    if judged.kind == FALLS and judged.fallen > WELL:
        return []
    found = []
    for known in run.optimizers:
        steps = [s for s in run.steps if s.optimizer is known.optimizer and s.gradient_norm]
        if len(steps) >= FEWEST:
            found += [_clipped(run, steps, known), _decayed(steps, known)]
    found += [_dropped(model, run) for model in run.models]
    return [finding for finding in found if finding is not None]


def _clipped(
    run: ObservedRun, steps: list[ObservedStep], known: ObservedOptimizer
) -> Finding | None:
    """Gradients that are far smaller at the step than backward left them."""
    group = known.optimizer.param_groups[0]
    if "betas" in group or "alpha" in group or "rho" in group:
        return None  # it divides by the size of the gradients
    whole = [s for s in steps if s.passes and s.passes[-1].after > 0 and not s.closure]
    left = [s.gradient_norm / s.passes[-1].after for s in whole if s.gradient_norm]
    if len(left) < FEWEST or statistics.median(left) > CLIPPED:
        return None
    if _is_loss_scale(left):
        return None
    norms = [s.passes[-1].after for s in whole]
    given = statistics.median(s.gradient_norm for s in whole if s.gradient_norm)
    return Finding(
        "clipping",
        "",
        statistics.median(left),
        f"the gradients have norm {short(statistics.median(norms))} after backward and "
        f"{short(given)} at step(): clipping leaves so little that nothing moves",
        f"a limit near the usual norm, {short(statistics.median(norms))}; a larger one if only "
        "rare peaks are to be cut",
        run.clip_line or whole[0].line,
        whole[0].line,
        confidence="certain",
        basis=f"both norms of {len(whole)} steps",
    )


def _is_loss_scale(factors: list[float]) -> bool:
    """Whether gradients were divided by a scale of the loss: one number, or powers of two."""
    if statistics.pstdev(factors) < EQUAL * statistics.mean(factors):
        return True
    return all(abs(2 * math.frexp(factor)[0] - 1) < EQUAL for factor in factors)


def _decayed(steps: list[ObservedStep], known: ObservedOptimizer) -> Finding | None:
    """Weight decay that takes more than the gradient gives."""
    for group in known.optimizer.param_groups:
        decay, rate = float(group.get("weight_decay") or 0.0), float(group.get("lr") or 0.0)
        kind = type(known.optimizer).__name__
        decoupled = group.get("decoupled_weight_decay", kind.endswith("W"))
        adaptive = "betas" in group or "alpha" in group
        momentum = float(group.get("momentum") or 0.0)
        begun = [s for s in steps[:BEGINNING] if s.parameter_norm is not None and s.gradient_norm]
        pulls = [decay * (s.parameter_norm or 0.0) / (s.gradient_norm or 1.0) for s in begun]
        takes = rate * decay / (1 - min(momentum, 0.99))
        if adaptive and not decoupled:
            if not pulls or statistics.median(pulls) < PULLS:
                continue
            told = f"it is {short(statistics.median(pulls))} times the gradient in the first steps"
        elif takes >= SHRINKS:
            told = f"it takes {takes:.2%} of every weight at each step"
        else:
            continue
        return Finding(
            "weight decay",
            "",
            takes,
            f"weight_decay={decay:g} of {kind} pulls the weights to 0 faster than the loss can "
            f"hold them: {told}",
            "a weight decay of 1e-4 to 0.1",
            known.line,
            confidence="likely",
            basis="read from the optimizer, and the norms of weights and gradients",
        )
    return None


def _dropped(model: Any, run: ObservedRun) -> Finding | None:
    """Dropout that leaves almost nothing."""
    trace = run.recorded[0].trace if run.recorded else None
    for name, module in model.named_modules():
        share = getattr(module, "p", None)
        is_dropout = "Dropout" in type(module).__name__ and module.training
        if is_dropout and isinstance(share, float | int) and share >= DROPS:
            return Finding(
                "dropout",
                name,
                float(share),
                f"{name or type(module).__name__} drops {share:.0%} of its inputs: p is the share "
                "that is dropped, not the share that is kept",
                f"p={short(1 - share)}" if 0 < 1 - share < 0.5 else "p=0.5 or less",
                assignment(trace, name) if trace is not None and name else None,
                confidence="likely",
                basis="read from the module, which is in training mode",
            )
    return None
