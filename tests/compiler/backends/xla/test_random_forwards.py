"""Random numbers in JAX against the stream that eager code draws from: the same numbers."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gradwalk.compiler.backends.xla.forwards.random import FORWARDS
from gradwalk.compiler.backends.xla.platform import traced_for
from gradwalk.compiler.ir import compiler_ops

pytestmark = pytest.mark.slow  # XLA compiles every draw
SHAPES = [(0,), (), (5,), (8,), (3, 5), (131, 1001)]
STATES = [(0, 0), (7, 3), (-1, 2**32 - 1), (2**63 - 1, 2**40 + 5), (-(2**63), 2**62)]
SKIPS = [0, 11]
FLOATS = [np.dtype(np.float32), np.dtype(np.float64)]


def draws(name: str, shape: Any, *more: Any, **attrs: Any) -> Iterator[tuple[Any, Any]]:
    """What JAX and what NumPy draws, from several states and places of the stream.

    One program draws for all places; states are its operands.
    """
    op = getattr(compiler_ops, name)
    every = [{"skip": skip, "shape": shape, **attrs} for skip in SKIPS]
    run = jax.jit(lambda *given: [FORWARDS[name](*given, **each) for each in every])
    for state in STATES if math.prod(shape) < 100 else STATES[3:4]:
        given = [np.array(state, np.int64), *more]
        for each, found in zip(every, run(*map(jnp.asarray, given)), strict=True):
            expected = op.forward(*given, **each)
            assert (found.shape, found.dtype) == (expected.shape, expected.dtype)
            yield np.asarray(found), expected


def equal(name: str, shape: Any, *more: Any, **attrs: Any) -> None:
    for got, want in draws(name, shape, *more, **attrs):
        np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_uniform_to_the_last_bit(shape: Any, dtype: Any) -> None:
    equal("random_uniform", shape, dtype=dtype, low=0.0, high=1.0)
    # a product and a sum, each rounded
    equal("random_uniform", shape, dtype=dtype, low=-0.3, high=7.1)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_normal_and_exponential_but_for_rounding(shape: Any, dtype: Any) -> None:
    for got, want in draws("random_exponential", shape, dtype=dtype):
        close(got, want)
    for std in (1.0, 0.3):
        for got, want in draws("random_normal", shape, dtype=dtype, mean=0.0, std=std):
            close(got, want)
    for got, want in draws("random_normal", shape, dtype=dtype, mean=-2.0, std=0.3):
        np.testing.assert_allclose(got, want, 0, 16 * np.finfo(dtype).eps)


def close(got: Any, want: Any) -> None:
    """NumPy's own logarithm of float32 is off by up to 4 units in the last place."""
    if want.size:
        np.testing.assert_array_max_ulp(got, want, 6 if want.dtype == np.float32 else 4)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_bernoulli(shape: Any) -> None:
    for p in (0.0, 0.3, 1.0, 2**-32, 1 - 2**-33, -1.0, 2.0):
        equal("random_bernoulli", shape, p=p)


@pytest.mark.parametrize("shape", [s for s in SHAPES if s], ids=str)
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_bernoulli_of_each(shape: Any, dtype: Any) -> None:
    equal("random_bernoulli_each", shape, np.linspace(0, 1, shape[-1]).astype(dtype))


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_integers(shape: Any) -> None:
    ranges = [(0, 7), (-5, 5), (-(2**40), 2**41), (-(2**63), 2**63 - 1), (-(2**63), 2**63)]
    for low, high in ranges:
        equal("random_integers", shape, low=low, high=high)


@pytest.mark.parametrize("n", [0, 1, 2, 17, 1000])
def test_permutation(n: int) -> None:
    equal("random_permutation", (n,))


def test_words_are_those_of_other_devices() -> None:
    """The CPU runs the rounds of Philox in a loop, other devices one after another."""
    token = traced_for.set("cuda")
    try:
        equal("random_uniform", (3, 5), dtype=FLOATS[1], low=0.0, high=1.0)
        equal("random_bernoulli", (131,), p=0.3)
    finally:
        traced_for.reset(token)


def test_what_follows_a_draw_does_not_change_it() -> None:
    """A fusion must not round a uniform number and what is made of it at once."""
    state = jnp.array([5, 9])
    attrs: dict[str, Any] = dict(skip=0, shape=(1000,), dtype=np.dtype(np.float32))
    drawn = np.asarray(FORWARDS["random_uniform"](state, low=0.1, high=0.7, **attrs))

    @jax.jit
    def doubled(state: Any) -> Any:
        return FORWARDS["random_uniform"](state, low=0.1, high=0.7, **attrs) * 2

    np.testing.assert_array_equal(np.asarray(doubled(state)), drawn * 2)
