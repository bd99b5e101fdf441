"""The NumPy backend against eager code, for every op of the table: values and gradients."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gradwalk as gw
from gradwalk.compiler.backends import numpy as reference
from gradwalk.compiler.ir.compiler_ops import ELEMENTWISE_RANDOM, random_permutation
from gradwalk.compiler.ir.program import (
    Argument,
    Builder,
    Call,
    Constant,
    Memory,
    Program,
    Scalar,
    Term,
)
from gradwalk.ops import TABLE
from gradwalk.ops.elementwise.arithmetic import add, mul, pow_op
from gradwalk.ops.shape.reshaping import cast, permute, reshape
from tests.ops.samples.table import Sample, all_samples, in_both_precisions

# What depends on how many elements of a mask are true has no shape before the call.
MASKS = "depends on numbers"
TOLERANCE = {np.float32: 2e-5, np.float64: 1e-9}


@pytest.fixture(autouse=True)
def _shapes_and_dtypes_are_as_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every call gives what its terms say; numbers of Python have no dtype."""
    run = reference.run

    def checked(call: Call, values: list[Any]) -> list[Any]:
        found = run(call, values)
        for term, array in zip(call.outputs, found, strict=True):
            if isinstance(array, np.ndarray):
                assert (array.shape, array.dtype) == (term.shape, term.dtype), call
        return found

    monkeypatch.setattr(reference, "run", checked)


def tensors(sample: Sample, dtype: Any) -> list[gw.Tensor]:
    found = [gw.from_numpy(a.copy()) for a in sample.arrays(dtype)]
    for tensor in found:
        tensor.requires_grad = tensor.dtype.kind == "f"
    return found


def with_gradients(sample: Sample) -> Any:
    """The sample's call and the gradients of a weighted sum of its results."""

    def function(*inputs: gw.Tensor) -> tuple[list[Any], Any]:
        found = sample.ours(gw, *inputs)
        outputs = list(found) if isinstance(found, (tuple, list)) else [found]
        total: Any = 0
        for o in outputs:
            if getattr(o, "requires_grad", False):
                weights = gw.linspace(0.5, 1.5, o.numel(), dtype=o.dtype).reshape(o.shape)
                total = total + (o * weights).sum()
        needing = [x for x in inputs if x.requires_grad]
        gradients = (
            gw.autograd.grad(total, needing, allow_unused=True)
            if getattr(total, "requires_grad", False)
            else ()
        )
        return [o.detach() if hasattr(o, "detach") else o for o in outputs], gradients

    return function


@in_both_precisions(all_samples())
def test_every_op_compiled_as_computed(sample: Sample, dtype: Any) -> None:
    function = with_gradients(sample)
    expected = function(*tensors(sample, dtype))
    try:
        found = gw.compile(function, backend="numpy")(*tensors(sample, dtype))
    except gw.TraceError as error:
        # A mask as an index, or a check of numbers: refused, and never frozen.
        assert MASKS in str(error) or "traced without values" in str(error)
        assert sample.op in ("getitem", "setitem", "put", "sort", "equal")
        return
    for outs, others in zip(expected, found, strict=True):
        for want, got in zip(outs, others, strict=True):
            if not isinstance(want, gw.Tensor):
                assert want == got
                continue
            assert (want.shape, want.dtype) == (got.shape, got.dtype)
            tolerance = TOLERANCE[dtype]
            np.testing.assert_allclose(got.numpy(), want.numpy(), tolerance, tolerance)


def test_every_op_is_sampled() -> None:
    assert {sample.op for sample in all_samples()} == set(TABLE)


# -- programs made by hand -----------------------------------------------------------------------


def source(shape: tuple[int, ...], kind: Any, dtype: Any = np.float32) -> Term:
    return Term(shape, np.dtype(dtype), source=kind)


def test_updates_are_of_the_values_before() -> None:
    """Two memories change places; a result that is a view of one is apart from it."""
    a, b = source((2,), Memory(0)), source((2,), Memory(1))
    build = Builder()
    seen = build.apply(reshape, [a], {"shape": (1, 2)})
    run = reference.NumpyExecutable(Program(build.calls, [seen], [(a, b), (b, a)]))
    first, second = np.array([1, 2], np.float32), np.array([3, 4], np.float32)
    (found,), late = run([], [first, second], [])
    assert first.tolist() == [3, 4]
    assert second.tolist() == [1, 2]
    assert found.tolist() == [[1, 2]]
    assert late == []
    found[...] = 9
    assert first.tolist() == [3, 4]


def test_an_argument_can_be_updated() -> None:
    x = source((2,), Argument(0))
    build = Builder()
    updates = [(x, build.apply(add, [x, 1]))]
    run = reference.NumpyExecutable(Program(build.calls, [], updates))
    array = np.array([1, 2], np.float32)
    assert run([array], [], []) == ([], [])
    assert array.tolist() == [2, 3]


def test_late_numbers_are_python_numbers_until_they_meet_an_array() -> None:
    rate, step = source((), Scalar(0), np.float64), source((), Scalar(1), np.float64)
    x = source((2,), Argument(0))
    build = Builder()
    after = build.apply(add, [step, 1])
    small = build.apply(pow_op, [rate, after])
    scaled = build.apply(mul, [x, build.apply(cast, [small], {"dtype": np.dtype(np.float32)})])
    run = reference.NumpyExecutable(Program(build.calls, [scaled], [(step, after), (rate, small)]))
    (found,), late = run([np.ones(2, np.float32)], [], [0.1, 2])
    assert late == [3.0, 0.1**3]
    assert found.dtype == np.float32
    assert found.tolist() == [np.float32(0.1**3)] * 2


def test_a_result_never_shares_memory() -> None:
    x, c = source((2, 3), Argument(0)), source((2,), Constant(np.ones(2, np.float32)))
    build = Builder()
    turned = build.apply(permute, [x], {"axes": (1, 0)})
    run = reference.NumpyExecutable(Program(build.calls, [turned, c]))
    array = np.zeros((2, 3), np.float32)
    (first, second), _ = run([array], [], [])
    assert not np.shares_memory(first, array)
    second[...] = 5
    assert run([array], [], [])[0][1].tolist() == [1, 1]


@pytest.mark.parametrize("op", (*ELEMENTWISE_RANDOM, random_permutation), ids=lambda op: op.name)
def test_draws_have_no_gradient(op: gw.Op) -> None:
    assert not op.differentiable
