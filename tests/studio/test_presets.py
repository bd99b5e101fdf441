"""The presets: every number of the textbook examples, the sick ones sick in the way they say."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest

import gradwalk as gw
from gradwalk.course.catalogue import Catalogue
from gradwalk.inspect.expression.parser import parse
from gradwalk.inspect.trace.trace import Trace
from gradwalk.studio.presets import GROUPS, PRESETS, as_data
from tests.project.checkout import run_here

BY_ID = {preset.id: preset for preset in PRESETS}


def numbers(trace: Trace) -> tuple[dict[str, Any], dict[str, Any]]:
    """Values and gradients by name."""
    names = {trace.name(node.index): node.index for node in trace}
    values = {name: trace.nodes[i].value for name, i in names.items()}
    return values, {name: trace.sweep.grad(i) for name, i in names.items()}


# graph -> values, gradients: docs/learn/textbook-examples.md, row by row
TABLE: dict[str, tuple[dict[str, float], dict[str, float]]] = {
    "sum-times": (
        {"a": 2, "b": -3, "c": 10, "e": -1, "f": -10},
        {"f": 1, "e": 10, "c": -1, "a": 10, "b": 10},
    ),
    "product-chain": (
        {"a": 2, "b": -3, "c": 5, "f": -2, "e": -6, "d": -1, "L": 2},
        {"f": -1, "d": -2, "e": -2, "c": -2, "a": 6, "b": -4},
    ),
    "neuron": (
        {"x1w1": -6, "x2w2": 0, "sum": -6, "n": 0.8813735870195432, "o": math.sqrt(0.5)},
        {"n": 0.5, "sum": 0.5, "x1w1": 0.5, "x2w2": 0.5, "w1": 1, "x1": -1.5, "w2": 0, "x2": 0.5,
         "b": 0.5},
    ),
    "square": ({"a": 3, "f": 9}, {"a": 6}),
    "double": ({}, {"a": 2}),
    "diamond": ({"a": 2, "b": 3, "c": 6, "d": 18}, {"a": 15}),
    "cubic": ({"x": 2, "y": 18}, {"x": 17}),
    "maximum": ({"a": 2, "b": -3, "m": 2}, {"a": 1, "b": 0}),
    "maximum-tie": ({}, {"a": 0.5, "b": 0.5}),
    "order-diamond": ({"a": 2, "d": 18}, {"x": 15}),
    "order-breadth": ({"d": 14}, {"x": 26}),
}  # fmt: skip


@pytest.mark.parametrize("name", TABLE)
def test_a_row_of_the_table(name: str) -> None:
    values, gradients = numbers(BY_ID[name].trace())
    expected_values, expected_gradients = TABLE[name]
    for label, value in expected_values.items():
        assert values[label] == pytest.approx(value, rel=1e-14, abs=1e-14), label
    for label, gradient in expected_gradients.items():
        assert gradients[label] == pytest.approx(gradient, rel=1e-14, abs=1e-14), label


def test_the_edge_from_e_has_local_derivative_10() -> None:
    trace = BY_ID["sum-times"].trace()
    assert trace.sweep.pushed[trace.find("f")][0] == 10  # times the gradient 1


@pytest.mark.parametrize("name, wrong", [("square", 3), ("double", 1)])
def test_there_are_two_edges_and_overwriting_loses_one(name: str, wrong: float) -> None:
    trace = BY_ID[name].trace()
    assert trace.nodes[trace.root].inputs == [trace.find("a")] * 2
    assert gw.run_order(trace, "overwrite")["a"].got == wrong


def test_the_diamonds_orders() -> None:
    plain = gw.every_order("a", BY_ID["diamond"].trace(), ["d", "b", "c", "a"])
    assert plain.counts == {15.0: 8, 9.0: 4, 6.0: 4, 0.0: 8}
    deeper = gw.every_order("x", BY_ID["order-diamond"].trace(), ["d", "b", "c", "a"])
    assert deeper.counts == {15.0: 2, 9.0: 2, 6.0: 2, 0.0: 18}


def test_wrong_recipes() -> None:
    diamond = gw.run_recipes("x", BY_ID["order-diamond"].trace())
    got = {name: run.got for name, run in diamond.runs.items()}
    assert got == {
        "right": 15,
        "plain recursion": 21,
        "depth-first": 6,
        "breadth-first": 15,
        "overwrite": 9,
        "twice": 60,
    }
    breadth = gw.run_recipes("x", BY_ID["order-breadth"].trace())
    assert (breadth["breadth-first"].got, breadth["plain recursion"].got) == (14, 40)


# -- matrices ----------------------------------------------------------------------------------


def test_the_dense_layer() -> None:
    values, gradients = numbers(BY_ID["dense-layer"].trace())
    slope = values["a′"] * (1 - values["a′"])
    dz = gradients["a′"] * slope
    assert np.allclose(values["z"], values["W"] @ values["a"] + values["b"], 1e-14)
    assert np.allclose(gradients["z"], dz, 1e-14)
    assert np.allclose(gradients["a"], values["W"].T @ dz, 1e-14)
    assert np.allclose(gradients["W"], dz @ values["a"].T, 1e-14)
    assert np.allclose(gradients["b"], dz.sum(1, keepdims=True), 1e-14)  # over the batch


def test_the_matrix_product() -> None:
    values, gradients = numbers(BY_ID["matrix-product"].trace())
    assert values["X"].shape == (2, 3) and values["W"].shape == (3, 2)
    assert np.array_equal(values["Y"], values["X"] @ values["W"])
    assert np.array_equal(gradients["X"], gradients["Y"] @ values["W"].T)
    assert np.array_equal(gradients["W"], values["X"].T @ gradients["Y"])


def test_the_tied_weight() -> None:
    trace = BY_ID["tied-weight"].trace()
    _, gradients = numbers(trace)
    uses = gw.why("W", trace)
    assert [group.name for group in uses.groups] in (["first", "second"], ["second", "first"])
    assert np.allclose(sum(edge.amount for edge in uses.edges), gradients["W"], 1e-14)
    assert len(uses.edges) == 2 and all(edge.norm > 0.1 for edge in uses.edges)


# -- networks ----------------------------------------------------------------------------------


def test_tanh_taken_apart_gives_the_same() -> None:
    values, gradients = numbers(BY_ID["neuron"].trace())
    opened_values, opened_gradients = numbers(BY_ID["tanh-opened"].trace())
    for name in values:
        assert opened_values[name] == pytest.approx(values[name], rel=1e-12)
        assert opened_gradients[name] == pytest.approx(gradients[name], rel=1e-12)


def test_the_network_is_that_of_the_scalar_engine() -> None:
    preset = BY_ID["network-2-2-1"]
    v = {name: gw.Value(value) for name, value in preset.values.items()}
    h1 = (v["w11"] * v["x1"] + v["w12"] * v["x2"] + v["b1"]).tanh()
    h2 = (v["w21"] * v["x1"] + v["w22"] * v["x2"] + v["b2"]).tanh()
    loss = (v["u1"] * h1 + v["u2"] * h2 + v["c"] - v["t"]) ** 2
    loss.backward()
    values, gradients = numbers(preset.trace())
    assert values["L"] == pytest.approx(loss.data, rel=1e-14)
    for name, value in v.items():
        assert gradients[name] == pytest.approx(value.grad, rel=1e-12), name
        assert value.grad != 0


def test_softmax_with_cross_entropy_has_p_minus_y() -> None:
    values, gradients = numbers(BY_ID["softmax"].trace())
    powers = [math.exp(values[f"z{i}"]) for i in (1, 2, 3)]
    p = [power / sum(powers) for power in powers]
    assert values["L"] == pytest.approx(-math.log(p[0]), rel=1e-14)
    for i, target in enumerate((1, 0, 0)):
        assert gradients[f"z{i + 1}"] == pytest.approx(p[i] - target, rel=1e-12)


# -- what goes wrong ---------------------------------------------------------------------------


def test_six_sigmoids_vanish() -> None:
    trace = BY_ID["six-sigmoids"].trace()
    values, gradients = numbers(trace)
    slopes = [values[f"s{i}"] * (1 - values[f"s{i}"]) for i in range(1, 7)]
    assert all(slope <= 0.25 for slope in slopes)
    assert gradients["x"] == pytest.approx(math.prod(slopes), rel=1e-12)
    assert 0 < gradients["x"] < 1e-3


def test_the_relu_is_dead() -> None:
    values, gradients = numbers(BY_ID["dead-relu"].trace())
    assert values["n"] < 0 and values["h"] == 0
    assert gradients["h"] != 0
    assert [gradients[name] for name in ("n", "w", "x", "b")] == [0, 0, 0, 0]


def test_the_chain_explodes() -> None:
    _, gradients = numbers(BY_ID["exploding"].trace())
    for step in range(9):
        assert gradients[f"h{step}"] == 3.0 ** (8 - step)
    assert gradients["w"] > 10_000


def test_the_clipped_loss_has_no_gradient() -> None:
    values, gradients = numbers(BY_ID["clipped-loss"].trace())
    assert values["s"] > values["L"] == 1
    assert [gradients[name] for name in ("s", "r", "w", "x", "t")] == [0, 0, 0, 0, 0]
    better = parse(BY_ID["clipped-loss"].source).build(w=0.75, x=2, t=1)
    assert numbers(better.trace())[1]["w"] != 0


def test_the_masked_log_gives_nan() -> None:
    trace = BY_ID["masked-log"].trace()
    values, _ = numbers(trace)
    assert values["m2"] == 0 and math.isnan(values["L"]) and not math.isnan(values["l1"])
    found = gw.find_nan(trace)
    assert found.text == "log(0) = −inf"


# -- as data -----------------------------------------------------------------------------------


def test_every_preset_has_an_id_a_group_and_words() -> None:
    ids = [preset.id for preset in PRESETS]
    assert len(set(ids)) == len(ids) >= 21
    assert all(preset.group in GROUPS for preset in PRESETS)
    words = Catalogue().words("en")
    for preset in PRESETS:
        assert words[f"preset.{preset.id}.title"] and words[f"preset.{preset.id}.about"]
    assert all(words[f"preset.group.{group}"] for group in GROUPS)


def test_they_are_data() -> None:
    found = json.loads(json.dumps(as_data(), allow_nan=False))
    assert [preset["id"] for preset in found] == [preset.id for preset in PRESETS]
    for preset in found:
        if preset["kind"] == "expression":
            assert set(preset) == {"id", "group", "kind", "source", "values"}
        else:
            assert set(preset) == {"id", "group", "kind", "trace"}
            assert "line" not in json.dumps(preset["trace"]["nodes"])
    assert {p["id"] for p in found if p["kind"] == "trace"} == {
        "dense-layer",
        "matrix-product",
        "tied-weight",
    }


def test_recorded_numbers_are_those_of_the_recording_to_twelve_digits() -> None:
    from gradwalk.inspect.trace.file import decode

    for data in as_data():
        if data["kind"] != "trace":
            continue
        trace = BY_ID[data["id"]].trace()
        for node, described in zip(trace, data["trace"]["nodes"], strict=True):
            assert np.allclose(decode(described["values"][0]), node.value, 1e-11, 0)
        for index, (kept,) in data["trace"]["sweeps"][-1]["grads"]:
            assert np.allclose(decode(kept), trace.sweep.grad(index), 1e-11, 0)


@pytest.mark.slow
def test_they_are_the_same_in_every_process(tmp_path: Any) -> None:
    code = "import json; from gradwalk.studio.presets import as_data; print(json.dumps(as_data()))"
    assert json.loads(run_here(code, tmp_path)) == as_data()
