"""The states of the global generators: what is not read anew must not have moved."""

import random
from collections.abc import Callable, Iterator

import numpy as np
import pytest

from gradwalk.torch.rerun.rng_states import Randomness

_MOVES: dict[str, Callable[[], object]] = {
    "nothing": lambda: None,
    "a number": lambda: (random.random(), np.random.rand()),
    "a normal number, another of which waits": lambda: (random.gauss(0, 1), np.random.randn()),
    "as many as there are words": lambda: (random.randbytes(4 * 624), np.random.bytes(4 * 624)),
    "a seed": lambda: (random.seed(3), np.random.seed(3)),
    "another generator": lambda: np.random.set_bit_generator(np.random.MT19937(1)),
    "one of another kind": lambda: np.random.set_bit_generator(np.random.PCG64(1)),
}


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    python, numpy = random.getstate(), np.random.get_state()
    own = np.random.get_bit_generator()
    yield
    np.random.set_bit_generator(own)
    np.random.set_state(numpy)
    random.setstate(python)


def _drawn() -> list[float]:
    return [random.random(), random.gauss(0, 1), np.random.rand(), np.random.randn()]


@pytest.mark.parametrize("move", _MOVES.values(), ids=_MOVES)
def test_what_is_restored_draws_the_same(move: Callable[[], object]) -> None:
    for _ in range(3):
        Randomness.now(set())
        move()
        kept = Randomness.now(set())
        drawn = _drawn()
        Randomness.now(set())
        kept.restore()
        assert _drawn() == drawn


def test_a_normal_number_that_waited_is_given_away() -> None:
    random.gauss(0, 1), np.random.randn()
    before = Randomness.now(set())
    first = random.gauss(0, 1), np.random.randn()
    after = Randomness.now(set())
    second = random.gauss(0, 1), np.random.randn()
    before.restore()
    assert (random.gauss(0, 1), np.random.randn()) == first
    after.restore()
    assert (random.gauss(0, 1), np.random.randn()) == second


def test_numpys_generator_at_rest_is_not_read_anew() -> None:
    np.random.seed(0)
    first, second = Randomness.now(set()), Randomness.now(set())
    assert first.numpy is second.numpy
