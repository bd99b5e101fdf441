"""What the table of samples does not ask of the elementwise ops and reductions."""

from __future__ import annotations

import math
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import gradwalk as gw
from tests.ops.oracle import OURS, THEIRS, assert_same, run

NAN, INF = math.nan, math.inf
LEFT = np.array([7, -7, 7, -7, 0, 9, -9, 2, 1])
RIGHT = np.array([2, 2, -2, -2, 3, -4, 4, 7, 1])

# Integers stay integers, and are rounded as PyTorch rounds them.
WHOLE: dict[str, Any] = {
    "add alpha": lambda m, x, y: m.add(x, y, alpha=2),
    "sub alpha": lambda m, x, y: m.sub(x, y, alpha=3),
    "div": lambda m, x, y: m.div(x, y),
    "div trunc": lambda m, x, y: m.div(x, y, rounding_mode="trunc"),
    "div floor": lambda m, x, y: m.div(x, y, rounding_mode="floor"),
    "floor_divide": lambda m, x, y: m.floor_divide(x, y),
    "//": lambda m, x, y: x // y,
    "number //": lambda m, x, y: 5 // y,
    "%": lambda m, x, y: x % y,
    "% number": lambda m, x, y: x % -3,
    "number %": lambda m, x, y: 5 % y,
    "fmod": lambda m, x, y: m.fmod(x, y),
    "fmod number": lambda m, x, y: m.fmod(x, -3),
    "remainder": lambda m, x, y: m.remainder(x, y),
    "addcmul": lambda m, x, y: m.addcmul(x, x, y, value=2),
    "clamp": lambda m, x, y: m.clamp(x, y, y + 1),
    "clamp_min": lambda m, x, y: m.clamp_min(x, 0),
    "clamp_max": lambda m, x, y: m.clamp_max(x, y),
    "clamp at a float": lambda m, x, y: m.clamp_max(x, 0.5),
    "heaviside": lambda m, x, y: m.heaviside(x, y),
    "trunc": lambda m, x, y: m.trunc(x),
    "ceil": lambda m, x, y: m.ceil(x),
    "sgn": lambda m, x, y: m.sgn(x),
    "nan_to_num": lambda m, x, y: m.nan_to_num(x),
    "isnan": lambda m, x, y: m.isnan(x),
    "isinf": lambda m, x, y: m.isinf(x),
    "isfinite": lambda m, x, y: m.isfinite(x),
    "cumprod": lambda m, x, y: m.cumprod(y, 0),
    "cummax": lambda m, x, y: tuple(m.cummax(x, 0)),
    "count_nonzero": lambda m, x, y: m.count_nonzero(x),
}
# Functions that make floats of integers.
TO_FLOATS = [
    "reciprocal", "exp2", "log2", "log10", "sinc", "asinh", "acosh", "atanh", "erfc", "lgamma",
    "digamma", "deg2rad", "rad2deg", "logit", "erfinv",
]  # fmt: skip
TO_FLOATS_FROM_TWO = ["atan2", "copysign", "xlogy", "true_divide", "float_power"]


@pytest.mark.parametrize("name", WHOLE)
@pytest.mark.parametrize("dtype", [np.int64, np.int32])
def test_whole_numbers(name: str, dtype: Any) -> None:
    arrays = [LEFT.astype(dtype), RIGHT.astype(dtype)]
    ours, theirs = run(OURS, WHOLE[name], arrays), run(THEIRS, WHOLE[name], arrays)
    assert_same(ours, theirs, dict(rtol=1e-6))


@pytest.mark.parametrize("name", TO_FLOATS)
def test_whole_numbers_become_floats(name: str) -> None:
    call = lambda m, x: getattr(m, name)(x)
    arrays = [np.array([1, 2, 3, 0])]
    assert_same(run(OURS, call, arrays), run(THEIRS, call, arrays), dict(rtol=1e-5))


@pytest.mark.parametrize("name", TO_FLOATS_FROM_TWO)
def test_two_whole_numbers_become_floats(name: str) -> None:
    call = lambda m, x, y: getattr(m, name)(x, y)
    arrays = [LEFT, RIGHT]
    assert_same(run(OURS, call, arrays), run(THEIRS, call, arrays), dict(rtol=1e-5))


# -- edges ------------------------------------------------------------------------------------

# call, input, gradient of the sum
SLOPES: dict[str, tuple[Any, list[float], list[float]]] = {
    "the norm of zeros": (lambda x: gw.norm(x), [0.0, 0.0], [0.0, 0.0]),
    "the 3-norm of zeros": (lambda x: gw.norm(x, 3), [0.0, 0.0], [0.0, 0.0]),
    "the ½-norm at a zero": (lambda x: gw.norm(x, 0.5), [4.0, 0.0], [1.0, 0.0]),
    "the ∞-norm shares ties": (lambda x: gw.norm(x, INF), [2.0, -2.0, 1.0], [0.5, -0.5, 0.0]),
    "nansum": (lambda x: gw.nansum(x), [1.0, NAN], [1.0, 0.0]),
    # PyTorch: NaN, from 0 × (1 / 0)
    "nanmean of nothing": (lambda x: gw.nanmean(x), [NAN, NAN], [0.0, 0.0]),
    "sinc at 0": (lambda x: gw.sinc(x), [0.0], [0.0]),
    "atan2 at the origin": (lambda x: gw.atan2(x, x), [0.0], [0.0]),
    "logcumsumexp from -inf": (lambda x: gw.logcumsumexp(x, 0), [-INF, -INF, 0.0], [0.0, 0.0, 1.0]),
    "cumprod of zeros": (lambda x: gw.cumprod(x, 0), [0.0, 0.0, 2.0], [1.0, 0.0, 0.0]),
    "unique": (lambda x: gw.unique(x), [3.0, 1.0, 3.0], [1.0, 1.0, 0.0]),
}


@pytest.mark.parametrize("name", SLOPES)
def test_slopes_at_edges(name: str) -> None:
    call, numbers, expected = SLOPES[name]
    x = gw.tensor(np.array(numbers), requires_grad=True)
    call(x).sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == expected


def test_sinc_at_zero_to_fourth_order() -> None:
    """sinc is 1 − (πx)²/6 + (πx)⁴/120 − ...: PyTorch's second derivative at 0 is not that."""
    x = gw.tensor(np.array(0.0), requires_grad=True)
    out = gw.sinc(x)
    found = []
    for _ in range(4):
        (out,) = gw.autograd.grad(out, x, create_graph=True)
        found.append(out.item())
    np.testing.assert_allclose(found, [0, -(math.pi**2) / 3, 0, math.pi**4 / 5], atol=1e-12)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("shift", [-3000.0, 3000.0])
def test_logaddexp_of_far_apart_numbers_to_second_order(dtype: Any, shift: float) -> None:
    x = gw.tensor(np.array([shift, 0.0], dtype), requires_grad=True)
    (first,) = gw.autograd.grad(gw.logaddexp(x[0], x[1]), x, create_graph=True)
    (second,) = gw.autograd.grad(first[0], x)
    assert first.tolist() == ([1.0, 0.0] if shift > 0 else [0.0, 1.0])
    assert second.tolist() == [0.0, 0.0]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda x: gw.var(x, 0, False, correction=1), "unbiased or correction, not both"),
        (lambda x: gw.div(x, x, rounding_mode="up"), "'trunc' or 'floor', not 'up'"),
        (lambda x: gw.kthvalue(x, 4), "k = 4 is out of range"),
        (lambda x: gw.norm(x, "nuc"), "a norm of matrices"),
        (lambda x: gw.norm(x, "two"), "a number or 'fro'"),
        (lambda x: gw.norm(x.long()), "norm of a int64 tensor"),
        (lambda x: gw.polygamma(-1, x), "must not be negative"),
        (lambda x: gw.unique(x[:, None][:, :0], dim=0), "are empty"),
        (lambda x: gw.searchsorted(x, x, side="up"), "'left' or 'right'"),
        (lambda x: gw.searchsorted(x[None], x), "the same leading dimensions"),
    ],
)
def test_errors(call: Any, message: str) -> None:
    with pytest.raises((TypeError, ValueError, NotImplementedError), match=message):
        call(gw.tensor([1.0, 2.0, 3.0]))


# -- the error function -------------------------------------------------------------------------


def exact(function: Any, x: np.ndarray) -> np.ndarray:
    return np.array([function(float(number)) for number in x])


def last_places(found: np.ndarray, expected: np.ndarray) -> float:
    """The largest error in units in the last place."""
    unit = np.spacing(np.abs(expected).astype(found.dtype)).astype(np.float64)
    return float(np.max(np.abs(found - expected) / unit))


# C's erf and erfc, which `math` has, are right to one unit.
@pytest.mark.parametrize(
    ("name", "dtype", "high", "allowed"),
    [
        ("erf", np.float64, 7.0, 4),
        ("erf", np.float32, 7.0, 8),
        ("erfc", np.float64, 26.5, 12),
        ("erfc", np.float32, 9.0, 1),
    ],
)
def test_accuracy(name: str, dtype: Any, high: float, allowed: int) -> None:
    source = np.random.default_rng(3)
    draws = [source.uniform(-7, high, 20000), source.uniform(-1.1, 1.1, 20000)]
    x = np.concatenate([*draws, 10.0 ** source.uniform(-30, 0, 2000)]).astype(dtype)
    found = getattr(gw, name)(gw.from_numpy(x)).numpy()
    assert found.dtype == dtype
    assert last_places(found, exact(getattr(math, name), x)) <= allowed


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_erf_is_odd_and_bounded(dtype: Any) -> None:
    x = np.linspace(0, 30, 30001).astype(dtype)
    up, down = gw.erf(gw.from_numpy(x)).numpy(), gw.erf(gw.from_numpy(-x)).numpy()
    np.testing.assert_array_equal(up, -down)
    assert up.max() == 1
    assert (up[x > 6] == 1).all()


def test_erf_needs_no_scipy() -> None:
    program = (
        "import sys, gradwalk as gw; x = gw.ones(3, requires_grad=True); "
        "(gw.erf(x) + gw.erfc(x)).sum().backward(); assert 'scipy' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
