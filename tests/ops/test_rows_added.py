"""Many rows added by number: the digits of np.add.at, which is asked for everything else."""

from __future__ import annotations

import numpy as np
import pytest

import gradwalk as gw
from gradwalk.ops.index.rows_added import LARGE, rows_added

RNG = np.random.default_rng(0)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64])
@pytest.mark.parametrize("places", [(9000,), (90, 100)])
@pytest.mark.parametrize("width", [(3,), (2, 2)])
def test_digits(dtype: type, places: tuple[int, ...], width: tuple[int, ...]) -> None:
    index = RNG.integers(-50, 50, places)
    rows = (RNG.normal(size=(*places, *width)) * 9).astype(dtype)
    if dtype is not np.int64:
        rows.flat[:3] = np.inf, np.nan, -0.0
    found, expected = np.zeros((2, 50, *width), dtype)
    assert rows_added(found, index, rows)
    np.add.at(expected, index, rows)
    np.testing.assert_array_equal(found, expected)


def test_what_is_left_to_numpy() -> None:
    index, rows, out = np.zeros(LARGE, np.int64), np.ones((LARGE, 2)), np.zeros((3, 2))
    assert not rows_added(out, index[:10], rows[:10])  # few
    assert not rows_added(out[:, 0].copy(), index, rows[:, 0])  # numbers
    assert not rows_added(out, index, rows[:, :1])  # repeated
    assert not rows_added(out.astype(complex), index, rows.astype(complex))
    assert not rows_added(out, index == 0, rows)  # a mask
    assert not rows_added(out, index + 3, rows) and not rows_added(out, index - 4, rows)
    assert not out.any()
    with pytest.raises(IndexError):
        gw.zeros(3, 2).index_add(0, gw.tensor(index + 3), gw.ones(LARGE, 2))


def test_the_gradient_of_rows_that_were_taken() -> None:
    x = gw.zeros(7, 2, dtype=gw.float64, requires_grad=True)
    index = RNG.integers(0, 7, LARGE)
    weights = RNG.normal(size=(LARGE, 2))
    (x[gw.tensor(index)] * gw.tensor(weights)).sum().backward()
    expected = np.zeros((7, 2))
    np.add.at(expected, index, weights)
    assert x.grad is not None
    np.testing.assert_array_equal(x.grad.numpy(), expected)
