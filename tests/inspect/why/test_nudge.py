"""nudge: predicted beside real, at the loss and at every node between."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given

import gradwalk as gw
from benchmarks.models import NETWORKS
from gradwalk import Value
from tests.engine.random_graphs import programs


def test_the_diamond() -> None:
    a = Value(2.0, label="a")
    b, c = a + 1, 3 * a
    b.label, c.label = "b", "c"
    found = gw.nudge(a, 0.1, b * c)
    assert found.gradient == 15
    assert found.predicted == pytest.approx(1.5) and found.real == pytest.approx(1.53)
    assert found.loss_before == 18 and found.loss_after == pytest.approx(19.53)
    assert [m.name for m in found.moves] == ["a", "b", "c", "mul#5"]
    assert [m.predicted for m in found.moves] == pytest.approx([0.1, 0.1, 0.3, 1.5])
    assert [m.real for m in found.moves] == pytest.approx([0.1, 0.1, 0.3, 1.53])
    assert a.grad == 0 and a.data == 2, "nothing of the user's is changed"


def test_a_product_is_off_by_the_square_of_the_nudge() -> None:
    a = Value(3.0)
    for eps in (1.0, 0.1, -0.01):
        assert gw.nudge(a, eps, a * a).moves[-1].error == pytest.approx(eps * eps)


def test_a_linear_function_does_what_is_predicted() -> None:
    x = gw.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    with gw.record():
        (x @ gw.tensor([[1.0], [2.0]]) + 5).sum().backward()
    found = gw.nudge(x, 0.5)
    assert all(m.relative_error < 1e-12 for m in found.moves)
    assert found.predicted == pytest.approx(0.5 * (1 + 2) * 2)


@given(programs(tensors=False, kinks=True, longest=12))
def test_forward_and_reverse_agree_on_values(program: Any) -> None:
    leaves = [Value(x) for x in program.leaves]
    trace = gw.record(program(gw, leaves))
    for leaf in leaves:
        if trace.lookup(leaf) is None:
            continue
        found = gw.nudge(leaf, 1e-3, trace)
        gradient = trace.grad(leaf)
        scale = gw.why(leaf, trace).cancellation * abs(gradient)
        tolerance = 1e-12 * (scale if np.isfinite(scale) else 1e3)
        assert found.predicted == pytest.approx(1e-3 * gradient, rel=1e-9, abs=tolerance + 1e-12)


@given(programs(tensors=True, kinks=True))
def test_forward_and_reverse_agree_on_tensors(program: Any) -> None:
    leaves = [gw.tensor(x, dtype=gw.float64, requires_grad=True) for x in program.leaves]
    with gw.record(keep="all") as trace:
        out = program(gw, leaves).sum()
        if not out.requires_grad:
            return
        out.backward()
    source = np.random.default_rng(0)
    for leaf in leaves:
        index = trace.lookup(leaf)
        if index is None or trace.sweep.grad(index) is None:
            continue
        change = 1e-3 * source.standard_normal(leaf.shape)
        gradient = trace.grad(leaf)
        found = gw.nudge(leaf, change, trace)
        scale = 1e-9 * (1 + np.abs(gradient).sum())
        assert found.predicted == pytest.approx(float((gradient * change).sum()), abs=scale)
        for move in found.moves:
            assert move.real is not None and move.predicted is not None


@pytest.mark.slow
@given(programs(tensors=True))
def test_a_smooth_function_follows_its_prediction(program: Any) -> None:
    leaves = [gw.tensor(x, dtype=gw.float64, requires_grad=True) for x in program.leaves]
    with gw.record(keep="all") as trace:
        out = program(gw, leaves).sum()
        if not out.requires_grad:
            return
        out.backward()
    index = trace.lookup(leaves[0])
    if index is None or trace.sweep.grad(index) is None or not leaves[0].numel():
        return
    coarse, fine = (gw.nudge(leaves[0], eps, trace) for eps in (1e-3, 1e-4))
    for one, other in zip(coarse.moves, fine.moves, strict=True):
        floor = 1e-10 * (1 + abs(float(np.max(np.abs(trace.nodes[one.node].values[one.output])))))
        # Ten times smaller a nudge, a hundred times smaller an error (with room for the third
        # order and for rounding).
        assert other.error <= one.error / 30 + floor


def test_kinds_of_nudge() -> None:
    x = gw.tensor([3.0, 4.0], dtype=gw.float64, requires_grad=True)
    with gw.record() as trace:
        (x * x).sum().backward()
    assert gw.nudge(x, 0.1, trace).predicted == pytest.approx(0.1 * 14)
    assert gw.nudge(x, np.array([0.1, 0.0]), trace).predicted == pytest.approx(0.6)
    assert gw.nudge(x, 0.1, trace, element=1).predicted == pytest.approx(0.8)
    assert gw.nudge(x, 0.1, trace, element=1).real == pytest.approx(0.81)
    assert gw.nudge(x, 2.0, trace, direction=[0.0, 0.1]).predicted == pytest.approx(1.6)
    downhill = gw.nudge(x, -0.1, trace, direction="gradient")
    assert downhill.predicted == pytest.approx(-0.1 * 10) and downhill.real < 0
    with pytest.raises(ValueError, match="'gradient'"):
        gw.nudge(x, 0.1, trace, direction="up")


def test_what_moves_without_a_gradient_is_real_and_not_predicted() -> None:
    x = gw.tensor([1.0, 2.0], dtype=gw.float64, requires_grad=True)
    with gw.record() as trace:
        y = x.detach() * x
        gw.where(x > 1.005, y, -y).sum().backward()
    found = gw.nudge(x, 0.01, trace)
    by_op = {m.op: m for m in found.moves}
    assert by_op["detach"].predicted == 0 and by_op["detach"].real > 0
    expected = (1.01**2 + 2.01**2) - (-(1.0**2) + 2.0**2)
    assert found.real == pytest.approx(expected), "the mask has flipped"
    assert found.predicted == pytest.approx(0.01 * (-1 + 2))


def test_float32_is_compared_in_double() -> None:
    x = gw.tensor([1.0], requires_grad=True)
    with gw.record():
        (x * 3 + 1e4).sum().backward()
    found = gw.nudge(x, 1e-6)
    assert found.real == pytest.approx(3e-6, rel=1e-4), "float32 would say 0"


def test_what_does_not_lead_to_the_loss() -> None:
    x = gw.tensor([1.0], requires_grad=True)
    with gw.record() as trace:
        unused = x * 2
        (x * 3).sum().backward()
    found = gw.nudge(unused, 0.1, trace)
    assert found.predicted == found.real == 0 and found.notes


def test_a_value_made_by_hand_cannot_be_computed_again() -> None:
    a = Value(3.0)
    out = Value(9.0, (a,), "my square")

    def push() -> None:
        a.grad += 6.0 * out.grad

    out._backward = push
    found = gw.nudge(a, 0.1, out * 2)
    assert found.predicted == pytest.approx(1.2) and found.real is None
    assert "a hand-written op" in found.notes[0] and "?" in str(found)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["cnn", "gpt"])
def test_the_real_models(name: str) -> None:
    network = NETWORKS[name]
    gw.manual_seed(0)
    model = network.model(gw)
    inputs, labels = network.batch(np.random.default_rng(0))
    inputs = inputs.astype(np.float32) if inputs.dtype.kind == "f" else inputs
    with gw.record(keep="all") as trace:
        logits = model(gw.tensor(inputs))
        gw.nn.functional.cross_entropy(logits, gw.tensor(labels)).backward()
    first = next(iter(model.parameters()))
    found = gw.nudge(first, -1e-3, trace, direction="gradient")
    assert found.predicted == pytest.approx(-1e-3 * np.linalg.norm(first.grad.numpy()), rel=1e-3)
    assert found.real == pytest.approx(found.predicted, rel=0.05)
    assert all(len(line) <= 80 for line in str(found).splitlines())


def test_the_report_travels() -> None:
    a = Value(3.0, label="a")
    back = json.loads(json.dumps(gw.nudge(a, 0.1, a * a).to_dict()))
    assert back["moves"][-1]["predicted"] == pytest.approx(0.6)


@pytest.mark.parametrize("eps", [None, "a little"])
def test_how_far_must_be_a_number(eps: Any) -> None:
    a = Value(3.0)
    with pytest.raises(TypeError, match="eps says how far to move x"):
        gw.nudge(a, eps, a * a)
