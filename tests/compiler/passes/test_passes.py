"""Every pass alone: what it does to a small program, what it must leave, and that nothing changes.

Results before and after a pass are compared to the last bit unless it takes sums in another order.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given

from gradwalk.compiler import pipeline
from gradwalk.compiler.backends import numpy as reference
from gradwalk.compiler.ir.program import Constant, Program
from gradwalk.compiler.passes.expand.advanced_indexing import separate_views
from gradwalk.compiler.passes.expand.composites import open_composites
from gradwalk.compiler.passes.expand.picks import LONGEST, pick_by_comparing
from gradwalk.compiler.passes.reductions import keep_dimensions, lift_to_reductions
from gradwalk.compiler.passes.simplify import (
    LARGEST,
    drop_unused,
    fold_constants,
    merge_equal_calls,
    simplify_algebra,
)
from gradwalk.compiler.passes.views import drop_broadcasts, merge_reshapes
from gradwalk.ops import TABLE
from tests.compiler.programs import (
    Written,
    agrees,
    assert_equal,
    assert_same_bits,
    describe,
    programs,
)

Pass = Callable[[Program], Program]
SPECIAL = np.array([0.0, -0.0, 1.5, -2.0, np.nan, np.inf, -np.inf], np.float32)


def names(program: Program) -> list[str]:
    return [call.op.name for call in program.calls]


def after(each: Pass, written: Written, tolerance: float | None = None) -> list[str]:
    """The ops of the program after a pass, which gives what the program gave before."""
    before = names(written.program)
    program = each(written.program)
    assert names(written.program) == before  # a pass never changes a program
    found, expected = written.outcome(reference.NumpyExecutable(program)), written.expected()
    if tolerance is None:
        assert_same_bits(found, expected)
    else:
        assert_equal(found, expected, tolerance)
    return names(program)


def whole(*shape: int) -> Any:
    return np.random.default_rng(3).integers(-4, 5, shape).astype(np.float32)


# -- all together ----------------------------------------------------------------------------------


@given(programs())
def test_no_pass_changes_what_a_program_does(written: Written) -> None:
    expected, program = written.expected(), written.program
    for each in pipeline.PASSES:
        program = each(program)
        try:
            assert_equal(written.outcome(reference.NumpyExecutable(program)), expected)
        except Exception as error:
            error.add_note("\n".join([each.__name__, *describe(written)]))
            raise


@given(programs())
def test_passes_keep_shapes_dtypes_and_places(written: Written) -> None:
    before, found = written.program, pipeline.run_passes(written.program)
    ends = zip(before.ends(), found.ends(), strict=True)
    assert all((a.shape, a.dtype) == (b.shape, b.dtype) for a, b in ends)
    assert [place for place, _ in found.updates] == [place for place, _ in before.updates]
    made: set[Any] = set()
    for call in found.calls:  # in order, each once
        assert call not in made and all(t.call is None or t.call in made for t in call.terms)
        made.add(call)


# -- dead code -------------------------------------------------------------------------------------


def test_what_nobody_asks_for_is_dropped() -> None:
    w = Written()
    x = w.argument(SPECIAL)
    w.add("exp", w.add("neg", x))
    w.returns(w.add("abs", x))
    assert after(drop_unused, w) == ["abs"]


def test_what_an_update_needs_stays() -> None:
    w = Written()
    m = w.memory(SPECIAL)
    w.becomes(m, w.add("add", w.add("neg", m), 1.0))
    assert after(drop_unused, w) == ["neg", "add"]


def test_one_output_of_several_keeps_its_call() -> None:
    w = Written()
    values, _ = w.add("sort", w.argument(SPECIAL[:4]), axis=0, descending=False)
    assert after(drop_unused, w.returns(values)) == ["sort"]


def test_a_memory_that_becomes_another_needs_no_call() -> None:
    w = Written()
    a, b = w.memory(SPECIAL), w.memory(SPECIAL[::-1])
    w.add("neg", a)
    assert after(drop_unused, w.becomes(a, b).becomes(b, a)) == []


# -- composites ------------------------------------------------------------------------------------


def test_composites_become_their_definitions() -> None:
    w = Written()
    x = w.argument(np.arange(12, dtype=np.float32).reshape(3, 4) / 5)
    w.returns(w.add("log_softmax", x, axis=1), w.add("gelu", x))
    found = after(open_composites, w, 1e-6)
    assert not {"log_softmax", "logsumexp", "gelu"} & set(found)  # those inside are opened too
    program = open_composites(w.program)
    assert [(t.shape, t.dtype) for t in program.results] == [((3, 4), np.float32)] * 2


def test_some_composites_stay_closed() -> None:
    w = Written()
    x = w.argument(SPECIAL)
    w.returns(w.add("prod", x, axis=(0,), keepdim=False), w.add("cumprod", x, axis=0))
    assert after(open_composites, w) == ["prod", "cumprod"]


def test_composites_of_nothing_stay_closed() -> None:
    """The largest of nothing, in the definition of softmax, is an error."""
    w = Written()
    x = w.argument(np.zeros((2, 0), np.float32))
    w.returns(w.add("softmax", x, axis=1))
    w.returns(w.add("gelu", x))  # with a residual, which nobody asked for
    assert after(open_composites, w) == ["softmax", "gelu"]
    agrees(w)


def test_definitions_that_hold_for_nothing() -> None:
    w = Written()
    x = w.argument(np.zeros((2, 0), np.float32))
    w.returns(w.add("logsumexp", x, axis=(1,), keepdim=False))  # −inf
    w.returns(w.add("var", x, axis=(1,), keepdim=False, correction=1))  # NaN
    w.returns(w.add("vector_norm", x, p=3.0, axis=(1,), keepdim=False))
    w.returns(w.add("median", x, axis=(0, 1)))
    w.returns(w.add("einsum", x, w.add("permute", x, axes=(1, 0)), equation="ij,jk->ik"))
    opened = after(open_composites, w)
    assert not {"logsumexp", "var", "vector_norm", "median", "einsum"} & set(opened)
    agrees(w)


# -- indices ---------------------------------------------------------------------------------------


def test_index_arrays_are_separated_from_views() -> None:
    w = Written()
    x, i = w.argument(whole(3, 4, 5)), w.constant(np.array([2, 0]))
    part = ("slice", 1, None, None)
    w.returns(w.add("getitem", x, i, index=(0, part, ("array", 0))))
    w.returns(w.add("getitem", x, i, i, index=(("array", 0), part, ("array", 1))))
    w.returns(w.add("setitem", x, 1.0, i, index=("...", ("array", 0))))
    mask = w.add("greater", x, 0.0)
    w.returns(w.add("setitem", x, 1.0, mask, index=(("mask", 0, 3),)))
    found = after(separate_views, w)
    picks = ["getitem", "getitem", "getitem", "permute", "getitem"]
    assert found == [*picks, "setitem", "greater", "where"]
    agrees(w)


def test_a_write_through_two_views_is_one() -> None:
    w = Written()
    x, v = w.argument(whole(3, 4)), w.argument(whole(2))
    chain = ((TABLE["getitem"], {"index": (1,)}, 0),)
    row = w.add("setitem", w.add("getitem", x, index=(1,)), v, index=(("slice", 2, None, None),))
    w.returns(w.add("write_view", x, row, chain=chain))
    assert after(separate_views, w)[-1] == "write_view"
    assert after(lambda p: drop_unused(separate_views(p)), w) == ["write_view"]
    agrees(w)


# -- reductions ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["sum", "mean", "amax", "amin", "all", "any"])
@pytest.mark.parametrize("axis", [(0,), (1,), (0, 2), (0, 1, 2)])
@pytest.mark.parametrize("keepdim", [False, True])
def test_reductions_keep_dimensions(name: str, axis: tuple[int, ...], keepdim: bool) -> None:
    w = Written()
    x = w.argument(whole(2, 3, 4))
    w.returns(w.add(name, x, axis=axis, keepdim=keepdim))
    found = after(keep_dimensions, w)
    expected = ["sum", "div"] if name == "mean" else [name]
    assert found == [*expected, *([] if keepdim else ["reshape"])]
    reductions = [c for c in keep_dimensions(w.program).calls if "axis" in c.attrs]
    assert all(call.attrs["keepdim"] for call in reductions)


def test_reductions_over_no_dimension_are_casts() -> None:
    w = Written()
    x = w.argument(whole(2, 3))
    for name in ("sum", "mean", "amax", "all", "any"):
        w.returns(w.add(name, x, axis=(), keepdim=False))
    assert after(keep_dimensions, w) == ["cast"] * 2


def test_reductions_of_nothing_are_known_numbers() -> None:
    w = Written()
    x = w.argument(np.zeros((3, 0), np.float32))
    for name in ("sum", "mean", "all", "any"):
        w.returns(w.add(name, x, axis=(1,), keepdim=False))
    assert after(keep_dimensions, w) == ["expand"] * 4  # and the sum is +0: the bits are equal


def test_the_largest_of_nothing_stays_an_error() -> None:
    w = Written()
    w.returns(w.add("amax", w.argument(np.zeros((3, 0))), axis=(1,), keepdim=True))
    with pytest.raises(ValueError, match="zero-size"):
        w.outcome(reference.NumpyExecutable(keep_dimensions(w.program)))


def test_reductions_of_no_rows_are_left() -> None:
    w = Written()
    w.returns(w.add("mean", w.argument(np.zeros((0, 3))), axis=(1,), keepdim=True))
    assert after(keep_dimensions, w) == ["sum", "div"]


# -- constants -------------------------------------------------------------------------------------


def test_constants_are_computed_once() -> None:
    w = Written()
    c = w.constant([1.0, math.nan, -0.0], np.float32)
    w.returns(w.add("add", w.add("mul", c, 0.1), w.argument(SPECIAL[:3])))
    assert after(fold_constants, w) == ["add"]
    (call,) = fold_constants(w.program).calls
    source = call.args[0].source  # type: ignore[union-attr]
    assert isinstance(source, Constant) and source.array.dtype == np.float32  # 0.1 is weak


def test_a_result_may_become_a_constant() -> None:
    w = Written()
    c = w.constant(np.arange(6), np.int64)
    flat = w.add("reshape", c, shape=(2, 3))
    w.returns(w.add("sum", flat, axis=(1,), keepdim=False))
    assert after(fold_constants, w) == []


def test_what_is_read_at_every_call_is_no_constant() -> None:
    w = Written()
    m, n = w.memory([1.0, 2.0]), w.number(0.5)
    w.returns(w.add("mul", m, 2.0), w.add("mul", n, 2.0))
    assert after(fold_constants, w) == ["mul", "mul"]


def test_large_constants_are_not_kept() -> None:
    w = Written()
    one = w.constant(1.0, np.float32)
    w.returns(w.add("expand", one, shape=(LARGEST + 1,)), w.add("expand", one, shape=(LARGEST,)))
    assert after(fold_constants, w) == ["expand"]


def test_a_constant_of_several_outputs() -> None:
    w = Written()
    values, places = w.add("sort", w.constant([3.0, 1.0, 2.0]), axis=0, descending=False)
    assert after(fold_constants, w.returns(values, places)) == []


# -- picks -----------------------------------------------------------------------------------------


def _picked(w: Written, x: Any, index: Any, axis: int) -> tuple[Any, dict[str, Any], list[Any]]:
    """x at an index along one axis, as `gather` spells it."""
    arrays = []
    for i, n in enumerate(x.shape):
        if i == axis:
            arrays.append(index)
        else:
            shape = tuple(n if k == i else 1 for k in range(x.ndim))
            arrays.append(w.constant(np.arange(n).reshape(shape)))
    attrs = {"index": tuple(("array", i) for i in range(x.ndim))}
    return w.add("getitem", x, *arrays, **attrs), attrs, arrays


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("kind", [np.int64, np.int32, np.int8])
def test_a_pick_along_an_axis_is_a_comparison(axis: int, kind: Any) -> None:
    w = Written()
    x = w.argument(np.resize(SPECIAL, (200, 5) if axis == 0 else (3, 200)))
    shape = (1, 5) if axis == 0 else (3, 1)
    index = w.argument(np.random.default_rng(0).integers(-100, 100, shape).astype(kind))
    found, attrs, arrays = _picked(w, x, index, axis)
    w.returns(found, w.add("put", found, *arrays, **attrs, shape=x.shape))
    assert not {"getitem", "put"} & set(after(pick_by_comparing, w, 0.0))


def test_what_is_put_beside_a_zero_has_its_sign() -> None:
    w = Written()
    g = w.argument(np.array([[-0.0], [2.0]], np.float32))
    arrays = [w.constant([[0], [1]]), w.argument(np.array([[1], [0]]))]
    found = w.add("put", g, *arrays, index=(("array", 0), ("array", 1)), shape=(2, 2))
    assert "put" not in after(pick_by_comparing, w.returns(found))  # 0 + −0 is 0


@pytest.mark.parametrize("index", [3, -4])
def test_a_pick_out_of_range_stays_an_error(index: int) -> None:
    w = Written()
    found, *_ = _picked(w, w.argument(np.eye(3)), w.argument(np.array([[0], [index], [1]])), 1)
    program = pick_by_comparing(w.returns(found).program)
    with pytest.raises(IndexError, match=f"index {index} is out of range .* length 3"):
        w.outcome(reference.NumpyExecutable(program))


def test_other_picks_stay() -> None:
    w = Written()
    long = w.argument(np.zeros((2, LONGEST + 1), np.float32))
    index = w.argument(np.array([[1], [0]]))
    w.returns(_picked(w, long, index, 1)[0])  # a long axis
    flags = w.argument(np.eye(2, dtype=np.bool_))
    w.returns(_picked(w, flags, index, 1)[0])  # a sum of bools is no bool
    x = w.argument(whole(2, 2))
    both = (("array", 0), ("array", 1))
    w.returns(w.add("getitem", x, w.constant([[1], [0]]), index, index=both))  # not in order
    w.returns(w.add("getitem", x, w.constant([[0], [1]]), w.constant([[0, 1]]), index=both))
    assert names(drop_unused(pick_by_comparing(w.program))) == ["getitem"] * 4
    after(pick_by_comparing, w)


# -- algebra ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("op", "args"),
    [
        ("mul", ("x", 1.0)), ("mul", (1, "x")), ("div", ("x", 1)), ("sub", ("x", 0.0)),
        ("sub", ("x", 0)), ("clone", ("x",)), ("alias", ("x",)), ("mul", ("x", "one")),
    ],
)  # fmt: skip
def test_what_does_nothing_is_left_out(op: str, args: Any) -> None:
    w = Written()
    known = {"x": w.argument(SPECIAL), "one": w.constant(1.0, np.float32)}
    w.returns(w.add("neg", w.add(op, *(known.get(a, a) for a in args))))
    assert after(simplify_algebra, w) == ["neg"]


def test_twice_negative_and_casts_to_the_own_dtype() -> None:
    w = Written()
    x = w.argument(SPECIAL)
    w.returns(w.add("abs", w.add("neg", w.add("neg", x))))
    w.returns(w.add("abs", w.add("cast", x, dtype=np.dtype(np.float32))))
    assert names(drop_unused(simplify_algebra(w.program))) == ["abs", "abs"]
    after(simplify_algebra, w)


def test_a_square_is_a_product() -> None:
    w = Written()
    w.returns(w.add("power", w.argument(SPECIAL), exponent=2))
    assert after(simplify_algebra, w) == ["mul"]


@pytest.mark.parametrize(
    ("op", "args"),
    [
        ("add", ("x", 0.0)),  # −0 + 0 is 0
        ("sub", ("x", -0.0)),  # so is −0 − −0
        ("sub", (0.0, "x")), ("div", (1.0, "x")), ("mul", ("x", 0.0)), ("mul", ("x", -1.0)),
        ("mul", ("x", "ones")),  # it broadcasts
        ("mul", ("whole", 1.0)),  # it becomes a float
        ("div", ("whole", 1)),
    ],
)  # fmt: skip
def test_what_does_something_stays(op: str, args: Any) -> None:
    w = Written()
    known = {
        "x": w.argument(SPECIAL),
        "ones": w.constant([[1.0]], np.float32),
        "whole": w.argument(np.arange(-3, 3)),
    }
    w.returns(w.add(op, *(known.get(a, a) for a in args)))
    assert after(simplify_algebra, w) == [op]


def test_a_cast_that_changes_something_stays() -> None:
    w = Written()
    single = w.add("cast", w.argument(SPECIAL / 3), dtype=np.dtype(np.float32))
    double = w.add("cast", w.argument(np.full(3, 1 / 3)), dtype=np.dtype(np.float32))
    w.returns(w.add("cast", double, dtype=np.dtype(np.float64)), single)
    assert after(simplify_algebra, w) == ["cast", "cast"]  # that of float32 to float32 went


def test_a_clone_of_a_source_may_be_the_result() -> None:
    w = Written()
    m = w.memory(SPECIAL)
    w.returns(m).becomes(m, w.add("neg", m))
    assert after(simplify_algebra, w) == ["neg"]


# -- views -----------------------------------------------------------------------------------------


def test_views_of_views_are_one() -> None:
    w = Written()
    x = w.argument(whole(2, 3, 4))
    flat = w.add("reshape", w.add("reshape", x, shape=(6, 4)), shape=(24,))
    turned = w.add("permute", w.add("permute", x, axes=(2, 0, 1)), axes=(2, 0, 1))
    wide = w.add("expand", w.add("expand", w.add("sum", x, axis=(0, 1, 2), keepdim=False),
                                 shape=(1, 3)), shape=(2, 3))  # fmt: skip
    w.returns(flat, turned, wide)
    found = names(drop_unused(merge_reshapes(w.program)))
    assert sorted(found) == ["expand", "permute", "reshape", "sum"]
    after(merge_reshapes, w)


def test_views_that_lead_back_are_none() -> None:
    w = Written()
    x = w.argument(whole(2, 3))
    back = w.add("reshape", w.add("reshape", x, shape=(6,)), shape=(2, 3))
    turned = w.add("permute", w.add("permute", x, axes=(1, 0)), axes=(1, 0))
    w.returns(w.add("neg", back), w.add("abs", turned))
    w.returns(w.add("neg", w.add("expand", x, shape=(2, 3))))
    assert set(names(drop_unused(merge_reshapes(w.program)))) == {"neg", "abs"}
    after(merge_reshapes, w)


def test_elementwise_calls_broadcast_by_themselves() -> None:
    w = Written()
    x, y = w.argument(whole(3, 4)), w.argument(whole(4))
    w.returns(w.add("add", x, w.add("expand", y, shape=(3, 4))))
    assert names(drop_unused(drop_broadcasts(w.program))) == ["add"]
    after(drop_broadcasts, w)


def test_a_broadcast_that_gives_the_shape_stays() -> None:
    w = Written()
    x, y = w.argument(whole(4)), w.argument(whole(1, 4))
    w.returns(w.add("add", w.add("expand", x, shape=(3, 4)), y))
    w.returns(w.add("neg", w.add("expand", x, shape=(0, 4))))
    assert after(drop_broadcasts, w) == ["expand", "add", "expand", "neg"]


def test_a_constant_that_is_one_number_everywhere_is_that_number() -> None:
    w = Written()
    x = w.argument(whole(3, 4))
    for number in (0.1, math.nan, -0.0):
        w.returns(w.add("mul", w.constant(np.full((3, 4), number), np.float32), x))
    zeros = w.constant([0.0, -0.0, 0.0, 0.0], np.float32)  # equal, and not the same
    w.returns(w.add("mul", zeros, x), w.add("mul", w.constant(np.ones((2, 1, 1), np.float32)), x))
    found = [call.args[0].shape for call in drop_broadcasts(w.program).calls]  # type: ignore[union-attr]
    assert found == [(), (), (), (4,), (2, 1, 1)]  # the last gives the shape
    after(drop_broadcasts, w)


# -- lifting ---------------------------------------------------------------------------------------


def test_work_on_reduced_numbers_keeps_their_dimensions() -> None:
    w = Written()
    x, y = w.argument(whole(3, 4)), w.argument(whole(3))
    total = w.add("reshape", w.add("sum", x, axis=(1,), keepdim=True), shape=(3,))
    w.returns(w.add("sub", w.add("log", w.add("abs", total)), w.add("abs", y)))
    after(lift_to_reductions, w)
    found = drop_unused(merge_reshapes(lift_to_reductions(w.program)))
    shapes = {call.op.name: call.outputs[0].shape for call in found.calls}
    assert shapes["log"] == shapes["sub"] == (3, 1)
    assert found.results[0].shape == (3,)


@pytest.mark.parametrize("shape", [(), (1,), (4,), (3, 1), (3, 4)])
def test_lifted_work_with_every_shape_beside_it(shape: tuple[int, ...]) -> None:
    w = Written()
    x, y = w.argument(whole(3, 4, 5)), w.argument(whole(*shape))
    for axis in ((0,), (1,), (2,), (0, 2), (0, 1, 2)):
        kept = w.add("amax", x, axis=axis, keepdim=True)
        dropped = tuple(n for i, n in enumerate(x.shape) if i not in axis)
        less = w.add("reshape", kept, shape=dropped)
        try:
            np.broadcast_shapes(dropped, shape)
        except ValueError:
            continue
        double = w.add("cast", w.add("add", less, y), dtype=np.dtype(np.float64))
        w.returns(w.add("mul", double, 2.0), w.add("neg", less))
    after(lift_to_reductions, w)


# -- common subexpressions -------------------------------------------------------------------------


def test_equal_calls_are_one() -> None:
    w = Written()
    x = w.argument(SPECIAL)
    for _ in range(2):
        w.returns(w.add("abs", w.add("mul", x, 2.0)), w.add("clip", x, min=0.0, max=1.0))
        w.returns(w.add("add", x, w.constant(SPECIAL)))  # equal constants, a NaN among them
    assert after(merge_equal_calls, w) == ["mul", "abs", "clip", "add"]


def test_calls_that_only_look_equal_stay() -> None:
    w = Written()
    x, whole = w.argument(SPECIAL), w.argument(np.arange(7))
    for number in (0.0, -0.0):
        w.returns(w.add("add", x, number), w.add("add", x, w.constant(number, np.float32)))
        w.returns(w.add("clip", x, min=number, max=1.0))
    for number in (1, 1.0, True):
        w.returns(w.add("mul", whole, number))
    w.returns(w.add("sub", x, w.add("neg", x)), w.add("sub", w.add("neg", x), x))
    assert len(after(merge_equal_calls, w)) == 3 * 2 + 3 + 3


def test_what_is_equal_before_and_after_an_update_is_read_before_it() -> None:
    w = Written()
    m = w.memory(SPECIAL)
    w.returns(w.add("neg", m)).becomes(m, w.add("neg", m))
    assert after(merge_equal_calls, w) == ["neg"]
