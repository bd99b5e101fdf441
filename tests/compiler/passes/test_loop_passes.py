"""The passes on loops: what is dropped, and what is done before."""

from __future__ import annotations

from typing import Any

import pytest

from gradwalk.compiler.ir.loops import body_of, loop
from gradwalk.compiler.ir.program import Call, Program
from gradwalk.compiler.passes.loops import stage_in_loops, trim_loops
from gradwalk.compiler.passes.products import OFTEN
from gradwalk.compiler.passes.simplify import drop_unused
from gradwalk.compiler.pipeline import run_passes
from tests.compiler.loops import looped, random_loop, whole
from tests.compiler.passes.test_passes import names
from tests.compiler.programs import Written, assert_equal


def loops_of(program: Program) -> list[Call]:
    return [call for call in program.calls if call.op is loop]


def unchanged(w: Written, program: Program) -> None:
    """A pass changed no number."""
    expected = w.expected()
    w.build.calls, w.results = program.calls, program.results
    assert_equal(w.expected(), expected)


def two_outputs() -> tuple[Written, Any]:
    w = Written()
    rows = [w.argument(whole(4, 3, seed=i)) for i in range(2)]

    def body(add: Any, taken: Any, states: Any) -> Any:
        return [add("exp", taken[0]), add("neg", taken[1])], [add("add", states[0], taken[1])]

    return w, looped(w, body, rows, [w.argument(whole(3))], count=4)


def test_arrays_that_nothing_reads_are_not_made() -> None:
    w, (_, negative, last) = two_outputs()
    w.returns(negative, last)
    program = drop_unused(trim_loops(w.program))
    (call,) = loops_of(program)
    assert sorted(one.op.name for one in body_of(call).calls) == ["add", "neg"]
    assert len(call.outputs) == 2 and len(call.args) == 2  # one array of rows, and the state
    unchanged(w, program)


def test_a_loop_that_gives_no_rows_then_makes_the_one_before_give_none() -> None:
    w, (exponentials, negative, last) = two_outputs()

    def body(add: Any, taken: Any, states: Any) -> Any:
        return [add("abs", taken[0])], [add("mul", states[0], taken[1])]

    _, product = looped(w, body, [exponentials, negative], [last], count=4)
    w.returns(product)
    first, second = loops_of(drop_unused(trim_loops(w.program)))
    assert sorted(one.op.name for one in body_of(first).calls) == ["add", "neg"]
    assert [one.op.name for one in body_of(second).calls] == ["mul"]


def test_what_is_all_needed_stays() -> None:
    w, made = two_outputs()
    program = w.returns(*made).program
    assert trim_loops(program) is program


@pytest.mark.parametrize("count", [OFTEN - 1, OFTEN])
def test_a_transposed_factor_is_copied_before_the_loop(count: int) -> None:
    w = Written()
    weight = w.argument(whole(3, 3, seed=1))

    def body(add: Any, rows: Any, states: Any) -> Any:
        turned = add("permute", weight, axes=(1, 0))
        return [], [add("minimum", add("matmul", states[0], turned), 2.0)]

    (last,) = looped(w, body, [], [w.argument(whole(2, 3))], count=count)
    program = stage_in_loops(w.returns(last).program)
    assert ("clone" in names(program)) == (count >= OFTEN)
    unchanged(w, program)


def test_bodies_go_through_all_passes() -> None:
    w = Written()

    def body(add: Any, rows: Any, states: Any) -> Any:
        same = add("mul", states[0], 1.0)
        return [], [add("add", add("exp", same), add("exp", states[0]))]

    (last,) = looped(w, body, [], [w.argument(whole(3))], count=3)
    (call,) = loops_of(run_passes(w.returns(last).program))
    assert [one.op.name for one in body_of(call).calls] == ["exp", "add"]


@pytest.mark.parametrize("seed", range(20))
def test_all_passes_change_no_number(seed: int) -> None:
    w = random_loop(seed)
    unchanged(w, run_passes(w.program))
