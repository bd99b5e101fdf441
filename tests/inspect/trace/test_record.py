"""Recording: what a trace holds is what happened, and recording changes nothing."""

from __future__ import annotations

import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gradwalk as gw
from gradwalk.graph.source import own_files
from gradwalk.inspect.trace import replay
from gradwalk.inspect.trace.array_statistics import Statistics
from gradwalk.inspect.trace.recorder import as_trace, current, record, scope
from gradwalk.inspect.trace.trace import Edge, Trace

sys.path.insert(0, str(Path(__file__).parents[3] / "benchmarks"))
from models import NETWORKS, start  # the networks of the benchmarks


def network(name: str) -> tuple[Any, Any]:
    """A model of the benchmarks and its loss."""
    model, inputs, labels = start(gw, NETWORKS[name], "float32")
    x, y = gw.tensor(inputs), gw.tensor(labels)

    def loss() -> Any:
        logits = model(x)
        return gw.nn.functional.cross_entropy(logits.flatten(0, -2), y.flatten())

    return model, loss


# -- Values ---------------------------------------------------------------------------------------


def test_a_value_used_twice_has_two_edges() -> None:
    a = gw.Value(3.0, label="a")
    trace = record(a * a)
    assert trace.scalar and trace[1].op == "mul"
    assert trace[1].args == (Edge(0), Edge(0))
    assert trace.sweep.pushed == {1: (3.0, 3.0)}
    assert trace.grad(a) == 6.0
    assert a.grad == 0  # its own gradient is not touched


def test_the_neuron_of_the_mission() -> None:
    x1, w1, x2, w2 = (gw.Value(v) for v in (2.0, -3.0, 0.0, 1.0))
    b = gw.Value(6.8813735870195432)
    o = (x1 * w1 + x2 * w2 + b).tanh()
    trace = record(o)
    found = [trace.grad(v) for v in (x1, w1, x2, w2, b)]
    assert np.allclose(found, [-1.5, 1.0, 0.5, 0.0, 0.5])
    assert trace[o].line is not None and "tanh" in trace[o].line.text


def test_a_value_made_by_hand_is_asked_what_it_pushes() -> None:
    a = gw.Value(2.0)
    out = gw.Value(a.data**3, (a,), "cube")

    def backward() -> None:
        a.grad += 3 * a.data**2 * out.grad

    out._backward = backward
    trace = record(out * 2.0)
    assert trace.grad(a) == 24.0 and a.grad == 0 and out.grad == 0


# -- tensors --------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NETWORKS)
def test_recording_a_network_changes_nothing_and_holds_everything(name: str) -> None:
    model, loss = network(name)
    loss().backward()  # from the second call on compiled kernels run, which round differently
    model.zero_grad()
    plain = loss()
    plain.backward()
    expected = {n: p.grad.numpy().copy() for n, p in model.named_parameters()}
    model.zero_grad()
    with record(budget=256 << 20) as trace:
        recorded = loss()
        recorded.backward()
    assert recorded.item() == plain.item()
    assert trace.bytes_kept <= 256 << 20 and not trace.reduced
    for n, p in model.named_parameters():
        assert np.array_equal(p.grad.numpy(), expected[n])
        assert np.array_equal(trace.grad(p), expected[n])
        assert trace.name(trace.find(p)) == n and trace.find(n) == trace.find(p)
    assert trace.root == trace.find(recorded)
    _check_sums(trace)
    _check_replay(trace)


def _check_sums(trace: Trace) -> None:
    """What arrives at a node along all its edges is its gradient."""
    sweep = trace.sweep
    for node in trace:
        arrived = [
            sweep.pushed[c][a]
            for c, a in trace.consumers[node.index]
            if c in sweep.pushed and trace[c].args[a].output == 0
        ]
        arrived = [p for p in arrived if p is not None]
        if arrived and node.index != trace.root and sweep.grad(node.index) is not None:
            np.testing.assert_allclose(sum(arrived), sweep.grad(node.index), atol=1e-6)


def _check_replay(trace: Trace) -> None:
    """From the trace alone: values again, and what was pushed."""
    sweep = trace.sweep
    for index in sweep.visits:
        node = trace[index]
        for again, value in zip(replay.forward(trace, node), node.values, strict=True):
            np.testing.assert_allclose(again, value, rtol=1e-5, atol=1e-6)
        g = [
            np.zeros(shape, dtype) if part is None else part
            for part, (shape, dtype) in zip(sweep.grads[index], node.metas, strict=True)
        ]
        pulled = replay.pull(trace, node, g if len(g) > 1 else g[0])
        for again, pushed in zip(pulled, sweep.pushed[index], strict=True):
            if pushed is not None:
                np.testing.assert_allclose(again, pushed, rtol=1e-4, atol=1e-5)


def test_groups_are_module_calls_and_scopes() -> None:
    inner = gw.nn.Linear(2, 2)
    model = gw.nn.Sequential(inner, gw.nn.ReLU(), inner)  # one module, called twice
    with record() as trace:
        with scope("data"):
            x = gw.ones(3, 2) * 2
        y = model(x)
    assert [g.path for g in trace.group_path(trace.find(x))] == ["data"]
    linears = [n for n in trace if n.op == "linear"]
    assert [trace.group_path(n.index)[-1].name for n in linears] == ["0", "0 (call 2)"]
    assert [g.kind for g in trace.groups] == ["scope", "module", "module", "module", "module"]
    assert trace.group_path(trace.find(y))[0].class_name == "Sequential"


@pytest.mark.parametrize(
    ("cut", "note"),
    [
        (lambda x: x.detach() * 2, "detach"),
        (lambda x: gw.no_grad()(lambda: x * 2)() + 1, "no_grad"),
        (lambda x: x.argmax() * 2.0, "not differentiable"),
        (lambda x: (x > 0) * 1.0, "not differentiable"),
    ],
)
def test_what_cuts_a_gradient_off_is_noted(cut: Any, note: str) -> None:
    x = gw.tensor([1.0, 2.0], requires_grad=True)
    with record() as trace:
        cut(x)
    assert next(n.note for n in trace if n.note) == note


def test_in_place_operations_are_nodes_of_their_own() -> None:
    x = gw.tensor([1.0, 2.0], requires_grad=True)
    with record() as trace:
        h = x * 3
        h += 1
        h[0] = 5.0
        h.sum().backward()
    assert [n.op for n in trace if n.op] == ["mul", "add", "setitem", "sum"]
    assert trace.grad(x).tolist() == [0.0, 3.0]
    _check_sums(trace)


def test_a_checkpointed_region_is_recorded_once() -> None:
    x = gw.tensor([0.5, 2.0], requires_grad=True)
    with record() as trace:
        gw.checkpoint(lambda t: t.tanh().exp(), x).sum().backward()
    assert [n.op for n in trace if n.op] == ["tanh", "exp", "sum"]
    assert np.array_equal(trace.grad(x), x.grad.numpy())


def test_a_function_of_the_users_own_is_a_node() -> None:
    class Double(gw.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * 2

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return g * 2

    x = gw.tensor([1.0], requires_grad=True)
    with record() as trace:
        Double.apply(x).sum().backward()
    ops = [n.op for n in trace]
    assert "Double" in ops and trace.grad(x).tolist() == [2.0]


def test_several_backward_passes_are_several_sweeps() -> None:
    x = gw.tensor(2.0, requires_grad=True)
    with record() as trace:
        y = x * x
        y.backward(retain_graph=True)
        (y * 3).backward()
    assert len(trace.sweeps) == 2
    assert [float(s.grad(trace.find(x))) for s in trace.sweeps] == [4.0, 12.0]


def test_a_graph_nobody_recorded() -> None:
    x = gw.tensor([1.0, 2.0], requires_grad=True)
    w = gw.tensor([3.0, 4.0], requires_grad=True)
    loss = (x * w).tanh().sum()
    trace = record(loss)
    assert x.grad is None  # nothing was touched
    loss.backward()
    assert np.allclose(trace.grad(x), x.grad.numpy())
    assert [n.op for n in trace if n.op] == ["mul", "tanh", "sum"]
    with pytest.raises(gw.AutogradError, match=r"second time|already"):
        record(loss)  # its values are gone


# -- what is kept ---------------------------------------------------------------------------------


def step(size: int = 1000) -> Any:
    x = gw.ones(size, requires_grad=True)
    (x * 2).tanh().sum().backward()
    return x


def test_statistics_instead_of_arrays() -> None:
    with record(keep="stats") as trace:
        x = step()
    assert isinstance(trace[x].value, Statistics) and isinstance(trace.grad(x), Statistics)
    assert trace.grad(x).count == 1000 and trace.bytes_kept == 0


def test_values_without_what_went_along_the_edges() -> None:
    with record(keep="values") as trace:
        x = step()
    assert isinstance(trace[x].value, np.ndarray) and isinstance(trace.grad(x), np.ndarray)
    pushed = [p for parts in trace.sweep.pushed.values() for p in parts if p is not None]
    assert pushed and all(isinstance(p, Statistics) for p in pushed)


def test_over_budget_less_is_kept_and_said_of_which_nodes() -> None:
    with record(budget=9000) as trace:
        x = step()
    assert trace.bytes_kept <= 9000
    assert isinstance(trace[x].value, np.ndarray) and isinstance(trace.grad(x), Statistics)
    assert trace.find(x) in trace.reduced["grads"]


def test_bad_options_and_things() -> None:
    with pytest.raises(ValueError, match="keep is one of 'all', 'values', 'stats', not 'some'"):
        record(keep="some")
    with pytest.raises(TypeError, match="record takes a Value or a Tensor, not int"):
        record(3)
    with pytest.raises(KeyError, match="not in the trace"):
        record(gw.Value(1.0) + 1).find(gw.Value(2.0))
    with pytest.raises(KeyError, match="no node is called 'z'; names are: a"):
        record(gw.Value(1.0, label="a") + 1).find("z")
    with record() as trace:
        gw.ones(2) * 2
    with pytest.raises(ValueError, match="no backward pass"):
        trace.grad(0)


def test_the_current_trace() -> None:
    with record() as outer:
        assert current() is outer
        with record() as inner:
            gw.ones(1) * 2
            assert as_trace() is inner
        gw.ones(1) * 3
    assert as_trace() is outer and len(inner) == 2
    assert as_trace(inner) is inner


def test_nothing_is_recorded_outside() -> None:
    with record() as trace:
        gw.ones(1) * 2
    count = len(trace)
    gw.ones(1) * 2
    assert len(trace) == count


def test_an_error_inside_ends_the_recording() -> None:
    with pytest.raises(ZeroDivisionError), record():
        raise ZeroDivisionError
    from gradwalk.engine.modes import state

    assert state.here.watcher is None


# -- Values in a block ----------------------------------------------------------------------------


def test_values_are_recorded_in_a_block_with_their_scopes() -> None:
    a = gw.Value(2.0, label="a")
    before = a * 3  # made outside; its past is recorded with it
    with record() as trace:
        with gw.scope("square"):
            b = before * before
            with gw.scope("inner"):
                c = 2 / b.tanh()
        with gw.scope("square"):
            d = b + c
        d.label = "d"
        d.backward()
        assert gw.why(a).gradient == a.grad
    assert trace.scalar and trace.name(trace.sweep.visits[0]) == "d"
    found = {n.op: [g.name for g in trace.group_path(n.index)] for n in trace if n.op}
    assert found["tanh"] == ["square", "inner"] and found["div"] == ["square", "inner"]
    assert found["add"] == ["square (call 2)"]
    assert trace.grad(a) == a.grad and trace.grad(d) == 1
    anew = record(d)
    assert not anew.groups
    for v in (a, before, b, c, d):
        assert anew.grad(v) == trace.grad(v)
    assert "test_record.py" in str(trace[c].line) and "2 / b.tanh()" in str(trace[c].line)
    assert "backward" in str(trace.sweep.line)


def test_the_tools_keep_the_scopes_of_a_recorded_loss() -> None:
    a = gw.Value(2.0, label="a")
    with record():
        with gw.scope("part"):
            loss = a * a
        loss.backward()
    loss.label = "loss"
    assert "part" in str(gw.why(a, loss))
    assert str(gw.walk(loss)).startswith("walk of loss")


def test_values_recorded_without_a_backward_pass() -> None:
    a = gw.Value(3.0, label="a")
    with record() as trace:
        b = gw.exp(a) * a**2
    assert [n.op for n in trace if n.op] == ["exp", "power", "mul"]
    assert trace[b].value == b.data and trace.nodes[trace[b].inputs[1]].attrs == {"exponent": 2}


def test_a_training_loop_of_values_has_a_leaf_for_each_step() -> None:
    p = gw.Value(1.0, label="p")
    with record() as trace:
        for _ in range(3):
            loss = (p * p - 2.0) ** 2
            p.grad = 0
            loss.backward()
            p.data -= 0.1 * p.grad
    assert [n.value for n in trace if n.label == "p"] == pytest.approx([1.0, 1.4, 1.4224])
    assert len(trace.sweeps) == 3 and trace.grad(p) == p.grad


def test_a_value_made_by_hand_is_recorded() -> None:
    a = gw.Value(3.0, label="a")
    with record() as trace:
        out = gw.Value(a.data**3, (a,), "cube")

        def backward() -> None:
            a.grad += 3 * a.data**2 * out.grad

        out._backward = backward
        (out * 2).backward()
    assert a.grad == 54 and trace.grad(a) == 54 and trace[out].op == "cube"


def test_a_recording_is_of_one_kind_and_says_so() -> None:
    x = gw.ones(2, requires_grad=True)
    with record() as trace:
        (x * 2).sum().backward()
        with pytest.warns(UserWarning, match="is of Tensors; what is computed with Values"):
            (gw.Value(1.0) * 2).backward()
    assert not trace.scalar and len(trace.sweeps) == 1
    with record() as trace:
        (gw.Value(1.0) * 2).backward()
        with pytest.warns(UserWarning, match="is of Values; what is computed with Tensors"):
            (x * 2).sum().backward()
    assert trace.scalar and [n.op for n in trace if n.op] == ["mul"] and len(trace.sweeps) == 1


def test_opening_an_op_does_not_add_to_the_recording() -> None:
    a = gw.Value(0.5)
    with record() as trace:
        b = a.tanh()
        b.backward()
        count = len(trace)
        assert gw.open_op(b).equal
        assert len(trace) == count


def test_values_of_another_thread_are_not_recorded() -> None:
    a = gw.Value(0.5)
    with record() as trace:
        thread = threading.Thread(target=lambda: (a * a).backward())
        thread.start()
        thread.join()
        assert len(trace) == 0 and a.grad == 1.0
    assert own_files.alone  # and nothing is left behind


@pytest.mark.parametrize("budget", [-1, "1 MB", 1.5])
def test_a_budget_is_a_number_of_bytes(budget: Any) -> None:
    with pytest.raises(ValueError, match="budget is a number of bytes"):
        record(budget=budget)


def test_true_is_no_node() -> None:
    a = gw.Value(3.0)
    with pytest.raises(KeyError, match="this bool is not in the trace"):
        record(a * a)[True]


def test_a_question_about_another_loss_leaves_the_recording_the_current_one() -> None:
    with gw.record() as trace:
        x = gw.tensor([1.0, 2.0], requires_grad=True)
        (x * x).sum().backward()
    a = gw.Value(3.0)
    assert gw.why(a, a * a).gradient == 6.0
    y = gw.tensor([4.0], requires_grad=True)
    gw.why(y, (y * y).sum())
    assert gw.why(x).to_dict() == gw.why(x, trace).to_dict()


def test_an_operand_that_needs_no_gradient_is_the_output_that_was_used() -> None:
    x = gw.tensor([3.0, 1.0, 2.0], requires_grad=True)
    x.label = "x"
    with gw.record() as trace:
        _, order = gw.sort(gw.tensor([2, 0, 1]))
        taken = x[order]
        taken.sum().backward()
        order.zero_()
        again = x[order]
    assert [argument.output for argument in trace[taken].args] == [0, 1]
    assert gw.element(trace, taken, 0).inputs[0].name == "x[1]"
    assert [argument.output for argument in trace[again].args] == [0, 0]
