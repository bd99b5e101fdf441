"""The errors of the functions beyond arithmetic, measured against truths with more digits."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import mpmath
import numpy as np
import pytest

from gradwalk.compiler.backends.llvm.emit.elementwise_table import EMITTERS
from gradwalk.compiler.backends.llvm.emit.functions import ERRORS
from gradwalk.compiler.backends.llvm.emit.functions.building_blocks import in_parts
from gradwalk.compiler.backends.llvm.emit.functions.trigonometric import LARGEST
from tests.compiler.map_kernel import Array, MapKernel, ulps

# In float64 for float32, in the processor's 80-bit (or longer) floats for float64.
TRUTHS: dict[str, Callable[..., Any]] = {
    "exp": np.exp, "exp2": np.exp2, "expm1": np.expm1, "log": np.log, "log2": np.log2,
    "log10": np.log10, "log1p": np.log1p, "sinh": np.sinh, "cosh": np.cosh, "tanh": np.tanh,
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)), "asinh": np.arcsinh, "acosh": np.arccosh,
    "atanh": np.arctanh, "sin": np.sin, "cos": np.cos, "tan": np.tan, "asin": np.arcsin,
    "acos": np.arccos, "atan": np.arctan, "atan2": np.arctan2, "hypot": np.hypot, "pow": np.power,
}  # fmt: skip
# These have no function of longer floats: a few values, in arbitrary precision.
EXACT: dict[str, Callable[[Any], Any]] = {
    "erf": mpmath.erf,
    "erfc": mpmath.erfc,
    "ndtr": lambda x: mpmath.erfc(-x / mpmath.sqrt(2)) / 2,
    "erfinv": mpmath.erfinv,
    "digamma": mpmath.digamma,
    "lgamma": lambda x: mpmath.log(abs(mpmath.gamma(x))),
}
RANGES = {"lgamma": (0.01, 30.0), "digamma": (0.01, 30.0), "erfinv": (-1.0, 1.0)}
TWO = {"atan2", "hypot", "pow"}


def kernel(name: str, dtype: Any) -> MapKernel:
    write = EMITTERS[name].write
    count = 2 if name in TWO else 1
    return MapKernel(lambda f, lanes, xs: write(*xs), [dtype] * count, dtype)


def operands(name: str, dtype: np.dtype[Any], count: int) -> list[Array]:
    """Bits drawn evenly, so all sizes of numbers, infinities and NaN; and ordinary numbers."""
    source = np.random.default_rng(3)
    found = []
    info = np.finfo(dtype)
    special = [0.0, 1.0, np.inf, np.nan, info.max, info.tiny, info.smallest_subnormal]
    for _ in range(2 if name in TWO else 1):
        bits = source.integers(0, 2 ** (8 * dtype.itemsize), count, np.uint64, endpoint=False)
        with np.errstate(all="ignore"):
            anything = bits.astype(f"u{dtype.itemsize}").view(dtype)
            usual = source.uniform(-20, 20, count).astype(dtype)
            small = source.uniform(-1, 1, count).astype(dtype)
        edges = np.resize(np.array([*special, *np.negative(special)], dtype), 64)
        zeros = np.resize(np.array([0.0, -0.0], dtype), 64)  # whole vectors of them
        found.append(np.concatenate([anything, usual, small, source.permutation(edges), zeros]))
    return found


def measured(name: str, dtype: Any) -> float:
    """The largest error found, in units in the last place."""
    dtype = np.dtype(dtype)
    wide = np.dtype(np.float64 if dtype == np.float32 else np.longdouble)
    if name in EXACT:
        return _measured_exactly(name, dtype)
    xs = operands(name, dtype, 100_000 if dtype == np.float32 else 10_000)
    with np.errstate(all="ignore"):
        truth = TRUTHS[name](*(x.astype(wide) for x in xs))
        found = kernel(name, dtype)(*xs)
        zeros = (found == 0) & (truth == 0)
        assert (np.signbit(found) == np.signbit(truth))[zeros].all(), "the sign of a zero"
        return float(ulps(found, truth).max())


def _measured_exactly(name: str, dtype: np.dtype[Any]) -> float:
    source = np.random.default_rng(5)
    low, high = RANGES.get(name, (-14.0, 9.0))
    x = source.uniform(low, high, 400).astype(dtype)
    x = np.concatenate([x, (x * np.logspace(-30, 0, x.size)).astype(dtype)])
    found = kernel(name, dtype)(x)
    errors = []
    with mpmath.workdps(40):
        for argument, value in zip(x.tolist(), found):
            truth = EXACT[name](mpmath.mpf(argument))
            unit = float(np.spacing(np.abs(dtype.type(float(truth)))))
            errors.append(float(abs(mpmath.mpf(float(value)) - truth) / unit))
    return max(errors)


@pytest.mark.parametrize("name", sorted(ERRORS))
def test_error_in_float32(name: str) -> None:
    assert measured(name, np.float32) <= ERRORS[name][0]


@pytest.mark.skipif(np.finfo(np.longdouble).nmant <= 52, reason="no longer float here")
@pytest.mark.parametrize("name", sorted(ERRORS))
def test_error_in_float64(name: str) -> None:
    assert measured(name, np.float64) <= ERRORS[name][1]


@pytest.mark.parametrize("name", sorted(EXACT))
@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_limits_of_special_functions(name: str, dtype: str) -> None:
    x = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0] * 7, dtype)
    wanted = {
        "erf": [np.nan, 1, -1, 0.0, -0.0],
        "erfc": [np.nan, 0, 2, 1, 1],
        "ndtr": [np.nan, 1, 0, 0.5, 0.5],
        "erfinv": [np.nan, np.nan, np.nan, 0.0, -0.0],
        "digamma": [np.nan, np.inf, np.nan, -np.inf, np.inf],
        "lgamma": [np.nan, np.inf, np.inf, np.inf, np.inf],
    }[name]
    found = kernel(name, dtype)(x)
    np.testing.assert_array_equal(found, np.array(wanted * 7, dtype))
    if name in ("erf", "erfinv"):
        np.testing.assert_array_equal(np.signbit(found[3:5]), [False, True])


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("order", [0, 1, 2, 3, 7])
def test_derivatives_of_the_gamma_function(order: int, dtype: str) -> None:
    """Near the zeros the error is small beside 1 (in float32 beside the result); x < 0 as well."""
    source = np.random.default_rng(6)
    x = np.concatenate([source.uniform(-9, 30, 300), np.geomspace(1e-12, 1e12, 99)]).astype(dtype)
    write = EMITTERS["polygamma"].write
    found = MapKernel(lambda f, lanes, xs: write(xs[0], order), [dtype], dtype)(x)
    with mpmath.workdps(40):
        truth = np.array([float(mpmath.polygamma(order, mpmath.mpf(float(v)))) for v in x])
    with np.errstate(over="ignore"):
        truth = truth.astype(dtype)
    relative = 1e-14 if dtype == "f8" else 1.2e-7
    beside = math.factorial(order) * 1e-14 if dtype == "f8" else 1e-40
    np.testing.assert_allclose(found, truth, relative, beside)
    if order == 0:
        digamma = MapKernel(lambda f, lanes, xs: EMITTERS["digamma"].write(*xs), [dtype], dtype)
        np.testing.assert_array_equal(digamma(x), found)


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_limits_of_derivatives_of_the_gamma_function(dtype: str) -> None:
    x = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, -1.0, -40.0] * 5, dtype)
    wanted = {
        0: [np.nan, np.inf, np.nan, -np.inf, np.inf, np.nan, np.nan],
        1: [np.nan, 0.0, np.inf, np.inf, np.inf, np.inf, np.inf],
        2: [np.nan, 0.0, -np.inf, -np.inf, -np.inf, -np.inf, -np.inf],
    }
    write = EMITTERS["polygamma"].write
    for order, values in wanted.items():
        found = MapKernel(lambda f, lanes, xs, n=order: write(xs[0], n), [dtype], dtype)(x)
        np.testing.assert_array_equal(found, np.array(values * 5, dtype))


@pytest.mark.parametrize("name", ["sin", "cos", "tan"])
def test_angles_small_and_large_in_one_vector(name: str) -> None:
    """A large one sends all lanes to the C library; the border is where the reduction ends."""
    x = np.linspace(-1.01 * LARGEST, 1.01 * LARGEST, 100_003, dtype=np.float32)
    x[::31] *= np.float32(1e30)
    truth = TRUTHS[name](x.astype(np.float64))
    assert ulps(kernel(name, "f4")(x), truth).max() <= 2


@pytest.mark.parametrize("exponent", [-3, -2, -1, 0, 1, 2, 3, 4, 5, 64, 65, 0.5, -0.5, 2.5, -0.75])
def test_constant_exponents(exponent: float) -> None:
    write = EMITTERS["power"].write
    for dtype, wide, bound in (("f4", np.float64, 2), ("f8", np.longdouble, 2)):
        x = np.concatenate([np.linspace(0.01, 5, 997), [0, 1e-30, 1e30, np.inf, np.nan]])
        x = np.concatenate([x, -x]).astype(dtype)
        found = MapKernel(lambda f, lanes, xs: write(xs[0], exponent), [dtype], dtype)(x)
        if exponent in (0.5, -0.5):  # roots, as in the op's own definition: −0 and −inf differ
            x, found = x[: x.size // 2], found[: x.size // 2]
        with np.errstate(all="ignore"):
            truth = np.power(x.astype(wide), wide(exponent))
        assert ulps(found, truth).max() <= bound


def test_in_parts() -> None:
    parts = in_parts("0.1", np.dtype(np.float32), 3)
    assert min(parts) > 0 and abs(parts[0] - 0.1) < 1e-8 and abs(sum(parts) - 0.1) < 1e-17
