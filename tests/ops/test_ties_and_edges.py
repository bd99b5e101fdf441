"""Ties, kinks, zeros and infinities: where a derivative is a convention, PyTorch's is ours."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import gradwalk as gw
from tests.ops.oracle import OURS, THEIRS, TIGHT, TIGHT_SECOND, assert_same, run

NAN, INF = math.nan, math.inf
TIED = [[2.0, 5.0, 5.0], [5.0, 1.0, 1.0]]
ZEROS = [0.0, 0.0, 3.0]

# name -> (call, inputs). Value and gradient are compared with PyTorch.
EDGES: dict[str, tuple[Any, list[Any]]] = {
    # max and min share a tie equally, max(dim) gives all to the index it returns
    "max shares": (lambda m, x: m.max(x), [TIED]),
    "min shares": (lambda m, x: m.min(x), [TIED]),
    "amax shares": (lambda m, x: m.amax(x, 1), [TIED]),
    "amin shares": (lambda m, x: m.amin(x, (0, 1), True), [TIED]),
    "max along": (lambda m, x: tuple(m.max(x, 1)), [TIED]),
    "min along": (lambda m, x: tuple(m.min(x, 1)), [TIED]),
    "max along 0": (lambda m, x: tuple(m.max(x, 0, True)), [TIED]),
    "argmax": (lambda m, x: m.argmax(x, 1), [TIED]),
    "argmin": (lambda m, x: m.argmin(x), [TIED]),
    "maximum": (lambda m, x, y: m.maximum(x, y), [[1.0, 2.0, 3.0], [1.0, 3.0, 2.0]]),
    "minimum": (lambda m, x, y: m.minimum(x, y), [[1.0, 2.0, 3.0], [1.0, 3.0, 2.0]]),
    "maximum of itself": (lambda m, x: m.maximum(x, x), [[1.0, -2.0]]),
    "median shares": (lambda m, x: m.median(x), [[3.0, 1.0, 3.0, 3.0, 5.0]]),
    "median along": (lambda m, x: m.median(x, 1).values, [[[1.0, 4.0, 3.0, 2.0], [2.0] * 4]]),
    "median with a NaN": (lambda m, x: m.median(x), [[3.0, NAN, 1.0]]),
    "sort": (lambda m, x: tuple(m.sort(x, stable=True)), [[2.0, 1.0, 2.0, NAN, 1.0]]),
    "sort down": (
        lambda m, x: tuple(m.sort(x, descending=True, stable=True)), [[2.0, 1.0, 2.0, NAN, 1.0]],
    ),
    "topk": (lambda m, x: tuple(m.topk(x, 2)), [[2.0, 5.0, NAN, 1.0]]),
    # kinks
    "clip at its bounds": (lambda m, x: m.clip(x, -1.0, 1.0), [[-2.0, -1.0, 0.0, 1.0, 2.0]]),
    "clip from below": (lambda m, x: m.clamp(x, min=0.0), [[-1.0, 0.0, -0.0, 1.0]]),
    "clip crossed": (lambda m, x: m.clip(x, 1.0, -1.0), [[-2.0, -1.0, 0.0, 1.0, 2.0]]),
    "abs": (lambda m, x: m.abs(x), [[-1.0, 0.0, -0.0, 1.0]]),
    "relu": (lambda m, x: m.relu(x), [[-1.0, 0.0, -0.0, 1.0]]),
    "leaky relu": (lambda m, x: m.nn.functional.leaky_relu(x, 0.1), [[-1.0, 0.0, -0.0, 1.0]]),
    "softplus": (lambda m, x: m.nn.functional.softplus(x), [[-50.0, 20.0, 20.0000001, 50.0, 0.0]]),
    "sign floor round": (
        lambda m, x: m.sign(x) + m.floor(x) + m.round(x),
        [[-1.5, -0.5, 0.5, 1.5, 2.5, 0.0]],
    ),
    # powers
    "x ** y": (
        lambda m, x, y: x**y,
        [[0.0, 0.0, 0.0, 2.0, -2.0, -2.0, 0.0, -0.0], [0.0, 2.0, -1.0, 0.0, 2.0, 0.5, 0.5, 1.0]],
    ),
    "x ** 0": (lambda m, x: x**0, [[0.0, 2.0, -3.0, INF, NAN]]),
    "x ** 0.0": (lambda m, x: x**0.0, [[0.0, 2.0, -3.0]]),
    "x ** 1": (lambda m, x: x**1, [[0.0, 2.0, -3.0]]),
    "x ** -1": (lambda m, x: x**-1, [[0.0, -0.0, 2.0]]),
    "0 ** x": (lambda m, x: 0.0**x, [[0.0, 1.0, 2.0, 0.5]]),
    "sqrt": (lambda m, x: m.sqrt(x), [[0.0, -1.0, 4.0, INF]]),
    "rsqrt": (lambda m, x: m.rsqrt(x), [[0.0, -1.0, 4.0, INF]]),
    "log": (lambda m, x: m.log(x), [[0.0, -0.0, -1.0, INF]]),
    "log1p": (lambda m, x: m.log1p(x), [[-1.0, 0.0, 1e-20]]),
    "expm1": (lambda m, x: m.expm1(x), [[1e-20, 0.0, -800.0]]),
    "division": (lambda m, x, y: x / y, [[1.0, 0.0, -1.0, 0.0], [0.0, 0.0, -0.0, 2.0]]),
    "asin and acos": (lambda m, x: m.asin(x) + 2 * m.acos(x), [[-1.0, 1.0, 0.0, 2.0]]),
    # a NaN or inf in the branch not taken
    "where, NaN in x": (lambda m, x, y: m.where(y > 0, x, y), [[NAN, 2.0], [-1.0, 1.0]]),
    "where, sqrt": (lambda m, x: m.where(x > 0, m.sqrt(x), x), [[-1.0, 4.0]]),
    "where, log": (lambda m, x: m.where(x > 0, m.log(x), 0.0), [[0.0, 2.0]]),
    "where, 1/x": (lambda m, x: m.where(x == 0, x, 1 / x), [[0.0, 2.0]]),
    "clip of inf": (lambda m, x: m.clip(x, 0.0, 1.0), [[INF, -INF, NAN, 0.5]]),
    # products with zeros
    "prod, one zero": (lambda m, x: m.prod(x), [[0.0, 2.0, 3.0]]),
    "prod, two zeros": (lambda m, x: m.prod(x), [ZEROS]),
    "prod, all zeros": (lambda m, x: m.prod(x), [[0.0, 0.0, 0.0]]),
    "prod along": (lambda m, x: m.prod(x, 1, True), [[[0.0, 2.0], [0.0, 0.0], [3.0, 4.0]]]),
    "prod of one": (lambda m, x: m.prod(x), [[0.0]]),
    # softmax and its family
    "softmax of ±1e4": (lambda m, x: m.softmax(x, 1), [[[1e4, -1e4, 0.0], [1e4, 1e4, -1e4]]]),
    "log_softmax of ±1e4": (lambda m, x: m.log_softmax(x, 1), [[[1e4, -1e4], [1e4, 1e4]]]),
    "logsumexp of ±1e4": (lambda m, x: m.logsumexp(x, 1), [[[1e4, -1e4], [-1e4, -1e4]]]),
    "logsumexp, some -inf": (lambda m, x: m.logsumexp(x, 0), [[-INF, 1.0, 2.0]]),
    "logsumexp, an inf": (lambda m, x: m.logsumexp(x, 0), [[INF, 1.0, -INF]]),
    "softmax, some -inf": (lambda m, x: m.softmax(x, 0), [[-INF, 1.0, 2.0]]),
    "log_softmax, some -inf": (lambda m, x: m.log_softmax(x, 0), [[-INF, 1.0, 2.0]]),
    "cross_entropy of ±1e4": (
        lambda m, x: m.nn.functional.cross_entropy(x, m.tensor([0, 2, 1])),
        [[[1e4, -1e4, 0.0], [1e4, 1e4, -1e4], [0.0, 0.0, 0.0]]],
    ),
    "cross_entropy, -inf logit": (
        lambda m, x: m.nn.functional.cross_entropy(x, m.tensor([1])), [[[-INF, 1.0, 2.0]]],
    ),
    # variance
    "var, no freedom": (lambda m, x: m.var(x), [[3.0]]),
    "var, no freedom left": (lambda m, x: m.var(x, 0, correction=2), [[1.0, 3.0]]),
    "var, correction 0": (lambda m, x: m.var(x, 0, correction=0), [[1.0, 1.0, 1.0]]),
    "var, fraction": (lambda m, x: m.var(x, 0, correction=0.5), [[1.0, 2.0, 4.0]]),
    "std of equals": (lambda m, x: m.std(x, 0), [[2.0, 2.0]]),
    # an index met twice
    "getitem adds": (lambda m, x: x[[0, 1, 0, 0]], [[1.0, 2.0, 3.0]]),
    "getitem rows": (lambda m, x: x[[1, 1]], [TIED]),
    "index_select": (lambda m, x: m.index_select(x, 0, m.tensor([1, 1, 0])), [TIED]),
    "gather": (lambda m, x: m.gather(x, 1, m.tensor([[0, 0, 0], [2, 1, 2]])), [TIED]),
    "take": (lambda m, x: m.take(x, m.tensor([0, 5, 0, -1])), [TIED]),
    # shapes at their limits
    "1 × 1": (lambda m, x: x @ x, [[[3.0]]]),
    "x + x": (lambda m, x: x + x, [[1.0, 2.0]]),
    "x - x": (lambda m, x: x - x, [[1.0, INF]]),
    "x / x": (lambda m, x: x / x, [[2.0, 0.0]]),
}  # fmt: skip


@pytest.mark.parametrize("name", EDGES)
def test_as_pytorch(name: str) -> None:
    call, inputs = EDGES[name]
    arrays = [np.array(i) for i in inputs]
    assert_same(run(OURS, call, arrays), run(THEIRS, call, arrays), TIGHT)


SECOND_ORDER = [
    "prod, one zero", "prod, two zeros", "prod, all zeros", "prod along", "x ** 0", "x ** 1",
    "clip at its bounds", "max shares", "amax shares", "max along", "maximum", "relu",
    "where, sqrt", "softmax of ±1e4", "log_softmax of ±1e4", "cross_entropy of ±1e4",
    "getitem adds", "gather", "abs", "leaky relu", "var, correction 0",
]  # fmt: skip


@pytest.mark.parametrize("name", SECOND_ORDER)
def test_second_order_as_pytorch(name: str) -> None:
    call, inputs = EDGES[name]
    arrays = [np.array(i) for i in inputs]
    ours, theirs = run(OURS, call, arrays, order=2), run(THEIRS, call, arrays, order=2)
    assert_same(ours, theirs, TIGHT_SECOND)


def gradient(call: Any, values: Any) -> Any:
    x = gw.tensor(np.array(values), requires_grad=True)
    call(x).backward()
    return x.grad.tolist()


@pytest.mark.parametrize(
    ("call", "values", "expected"),
    [
        (lambda x: x.max(), [5.0, 1.0, 5.0], [0.5, 0.0, 0.5]),
        (lambda x: x.amax(), [5.0, 1.0, 5.0], [0.5, 0.0, 0.5]),
        (lambda x: x.max(0).values, [5.0, 1.0, 5.0], [1.0, 0.0, 0.0]),
        (lambda x: gw.maximum(x, x[0].detach()).sum(), [2.0, 2.0, 3.0], [0.5, 0.5, 1.0]),
        (lambda x: x.clip(-1, 1).sum(), [-2.0, -1.0, 1.0, 2.0], [0.0, 1.0, 1.0, 0.0]),
        (lambda x: x.abs().sum(), [0.0, -0.0], [0.0, 0.0]),
        (lambda x: x.relu().sum(), [0.0, -0.0], [0.0, 0.0]),
        (lambda x: (x**0).sum(), [0.0, 2.0], [0.0, 0.0]),
        (lambda x: gw.where(x > 0, x.log(), 0).sum(), [-1.0, 2.0], [-0.0, 0.5]),
        # a row of nothing but -inf adds nothing, and nothing comes back (PyTorch: NaN)
        (lambda x: x.logsumexp(0), [-INF, -INF], [0.0, 0.0]),
    ],
)
def test_the_numbers_themselves(call: Any, values: Any, expected: Any) -> None:
    assert gradient(call, values) == expected


@given(
    st.lists(st.lists(st.floats(-1e4, 1e4), min_size=3, max_size=3), min_size=1, max_size=5),
    st.data(),
)
def test_cross_entropy_gradient_is_p_minus_y_over_n(
    rows: list[list[float]], data: st.DataObject
) -> None:
    classes = data.draw(st.lists(st.integers(0, 2), min_size=len(rows), max_size=len(rows)))
    logits = gw.tensor(np.array(rows), requires_grad=True)
    gw.cross_entropy(logits, gw.tensor(classes)).backward()
    probability = gw.softmax(logits.detach(), 1).numpy()
    assert logits.grad is not None
    expected = (probability - np.eye(3)[classes]) / len(rows)
    np.testing.assert_allclose(logits.grad.numpy(), expected, rtol=1e-12, atol=1e-15)


def test_cross_entropy_with_an_impossible_class() -> None:
    with pytest.raises(IndexError, match=r"class 3 is out of range for 3 classes \(0 to 2\)"):
        gw.cross_entropy(gw.zeros(2, 3), gw.tensor([0, 3]))


# -- writing to one place twice -------------------------------------------------------------------


def test_setitem_with_an_index_twice_keeps_the_last_value() -> None:
    """PyTorch leaves the order open and gives every write a gradient; ours is the last, always."""
    x = gw.zeros(3, dtype=gw.float64)
    value = gw.tensor([1.0, 2.0, 3.0, 4.0], dtype=gw.float64, requires_grad=True)
    x[[0, 2, 0, 2]] = value
    assert x.tolist() == [3.0, 0.0, 4.0]
    (x * gw.tensor([10.0, 20.0, 30.0], dtype=gw.float64)).sum().backward()
    assert value.grad is not None
    assert value.grad.tolist() == [0.0, 0.0, 10.0, 30.0]


@given(st.lists(st.integers(0, 3), min_size=1, max_size=6), st.integers(0, 2**32 - 1))
def test_scatter_add_receives_every_addition(places: list[int], seed: int) -> None:
    source = np.random.default_rng(seed)
    base, more = source.normal(size=4), source.normal(size=len(places))
    call = lambda m, x, y: m.scatter_add(x, 0, m.tensor(places), y)
    arrays = [base, more]
    assert_same(run(OURS, call, arrays, order=2), run(THEIRS, call, arrays, order=2), TIGHT)


# -- subscripts of every kind, drawn at random ----------------------------------------------------

SIZES = (3, 4, 2)


@st.composite
def subscripts(draw: st.DrawFn) -> tuple[Any, ...]:
    """A subscript for a (3, 4, 2) tensor that both engines take."""
    count = draw(st.integers(0, 3))
    length = draw(st.integers(1, 3))  # index arrays broadcast together
    parts: list[Any] = []
    for size in SIZES[:count]:
        step = st.integers(1, 2)
        bound = st.one_of(st.none(), st.integers(-size, size))
        array = st.lists(st.integers(-size, size - 1), min_size=length, max_size=length)
        parts.append(
            draw(
                st.one_of(
                    st.integers(-size, size - 1),
                    st.builds(slice, bound, bound, step),
                    array,
                )
            )
        )
    for _ in range(draw(st.integers(0, 2))):
        parts.insert(draw(st.integers(0, len(parts))), None)
    if count < 3 and draw(st.booleans()):
        parts.append(...)
    return tuple(parts)


@given(subscripts())
def test_any_subscript(subscript: tuple[Any, ...]) -> None:
    array = np.arange(24.0).reshape(SIZES)
    call = lambda m, x: x[subscript]
    assert_same(run(OURS, call, [array]), run(THEIRS, call, [array]), TIGHT)


@given(subscripts())
def test_assignment_to_any_subscript(subscript: tuple[Any, ...]) -> None:
    def call(m: Any, x: Any, value: Any) -> Any:
        out = x * 1
        out[subscript] = value
        return out

    arrays = [np.arange(24.0).reshape(SIZES), np.array(7.0)]
    ours, theirs = run(OURS, call, arrays), run(THEIRS, call, arrays)
    # An element written twice counts once: what does not reach x reaches the value. (PyTorch
    # gives a gradient to every write, also to one that was overwritten.)
    cotangent = np.random.default_rng(0).uniform(0.5, 1.5, SIZES)
    theirs.gradients[1] = np.array(cotangent.sum() - theirs.gradients[0].sum())
    assert_same(ours, theirs, TIGHT)
