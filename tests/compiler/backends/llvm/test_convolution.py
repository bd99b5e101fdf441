"""Native convolutions against the ops they compute."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

import gradwalk
from gradwalk import nn
from gradwalk.compiler.backends.llvm.emit.ir_builder import IRBuilder
from gradwalk.compiler.backends.llvm.emit.kernel_builder import Kernel
from gradwalk.compiler.backends.llvm.emit.vector import Vector
from gradwalk.compiler.backends.llvm.errors import NoKernel
from gradwalk.compiler.backends.llvm.kernels.convolution.kernel import (
    conv_kernel,
    conv_weight_kernel,
)
from gradwalk.compiler.backends.llvm.kernels.convolution.sizes import convolution_of
from gradwalk.compiler.backends.llvm.kernels.convolution.wide import forward_driver
from gradwalk.compiler.backends.llvm.target import available, host
from gradwalk.ops.network.convolution import conv, conv_input, conv_weight, out_size
from tests.compiler.shares import Array, place_of, run_shares, scratch_memory

pytestmark = pytest.mark.skipif(not available(), reason="needs llvmlite")


def settings(
    dimensions: int, stride: int = 1, padding: Any = 0, dilation: int = 1, groups: int = 1
) -> dict[str, Any]:
    pair = padding if isinstance(padding, tuple) else (padding, padding)
    return {
        "stride": (stride,) * dimensions,
        "padding": (pair,) * dimensions,
        "dilation": (dilation,) * dimensions,
        "groups": groups,
    }


# batch, channels, size, outputs, kernel, settings
CASES = [
    (3, 1, (28, 28), 16, (5, 5), settings(2)),
    (2, 16, (12, 12), 32, (5, 5), settings(2)),
    (2, 3, (9, 11), 7, (3, 2), settings(2, padding=1)),
    (1, 5, (7, 6), 33, (3, 3), settings(2, stride=2, padding=(1, 2))),
    (2, 4, (13, 10), 6, (3, 3), settings(2, dilation=2, groups=2)),
    (2, 6, (8, 8), 6, (3, 3), settings(2, padding=1, groups=6)),
    (1, 6, (9, 9), 12, (3, 3), settings(2, stride=2, padding=1, groups=6)),
    (2, 48, (5, 5), 20, (1, 1), settings(2)),
    (2, 70, (4, 4), 3, (3, 3), settings(2, padding=1)),
    (9, 2, (3, 3), 2, (3, 3), settings(2)),
    (2, 1, (20, 21), 1, (4, 7), settings(2, stride=3, padding=2, dilation=2)),
    (1, 65, (18, 18), 40, (3, 3), settings(2)),  # patches longer than one stretch of a sum
    (3, 4, (50,), 5, (7,), settings(1, stride=2, padding=3)),
    (2, 3, (5, 6, 7), 4, (2, 3, 2), settings(3, stride=2, padding=1)),
    (0, 3, (6, 6), 4, (3, 3), settings(2)),
    # Images of few pixels are computed together, the last of them fewer.
    (43, 20, (4, 4), 37, (3, 3), settings(2, padding=1)),
    (23, 10, (5, 3), 70, (3, 3), settings(2, stride=2, padding=(1, 0))),
    (50, 12, (2, 2), 26, (2, 2), settings(2, groups=2)),
    (7, 5, (1, 1), 18, (3, 3), settings(2, padding=1)),
    (19, 9, (3, 2, 3), 11, (2, 2, 1), settings(3, padding=1)),
]
NAMES = [f"{c[0]}x{c[1]}x{'x'.join(map(str, c[2]))}-{c[3]}" for c in CASES]


class Problem:
    """Random arrays of a case."""

    def __init__(self, case: tuple[Any, ...], dtype: Any, vector_bytes: int = 0) -> None:
        self.host = dataclasses.replace(host(), vector_bytes=vector_bytes or host().vector_bytes)
        batch, channels, size, outputs, kernel, self.attrs = case
        numbers = np.random.default_rng(7)
        out = out_size(size, kernel, *(self.attrs[k] for k in ("stride", "padding", "dilation")))
        each = channels // self.attrs["groups"]

        def some(*shape: int) -> Array:
            return numbers.standard_normal(shape).astype(dtype)

        self.x, self.y = some(batch, channels, *size), some(batch, outputs, *out)
        self.weight = some(outputs, each, *kernel)

    def conv(self, threads: int = 1) -> Array:
        out = np.full_like(self.y, np.nan)
        places = place_of(self.x), place_of(self.weight), [place_of(out)]
        kernel = conv_kernel(conv, *places, self.attrs, self.host)
        return run(kernel, [self.x, self.weight], [out], threads)

    def conv_input(self, threads: int = 1) -> Array:
        out = np.full_like(self.x, np.nan, order="C")
        places = place_of(self.y), place_of(self.weight), [place_of(out)]
        kernel = conv_kernel(conv_input, *places, self.attrs, self.host)
        return run(kernel, [self.y, self.weight], [out], threads)

    def conv_weight(self, threads: int = 1, parts: int = 3) -> Array:
        count = max(1, min(parts, len(self.x)))
        out = np.full((count, *self.weight.shape), np.nan, self.weight.dtype)
        places = place_of(self.x), place_of(self.y), place_of(out)
        kernel = conv_weight_kernel(*places, self.attrs, self.host)
        return run(kernel, [self.x, self.y], [out], threads).sum(0)

    def expected(self) -> tuple[Array, Array, Array]:
        shape, kernel = self.x.shape[2:], self.weight.shape[2:]
        with np.errstate(all="ignore"):
            return (
                conv.forward(self.x, self.weight, **self.attrs),
                conv_input.forward(self.y, self.weight, shape=shape, **self.attrs),
                conv_weight.forward(self.x, self.y, kernel=kernel, **self.attrs),
            )

    def found(self, threads: int = 1) -> tuple[Array, Array, Array]:
        return self.conv(threads), self.conv_input(threads), self.conv_weight(threads)


def run(kernel: Kernel, operands: list[Array], others: list[Array], threads: int) -> Array:
    scratch = scratch_memory(kernel.scratch * threads)
    run_shares(kernel, [*operands, scratch, *others], threads)
    return others[0]


def close(found: Array, expected: Array) -> None:
    scale = np.abs(expected).max(initial=1.0, where=np.isfinite(expected))
    tolerance = 2e-6 if expected.dtype == np.float32 else 1e-14
    np.testing.assert_allclose(found, expected, rtol=0, atol=float(scale) * 10 * tolerance)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("case", CASES, ids=NAMES)
def test_is_the_op(case: tuple[Any, ...], dtype: Any) -> None:
    problem = Problem(case, dtype)
    for found, expected in zip(problem.found(), problem.expected(), strict=True):
        assert found.shape == expected.shape
        close(found, expected)


@pytest.mark.parametrize("vector_bytes", [16, 32])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_smaller_vectors(vector_bytes: int, dtype: Any) -> None:
    """As on machines with fewer and shorter registers."""
    for case in (CASES[1], CASES[3], CASES[5], CASES[6], CASES[12]):
        problem = Problem(case, dtype, vector_bytes)
        for found, expected in zip(problem.found(2), problem.expected(), strict=True):
            close(found, expected)


@pytest.mark.parametrize("case", CASES, ids=NAMES)
def test_does_not_depend_on_the_threads(case: tuple[Any, ...]) -> None:
    problem = Problem(case, np.float32)
    alone = problem.found(1)
    for threads in (2, 3, 4):
        for one, several in zip(alone, problem.found(threads), strict=True):
            np.testing.assert_array_equal(several, one)


@pytest.mark.parametrize("case", [CASES[2], CASES[5], CASES[6], CASES[10]])
def test_nan_and_infinity_stay_where_they_are(case: tuple[Any, ...]) -> None:
    problem = Problem(case, np.float32)
    for array in (problem.x, problem.y):
        array[0, 0].flat[-1], array[-1, -1].flat[3], array[0, 0].flat[1] = np.nan, np.inf, -np.inf
    for found, expected in zip(problem.found(), problem.expected(), strict=True):
        np.testing.assert_array_equal(np.isnan(found), np.isnan(expected))
        np.testing.assert_array_equal(np.isposinf(found), np.isposinf(expected))
        np.testing.assert_array_equal(np.isneginf(found), np.isneginf(expected))


@pytest.mark.parametrize("case", [CASES[2], CASES[4], CASES[5], CASES[9]])
def test_arrays_with_other_strides(case: tuple[Any, ...]) -> None:
    """Operands with the channels last, and with gaps between images."""
    problem = Problem(case, np.float64)
    expected = problem.expected()
    last = np.ascontiguousarray(problem.y.transpose(0, 2, 3, 1)).transpose(0, 3, 1, 2)
    apart = np.zeros((2 * len(problem.x), *problem.x.shape[1:]))[::2]
    apart[...] = problem.x
    turned = np.ascontiguousarray(problem.x.transpose(1, 0, 3, 2)).transpose(1, 0, 3, 2)
    for x in (apart, turned):
        problem.x, problem.y = x, last
        for found, wanted in zip(problem.found(2), expected, strict=True):
            close(found, wanted)


def test_a_smaller_y_than_fits() -> None:
    """conv_input may be given fewer outputs than x has room for."""
    attrs = settings(2, stride=2, padding=1)
    y = np.random.default_rng(1).standard_normal((2, 3, 4, 4))
    weight = np.random.default_rng(2).standard_normal((3, 2, 3, 3))
    expected = conv_input.forward(y, weight, shape=(9, 8), **attrs)
    out = np.empty_like(expected, order="C")
    places = place_of(y), place_of(weight), [place_of(out)]
    kernel = conv_kernel(conv_input, *places, attrs, host())
    close(run(kernel, [y, weight], [out], 2), expected)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("case", [CASES[1], CASES[3], CASES[5], CASES[7]])
def test_epilogue(case: tuple[Any, ...], dtype: Any) -> None:
    """A bias, which comparison it gives as a second output, and a full extra array."""
    problem = Problem(case, dtype)
    bias = np.random.default_rng(3).standard_normal((problem.y.shape[1], 1, 1)).astype(dtype)

    def epilogue(f: IRBuilder, value: Vector, load: Any) -> list[tuple[int, Vector]]:
        total = value + load(0)
        return [(0, total.at_least(0.0) * load(1)), (1, total > 0.0)]

    out, mask = np.empty_like(problem.y), np.empty(problem.y.shape, np.bool_)
    kernel = conv_kernel(
        conv, place_of(problem.x), place_of(problem.weight), [place_of(out), place_of(mask)],
        problem.attrs, host(), [place_of(bias), place_of(problem.y)], epilogue,
    )  # fmt: skip
    run(kernel, [problem.x, problem.weight], [out, mask, bias, problem.y], 2)
    plain = problem.conv() + bias
    np.testing.assert_array_equal(mask, plain > 0)
    np.testing.assert_array_equal(out, np.maximum(plain, 0) * problem.y)


def test_one_text_for_all_sizes() -> None:
    drivers = [
        forward_driver(
            convolution_of(place_of(p.x), place_of(p.weight), place_of(p.y), p.attrs), host()
        )
        for p in (Problem(CASES[0], np.float32), Problem(CASES[3], np.float32))
    ]
    assert drivers[0].finish() == drivers[1].finish()
    assert drivers[0].sizes != drivers[1].sizes


def test_what_it_does_not_take() -> None:
    problem = Problem(CASES[0], np.float32)
    places = place_of(problem.x), place_of(problem.weight)
    gaps = place_of(np.empty((*problem.y.shape[:3], 30), np.float32)[..., :24])
    with pytest.raises(NoKernel, match="in order"):
        conv_kernel(conv, *places, [gaps], problem.attrs, host())
    with pytest.raises(NoKernel, match="dtypes"):
        other = place_of(problem.y.astype(np.float64))
        conv_kernel(conv, *places, [other], problem.attrs, host())


def test_a_step_of_a_network_is_native_and_the_same() -> None:
    """Convolutions (padded, with a stride, depthwise, transposed), both poolings, their gradients:
    as eager computes them, and none of it by NumPy."""

    def network() -> nn.Sequential:
        gradwalk.manual_seed(3)
        return nn.Sequential(
            nn.Conv2d(2, 6, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(6, 6, 3, padding=1, groups=6), nn.AvgPool2d(2),
            nn.ConvTranspose2d(6, 4, 2, stride=2), nn.Tanh(), nn.Conv2d(4, 5, 3, stride=2),
        )  # fmt: skip

    def losses(compiled: bool) -> list[float]:
        model = network()
        optimizer = gradwalk.optim.SGD(model.parameters(), lr=0.1)

        def step(x: gradwalk.Tensor) -> gradwalk.Tensor:
            optimizer.zero_grad()
            loss = (model(x) ** 2).mean()
            loss.backward()
            optimizer.step()
            return loss

        function = gradwalk.compile(step) if compiled else step
        x = gradwalk.tensor(np.random.default_rng(4).standard_normal((5, 2, 12, 12)))
        x = x.to(gradwalk.float32)
        found = [function(x).item() for _ in range(3)]
        if compiled:
            ((variant,),) = function.specializations.values()
            assert None not in variant.executable.kernels
        return found

    np.testing.assert_allclose(losses(True), losses(False), rtol=1e-5)
