"""Kernels of loops and scatters: every kind, through the backend, against NumPy.

Sums of whole numbers are exact in any order, so most results must be equal to the last bit; where
numbers are rounded, the tolerance is a few roundings of the dtype.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from gradwalk.compiler.backends import Stages
from gradwalk.compiler.backends.llvm import backend
from gradwalk.compiler.backends.llvm.executable import NativeExecutable
from gradwalk.compiler.backends.llvm.runtime import thread_pool
from gradwalk.compiler.pipeline import build, lower
from gradwalk.compiler.plan import synchronization
from tests.compiler.programs import WHOLE, Written, agrees, assert_equal, assert_same_bits

SIZES = [0, 1, 7, 17, 64, 1000003]
FLOATS = [np.float32, np.float64]
NUMBERS = [*FLOATS, np.int64, np.int32, np.uint8, np.bool_]
NAN, INF = np.nan, np.inf


def drawn(*shape: int, dtype: Any = np.float32, seed: int = 0) -> Any:
    """Whole numbers, few enough for any dtype."""
    low = 0 if np.dtype(dtype).kind in "ub" else -4
    return np.random.default_rng(seed).integers(low, 5, shape).astype(dtype)


def normal(*shape: int, dtype: Any = np.float32, seed: int = 0) -> Any:
    return np.random.default_rng(seed).normal(size=shape).astype(dtype)


def kernels(executable: NativeExecutable) -> list[str]:
    """The names of its kernels; every call has one."""
    assert None not in executable.kernels
    return [kernel.name for kernel in executable.kernels if kernel is not None]


# -- maps ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", NUMBERS)
@pytest.mark.parametrize("size", SIZES)
def test_maps_of_every_size(size: int, dtype: Any) -> None:
    w = Written()
    x, y = w.argument(drawn(size, dtype=dtype)), w.argument(drawn(size, dtype=dtype, seed=1))
    less = w.add("less", x, y)
    w.returns(w.add("add", x, y), w.add("where", less, x, y), less, w.add("mul", x, 3))
    kernels(build(w.program))
    agrees(w)


@pytest.mark.parametrize("dtype", FLOATS)
def test_special_numbers_in_maps(dtype: Any) -> None:
    numbers = [0.0, -0.0, 1.0, -2.5, NAN, INF, -INF, 1e30, np.finfo(dtype).tiny / 2]
    grid = np.array(list(itertools.product(numbers, numbers)), dtype)
    w = Written()
    x, y = w.argument(grid[:, 0].copy()), w.argument(grid[:, 1].copy())
    for name in ("add", "sub", "mul", "div", "maximum", "minimum", "less", "equal"):
        w.returns(w.add(name, x, y))
    for name in ("neg", "abs", "sqrt", "sign", "isnan", "floor"):
        w.returns(w.add(name, x))
    agrees(w)


@pytest.mark.parametrize("dtype", FLOATS)
def test_special_numbers_where_a_zero_may_have_either_sign(dtype: Any) -> None:
    w = Written()
    x = w.argument(np.array([0.0, -0.0, 1.0, -2.5, NAN, INF, -INF], dtype))
    w.returns(w.add("relu", x), w.add("clip", x, min=0.0, max=2.0))
    agrees(w, 0.0)


def test_kernels_of_one_structure_are_one() -> None:
    w = Written()
    for i, size in enumerate((7, 100, 1)):
        w.returns(w.add("neg", w.argument(drawn(size, 3, seed=i))))
        w.returns(w.add("sum", w.argument(drawn(size + 3, 33, seed=i)), axis=(1,), keepdim=False))
    names = kernels(build(w.program))
    assert len(names) == 6 and len(set(names)) == 2
    agrees(w)


def test_numbers_that_only_look_equal_are_told_apart() -> None:
    w = Written()
    x = w.argument(np.array([0.0, -0.0], np.float32))
    whole = w.argument(np.array([3, 4]))
    for number in (0.0, -0.0):
        w.returns(w.add("add", w.add("reshape", x, shape=(2, 1)), number))
        w.returns(w.add("cumsum", w.add("add", x, number), axis=0))
    for number in (1, 1.0, True):
        w.returns(w.add("cumsum", w.add("mul", whole, number), axis=0))
    agrees(w)


# -- arrays that do not lie in order ---------------------------------------------------------------


def transposed(array: Any) -> Any:
    return np.ascontiguousarray(array.T).T


def apart(array: Any) -> Any:
    return np.repeat(array, 3, axis=-1)[..., ::3]


def reversed_(array: Any) -> Any:
    return np.flip(np.flip(array).copy())


def broadcast(array: Any) -> Any:
    return np.broadcast_to(array[:1], array.shape)


LAYOUTS = [transposed, apart, reversed_, broadcast]


@pytest.mark.parametrize("shape", [(5, 7), (3, 4, 5), (40, 33), (1, 17), (17, 1)])
@pytest.mark.parametrize("layout", LAYOUTS, ids=lambda f: f.__name__)
def test_arguments_in_any_layout(layout: Any, shape: tuple[int, ...]) -> None:
    w = Written()
    array, plain = layout(drawn(*shape)), drawn(*shape, seed=1)
    x, y = w.argument(array), w.argument(plain)
    total = w.add("add", x, y)
    w.returns(total, w.add("sub", x, w.add("amax", x, axis=(len(shape) - 1,), keepdim=True)))
    for axis in range(len(shape)):
        w.returns(w.add("sum", x, axis=(axis,), keepdim=False))
    last = tuple(reversed(range(len(shape))))
    w.returns(w.add("permute", total, axes=last), w.add("reshape", x, shape=(array.size,)))
    if len(shape) == 2:
        w.returns(w.add("matmul", x, w.add("permute", y, axes=(1, 0))))
    strides = tuple(s // array.itemsize for s in array.strides)
    agrees(w, 0.0, layout={x: strides})


@pytest.mark.parametrize("shapes", [
    ((5, 7), (7,)), ((5, 1), (1, 7)), ((3, 1, 5), (4, 1)), ((), (17,)), ((33, 1), (33, 40)),
    ((1,), (1000003,)), ((2, 3, 4), (3, 1)), ((0, 3), (1, 3)),
])  # fmt: skip
def test_broadcasts(shapes: Any) -> None:
    w = Written()
    x, y = (w.argument(drawn(*s, seed=i)) for i, s in enumerate(shapes))
    w.returns(w.add("sub", x, y), w.add("maximum", w.add("neg", y), x))
    agrees(w)


# -- reductions ------------------------------------------------------------------------------------


def subsets(count: int) -> list[tuple[int, ...]]:
    return [c for n in range(1, count + 1) for c in itertools.combinations(range(count), n)]


@pytest.mark.parametrize("dtype", NUMBERS)
@pytest.mark.parametrize("shape", [(7,), (5, 3), (3, 33), (4, 3, 17), (2, 1, 40), (3, 2, 5, 2)])
def test_reductions_over_any_axes(shape: tuple[int, ...], dtype: Any) -> None:
    w = Written()
    x = w.argument(drawn(*shape, dtype=dtype))
    for axis in subsets(len(shape)):
        for name in ("sum", "amax", "amin", "all", "any"):
            if name in ("amax", "amin") and dtype is np.bool_:
                continue
            w.returns(w.add(name, x, axis=axis, keepdim=len(axis) % 2 == 0))
    kernels(build(w.program))
    agrees(w)


@pytest.mark.parametrize("shape", [(64, 1), (64, 16), (65, 10), (79, 3), (200, 17), (3, 70, 5)])
def test_short_rows(shape: tuple[int, ...]) -> None:
    w = Written()
    x = w.argument(drawn(*shape))
    last = (len(shape) - 1,)
    lower = w.add("sub", x, w.add("amax", x, axis=last, keepdim=True))
    w.returns(lower, w.add("sum", lower, axis=last, keepdim=False))
    w.returns(w.add("any", w.add("less", x, -3.0), axis=last, keepdim=True))
    agrees(w)


@pytest.mark.parametrize("dtype", FLOATS)
def test_special_numbers_in_reductions(dtype: Any) -> None:
    rows = np.array([[1, NAN, 2, 3], [INF, -INF, 0, 1], [-INF] * 4, [-0.0] * 4, [INF, 1, 2, 3]])
    for turned in (rows, np.tile(rows, (16, 9)), np.ascontiguousarray(np.tile(rows, (16, 9)).T)):
        w = Written()
        x = w.argument(turned.astype(dtype))
        for axis, name in itertools.product([(0,), (1,), (0, 1)], ["sum", "amax", "amin", "mean"]):
            w.returns(w.add(name, x, axis=axis, keepdim=False))
        agrees(w, 0.0)


def test_sums_of_negative_zeros_are_zero() -> None:
    for shape in ((5, 40), (64, 3), (40, 5)):
        w = Written()
        x = w.argument(np.full(shape, -0.0, np.float32))
        for axis in ((0,), (1,), (0, 1)):
            w.returns(w.add("sum", x, axis=axis, keepdim=False))
        agrees(w)  # with their sign, as NumPy has it


@pytest.mark.parametrize("shape", [(0,), (3, 0), (0, 3), (64, 0), (0, 64), (2, 0, 3), (0, 0)])
def test_reductions_of_nothing(shape: tuple[int, ...]) -> None:
    w = Written()
    x = w.argument(np.zeros(shape, np.float32))
    for axis in subsets(len(shape)):
        for name in ("sum", "mean", "all", "any"):
            w.returns(w.add(name, x, axis=axis, keepdim=False))
        w.returns(w.add("sub", x, w.add("sum", x, axis=axis, keepdim=True)))
    agrees(w)


def test_the_largest_of_nothing_is_an_error() -> None:
    w = Written()
    w.returns(w.add("amax", w.argument(np.zeros((3, 0), np.float32)), axis=(1,), keepdim=False))
    executable = build(w.program)
    for _ in range(2):
        with pytest.raises(ValueError, match="zero-size"):
            w.outcome(executable)
    empty = Written()
    rows = empty.argument(np.zeros((0, 3), np.float32))
    empty.returns(empty.add("amax", rows, axis=(1,), keepdim=False))
    agrees(empty)  # of no rows there is nothing to say


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("axis", [(0,), (1,), (0, 1)])
def test_sums_of_many_numbers(axis: tuple[int, ...], dtype: Any) -> None:
    """Sums are rounded; in another order than NumPy's they differ by a few roundings."""
    for shape in ((1000003, 1), (1, 1000003), (1000, 1001)):
        w = Written()
        x = w.argument(np.abs(normal(*shape, dtype=dtype)))
        w.returns(w.add("sum", x, axis=axis, keepdim=False))
        exact = np.sum(w.arguments[0].astype(np.float64), axis=axis)
        (found,) = w.outcome(build(w.program)).results
        # One rounding per number of a lane's share; a column is added up one by one.
        many = 1000 if shape == (1000, 1001) and axis == (0,) else 1000003 / 64
        np.testing.assert_allclose(found, exact, rtol=many * np.finfo(dtype).eps)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize(
    "shape", [(1, 1), (3, 7), (64, 10), (100, 3), (5, 40), (17, 1000), (2, 5000), (3, 4, 33)]
)
def test_rows_in_several_passes(shape: tuple[int, ...], dtype: Any) -> None:
    """Softmax, its gradient, layer norm and cross entropy, each along the last axis."""
    w = Written()
    x, g = w.argument(normal(*shape, dtype=dtype)), w.argument(normal(*shape, dtype=dtype, seed=1))
    last = len(shape) - 1
    axis = (last,)
    soft = w.add("softmax", x, axis=last)
    inner = w.add("sum", w.add("mul", g, soft), axis=axis, keepdim=True)
    w.returns(soft, w.add("mul", soft, w.add("sub", g, inner)), w.add("log_softmax", x, axis=last))
    centre = w.add("sub", x, w.add("mean", x, axis=axis, keepdim=True))
    spread = w.add("mean", w.add("mul", centre, centre), axis=axis, keepdim=True)
    w.returns(w.add("mul", centre, w.add("rsqrt", w.add("add", spread, 1e-5))))
    w.returns(w.add("logsumexp", x, axis=axis, keepdim=False))
    kernels(build(w.program))
    agrees(w, 64 * np.finfo(dtype).eps)


def test_passes_over_axes_that_are_not_neighbours() -> None:
    w = Written()
    x = w.argument(drawn(4, 5, 33))
    for axes in ((0, 2), (0, 1), (1, 2), (0, 1, 2)):
        total = w.add("clip", w.add("sum", x, axis=axes, keepdim=True), min=-8.0, max=8.0)
        lower = w.add("sub", x, total)
        w.returns(w.add("mul", lower, w.add("amax", lower, axis=axes, keepdim=True)))
    agrees(w)


def test_rows_of_other_dtypes_beside_them() -> None:
    """A mask, an integer and a double in one kernel with floats."""
    w = Written()
    x, mask = w.argument(drawn(5, 40)), w.argument(drawn(5, 40, dtype=np.bool_, seed=1))
    count = w.add("sum", w.add("cast", mask, dtype=np.dtype(np.int64)), axis=(1,), keepdim=True)
    kept = w.add("where", mask, x, 0)
    total = w.add("sum", w.add("cast", kept, dtype=np.dtype(np.float64)), axis=(1,), keepdim=True)
    mean = w.add("div", total, w.add("cast", count, dtype=np.dtype(np.float64)))
    w.returns(w.add("sub", x, w.add("cast", mean, dtype=np.dtype(np.float32))), count, mask)
    w.returns(w.add("all", mask, axis=(1,), keepdim=False), w.add("sum", mask, axis=(0,),
                                                                  keepdim=False))  # fmt: skip
    agrees(w)


# -- picks and scatters ----------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [np.int64, np.int32, np.int8])
@pytest.mark.parametrize("width", [1, 7, 33])
def test_rows_by_number(width: int, kind: Any) -> None:
    w = Written()
    table = w.argument(drawn(9, width))
    index = w.argument(np.array([[0, 1, 8], [5, 3, 3]], kind))
    found = w.add("embedding", table, index, padding_idx=None)
    w.returns(found, w.add("sum_rows", found, index, count=9, skip=None))
    w.returns(w.add("sum_rows", w.add("neg", found), index, count=9, skip=3))
    ends = w.argument(np.array([0, -1, 2, -width], kind) % width - width)
    w.returns(w.add("getitem", table, ends, index=(WHOLE, ("array", 0))))
    kernels(build(w.program))
    agrees(w, 0.0)


def test_true_and_true_at_one_place_is_true() -> None:
    w = Written()
    given, index = w.argument(np.ones(2, np.bool_)), w.argument(np.zeros(2, np.int64))
    w.returns(w.add("put", given, index, index=(("array", 0),), shape=(3,)))
    kernels(build(w.program))
    agrees(w)


def test_several_index_arrays() -> None:
    w = Written()
    x = w.argument(drawn(4, 5, 6, 7))
    i, j = w.argument(np.array([[0], [-1], [2]])), w.argument(np.array([[1, -5, 3, 3]]))
    for lead in range(3):
        index = (*(WHOLE,) * lead, ("array", 0), ("array", 1))
        found = w.add("getitem", x, i, j, index=index)
        w.returns(found, w.add("put", found, i, j, index=index, shape=x.shape))
    kernels(build(w.program))
    agrees(w)


@pytest.mark.parametrize(("index", "length"), [(5, 5), (-6, 5), (10**12, 5), (-(2**63), 5)])
@pytest.mark.parametrize("op", ["getitem", "gather", "gather columns", "put", "sum_rows"])
def test_an_index_out_of_range_is_told_and_the_next_call_is_fine(
    op: str, index: int, length: int
) -> None:
    w = Written()
    numbers = np.arange(40) % 5
    x, i = w.argument(drawn(5, 5)), w.argument(numbers)
    if op == "getitem":
        w.returns(w.add("getitem", x, i, index=(("array", 0),)))
    elif op.startswith("gather"):
        columns = "columns" in op
        shape = (1, 40) if columns else (40, 1)
        table = w.argument(drawn(5, 40) if columns else drawn(40, 5))
        arrays = [w.constant(np.arange(40).reshape(shape)), w.add("reshape", i, shape=shape)]
        arrays = arrays[::-1] if columns else arrays
        w.returns(w.add("getitem", table, *arrays, index=(("array", 0), ("array", 1))))
    elif op == "put":
        y = w.argument(drawn(40, 3))
        w.returns(w.add("put", y, i, index=(("array", 0),), shape=(5, 3)))
    else:
        w.returns(w.add("sum_rows", w.argument(drawn(40, 3)), i, count=5, skip=None))
    executable, expected = build(w.program), w.expected()
    for place in (0, 39):
        w.arguments[1] = numbers.copy()
        w.arguments[1][place] = index
        with pytest.raises(IndexError, match=f"index {index} is out of range .* length {length}"):
            w.outcome(executable)
        w.arguments[1] = numbers
        assert_same_bits(w.outcome(executable), expected)


def test_nothing_to_pick_from() -> None:
    w = Written()
    table, index = w.argument(drawn(0, 1000)), w.argument(np.array([0]))
    w.returns(w.add("embedding", table, index, padding_idx=None))
    with pytest.raises(IndexError):
        w.outcome(build(w.program))
    none = Written()
    x, i = none.argument(drawn(0, 3)), none.argument(np.zeros(0, np.int64))
    none.returns(none.add("getitem", x, i, index=(("array", 0),)))
    agrees(none)


# -- products, briefly (test_products.py has the kernel itself) ------------------------------------


@pytest.mark.parametrize("sizes", [(1, 1, 1), (7, 17, 5), (3, 0, 5), (0, 3, 5), (33, 64, 1)])
@pytest.mark.parametrize("dtype", FLOATS)
def test_products_and_what_is_done_to_them(sizes: tuple[int, ...], dtype: Any) -> None:
    m, k, n = sizes
    w = Written()
    x, y = w.argument(drawn(m, k, dtype=dtype)), w.argument(drawn(k, n, dtype=dtype, seed=1))
    mask, scale = w.argument(drawn(m, n, dtype=np.bool_)), w.argument(drawn(m, 1, dtype=dtype))
    product = w.add("matmul", x, y)
    kept = w.add("where", mask, product, 0)
    w.returns(kept, w.add("mul", kept, scale), w.add("greater", product, 1.0))
    w.returns(w.add("cast", product, dtype=np.dtype(np.float64)))
    kernels(build(w.program))
    agrees(w, 0.0)


# -- threads ---------------------------------------------------------------------------------------


@pytest.fixture
def shared() -> Iterator[None]:
    """Every kernel is shared among the threads, however short; afterwards as it was."""
    count, short = thread_pool.get_num_threads(), synchronization.SHORT
    synchronization.SHORT = -1
    yield
    synchronization.SHORT = short
    thread_pool.set_num_threads(count)


@pytest.mark.usefixtures("shared")
@pytest.mark.parametrize("dtype", FLOATS)
def test_the_number_of_threads_changes_no_bit(dtype: Any) -> None:
    """With numbers that are rounded: the order of every sum is fixed."""
    w = Written()
    x, y = w.argument(normal(77, 130, dtype=dtype)), w.argument(normal(130, 77, dtype=dtype))
    index = w.argument(np.random.default_rng(0).integers(0, 9, 77))
    w.returns(w.add("softmax", x, axis=1), w.add("tanh", x), w.add("matmul", x, y))
    for axis in ((0,), (1,), (0, 1)):
        w.returns(w.add("sum", x, axis=axis, keepdim=False))
    w.returns(w.add("sum_rows", x, index, count=9, skip=None))
    w.returns(w.add("put", x, index, index=(("array", 0),), shape=(9, 130)))
    w.returns(w.add("concatenate", w.add("exp", x), x, axis=0))
    short = w.argument(normal(1000, 3, dtype=dtype))
    w.returns(w.add("log_softmax", short, axis=1), w.add("mean", short, axis=(0,), keepdim=True))
    found = []
    for count in (1, 2, 3, 4):
        thread_pool.set_num_threads(count)
        executable = build(w.program)
        found += [w.outcome(executable) for _ in range(2)]
    for each in found[1:]:
        assert_same_bits(each, found[0])
    assert_equal(found[0], w.expected(), 500 * np.finfo(dtype).eps)


@pytest.mark.usefixtures("shared")
def test_one_number_is_changed_by_one_thread() -> None:
    w = Written()
    m = w.memory(np.float32(3.0))
    w.becomes(m, w.add("neg", m))
    thread_pool.set_num_threads(2)
    agrees(w)


def test_scratch_memory_for_as_many_threads_as_share_a_product() -> None:
    def arena(rows: int, threads: int) -> int:
        w = Written()
        w.returns(w.add("matmul", w.argument(drawn(rows, 64)), w.argument(drawn(64, 48))))
        return backend.design(lower(w.program), False, threads, Stages()).plan.arena

    assert arena(7, 4) == arena(7, 1) > 0
    assert arena(900, 4) == 4 * arena(900, 1) > 0


def test_the_plan_is_made_again_for_those_who_look() -> None:
    w = Written()
    x = w.add("matmul", w.argument(drawn(70, 64)), w.argument(drawn(64, 48)))
    w.returns(w.add("sum", w.add("tanh", x), axis=(1,), keepdim=False))
    executable = build(w.program)
    assert "design" not in vars(executable)  # a call needs none of it
    assert_same_bits(w.outcome(executable), w.outcome(build(w.program)))
    assert set(kernels(executable)) == set(executable.library.addresses)
    again = backend.design(lower(w.program), False, executable.threads, Stages())
    assert executable.plan.arena == again.plan.arena > 0
