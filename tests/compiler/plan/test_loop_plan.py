"""Loops in the plan: a body is planned once, on windows that move; native code agrees."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gradwalk as gw
from gradwalk.compiler.pipeline import build
from gradwalk.compiler.plan.schedule import Plan, place_arrays
from gradwalk.compiler.plan.synchronization import sharing
from tests.compiler.loops import bounded, looped, random_loop, whole
from tests.compiler.programs import Written, agrees, assert_same_bits, plan_of


@pytest.mark.parametrize("seed", range(40))
def test_random_loops_agree(seed: int) -> None:
    agrees(random_loop(seed), 0.0)


def recurrence(count: int, size: int = 3, history: bool = False) -> Written:
    w = Written()
    x, first = w.argument(whole(count, size, size)), w.argument(whole(size, size, seed=1))
    weight = w.argument(whole(size, size, seed=2))

    def body(add: Any, rows: Any, states: Any) -> Any:
        product = add("matmul", states[0], weight)
        return [product], [bounded(add, add("add", product, rows[0]))]

    return w.returns(*looped(w, body, [x], [first], count=count, histories=[history]))


@pytest.mark.parametrize("history", [False, True])
def test_the_plan_does_not_grow_with_the_loop(history: bool) -> None:
    short, long = (plan_of(recurrence(count, history=history).program) for count in (5, 500))
    assert len(short.entries) == len(long.entries)
    assert {entry.times for entry in long.entries} == {1, 500}
    for found in (short, long):
        place_arrays(found)
    assert long.arena <= 120 * short.arena


def test_states_take_turns() -> None:
    """Each new state is another old one, and none is overwritten before all are read."""
    w = Written()
    first = [w.argument(whole(2, 3, seed=i)) for i in range(3)]

    def body(add: Any, rows: Any, states: Any) -> Any:
        one, two, three = states
        return [one], [two, three, add("neg", one)]

    for count in (1, 2, 3, 4):
        histories = [False, True, False]
        w.returns(*looped(w, body, [], first, count=count, histories=histories))
    agrees(w)


def test_one_term_for_everything() -> None:
    w = Written()
    first = [w.argument(whole(2, 3, seed=i)) for i in range(2)]

    def body(add: Any, rows: Any, states: Any) -> Any:
        new = add("sub", states[0], states[1])
        return [new, new], [new, new]

    w.returns(*looped(w, body, [], first, count=3, histories=[True, False]))
    agrees(w)


def test_a_constant_and_a_runtime_scalar_in_the_body() -> None:
    w = Written()
    table, rate = w.constant(np.arange(3.0)), w.number(0.5)

    def body(add: Any, rows: Any, states: Any) -> Any:
        return [], [add("add", add("mul", states[0], rate), table)]

    w.returns(*looped(w, body, [], [w.argument(np.ones(3))], count=4))
    agrees(w)


def test_a_memory_is_updated_after_the_loop_that_reads_it() -> None:
    w = Written()
    weight = w.memory(whole(3, 3, seed=2))

    def body(add: Any, rows: Any, states: Any) -> Any:
        return [], [bounded(add, add("matmul", states[0], weight))]

    (last,) = looped(w, body, [], [w.argument(whole(3, 3))], count=5)
    w.becomes(weight, w.add("sub", weight, 1.0)).returns(last)
    agrees(w)


def test_the_last_state_becomes_the_memory_that_the_loop_started_from() -> None:
    w = Written()
    first = w.memory(whole(3, 3, seed=2))

    def body(add: Any, rows: Any, states: Any) -> Any:
        return [], [bounded(add, add("matmul", states[0], first))]

    (last,) = looped(w, body, [], [first], count=5)
    agrees(w.becomes(first, last))


def test_rows_of_an_array_in_another_order_and_backwards() -> None:
    base = whole(3, 2, 5)
    w = Written()
    x = w.argument(base)
    order = ("slice", None, None, -1)
    turned = w.add("getitem", w.add("permute", x, axes=(2, 0, 1)), index=(order,))

    def body(add: Any, rows: Any, states: Any) -> Any:
        return [add("add", rows[0], states[0])], [rows[0]]

    w.returns(*looped(w, body, [turned], [w.argument(whole(3, 2, seed=3))], count=5, reverse=True))
    agrees(w)


@pytest.mark.parametrize("shape", [(0, 3), (3, 0)])
def test_no_elements(shape: tuple[int, int]) -> None:
    w = Written()

    def body(add: Any, rows: Any, states: Any) -> Any:
        return [add("neg", rows[0])], [add("add", rows[0], states[0])]

    x, first = w.argument(whole(2, *shape)), w.argument(whole(*shape))
    agrees(w.returns(*looped(w, body, [x], [first], count=2, histories=[True])))


def test_numpy_runs_what_has_no_kernel_in_every_iteration() -> None:
    w = Written()

    def body(add: Any, rows: Any, states: Any) -> Any:
        inverse = add("inv", add("add", states[0], rows[0]))
        return [inverse], [add("mul", inverse, 0.5)]

    x = w.argument(np.stack([np.eye(3) * k for k in (2.0, 3.0, 5.0)]))
    w.returns(*looped(w, body, [x], [w.argument(np.eye(3))], count=3))
    assert build(w.program).reasons
    agrees(w, 1e-12)


def test_arrays_from_outside_live_as_long_as_the_loop() -> None:
    """What the body reads last in one iteration it reads again in the next."""
    w = Written()
    scaled = w.add("mul", w.argument(whole(3, 3, seed=5)), 2.0)

    def body(add: Any, rows: Any, states: Any) -> Any:
        early = bounded(add, add("matmul", states[0], scaled))
        late = bounded(add, add("matmul", early, early))
        return [], [bounded(add, add("matmul", late, late))]

    (last,) = looped(w, body, [], [w.argument(whole(3, 3))], count=6)
    agrees(w.returns(last))
    found = plan_of(w.program)
    place_arrays(found)
    inside = [number for number, entry in enumerate(found.entries) if entry.loop is not None]
    for entry in found.entries:
        for place in entry.reads:
            if place.buffer.window is not None and place.buffer.in_arena:
                uses = [*place.buffer.memory.readers, *place.buffer.memory.writers]
                assert min(uses) <= inside[0] and max(uses) >= inside[-1]


def _barriers(found: Plan) -> list[bool]:
    place_arrays(found)
    shared = sharing(found.entries, 2)
    return [how.meet for entry, how in zip(found.entries, shared, strict=True) if entry.loop]


def test_threads_meet_between_iterations() -> None:
    """The first kernel reads what the last one of the iteration before wrote."""
    found = plan_of(recurrence(4, 256).program)
    assert not sharing(found.entries, 2)[-1].alone
    assert all(_barriers(found))


def test_any_number_of_threads_computes_the_same() -> None:
    w = recurrence(6, 160, history=True)
    expected = w.expected()
    before = gw.get_num_threads()
    try:
        for threads in (1, 2, 3, 4):
            gw.set_num_threads(threads)
            executable = build(w.program)
            for _ in range(5):
                assert_same_bits(w.outcome(executable), expected)
    finally:
        gw.set_num_threads(before)
