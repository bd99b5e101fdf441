"""Random numbers in JAX against the stream that eager code draws from: the same numbers."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gradwalk.compiler.backends.xla.forwards.random import FORWARDS
from gradwalk.compiler.ir import compiler_ops

pytestmark = pytest.mark.slow  # XLA compiles every draw
SHAPES = [(0,), (), (1,), (5,), (8,), (17,), (3, 5), (2, 0), (1001,), (131, 1001)]
STATES = [(0, 0), (7, 3), (-1, 2**32 - 1), (2**63 - 1, 2**40 + 5), (-(2**63), 2**62)]
SKIPS = [0, 11]
FLOATS = [np.dtype(np.float32), np.dtype(np.float64)]


def both(name: str, state: Any, *more: Any, compiled: bool = True, **attrs: Any) -> tuple[Any, Any]:
    """What JAX and what NumPy draws."""
    op = getattr(compiler_ops, name)
    given = [np.array(state, np.int64), *more]
    expected = op.forward(*given, **attrs)
    function = _compiled(name, tuple(attrs.items())) if compiled else FORWARDS[name]
    found = function(*map(jnp.asarray, given), **({} if compiled else attrs))
    assert isinstance(found, jax.Array)
    assert (found.shape, found.dtype) == (expected.shape, expected.dtype)
    return np.asarray(found), expected


@functools.cache
def _compiled(name: str, attrs: tuple[tuple[str, Any], ...]) -> Any:
    """One function for all states: they are operands."""
    return jax.jit(functools.partial(FORWARDS[name], **dict(attrs)))


def over_states(check: Callable[..., None], shape: Any, **attrs: Any) -> None:
    for state in STATES if math.prod(shape) < 100 else STATES[3:4]:
        for skip in SKIPS:
            check(state, skip=skip, shape=shape, **attrs)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_uniform_to_the_last_bit(shape: Any, dtype: Any) -> None:
    def check(state: Any, **attrs: Any) -> None:
        for compiled in (False, True):
            got, want = both("random_uniform", state, compiled=compiled, dtype=dtype, **attrs)
            np.testing.assert_array_equal(got, want)

    over_states(check, shape, low=0.0, high=1.0)
    over_states(check, shape, low=-0.3, high=7.1)  # a product and a sum, each rounded


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_normal_and_exponential_but_for_rounding(shape: Any, dtype: Any) -> None:
    def check(state: Any, **attrs: Any) -> None:
        for compiled in (False, True):
            got, want = both("random_exponential", state, compiled=compiled, dtype=dtype, **attrs)
            close(got, want)
            for std in (1.0, 0.3):
                given = {"mean": 0.0, "std": std, "dtype": dtype, **attrs}
                close(*both("random_normal", state, compiled=compiled, **given))
            got, want = both("random_normal", state, mean=-2.0, std=0.3, dtype=dtype, **attrs)
            np.testing.assert_allclose(got, want, 0, 16 * np.finfo(dtype).eps)

    over_states(check, shape)


def close(got: Any, want: Any) -> None:
    """NumPy's own logarithm of float32 is off by up to 4 units in the last place."""
    if want.size:
        np.testing.assert_array_max_ulp(got, want, 6 if want.dtype == np.float32 else 4)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("p", [0.0, 0.3, 1.0, 2**-32, 1 - 2**-33, -1.0, 2.0])
def test_bernoulli(shape: Any, p: float) -> None:
    def check(state: Any, **attrs: Any) -> None:
        np.testing.assert_array_equal(*both("random_bernoulli", state, p=p, **attrs))

    over_states(check, shape)


@pytest.mark.parametrize("shape", [s for s in SHAPES if s], ids=str)
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_bernoulli_of_each(shape: Any, dtype: Any) -> None:
    chances = np.linspace(0, 1, shape[-1]).astype(dtype)

    def check(state: Any, **attrs: Any) -> None:
        np.testing.assert_array_equal(*both("random_bernoulli_each", state, chances, **attrs))

    over_states(check, shape)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize(
    "low, high", [(0, 7), (-5, 5), (-(2**40), 2**41), (-(2**63), 2**63 - 1), (-(2**63), 2**63)]
)
def test_integers(shape: Any, low: int, high: int) -> None:
    def check(state: Any, **attrs: Any) -> None:
        np.testing.assert_array_equal(*both("random_integers", state, low=low, high=high, **attrs))

    over_states(check, shape)


@pytest.mark.parametrize("n", [0, 1, 2, 17, 1000])
def test_permutation(n: int) -> None:
    def check(state: Any, **attrs: Any) -> None:
        for compiled in (False, True):
            got, want = both("random_permutation", state, compiled=compiled, **attrs)
            np.testing.assert_array_equal(got, want)

    over_states(check, (n,))


def test_what_follows_a_draw_does_not_change_it() -> None:
    """A fusion must not round a uniform number and what is made of it at once."""
    state = jnp.array([5, 9])
    attrs: dict[str, Any] = dict(skip=0, shape=(1000,), dtype=np.dtype(np.float32))
    drawn = np.asarray(FORWARDS["random_uniform"](state, low=0.1, high=0.7, **attrs))

    @jax.jit
    def doubled(state: Any) -> Any:
        return FORWARDS["random_uniform"](state, low=0.1, high=0.7, **attrs) * 2

    np.testing.assert_array_equal(np.asarray(doubled(state)), drawn * 2)
