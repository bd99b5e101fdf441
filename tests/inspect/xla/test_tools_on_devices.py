"""The tools that look inside a computation read tensors on a device: they say what they say of the
same computation on the CPU."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import gradwalk as gw
from gradwalk import inspect, nn
from gradwalk.inspect.mistakes.gradcheck import GradcheckError
from tests.batches import batched

pytestmark = pytest.mark.slow
Look = Callable[[str, Path], Any]
LOOKS: list[Look] = []


def look(function: Look) -> Look:
    LOOKS.append(function)
    return function


def step(device: str) -> tuple[Any, Any, Any]:
    """A model, its loss, and the trace of a step."""
    gw.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 1)).to(device)
    x = gw.linspace(-1, 1, 12, device=device).reshape(4, 3)
    with gw.record() as trace:
        loss = model(x).pow(2).mean()
        loss.backward()
    return model, loss, trace


@look
def a_trace_file(device: str, folder: Path) -> Any:
    inspect.save_trace(step(device)[2], folder / "step.gwt")
    trace = inspect.load_trace(folder / "step.gwt")
    return [(n.op, n.label, [round(float(v.sum()), 4) for v in n.values]) for n in trace.nodes]


@look
def why(device: str, folder: Path) -> Any:
    model, _, trace = step(device)
    return str(gw.why(model[0].weight, trace))


@look
def health(device: str, folder: Path) -> Any:
    return str(gw.health(step(device)[0]))


@look
def find_nan(device: str, folder: Path) -> Any:
    x = gw.tensor([1.0, 0.0], device=device, requires_grad=True)
    return str(gw.find_nan((x.log() * 0).sum()))


@look
def why_no_grad(device: str, folder: Path) -> Any:
    model, x = step(device)[0], gw.ones(2, 3, device=device)
    other = gw.ones(2, device=device)
    with gw.record():
        (model(x).detach() * other).sum()
    return str(gw.why_no_grad(model[0].weight)), str(gw.why_no_grad(other))


@look
def memory(device: str, folder: Path) -> Any:
    return str(inspect.saved_memory(step(device)[1])), gw.saved_bytes(step(device)[1])


@look
def orders(device: str, folder: Path) -> Any:
    loss = step(device)[1]
    return str(inspect.run_recipes(loss)), str(inspect.every_order(loss))


@look
def derivatives(device: str, folder: Path) -> Any:
    x = gw.tensor([1.0, 2.0], dtype=gw.float64, device=device, requires_grad=True)
    assert gw.gradcheck(lambda x: x.sin() * x, x) and gw.gradgradcheck(lambda x: x.sin() * x, x)

    class Half(gw.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return ctx.saved_tensors[0] * g

    with pytest.raises(GradcheckError) as raised:
        gw.gradcheck(lambda x: Half.apply(x).sin(), x)
    return str(raised.value)


@batched("see", LOOKS, key=lambda see: see.__name__)
def test_a_tool(see: Look, tmp_path: Path) -> None:
    assert see("xla", tmp_path) == see("cpu", tmp_path)
