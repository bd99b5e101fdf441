"""The order of a walk: inputs first, every node once, no recursion."""

import hypothesis.strategies as st
from hypothesis import given

import gradwalk as gw
from gradwalk.graph.order import inputs_first
from gradwalk.scalar.push import inner_first


@given(st.lists(st.tuples(st.integers(0, 99), st.integers(0, 99)), max_size=30))
def test_every_node_stands_once_and_after_its_inputs(picks: list[tuple[int, int]]) -> None:
    values = [gw.Value(1.0), gw.Value(2.0)]
    for one, other in picks:
        values.append(values[one % len(values)] + values[other % len(values)])
    order = inputs_first([values[-1]])
    place = {v: i for i, v in enumerate(order)}
    assert len(place) == len(order)
    for v in order:
        assert all(place[i] < place[v] for i in v.inputs)
    assert inner_first(values[-1]) == [v for v in order if v.inputs]


def test_the_first_input_is_listed_first() -> None:
    a, b, c = gw.Value(1.0), gw.Value(2.0), gw.Value(3.0)
    product = a * b
    total = product + c
    assert inputs_first([total]) == [a, b, product, c, total]


def test_nothing_behind_a_stop_is_listed() -> None:
    x = gw.tensor([1.0], requires_grad=True)
    h = x * 2
    y = h.exp()
    assert inputs_first([y.grad_fn], {h.grad_fn}) == [h.grad_fn, y.grad_fn]


def test_three_inputs_are_all_walked() -> None:
    a, b, c = gw.Value(2.0) * 1, gw.Value(3.0) * 1, gw.Value(1.0) * 1
    chosen = gw.where(c, a, b)
    chosen.backward()
    assert (a.grad, b.grad) == (1, 0)
    assert set(inner_first(chosen)) == {a, b, c, chosen}
