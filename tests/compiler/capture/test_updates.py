"""Memories that a program updates: in place only where nobody misses the old value."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from tests.compiler.plan.test_plan import BACKWARDS, copies, planned, whole
from tests.compiler.programs import Written, agrees

Case = Callable[[Written], None]
UPDATES: dict[str, Case] = {}


def update(case: Case) -> Case:
    UPDATES[case.__name__] = case
    return case


@update
def old_value_is_a_result(w: Written) -> None:
    m = w.memory(whole(40))
    w.returns(m).becomes(m, w.add("add", m, 1.0))


@update
def a_view_of_the_old_value_is_a_result(w: Written) -> None:
    m = w.memory(whole(40))
    w.returns(w.add("getitem", m, index=(BACKWARDS,))).becomes(m, w.add("add", m, 1.0))


@update
def another_memory_gets_the_old_value(w: Written) -> None:
    a, b = w.memory(whole(40)), w.memory(whole(40, seed=1))
    w.becomes(a, w.add("add", a, 1.0)).becomes(b, a)


@update
def another_memory_gets_the_new_value(w: Written) -> None:
    a, b = w.memory(whole(40)), w.memory(whole(40, seed=1))
    new = w.add("add", a, b)
    w.becomes(a, new).becomes(b, new)


@update
def two_change_places(w: Written) -> None:
    a, b = w.memory(whole(40)), w.memory(whole(40, seed=1))
    w.becomes(a, b).becomes(b, a)


@update
def three_go_round(w: Written) -> None:
    a, b, c = (w.memory(whole(40, seed=i)) for i in range(3))
    w.becomes(a, b).becomes(b, w.add("getitem", c, index=(BACKWARDS,))).becomes(c, a)


@update
def a_memory_becomes_its_transpose(w: Written) -> None:
    m = w.memory(whole(17, 17))
    w.becomes(m, w.add("permute", m, axes=(1, 0)))


@update
def a_memory_and_its_transpose_in_one_kernel(w: Written) -> None:
    m = w.memory(whole(33, 33))
    w.becomes(m, w.add("add", m, w.add("permute", m, axes=(1, 0))))


@update
def a_memory_and_its_neighbours_in_one_kernel(w: Written) -> None:
    m = w.memory(whole(40))
    left = w.add("getitem", m, index=(("slice", None, -1, None),))
    w.becomes(m, w.add("add", m, w.add("pad", left, widths=((1, 0),), value=0)))


@update
def a_small_one_and_a_large_one(w: Written) -> None:
    large, small = w.memory(whole(1000)), w.memory(whole())
    w.becomes(large, w.add("expand", small, shape=(1000,)))
    w.becomes(small, w.add("getitem", large, index=(3,)))


@update
def joined_pieces_while_the_old_value_is_read(w: Written) -> None:
    m, x = w.memory(whole(10)), w.argument(whole(5))
    pieces = w.add("mul", x, 2.0), w.add("mul", x, 3.0)
    w.returns(w.add("sum", m, axis=(0,), keepdim=False))
    w.becomes(m, w.add("concatenate", *pieces, axis=0))


@update
def a_window_that_moves_on(w: Written) -> None:
    m, x = w.memory(whole(10)), w.argument(whole(1))
    rest = w.add("getitem", m, index=(("slice", 1, None, None),))
    w.becomes(m, w.add("concatenate", rest, w.add("neg", x), axis=0))


@update
def a_kernel_that_writes_one_and_reads_it_for_another(w: Written) -> None:
    a, b = w.memory(whole(40)), w.memory(whole(40, seed=1))
    double = w.add("mul", w.argument(whole(40, seed=2)), 2.0)
    more = w.add("add", a, 1.0)
    w.returns(w.add("add", double, more)).becomes(a, double).becomes(b, more)


@update
def a_memory_that_a_later_kernel_reads(w: Written) -> None:
    m = w.memory(whole(6, 6))
    new = w.add("add", m, 1.0)
    later = w.add("matmul", w.add("cumsum", w.add("cumsum", new, axis=0), axis=1), m)
    w.returns(w.add("clip", later, min=-9.0, max=9.0)).becomes(m, new)


@update
def writers_that_would_wait_for_one_another(w: Written) -> None:
    a, b = w.memory(whole(6)), w.memory(whole(6, seed=1))
    new_a = w.add("relu", w.argument(whole(6, seed=2)))
    far = w.add("cumsum", w.add("cumsum", new_a, axis=0), axis=0)
    reads_b = w.add("mul", b, far)
    new_b = w.add("neg", w.argument(whole(6, seed=3)))
    reads_a = w.add("mul", a, new_b)
    w.returns(w.add("cumsum", reads_b, axis=0), w.add("cumsum", reads_a, axis=0))
    w.becomes(a, new_a).becomes(b, new_b)


@update
def a_product_in_place(w: Written) -> None:
    m = w.memory(whole(17, 33))
    product = w.add("matmul", w.argument(whole(17, 900)), w.argument(whole(900, 33)))
    w.becomes(m, w.add("sub", m, w.add("clip", product, min=-8.0, max=8.0)))


@update
def a_product_with_its_own_memory(w: Written) -> None:
    m = w.memory(whole(17, 17))
    product = w.add("matmul", w.add("permute", m, axes=(1, 0)), w.argument(whole(17, 17)))
    w.becomes(m, w.add("add", m, w.add("clip", product, min=-8.0, max=8.0)))


@update
def a_row_by_row_kernel(w: Written) -> None:
    m = w.memory(whole(5, 40))
    w.becomes(m, w.add("sub", m, w.add("amax", m, axis=(1,), keepdim=True)))


@update
def rows_that_are_picked_from_it(w: Written) -> None:
    m = w.memory(whole(5, 40))
    w.becomes(m, w.add("embedding", m, w.argument(np.array([4, 3, 2, 0, 0])), padding_idx=None))


@update
def an_argument_is_changed(w: Written) -> None:
    x = w.argument(whole(40))
    w.becomes(x, w.add("neg", x)).returns(w.add("abs", x))


@update
def a_constant_and_another_dtype(w: Written) -> None:
    a, b = w.memory(whole(40)), w.memory(whole(40).astype(np.float64))
    w.becomes(a, w.constant(np.ones(40), np.float32))
    w.becomes(b, w.add("cast", a, dtype=np.dtype(np.float64)))


@update
def late_numbers_change_places(w: Written) -> None:
    a, b = w.number(3.0), w.number(5.0)
    w.becomes(a, b).becomes(b, a).becomes(a, w.add("add", a, b))
    w.returns(w.add("mul", a, b))


@pytest.mark.parametrize("name", UPDATES)
def test_updates(name: str) -> None:
    w = Written()
    UPDATES[name](w)
    agrees(w)


def test_an_optimizer_step_is_written_in_place() -> None:
    w = Written()
    p, v, g = w.memory(whole(40)), w.memory(whole(40, seed=1)), w.argument(whole(40, seed=2))
    moment = w.add("add", w.add("mul", v, 0.5), g)
    w.becomes(v, moment).becomes(p, w.add("sub", p, moment))
    found = planned(w)
    assert (len(found.entries), copies(found), found.arena) == (1, 0, 0)
    agrees(w)
