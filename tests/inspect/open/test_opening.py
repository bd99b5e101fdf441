"""Opening nodes: composites into their operations, elements into numbers, gradients equal."""

from __future__ import annotations

import json
import warnings
from collections import defaultdict
from typing import Any

import numpy as np
import pytest

import gradwalk as gw
from benchmarks.models import NETWORKS
from gradwalk import Value
from gradwalk.inspect.open.expansions import SAFE, SHOWN, expansions_of
from gradwalk.inspect.open.open_op import unfolded
from gradwalk.inspect.trace import recorder
from gradwalk.inspect.trace.replay import NotReplayable, pull
from gradwalk.inspect.trace.trace import Edge, Trace
from gradwalk.ops import TABLE
from tests.ops.samples.table import Sample, all_samples

pytestmark = pytest.mark.slow  # `make quick` leaves it out

BY_OP: dict[str, list[Sample]] = defaultdict(list)
for _sample in all_samples():
    BY_OP[_sample.op].append(_sample)
F = gw.nn.functional


def recorded(sample: Sample) -> Trace | None:
    """A sample call of the op table's tests with a backward pass; None if it has no gradient."""
    inputs = [gw.tensor(a, requires_grad=a.dtype.kind == "f") for a in sample.arrays()]
    with gw.record(keep="all") as trace:
        out = sample.ours(gw, *inputs)
        outs = [o for o in (out if isinstance(out, (tuple, list)) else [out]) if _moves(o)]
        if not outs:
            return None
        source = np.random.default_rng(0)
        seeds = [gw.tensor(source.standard_normal(o.shape)) for o in outs]
        gw.autograd.backward(outs, seeds)
    return trace


def _moves(thing: Any) -> bool:
    return getattr(thing, "requires_grad", False)


# -- composites ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", sorted(BY_OP))
def test_open_and_closed_give_the_same_gradients(name: str) -> None:
    for sample in BY_OP[name]:
        trace = recorded(sample)
        if trace is None:
            continue
        for node in trace:
            op = TABLE.get(node.op)
            if op is None or node.index not in trace.sweep.grads or not expansions_of(op):
                continue
            if node.op == "vector_norm" and node.attrs["p"] == 0:
                continue
            if any(0 in trace.nodes[i].shape for i in node.inputs):
                continue
            opened = gw.open_op(trace, node.index)
            kink = node.op in ("vector_norm", "std") and not np.all(node.value)
            assert opened.equal or kink, f"{sample}: {opened}"
            for mine, closed in zip(opened.contributions, opened.closed, strict=True):
                assert (mine is None) == (closed is None)


@pytest.mark.parametrize("name", sorted(SHOWN))
def test_every_formula_for_showing_is_of_an_op_that_has_no_expansion_yet(name: str) -> None:
    assert TABLE[name].expand is None
    assert name in BY_OP, "the test above must have met it"


def test_tanh_in_the_sense_of_the_textbook() -> None:
    a = Value(0.7, label="a")
    opened = gw.open_op(gw.record(a.tanh() * 3), 1)
    assert [n.op for n in opened.trace if n.op] == ["mul", "exp", "sub", "add", "div"]
    assert opened.trace.nodes[-1].value == pytest.approx(np.tanh(0.7), rel=1e-15)
    assert opened.contributions == pytest.approx([3 * (1 - np.tanh(0.7) ** 2)], rel=1e-14)
    assert opened.equal and opened.steps[0] == "mul#2 = 2 × a = 1.4"


@pytest.mark.parametrize("name", sorted(SAFE))
@pytest.mark.parametrize("x", [-800.0, -30.0, 0.0, 30.0, 800.0])
def test_where_the_formula_overflows_another_one_is_shown(name: str, x: float) -> None:
    value = Value(x)
    opened = gw.open_op(gw.record(getattr(value, name)()), 1)
    assert opened.equal, opened
    array = gw.tensor([x, 0.0, -x], dtype=gw.float64, requires_grad=True)
    with gw.record() as trace:
        out = TABLE[name](array)
        out.sum().backward()
    assert gw.open_op(trace, out).equal


def every_composite() -> tuple[Trace, list[Any]]:
    gw.manual_seed(0)
    x, weight, bias = (gw.randn(*s, dtype=gw.float64) for s in ((4, 5), (5,), (5,)))
    q, k, v = (gw.randn(2, 3, 4, 8, dtype=gw.float64) for _ in range(3))
    leaves = [x, weight, bias, q, k, v]
    for leaf, label in zip(leaves, ("x", "weight", "bias", "q", "k", "v")):
        leaf.label, leaf.requires_grad = label, True
    with gw.record(keep="all") as trace:
        h = F.gelu(gw.softmax(F.layer_norm(x, (5,), weight, bias), 1)).tanh()
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        loss = F.cross_entropy(h, gw.tensor([0, 1, 2, 3])) + mixed.pow(2).sum() + x.std()
        loss.backward()
    return trace, leaves


COMPOSITES = {"softmax", "standardize_affine", "tanh", "attention", "cross_entropy", "std"}


def test_a_whole_trace_with_its_composites_open_and_closed_again() -> None:
    trace, leaves = every_composite()
    chosen = [n.index for n in trace if n.op in COMPOSITES]
    assert {trace.nodes[i].op for i in chosen} == COMPOSITES
    opened = unfolded(trace, *chosen)
    assert not COMPOSITES - {"softmax"} & {n.op for n in opened if not opened.group_path(n.index)}
    for leaf in leaves:
        np.testing.assert_array_equal(opened.grad(leaf), trace.grad(leaf))
        index = opened.find(leaf)
        pushes = [
            opened.sweep.pushed[consumer][argument]
            for consumer, argument in opened.consumers[index]
        ]
        np.testing.assert_allclose(sum(pushes), trace.grad(leaf), rtol=1e-9, atol=1e-12)
    groups = [g for g in opened.groups if g.kind == "op"]
    assert {g.class_name for g in groups} == COMPOSITES
    for node in opened:  # inputs come first, also among the nodes laid open
        assert all(i < node.index for i in node.inputs)
    closed = unfolded(trace)
    assert [n.op for n in closed] == [n.op for n in trace]
    assert closed.sweep.visits == trace.sweep.visits


def test_an_opened_node_opens_further() -> None:
    trace, leaves = every_composite()
    attention = next(n.index for n in trace if n.op == "attention")
    once = unfolded(trace, attention)
    inner = next(n.index for n in once if n.op == "softmax" and once.group_path(n.index))
    twice = unfolded(once, inner)
    assert [g.class_name for g in twice.group_path(len(twice) - 1)] == []
    deepest = next(n for n in twice if len(twice.group_path(n.index)) == 2)
    assert [g.class_name for g in twice.group_path(deepest.index)] == ["attention", "softmax"]
    for leaf in leaves:
        np.testing.assert_array_equal(twice.grad(leaf), trace.grad(leaf))


def test_a_primitive_has_nothing_in_it() -> None:
    a = Value(2.0)
    trace = gw.record(a * a)
    with pytest.raises(ValueError, match="one step to the engine"):
        gw.open_op(trace, 1)
    with pytest.raises(ValueError, match="a leaf"):
        gw.open_op(trace, a)


def test_opening_does_not_disturb_the_recording() -> None:
    x = gw.tensor([1.0, 2.0], requires_grad=True)
    with gw.record() as trace:
        y = gw.softmax(x, 0)
        y[0].backward()
        before = len(trace)
        assert gw.open_op(y).equal
        assert gw.element(y, trace, 0).value == pytest.approx(y[0].item())
        assert len(trace) == before + 1, "the y[0] of this test, nothing of ours"
    assert recorder.current() is trace
    np.testing.assert_array_equal(x.grad.numpy(), trace.grad(x))


# -- elements --------------------------------------------------------------------------------------


def places(shape: tuple[int, ...]) -> list[tuple[int, ...]]:
    """The first, the middle and the last."""
    if not shape:
        return [()]
    count = int(np.prod(shape))
    return [tuple(map(int, np.unravel_index(i, shape))) for i in {0, count // 2, count - 1}]


@pytest.mark.parametrize("name", sorted(BY_OP))
def test_an_element_of_any_op_has_the_value_and_the_gradients_of_the_tensor(name: str) -> None:
    for sample in BY_OP[name]:
        trace = recorded(sample)
        if trace is None:
            continue
        for node in trace:
            if node.is_leaf:
                continue
            for output, g in enumerate(trace.sweep.grads.get(node.index, [])):
                if g is None or not np.size(g):
                    continue
                for place in places(node.metas[output][0]):
                    check_element(trace, node.index, output, place, str(sample))


def check_element(trace: Trace, index: int, output: int, place: tuple[int, ...], what: str) -> None:
    node = trace.nodes[index]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        opened = gw.element(trace, index, place, output=output)
    root = opened.trace.sweep.root
    exact = node.op != "cast"  # to float32 and back
    np.testing.assert_allclose(
        opened.trace.nodes[root].value, opened.value, rtol=1e-9 if exact else 1e-6, atol=1e-12
    )
    assert opened.largest_difference < 1e-9, f"{what}: {opened}"
    g = trace.sweep.grads[index][output][place]
    assert opened.gradient == g or (np.isnan(g) and np.isnan(opened.gradient))
    if not np.isfinite(g):
        return
    # The same comparison once more, in the open: a one-hot gradient through the op's own rule.
    hots = [np.zeros(s, d) if np.dtype(d).kind == "f" else None for s, d in node.metas]
    hots[output][place] = g
    pulled = pull(trace, node, hots if len(hots) > 1 else hots[0])
    expected: dict[tuple[Edge, tuple[int, ...]], float] = defaultdict(float)
    for argument, given in zip(node.args, pulled, strict=True):
        if given is not None:
            for at in zip(*np.nonzero(given), strict=True) if np.ndim(given) else [()]:
                expected[argument, tuple(map(int, at))] += float(np.asarray(given)[at])
    found = {(Edge(i.node, i.output), i.index): i.contribution for i in opened.inputs}
    for key, contribution in expected.items():
        rounding = 1e-9 if exact else 1e-7  # what arrives at a float32 operand is a float32
        scale = rounding * float(max(1.0, abs(g), *map(abs, expected.values())))
        assert found.get(key, 0.0) == pytest.approx(contribution, rel=rounding, abs=scale), what


def test_an_element_of_a_matrix_product_is_a_dot_product() -> None:
    x = gw.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], dtype=gw.float64, requires_grad=True)
    w = gw.tensor([[1.0, -1.0], [2.0, 0.5], [0.0, 3.0]], dtype=gw.float64, requires_grad=True)
    x.label, w.label = "x", "w"
    with gw.record() as trace:
        y = x @ w
        y.label = "y"
        (y * y).sum().backward()
    opened = gw.element(trace, y, (1, 0))
    assert opened.name == opened.trace.name(opened.trace.root) == "y[1, 0]"
    assert opened.value == 14
    assert [n.op for n in opened.trace if n.op] == ["mul", "mul", "mul", "add", "add"]
    assert opened.gradient == 28
    assert {i.name: i.contribution for i in opened.inputs} == {
        "x[1, 0]": 28, "x[1, 1]": 56, "x[1, 2]": 0,
        "w[0, 0]": 112, "w[1, 0]": 140, "w[2, 0]": 168,
    }  # fmt: skip
    # dX = dY Wᵀ and dW = Xᵀ dY are the sums of such contributions over the elements of y.
    totals = {"x": np.zeros((2, 3)), "w": np.zeros((3, 2))}
    for place in np.ndindex(2, 2):
        for one in gw.element(trace, y, place).inputs:
            totals[one.name[0]][one.index] += one.contribution
    np.testing.assert_allclose(totals["x"], trace.grad(x))
    np.testing.assert_allclose(totals["w"], trace.grad(w))


def test_an_element_of_x_times_x_has_one_leaf_per_number() -> None:
    x = gw.tensor([[1.0, 2.0], [3.0, 4.0]], dtype=gw.float64, requires_grad=True)
    with gw.record() as trace:
        y = x @ x
        y.sum().backward()
    opened = gw.element(trace, y, (0, 0))
    assert len(opened.inputs) == 3, "x[0, 0] is used twice"
    assert opened.inputs[0].contribution == 2


def test_an_element_opened_can_be_asked_why() -> None:
    x = gw.tensor([1.0, 2.0, 3.0], dtype=gw.float64, requires_grad=True)
    x.label = "x"
    with gw.record() as trace:
        y = gw.softmax(x, 0)
        (y * gw.tensor([1.0, 0.0, 0.0], dtype=gw.float64)).sum().backward()
    opened = gw.element(trace, y, 0)
    found = gw.why("x[0]", opened.trace)
    assert found.gradient == pytest.approx(trace.grad(x)[0])
    assert found.path_count == 2, "above and below the fraction bar; the shift is a constant"
    assert float(gw.derive("x[0]", opened.trace).gradient) == found.gradient


def test_an_op_without_a_scalar_form_is_a_straight_line_and_says_so() -> None:
    x = gw.tensor([[2.0, 1.0], [1.0, 3.0]], dtype=gw.float64, requires_grad=True)
    with gw.record() as trace:
        y = gw.linalg.inv(x)
        y.sum().backward()
    opened = gw.element(trace, y, (0, 1))
    assert any("straight line" in note for note in opened.notes)
    assert opened.largest_difference < 1e-12
    assert opened.trace.nodes[opened.trace.sweep.root].value == pytest.approx(-0.2)


def test_a_graph_nobody_recorded_says_what_it_does_not_know() -> None:
    x = gw.tensor([1.0, 2.0], requires_grad=True)
    shifted = x * 3 + gw.tensor([1.0, 2.0])  # the sum keeps nothing for backward
    trace = gw.record((shifted * shifted).sum())
    with pytest.raises(NotReplayable, match="not recorded"):
        gw.element(trace, shifted, 0)
    with pytest.raises(NotReplayable, match="not recorded"):
        gw.nudge(x, 0.1, trace)
    assert any("not recorded" in note for note in gw.why(x, trace, element=0).notes)


def test_wrong_places_are_refused() -> None:
    x = gw.ones(2, 3, requires_grad=True)
    with gw.record() as trace:
        y = x * 2
        y.sum().backward()
    with pytest.raises(IndexError, match=r"shape \(2, 3\)"):
        gw.element(trace, y, (2, 0))
    with pytest.raises(IndexError):
        gw.element(trace, y, 1)
    with pytest.raises(ValueError, match="leaf"):
        gw.element(trace, x, (0, 0))
    with pytest.raises(ValueError, match="single numbers"):
        gw.element(gw.record(Value(1.0) * 2), 2, ())
    assert gw.element(trace, y, (-1, -1)).index == (1, 2)


@pytest.mark.parametrize("name", ["cnn", "gpt"])
def test_elements_of_the_real_models(name: str) -> None:
    network = NETWORKS[name]
    gw.manual_seed(0)
    model = network.model(gw)
    inputs, labels = network.batch(np.random.default_rng(0))
    inputs = inputs.astype(np.float32) if inputs.dtype.kind == "f" else inputs
    with gw.record(keep="all") as trace:
        F.cross_entropy(model(gw.tensor(inputs)), gw.tensor(labels)).backward()
    seen = set()
    for node in trace:
        if node.is_leaf or node.op in seen or node.index not in trace.sweep.grads:
            continue
        seen.add(node.op)
        place = tuple(n // 2 for n in node.shape)
        opened = gw.element(trace, node.index, place)
        assert opened.largest_difference < 1e-4, opened
        assert not any("straight line" in note for note in opened.notes), opened
        reached = opened.trace.nodes[opened.trace.sweep.root].value
        assert reached == pytest.approx(opened.value, rel=1e-4, abs=1e-5)
        assert all(len(line) <= 80 for line in str(opened).splitlines())
    assert len(seen) >= 7


def test_reports_read_and_travel() -> None:
    trace, _ = every_composite()
    index = next(n.index for n in trace if n.op == "attention")
    for report in (gw.open_op(trace, index), gw.element(trace, index, (0, 1, 2, 3))):
        assert all(len(line) <= 80 for line in str(report).splitlines())
        back = json.loads(json.dumps(report.to_dict()))
        assert back["op"] == "attention" and "_trace" not in back
