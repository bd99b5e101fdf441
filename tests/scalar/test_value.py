"""Value: micrograd's names and behaviour, and what it does better."""

from __future__ import annotations

import gc
import math
import random
import tracemalloc
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import micrograd.engine
import micrograd.nn
import numpy as np
import pytest
import torch

import gradwalk as gw
from gradwalk import Value, scalar

# -- micrograd's own tests -----------------------------------------------------------------------


def sanity_check(kind: Any) -> tuple[Any, list[Any]]:
    x = kind(-4.0)
    z = 2 * x + 2 + x
    q = z.relu() + z * x
    h = (z * z).relu()
    y = h + q + q * x
    return y, [x]


def more_ops(kind: Any) -> tuple[Any, list[Any]]:
    a = kind(-4.0)
    b = kind(2.0)
    c = a + b
    d = a * b + b**3
    c += c + 1
    c += 1 + c + (-a)
    d += d * 2 + (b + a).relu()
    d += 3 * d + (b - a).relu()
    e = c - d
    f = e**2
    g = f / 2.0
    g += 10.0 / f
    return g, [a, b]


def torch_leaf(number: float) -> torch.Tensor:
    return torch.tensor(number, dtype=torch.float64, requires_grad=True)


@pytest.mark.parametrize("program", [sanity_check, more_ops], ids=lambda p: p.__name__)
def test_as_micrograd_and_pytorch(program: Callable[..., Any]) -> None:
    results = []
    for kind in (Value, micrograd.engine.Value, torch_leaf):
        out, leaves = program(kind)
        out.backward()
        results.append([float(out.data), *(float(leaf.grad) for leaf in leaves)])
    assert results[0] == pytest.approx(results[1], rel=1e-14)
    assert results[0] == pytest.approx(results[2], rel=1e-14)


# -- the lecture's notebook -----------------------------------------------------------------------


def neuron() -> dict[str, Value]:
    x1, x2 = Value(2.0, label="x1"), Value(0.0, label="x2")
    w1, w2 = Value(-3.0, label="w1"), Value(1.0, label="w2")
    b = Value(6.8813735870195432, label="b")
    x1w1, x2w2 = x1 * w1, x2 * w2
    both = x1w1 + x2w2
    n = both + b
    o = n.tanh()
    return dict(locals())


GRADIENTS = {
    "o": 1, "n": 0.5, "b": 0.5, "both": 0.5, "x1w1": 0.5, "x2w2": 0.5,
    "x1": -1.5, "w1": 1.0, "x2": 0.5, "w2": 0.0,
}  # fmt: skip


def test_backpropagation_by_hand() -> None:
    v = neuron()
    v["o"].grad = 1.0
    for name in ("o", "n", "b", "both", "x1w1", "x2w2", "x1"):  # leaves do nothing
        v[name]._backward()
    assert {name: v[name].grad for name in GRADIENTS} == pytest.approx(GRADIENTS)


def test_backpropagation_by_machine() -> None:
    v = neuron()
    v["o"].backward()
    assert {name: v[name].grad for name in GRADIENTS} == pytest.approx(GRADIENTS)


def test_tanh_taken_apart() -> None:
    whole, apart = neuron(), neuron()
    whole["o"].backward()
    e = (2 * apart["n"]).exp()
    ((e - 1) / (e + 1)).backward()
    for name in ("x1", "w1", "x2", "w2", "b"):
        assert apart[name].grad == pytest.approx(whole[name].grad, abs=1e-12)


def test_draw_dot_finds_every_node_and_every_edge() -> None:
    root = neuron()["o"]
    nodes, edges = set(), set()

    def build(v: Any) -> None:
        if v not in nodes:
            nodes.add(v)
            for source in v._prev:
                edges.add((source, v))
                build(source)

    build(root)
    assert len(nodes) == 10 and len(edges) == 9
    assert sorted(n._op for n in nodes) == ["", "", "", "", "", "*", "*", "+", "+", "tanh"]
    assert {n.label for n in nodes} == {"", "x1", "x2", "w1", "w2", "b"}


OPS = {
    "+": lambda a: a + 1, "*": lambda a: a * 2, "**2": lambda a: a**2, "ReLU": lambda a: a.relu(),
    "**-1": lambda a: a**-1, "tanh": lambda a: a.tanh(), "exp": lambda a: a.exp(),
    "log": lambda a: a.log(), "sigmoid": lambda a: a.sigmoid(), "": lambda a: a,
    "/": lambda a: a / 2, "-": lambda a: -a, "**": lambda a: 2**a,
}  # fmt: skip


@pytest.mark.parametrize("name", OPS)
def test_ops_have_the_names_that_are_drawn(name: str) -> None:
    assert OPS[name](Value(3.0))._op == name


def test_the_constructor_is_micrograds() -> None:
    a, b = Value(1.0), Value(data=2.0)
    made = Value(3.0, (a, b), "+", "sum")
    assert (made.data, made.grad, made._op, made.label) == (3.0, 0, "+", "sum")
    assert set(made._prev) == {a, b}
    assert Value(3.0, _children=[a], _op="o", label="l")._prev == (a,)
    several = Value(6.0, (a, b, a, a), "sum4")
    assert several._prev == (a, b, a, a)
    with pytest.raises(gw.OpError, match="_backward"):
        made.backward()


class WithCube(Value):
    """A user's own op, as in the lecture."""

    def cube(self) -> Value:
        out = Value(self.data**3, (self,), "cube")

        def _backward() -> None:
            self.grad += 3 * self.data**2 * out.grad

        out._backward = _backward
        return out


def test_a_users_own_backward_works_with_ours() -> None:
    x = WithCube(2.0)
    y = x.cube() * 2 + x
    y.backward()
    assert y.data == 18.0
    assert x.grad == 25.0
    y.backward()
    assert x.grad == 50.0


def test_assigning_backward_replaces_the_rule() -> None:
    a = Value(3.0)
    b = a * a
    seen = []
    b._backward = lambda: seen.append(b.grad)
    (b * 2).backward()
    assert seen == [2] and a.grad == 0


def test_a_times_a_has_two_edges() -> None:
    a = Value(3.0)
    f = a * a
    assert f._prev == (a, a)
    f.backward()
    assert a.grad == 6.0


def test_a_second_backward_adds() -> None:
    x = Value(3)
    y = x * x + x
    y.backward()
    assert (x.grad, y.grad) == (7, 1)
    y.backward()
    assert (x.grad, y.grad) == (14, 2)
    y.zero_grad()
    assert (x.grad, y.grad) == (0, 0)
    assert all(v.grad == 0 for v in y._prev)
    y.backward()
    assert x.grad == 7


def test_two_losses_add_up_on_shared_leaves() -> None:
    x = Value(3.0)
    (x * x).backward()
    (x * 5).backward()
    assert x.grad == 11.0
    x.backward()  # a leaf is its own derivative
    assert x.grad == 12.0


@pytest.mark.parametrize(
    "given", [Value(2.5), 2.5, np.float64(2.5), np.float32(2.5), np.array(2.5)], ids=repr
)
def test_grad_accepts_numbers_and_values(given: Any) -> None:
    x = Value(1.0)
    x.grad = given
    assert x.grad == 2.5 and type(x.grad) is float


# -- numbers on either side ------------------------------------------------------------------------

NUMBERS = [
    2, 2.0, True, np.float64(2), np.float32(2), np.int64(2), np.uint8(2), np.array(2.0),
    np.array(2), np.bool_(True),
]  # fmt: skip
OPERATORS: list[Callable[[Any, Any], Any]] = [
    lambda a, b: a + b, lambda a, b: a - b, lambda a, b: a * b, lambda a, b: a / b,
    lambda a, b: a**b,
]  # fmt: skip


@pytest.mark.parametrize("number", NUMBERS, ids=lambda n: f"{type(n).__name__} {n}")
@pytest.mark.parametrize("operator", OPERATORS)
def test_numbers_mix_in_on_either_side(operator: Callable[..., Any], number: Any) -> None:
    plain = float(number)
    for left in (True, False):
        v, t = Value(3.0), torch_leaf(3.0)
        ours = operator(number, v) if left else operator(v, number)
        theirs = operator(plain, t) if left else operator(t, plain)
        ours.backward()
        theirs.backward()
        assert type(ours) is Value
        assert (ours.data, v.grad) == pytest.approx((theirs.item(), t.grad.item()), rel=1e-14)


def test_arrays_of_numbers_give_arrays_of_values() -> None:
    v = Value(3.0)
    for found in (np.array([1.0, 2.0]) * v, v * np.array([1.0, 2.0])):
        assert found.dtype == object
        assert [type(f) for f in found] == [Value, Value]
        assert [f.data for f in found] == [3.0, 6.0]
    total = sum(np.array([[1.0, 2.0], [3.0, 4.0]])[0] - v)
    total.backward()
    assert v.grad == -2


def test_builtins() -> None:
    values = [Value(3.0), Value(-5.0), Value(4.0)]
    total = sum(values)
    assert total.data == 2.0 and max(values) is values[2] and min(values) is values[1]
    assert sorted(values)[0] is values[1]
    (abs(values[1]) * total).backward()
    assert [v.grad for v in values] == [5.0, 5.0 - 2.0, 5.0]
    assert float(values[0]) == 3.0 and bool(values[0]) and not Value(0.0)
    assert math.sqrt(Value(9.0)) == 3.0 and round(float(Value(2.6))) == 3
    assert Value(1) < 2 and Value(1) <= Value(1) and Value(3) > Value(2) and not Value(2) >= 3
    assert Value(1.0) != Value(1.0)  # as in micrograd: a node is itself
    assert len({Value(1.0), Value(1.0)}) == 2


@pytest.mark.parametrize(
    "wrong", [lambda v: v + "1", lambda v: v * None, lambda v: [1] - v, lambda v: Value("3"),
              lambda v: Value([1.0]), lambda v: v ** (1 + 2j), lambda v: Value(np.ones(2))],
)  # fmt: skip
def test_anything_else_is_refused(wrong: Callable[..., Any]) -> None:
    with pytest.raises(TypeError, match=r"one number|unsupported operand"):
        wrong(Value(1.0))


# -- the same text and the same numbers ------------------------------------------------------------

REPRS: list[Callable[[Any], Any]] = [
    lambda V: V(2), lambda V: V(2.0), lambda V: V(2) * V(3), lambda V: V(2) + 1,
    lambda V: V(3) ** 2, lambda V: V(3) ** -1, lambda V: -V(2.5), lambda V: V(1.5) - 4,
    lambda V: 1 - V(2), lambda V: V(0.1), lambda V: V(-2.0) * 0.0, lambda V: V(5).relu(),
    lambda V: V(7.5).relu(), lambda V: V(0).relu(), lambda V: V(-3).relu(),
    lambda V: V(1e300) * 10, lambda V: V(1e-7), lambda V: V(8) / 2,
]  # fmt: skip


@pytest.mark.parametrize("make", REPRS)
def test_repr_is_micrograds(make: Callable[..., Any]) -> None:
    ours, theirs = make(Value), make(micrograd.engine.Value)
    assert repr(ours) == repr(theirs)
    ours.backward()
    theirs.backward()
    assert repr(ours) == repr(theirs)
    mine = sorted(repr(v) for v in ours._prev)
    if type(ours.op) is not str and ours.op.name in ("add", "mul", "power", "relu"):
        assert mine == sorted(repr(v) for v in theirs._prev)


def moons(count: int) -> tuple[list[list[float]], list[int]]:
    """Two half circles, as in micrograd's demo."""
    source = random.Random(1)
    points, labels = [], []
    for i in range(count):
        angle, label = math.pi * source.random(), i % 2
        x, y = math.cos(angle), math.sin(angle)
        points.append([x, y] if label else [1 - x, 0.5 - y])
        labels.append(2 * label - 1)
    return points, labels


def train(library: Any, value: Any, steps: int) -> list[Any]:
    """The loop of micrograd's demo.ipynb."""
    random.seed(1337)
    model = library.MLP(2, [8, 8, 1])
    points, labels = moons(16)
    history: list[Any] = [repr(model), len(model.parameters())]
    for k in range(steps):
        inputs = [list(map(value, row)) for row in points]
        scores = list(map(model, inputs))
        losses = [(1 + -yi * scorei).relu() for yi, scorei in zip(labels, scores, strict=True)]
        data_loss = sum(losses) * (1.0 / len(losses))
        alpha = 1e-4
        reg_loss = alpha * sum(p * p for p in model.parameters())
        total_loss = data_loss + reg_loss
        accuracy = [
            (yi > 0) == (scorei.data > 0) for yi, scorei in zip(labels, scores, strict=True)
        ]
        model.zero_grad()
        total_loss.backward()
        learning_rate = 1.0 - 0.9 * k / 100
        for p in model.parameters():
            p.data -= learning_rate * p.grad
        history += [total_loss.data, sum(accuracy) / len(accuracy)]
    return [*history, *(p.data for p in model.parameters())]


def test_the_demo_trains_to_the_same_numbers() -> None:
    ours = train(scalar, Value, 3)
    theirs = train(micrograd.nn, micrograd.engine.Value, 3)
    assert ours[:4] == theirs[:4]  # the first loss and accuracy, to the last bit
    # From then on up to rounding: micrograd keeps inputs in a set and adds in no fixed order.
    assert ours[4:] == pytest.approx(theirs[4:], rel=1e-11, abs=1e-13)


def test_modules_are_micrograds() -> None:
    for ours, theirs in [
        (scalar.Neuron(3), micrograd.nn.Neuron(3)),
        (scalar.Neuron(3, nonlin=False), micrograd.nn.Neuron(3, nonlin=False)),
        (scalar.Layer(2, 3), micrograd.nn.Layer(2, 3)),
        (scalar.Layer(2, 1, nonlin=False), micrograd.nn.Layer(2, 1, nonlin=False)),
        (scalar.MLP(3, [4, 4, 1]), micrograd.nn.MLP(3, [4, 4, 1])),
        (scalar.Module(), micrograd.nn.Module()),
    ]:
        if type(ours) is not scalar.Module:
            assert repr(ours) == repr(theirs)
        assert len(ours.parameters()) == len(theirs.parameters())
    layer = scalar.Layer(2, 3)
    assert len(layer([1.0, 2.0])) == 3
    assert type(scalar.Layer(2, 1)([1.0, Value(2.0)])) is Value
    out = scalar.MLP(3, [4, 4, 1])([2.0, 3.0, -1.0])
    assert type(out) is Value
    assert gw.Value is scalar.Value


# -- IEEE ------------------------------------------------------------------------------------------

INF, NAN = math.inf, math.nan
IEEE: list[tuple[Callable[[Any], Any], float]] = [
    (lambda v: v.log(), 0.0), (lambda v: v.log(), -1.0), (lambda v: 1 / v, 0.0),
    (lambda v: 1 / v, -0.0), (lambda v: v / v, 0.0), (lambda v: v.exp(), 710.0),
    (lambda v: v.exp(), -INF), (lambda v: v.sqrt(), -1.0), (lambda v: v.sqrt(), 0.0),
    (lambda v: v**0.5, -4.0), (lambda v: v**-1, 0.0), (lambda v: v**0, 0.0),
    (lambda v: v**2, 1e200), (lambda v: v * v, 1e200), (lambda v: v.tanh(), 1e9),
    (lambda v: v.tanh(), NAN), (lambda v: v.relu(), NAN), (lambda v: v.sigmoid(), -1000.0),
    (lambda v: v.sigmoid(), 1000.0), (lambda v: v - v, INF), (lambda v: v.relu(), -0.0),
    (lambda v: abs(v), 0.0), (lambda v: v.log1p(), -1.0), (lambda v: v.expm1(), 1000.0),
    (lambda v: v.sin(), INF), (lambda v: v.asin(), 2.0), (lambda v: v.acos(), 1.0),
    (lambda v: v.cosh(), 1000.0), (lambda v: v.tan(), 0.5), (lambda v: v.rsqrt(), 0.0),
    (lambda v: 0.0**v, 2.0), (lambda v: 0.0**v, -1.0), (lambda v: (-2.0) ** v, 0.5),
]  # fmt: skip


@pytest.mark.parametrize(("function", "at"), IEEE)
def test_where_math_raises_numpy_decides(function: Callable[..., Any], at: float) -> None:
    ours, theirs = Value(at), torch_leaf(at)
    out, other = function(ours), function(theirs)
    out.backward()
    other.backward()
    assert type(out.data) in (int, float) and type(ours.grad) in (int, float)
    np.testing.assert_allclose(out.data, other.item(), rtol=1e-12)
    np.testing.assert_allclose(ours.grad, theirs.grad.item(), rtol=1e-12)


# -- size ------------------------------------------------------------------------------------------


def chain(length: int) -> tuple[Value, Value]:
    x = Value(1.0)
    y = x
    for _ in range(length // 2):
        y = y * 1.0 + 0.0
    return x, y


@pytest.fixture
def no_collector() -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@pytest.mark.slow
def test_a_million_nodes_walk_and_are_freed_without_the_collector(no_collector: None) -> None:
    x, y = chain(1_000_000)
    y.backward()
    assert x.grad == 1.0
    watched = [weakref.ref(y), weakref.ref(y._prev[0]), weakref.ref(y._prev[0]._prev[0])]
    del y
    assert [w() for w in watched] == [None, None, None]


@pytest.mark.slow
def test_all_memory_comes_back_without_the_collector(no_collector: None) -> None:
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        _, y = chain(20_000)
        y.backward()
        held = tracemalloc.get_traced_memory()[0] - before
        del y
        assert tracemalloc.get_traced_memory()[0] - before < held / 100
    finally:
        tracemalloc.stop()


def test_a_deep_graph_can_be_cleared_and_walked_again() -> None:
    x, y = chain(20_000)
    y.backward()
    y.backward()
    assert x.grad == 2.0
    y.zero_grad()
    assert x.grad == 0


def test_values_make_no_reference_cycles(no_collector: None) -> None:
    v = neuron()
    v["o"].backward()
    (v["o"] ** 2 / 3 + abs(v["n"])).backward()
    watched = [weakref.ref(node) for node in v.values()]
    del v
    assert [w() for w in watched] == [None] * len(watched)


# -- not with tensors --------------------------------------------------------------------------

MIXTURES: list[Callable[[Any, Any], Any]] = [
    lambda v, t: v + t, lambda v, t: t + v, lambda v, t: v * t, lambda v, t: t * v,
    lambda v, t: v - t, lambda v, t: t - v, lambda v, t: v / t, lambda v, t: t / v,
    lambda v, t: v**t, lambda v, t: t**v, lambda v, t: v < t, lambda v, t: t < v,
    lambda v, t: t @ v, lambda v, t: gw.maximum(v, t), lambda v, t: gw.maximum(t, v),
    lambda v, t: gw.where(t > 0, v, t), lambda v, t: t.add_(v), lambda v, t: t.__setitem__(0, v),
    lambda v, t: gw.tensor([v]), lambda v, t: gw.tensor(v, dtype=gw.float64), lambda v, t: Value(t),
    lambda v, t: setattr(v, "grad", t),
]  # fmt: skip


@pytest.mark.parametrize("mix", MIXTURES)
def test_values_and_tensors_do_not_mix(mix: Callable[..., Any]) -> None:
    with pytest.raises(TypeError, match=r"(?s)Value.*Fix: use (value\.data|tensor\.item\(\))"):
        mix(Value(2.0, label="v"), gw.tensor([1.0, 2.0]))
