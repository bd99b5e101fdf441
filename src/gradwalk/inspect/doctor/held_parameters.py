"""Parameters that get gradients and are in no optimizer: they never change."""

from __future__ import annotations

from typing import Any

from gradwalk.inspect.doctor.observed import ObservedRun, ObservedStep, Replaced
from gradwalk.inspect.health.findings import Finding
from gradwalk.inspect.trace.live import gradient_of
from gradwalk.inspect.trace.routes import listed
from gradwalk.inspect.trace.trace import Trace

SHOWN = 4


def not_held(step: ObservedStep) -> list[Finding] | None:
    """Find the parameters that this step gave a gradient and no optimizer holds."""
    run, trace = step.run, step.trace
    if not run.optimizers or trace is None:
        return None
    held = {id(p): p for known in run.optimizers for p in known.parameters}
    named = {id(p): (name, p) for model in run.models for name, p in model.named_parameters()}
    found = [(name, p) for key, (name, p) in named.items() if key not in held and _learns(p)]
    hidden = [
        (_path(run, p) or trace.name(index), p)
        for p in _parameters_in(trace)
        if id(p) not in held and id(p) not in named and _learns(p)
        if (index := trace.lookup(p)) is not None
    ]
    if not found and not hidden:
        return []
    orphans = [p for p in held.values() if id(p) not in named and gradient_of(p) is None]
    names = [name for name, _ in found]
    if orphans and found and run.models:
        return [_replaced(run, names, orphans)]
    if hidden:
        return [_unregistered(run, [name for name, _ in hidden])]
    return [_forgotten(step, trace, found, named, held)]


def _learns(parameter: Any) -> bool:
    return parameter.requires_grad and gradient_of(parameter) is not None


def _parameters_in(trace: Trace) -> list[Any]:
    """The live parameters that a recording saw."""
    return [thing for thing in trace._alive if type(thing).__name__ == "Parameter"]


def _path(run: ObservedRun, parameter: Any) -> str:
    """Where a model keeps a parameter in a plain list or dict: hidden[0].weight."""
    for model in run.models:
        for prefix, module in model.named_modules():
            for name, held in vars(module).items():
                if name.startswith("_") or not isinstance(held, list | tuple | dict):
                    continue
                pairs = held.items() if isinstance(held, dict) else enumerate(held)
                for key, inner in pairs:
                    inside = getattr(inner, "named_parameters", None)
                    for own, p in inside() if callable(inside) else ():
                        if p is parameter:
                            return f"{prefix}{'.' if prefix else ''}{name}[{key!r}].{own}"
    return ""


def _made(run: ObservedRun) -> str:
    lines = [str(known.line) for known in run.optimizers if known.line is not None]
    return f" (made at {lines[0]})" if lines else ""


def _replaced(run: ObservedRun, names: list[str], orphans: list[Any]) -> Finding:
    known = run.optimizers[0]
    module = names[0].rpartition(".")[0]
    late = [r for r in run.replaced if r.time > known.time]
    at: Replaced | None = next((r for r in late if r.name == module.rpartition(".")[2]), None)
    at = at or (late[-1] if late else None)
    where = f", after {module} was replaced at {at.line}" if at is not None else ""
    shapes = listed([str(tuple(p.shape)) for p in orphans], 2)
    return Finding(
        "not held",
        module,
        float(len(names)),
        f"{listed(names, SHOWN)} get gradients and are in no optimizer: "
        f"{type(known.optimizer).__name__} holds {len(orphans)} parameters (shapes {shapes}) that "
        f"no model has any more{where}. The new ones never change",
        "make the optimizer after the model is complete, or optimizer.add_param_group(...)",
        known.line if at is None else at.line,
        known.line,
        confidence="certain",
        basis="compared the parameters of the optimizer with those of the model",
    )


def _unregistered(run: ObservedRun, names: list[str]) -> Finding:
    return Finding(
        "not held",
        names[0],
        float(len(names)),
        f"{len(names)} parameters ({listed(names, SHOWN)}) get gradients, and they are in no "
        f"optimizer{_made(run)} and not in model.parameters(): layers in a plain list or dict are "
        "not registered. They never change",
        "nn.ModuleList or nn.ModuleDict instead of a list or dict, before the optimizer is made",
        run.optimizers[0].line,
        confidence="certain",
        basis="compared the parameters that got a gradient with model.parameters() and the "
        "optimizers",
    )


def _forgotten(
    step: ObservedStep,
    trace: Trace,
    found: list[tuple[str, Any]],
    named: dict[int, tuple[str, Any]],
    held: dict[int, Any],
) -> Finding:
    run = step.run
    names = [name for name, _ in found]
    kept = [name for key, (name, _) in named.items() if key in held]
    out, inside = ({name.partition(".")[0] for name in some} for some in (names, kept))
    uses = [trace.lookup(p) for _, p in found]
    later = [trace.lookup(p) for key, (_, p) in named.items() if key in held]
    before = max((i for i in uses if i is not None), default=0) < min(
        (i for i in later if i is not None), default=0
    )
    meant = before and not out & inside
    return Finding(
        "not held",
        names[0].rpartition(".")[0] or names[0],
        float(len(names)),
        f"{listed(names, SHOWN)} get a gradient at every step and are in no optimizer"
        f"{_made(run)}: they never change",
        "give the optimizer model.parameters(), or freeze them with requires_grad_(False) if "
        "that is meant",
        run.optimizers[0].line,
        confidence="possible" if meant else "likely",
        basis="compared the parameters that got a gradient with those of the optimizers"
        + ("; a frozen feature extractor looks like this" if meant else ""),
    )
