"""Measure what gradwalk.torch does on one architecture."""

from __future__ import annotations

import math
import random
import resource
import time
import warnings
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from typing import Any

import numpy as np
import torch

import gradwalk as gw
import gradwalk.torch
from gradwalk.inspect.trace.replay import op_of
from gradwalk.nn.graph_module import Unsupported
from tools.coverage.architectures import Subject, build

PLACES = 3  # at which a NaN is planted, one at a time
BUDGET = 2 << 30  # bytes of values that a recording keeps


def answer(name: str, connection: Connection, limit: int) -> None:
    """Send the row of an architecture, or what went wrong; the system ends it after `limit`."""
    resource.setrlimit(resource.RLIMIT_CPU, (limit, limit))
    warnings.simplefilter("ignore")
    try:
        connection.send(examine(name))
    except Exception as error:
        connection.send({"error": f"{type(error).__name__}: {error}"[:200]})


def examine(name: str, imports: bool = True) -> dict[str, Any]:
    """What gradwalk.torch does on an architecture, as one row of the table."""
    began = time.process_time()
    subject = build(name)
    step(subject)  # some models settle at their first call: BigBird then chooses its attention
    loss, gradients = step(subject)
    with gw.torch.record(budget=BUDGET) as trace:
        loss_recorded, gradients_recorded = step(subject)
    row = {
        "parameters": sum(p.numel() for p in subject.model.parameters()),
        "operations": sum(bool(node.op) for node in trace.nodes),
        "identical": same(loss, loss_recorded)
        and all(same(a, gradients_recorded[n]) for n, a in gradients.items()),
        "gradients": all(same(g, recorded(trace, subject, n)) for n, g in gradients.items()),
        "opaque": opaque(trace),
    }
    del trace
    row |= planted(subject, random.Random(name))
    if imports:
        row["import"] = imported(subject)
    return row | {"seconds": round(time.process_time() - began)}


def step(subject: Subject) -> tuple[torch.Tensor, dict[str, torch.Tensor | None]]:
    """One forward and backward pass from the same random state."""
    model = subject.model
    model.zero_grad()
    torch.manual_seed(1)
    # Running statistics move in every pass, so each pass begins with the same ones.
    before = {name: buffer.clone() for name, buffer in model.named_buffers()}
    loss = subject.loss(model(**subject.batch))
    loss.backward()
    with torch.no_grad():
        for name, buffer in model.named_buffers():
            if name in before and buffer.shape == before[name].shape:
                buffer.copy_(before[name])
    return loss.detach(), {name: p.grad for name, p in model.named_parameters()}


def same(a: Any, b: Any) -> bool:
    """Whether two tensors are equal to the bit; both may be None."""
    if a is None or b is None:
        return a is b
    one, other = np.asarray(a.detach()), np.asarray(b.detach() if hasattr(b, "detach") else b)
    return (
        one.dtype == other.dtype and one.shape == other.shape and one.tobytes() == other.tobytes()
    )


def recorded(trace: Any, subject: Subject, name: str) -> Any:
    """The gradient that the trace holds for a parameter."""
    index = trace.lookup(subject.model.get_parameter(name))
    return None if index is None else trace.sweep.grad(index)


def opaque(trace: Any) -> dict[str, int]:
    """The operations without an op of ours, with their number."""
    names = (node.op for node in trace.nodes if node.op and op_of(node) is None)
    counts = Counter(name.removeprefix("aten.") for name in names if name != "detach")
    return dict(sorted(counts.items()))


# -- a NaN at a random place -----------------------------------------------------------------------


def planted(subject: Subject, dice: random.Random) -> dict[str, Any]:
    """Plant a NaN inside random modules, one at a time, and ask find_nan for module and op."""
    names = modules_called(subject)
    dice.shuffle(names)
    tried, missed = 0, []
    for name in names:
        if tried == PLACES:
            break
        where = dice.random()
        with nan_inside(subject.model.get_submodule(name), where):
            loss, gradients = step(subject)
            values = [loss, *(g for g in gradients.values() if g is not None)]
            if all(bool(torch.isfinite(value).all()) for value in values):
                continue  # the model removed it
            with gw.torch.record(budget=BUDGET) as trace:
                step(subject)
        found = gw.find_nan(trace)
        tried += 1
        if (found.op, found.layer) != ("log", name):
            missed.append(f"{name}: {found.name or 'nothing'} in {found.layer or 'no module'}")
    return {"planted": tried, "missed": missed}


def modules_called(subject: Subject) -> list[str]:
    """The modules without parts that return an array of floating-point numbers."""
    called: dict[str, None] = {}
    hooks = []
    for name, module in subject.model.named_modules():
        if name and next(module.children(), None) is None:

            def note(_: Any, __: Any, out: Any, name: str = name) -> None:
                if isinstance(out, torch.Tensor) and out.is_floating_point() and out.numel():
                    called[name] = None

            hooks.append(module.register_forward_hook(note))
    step(subject)
    for hook in hooks:
        hook.remove()
    return list(called)


@contextmanager
def nan_inside(module: torch.nn.Module, where: float) -> Iterator[None]:
    """Make a module compute the logarithm of −1 at one element of its output."""
    forward = module.forward

    def sick(*args: Any, **kwargs: Any) -> Any:
        out = forward(*args, **kwargs)
        spot = torch.zeros(out.numel(), dtype=out.dtype)
        spot[math.floor(where * out.numel())] = 2
        return out + out * torch.log(1 - spot.view(out.shape))  # log(1) = 0 elsewhere

    module.forward = sick  # type: ignore[method-assign]
    try:
        yield
    finally:
        del module.forward


# -- import_graph ----------------------------------------------------------------------------------


def imported(subject: Subject) -> str:
    """ "yes", or why the model cannot be imported."""
    try:
        gw.torch.import_graph(subject.model.eval(), **subject.batch)
    except Unsupported as error:
        return "without a counterpart: " + ", ".join(error.operations)
    except ValueError as error:
        first = str(error).splitlines()[0]
        return first if len(first) < 200 else first[:200] + "…"
    except Exception as error:  # an error that is not ours is a finding of its own
        return f"{type(error).__name__} of {error.__class__.__module__}: {str(error)[:120]}"
    return "yes"
