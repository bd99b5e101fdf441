"""Sobol sequences: PyTorch's points, scrambled or not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import gradwalk as gw
from gradwalk.quasirandom import SobolEngine


def engines(*args: Any, **options: Any) -> tuple[Any, Any]:
    return tuple(lib.quasirandom.SobolEngine(*args, **options) for lib in (gw, torch))


@pytest.mark.parametrize("scramble", [False, True])
@pytest.mark.parametrize("dimension", [1, 2, 40])
def test_the_points_are_those_of_pytorch(dimension: int, scramble: bool) -> None:
    found, expected = engines(dimension, scramble=scramble, seed=7)
    for n in (1, 2, 5, 70):
        points = found.draw(n)
        assert points.dtype == gw.float32 and points.shape == (n, dimension)
        np.testing.assert_array_equal(points.numpy(), expected.draw(n).numpy())
    for engine in (found, expected):
        engine.fast_forward(30)
    np.testing.assert_array_equal(found.draw(4).numpy(), expected.draw(4).numpy())
    for engine in (found, expected):
        engine.reset().fast_forward(1)
    np.testing.assert_array_equal(found.draw().numpy(), expected.draw().numpy())
    assert found.num_generated == expected.num_generated == 2
    assert repr(found) == repr(expected)


def test_powers_of_two_and_where_points_go() -> None:
    found, expected = engines(3)
    assert found.draw_base2(3, dtype=gw.float64).tolist() == expected.draw_base2(
        3, dtype=torch.float64
    ).tolist()  # fmt: skip
    out = gw.empty(0)
    assert found.draw_base2(3, out=out) is out
    np.testing.assert_array_equal(out.numpy(), expected.draw_base2(3).numpy())
    for engine in (found, expected):
        with pytest.raises(ValueError, match="power of 2"):
            engine.draw_base2(1)
    assert SobolEngine(2).draw(0).shape == (0, 2)
    with pytest.raises(ValueError, match="from 1 to 21201 dimensions, not 0"):
        SobolEngine(0)


def test_scrambled_without_a_seed() -> None:
    gw.manual_seed(3)
    first = gw.quasirandom.SobolEngine(2, scramble=True).draw(64)
    second = gw.quasirandom.SobolEngine(2, scramble=True).draw(64)
    assert not gw.equal(first, second)
    gw.manual_seed(3)
    assert gw.equal(gw.quasirandom.SobolEngine(2, scramble=True).draw(64), first)
    cells = (first * 8).long()  # one point in each of 8 x 8 cells
    assert (cells[:, 0] * 8 + cells[:, 1]).unique().numel() == 64
