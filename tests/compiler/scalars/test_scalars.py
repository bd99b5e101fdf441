"""Replays of Value graphs against the same lines run again with Values: the same bits."""

from __future__ import annotations

import itertools
import math
import random
import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gradwalk as gw
from gradwalk import Value
from gradwalk.compiler.backends.llvm import target
from gradwalk.compiler.scalars import compile_values
from gradwalk.compiler.scalars.flat_graph import read
from gradwalk.ops import TABLE
from gradwalk.ops.core.op import Op, OpError
from gradwalk.scalar import MLP
from tests.ops.domains import domain_of

# What hardware computes correctly rounded, or only picks or moves: no bit may differ.
EXACT = [
    "abs", "add", "ceil", "clamp_max", "clamp_min", "clip", "clip_between", "copysign", "deg2rad",
    "div", "div_floor", "div_trunc", "floor", "frac", "hardshrink", "hardsigmoid", "hardswish",
    "hardtanh", "leaky_relu", "maximum", "minimum", "mul", "nan_to_num", "neg", "rad2deg",
    "reciprocal", "relu", "round", "rsqrt", "sign", "softshrink", "sqrt", "square", "sub",
    "threshold", "trunc", "where",
]  # fmt: skip
MOST_ULP = 16  # of the others: a function, then its rule, which may be several of them
SPECIAL = [0.0, -0.0, 1.0, -1.0, math.inf, -math.inf, math.nan, 1e308, -5e-324, 2.0]

Build = Callable[[list[Value]], Value]


def total(terms: list[Value]) -> Value:
    """Python's own sum, which begins with 0 + the first."""
    return sum(terms)  # type: ignore[return-value]


def check(build: Build, first: Sequence[float], then: Sequence[float], ulp: int = 0) -> Any:
    """Record with one set of numbers, replay with another, and compare with running it again."""
    leaves = [Value(x) for x in first]
    replay = compile_values(build(leaves))
    again = [Value(x) for x in then]
    loss = build(again)
    loss.backward()
    listed = set(replay.leaves)
    found = replay({leaf: x for leaf, x in zip(leaves, then, strict=True) if leaf in listed})
    expected = [float(b.grad) for a, b in zip(leaves, again, strict=True) if a in listed]
    got = [replay.grad(a) for a in leaves if a in listed]
    same(np.array([found, *got]), np.array([float(loss.data), *expected]), ulp)
    return replay


def same(found: Any, expected: Any, ulp: int) -> None:
    if ulp == 0:
        np.testing.assert_array_equal(found, expected)  # NaN equals NaN
        return
    finite = np.isfinite(expected)
    np.testing.assert_array_equal(found[~finite], expected[~finite])
    # Near 0 the last bits of what cancelled are not those of the result.
    close = np.abs(found - expected)[finite] <= 1e-15
    close |= np.abs(found - expected)[finite] <= ulp * np.spacing(np.abs(expected[finite]))
    assert close.all(), (found, expected)


# -- every op --------------------------------------------------------------------------------------

ATTRIBUTES: dict[str, dict[str, Any]] = {
    "power": {"exponent": 2.5},
    "polygamma": {"n": 1},
    "clip": {"min": 0.3, "max": 0.7},
    "round": {"decimals": 0},
}
OPS = [op for op in TABLE.values() if op.elementwise and op.differentiable]


def numbers_for(op: Op, count: int) -> list[list[float]]:
    """So many random operands of an op from where it is defined."""
    ranges = domain_of(op, 2.0)
    source = random.Random(op.name)
    drawn = [[source.uniform(*ranges[k]) for k in range(len(op.inputs))] for _ in range(count)]
    if op.name == "where":
        drawn = [[float(k % 2), *row[1:]] for k, row in enumerate(drawn)]
    return drawn


def sum_of(op: Op, lanes: int) -> Build:
    """The op on own operands in each of several lanes, each × a number of its own."""
    attrs = ATTRIBUTES.get(op.name, {})
    arity = len(op.inputs)

    def build(leaves: list[Value]) -> Value:
        terms = [
            op(*leaves[k * arity : (k + 1) * arity], **attrs) * (1.0 + 0.1 * k)
            for k in range(lanes)
        ]
        return sum(terms, Value(0.5))

    return build


@pytest.mark.parametrize("op", OPS, ids=lambda op: op.name)
@pytest.mark.parametrize("lanes", [1, 11])
def test_every_op(op: Op, lanes: int) -> None:
    first, then = numbers_for(op, 2 * lanes)[:lanes], numbers_for(op, 2 * lanes)[lanes:]
    if op.name == "where":
        then = [[a[0], *b[1:]] for a, b in zip(first, then, strict=True)]
    ulp = 0 if op.name in EXACT else MOST_ULP
    check(sum_of(op, lanes), np.ravel(first).tolist(), np.ravel(then).tolist(), ulp)


@pytest.mark.parametrize("name", sorted(set(EXACT) - {"where"}))
def test_special_numbers(name: str) -> None:
    op = TABLE[name]
    arity = len(op.inputs)
    source = random.Random(name)
    for _ in range(4):
        numbers = [source.choice(SPECIAL) for _ in range(5 * arity)]
        check(sum_of(op, 5), [0.5] * len(numbers), numbers)


@pytest.mark.parametrize("name", sorted(set(EXACT) - {"where"}))
def test_zeros_keep_their_sign(name: str) -> None:
    op = TABLE[name]
    for zeros in itertools.product([0.0, -0.0, -0.3], repeat=len(op.inputs)):
        check(
            lambda leaves: 1.0 / op(*leaves, **ATTRIBUTES.get(name, {})), [1.5] * len(zeros), zeros
        )


def test_there_is_an_exact_op_for_every_name() -> None:
    assert set(EXACT) <= {op.name for op in OPS}


# -- graphs of any shape ---------------------------------------------------------------------------

TWO = ["add", "mul", "sub", "div", "maximum", "add", "mul"]
ONE = ["neg", "relu", "abs", "sqrt", "floor"]


@st.composite
def programs(draw: Any) -> list[tuple[str, ...]]:
    """Lines `op, operand, operand` on numbered Values, of which the first four are leaves."""
    lines: list[Any] = []
    for line in range(draw(st.integers(1, 60))):
        near = st.integers(max(0, line - 3), line + 3)
        operand = st.one_of(near, st.integers(0, line + 3))
        if draw(st.integers(0, 3)):
            lines.append((draw(st.sampled_from(TWO)), draw(operand), draw(operand)))
        else:
            lines.append((draw(st.sampled_from(ONE)), draw(operand)))
    return lines


def run(lines: list[Any], leaves: list[Value]) -> Value:
    values = list(leaves)
    for name, *operands in lines:
        values.append(TABLE[name](*[values[k] for k in operands]))
    return values[-1]


numbers = st.one_of(st.floats(-3, 3), st.sampled_from(SPECIAL))


@settings(deadline=None, max_examples=60)
@given(programs(), st.lists(numbers, min_size=4, max_size=4))
def test_random_graphs(lines: list[Any], then: list[float]) -> None:
    check(lambda leaves: run(lines, leaves), [0.3, -0.7, 1.1, 2.0], then)


@settings(deadline=None, max_examples=30)
@given(programs(), st.lists(numbers, min_size=2, max_size=2), st.sampled_from([2, 5, 9, 70]))
def test_copies_of_random_graphs(lines: list[Any], then: list[float], copies: int) -> None:
    """Two leaves are shared by all copies, two are their own."""

    def build(leaves: list[Value]) -> Value:
        own = leaves[2:]
        terms = [run(lines, [*leaves[:2], *own[2 * k : 2 * k + 2]]) for k in range(copies)]
        return total(terms)

    source = random.Random(copies)
    rest = [source.uniform(-2, 2) for _ in range(2 * copies)]
    check(build, [0.5, 0.6, *rest], [*then, *reversed(rest)])


def test_a_value_used_twice_by_one_operation() -> None:
    check(lambda v: v[0] * v[0] + (v[0] + v[0]) / (v[1] * v[1] * v[1]), [1.5, 2.0], [0.1, 0.7])


def test_one_operation_and_a_leaf_alone() -> None:
    check(lambda v: v[0] * v[1], [1.0, 2.0], [3.0, -4.0])
    x = Value(3.0)
    replay = compile_values(x)
    assert (replay([7.0]), replay.grad(x), replay.leaves) == (7.0, 1.0, (x,))


def test_a_graph_of_constants_only() -> None:
    replay = compile_values(Value(2.0) * 3.0, leaves=[])
    assert (replay(), replay.leaves, len(replay.gradients)) == (6.0, (), 0)


def test_a_gradient_that_never_arrives_is_zero() -> None:
    check(lambda v: (v[0] * v[1]).floor() + v[1], [1.5, 2.5], [3.7, 1.9])


def test_a_long_chain() -> None:
    def build(v: list[Value]) -> Value:
        y = v[0]
        for _ in range(3000):
            y = (y * v[1] + v[2]).relu()
        return y

    check(build, [1.0, 0.9, 0.1], [2.0, 0.99, 0.2])


@pytest.mark.parametrize("count", [2, 7, 8, 17, 64, 65, 200])
def test_sums_of_any_length(count: int) -> None:
    source = random.Random(count)
    first, then = ([source.uniform(-2, 2) for _ in range(count)] for _ in range(2))
    check(lambda v: total([x * x for x in v]), first, then)
    check(lambda v: sum(v[1:], v[0]) * v[0], first, then)


def test_sums_that_begin_with_a_sum_on_the_right() -> None:
    check(lambda v: v[0] + (v[1] * v[2] + (v[3] + v[0] * v[1])), [1, 2, 3, 4], [0.1, 0.2, 0.3, 1e9])


def test_minus_zero_survives_a_sum_and_not_a_gradient() -> None:
    x, y = Value(-0.0), Value(-0.0)
    replay = compile_values((x + y) * 1.0)
    assert math.copysign(1, replay()) == -1
    a, b = Value(0.0), Value(1.0)
    replay = compile_values(-a * b)
    replay()
    assert math.copysign(1, replay.grad(b)) == 1  # −0 added to 0, as in `grad += ...`


def network(points: int, shape: list[int], regular: bool) -> tuple[Any, list[Value]]:
    source = random.Random(points)
    model = MLP(shape[0], shape[1:])
    for p in model.parameters():
        p.data = source.uniform(-1, 1)
    rows = [[Value(source.gauss(0, 1)) for _ in range(shape[0])] for _ in range(points)]
    losses = [(1 + -source.choice([-1, 1]) * model(row)).relu() for row in rows]
    loss = sum(losses) * (1.0 / points)
    if regular:
        loss = loss + 1e-4 * sum(p * p for p in model.parameters())
    return loss, [*model.parameters(), *(x for row in rows for x in row)]


@pytest.mark.parametrize("points", [1, 3, 8, 50])
@pytest.mark.parametrize("regular", [False, True])
def test_a_network_on_points(points: int, regular: bool) -> None:
    loss, leaves = network(points, [2, 5, 6, 1], regular)
    replay = compile_values(loss, leaves)
    loss.backward()
    assert replay() == loss.data
    assert replay.gradients.tolist() == [float(leaf.grad) for leaf in leaves]


def test_copies_of_a_network_are_lanes() -> None:
    loss, _ = network(50, [2, 16, 16, 1], regular=False)
    replay = compile_values(loss)
    calls = replay.explain()
    assert "50 the longest" in calls
    assert sum(int(line.split()[0]) for line in calls.splitlines()[4:]) < 300  # for 32201 Values


# -- leaves, constants, calls ----------------------------------------------------------------------


def test_leaves_in_order_of_use_without_constants() -> None:
    a, b, c = Value(1.0), Value(2.0, label="b"), Value(3.0)
    replay = compile_values(2 * c + gw.maximum(b, 0.5) * 3.0 - (a + 1) ** 2)
    assert replay.leaves == (c, b, a)
    assert replay([1.0, 2.0, 3.0]) == 2 + 6 - 16
    assert replay.gradients.tolist() == [2.0, 3.0, -8.0]


def test_a_constant_with_a_label_is_a_leaf() -> None:
    x = Value(3.0)
    y = 2 * x
    y.inputs[0].label = "two"
    replay = compile_values(y)
    assert [leaf.label for leaf in replay.leaves] == ["two", ""]
    assert replay({"two": 5.0}) == 15.0
    assert (replay.grad("two"), replay.grad(x)) == (3.0, 5.0)


def test_numbers_that_a_network_was_given_are_constants() -> None:
    model = MLP(2, [3, 1])
    replay = compile_values(model([0.5, -1.0]) * 2)
    assert set(replay.leaves) == set(model.parameters())


def test_numbers_by_leaf_by_label_and_from_the_values() -> None:
    a, b = Value(2.0, label="a"), Value(-3.0)
    replay = compile_values(a * b + a)
    assert replay() == -4.0
    a.data = 5
    assert replay() == -10.0
    assert replay({b: 1.0}) == 10.0
    assert replay({"a": np.float32(1), b: 0}) == 1.0
    assert replay(np.array([1, 2])) == 3.0
    assert replay((1, 2)) == 3.0


def test_chosen_leaves_in_a_chosen_order() -> None:
    a, b, c = Value(2.0), Value(3.0), Value(4.0)
    replay = compile_values(a * b * c, leaves=[c, a])
    b.data = 100.0  # was not asked for: stays what it was
    assert replay([5.0, 7.0]) == 105.0
    assert replay.gradients.tolist() == [21.0, 15.0]


def test_write_back() -> None:
    a, b = Value(2.0), Value(3.0)
    loss = a * b
    replay = compile_values(loss)
    replay([5.0, 7.0])
    assert (a.data, loss.data, a.grad) == (2.0, 6.0, 0)
    replay.write_back()
    assert (a.data, b.data, loss.data, a.grad, b.grad) == (5.0, 7.0, 35.0, 7.0, 5.0)


def test_gradients_are_not_changed_by_the_next_call() -> None:
    a = Value(2.0)
    replay = compile_values(a * a)
    replay([3.0])
    first = replay.gradients
    replay([4.0])
    assert (first.tolist(), replay.gradients.tolist()) == ([6.0], [8.0])


def test_integers_are_floats() -> None:
    a = Value(3)
    replay = compile_values(a * 2 + 1)
    found = replay()
    assert (found, type(found)) == (7.0, float)


def test_labels_that_two_leaves_have_are_refused() -> None:
    a, b = Value(1.0, label="x"), Value(2.0, label="x")
    replay = compile_values(a * b)
    with pytest.raises(KeyError, match="only one of them"):
        replay({"x": 3.0})
    with pytest.raises(KeyError, match="neither a leaf"):
        replay({Value(1.0): 3.0})


def test_wrong_calls_are_explained() -> None:
    a, b = Value(1.0), Value(2.0)
    replay = compile_values(a * b)
    with pytest.raises(ValueError, match="2 leaves and got 3"):
        replay([1.0, 2.0, 3.0])
    with pytest.raises(ValueError, match="not a leaf"):
        compile_values(a * b, leaves=[Value(1.0)])
    with pytest.raises(ValueError, match="twice"):
        compile_values(a * b, leaves=[a, a])
    with pytest.raises(TypeError, match="takes a Value"):
        compile_values(3.0)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="backend"):
        compile_values(a * b, backend="cuda")


def test_values_made_by_hand_are_refused_with_their_line() -> None:
    a = Value(1.0)
    out = Value(2.0, (a,), "twice")
    with pytest.raises(OpError, match=r"made with op 'twice'.*test_scalars\.py"):
        compile_values(out + 1)
    product = a * 2
    product._backward = lambda: None
    with pytest.raises(OpError, match="`_backward` of its own"):
        compile_values(product + 1)


# -- ops of users, and errors in them --------------------------------------------------------------


def test_an_op_of_a_user() -> None:
    gaussian = gw.elementwise(
        "gaussian",
        lambda x: np.exp(-(x * x)),
        lambda x: math.exp(-x * x),
        partials=[lambda x, out: -2 * x * out],
    )
    check(lambda v: total([gaussian(x) for x in v]), [0.1] * 6, [0.1 * k for k in range(6)])
    check(lambda v: gaussian(v[0]) * v[1], [0.1, 0.2], [0.5, 0.6])


def test_an_op_of_a_user_with_the_name_of_ours() -> None:
    tanh = gw.elementwise("tanh", lambda x: x * 3, lambda x: x * 3.0, partials=[3])
    check(lambda v: tanh(v[0]) + v[1].tanh(), [0.1, 0.0], [0.5, 0.0])


def test_an_error_in_an_op_of_a_user_is_told() -> None:
    def number(x: float) -> float:
        if x > 1:
            raise RuntimeError("too large")
        return x

    picky = gw.elementwise("picky", lambda x: x, number, partials=[1])
    replay = compile_values(picky(Value(0.5)) * 2)
    with pytest.raises(RuntimeError, match="too large"):
        replay([2.0])
    assert replay([0.25]) == 0.5


# -- threads, other backends -----------------------------------------------------------------------


def test_threads_may_share_a_replay() -> None:
    loss, _ = network(8, [2, 5, 1], regular=True)
    replay = compile_values(loss)
    start = np.array([float(leaf.data) for leaf in replay.leaves])
    cases = [start * scale for scale in (0.5, 1.0, 1.5, 2.0)]
    expected = [replay(numbers) for numbers in cases]
    found: dict[int, set[float]] = {}

    def work(k: int) -> None:
        found[k] = {replay(cases[k]) for _ in range(200)}

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {k: {expected[k]} for k in range(4)}


def test_the_reference_gives_the_same_and_leaves_the_values_alone() -> None:
    loss, leaves = network(5, [2, 4, 1], regular=True)
    numbers = [0.3 * k - 2 for k in range(len(leaves))]
    native, reference = (compile_values(loss, leaves, backend=b) for b in ("llvm", "numpy"))
    before = [(v.data, v.grad) for v in leaves]
    assert native(numbers) == reference(numbers)
    assert native.gradients.tolist() == reference.gradients.tolist()
    assert [(v.data, v.grad) for v in leaves] == before
    assert "one by one" in reference.explain()


def test_without_llvm_it_warns_and_works(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing() -> Any:
        raise target.LLVMMissing("no llvmlite here.")

    monkeypatch.setattr(target, "host", missing)
    a = Value(3.0)
    with pytest.warns(RuntimeWarning, match=r"no llvmlite here\. .* by Python"):
        replay = compile_values(a * a)
    assert (replay([4.0]), replay.grad(a)) == (16.0, 8.0)


# -- what a graph is read as -----------------------------------------------------------------------


def test_a_sum_of_products_is_one_step() -> None:
    w, x, b = [Value(1.0) for _ in range(3)], [Value(2.0) for _ in range(3)], Value(0.5)
    steps = read(sum((p * q for p, q in zip(w, x, strict=True)), b).relu())
    assert [steps.kinds[s].rules.op.name for s in steps.shapes] == ["add", "relu"]
    assert list(steps.kinds[0].terms) == [0, 1, 1, 1]  # b, then three products
    read_by_sum = [steps.leaves[t - len(steps.walk)] for t in steps.targets[:7]]
    assert read_by_sum == [b, w[0], x[0], w[1], x[1], w[2], x[2]]


def test_a_product_that_is_used_twice_is_a_step_of_its_own() -> None:
    a, b = Value(1.0), Value(2.0)
    product = a * b
    steps = read(product + a + product)
    assert [steps.kinds[s].rules.op.name for s in steps.shapes] == ["mul", "add"]
    assert list(steps.kinds[1].terms) == [0, 0, 0]
