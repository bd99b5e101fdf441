"""Products, factorisations and layers in JAX against the ops' own forwards, where samples do not
reach: strange numbers, empty arrays, loops."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gradwalk.compiler.backends.xla.forwards import FORWARDS, linear, network
from gradwalk.compiler.ir import loops
from gradwalk.compiler.ir.program import Argument, Builder, Program, Term
from gradwalk.compiler.ir.program import forward as without_residuals
from gradwalk.ops import TABLE
from gradwalk.ops.elementwise.arithmetic import add, mul

pytestmark = pytest.mark.slow  # XLA compiles every call
TOLERANCE = {np.dtype(np.float64): 1e-12, np.dtype(np.float32): 1e-5}
Call = tuple[list[Any], dict[str, Any]]


def copied(operand: Any) -> Any:
    return operand.copy() if isinstance(operand, np.ndarray) else operand


def in_jax(forward: Callable[..., Any], operands: Any, attrs: Any) -> list[Any]:
    typed = np.ndarray, np.generic
    arrays = [jnp.asarray(x) for x in operands if isinstance(x, typed)]
    numbers = tuple(None if isinstance(x, typed) else x for x in operands)
    out = _function(forward, _Attributes(attrs), numbers)(*arrays)
    parts = out if isinstance(out, tuple) else (out,)
    assert all(isinstance(part, jax.Array) for part in parts)
    return [np.asarray(part) for part in parts]


class _Attributes(dict[str, Any]):
    """Attributes as a key."""

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(repr(self))


@functools.cache
def _function(forward: Any, attrs: Any, numbers: tuple[Any, ...]) -> Any:
    """A forward of arrays only, kept so that calls of equal shapes are compiled once."""

    def run(*arrays: Any) -> Any:
        given = iter(arrays)
        return forward(*(next(given) if x is None else x for x in numbers), **attrs)

    return jax.jit(run)


def agree(name: str, operands: Any, attrs: dict[str, Any]) -> None:
    op = TABLE[name]
    with np.errstate(all="ignore"):
        expected = without_residuals(op, [copied(x) for x in operands], attrs)
    found = in_jax(FORWARDS[name], operands, attrs)
    for got, want in zip(found, expected if op.multiple else (expected,), strict=True):
        want = np.asarray(want)
        assert (got.shape, got.dtype) == (want.shape, want.dtype)
        tolerance = TOLERANCE.get(want.dtype, 0)
        scale = (
            np.max(np.abs(want[np.isfinite(want)]), initial=1.0) if want.dtype.kind == "f" else 0
        )
        np.testing.assert_allclose(got, want, tolerance, tolerance * scale)


# -- what no sample has ----------------------------------------------------------------------------


def draw(*shape: int, dtype: Any = np.float64) -> Any:
    return np.random.default_rng(sum(shape)).normal(size=shape).astype(dtype)


CONV = dict(stride=(2, 1), padding=((1, 2), (0, 1)), dilation=(1, 2), groups=2)


@pytest.mark.parametrize("batch", [0, 1, 3])
def test_convolution_with_everything(batch: int) -> None:
    x, weight, bias = draw(batch, 4, 7, 6), draw(6, 2, 3, 2), draw(6)
    y = TABLE["conv"].forward(x, weight, **CONV)
    agree("conv", [x, weight], CONV)
    agree("conv_bias", [x, weight, bias], CONV)
    for further in (0, 1):  # a transposed convolution may leave room for further outputs
        agree("conv_input", [y, weight], {**CONV, "shape": (7 + further, 6)})
    agree("conv_weight", [x, y], {**CONV, "kernel": (3, 2)})


POOLS: list[dict[str, Any]] = [
    dict(kernel=(2, 2), out=(3, 2), stride=(2, 2), padding=((0, 0),) * 2, dilation=(1, 1)),
    dict(kernel=(3, 2), out=(4, 3), stride=(2, 2), padding=((1, 1),) * 2, dilation=(1, 1)),
    dict(kernel=(2, 2), out=(3, 3), stride=(2, 1), padding=((0, 1), (1, 0)), dilation=(2, 2)),
]


@pytest.mark.parametrize("attrs", POOLS)
@pytest.mark.parametrize("lead", [(), (2,), (2, 3), (0, 3)])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64, np.uint8])
def test_the_largest_of_ties_and_of_strange_numbers(attrs: Any, lead: Any, dtype: Any) -> None:
    x = np.random.default_rng(0).integers(0, 3, (*lead, 6, 5)).astype(dtype)
    agree("max_pool", [x], attrs)
    agree("max_pool_indices", [x], attrs)
    if np.dtype(dtype).kind == "f":
        for strange in (np.nan, -np.inf, np.inf):
            for share in (0.3, 1.0):
                some = np.where(np.random.default_rng(1).random(x.shape) < share, strange, x)
                agree("max_pool", [some.astype(dtype)], attrs)
                agree("max_pool_indices", [some.astype(dtype)], attrs)
    rest = {name: value for name, value in attrs.items() if name != "dilation"}
    agree("pool_sum", [x], rest)
    spread = {name: value for name, value in rest.items() if name != "out"}
    y = TABLE["pool_sum"].forward(x, **rest)
    agree("pool_spread", [y], {**spread, "shape": (6, 5)})


STRANGE = np.array([[0.5, np.nan, 1.0], [-np.inf, 0.0, 1.0], [np.inf, 1.0, 2.0]])


def test_strange_numbers() -> None:
    for axis in (0, 1):
        agree("softmax", [STRANGE], {"axis": axis})
        agree("log_softmax", [STRANGE], {"axis": axis})
        for shape in ((0, 3), (3, 0)):
            agree("softmax", [np.zeros(shape)], {"axis": axis})
            agree("log_softmax", [np.zeros(shape)], {"axis": axis})
    target = np.array([0, -100, 1])
    agree("cross_entropy", [STRANGE, target], {"ignore_index": -100})
    agree("cross_entropy", [STRANGE[:0], target[:0]], {"ignore_index": -100})
    share = np.array([0.0, 1.0, np.nan])
    agree("binary_cross_entropy", [share, share[::-1].copy()], {})
    agree("binary_cross_entropy_logits", [STRANGE, STRANGE], {})
    for causal in (False, True):
        attrs = {"scale": 0.5, "causal": causal}
        agree("attention", [STRANGE, draw(3, 3), draw(3, 2)], attrs)
        agree("attention", [draw(0, 2, 3), draw(0, 2, 3), draw(0, 2, 4)], attrs)


def test_empty_products_and_matrices() -> None:
    for shapes in (((0, 3), (3, 2)), ((2, 0), (0, 2)), ((0, 2, 3), (3, 2)), ((2, 3), (4, 3, 0))):
        agree("matmul", [draw(*shape) for shape in shapes], {})
    agree("linear", [draw(0, 3), draw(2, 3), draw(2)], {})
    for name in ("inv", "det", "slogdet", "cholesky", "cofactor"):
        agree(name, [draw(0, 3, 3)], {})


def test_a_factorisation_reads_one_triangle() -> None:
    x = draw(4, 4)
    positive = x @ x.T + np.eye(4)
    agree("cholesky", [np.tril(positive) + 7 * np.triu(x, 1)], {})
    for uplo, other in (("L", np.triu(x, 1)), ("U", np.tril(x, -1))):
        agree("eigh", [positive + other], {"uplo": uplo})


def test_errors_of_numpy_are_nan() -> None:
    """Compiled code cannot raise."""
    singular = jnp.ones((2, 2))
    assert np.isnan(linear.FORWARDS["certain_inv"](singular)).all()
    assert np.isnan(np.diagonal(linear.FORWARDS["cholesky"](-jnp.eye(2)))).all()
    assert not np.isfinite(linear.FORWARDS["inv"](singular)).all()
    loss = network.FORWARDS["cross_entropy"](jnp.ones((2, 3)), jnp.array([3, 1]), ignore_index=-100)
    assert np.isnan(loss).tolist() == [True, False]


@pytest.mark.parametrize("name", ["lstm", "gru", "rnn"])
@pytest.mark.parametrize("steps", [0, 1, 3])
@pytest.mark.parametrize("reverse", [False, True])
def test_recurrence(name: str, steps: int, reverse: bool) -> None:
    gates = {"lstm": 4, "gru": 3, "rnn": 1}[name]
    states = [draw(2, 5) for _ in range(2 if name == "lstm" else 1)]
    weights = [draw(gates * 5, 3), draw(gates * 5, 5)]
    biases = [draw(gates * 5) for _ in range(2 if name == "gru" else 1)]
    attrs: dict[str, Any] = {"reverse": reverse}
    if name == "rnn":
        attrs["nonlinearity"] = "relu"
    agree(name, [draw(steps, 2, 3), *states, *weights, *biases], attrs)


# -- loops -----------------------------------------------------------------------------------------


def run_body(program: Program, arguments: Any) -> tuple[list[Any], list[Any]]:
    """A program of additions and products on JAX's arrays."""
    by_name = {"add": jnp.add, "mul": jnp.multiply}
    values = {t: arguments[t.source.number] for t in program.sources()}  # type: ignore[union-attr]
    for call in program.calls:
        operands = [values[a] if isinstance(a, Term) else a for a in call.args]
        values[call.outputs[0]] = by_name[call.op.name](*operands)
    return [values[t] for t in program.results], []


def results_of_loop(*operands: Any, **attrs: Any) -> Any:
    return network.loop_forward(run_body)(*operands, **attrs)[0]


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("count", [1, 4])
@pytest.mark.parametrize("histories", [(True, False), (False, True), (False, False)])
def test_loop(reverse: bool, count: int, histories: tuple[bool, ...]) -> None:
    row, first, second, fixed = (
        Term((3,), np.dtype(np.float64), source=Argument(i)) for i in range(4)
    )
    build = Builder()
    output = build.apply(mul, [row, first])
    new = build.apply(add, [build.apply(mul, [first, fixed]), row])
    other = build.apply(add, [second, output])
    body = Program(build.calls, [output, new, other])
    attrs = dict(body=body, count=count, reverse=reverse, rows=1, histories=histories)
    operands = [draw(count, 3), draw(3), draw(3) + 1, draw(3) + 2]
    expected = loops.loop.forward(*operands, **attrs)
    for got, want in zip(in_jax(results_of_loop, operands, attrs), expected, strict=True):
        assert (got.shape, got.dtype) == (want.shape, want.dtype)
        np.testing.assert_allclose(got, want, 1e-12, 1e-12)


def test_a_loop_of_no_iterations_and_one_without_rows() -> None:
    state, fixed = (Term((2,), np.dtype(np.float64), source=Argument(i)) for i in range(2))
    build = Builder()
    body = Program(build.calls, [build.apply(add, [state, fixed])])
    for count in (0, 3):
        attrs = dict(body=body, count=count, reverse=False, rows=0, histories=(True,))
        operands = [draw(2), draw(2)]
        (want,) = loops.loop.forward(*operands, **attrs)
        (got,) = in_jax(results_of_loop, operands, attrs)
        np.testing.assert_allclose(got, want, 1e-12, 1e-12)
