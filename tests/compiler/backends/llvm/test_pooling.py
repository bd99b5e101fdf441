"""Native poolings against the ops they compute."""

from __future__ import annotations

import dataclasses
import itertools
from typing import Any

import numpy as np
import pytest

from gradwalk.compiler.backends.llvm.emit.kernel_builder import OUT_OF_RANGE, Kernel
from gradwalk.compiler.backends.llvm.errors import NoKernel
from gradwalk.compiler.backends.llvm.kernels.select import kernel_of
from gradwalk.compiler.backends.llvm.target import available, host
from gradwalk.compiler.ir.program import Call
from gradwalk.compiler.plan.schedule import Entry
from gradwalk.ops.core.op import Op
from gradwalk.ops.network.pooling import (
    gather_last,
    max_pool_indices,
    pool_spread,
    pool_sum,
    scatter_last,
)
from tests.compiler.shares import Array, place_of, run_shares

pytestmark = pytest.mark.skipif(not available(), reason="needs llvmlite")

# lead, size, kernel, stride, padding, dilation, extra outputs at the end (ceil mode)
CASES: list[tuple[Any, ...]] = [
    ((3, 4), (24, 24), (2, 2), (2, 2), 0, (1, 1), 0),
    ((2, 2), (8, 8), (2, 2), (2, 2), 0, (1, 1), 0),
    ((2,), (35, 67), (2, 2), (2, 2), 0, (1, 1), 0),
    ((2, 3), (9, 11), (3, 3), (2, 2), 1, (1, 1), 0),
    ((2, 3), (9, 40), (3, 3), (1, 1), 1, (1, 1), 0),
    ((1, 2), (13, 17), (3, 2), (2, 3), 1, (2, 2), 0),
    ((2,), (7, 7), (3, 3), (3, 3), 0, (1, 1), 1),
    ((2,), (8, 9), (8, 9), (1, 1), 0, (1, 1), 0),
    ((2, 5), (50,), (3,), (2,), 1, (1,), 0),
    ((2,), (6, 5, 7), (2, 2, 3), (2, 1, 2), 1, (1, 1, 1), 0),
    ((2,), (6, 6), (1, 1), (2, 2), 0, (1, 1), 0),
    ((0, 3), (6, 6), (2, 2), (2, 2), 0, (1, 1), 0),
]


def attributes(case: tuple[Any, ...]) -> dict[str, Any]:
    _, size, kernel, stride, padding, dilation, extra = case
    out = tuple(
        (n + 2 * padding - d * (k - 1) - 1) // s + 1 + extra
        for n, k, s, d in zip(size, kernel, stride, dilation, strict=True)
    )
    pairs = ((padding, padding),) * len(size)
    return dict(kernel=kernel, out=out, stride=stride, padding=pairs, dilation=dilation)


def made(op: Op, places: list[Array], attrs: dict[str, Any], vector_bytes: int = 0) -> Kernel:
    entry = Entry(Call(op, (), attrs, ()), [place_of(p) for p in places], [], [])
    machine = dataclasses.replace(host(), vector_bytes=vector_bytes or host().vector_bytes)
    return kernel_of(entry, machine, 1)


def compare(op: Op, given: list[Array], attrs: dict[str, Any], vector_bytes: int = 0) -> Array:
    """The op natively, with 1 to 4 threads, and by NumPy."""
    with np.errstate(all="ignore"):
        expected = np.ascontiguousarray(op.forward(*given, **attrs))
    kernel = made(op, [expected, *given], attrs, vector_bytes)
    for threads in (1, 2, 3, 4):
        found = np.full_like(expected, -7)
        assert run_shares(kernel, [found, *given], threads) == 0
        np.testing.assert_array_equal(found, expected)
    return expected


def images(case: tuple[Any, ...], dtype: Any) -> Array:
    lead, size, *_ = case
    return np.random.default_rng(5).standard_normal((*lead, *size)).astype(dtype)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("case", CASES, ids=str)
def test_max_pool_indices(case: tuple[Any, ...], dtype: Any) -> None:
    x = images(case, dtype)
    compare(max_pool_indices, [x], attributes(case))
    compare(max_pool_indices, [np.round(x)], attributes(case))  # many equal numbers


@pytest.mark.parametrize("vector_bytes", [16, 32])
def test_shorter_vectors(vector_bytes: int) -> None:
    attrs = attributes(CASES[3])
    for dtype in (np.float32, np.float64):
        x = images(CASES[3], dtype)
        indices = compare(max_pool_indices, [x], attrs, vector_bytes).reshape(2, 3, 30)
        flat = x.reshape(2, 3, 99)
        picked = compare(gather_last, [flat, indices], {"apart": False}, vector_bytes)
        settings = {"length": 99, "apart": False}
        compare(scatter_last, [picked, indices], settings, vector_bytes)
        sums = {k: v for k, v in attrs.items() if k != "dilation"}
        total = compare(pool_sum, [x], sums, vector_bytes)
        del sums["out"]
        compare(pool_spread, [total], {**sums, "shape": (9, 11)}, vector_bytes)


@pytest.mark.parametrize("case", CASES[:-1], ids=str)
def test_max_pool_of_nan_and_infinity(case: tuple[Any, ...]) -> None:
    x = images(case, np.float32)
    numbers = np.random.default_rng(6)
    for value in (np.nan, np.inf, -np.inf):
        x[numbers.random(x.shape) < 0.2] = value
    compare(max_pool_indices, [x], attributes(case))
    compare(max_pool_indices, [np.full_like(x, -np.inf)], attributes(case))


def test_max_pool_with_a_nan() -> None:
    x = images(CASES[0], np.float32)
    x[0, 0, 3, 4] = np.nan
    indices = compare(max_pool_indices, [x], attributes(CASES[0]))
    assert indices[0, 0, 1, 2] == 3 * 24 + 4


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("case", [c for c in CASES if set(c[5]) == {1}], ids=str)
def test_sums_and_their_transpose(case: tuple[Any, ...], dtype: Any) -> None:
    x, attrs = images(case, dtype), attributes(case)
    del attrs["dilation"]
    total = compare(pool_sum, [x], attrs)
    del attrs["out"]
    compare(pool_spread, [total], {**attrs, "shape": case[1]})


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("rows,length,count", [(6, 576, 144), (1, 7, 3), (5, 1, 1), (3, 40, 17)])
def test_gather_and_scatter(rows: int, length: int, count: int, dtype: Any) -> None:
    numbers = np.random.default_rng(8)
    x = numbers.standard_normal((rows, length)).astype(dtype)
    y = numbers.standard_normal((rows, count)).astype(dtype)
    apart = np.stack([numbers.permutation(length)[:count] for _ in range(rows)])
    twice = numbers.integers(0, length, (rows, count))
    for indices, unique in itertools.product((apart, twice), (True, False)):
        compare(gather_last, [x, indices], {"apart": unique})
        if indices is apart or not unique:
            compare(scatter_last, [y, indices], {"length": length, "apart": unique})


def test_an_index_out_of_range_is_told() -> None:
    x, indices = np.zeros((2, 5)), np.array([[0, 4, 1], [2, 5, 1]])
    found = np.empty((2, 3))
    kernel = made(gather_last, [found, x, indices], {"apart": False})
    assert run_shares(kernel, [found, x, indices], 1) == OUT_OF_RANGE
    rows, given = np.empty((2, 5)), np.ones((2, 3))
    kernel = made(scatter_last, [rows, given, indices], {"apart": False})
    assert run_shares(kernel, [rows, given, indices], 1) == OUT_OF_RANGE


def test_images_with_gaps() -> None:
    x = np.random.default_rng(9).standard_normal((4, 10, 20))[::2, 1:, 2:13]
    attrs = attributes(((2,), (9, 11), (3, 3), (2, 2), 1, (1, 1), 0))
    compare(max_pool_indices, [x], attrs)
    with pytest.raises(NoKernel, match="contiguous"):
        compare(max_pool_indices, [x[..., ::2]], {**attrs, "out": (5, 3)})


def test_whole_numbers_run_as_numpy() -> None:
    x = np.arange(36).reshape(1, 6, 6)
    out = np.empty((1, 3, 3), np.int64)
    with pytest.raises(NoKernel, match="int64"):
        made(max_pool_indices, [out, x], attributes(((1,), (6, 6), (2, 2), (2, 2), 0, (1, 1), 0)))
