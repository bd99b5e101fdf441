"""Walk: the textbook examples step by step, and every step undone again."""

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

import gradwalk as gw
from gradwalk import Value
from gradwalk.graph.order import inputs_first
from gradwalk.inspect.trace import replay
from gradwalk.inspect.trace.file import load_trace, save_trace
from gradwalk.inspect.trace.recorder import record
from gradwalk.inspect.walk.step import Push
from gradwalk.inspect.walk.walk import Walk, walk
from gradwalk.inspect.walk.wording import gates_of, rule_text
from tests.ops.samples.table import all_samples

B = 6.8813735870195432


def named(**values: Value) -> dict[str, Value]:
    for name, value in values.items():
        value.label = name
    return values


def leaves(**numbers: float) -> list[Value]:
    return list(named(**{name: Value(float(x)) for name, x in numbers.items()}).values())


def product_of_sum() -> dict[str, Value]:
    a, b, c = leaves(a=2, b=-3, c=10)
    e = a + b
    return named(a=a, b=b, c=c, e=e, f=e * c)


def micrograd() -> dict[str, Value]:
    a, b, c, f = leaves(a=2, b=-3, c=5, f=-2)
    e = a * b
    d = e + c
    return named(a=a, b=b, c=c, f=f, e=e, d=d, L=f * d)


def neuron() -> dict[str, Value]:
    x1, w1, x2, w2, b = leaves(x1=2, w1=-3, x2=0, w2=1, b=B)
    p, q = x1 * w1, x2 * w2
    s = p + q
    n = s + b
    return named(x1=x1, w1=w1, x2=x2, w2=w2, b=b, p=p, q=q, s=s, n=n, o=n.tanh())


def expanded_neuron() -> dict[str, Value]:
    v = neuron()
    power = (2 * v["n"]).exp()
    return {**v, "o": named(o=(power - 1) / (power + 1))["o"]}


def square() -> dict[str, Value]:
    (a,) = leaves(a=3)
    return named(a=a, f=a * a)


def double() -> dict[str, Value]:
    (a,) = leaves(a=7)
    return named(a=a, b=a + a)


def diamond() -> dict[str, Value]:
    (a,) = leaves(a=2)
    b, c = a + 1, 3 * a
    return named(a=a, b=b, c=c, d=b * c)


def cubic() -> dict[str, Value]:
    (x,) = leaves(x=2)
    return named(x=x, y=x**3 + 5 * x)


def winner() -> dict[str, Value]:
    a, b = leaves(a=2, b=-3)
    return named(a=a, b=b, m=gw.maximum(a, b))


def tie() -> dict[str, Value]:
    a, b = leaves(a=2, b=2)
    return named(a=a, b=b, m=gw.maximum(a, b))


EXAMPLES: list[tuple[Callable[[], dict[str, Value]], dict[str, float], dict[str, float]]] = [
    (product_of_sum, dict(e=-1, f=-10), dict(f=1, e=10, c=-1, a=10, b=10)),
    (micrograd, dict(e=-6, d=-1, L=2), dict(f=-1, d=-2, e=-2, c=-2, a=6, b=-4)),
    (
        neuron,
        dict(p=-6, q=0, s=-6, n=0.8814, o=0.7071),
        dict(p=0.5, q=0.5, s=0.5, n=0.5, w1=1, x1=-1.5, w2=0, x2=0.5, b=0.5),
    ),
    (
        expanded_neuron,
        dict(n=0.8814, o=0.7071),
        dict(p=0.5, q=0.5, s=0.5, n=0.5, w1=1, x1=-1.5, w2=0, x2=0.5, b=0.5),
    ),
    (square, dict(f=9), dict(a=6)),
    (double, dict(b=14), dict(a=2)),
    (diamond, dict(b=3, c=6, d=18), dict(a=15)),
    (cubic, dict(y=18), dict(x=17)),
    (winner, dict(m=2), dict(a=1, b=0)),
    (tie, dict(m=2), dict(a=0.5, b=0.5)),
]


@pytest.mark.parametrize(
    "build, values, gradients", EXAMPLES, ids=lambda x: getattr(x, "__name__", "")
)
def test_examples_of_mission(
    build: Callable[[], dict[str, Value]], values: dict[str, float], gradients: dict[str, float]
) -> None:
    graph = build()
    steps = walk(list(graph.values())[-1])
    assert (steps.position, steps.phase, steps.current) == (0, "forward", None)
    for name in values:
        assert steps.value(name) is None
    seen = list(steps.play())
    assert steps.done
    assert {s.name: s.value for s in seen if s.name in values} == pytest.approx(values, abs=5e-5)
    for name, gradient in gradients.items():
        assert steps.grad(name) == pytest.approx(gradient, abs=1e-12)
        assert steps.value(name) == graph[name].data
        arrived = [p.amount for s in seen for p in s.pushes if p.to_name == name]
        assert sum(arrived) == pytest.approx(gradient) or not arrived  # the root has its seed
    for s in seen:
        for push in s.pushes:  # upstream × local derivative
            assert push.slope is not None
            assert push.amount == pytest.approx(s.received * push.slope)
    for v in graph.values():
        assert v.grad == 0  # nothing is touched


def pushes_of(steps: Walk, name: str) -> list[Push]:
    return steps.at(steps._steps_of(name)[-1]).pushes


def test_the_edge_from_e_to_f_has_local_derivative_10() -> None:
    steps = walk(product_of_sum()["f"])
    to_e, to_c = pushes_of(steps, "f")
    assert (to_e.to_name, to_e.slope, to_e.formula) == ("e", 10, "c")
    assert (to_c.to_name, to_c.slope, to_c.formula) == ("c", -1, "e")


def test_a_square_has_two_edges() -> None:
    steps = walk(square()["f"])
    first, second = pushes_of(steps, "f")
    assert (first.edge, second.edge) == ("1:0", "1:1")
    assert (first.amount, second.amount) == (3, 3)
    assert steps.at(len(steps)).completed[0].arrived == 2


def test_local_derivatives_as_formula_and_number() -> None:
    steps = walk(neuron()["o"])
    (to_n,) = pushes_of(steps, "o")
    assert (to_n.formula, to_n.rule) == ("1 − o²", "g × (1 − o²)")
    assert to_n.slope == pytest.approx(0.5)
    assert [(p.formula, p.slope) for p in pushes_of(steps, "p")] == [("w1", -3), ("x1", 2)]
    assert [(p.formula, p.slope) for p in pushes_of(steps, "s")] == [("1", 1), ("1", 1)]
    x = named(x=Value(2.0))["x"]
    (to_x,) = walk(x**3).at(3).pushes
    assert (to_x.formula, to_x.slope) == ("3 × x²", 12)


def test_gates() -> None:
    a, b = leaves(a=2, b=-3)
    trace = record(gw.maximum((a + b) * a, b.relu()).exp())
    gates = {n.op: gates_of(trace, n.index) for n in trace if n.op}
    assert gates == dict(
        add=["distributor"], mul=["swapper"], maximum=["router"], relu=["router"], exp=[]
    )
    assert gates_of(trace, trace.find(a)) == ["adder"]
    text = "\n".join(map(str, walk(trace).play()))
    assert "add#2 = a + b, a distributor, received" in text
    assert "complete: a = 0 (adder of 2); exp#6 does not change with it" in text


def test_which_way_to_move_a_leaf() -> None:
    steps = walk(neuron()["o"])
    list(steps.play())
    ways = {d.name: d.way for i in range(1, 16) for d in steps.at(i).completed if d.way}
    assert ways == dict(
        x1="raise it to lower o",
        w1="lower it to lower o",
        x2="lower it to lower o",
        w2="o does not change with it",
        b="lower it to lower o",
    )
    assert str(steps).splitlines()[-5:] == [
        "x1         2      −1.5  raise ↑",
        "w1        −3         1  lower ↓",
        "x2         0       0.5  lower ↓",
        "w2         1         0  —",
        "b     6.8814       0.5  lower ↓",
    ]


def test_printed() -> None:
    steps = walk(diamond()["d"])
    steps.run_to("d")
    assert str(steps.current).startswith(
        "step 6 of 9, forward: d = b × c = 3 × 6 = 18\n  test_walk"
    )
    steps.step()
    steps.step()
    assert str(steps.current) == (
        "step 8 of 9, backward: c = 3 × a, a swapper, received 3\n"
        "  to leaf#3: g × a = 3 × 2 = 6\n"
        "  to a: g × 3 = 3 × 3 = 9\n"
        "  complete: leaf#3 = 6; lower it to lower d\n"
        "  incomplete: a has 9; 1 more to come, from b"
    )
    assert str(steps).splitlines()[0] == "walk of d: 6 steps forward, 3 backward; 8 done"
    assert "incomplete: a has 9" in steps._repr_html_()


def test_what_is_still_incomplete() -> None:
    steps = walk(diamond()["d"])
    steps.jump(8)
    (waiting,) = steps.incomplete()
    assert (waiting.name, waiting.so_far, waiting.arrived, waiting.missing) == ("a", 9, 1, 1)
    assert waiting.waits_for == ["b"]
    assert steps.grad("a") == 9
    steps.step()
    assert steps.incomplete() == []
    assert [d.name for d in steps.at(9).completed] == ["a", "leaf#1"]
    assert [node.name for node in steps.at(8).incomplete] == ["a"]  # wherever the walk stands


def test_as_plain_data() -> None:
    steps = walk(diamond()["d"])
    steps.jump(8)
    data = steps.to_dict()
    assert (data["position"], data["steps"], data["forward"], data["phase"]) == (
        8,
        9,
        6,
        "backward",
    )
    assert data["incomplete"][0]["name"] == "a"
    current = data["current"]
    assert (current["name"], current["received"], current["gates"]) == ("c", 3, ["swapper"])
    push = current["pushes"][1]
    assert (push["edge"], push["to_name"], push["amount"], push["slope"]) == ("4:1", "a", 9, 3)
    assert push["jacobian"] == [[3]]
    assert current["line"]["file"].endswith("test_walk.py")


# -- moving ----------------------------------------------------------------------------------------


def test_step_and_undo() -> None:
    steps = walk(micrograd()["L"])
    there = [steps.to_dict()]
    while steps.step() is not None:
        there.append(steps.to_dict())
    assert len(there) == len(steps) + 1 == 11
    assert steps.step() is None
    assert steps.to_dict() == there.pop()
    while there:
        undone = steps.undo()
        assert steps.to_dict() == there.pop()
        assert (undone is None) == (steps.position == 0)
    assert steps.undo() is None
    assert steps.grad("L") is None
    assert steps.value("a") is None


def test_the_backward_phase_begins_with_the_seed() -> None:
    steps = walk(micrograd()["L"])
    steps.jump(7)
    assert (steps.phase, steps.grad("L"), steps.grad("d"), steps.value("L")) == (
        "forward",
        1,
        None,
        2,
    )
    step = steps.step()
    assert step is not None
    assert (step.phase, step.name, step.received, steps.phase) == ("backward", "L", 1, "backward")


def test_jump() -> None:
    steps = walk(micrograd()["L"])
    assert steps.jump(0) is None
    last = steps.jump(len(steps))
    assert last is not None
    assert last.number == len(steps)
    for wrong in (-1, len(steps) + 1):
        with pytest.raises(ValueError, match="they are 0 to 10"):
            steps.jump(wrong)
    with pytest.raises(ValueError, match="the steps are 1 to 10"):
        steps.at(0)


def test_run_to_a_node() -> None:
    graph = micrograd()
    steps = walk(graph["L"])
    assert steps.run_to(graph["d"]).phase == "forward"
    assert steps.run_to("d").phase == "backward"
    leaf = steps.run_to("a")  # a leaf hands nothing on: the step that completes it
    assert (leaf.name, [d.name for d in leaf.completed]) == ("e", ["a", "b"])
    with pytest.raises(ValueError, match="'d' is not visited after step 10: its steps are 6, 9"):
        steps.run_to("d")
    with pytest.raises(KeyError, match="no node is called 'q'"):
        steps.run_to("q")
    steps.jump(0)
    assert steps.run_to(steps.trace["e"]).name == "e"


def test_run_to_a_line() -> None:
    x = gw.tensor([1.0, 2.0], requires_grad=True)
    with record() as trace:
        y = x * x  # here
        loss = y.sum()
        loss.backward()  # and back
    here, back = (find_line(f"# {what}") for what in ("here", "and back"))
    steps = walk(trace)
    assert steps.run_to(here).op == "mul"
    assert steps.run_to(f"test_walk.py:{back}").op == "sum"
    assert steps.phase == "backward"
    assert steps.run_to(f"walk/test_walk.py:{here}").op == "mul"
    assert steps.phase == "backward"
    with pytest.raises(ValueError, match=rf"line {here} is not visited after step 5"):
        steps.run_to(here)
    with pytest.raises(
        ValueError, match=rf"no node was made on other.py:{here}; lines are: test_walk"
    ):
        steps.run_to(f"other.py:{here}")
    with pytest.raises(ValueError, match="no node was made on line 100000"):
        steps.run_to(100000)


def find_line(mark: str) -> int:
    lines = Path(__file__).read_text(encoding="utf-8").splitlines()
    return next(i for i, line in enumerate(lines, 1) if line.endswith(mark))


def test_breakpoints() -> None:
    steps = walk(micrograd()["L"])
    found = steps.run_until(grad_above=5)
    assert found is not None
    assert [d.gradient for d in found.completed] == [6, -4]  # a leaf's gradient counts
    assert steps.stopped_by == "a gradient of 6 is above 5"
    assert steps.run_until(grad_above=5) is None
    assert steps.done
    steps.jump(0)
    found = steps.run_until(lambda step: step.op == "add")
    assert found is not None
    assert (found.name, steps.stopped_by) == ("d", "the predicate holds")
    assert steps.run_until(nan=True, inf=True) is None
    steps.jump(0)
    kept = steps.break_at(grad_above=1.5)
    steps.break_at(lambda step: step.phase == "forward" and step.value == -6)
    assert [s.name for s in iter(steps.run, None)] == ["e", "d", "e"]
    assert steps.run() is None
    steps.breakpoints.remove(kept)
    steps.jump(0)
    assert [s.name for s in iter(steps.run, None)] == ["e"]


def test_breakpoints_on_tensors() -> None:
    x = gw.tensor([[1.0, 0.0]], requires_grad=True)
    with record() as trace:
        loss = (gw.sqrt(x) @ gw.ones(2, 3)).sum()
        loss.backward()
    for keep in (trace, statistics_of(lambda: (gw.sqrt(x) @ gw.ones(2, 3)).sum())):
        steps = walk(keep)
        found = steps.run_until(shape=(1, None))
        assert found is not None
        assert (found.op, steps.stopped_by) == ("", "shape (1, 2)")
        found = steps.run_until(shape=(1, 3))
        assert found is not None
        assert (found.op, steps.stopped_by) == ("matmul", "shape (1, 3)")
        assert steps.run_until(nan=True) is None
        steps.jump(0)
        found = steps.run_until(inf=True)
        assert found is not None
        assert (found.op, found.phase, steps.stopped_by) == (
            "sqrt",
            "backward",
            "an infinite number",
        )
        steps.jump(0)
        found = steps.run_until(grad_above=2.5)
        assert found is not None
        assert (found.op, found.phase) == ("sqrt", "backward")
    with record() as trace:
        (gw.log(x - 1) * 0).sum().backward()
    steps = walk(trace)
    found = steps.run_until(nan=True)
    assert found is not None
    assert (found.op, found.phase, steps.stopped_by) == ("log", "forward", "NaN")


def statistics_of(compute: Callable[[], Any]) -> Any:
    with record(keep="stats") as trace:
        compute().backward()
    return trace


# -- every graph -----------------------------------------------------------------------------------

OPS = [
    lambda p, q: p + q,
    lambda p, q: p - q,
    lambda p, q: p * q,
    lambda p, q: gw.maximum(p, q),
    lambda p, q: p.tanh(),
    lambda p, q: p / (q * q + 1),
]


@st.composite
def graphs(draw: Any) -> Value:
    pool = [Value(draw(st.floats(-2, 2))) for _ in range(draw(st.integers(1, 3)))]
    for _ in range(draw(st.integers(1, 10))):
        op = draw(st.sampled_from(OPS))
        which = st.integers(0, len(pool) - 1)
        pool.append(op(pool[draw(which)], pool[draw(which)]))
    return pool[-1]


@given(graphs())
def test_at_every_position_what_has_arrived_is_the_sum_of_what_was_pushed(root: Value) -> None:
    nodes = inputs_first([root])
    root.backward()
    steps = walk(root)
    uses = {id(v): sum(i is v for c in nodes for i in c.inputs) for v in nodes}
    arrived: dict[int, list[float]] = {id(v): [] for v in nodes}
    for number in range(len(steps) + 1):
        steps.jump(number)
        if number:
            for push in steps.at(number).pushes:
                arrived[id(nodes[push.to])].append(push.amount)
        backward = number >= len(nodes)
        waiting = {node.node: node for node in steps.incomplete()}
        for i, v in enumerate(nodes):
            got, total = arrived[id(v)], uses[id(v)]
            assert steps.value(v) == (v.data if i < number else None)
            if v is root:
                assert steps.grad(v) == (1 if backward else None)
            elif not got:
                assert steps.grad(v) is None
            else:
                assert math.isclose(steps.grad(v), sum(got), rel_tol=1e-12, abs_tol=1e-12)
            assert (i in waiting) == (0 < len(got) < total)
            if i in waiting:
                assert waiting[i].missing == total - len(got)
    for v in nodes:
        assert math.isclose(steps.grad(v), v.grad, rel_tol=1e-9, abs_tol=1e-12)


# -- tensors ---------------------------------------------------------------------------------------


def dense() -> tuple[Any, dict[str, Any]]:
    gw.manual_seed(1)
    made = dict(
        W=gw.randn(3, 2, dtype=gw.float64, requires_grad=True),
        a=gw.randn(4, 3, dtype=gw.float64, requires_grad=True),
        b=gw.randn(2, dtype=gw.float64, requires_grad=True),
    )
    with record() as trace:
        product = made["a"] @ made["W"]
        z = product + made["b"]
        out = gw.sigmoid(z)
        (out * out).sum().backward()
    made |= dict(product=product, z=z, out=out)
    for name, tensor in made.items():
        trace[tensor].label = name
    return trace, made


def test_a_dense_layer() -> None:
    trace, made = dense()
    steps = walk(trace)
    list(steps.play())
    grad = {name: steps.grad(name) for name in made}
    out, a, w = (made[name].detach().numpy() for name in ("out", "a", "W"))
    dz = grad["out"] * out * (1 - out)
    np.testing.assert_allclose(grad["z"], dz)
    np.testing.assert_allclose(grad["a"], dz @ w.T)
    np.testing.assert_allclose(grad["W"], a.T @ dz)
    np.testing.assert_allclose(grad["b"], dz.sum(0))
    rules = {p.to_name: p.rule for s in map(steps.at, range(1, len(steps) + 1)) for p in s.pushes}
    assert rules["a"] == "g @ Wᵀ"
    assert rules["W"] == "aᵀ @ g"
    assert rules["b"] == "g, summed over what was broadcast"
    assert rules["z"] == "g × out × (1 − out)"
    assert "lower" in str(steps)


def test_shapes_and_rules_of_a_matrix_product() -> None:
    x, w = gw.ones(2, 3, requires_grad=True), gw.ones(3, 2, requires_grad=True)
    with record() as trace:
        (x @ w).sum().backward()
    to_x, to_w = walk(trace).run_until(lambda s: s.op == "matmul" and s.phase == "backward").pushes
    assert to_x.shapes == ((2, 2), (2, 3))
    assert to_w.shapes == ((2, 2), (3, 2))
    assert to_x.formula == ""
    assert to_x.slope is None
    assert np.shape(to_x.amount) == (2, 3)


def test_jacobians_of_small_ops() -> None:
    trace, made = dense()
    steps = walk(trace)
    by_name = {p.to_name: (s, p) for s in steps.play() for p in s.pushes}
    for step, push in by_name.values():
        jacobian = push.jacobian
        assert jacobian is not None
        assert jacobian.shape == tuple(math.prod(shape) for shape in push.shapes)
        given = np.reshape(step.received, -1) @ jacobian
        np.testing.assert_allclose(given, np.reshape(push.amount, -1))
    _, to_z = by_name["z"]
    out = made["out"].detach().numpy()
    np.testing.assert_allclose(to_z.jacobian, np.diag((out * (1 - out)).reshape(-1)))
    x = gw.ones(17, requires_grad=True)
    (to_x,) = walk((x * 2).sum()).at(4).pushes
    assert to_x.jacobian is None


def test_a_jacobian_agrees_with_jacrev() -> None:
    x = gw.tensor([0.5, -1.0, 2.0], dtype=gw.float64, requires_grad=True)
    with record() as trace:
        (x.softmax(0) * gw.tensor([1.0, 2.0, 3.0], dtype=gw.float64)).sum().backward()
    step = walk(trace).run_until(lambda s: s.op == "softmax" and s.phase == "backward")
    assert step is not None
    expected = gw.jacrev(lambda t: t.softmax(0))(x.detach())
    np.testing.assert_allclose(step.pushes[0].jacobian, expected.numpy(), atol=1e-12)


def test_one_weight_in_two_layers() -> None:
    w = gw.tensor([[0.5, 1.0], [2.0, -1.0]], dtype=gw.float64, requires_grad=True)
    x = gw.ones(1, 2, dtype=gw.float64)
    with record() as trace:
        ((x @ w) @ w).sum().backward()
    steps = walk(trace)
    found = steps.run_until(lambda s: any(d.node == trace.find(w) for d in s.completed))
    assert found is not None
    (done,) = [d for d in found.completed if d.node == trace.find(w)]
    assert done.arrived == 2  # its gradient is the sum of both uses
    np.testing.assert_allclose(done.gradient, w.grad.numpy())
    parts = [
        p.amount
        for s in map(steps.at, range(1, len(steps) + 1))
        for p in s.pushes
        if p.to == done.node
    ]
    np.testing.assert_allclose(sum(parts), w.grad.numpy())


def test_an_op_with_two_outputs() -> None:
    x = gw.tensor([[1.0, 3.0], [5.0, 2.0]], requires_grad=True)
    with record() as trace:
        values, _ = x.max(1)
        values.sum().backward()
    steps = walk(trace)
    list(steps.play())
    last = steps.at(len(steps))
    assert last.gates == ["router"]
    np.testing.assert_array_equal(last.received[0], [1, 1])
    assert last.received[1] is None
    np.testing.assert_array_equal(steps.grad(x), [[0, 1], [1, 0]])
    (push,) = steps.at(len(steps)).pushes
    np.testing.assert_array_equal(push.jacobian, [[0, 1, 0, 0], [0, 0, 1, 0]])


def test_a_model_with_names() -> None:
    gw.manual_seed(0)
    model = gw.nn.Sequential(gw.nn.Linear(3, 4), gw.nn.ReLU(), gw.nn.Linear(4, 2))
    x = gw.randn(5, 3)
    with record() as trace:
        gw.nn.functional.cross_entropy(model(x), gw.tensor([0, 1, 0, 1, 1])).backward()
    steps = walk(trace)
    step = steps.run_to("2.weight")
    assert step.phase == "forward"
    list(steps.play())
    for name, parameter in model.named_parameters():
        np.testing.assert_allclose(steps.grad(name), parameter.grad.numpy())
    assert "0.weight" in str(steps)
    for step in map(steps.at, range(1, len(steps) + 1)):
        assert max(map(len, str(step).splitlines())) <= 80


def test_statistics_are_enough_to_walk() -> None:
    x = gw.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    trace = statistics_of(lambda: (x * x).sum())
    steps = walk(trace)
    text = "\n".join(map(str, steps.play()))
    assert "received shape 2×2, norm 2" in text
    last = steps.at(len(steps))
    assert last.pushes[0].jacobian is None
    assert last.pushes[0].rule == f"g × {trace.name(trace.find(x))}"
    steps.jump(len(steps) - 1)
    assert steps.grad(x) is None


def test_a_trace_without_a_backward_pass() -> None:
    x = gw.tensor([1.0, 2.0], dtype=gw.float64, requires_grad=True)
    with record() as trace:
        loss = (x * x).sum()
    steps = walk(trace)
    list(steps.play())
    np.testing.assert_allclose(steps.grad(x), [2, 4])
    assert loss.grad_fn is not None
    with record(keep="stats") as trace:
        (x * x).sum()
    steps = walk(trace)
    assert len(list(steps.play())) == 3
    assert "there is no backward phase: the value of" in str(steps)


def test_a_tensor_graph_nobody_recorded() -> None:
    x = gw.tensor([1.0, 2.0], requires_grad=True)
    steps = walk((x * x + x).sum())
    list(steps.play())
    np.testing.assert_allclose(steps.grad(x), [3, 5])


def test_no_computation_at_all() -> None:
    with record() as trace:
        pass
    with pytest.raises(ValueError, match="the trace is empty"):
        walk(trace)


@pytest.mark.parametrize("make", [lambda: record(neuron()["o"]), lambda: dense()[0]])
def test_a_trace_from_a_file_walks_the_same(make: Callable[[], Any], tmp_path: Path) -> None:
    trace = make()
    save_trace(trace, tmp_path / "walk.trace")
    here, there = walk(trace), walk(load_trace(tmp_path / "walk.trace"))
    assert len(here) == len(there)
    for mine, loaded in zip(here.play(), there.play(), strict=True):
        assert str(mine) == str(loaded)
        assert mine.to_dict() == loaded.to_dict()
    assert str(here) == str(there)


def test_a_value_with_a_backward_of_its_own() -> None:
    (a,) = leaves(a=3)
    out = Value(a.data**2, (a,), "squared", label="out")

    def backward() -> None:
        a.grad += 2 * a.data * out.grad

    out._backward = backward
    steps = walk(out * 2)
    list(steps.play())
    assert steps.grad("a") == 12
    (push,) = pushes_of(steps, "out")
    assert (push.formula, push.slope, push.amount) == ("", 6, 12)
    assert "g × local derivative = 2 × 6 = 12" in str(push)


@pytest.mark.slow
def test_a_long_chain_is_walked_without_waiting() -> None:
    v = Value(1.0, label="x")
    for _ in range(10_000):
        v = v * 1.0
    steps = walk(v)
    found = steps.run_until(lambda step: bool(step.completed) and step.completed[0].name == "x")
    assert found is not None
    assert (found.number, steps.grad("x")) == (len(steps), 1.0)


# -- rules in words -------------------------------------------------------------------------------

# Rules longer than a reader wants, and an index whose shape depends on a mask.
WITHOUT_A_FORMULA = {"det_twice", "eigh", "put", "setitem", "svd"}


@pytest.mark.slow
def test_every_op_shows_its_rule() -> None:
    """Of every sample of the op table: in words or as a formula, how the gradient goes on."""
    for sample in all_samples():
        tensors = [gw.tensor(a) for a in sample.arrays()]
        for t in tensors:
            t.requires_grad = t.dtype.kind == "f"
        with record(keep="stats") as trace:
            sample.ours(gw, *tensors)
        for node in trace:
            op = replay.op_of(node)
            if op is None or node.op in WITHOUT_A_FORMULA or not node.needs_grad:
                continue
            for argument, edge in node.edges:
                if trace.nodes[edge.node].needs_grad and op.rule(argument) is not None:
                    text = rule_text(trace, node, argument)
                    assert text and not text.startswith("the rule of"), sample
                    assert "{" not in text and "\n" not in text, (sample, text)


def rules_of(made: gw.Tensor) -> dict[str, str]:
    made.label = "y"
    step = walk(record(made.sum())).run_until(lambda s: s.phase == "backward" and s.name == "y")
    return {push.to_name: push.rule for push in step.pushes}


def test_rules_that_keep_more_than_inputs_and_outputs() -> None:
    x, w, b = gw.randn(2, 3, 5, 5), gw.randn(4, 3, 3, 3), gw.randn(4)
    rows, n = gw.randn(2, 3), gw.randn(3)
    for name, t in {"x": x, "w": w, "b": b, "rows": rows, "n": n}.items():
        t.label = name
        t.requires_grad = True
    functional = gw.nn.functional
    assert rules_of(functional.conv2d(x, w, b)) == {
        "x": "conv_input(g, w)",
        "w": "conv_weight(x, g)",
        "b": "Σ g over batch and places",
    }
    assert rules_of(functional.max_pool2d(x, 2))["x"].startswith("each g to the largest")
    assert rules_of(functional.layer_norm(rows, (3,))) == {
        "rows": "(g − mean(g) − y × mean(g × y)) / std(rows)"
    }
    assert rules_of(functional.rms_norm(rows, (3,))) == {
        "rows": "(g − y × mean(g × y)) / rms(rows)"
    }
    logits = rows * 1
    loss = functional.cross_entropy(logits, gw.tensor([0, 2]), reduction="none").reshape(1, 2)
    step = walk(record(loss.sum())).run_until(lambda s: s.op == "cross_entropy" and s.pushes)
    assert step.pushes[0].rule == "g × (softmax(mul#1) − one at target), row by row"
    assert rules_of(rows[0, 1:]) == {"rows": "g at [0, 1:], 0 elsewhere"}
    assert rules_of(rows[gw.tensor([0, 0])])["rows"].startswith("g added at [")
    assert rules_of(gw.cat([n, n * 1])) == {"n": "g[0:3]", "mul#1": "g[3:6]"}


def test_a_breakpoint_says_when_it_stops() -> None:
    w = walk(diamond()["d"])
    point = w.break_at(lambda step: step.op == "mul", grad_above=3, nan=True, shape=2)
    assert str(point) == "stop at: a gradient is above 3 or NaN or shape (2,) or <lambda>(step)"
    assert json.loads(json.dumps(point.to_dict()))["predicate"] == "<lambda>"
    with pytest.raises(TypeError, match="grad_above is a number"):
        w.run_until(grad_above="3")
    with pytest.raises(TypeError, match=r"not 'd'. Fix: run_to"):
        w.run_until("d")
