"""NaN, infinities, zeros with a sign, denormals and whole numbers: compiled as in eager code.

Every op of the table, values and gradients. Zeros of arithmetic, choices and moves have the sign
that eager ones have.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gradwalk as gw
from gradwalk.ops import TABLE
from gradwalk.ops.core.op import Op
from tests.compiler.backends.llvm.test_native_ops import EXACT, FIRST, assert_close, refused
from tests.compiler.backends.test_numpy import TOLERANCE, with_gradients
from tests.ops.samples.table import Sample, attributes_of, elementwise_pair

Array = np.ndarray[Any, Any]
FLOATS = [np.float32, np.float64]
OPS = [op for op in TABLE.values() if op.elementwise]
SIGNED = EXACT - {"relu", "clip"}  # of −0 and 0 NumPy's maximum takes either


def edges(dtype: Any) -> list[float]:
    """Numbers at which functions are unlike elsewhere; the denormals last (SciPy's lgamma of those
    is inf)."""
    info = np.finfo(dtype)
    small = [info.tiny, -info.tiny / 2, float(info.smallest_subnormal)]
    return [np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 3.0, 50.0, -800.0, *small]


def compare(function: Any, arrays: list[Array], exact: bool, tolerance: float) -> None:
    """The function, eager and compiled, on tensors of these arrays."""

    def inputs() -> list[gw.Tensor]:
        found = [gw.from_numpy(a.copy()) for a in arrays]
        return [t.requires_grad_() if t.dtype.kind == "f" else t for t in found]

    expected, found = function(*inputs()), gw.compile(function)(*inputs())
    assert_close(found[0], expected[0], 0.0 if exact else tolerance)
    assert_close(found[1], expected[1], tolerance)
    if exact:
        for got, want in zip(found[0], expected[0], strict=True):
            zeros = want.numpy() == 0
            if want.dtype.kind == "f":
                signs = (np.signbit(t.numpy()[zeros]) for t in (got, want))
                np.testing.assert_array_equal(*signs)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("op", OPS, ids=lambda op: op.name)
def test_elementwise(op: Op, dtype: Any) -> None:
    numbers = edges(dtype)[: 9 if len(op.inputs) == 3 else 12 if op.name == "lgamma" else 15]
    grid = np.array(np.meshgrid(*[numbers] * len(op.inputs)), dtype).reshape(len(op.inputs), -1)
    arrays = list(grid)
    if op.name.startswith(("bitwise_", "logical_")) or op.name == "where":
        arrays[0] = arrays[0] > 0
    if op.name.startswith("bitwise_"):
        arrays = [a > 0 for a in arrays]
    for attrs in attributes_of(op):
        call, _ = elementwise_pair(op, attrs)
        function = with_gradients(Sample(op.name, call, call, (), ""))
        compare(function, arrays, op.name in SIGNED, TOLERANCE[dtype])


def with_one(number: float) -> Callable[[Array], Array]:
    """One element is this number."""

    def changed(array: Array) -> Array:
        found = array.copy()
        found.flat[array.size // 2 : array.size // 2 + 1] = number
        return found

    return changed


def tiny(array: Array) -> Array:
    """Zeros of both signs and numbers that no normal float holds."""
    info = np.finfo(array.dtype)
    some = np.array([0.0, -0.0, info.tiny / 2, -info.tiny / 4], array.dtype)
    return np.resize(some, array.shape)


CHANGES = {
    "nan": with_one(np.nan), "inf": with_one(np.inf), "-inf": with_one(-np.inf), "tiny": tiny,
}  # fmt: skip
# LAPACK may search for ever in matrices that are not finite; these run as NumPy in any case.
LAPACK = {
    "certain_inv", "cholesky", "cofactor", "det", "det_twice", "eigh", "inv", "pinv", "qr",
    "qr_complete", "slogdet", "solve", "svd",
}  # fmt: skip
ORDERED = {"searchsorted"}  # it takes numbers in order, which these are not
OTHERS = [s for s in FIRST if not TABLE[s.op].elementwise and s.op not in LAPACK | ORDERED]
# Called themselves, as here, these give another dtype than their rule says; what people call casts
# before, or refuses.
UNUSUAL = LAPACK | ORDERED | {
    "binary_cross_entropy", "binary_cross_entropy_logits", "clip", "div_floor", "fmod",
    "hardshrink", "pool_sum", "pow", "power", "relu", "remainder", "round", "softshrink",
    "standardize", "standardize_affine",
}  # fmt: skip


# Here what is not finite reaches further than in eager code: a strided convolution's gradient is
# one of zeros between its numbers, and 0 × inf is NaN; the others are differentiated through their
# definitions. None of it is lost.
FURTHER = {"conv", "conv_bias", "conv_input", "cumprod", "logcumsumexp", "standardize_affine"}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("sample", OTHERS, ids=lambda s: s.op)
def test_in_every_other_op(sample: Sample, change: str) -> None:
    if (sample.op, change) == ("logcumsumexp", "inf"):
        return  # here eager's recurrence meets inf − inf, and the definition does not
    dtype = FLOATS[list(CHANGES).index(change) % 2]
    arrays = [CHANGES[change](a) if a.dtype.kind == "f" else a for a in sample.arrays(dtype)]
    if sample.op in FURTHER:
        _nothing_is_hidden(sample, arrays)
    else:
        _as_eager(sample, arrays, TOLERANCE[dtype])


def _nothing_is_hidden(sample: Sample, arrays: list[Array]) -> None:
    """What is not finite in eager code is not finite compiled."""
    function = with_gradients(sample)
    tensors = [gw.from_numpy(a).requires_grad_(a.dtype.kind == "f") for a in arrays]
    expected, found = function(*tensors), gw.compile(function)(*tensors)
    for got, want in zip((*found[0], *found[1]), (*expected[0], *expected[1]), strict=True):
        assert not np.isfinite(got.numpy()[~np.isfinite(want.numpy())]).any()


@pytest.mark.parametrize("dtype", [np.int8, np.bool_])
@pytest.mark.parametrize("sample", [s for s in FIRST if s.op not in UNUSUAL], ids=lambda s: s.op)
def test_whole_numbers(sample: Sample, dtype: Any) -> None:
    """Where floats are expected: the same dtype comes out, or the same error."""
    arrays = [
        np.resize([1, 2, 1, 3, 1], a.shape).astype(dtype) if a.dtype.kind == "f" else a
        for a in sample.arrays()
    ]
    _as_eager(sample, arrays, TOLERANCE[np.float32])


def _as_eager(sample: Sample, arrays: list[Array], tolerance: float) -> None:
    function = with_gradients(sample)
    try:
        compare(function, arrays, False, tolerance)
    except gw.TraceError as error:
        assert refused(sample, error)
    except (TypeError, ValueError, RuntimeError, ArithmeticError, IndexError) as error:
        tensors = [gw.from_numpy(a.copy()) for a in arrays]
        with pytest.raises(type(error)):
            function(*[t.requires_grad_() if t.dtype.kind == "f" else t for t in tensors])
