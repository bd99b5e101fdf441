"""why: contributions that sum to the gradient, by edge, by path, by loss term, by group."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import gradwalk as gw
from benchmarks.models import NETWORKS
from gradwalk import Value
from gradwalk.inspect.trace.replay import pull
from gradwalk.inspect.trace.trace import Trace
from gradwalk.scalar import MLP
from tests.engine.random_graphs import programs

SMALL = programs(tensors=False, kinks=True, longest=6)


def diamond() -> tuple[Value, Value]:
    a = Value(2.0, label="a")
    b, c = a + 1, 3 * a
    b.label, c.label = "b", "c"
    d = b * c
    d.label = "d"
    return a, d


def every_path(trace: Trace, start: int) -> list[tuple[float, tuple[int, ...]]]:
    """All paths to the root with their products, found the long way."""
    local = {index: pull(trace, trace.nodes[index], 1.0) for index in trace.sweep.visits}
    found = []
    open_ends = [(start, 1.0, (start,))]
    while open_ends:
        at, product, nodes = open_ends.pop()
        if at == trace.root:
            found.append((product, nodes))
        for consumer, position in trace.consumers[at]:
            factor = local[consumer][position]
            if factor is not None:
                open_ends.append((consumer, product * factor, (*nodes, consumer)))
    return found


# -- the textbook examples -------------------------------------------------------------------------


def test_the_diamond() -> None:
    a, d = diamond()
    found = gw.why(a, d)
    assert found.gradient == 15 and found.value == 2
    assert [(e.name, e.argument, e.amount, e.local, e.gradient) for e in found.edges] == [
        ("c", 1, 9.0, 3.0, 3.0),
        ("b", 0, 6.0, 1.0, 6.0),
    ]
    assert [(p.amount, p.names, p.factors) for p in found.paths] == [
        (9.0, ["a", "c", "d"], [3.0, 3.0]),
        (6.0, ["a", "b", "d"], [1.0, 6.0]),
    ]
    assert found.path_count == 2 and found.dead_path_count == 0
    assert found.cancellation == found.edge_cancellation == 1


def test_a_value_used_twice_has_two_edges() -> None:
    a = Value(3.0, label="a")
    found = gw.why(a, a * a)
    assert [(e.argument, e.amount, e.formula) for e in found.edges] == [
        (0, 3.0, "a"),
        (1, 3.0, "a"),
    ]
    assert found.gradient == 6 and found.path_count == 2


def test_the_neuron() -> None:
    x1, w1 = Value(2.0, label="x1"), Value(-3.0, label="w1")
    x2, w2 = Value(0.0, label="x2"), Value(1.0, label="w2")
    o = (x1 * w1 + x2 * w2 + Value(6.8813735870195432, label="b")).tanh()
    for leaf, gradient in ((x1, -1.5), (w1, 1.0), (w2, 0.0), (x2, 0.5)):
        found = gw.why(leaf, o)
        assert found.gradient == pytest.approx(gradient, abs=1e-12)
        assert found.paths[0].amount == pytest.approx(gradient, abs=1e-12)
    assert gw.why(x1, o).paths[0].factors == pytest.approx([-3, 1, 1, 0.5])


def test_the_loss_itself_and_an_inner_node() -> None:
    _, d = diamond()
    found = gw.why(d, d)
    assert found.gradient == 1 and found.path_count == 1
    assert [e.name for e in found.edges] == ["backward() starts here"]
    assert gw.why("c", d).gradient == 3


# -- properties ------------------------------------------------------------------------------------


@given(programs(tensors=False, kinks=True, longest=15), st.data())
def test_contributions_sum_to_the_gradient(program: Any, data: Any) -> None:
    nodes = program.nodes(gw, [Value(x) for x in program.leaves])
    trace = gw.record(nodes[-1])
    for x in nodes:
        if trace.lookup(x) is None:
            continue
        found = gw.why(x, trace)
        scale = sum(abs(e.amount) for e in found.edges)
        assert math.fsum(e.amount for e in found.edges) == pytest.approx(
            found.gradient, rel=1e-12, abs=1e-12 * scale
        )
        for edge in found.edges:
            if edge.local is not None and edge.gradient is not None:
                product = edge.local * edge.gradient
                assert product == pytest.approx(edge.amount, rel=1e-12, abs=1e-300)
        if found.terms:
            scale = sum(abs(t.amount) for t in found.terms)
            assert math.fsum(t.amount for t in found.terms) == pytest.approx(
                found.gradient, rel=1e-11, abs=1e-11 * scale
            )
        assert not found.notes


@given(SMALL, st.integers(1, 6))
def test_the_largest_paths_are_those_of_brute_force(program: Any, top: int) -> None:
    leaves = [Value(x) for x in program.leaves]
    root = program(gw, leaves)
    trace = gw.record(root)
    for leaf in leaves:
        start = trace.lookup(leaf)
        if start is None:
            continue
        every = every_path(trace, start)
        if len(every) > 3000:
            continue
        found = gw.why(leaf, trace, top=top)
        assert found.path_count == len(every)
        sizes = sorted((abs(product) for product, _ in every), reverse=True)
        assert [abs(p.amount) for p in found.paths] == pytest.approx(sizes[:top], rel=1e-12)
        total = math.fsum(sizes)
        products: dict[tuple[int, ...], list[float]] = {}
        for product, nodes in every:
            products.setdefault(nodes, []).append(product)
        for path in found.paths:
            assert math.prod(path.factors) == pytest.approx(path.amount, rel=1e-12)
            same = products[tuple(path.nodes)]
            assert any(path.amount == pytest.approx(p, rel=1e-12, abs=1e-300) for p in same)
        if found.gradient:
            assert found.cancellation == pytest.approx(
                max(total / abs(found.gradient), 1.0), rel=1e-9
            )
        dead = sum(1 for product, _ in every if product == 0)
        assert found.dead_path_count == dead


@given(SMALL)
def test_all_paths_together_are_the_gradient(program: Any) -> None:
    leaves = [Value(x) for x in program.leaves]
    trace = gw.record(program(gw, leaves))
    start = trace.lookup(leaves[0])
    if start is None or gw.why(start, trace).path_count > 500:
        return
    found = gw.why(start, trace, top=500)
    scale = sum(abs(p.amount) for p in found.paths)
    assert math.fsum(p.amount for p in found.paths) == pytest.approx(
        found.gradient, rel=1e-12, abs=1e-12 * scale
    )


# -- size ------------------------------------------------------------------------------------------


def test_a_graph_with_more_paths_than_anyone_can_list() -> None:
    x = Value(1.0, label="x")
    y = x
    for _ in range(60):
        y = y + y
    found = gw.why(x, y, top=3)
    assert found.path_count == 2**60
    assert found.gradient == 2.0**60 and found.cancellation == 1
    assert len(found.paths) == 3 and all(p.amount == 1 for p in found.paths)
    assert len({tuple(p.arguments) for p in found.paths}) == 3, "three different paths"


@pytest.mark.slow
def test_a_hundred_thousand_nodes() -> None:
    x = Value(1.0, label="x")
    y = x
    for i in range(43_000):
        y = (y + y) * 0.5 if i % 3 else y * y
    trace = gw.record(y)
    assert len(trace) > 100_000
    found = gw.why(x, trace)
    assert found.path_count == 2**43_000
    assert len(found.paths) == 5
    assert str(found)


def test_products_beyond_the_range_of_floats_are_still_ranked() -> None:
    x = Value(1.0, label="x")
    small, smaller = x * 1.0, x * 1.0
    for _ in range(500):
        small, smaller = small * 0.1, smaller * 0.09
    found = gw.why(x, small + smaller, top=1)
    assert found.paths[0].amount == 0, "1e-500 is no float"
    assert found.paths[0].factors.count(0.1) == 500


# -- by loss term ----------------------------------------------------------------------------------


def test_the_terms_of_a_mean_and_a_penalty() -> None:
    w = Value(0.5, label="w")
    errors = [(w * x - y) ** 2 for x, y in ((1.0, 2.0), (2.0, 1.0), (3.0, 5.0))]
    penalty = 0.1 * (w * w)
    penalty.label = "penalty"
    loss = sum(errors) * (1 / 3) + penalty
    found = gw.why(w, loss)
    expected = [2 * (0.5 * x - y) * x / 3 for x, y in ((1.0, 2.0), (2.0, 1.0), (3.0, 5.0))]
    by_name = {t.name: t.amount for t in found.terms}
    assert by_name.pop("penalty") == pytest.approx(0.1)
    assert sorted(by_name.values()) == pytest.approx(sorted(expected))
    assert sum(t.amount for t in found.terms) == pytest.approx(found.gradient, rel=1e-14)


def test_a_loss_that_is_no_sum_has_no_terms() -> None:
    a, d = diamond()
    assert gw.why(a, d).terms == []


@pytest.mark.slow
def test_the_terms_of_a_network_of_values() -> None:
    gw.manual_seed(0)
    model = MLP(2, [8, 8, 1])
    losses = [(1 - y * model([x, -x])).relu() for x, y in ((0.3, 1), (-0.8, -1), (0.5, -1))]
    loss = sum(losses) * (1 / 3) + 1e-3 * sum(p * p for p in model.parameters())
    trace = gw.record(loss)
    for parameter in model.parameters()[:6]:
        found = gw.why(parameter, trace)
        assert sum(t.amount for t in found.terms) == pytest.approx(found.gradient, rel=1e-12)


# -- by hand, by hook ------------------------------------------------------------------------------


def test_a_value_with_its_own_backward() -> None:
    a = Value(3.0, label="a")
    out = Value(9.0, (a,), "my square")

    def push() -> None:
        a.grad += 6.0 * out.grad

    out._backward = push
    found = gw.why(a, out * 2)
    assert found.gradient == 12
    assert found.edges[0].local == pytest.approx(6) and found.paths[0].factors == [6.0, 2.0]


def test_without_a_gradient_the_error_names_the_tool_that_explains() -> None:
    x = gw.tensor([1.0], requires_grad=True)
    with gw.record():
        unused = x * 2
        (x * 3).sum().backward()
    with pytest.raises(ValueError, match="why_no_grad"):
        gw.why(unused)


def test_a_hook_that_changes_the_gradient_is_noticed() -> None:
    x = gw.tensor([1.0, 2.0], requires_grad=True)
    x.register_hook(lambda g: g * 10)
    with gw.record() as trace:
        (x * x).sum().backward()
    (note,) = (n for n in gw.why(x, trace).notes if "hook" in n)
    assert "do not add up to the gradient" in note


def test_the_terms_of_a_loss_that_splits_its_input() -> None:
    x = gw.tensor([1.0, 2.0, 3.0], dtype=gw.float64, requires_grad=True)
    with gw.record() as trace:
        first, second = x.chunk(2)  # two elements, and one
        (first.sum() + 2 * second.sum()).backward()
    found = gw.why(x, trace)
    assert np.array_equal(sum(t.amount for t in found.terms), found.gradient)
    assert found.gradient.tolist() == [1.0, 1.0, 2.0]


# -- tensors ---------------------------------------------------------------------------------------


@pytest.mark.slow
@given(programs(tensors=True, kinks=True), st.data())
def test_contributions_of_tensors_sum_to_the_gradient(program: Any, data: Any) -> None:
    leaves = [gw.tensor(x, dtype=gw.float64, requires_grad=True) for x in program.leaves]
    with gw.record(keep="all") as trace:
        out = program(gw, leaves).sum()
        if not out.requires_grad:
            return
        out.backward()
    for leaf in leaves:
        index = trace.lookup(leaf)
        if index is None or trace.sweep.grad(index) is None:
            continue
        found = gw.why(leaf, trace)
        total = sum(np.asarray(e.amount) for e in found.edges)
        scale = 1e-12 * (1 + sum(e.norm for e in found.edges))
        np.testing.assert_allclose(total, found.gradient, rtol=1e-12, atol=scale)
        if found.terms:
            split = sum(np.asarray(t.amount) for t in found.terms)
            near = 1e-9 * (1 + sum(t.norm for t in found.terms))
            np.testing.assert_allclose(split, found.gradient, rtol=1e-9, atol=near)
        if leaf.numel():
            check_element(trace, leaf, data)


def check_element(trace: Trace, leaf: Any, data: Any) -> None:
    """One element: edges, terms and, where they are few, paths add up to it."""
    place = tuple(data.draw(st.integers(0, n - 1)) for n in leaf.shape)
    one = gw.why(leaf, trace, element=place, top=200)
    assert one.gradient == trace.grad(leaf)[place]
    scale = 1 + sum(abs(e.amount) for e in one.edges)
    assert sum(e.amount for e in one.edges) == pytest.approx(one.gradient, abs=1e-12 * scale)
    if one.terms:
        scale = 1 + sum(abs(t.amount) for t in one.terms)
        assert sum(t.amount for t in one.terms) == pytest.approx(one.gradient, abs=1e-9 * scale)
    if one.paths and one.path_count <= 200:
        scale = 1 + sum(abs(p.amount) for p in one.paths)
        assert sum(p.amount for p in one.paths) == pytest.approx(one.gradient, abs=1e-9 * scale)


def two_layers() -> tuple[Any, Any, Trace]:
    gw.manual_seed(1)
    model = gw.nn.Sequential(gw.nn.Linear(3, 4), gw.nn.Tanh(), gw.nn.Linear(4, 2)).to(gw.float64)
    x = gw.randn(5, 3, dtype=gw.float64)
    with gw.record() as trace:
        loss = gw.nn.functional.cross_entropy(model(x), gw.tensor([0, 1, 1, 0, 1]))
        loss.backward()
    return model, loss, trace


def test_one_weight_of_a_small_network_is_split_into_its_paths() -> None:
    model, loss, _ = two_layers()
    found = gw.why(model[0].weight, loss, element=(2, 1), top=1000)
    assert found.name == "0.weight[2, 1]"
    assert found.path_count == len(found.paths) > 5
    assert sum(p.amount for p in found.paths) == pytest.approx(found.gradient, rel=1e-9)
    assert [p.names[0] for p in found.paths[:2]] == ["0.weight[2, 1]"] * 2
    assert len(found.terms) == 5, "one for every row of the batch"
    assert sum(t.amount for t in found.terms) == pytest.approx(found.gradient, rel=1e-12)
    assert found.cancellation >= 1


def test_groups_are_the_modules_a_tied_weight_is_used_in() -> None:
    gw.manual_seed(0)

    class Tied(gw.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.tokens = gw.nn.Embedding(7, 4)
            self.head = gw.nn.Linear(4, 7, bias=False)
            self.head.weight = self.tokens.weight

        def forward(self, x: Any) -> Any:
            return self.head(self.tokens(x))

    model = Tied()
    with gw.record() as trace:
        gw.nn.functional.cross_entropy(model(gw.tensor([1, 2, 3])), gw.tensor([2, 3, 4])).backward()
    found = gw.why(model.tokens.weight, trace)
    assert {g.name for g in found.groups} == {"tokens", "head"}
    np.testing.assert_allclose(
        sum(g.amount for g in found.groups), found.gradient, rtol=1e-5, atol=1e-7
    )
    assert found.cancellation > 1


def test_calls_of_one_module_are_told_apart() -> None:
    cell = gw.nn.Linear(2, 2)
    with gw.record():
        h = gw.ones(1, 2)
        for _ in range(3):
            h = cell(h).tanh()
        h.sum().backward()
    names = {g.name for g in gw.why(cell.weight).groups}
    assert names == {"Linear", "Linear (call 2)", "Linear (call 3)"}


def test_an_output_of_an_op_with_several() -> None:
    x = gw.arange(6, dtype=gw.float64, requires_grad=True)
    with gw.record() as trace:
        first, second = x.split(3)
        ((first * 2).sum() + (second * second).sum()).backward()
    np.testing.assert_array_equal(gw.why(second, trace).gradient, [6, 8, 10])
    assert [e.op for e in gw.why(second, trace).edges] == ["mul", "mul"]
    assert [e.op for e in gw.why(first, trace).edges] == ["mul"]


def test_a_recording_that_kept_little_still_gives_exact_answers() -> None:
    gw.manual_seed(0)
    model = gw.nn.Sequential(gw.nn.Linear(8, 8), gw.nn.ReLU(), gw.nn.Linear(8, 4))
    x = gw.randn(6, 8)
    answers = []
    for keep in ("all", "values"):
        with gw.record(keep=keep) as trace:
            h = model[0](x)
            ((model[2](model[1](h)) ** 2).mean() + (h * h).sum()).backward()
        answers.append(gw.why(h, trace))
    one, other = answers
    assert len(one.edges) == len(other.edges) == 3
    for first, second in zip(one.edges, other.edges):
        np.testing.assert_allclose(first.amount, second.amount, rtol=1e-5, atol=1e-7)
    with gw.record(keep="stats") as trace:
        (model(x) ** 2).mean().backward()
    known = gw.why(model[0].weight, trace)
    assert known.edges[0].amount is None and known.edges[0].norm > 0
    assert any("size only" in note for note in known.notes)


# -- the models of the Networks issue --------------------------------------------------------------


@pytest.mark.parametrize("name", ["cnn", "gpt"])
def test_the_real_models(name: str) -> None:
    network = NETWORKS[name]
    gw.manual_seed(0)
    model = network.model(gw)
    inputs, labels = network.batch(np.random.default_rng(0))
    inputs = inputs.astype(np.float32) if inputs.dtype.kind == "f" else inputs
    with gw.record(keep="all") as trace:
        loss = gw.nn.functional.cross_entropy(model(gw.tensor(inputs)), gw.tensor(labels))
        loss.backward()
    for parameter in model.parameters():
        found = gw.why(parameter, trace)
        total = sum(np.asarray(e.amount, np.float64) for e in found.edges)
        np.testing.assert_allclose(total, parameter.grad.numpy(), rtol=1e-4, atol=1e-6 * found.norm)
    first = next(iter(model.parameters()))
    place = (3,) + (0,) * (first.ndim - 1)
    one = gw.why(first, trace, element=place)
    assert len(one.terms) == len(labels.reshape(-1))
    assert sum(t.amount for t in one.terms) == pytest.approx(one.gradient, rel=1e-3)
    if name == "gpt":
        ways = (1 + 3) * (1 + 1)  # past the attention or through q, k or v; past the MLP or in
        assert one.path_count == ways**4, "four blocks"
        branch = next(n.index for n in trace if n.op == "add" and len(trace.consumers[n.index]) > 1)
        assert len(gw.why(branch, trace).groups) == 2
    assert all(len(line) <= 80 for line in str(one).splitlines())


# -- the report ------------------------------------------------------------------------------------


def test_the_report_reads_and_travels() -> None:
    a, d = diamond()
    _, _, trace = two_layers()
    reports = [
        gw.why(a, d),
        gw.why("0.weight", trace),
        gw.why("0.weight", trace, element=(0, 0)),
    ]
    for report in reports:
        text = str(report)
        assert all(len(line) <= 80 for line in text.splitlines()), text
        assert text.startswith("gradient of")
        back = json.loads(json.dumps(report.to_dict()))
        assert back["name"] == report.name and back["edges"]
        assert "<pre" in report._repr_html_()


@pytest.mark.parametrize("top", [-1, None, 2.5, "all"])
def test_top_is_a_whole_number(top: Any) -> None:
    a = Value(3.0)
    with pytest.raises(ValueError, match="how many paths"):
        gw.why(a, a * a, top=top)


def test_no_fault_is_seen_where_differences_cannot_tell() -> None:
    """At the edge of a domain, in large numbers, at infinities: nothing is wrong there."""
    for make in (
        lambda x: (x + 1e-7).log(),
        lambda x: (x + 1e-9) ** -1,
        lambda x: (x + 1e12) * 1e-3,
        lambda x: x * 1e13 * 1e-13 + (x + 1e15),
        lambda x: (x * 0) / x,
        lambda x: abs(x) + x.relu(),
    ):
        x = Value(0.0)
        assert gw.why(x, make(x)).notes == []
