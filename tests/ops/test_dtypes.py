"""Dtypes promote as in PyTorch: over pairs of dtypes, dimensions and Python numbers."""

from __future__ import annotations

import itertools
import warnings
from typing import Any

import numpy as np
import pytest
import torch

import gradwalk as gw
from gradwalk.ops.core.symbol import Symbol
from tests.batches import batched

DTYPES = ["float32", "float64", "int8", "int16", "int32", "int64", "uint8", "bool"]
NUMBERS: list[Any] = [True, 2, 2.5]
# An operand is a Python number, or (dtype, shape).
OPERANDS: list[Any] = [*NUMBERS, *((dtype, shape) for dtype in DTYPES for shape in ((), (2,)))]

BINARY: dict[str, Any] = {
    "add": lambda m, x, y: x + y,
    "mul": lambda m, x, y: x * y,
    "div": lambda m, x, y: x / y,
    "less": lambda m, x, y: x < y,
    "equal": lambda m, x, y: x == y,
    "where": lambda m, x, y: m.where(m.tensor([True, False]), x, y),
    "logical_and": lambda m, x, y: m.logical_and(m.as_tensor(x), m.as_tensor(y)),
    "maximum": lambda m, x, y: m.maximum(m.as_tensor(x), m.as_tensor(y)),
    "sub": lambda m, x, y: x - y,
    "pow": lambda m, x, y: x**y,
    "bitwise_and": lambda m, x, y: x & y,
    "floor_divide": lambda m, x, y: x // y,
    "remainder": lambda m, x, y: x % y,
    "atan2": lambda m, x, y: m.atan2(m.as_tensor(x), m.as_tensor(y)),
    "xlogy": lambda m, x, y: m.xlogy(x, y),
    "clamp_min": lambda m, x, y: m.clamp_min(m.as_tensor(x), y),
    "add alpha": lambda m, x, y: m.add(x, y, alpha=2),
    "float_power": lambda m, x, y: m.float_power(x, y),
}
UNARY: dict[str, Any] = {
    "neg": lambda m, x: -x,
    "abs": lambda m, x: abs(x),
    "exp": lambda m, x: m.exp(x),
    "sqrt": lambda m, x: m.sqrt(x),
    "sigmoid": lambda m, x: m.sigmoid(x),
    "relu": lambda m, x: m.relu(x),
    "sign": lambda m, x: m.sign(x),
    "floor": lambda m, x: m.floor(x),
    "round": lambda m, x: m.round(x),
    "square": lambda m, x: m.square(x),
    "x ** 2": lambda m, x: x**2,
    "x ** 2.0": lambda m, x: x**2.0,
    "x ** 0.5": lambda m, x: x**0.5,
    "clip": lambda m, x: m.clip(x, 0, 1),
    "clip at floats": lambda m, x: m.clip(x, 0.0, 1.0),
    "sum": lambda m, x: m.sum(x),
    "prod": lambda m, x: m.prod(x),
    "cumsum": lambda m, x: m.cumsum(x, 0),
    "mean": lambda m, x: m.mean(x),
    "var": lambda m, x: m.var(x),
    "std": lambda m, x: m.std(x, 0),
    "logsumexp": lambda m, x: m.logsumexp(x, 0),
    "softmax": lambda m, x: m.softmax(x, 0, dtype=m.float32),
    "max": lambda m, x: m.max(x),
    "argmax": lambda m, x: m.argmax(x),
    "all": lambda m, x: m.all(x),
    "logical_not": lambda m, x: m.logical_not(x),
    "bitwise_not": lambda m, x: ~x,
    "leaky_relu": lambda m, x: m.nn.functional.leaky_relu(x),
    "erf": lambda m, x: m.erf(x),
    "erfc": lambda m, x: m.erfc(x),
    "reciprocal": lambda m, x: m.reciprocal(x),
    "log2": lambda m, x: m.log2(x),
    "sinc": lambda m, x: m.sinc(x),
    "deg2rad": lambda m, x: m.deg2rad(x),
    "lgamma": lambda m, x: m.lgamma(x),
    "digamma": lambda m, x: m.digamma(x),
    "ceil": lambda m, x: m.ceil(x),
    "isnan": lambda m, x: m.isnan(x),
    "nan_to_num": lambda m, x: m.nan_to_num(x),
    "cumprod": lambda m, x: m.cumprod(x, 0),
    "cummax": lambda m, x: m.cummax(x, 0).values,
    "cummax indices": lambda m, x: m.cummax(x, 0).indices,
    "count_nonzero": lambda m, x: m.count_nonzero(x),
    "nansum": lambda m, x: m.nansum(x),
    "norm": lambda m, x: m.norm(x),
    "x // 2": lambda m, x: x // 2,
    "x % 2.5": lambda m, x: x % 2.5,
    "clamp_max": lambda m, x: m.clamp_max(x, 0.5),
}


def ours(operand: Any) -> Any:
    return gw.ones(operand[1], dtype=operand[0]) if isinstance(operand, tuple) else operand


def theirs(operand: Any) -> Any:
    if not isinstance(operand, tuple):
        return operand
    return torch.ones(operand[1], dtype=getattr(torch, operand[0]))


def symbol(operand: Any) -> Any:
    if not isinstance(operand, tuple):
        return operand
    return Symbol("x", operand[1], np.dtype(operand[0]))


def dtype_name(call: Any, module: Any, *operands: Any) -> str:
    """The name of the result's dtype, or "refused"."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # PyTorch, of a variance of one element
            return str(call(module, *operands).dtype).removeprefix("torch.")
    except (TypeError, RuntimeError, NotImplementedError, ValueError):
        return "refused"


# Where we differ on purpose; and where PyTorch refuses, we may have NumPy's answer.
UNLIKE = {
    ("all", "uint8"): "bool is the answer; PyTorch keeps uint8 from a time before it had bool",
    ("add alpha", "bool"): "True × 2 is 2, and a bool plus 2 is an int64",
    ("pow", "bool"): "x ** True is int64, as x ** 1 is",
}


@batched("name, left", itertools.product(BINARY, OPERANDS), key=lambda case: case[0])
def test_two_operands(name: str, left: Any) -> None:
    call = BINARY[name]
    for right in OPERANDS:
        if not isinstance(left, tuple) and not isinstance(right, tuple):
            continue
        found = dtype_name(call, gw, ours(left), ours(right))
        expected = dtype_name(call, torch, theirs(left), theirs(right))
        kind = left[0] if isinstance(left, tuple) else ""
        if (name, kind) in UNLIKE or expected == "refused":
            continue
        assert found == expected, f"{left} {right}"
        if name not in ("logical_and", "maximum", "where", "atan2", "clamp_min"):
            abstract = dtype_name(call, gw, symbol(left), symbol(right))
            assert abstract == found, f"{left} {right} as symbols"


@pytest.mark.parametrize("name", UNARY)
def test_one_operand(name: str) -> None:
    for operand in OPERANDS[len(NUMBERS) :]:
        found = dtype_name(UNARY[name], gw, ours(operand))
        expected = dtype_name(UNARY[name], torch, theirs(operand))
        if (name, operand[0]) in UNLIKE or expected == "refused":
            continue
        assert found == expected, operand
        assert dtype_name(UNARY[name], gw, symbol(operand)) == found, f"{operand} as a symbol"


# Calls on integers whose value is what matters: where they have no fraction, where they end.
X = np.array([[-2, 1, 3], [0, -1, 2]])
Y = np.array([[-1, -2, 2], [0, -3, 1]])
SQUARE = np.array([[1, 2], [3, 0]])
PLACES = np.array([[0, 2, 2], [0, 0, 1]])
BYTES = np.array([200, 3, 0, 255], np.uint8)
IMAGE = np.arange(16).reshape(1, 4, 4) * 5 % 7
INTEGERS: dict[str, tuple[Any, ...]] = {
    "square of bool": (lambda m, x: m.square(x), X > 0),
    "sign of bool": (lambda m, x: m.sign(x) & m.sgn(x), X > 0),
    "hardtanh": (lambda m, x: m.nn.functional.hardtanh(x, -1.5, 1.5), X),
    "relu6": (lambda m, x: m.nn.functional.relu6(x), X * 3),
    "pow": (lambda m, x, y: x**y, X, Y),
    "pow of a number": (lambda m, y: 2**y, Y),
    "bytes + 300": (lambda m, x: (x + 300) - (x - (-1)), BYTES),
    "bytes × −3": (lambda m, x: x * -3, BYTES),
    "bytes, alpha −3": (lambda m, x: m.add(x, x, alpha=-3), BYTES),
    "bytes in place": (lambda m, x: x.clone().add_(-3), BYTES),
    "bytes and wider": (
        lambda m, x, y: (x.clone().clamp_(min=y), x.clone().floor_divide_(y), x.clone().sub_(y)),
        BYTES,
        np.array([-7, 300, 5, 9], np.int32),
    ),
    "wider and bytes": (
        lambda m, x, y: (x.clone().remainder_(y), x.clone().mul_(y), x.clone().pow_(y)),
        np.array([-7, 30, 5, 9], np.int32),
        np.array([3, 2, 1, 5], np.uint8),
    ),
    "addmm": (lambda m, x: m.addmm(x, x, x, beta=1.7, alpha=2.9), SQUARE),
    "addmv": (lambda m, x: m.addmv(x[0], x, x[1], beta=0.2, alpha=0.6), SQUARE),
    "baddbmm": (lambda m, x: m.baddbmm(x[None], x[None], x[None], beta=0.5), SQUARE),
    "addr": (lambda m, x: m.addr(x, x[0], x[1], beta=3, alpha=2), SQUARE > 0),
    "sum in int32": (lambda m, x: m.sum(x, 0, dtype=m.int32), X),
    "sum in bool": (lambda m, x: m.sum(x, 0, dtype=m.bool), X),
    "prod in uint8": (lambda m, x: m.prod(x, 1, dtype=m.uint8), X),
    "prod in bool": (lambda m, x: m.prod(x, 1, dtype=m.bool), X),
    "cumsum in int32": (lambda m, x: m.cumsum(x, 0, dtype=m.int32), X),
    "cumprod in uint8": (lambda m, x: m.cumprod(x, 1, dtype=m.uint8), X),
    "scatter ×": (lambda m, x, i: m.scatter(x, 1, i, 3.7, reduce="multiply"), X, PLACES),
    "scatter × src": (lambda m, x, i: m.scatter(x, 1, i, x, reduce="multiply"), X, PLACES),
    "scatter +": (lambda m, x, i: m.scatter(x, 1, i, 2.5, reduce="add"), X, PLACES),
    "bincount": (lambda m, x: m.bincount(x, weights=x), np.array([0, 3, 1, 3])),
    "cov": (lambda m, x: m.cov(x), X),
    "corrcoef": (lambda m, x: m.corrcoef(x), X),
    "cat": (lambda m, x: m.cat([x, m.zeros(0)], -1), X),
    "tensordot": (
        lambda m, x: m.tensordot(x[:, None], x[:, :1, None], ([1], [0])),
        X.astype(np.int32),
    ),
    "max_pool2d": (lambda m, x: m.nn.functional.max_pool2d(x, 2, 1, 1, return_indices=True), IMAGE),
    "avg_pool1d": (lambda m, x: m.nn.functional.avg_pool1d(x - 3, 3, 2, 1), IMAGE[0]),
    "avg_pool2d": (
        lambda m, x: m.nn.functional.avg_pool2d(x - 3, 3, 2, 1, True, False),
        IMAGE,
    ),
    "arange": (lambda m: m.arange(0.0, -8.000001, -4.0, dtype=m.int64),),
    "arange in int32": (lambda m: m.arange(0.5, 7.9, 1.6, dtype=m.int32),),
    "linspace": (lambda m: m.linspace(4.3, -3, 50, dtype=m.int64),),
    "logspace": (lambda m: m.logspace(0, 2.9, 4, dtype=m.int64),),
}


@pytest.mark.parametrize("name", INTEGERS)
def test_integers(name: str) -> None:
    call, *arrays = INTEGERS[name]
    found = call(gw, *map(gw.from_numpy, arrays))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PyTorch, of scatter's `reduce`, which it has another for
        expected = call(torch, *[torch.from_numpy(a.copy()) for a in arrays])
    pairs = zip(found, expected) if isinstance(found, tuple) else [(found, expected)]
    for one, other in pairs:
        assert str(other.dtype) == f"torch.{one.dtype}"
        np.testing.assert_allclose(one.numpy(), other.numpy(), rtol=1e-6)


@pytest.mark.parametrize(
    ("number", "expected"),
    [
        (np.float64(2.5), "float32"),  # NumPy's numbers are as weak as Python's
        (np.float32(2.5), "float32"),
        (np.int64(2), "float32"),
        (np.array(2.5), "float32"),  # 0-d does not promote n-d
        (np.ones(2), "float64"),
        (np.ones(2, np.int64), "float32"),
        (10**30, "float32"),
    ],
)
def test_numpy_operands(number: Any, expected: str) -> None:
    x = gw.ones(2)
    for result in (x * number, number * x, x + number, number - x, x / number):
        assert isinstance(result, gw.Tensor)
        assert result.dtype == expected


def test_each_gradient_has_the_dtype_of_its_tensor() -> None:
    single = gw.ones(2, requires_grad=True)
    double = gw.ones(2, dtype=gw.float64, requires_grad=True)
    (single * double).sum().backward()
    assert single.grad is not None and double.grad is not None
    assert (single.grad.dtype, double.grad.dtype) == (gw.float32, gw.float64)


def test_another_default_dtype() -> None:
    gw.set_default_dtype(gw.float64)
    try:
        assert gw.tensor([1.5]).dtype == gw.float64
        assert (gw.tensor([1]) / 2).dtype == gw.float64
        assert gw.exp(gw.tensor([1])).dtype == gw.float64
    finally:
        gw.set_default_dtype(gw.float32)
    with pytest.raises(TypeError, match="must be a floating-point one, not int64"):
        gw.set_default_dtype(gw.int64)


@pytest.mark.parametrize(
    "call",
    [
        lambda: gw.tensor(1j),
        lambda: gw.tensor([1.0, 2j]),
        lambda: gw.tensor(np.ones(2, complex)),
        lambda: gw.from_numpy(np.ones(2, complex)),
        lambda: gw.zeros(2, dtype=complex),
        lambda: gw.ones(2) * 1j,
        lambda: 1j + gw.ones(2),
        lambda: gw.ones(2) * np.ones(2, complex),
        lambda: np.ones(2, complex) * gw.ones(2),
        lambda: gw.ones(2) * np.complex128(1j),
        lambda: gw.ones(2).to(np.complex64),
        lambda: gw.ones(2) ** 1j,
        lambda: gw.sum(gw.ones(2), dtype=complex),
        lambda: gw.full((2,), 1j),
        lambda: gw.zeros_like(gw.ones(2), dtype=complex),
        lambda: gw.arange(3, dtype=complex),
    ],
)
def test_complex_numbers(call: Any) -> None:
    assert call().dtype in (gw.complex64, gw.complex128)
