"""compare: gradients derived by hand beside the true ones."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

import gradwalk as gw
from gradwalk import Value


class Network:
    """Two layers by hand, as in a lesson."""

    def __init__(self, dtype: Any = gw.float64) -> None:
        gw.manual_seed(0)
        self.x = gw.randn(5, 3, dtype=dtype)
        self.w1 = gw.randn(3, 4, dtype=dtype, requires_grad=True)
        self.b1 = gw.randn(4, dtype=dtype, requires_grad=True)
        self.w2 = gw.randn(4, 2, dtype=dtype, requires_grad=True)
        for name in ("w1", "b1", "w2"):
            getattr(self, name).label = name

    def run(self) -> Any:
        self.h = self.x @ self.w1 + self.b1
        self.h.label = "h"
        self.a = self.h.tanh()
        self.y = self.a @ self.w2
        self.y.label = "y"
        return (self.y * self.y).mean() + (self.a * self.a).sum()

    def by_hand(self) -> dict[str, Any]:
        x, a, y, w2 = (t.detach() for t in (self.x, self.a, self.y, self.w2))
        dy = 2 * y / 10
        da = dy @ w2.T + 2 * a
        dh = da * (1 - a * a)
        return {"y": dy, "a": da, "h": dh, "w2": a.T @ dy, "b1": dh.sum(0), "w1": x.T @ dh}


@pytest.fixture
def network() -> Network:
    made = Network()
    with gw.record():
        made.loss = made.run()
        made.loss.backward()
    return made


def test_right_ones_are_close(network: Network) -> None:
    hand = network.by_hand()
    found = gw.compare(network.loss, {getattr(network, name): hand[name] for name in hand})
    assert found.all_close and found.first_wrong is None
    assert [one.name for one in found.tensors] == ["y", "tanh#5", "h", "w2", "b1", "w1"]
    assert all(one.largest_difference < 1e-12 and one.diagnosis is None for one in found.tensors)


def test_the_same_numbers_are_exact(network: Network) -> None:
    found = gw.compare(network.loss, {network.w1: network.w1.grad, network.w2: network.w2.grad})
    assert all(one.exact for one in found.tensors)


def test_float32_has_its_own_idea_of_close() -> None:
    made = Network(gw.float32)
    with gw.record():
        loss = made.run()
        loss.backward()
    hand = made.by_hand()
    assert gw.compare(loss, {made.w1: hand["w1"] * (1 + 1e-6)}).all_close
    assert not gw.compare(loss, {made.w1: hand["w1"] * (1 + 1e-2)}).all_close
    assert not gw.compare(loss, {made.w1: hand["w1"] * (1 + 1e-6)}, rtol=1e-9).all_close


WRONG = {
    "wrong sign": ("h", lambda g, n: -g),
    "10 times the derivative": ("y", lambda g, n: g * 10),
    "transposed": ("w2", lambda g, n: g.T),
    "not summed over a broadcast axis": ("b1", lambda g, n: n.by_hand()["h"]),
    "missing": ("w1", lambda g, n: g * 0),
    "overwritten instead of accumulated": ("a", lambda g, n: g - 2 * n.a.detach()),
    "a wrong shape": ("w1", lambda g, n: g[:2]),
}


@pytest.mark.parametrize("words", WRONG)
def test_each_mistake_is_named(network: Network, words: str) -> None:
    name, spoil = WRONG[words]
    given = spoil(network.by_hand()[name], network)
    found = gw.compare(network.loss, {getattr(network, name): given})
    assert words in found.tensors[0].diagnosis
    assert "WRONG" in str(found) and not found.all_close


def test_the_largest_difference_is_found(network: Network) -> None:
    given = network.by_hand()["w1"].numpy().copy()
    given[2, 1] += 0.5
    (one,) = gw.compare(network.loss, {network.w1: given}).tensors
    assert one.at == (2, 1) and one.largest_difference == pytest.approx(0.5)
    assert one.given - one.right == pytest.approx(0.5)


def test_of_several_wrong_ones_the_one_nearest_to_the_loss_is_where_to_begin(
    network: Network,
) -> None:
    hand = network.by_hand()
    found = gw.compare(
        network.loss, {network.w1: hand["w1"] * 2, network.h: hand["h"] * 2, network.w2: hand["w2"]}
    )
    assert found.first_wrong == "h"
    assert "Start with h" in str(found)


def test_labels_and_the_other_order_and_no_loss(network: Network) -> None:
    hand = network.by_hand()
    assert gw.compare({"w1": hand["w1"], "h": hand["h"]}).all_close
    assert gw.compare({network.w1: hand["w1"]}, network.loss).all_close
    with pytest.raises(TypeError, match="dictionary"):
        gw.compare(network.loss, hand["w1"])


def test_without_a_recording() -> None:
    made = Network()
    loss = made.run()
    hand = made.by_hand()
    assert gw.compare(loss, {made.h: hand["h"], made.w1: hand["w1"]}).all_close
    assert made.w1.grad is None, "comparing fills no .grad"


def test_after_backward_has_used_up_the_graph() -> None:
    made = Network()
    loss = made.run()
    hand = made.by_hand()
    made.a.retain_grad()
    loss.backward()
    found = gw.compare(loss, {made.a: hand["a"], made.w1: hand["w1"]})
    assert found.all_close and ".grad" in found.source
    assert not gw.compare(loss, {made.w1: -hand["w1"]}).all_close
    with pytest.raises(gw.AutogradError):
        gw.compare(loss, {"w1": hand["w1"]})


def test_an_unused_tensor_has_the_gradient_zero(network: Network) -> None:
    with gw.record():
        loose = network.w1 * 2
        (network.w1 * 3).sum().backward()
    assert gw.compare({loose: np.zeros((3, 4))}).all_close
    (one,) = gw.compare({loose: np.ones((3, 4))}).tensors
    assert "too much" in one.diagnosis


def test_values() -> None:
    a = Value(3.0, label="a")
    assert gw.compare(a * a, {a: 6.0}).tensors[0].exact
    (one,) = gw.compare(a * a, {a: 3.0}).tensors
    assert "overwritten" in one.diagnosis and one.right == 6


def test_numbers_that_are_not_finite() -> None:
    x = gw.tensor([0.0, 1.0], dtype=gw.float64, requires_grad=True)
    with gw.record():
        x.sqrt().sum().backward()
    assert gw.compare({x: [np.inf, 0.5]}).all_close
    assert not gw.compare({x: [np.nan, 0.5]}).all_close


def test_the_report_reads_and_travels(network: Network) -> None:
    hand = network.by_hand()
    found = gw.compare({name: -hand[name] for name in ("w1", "h", "y")})
    assert all(len(line) <= 80 for line in str(found).splitlines())
    back = json.loads(json.dumps(found.to_dict()))
    assert [one["close"] for one in back["tensors"]] == [False] * 3


@pytest.mark.parametrize("given", [None, "six", object()])
def test_what_is_not_numbers_is_refused_by_name(given: Any) -> None:
    a = Value(3.0, label="a")
    with pytest.raises(TypeError, match="the gradient derived for a is"):
        gw.compare(a * a, {a: given})


def test_of_a_value_the_loss_does_not_use() -> None:
    a, stranger = Value(3.0), Value(1.0, label="stranger")
    with pytest.raises(KeyError, match=r"not computed from 'stranger'.*why_no_grad"):
        gw.compare(a * a, {stranger: 1.0})
