"""The forward of every op on jax arrays against NumPy's: the same shape, dtype and numbers.

test_eager_ops.py walks the samples; here are the edges, and the ops that only programs call.
Tolerance: XLA has its own exp, log, and so on, and adds in another order. Integers and booleans are
equal.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gradwalk.compiler.backends.xla.forwards import FORWARDS
from gradwalk.compiler.functional.whole_ops import PLAIN
from gradwalk.compiler.ir import compiler_ops
from gradwalk.ops import TABLE
from gradwalk.ops.core.op import Op
from gradwalk.ops.core.operators import op_of_ufunc
from tests.compiler.backends.test_numpy import tensors, with_gradients
from tests.ops.samples.table import all_samples

COMPILER_OPS = [op for op in vars(compiler_ops).values() if isinstance(op, Op)]
OPS = {op.name: op for op in (*TABLE.values(), *COMPILER_OPS, *PLAIN)}
TOLERANCE = {np.dtype(np.float32): 1e-5, np.dtype(np.float64): 1e-12}
NAN, INF = math.nan, math.inf

# An op, its operands, its attributes, and what NumPy made of them, without residuals.
Call = tuple[Op, list[Any], dict[str, Any], Any]


def test_every_op_has_a_forward() -> None:
    assert set(FORWARDS) == set(OPS)


# -- the calls of the samples --------------------------------------------------------------------


def _copy(value: Any) -> Any:
    return value.copy() if isinstance(value, (np.ndarray, np.generic)) else value


@contextmanager
def calls_of_forwards() -> Iterator[list[Call]]:
    """A list of all calls of forwards on arrays from now on; composites are left alone."""
    op_of_ufunc(np.add)  # its table is made at the first use, of the forwards there are then
    calls: list[Call] = []
    originals = {name: op.forward for name, op in OPS.items()}

    def recording(op: Op, forward: Any) -> Any:
        def record(*args: Any, **attrs: Any) -> Any:
            given = [_copy(a) for a in args]
            result = forward(*args, **attrs)
            outputs = result if isinstance(result, tuple) else (result,)
            kept = [_copy(o) for o in outputs[: len(outputs) - len(op.residuals)]]
            calls.append((op, given, attrs, kept if op.multiple else kept[0]))
            return result

        return record

    for name, op in OPS.items():
        op.forward = recording(op, originals[name])
    try:
        yield calls
    finally:
        for name, op in OPS.items():
            op.forward = originals[name]


def same(found: Any, expected: Any) -> None:
    """Arrays of one shape and dtype, with equal numbers, or floats within the tolerance."""
    want = np.asarray(expected)
    assert (found.shape, found.dtype) == (want.shape, want.dtype)
    assert not found.weak_type
    tolerance = TOLERANCE.get(want.dtype, 0)
    np.testing.assert_allclose(np.asarray(found), want, tolerance, tolerance)


def is_array(value: Any) -> bool:
    return isinstance(value, (np.ndarray, np.generic))


def again(call: Call, arrays: list[Any]) -> Any:
    """Our forward of a call, on these arrays; its numbers stay numbers."""
    op, given, attrs, _ = call
    left = iter(arrays)
    return FORWARDS[op.name](*(next(left) if is_array(a) else a for a in given), **attrs)


def check(calls: list[Call]) -> None:
    """Repeat calls, all in one jitted function: most of the time XLA compiles."""

    def run(operands: list[list[Any]]) -> list[Any]:
        return [again(call, arrays) for call, arrays in zip(calls, operands, strict=True)]

    operands = [[jnp.asarray(a) for a in given if is_array(a)] for _, given, _, _ in calls]
    for call, found in zip(calls, jax.jit(run)(operands), strict=True):
        op, expected = call[0], call[3]
        assert isinstance(found, tuple) == op.multiple
        try:
            for one, want in zip(*((found, expected) if op.multiple else ([found], [expected]))):
                same(one, want)
        except AssertionError as error:
            error.add_note(f"in {kind_of(call)}")
            raise


def kind_of(call: Call) -> str:
    """Calls of one kind differ only in their numbers."""
    op, given, attrs, _ = call
    operands = [(a.shape, str(a.dtype)) if is_array(a) else a for a in given]
    return f"{op.name} {operands} {attrs}"


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name, op in OPS.items() if op.array_only])
def test_every_call_of_the_samples(name: str) -> None:
    """Of ops that are whole in programs only: eager code on a device has their definition."""
    with calls_of_forwards() as calls:
        for sample in all_samples():
            if sample.op == name:
                for dtype in (np.float64, np.float32):
                    with_gradients(sample)(*tensors(sample, dtype))
    fresh = {kind_of(call): call for call in calls if call[0].name == name}
    assert fresh
    check(list(fresh.values()))


# -- edges ---------------------------------------------------------------------------------------


def agree(name: str, *given: Any, **attrs: Any) -> None:
    """NumPy's forward and ours give the same, also in the sign of a zero."""
    op = OPS[name]
    with np.errstate(all="ignore"):
        result = op.forward(*(_copy(a) for a in given), **attrs)
    outputs = result if isinstance(result, tuple) else (result,)
    expected = [np.asarray(o) for o in outputs[: len(outputs) - len(op.residuals)]]
    call = (op, list(given), attrs, None)
    arrays = [jnp.asarray(a) for a in given if is_array(a)]
    found = jax.jit(lambda *arrays: again(call, arrays))(*arrays)
    for one, want in zip(found if op.multiple else (found,), expected, strict=True):
        same(one, want)
        numbers = want == want  # the sign of a NaN means nothing
        np.testing.assert_array_equal(
            np.signbit(np.asarray(one, np.float64))[numbers],
            np.signbit(np.asarray(want, np.float64))[numbers],
        )


SPECIAL = np.array([NAN, INF, -INF, 0.0, -0.0, 1.0, -1.0, 2.5, -2.5, 0.5, 1e10, -1e10])
PAIRS = np.meshgrid(SPECIAL, SPECIAL)
WHOLE = np.array([-7, -6, -1, 0, 1, 2, 6, 7])
WHOLE_PAIRS = np.meshgrid(WHOLE, WHOLE)
DIVISIONS = ["div", "div_floor", "div_trunc", "floor_divide", "remainder", "fmod"]
COMPARISONS = ["equal", "not_equal", "less", "less_equal", "greater", "greater_equal"]


@pytest.mark.parametrize("name", [*DIVISIONS, "pow", "hypot", "atan2", "copysign", "xlogy"])
def test_floats_at_their_limits(name: str) -> None:
    agree(name, *PAIRS)
    agree(name, *(x.astype(np.float32) for x in PAIRS))


@pytest.mark.parametrize("name", [n for n in DIVISIONS if n != "div"] + ["pow"])
@pytest.mark.parametrize("dtype", [np.int64, np.int32, np.int8])
def test_integers_divided_by_any(name: str, dtype: Any) -> None:
    agree(name, *(x.astype(dtype) for x in WHOLE_PAIRS))


@pytest.mark.parametrize("name", ["floor_divide", "remainder", "fmod", "div_trunc", "div"])
@pytest.mark.parametrize("number", [3, -3, 49, 0.1])
def test_division_by_a_number(name: str, number: float) -> None:
    """A rounded quotient tells if XLA multiplies by a reciprocal: 49 × (1 / 49) is less than 1."""
    agree(name, np.arange(-200.0, 200.0), number)
    agree(name, number, np.array([-3.0, 2.0, 0.1, 7.0], np.float32))
    if isinstance(number, int):
        agree(name, np.arange(-200, 200), number)


@pytest.mark.parametrize(
    "name",
    ["sign", "floor", "ceil", "trunc", "frac", "sqrt", "abs", "neg", "square", "isnan", "isinf",
     "isfinite", "nan_to_num", "relu", "hardshrink", "softshrink", "sigmoid", "tanh", "exp", "log",
     "softplus", "silu", "logsigmoid", "erf", "lgamma", "logical_not", "hardtanh", "leaky_relu"],
)  # fmt: skip
def test_one_float_at_its_limits(name: str) -> None:
    agree(name, SPECIAL[SPECIAL != 0] if name in ("relu", "softplus") else SPECIAL)


@pytest.mark.parametrize("name", ["sign", "floor", "abs", "square", "isnan", "round", "hardtanh"])
@pytest.mark.parametrize("dtype", [np.int64, np.int8, np.uint8, bool])
def test_one_whole_number(name: str, dtype: Any) -> None:
    if not (dtype is bool and name == "hardtanh"):
        agree(name, np.array([0, 1, 2, 100]).astype(dtype))


def test_rounding_halves() -> None:
    halves = np.array([-2.5, -1.5, -0.5, 0.5, 1.5, 2.5, 0.25, 0.35, -0.0])
    agree("round", halves)
    agree("round", halves, decimals=1)
    agree("round", halves * 100, decimals=-1)
    agree("round", np.array([15, 25, -35]), decimals=-1)


@pytest.mark.parametrize("name", COMPARISONS)
def test_comparisons_of_mixed_kinds(name: str) -> None:
    agree(name, *PAIRS)
    agree(name, WHOLE, WHOLE.astype(np.float32)[:, None] + np.float32(0.5))
    agree(name, np.array([0, 200, 255], np.uint8), 300)
    agree(name, -1, np.array([0, 200, 255], np.uint8))
    agree(name, WHOLE, 2**70)
    agree(name, WHOLE, 1.5)
    agree(name, np.array([True, False]), WHOLE[:, None])


@pytest.mark.parametrize("name", ["add", "sub", "mul", "maximum", "minimum"])
def test_promotion_is_numpys(name: str) -> None:
    for other in (np.float32, np.int8, np.uint8):
        agree(name, WHOLE, WHOLE.astype(other))
        agree(name, np.abs(WHOLE).astype(np.uint8), WHOLE.astype(other))
    agree(name, WHOLE, 2.5)
    agree(name, WHOLE.astype(np.int32), 2.5)
    agree(name, WHOLE.astype(np.int32), 2)
    agree(name, WHOLE.astype(np.float32), 2)
    agree(name, 1.0, np.array([1, 2], np.int8))


def test_where_with_numbers() -> None:
    mask = np.array([True, False])
    for x, y in ((1.0, 0.0), (1, 0), (np.array([1, 2], np.float32), 0), (0, np.array([1, 2]))):
        agree("where", mask, x, y)
    agree("where", mask, np.array([1, 2]), np.array([1, 2], np.float32))


def test_maximum_propagates_nan() -> None:
    for name in ("maximum", "minimum", "clamp_min", "clamp_max"):
        first, second = PAIRS
        apart = (first != 0) | (second != 0)  # which zero is the larger one is not said
        agree(name, first[apart], second[apart])
    agree("clip", SPECIAL[SPECIAL != 0], min=-1.0, max=0.5)


def test_bounds_beyond_a_dtype() -> None:
    few = np.array([1, 200], np.uint8)
    agree("clip", few, min=-1, max=300)
    agree("clip", few, min=5, max=None)
    agree("clip", WHOLE, min=-2.5, max=None)
    agree("clip", WHOLE, min=5, max=2)


ORDERED = np.array([[3.0, NAN, -0.0, 0.0, 3.0], [1.0, 1.0, -INF, INF, 1.0], [NAN, 2, NAN, 1, 0]])


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int64, bool])
@pytest.mark.parametrize("axis", [0, 1])
def test_order_of_nan_and_ties(dtype: Any, axis: int) -> None:
    x = ORDERED.astype(dtype) if dtype in (np.float64, np.float32) else np.nan_to_num(
        ORDERED, posinf=9, neginf=-9
    ).astype(dtype)  # fmt: skip
    for direction in (False, True):
        agree("sort", x, axis=axis, descending=direction)
        agree("topk", x, k=2, axis=axis, largest=direction)
        for name in ("max", "min", "argmax", "argmin", "median_along", "amax", "amin"):
            agree(name, x, axis=(axis,), keepdim=direction)
    agree("kthvalue", x, k=2, axis=(axis,), keepdim=False)
    agree("median", x, axis=(0, 1))
    agree("argmax", x, axis=(0, 1), keepdim=True)
    for name in ("cumsum", "cumprod"):
        agree(name, x + 0 if dtype is not bool else x, axis=axis)  # XLA's sum of −0.0 is 0.0
    if dtype is not bool:
        for name in ("cummax", "cummin", "running_max", "running_min"):
            agree(name, x, axis=axis)
            agree(name, x, axis=axis - 2)


def test_no_elements() -> None:
    none = np.zeros((2, 0))
    for name in ("sum", "mean", "prod", "all", "any", "logsumexp"):
        agree(name, none, axis=(1,), keepdim=False)
        agree(name, none, axis=(0, 1), keepdim=True)
        agree(name, none, axis=(), keepdim=False)
    for name in ("var", "std"):
        agree(name, none, axis=(1,), correction=1, keepdim=False)
    agree("sort", none, axis=1, descending=True)
    agree("cumsum", none, axis=1)
    agree("cummax", none, axis=1)
    agree("median", none, axis=(0, 1))
    agree("concatenate", none, np.zeros((2, 3)), axis=1)
    agree("split", none, sizes=(0, 0), axis=1)
    agree("windows", none, axis=1, size=0, step=1)
    agree("getitem", none, np.zeros(0, np.int64), index=(("array", 0),))
    agree("put", np.zeros((0, 0)), np.zeros(0, np.int64), index=(("array", 0),), shape=(2, 0))
    agree("searchsorted", np.zeros(0), np.ones(3), right=False)
    agree("searchsorted", np.zeros((0, 2)), np.ones((0, 3)), right=False)


@pytest.mark.parametrize("right", [False, True])
def test_search_with_nan_and_ties(right: bool) -> None:
    rows = np.array([[0.0, 1, 1, 2, NAN], [-INF, -0.0, 0.0, INF, INF]])
    sought = np.array([[1.0, NAN, -0.0, INF], [0.0, -0.0, INF, -INF]])
    agree("searchsorted", rows[0], sought, right=right)
    agree("searchsorted", rows, sought, right=right)
    agree("searchsorted", np.array([1, 3, 5]), sought.astype(np.float32), right=right)
    agree("searchsorted", np.array([1, 3, 5]), np.array(3), right=right)


def test_casts() -> None:
    agree("cast", np.array([2.7, -2.7, 300.0, -1.0]), dtype=np.dtype(np.uint8))
    agree("cast", np.array([2.7, -2.7, 300.0, -1.0], np.float32), dtype=np.dtype(np.int8))
    agree("cast", np.array([2.7, -2.7, 0.0, NAN]), dtype=np.dtype(bool))
    agree("cast", np.array([300, -1, 7]), dtype=np.dtype(np.uint8))
    agree("cast", np.array([0.1, 1e-3, INF]), dtype=np.dtype(np.float32))


# -- indices -------------------------------------------------------------------------------------

ALL = ("slice", None, None, None)
X = np.arange(60.0).reshape(3, 4, 5)
LONG = np.array([2, 0, 2, -1])
SUBSCRIPTS: list[tuple[Any, list[Any]]] = [
    ((1,), []),
    ((-1, ALL, -2), []),
    (("...", 1), []),
    ((None, ("slice", 1, None, None), "...", ("slice", None, None, -2)), []),
    ((("slice", 0, 0, None), 2), []),
    ((("slice", None, None, 2), None, ("slice", 3, 0, -1)), []),
    ((("array", 0),), [LONG]),
    ((("array", 0), ALL, ("array", 1)), [LONG, np.array([[1], [2]])]),
    ((1, ALL, ("array", 0)), [LONG]),
    ((("array", 0), -1, ("slice", 1, 3, None)), [LONG]),
    ((("array", 0), ("array", 1), ("array", 2)), [LONG, LONG, LONG]),
    ((None, ("array", 0)), [np.array([], np.int64)]),
]
FLAGS = np.random.default_rng(0).integers(0, 2, X.shape).astype(bool)
MASKS: list[tuple[Any, Any]] = [
    ((("mask", 0, 3),), FLAGS),
    ((("mask", 0, 1),), FLAGS[:, 0, 0]),
    ((("mask", 0, 2), ("slice", 1, 4, None)), FLAGS[..., 0]),
    ((ALL, ("mask", 0, 2)), FLAGS[0]),
    (("...", ("mask", 0, 1)), FLAGS[0, 0]),
    (("...", ("mask", 0, 1), ("slice", None, None, 2)), FLAGS[0, :, 0]),
    ((1, None, ("mask", 0, 1)), FLAGS[0, :, 0]),
    ((("mask", 0, 1),), np.zeros(3, bool)),
    ((("mask", 0, 0),), np.array(True)),
    ((("mask", 0, 0),), np.array(False)),
]


@pytest.mark.parametrize("index, arrays", SUBSCRIPTS, ids=str)
def test_indices_read_and_write(index: Any, arrays: list[Any]) -> None:
    agree("getitem", X, *arrays, index=index)
    taken = TABLE["getitem"].forward(X, *arrays, index=index)
    g = np.arange(1.0, taken.size + 1).reshape(taken.shape)
    agree("put", g, *arrays, index=index, shape=X.shape)
    agree("put", g > 3, *arrays, index=index, shape=X.shape)
    agree("winners", X, *arrays, index=index)
    for value in (7.5, g, g[None, None], g[..., :1]):
        agree("setitem", X, value, *arrays, index=index)
        agree("setitem", X.astype(np.int64), value, *arrays, index=index)


@pytest.mark.parametrize("index, mask", MASKS, ids=str)
def test_masks_write_inside_jit(index: Any, mask: Any) -> None:
    taken = TABLE["getitem"].forward(X, mask, index=index)
    same(FORWARDS["getitem"](jnp.asarray(X), jnp.asarray(mask), index=index), taken)
    g = np.arange(1.0, taken.size + 1).reshape(taken.shape)
    agree("put", g, mask, index=index, shape=X.shape)
    for value in (7.5, g, g[None], g[..., :1]):
        agree("setitem", X, value, mask, index=index)


def test_a_change_through_views() -> None:
    def chain(*steps: tuple[str, dict[str, Any]], which: int = 0) -> Any:
        return tuple((TABLE[name], attrs, which) for name, attrs in steps)

    rows = ("reshape", {"shape": (12, 5)})
    chains = [
        (),
        chain(("alias", {}), rows, ("getitem", {"index": (3,)})),
        chain(("permute", {"axes": (2, 0, 1)}), ("getitem", {"index": (1, "...", 2)})),
        chain(("permute", {"axes": (2, 0, 1)}), ("reshape", {"shape": (15, 4)})),
        chain(rows, ("split", {"sizes": (2, 3), "axis": 1}), ("expand", {"shape": (1, 12, 2)}))[:2],
        chain(("split", {"sizes": (1, 3), "axis": 1}), which=1),
        chain(("diagonal", {"offset": 1, "axes": (2, 0)})),
        chain(("windows", {"axis": 2, "size": 2, "step": 3}), ("getitem", {"index": ("...", 1)})),
    ]
    for each in chains:
        with np.errstate(all="ignore"):
            agree("write_view", X, 9.5, chain=each)
            agree("write_view", X.astype(np.int64), np.array([2.5]), chain=each)


def test_rows_and_the_last_axis() -> None:
    table, numbers = X[0], np.array([[3, 0], [3, -1]])
    agree("embedding", table, numbers, padding_idx=None)
    counted = np.array([[3, 0], [3, 2]])
    agree("sum_rows", X[:2, :2], counted, count=4, skip=None)
    agree("sum_rows", X[:2, :2], counted, count=4, skip=3)
    places = np.array([[1, 0], [4, 4], [0, 2], [3, 1]])
    agree("gather_last", table, places, apart=False)
    agree("scatter_last", table[:, :2], places, length=5, apart=False)
    agree("scatter_last", table[:, :2], np.array([[1, 0]] * 4), length=5, apart=True)
    agree("checked_index", np.array([0, -1, 3, -4]), length=4)


def test_diagonals_and_windows() -> None:
    for offset in (-5, -1, 0, 2, 6):
        agree("diagonal", X, offset=offset, axes=(2, 1))
        taken = TABLE["diagonal"].forward(X, offset=offset, axes=(2, 1)).copy()
        agree("diagonal_put", taken, shape=X.shape, offset=offset, axes=(2, 1))
    for size, step in ((2, 1), (3, 2), (4, 5), (0, 1)):
        agree("windows", X, axis=1, size=size, step=step)
        taken = TABLE["windows"].forward(X, axis=1, size=size, step=step).copy()
        agree("windows_add", taken, shape=X.shape, axis=1, size=size, step=step)
    agree("pad", X, widths=((1, 0), (0, 0), (2, 3)), value=-INF)
    agree("pad", WHOLE, widths=((1, 2),), value=1.0)


@pytest.mark.parametrize("p", [0, 1, 2, 3, 0.5, INF, -INF])
def test_norms(p: float) -> None:
    agree("vector_norm", ORDERED, p=p, axis=(1,), keepdim=True)
    agree("vector_norm", X, p=p, axis=(0, 2), keepdim=False)


def test_special_functions_over_their_range() -> None:
    x = np.concatenate([np.linspace(-8, 8, 161), [0.0, -0.0, INF, NAN, 30.5, 171.3]])
    agree("erfc", x)
    agree("ndtr", x)
    agree("gelu", x[x != -INF])
    agree("gelu_tanh", x)
    agree("digamma", x)
    for n in (1, 2, 3):
        agree("polygamma", x[(x > 0) | (x == np.floor(x)) | (x < -7.95)], n=n)
    agree("polygamma", np.array([-0.5, -8.5, -9.5, -20.3]), n=2)
    agree("erfinv", np.linspace(-1, 1, 101))
    agree("logit", np.linspace(0, 1, 101))
    agree("sinc", x)
    agree("logcumsumexp", np.array([[-INF, -INF, 1.0, 700.0, 2.0]]), axis=1)
