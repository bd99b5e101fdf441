"""Every op of the table as native code against eager code: values, gradients, sizes, layouts.

What has no kernel runs in NumPy in the middle of the native code, with the same results.
Tolerance: functions beyond arithmetic are within 2 ulp (float32), sums are taken in another order
than NumPy's, and a gradient is several of both in a row. Arithmetic, choices and moves are equal
to the last bit.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import gradwalk as gw
from gradwalk.compiler.backends.llvm.emit.elementwise_table import is_cheap
from gradwalk.ops import TABLE
from tests.batches import batched
from tests.compiler.backends.test_numpy import MASKS, TOLERANCE, tensors, with_gradients
from tests.ops.samples.table import (
    ELEMENTWISE,
    Sample,
    _elementwise_inputs,
    all_samples,
    elementwise_pair,
    in_both_precisions,
)
from tests.ops.test_against_torch import LAYOUTS

SAMPLES = all_samples()
FIRST = list({sample.op: sample for sample in reversed(SAMPLES)}.values())[::-1]
MOVES = {
    "reshape", "permute", "expand", "getitem", "concatenate", "pad", "split", "clone",
    "alias", "diagonal", "windows", "amax", "amin", "all", "any",
}  # fmt: skip
EXACT = MOVES | {name for name, op in TABLE.items() if op.elementwise and is_cheap(op)}
# What runs in NumPy: decompositions and what is made of them (and, in no sample, searches in long
# sequences and polygamma of high order). This list may only become shorter.
IN_NUMPY = {
    "certain_inv", "cholesky", "cofactor", "det", "det_twice", "eigh", "inv", "pinv", "qr",
    "qr_complete", "slogdet", "solve", "svd",
}  # fmt: skip


def in_numpy(compiled: Any) -> set[str]:
    """The ops that run in NumPy in the programs of a compiled function."""
    executables = [v.executable for each in compiled.specializations.values() for v in each]
    executables = [e for e in executables if e.reasons]  # the plan of the others is not made again
    return {
        call.op.name
        for executable in executables
        for entry, kernel in zip(executable.plan.entries, executable.kernels, strict=True)
        if kernel is None
        for call in entry.calls
    }


def assert_close(found: Any, expected: Any, tolerance: float) -> None:
    for got, want in zip(found, expected, strict=True):
        if not isinstance(want, gw.Tensor):
            assert got == want
            continue
        assert (got.shape, got.dtype) == (want.shape, want.dtype)
        np.testing.assert_allclose(got.numpy(), want.numpy(), tolerance, tolerance)


def refused(sample: Sample, error: gw.TraceError) -> bool:
    """A mask as an index, or a check of numbers, cannot be compiled."""
    known = MASKS in str(error) or "traced without values" in str(error)
    return known and sample.op in ("getitem", "setitem", "put", "sort", "equal")


@in_both_precisions(SAMPLES)
def test_every_op_and_its_gradient(sample: Sample, dtype: Any) -> None:
    function = with_gradients(sample)
    values, gradients = function(*tensors(sample, dtype))
    compiled = gw.compile(function, check=False)
    exact = sample.op in MOVES or (sample.op in EXACT and sample in ELEMENTWISE)
    for _ in range(2):
        try:
            found, slopes = compiled(*tensors(sample, dtype))
        except gw.TraceError as error:
            assert refused(sample, error)
            return
        assert_close(found, values, 0.0 if exact else TOLERANCE[dtype])
        assert_close(slopes, gradients, TOLERANCE[dtype])
    assert in_numpy(compiled) <= IN_NUMPY


@pytest.mark.parametrize("sample", FIRST, ids=lambda s: s.op)
def test_gradients_of_captured_leaves_add_up(sample: Sample) -> None:
    """As in a training step: backward() inside, into .grad of tensors that the function knows."""

    def run(use: Any) -> list[Any]:
        leaves = tensors(sample, np.float64)

        def step() -> Any:
            found = sample.ours(gw, *leaves)
            outputs = found if isinstance(found, (tuple, list)) else (found,)
            totals = [(o * o).sum() for o in outputs if getattr(o, "requires_grad", False)]
            if totals:
                sum(totals[1:], totals[0]).backward()
            return [o.detach() if isinstance(o, gw.Tensor) else o for o in outputs]

        function = use(step)
        outputs = [function() for _ in range(3)]  # the third adds to what is there
        return [*outputs[-1], *(x.grad for x in leaves)]

    expected = run(lambda f: f)
    try:
        found = run(gw.compile)
    except gw.TraceError as error:
        assert refused(sample, error)
        return
    for got, want in zip(found, expected, strict=True):
        assert (got is None) == (want is None)
    assert_close([g for g in found if g is not None], [e for e in expected if e is not None], 1e-9)


# Equal rows make a singular matrix, which their values or gradients divide by.
SINGULAR = ("certain_inv", "det_twice", "inv", "qr", "slogdet", "solve")


def _spread(array: np.ndarray) -> np.ndarray:
    """Its first row again and again: a stride of 0."""
    return np.broadcast_to(array[:1], array.shape)


@batched(
    "sample, layout",
    itertools.product(FIRST, [*list(LAYOUTS)[:3], "spread"]),
    key=lambda case: case[0].op,
)
def test_operands_in_any_layout(sample: Sample, layout: str) -> None:
    def inputs() -> list[gw.Tensor]:
        lay = LAYOUTS.get(layout, _spread)
        arrays = [lay(a) if a.ndim else a for a in sample.arrays()]
        found = [gw.from_numpy(a) for a in arrays]
        return [t.requires_grad_() if t.dtype.kind == "f" else t for t in found]

    if layout == "spread" and sample.op in SINGULAR:
        return
    function = with_gradients(sample)
    expected = function(*inputs())
    try:
        found = gw.compile(function)(*inputs())
    except gw.TraceError as error:
        assert refused(sample, error)
        return
    for got, want in zip(found, expected, strict=True):
        assert_close(got, want, 1e-9)


OPS = [op for op in TABLE.values() if op.elementwise]
# They have no value without an attribute; the samples above have those.
WITH_ATTRIBUTES = ("power", "polygamma", "threshold", "elu", "clip")
PLACES = {
    1: [((n,),) for n in (0, 1, 7, 17)],
    2: [((n,), (n,)) for n in (0, 1, 7, 17)] + [((17,), (7, 1))],
    3: [((n,), (n,), ()) for n in (0, 1, 7, 17)] + [((17,), (7, 1), (1,))],
}


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("op", OPS, ids=lambda op: op.name)
def test_elementwise_ops_of_odd_sizes(op: Any, dtype: Any) -> None:
    if op.name in WITH_ATTRIBUTES:
        return
    _agree_on(op, PLACES[len(op.inputs)], dtype)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("op", OPS, ids=lambda op: op.name)
def test_elementwise_ops_of_a_million(op: Any, dtype: Any) -> None:
    if op.name in WITH_ATTRIBUTES:
        return
    _agree_on(op, [((1000003,),) * len(op.inputs)], dtype)


def _agree_on(op: Any, places: Any, dtype: Any) -> None:
    """Values and gradients for inputs of all these shapes, of every kind the op takes."""
    call, _ = elementwise_pair(op, {})

    def sample(inputs: Any, note: str) -> Sample:
        return Sample(op.name, call, call, inputs, note)

    samples = [
        sample(inputs, str(shapes)) for shapes in places
        for inputs in _elementwise_inputs(op, shapes)
    ]  # fmt: skip
    function = with_gradients(samples[0])
    for each in samples:
        values, gradients = function(*tensors(each, dtype))
        found, slopes = gw.compile(function)(*tensors(each, dtype))
        assert_close(found, values, 0.0 if op.name in EXACT else TOLERANCE[dtype])
        assert_close(slopes, gradients, TOLERANCE[dtype])


def test_an_index_is_checked_beside_a_product() -> None:
    """Both are as large as x; the epilogue of a product has no way to tell an error."""
    weight = gw.tensor(np.arange(32.0)).reshape(2, 16, 1)

    def function(a: Any, x: Any, index: Any) -> Any:
        picked = x.gather(-1, index)
        (found,) = gw.autograd.grad((a @ x).sum() + (picked * weight).sum(), x)
        return found

    a, x = gw.tensor(np.ones((8, 16))), gw.tensor(np.ones((2, 16, 1)), requires_grad=True)
    run, index = gw.compile(function), gw.zeros(2, 16, 1, dtype=gw.int64)
    assert run(a, x, index).tolist() == function(a, x, index).tolist()
    with pytest.raises(IndexError, match="index 1 is out of range"):
        run(a, x, index + 1)
