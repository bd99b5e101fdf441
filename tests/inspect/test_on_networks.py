"""Every tool on the networks of the benchmarks: a transformer, a CNN, an LSTM, an MLP."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gradwalk as gw
from tests.inspect.trace.test_record import NETWORKS, network

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module", params=list(NETWORKS))
def recorded(request: pytest.FixtureRequest) -> tuple[Any, Any]:
    model, loss = network(request.param)
    with gw.record(budget=256 << 20) as trace:
        loss().backward()
    return model, trace


def readable(report: Any) -> None:
    """It prints within 80 columns or little more, displays, and is plain data."""
    text = str(report)
    assert text and max(map(len, text.splitlines())) <= 110
    assert report._repr_html_()
    assert isinstance(report.to_dict(), dict)


def test_walk(recorded: Any) -> None:
    _, trace = recorded
    walk = gw.walk(trace)
    steps = list(walk.play())
    assert len(steps) == len(trace) - unvisited(trace) + len(trace.sweep.visits)
    assert not walk.incomplete()
    while walk.position:
        walk.undo()
    str(walk)


def unvisited(trace: Any) -> int:
    """Nodes that the loss was not computed from."""
    needed = {trace.root}
    for index in range(trace.root, -1, -1):
        if index in needed:
            needed.update(trace[index].inputs)
    return len(trace) - len(needed)


def test_order(recorded: Any) -> None:
    model, trace = recorded
    right = gw.run_order(trace, trace.sweep.visits)
    assert not right.wrong
    backwards = gw.run_order(trace, trace.sweep.visits[::-1])
    first = next(model.parameters())
    wrong = backwards[trace.find(first)]
    assert wrong.wrong and not np.any(wrong.got)


def test_why(recorded: Any) -> None:
    model, trace = recorded
    for parameter in (next(model.parameters()), list(model.parameters())[-1]):
        found = gw.why(parameter, trace)
        readable(found)
        np.testing.assert_allclose(found.gradient, parameter.grad.numpy(), rtol=1e-5)
        place = tuple(0 for _ in parameter.shape)
        element = gw.why(parameter, trace, element=place)
        total = sum(edge.amount for edge in element.edges)
        np.testing.assert_allclose(total, parameter.grad.numpy()[place], rtol=1e-4, atol=1e-9)


def test_nothing_is_wrong_with_them(recorded: Any) -> None:
    model, trace = recorded
    assert not gw.health(model, trace).findings
    assert not gw.find_nan(trace)
    report = gw.why_no_grad(next(model.parameters()), trace)
    readable(report)


def test_memory_and_pictures(recorded: Any, tmp_path: Path) -> None:
    model, trace = recorded
    memory = gw.saved_memory(trace)
    readable(memory)
    assert memory.total > 0
    for depth in (1, None):
        svg = gw.show(trace, depth=depth).svg()
        assert svg.startswith("<svg") and svg.rstrip().endswith("</svg>")
    gw.save_trace(trace, tmp_path / "t")
    again = gw.load_trace(tmp_path / "t")
    name = next(n for n, _ in model.named_parameters())
    np.testing.assert_array_equal(again.grad(name), trace.grad(name))
    assert str(gw.why(name, again)) == str(gw.why(name, trace))


def test_nudge(recorded: Any) -> None:
    model, trace = recorded
    last = list(model.parameters())[-1]
    found = gw.nudge(last, 1e-3, trace)
    readable(found)
