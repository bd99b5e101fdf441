"""Random numbers: seeded streams, their states, and PyTorch's own numbers."""

from typing import Any

import numpy as np
import pytest
import torch

import gradwalk as gw

SIZES = [0, 1, 3, 15, 16, 17, 31, 32, 100, 1000]
DRAWS: dict[str, Any] = {
    "rand": lambda m, n, d: m.rand(n, dtype=d),
    "randn": lambda m, n, d: m.randn(n, dtype=d),
    "rand in two dimensions": lambda m, n, d: m.rand(2, n, dtype=d),
    "randn in two dimensions": lambda m, n, d: m.randn(3, n, dtype=d),
    "randint": lambda m, n, d: m.randint(0, 10, (n,)),
    "randint from below zero": lambda m, n, d: m.randint(-7, 2**20, (n,)),
    "randint of a large range": lambda m, n, d: m.randint(0, 2**28, (n,)),
    "randint of a huge range": lambda m, n, d: m.randint(-3, 2**45, (n,)),
    "randperm": lambda m, n, d: m.randperm(n),
}


@pytest.fixture(autouse=True)
def the_usual_stream_afterwards() -> Any:
    yield
    gw.manual_seed(0, like="numpy")


@pytest.mark.parametrize("seed", [0, 42, 2**31 - 1])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("draw", DRAWS)
def test_the_numbers_of_pytorch(draw: str, dtype: str, seed: int) -> None:
    """One after the other from one seed, so that each also leaves the stream where it should."""
    gw.manual_seed(seed, like="torch")
    torch.manual_seed(seed)
    for size in SIZES:
        ours = DRAWS[draw](gw, size, getattr(gw, dtype)).numpy()
        theirs = DRAWS[draw](torch, size, getattr(torch, dtype)).numpy()
        # PyTorch's float32 normals come from approximations of log and sin a few ulp off.
        rounding = 0 if "randn" not in draw else 1e-5 if dtype == "float32" else 1e-13
        np.testing.assert_allclose(ours, theirs, rtol=rounding, atol=rounding)
        assert ours.dtype == theirs.dtype


@pytest.mark.parametrize("like", ["torch", "numpy"])
def test_a_state_continues_the_stream(like: str) -> None:
    generator = gw.Generator(like=like).manual_seed(3)
    gw.randn(3, generator=generator)  # an odd number: one normal waits
    state = generator.get_state()
    ahead = [draw(generator) for draw in (one_normal, one_order)]
    other = gw.Generator().set_state(state)
    assert [draw(other) for draw in (one_normal, one_order)] == ahead
    assert other.initial_seed() == 3


def one_normal(generator: gw.Generator) -> float:
    return gw.randn(1, generator=generator).item()


def one_order(generator: gw.Generator) -> list[int]:
    return gw.randperm(9, generator=generator).tolist()


def test_streams_are_separate_and_repeatable() -> None:
    gw.manual_seed(1)
    first = gw.rand(4).tolist()
    gw.rand(4, generator=gw.Generator().manual_seed(1))
    second = gw.rand(4).tolist()
    gw.manual_seed(1)
    assert (gw.rand(4).tolist(), gw.rand(4).tolist()) == (first, second)


def test_unknown_streams_are_refused() -> None:
    with pytest.raises(ValueError, match="'torch' or 'numpy'"):
        gw.Generator(like="jax")
