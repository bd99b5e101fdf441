"""A loop as a call: what it computes, and which parts of it are needed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gradwalk.compiler.ir.loops import body_of, loop, shape_of
from gradwalk.compiler.ir.program import Argument
from tests.compiler.loops import looped, whole
from tests.compiler.programs import Written


def running_sums(count: int, reverse: bool, history: bool) -> Written:
    """Twice the row, and the sum of all rows so far."""
    w = Written()
    x, first = w.argument(whole(count, 2, seed=1)), w.argument(whole(2, seed=2))

    def body(add: Any, rows: Any, states: Any) -> Any:
        return [add("mul", rows[0], 2.0)], [add("add", states[0], rows[0])]

    made = looped(w, body, [x], [first], count=count, reverse=reverse, histories=[history])
    return w.returns(*made)


@pytest.mark.parametrize("count", [1, 2, 5])
@pytest.mark.parametrize("reverse", [False, True])
def test_the_reference(count: int, reverse: bool) -> None:
    x, first = whole(count, 2, seed=1), whole(2, seed=2)
    order = x[::-1] if reverse else x
    sums = np.cumsum(np.concatenate([first[None], order]), axis=0)
    twice, last = running_sums(count, reverse, False).expected().results
    np.testing.assert_array_equal(twice, 2 * x)
    np.testing.assert_array_equal(last, sums[-1])
    _, states = running_sums(count, reverse, True).expected().results
    np.testing.assert_array_equal(states, sums[::-1] if reverse else sums)


def test_the_body_takes_what_it_uses() -> None:
    w = Written()
    rows = [w.argument(whole(3, 2)) for _ in range(2)]
    first, weight = w.argument(whole(2)), w.argument(whole(2))

    def body(add: Any, taken: Any, states: Any) -> Any:
        add("exp", taken[0])  # for nothing
        return [], [add("mul", add("add", taken[1], states[0]), weight)]

    (last,) = looped(w, body, rows, [first], count=3)
    call = last.call
    assert call is not None and call.op is loop
    assert call.args == (rows[1], first, weight)
    assert (shape_of(call).rows, shape_of(call).fixed) == (1, 2)
    assert [one.op.name for one in body_of(call).calls] == ["add", "mul"]
    numbers = {t.source.number for t in body_of(call).sources() if isinstance(t.source, Argument)}
    assert numbers == {0, 1, 2}
