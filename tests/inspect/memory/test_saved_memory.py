"""saved_memory and its planner: predictions are checked against what a run really keeps."""

import itertools
import json
import math
from functools import partial
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

import gradwalk as gw
from benchmarks.models import NETWORKS, start
from gradwalk import nn
from gradwalk.inspect.memory.checkpoint_planner import _cheapest, _peak, _units
from gradwalk.inspect.memory.saved_memory import SavedMemory, SavedMeter, saved_memory
from gradwalk.inspect.trace.array_statistics import in_bytes

pytestmark = pytest.mark.slow  # `make quick` leaves it out

cross_entropy = nn.functional.cross_entropy


def network(name: str) -> tuple[Any, Any, Any]:
    model, inputs, labels = start(gw, NETWORKS[name], "float32")
    return model, gw.tensor(inputs), gw.tensor(labels)


def tanh_layers(count: int = 20, width: int = 32) -> Any:
    gw.manual_seed(0)
    parts = (nn.Sequential(nn.Linear(width, width), nn.Tanh()) for _ in range(count))
    return nn.Sequential(*parts)


def measured(run: Any) -> int:
    with SavedMeter() as meter:
        run().backward()
    return meter.peak


# -- what is kept ----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", sorted(NETWORKS))
def test_the_total_is_that_of_the_engine_and_of_a_measured_run(name: str) -> None:
    model, x, y = network(name)
    loss = cross_entropy(model(x), y)
    kept = gw.saved_bytes(loss)
    assert saved_memory(loss).total == kept
    with gw.record() as trace:
        cross_entropy(model(x), y).backward()
    memory = saved_memory(trace)
    assert memory.total == memory.peak == kept
    assert sum(memory.by_module.values()) == sum(memory.by_line.values()) == kept
    assert sum(memory.by_op.values()) == kept
    assert measured(lambda: cross_entropy(model(x), y)) == kept


def test_modules_lines_and_names() -> None:
    model = nn.Sequential(nn.Linear(100, 50), nn.Tanh(), nn.Linear(50, 1))
    with gw.record():
        model(gw.ones(10, 100)).sum().backward()
    memory = saved_memory()  # of the recording that was just made
    assert memory.by_module["0"] == 4000 and memory.by_module["1"] == 2000
    assert memory.by_module["2"] == 0  # its input is what tanh keeps already
    tanh = next(node for node in memory.nodes if node.op == "tanh")
    assert tanh.keeps == {"out": 2000} and tanh.module == "1"
    (line,) = (key for key, size in memory.by_line.items() if size)
    assert "model(gw.ones(10, 100)).sum().backward()" in line
    assert json.dumps(memory.to_dict())
    assert len(list(ElementTree.fromstring(memory.svg(5000)).iter())) > 5
    assert "<svg" in memory._repr_html_()
    assert all(len(row) <= 80 for row in str(memory).splitlines())


def test_memory_that_several_nodes_keep_counts_once() -> None:
    x = gw.ones(1000, requires_grad=True)
    h = x.tanh()
    memory = saved_memory((h * h).sum() + h.exp().sum())
    assert memory.total == 8000  # h, kept by three nodes, and exp(h)


def test_views_share_the_memory_of_their_base() -> None:
    x = gw.ones(10, 100, requires_grad=True)
    h = x.tanh()
    loss = (h.T.reshape(100, 10).square() + h.view(1000)[:10].exp().sum()).sum()
    assert saved_memory(loss).total == gw.saved_bytes(loss)
    with gw.record() as trace:
        h = x.tanh()
        (h.T.square()).sum().backward()
    assert saved_memory(trace).total == 4000


def test_live_bytes_over_time() -> None:
    model = tanh_layers(4, 16)
    x = gw.ones(8, 16)
    one = 8 * 16 * 4
    with gw.record() as trace:
        model(x).sum().backward()
    timeline = saved_memory(trace).timeline
    forward = [m.bytes for m in timeline if m.phase == "forward"]
    backward = [m.bytes for m in timeline if m.phase == "backward"]
    assert forward == [one, 2 * one, 2 * one, 3 * one, 3 * one, 4 * one, 4 * one, 5 * one, 5 * one]
    assert backward == sorted(backward, reverse=True)
    assert backward[0] == 5 * one and backward[-1] == one


def test_a_checkpointed_recording() -> None:
    model = tanh_layers(6, 16)
    x = gw.ones(8, 16)
    one = 8 * 16 * 4

    def loss() -> Any:
        h = gw.checkpoint(model[0:3], x)
        return gw.checkpoint(model[3:6], h).sum()

    with gw.record() as trace:
        live = loss()
        kept = gw.saved_bytes(live)
        live.backward()
    memory = saved_memory(trace)
    assert memory.total == kept == 2 * one
    assert memory.peak == 5 * one == measured(loss)
    assert [n.checkpointed for n in memory.nodes] == [True] * 12 + [False]
    assert saved_memory(loss()).total == kept
    with pytest.raises(ValueError, match="has checkpointed regions already"):
        memory.plan(10**9)


def test_a_trace_from_a_file_is_worked_out_from_the_rules(tmp_path: Path) -> None:
    model = nn.Sequential(nn.Linear(20, 30), nn.Tanh(), nn.Linear(30, 30), nn.ReLU())
    with gw.record() as trace:
        model(gw.ones(5, 20)).square().mean().backward()
    gw.save_trace(trace, tmp_path / "a.trace")
    loaded = gw.load_trace(tmp_path / "a.trace")
    here, there = saved_memory(trace), saved_memory(loaded)
    assert here.total == there.total and here.by_module == there.by_module
    assert there.notes or loaded.saved  # it says that it was worked out


def test_numbers_are_refused() -> None:
    a = gw.Value(2.0)
    with pytest.raises(TypeError, match="about arrays"):
        saved_memory(a * a)


# -- Jacobians and time ----------------------------------------------------------------------------


def test_the_jacobian_of_the_mission() -> None:
    """A dense layer with N = 64 and D = M = 4096 in float32: 256 GiB."""
    x = gw.zeros(64, 4096, requires_grad=True)
    weight = gw.zeros(4096, 4096, requires_grad=True)
    x.label, weight.label = "x", "W"
    with gw.record(keep="stats") as trace:
        (x @ weight).sum()
    memory = saved_memory(trace)
    product = next(node for node in memory.nodes if node.op == "matmul")
    assert product.jacobians["x"] == 256 * 2**30
    assert memory.jacobian == 256 * 2**30
    assert in_bytes(product.jacobian) == "256 GiB"
    assert "largest Jacobian avoided: 256 GiB (matmul" in str(memory)


def test_elementwise_jacobians_are_masks() -> None:
    memory = saved_memory(gw.ones(100, requires_grad=True).relu().sum())
    relu, total = memory.nodes
    assert relu.diagonal and not total.diagonal
    assert relu.jacobian == 100 * 100 * 4 and memory.jacobian == 100 * 4


def test_forward_and_backward_are_timed_side_by_side() -> None:
    model, x, y = network("mlp")
    with gw.record(timing=True) as trace:
        cross_entropy(model(x), y).backward()
    memory = saved_memory(trace)
    assert all(node.forward and node.backward for node in memory.nodes)
    costs = memory.costs()
    assert set(costs) == {node.op for node in memory.nodes}
    assert all(forward > 0 and backward > 0 for forward, backward in costs.values())
    # Two of the layers do the same work once forward and twice backward.
    assert "forward  backward" in str(memory)
    with gw.record() as trace:
        cross_entropy(model(x), y).backward()
    assert saved_memory(trace).costs() == {} and not trace.seconds


# -- the planner -----------------------------------------------------------------------------------


def recorded(run: Any) -> SavedMemory:
    with gw.record() as trace:
        run().backward()
    return saved_memory(trace)


def near(predicted: int, real: int) -> bool:
    return abs(predicted - real) <= 0.05 * real


@pytest.mark.parametrize("share", [1.0, 0.9, 0.75, 0.6, 0.5, 0.4, 0.36])
def test_a_plan_for_a_chain_keeps_to_its_budget(share: float) -> None:
    model = tanh_layers()
    x = gw.randn(64, 32)
    memory = recorded(lambda: model(x).square().mean())
    budget = int(share * memory.peak)
    plan = memory.plan(budget)
    real = measured(lambda: plan.run(model, x).square().mean())
    assert real <= budget and plan.peak <= budget
    assert near(plan.peak, real)
    assert plan.without == memory.peak
    assert bool(plan.segments) == (share < 1.0)


def test_a_plan_changes_no_gradient_and_costs_more_for_less() -> None:
    model = tanh_layers()
    x = gw.randn(64, 32)
    memory = recorded(lambda: model(x).square().mean())
    expected = [p.grad.clone() for p in model.parameters()]
    costs = []
    for share in (0.9, 0.7, 0.5, 0.4):
        plan = memory.plan(int(share * memory.peak))
        model.zero_grad()
        plan.run(model, x).square().mean().backward()
        for p, g in zip(model.parameters(), expected, strict=True):
            assert bool((p.grad == g).all())
        costs.append(plan.recomputed)
        assert all(len(row) <= 80 for row in str(plan).splitlines())
    assert costs == sorted(costs) and 0 < costs[0] < costs[-1] < 1 / 3


@pytest.mark.parametrize("share", [0.8, 0.6, 0.4, 0.3])
def test_a_plan_for_the_blocks_of_a_transformer(share: float) -> None:
    model, tokens, y = network("gpt")
    memory = recorded(lambda: cross_entropy(model(tokens), y))
    plan = memory.plan(int(share * memory.peak))
    assert [name for name in plan.units if name.startswith("blocks")] == [
        f"blocks.{k}" for k in range(4)
    ]

    def embed(numbers: Any) -> Any:
        return model.tokens(numbers) + model.positions(gw.arange(numbers.shape[1]))

    steps = {"tokens": embed} | {f"blocks.{k}": block for k, block in enumerate(model.blocks)}
    names = list(steps)

    def chain(several: list[str], x: Any) -> Any:
        for name in several:
            x = steps[name](x)
        return x

    def run() -> Any:
        starts = {s.modules[0]: s.modules[-1] for s in plan.segments}
        x, at = tokens, 0
        while at < len(names):
            last = names.index(starts.get(names[at], names[at]))
            several = names[at : last + 1]
            wrapped = names[at] in starts
            x = gw.checkpoint(chain, several, x) if wrapped else chain(several, x)
            at = last + 1
        return cross_entropy(model.head(model.norm(x)).view(-1, 65), y)

    real = measured(run)
    assert real <= plan.budget and near(plan.peak, real)


@pytest.mark.parametrize("share", [0.95, 0.85, 0.75])
def test_a_plan_for_a_convolutional_network(share: float) -> None:
    model, x, y = network("cnn")
    memory = recorded(lambda: cross_entropy(model(x), y))
    plan = memory.plan(int(share * memory.peak))
    real = measured(lambda: cross_entropy(plan.run(model, x), y))
    assert plan.segments and real <= plan.budget and near(plan.peak, real)


def test_dropout_is_replayed_in_a_planned_run() -> None:
    gw.manual_seed(0)
    model = nn.Sequential(
        *(nn.Sequential(nn.Linear(32, 32), nn.ReLU(), nn.Dropout(0.2)) for _ in range(8))
    )
    x = gw.randn(64, 32)
    memory = recorded(lambda: model(x).sum())
    plan = memory.plan(int(0.6 * memory.peak))

    def gradients(run: Any) -> list[Any]:
        gw.manual_seed(5)
        model.zero_grad()
        run().sum().backward()
        return [p.grad.clone() for p in model.parameters()]

    real = measured(lambda: plan.run(model, x).sum())
    assert real <= plan.budget and near(plan.peak, real)
    plain, planned = gradients(lambda: model(x)), gradients(lambda: plan.run(model, x))
    assert all(bool((a == b).all()) for a, b in zip(plain, planned, strict=True))


@pytest.mark.parametrize("widths", [(8, 64, 8, 64, 8, 8), (64, 32, 16, 8, 16, 32), (16,) * 7])
def test_no_cheaper_plan_exists(widths: tuple[int, ...]) -> None:
    """All ways to cut a short chain are played through, and the planner's is the cheapest."""
    gw.manual_seed(0)
    sizes = list(itertools.pairwise((16, *widths)))
    model = nn.Sequential(*(nn.Sequential(nn.Linear(a, b), nn.Tanh()) for a, b in sizes))
    x = gw.randn(32, 16)
    memory = recorded(lambda: model(x).sum())
    units = _units(memory._trace, memory._saving, timed=False)
    count = len(model)
    assert [u.name for u in units[:count]] == [str(k) for k in range(count)]
    ways = []
    for marks in itertools.product("kcn", repeat=count):  # kept, continues a segment, begins one
        ranges: list[tuple[int, int]] = []
        for at, mark in enumerate(marks):
            if mark == "n":
                ranges.append((at, at))
            elif mark == "c":
                if not ranges or ranges[-1][1] != at - 1:
                    break
                ranges[-1] = (ranges[-1][0], at)
        else:
            cost = sum(units[k].cost for a, b in ranges for k in range(a, b + 1))
            ways.append((cost, _peak(memory._saving, units, ranges)))
    for share in (0.9, 0.8, 0.7, 0.6):
        budget = int(share * memory.peak)
        possible = [cost for cost, peak in ways if peak <= budget]
        ranges = _cheapest(memory._saving, units, budget)
        if ranges is None:
            assert not possible
            continue
        cost = sum(units[k].cost for a, b in ranges for k in range(a, b + 1))
        assert _peak(memory._saving, units, ranges) <= budget
        assert math.isclose(cost, min(possible))


def test_a_budget_that_is_too_small_says_what_is_possible() -> None:
    model = tanh_layers(12)
    x = gw.randn(64, 32)
    memory = recorded(lambda: model(x).sum())
    with pytest.raises(ValueError, match=r"no checkpoints of these 12 modules get below") as caught:
        memory.plan(memory.peak // 10)
    number, unit = str(caught.value).split("below ")[1].split(";")[0].split()
    least = float(number) * 1024 ** ("B", "KiB", "MiB").index(unit)
    plan = memory.plan(int(least * 1.01))
    assert measured(lambda: plan.run(model, x).sum()) <= least * 1.01
    with pytest.raises(ValueError, match="no checkpoints of these"):
        memory.plan(0)


def test_modules_called_one_by_one_are_planned_as_well() -> None:
    layers = list(tanh_layers(10))
    x = gw.randn(64, 32)

    def run() -> Any:
        h = x
        for layer in layers:
            h = layer(h)
        return h.sum()

    memory = recorded(run)
    plan = memory.plan(int(0.6 * memory.peak))
    assert len(plan.units) == 10
    real = measured(lambda: plan.run(layers, x).sum())
    assert real <= plan.budget and near(plan.peak, real)


def test_run_refuses_what_was_not_planned() -> None:
    model = tanh_layers(6)
    x = gw.randn(64, 32)
    memory = recorded(lambda: model(x).sum())
    plan = memory.plan(int(0.7 * memory.peak))
    with pytest.raises(ValueError, match="covers 6 modules"):
        plan.run(model[:3], x)
    layers = nn.ModuleList(nn.Linear(32, 32) for _ in range(6))

    def between() -> Any:
        h = x
        for layer in layers:
            h = layer(h).tanh()
        return h.sum()

    memory = recorded(between)
    plan = memory.plan(int(0.7 * memory.peak))
    assert plan.segments and plan.peak <= plan.budget
    with pytest.raises(ValueError, match="computes something else between"):
        plan.run(layers, x)


def test_what_is_between_the_modules_may_be_wrapped_by_hand() -> None:
    layers = nn.ModuleList(nn.Linear(32, 32) for _ in range(10))
    x = gw.randn(64, 32)

    def part(first: int, last: int, h: Any) -> Any:
        for layer in layers[first : last + 1]:
            h = layer(h)
            if layer is not layers[last]:
                h = h.tanh()
        return h

    memory = recorded(lambda: part(0, 9, x).sum())
    plan = memory.plan(int(0.6 * memory.peak))

    def run() -> Any:
        h, at = x, 0
        starts = {s.first: s.last for s in plan.segments}
        while at < 10:
            last = starts.get(at, at)
            h = gw.checkpoint(partial(part, at, last), h) if at in starts else layers[at](h)
            h, at = (h.tanh() if last < 9 else h), last + 1
        return h.sum()

    real = measured(run)
    assert real <= plan.budget and near(plan.peak, real)


def test_a_part_of_a_model_is_run_under_its_name() -> None:
    model, tokens, y = network("gpt")
    memory = recorded(lambda: cross_entropy(model(tokens), y))
    plan = memory.plan(int(0.6 * memory.peak))
    assert [str(segment) for segment in plan.segments] == ["blocks.0 … blocks.1"]

    def run() -> Any:
        x = model.tokens(tokens) + model.positions(gw.arange(tokens.shape[1]))
        x = plan.run(model.blocks, x, under="blocks")
        return cross_entropy(model.head(model.norm(x)).view(-1, 65), y)

    real = measured(run)
    assert real <= plan.budget and near(plan.peak, real)


def test_time_is_used_where_it_was_measured() -> None:
    model = tanh_layers()
    x = gw.randn(64, 32)
    with gw.record(timing=True) as trace:
        model(x).sum().backward()
    memory = saved_memory(trace)
    plan = memory.plan(memory.peak // 2)
    assert plan.timed and 0 < plan.recomputed < 1
    again = sum(segment.cost for segment in plan.segments)
    whole = sum(trace.seconds.values()) + sum(trace.sweep.seconds.values())
    assert math.isclose(plan.recomputed, again / whole, rel_tol=0.02)
    assert json.dumps(plan.to_dict())


def test_a_long_chain_is_planned_quickly() -> None:
    model = tanh_layers(150, 8)
    x = gw.randn(4, 8)
    memory = recorded(lambda: model(x).sum())
    plan = memory.plan(memory.peak // 3)
    real = measured(lambda: plan.run(model, x).sum())
    assert real <= plan.budget and near(plan.peak, real)


def test_the_meter_follows_memory_not_nodes() -> None:
    x = gw.ones(1000, requires_grad=True)
    with SavedMeter() as meter:
        h = x.tanh()
        assert meter.live == 4000
        loss = (h * h).sum()
        assert meter.live == 4000  # the same array, kept twice
        loss.backward()
        del loss
        assert meter.live == 4000  # h is still there
        del h
        assert meter.live == 0
    assert meter.peak == 4000


def test_labels_that_the_program_holds_count_until_the_end() -> None:
    """A plan whose peak is its budget stays within it, although the labels are never freed.

    The first module is in no plan: no gradient goes through it.
    """
    gw.manual_seed(0)
    model = nn.Sequential(
        *(nn.Conv2d(4, 4, 3, padding=1) if k % 2 else nn.ReLU() for k in range(12)),
        nn.Flatten(),
        nn.Linear(256, 10),
    )
    x, y = gw.randn(64, 4, 8, 8), gw.randint(0, 10, (64,))
    with gw.record() as trace:
        cross_entropy(model(x), y).backward()
    memory = saved_memory(trace)
    for share in (0.8, 0.6):
        budget = memory.plan(int(memory.peak * share)).peak
        plan = memory.plan(budget)
        with SavedMeter() as meter:
            cross_entropy(plan.run(model, x), y).backward()
        assert meter.peak <= plan.peak <= budget
        assert plan.peak <= 1.05 * meter.peak


def test_the_smallest_budget_that_is_named_is_one_that_is_enough() -> None:
    gw.manual_seed(0)
    model = nn.Sequential(*(nn.Sequential(nn.Linear(64, 64), nn.Tanh()) for _ in range(12)))
    with gw.record() as trace:
        model(gw.randn(256, 64)).square().mean().backward()
    memory = saved_memory(trace)
    with pytest.raises(ValueError, match="get below 384 KiB"):
        memory.plan(budget=10_000)
    assert memory.plan(budget=384 * 1024).peak == 384 * 1024
    with pytest.raises(TypeError, match="a number of bytes"):
        memory.plan(budget="64 MB")
    with pytest.raises(TypeError, match=r"a loss .* or a trace is needed, not int"):
        saved_memory(5)
