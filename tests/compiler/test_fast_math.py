"""The switch that lets a product and the sum it goes into be rounded once."""

from __future__ import annotations

import numpy as np

import gradwalk as gw


def test_products_and_sums_are_rounded_once_only_if_asked() -> None:
    source = np.random.default_rng(3)
    x, y, z = (gw.tensor(source.standard_normal(1000).astype(np.float32)) for _ in range(3))

    def f(x: gw.Tensor, y: gw.Tensor, z: gw.Tensor) -> gw.Tensor:
        return x * y + z

    eager = f(x, y, z).numpy()
    exact = gw.compile(f)(x, y, z).numpy()
    fast = gw.compile(f, fast_math=True)(x, y, z).numpy()
    once = (x.numpy().astype(np.float64) * y.numpy() + z.numpy()).astype(np.float32)
    np.testing.assert_array_equal(exact, eager)
    assert not np.array_equal(eager, once)  # or the next line would say nothing
    np.testing.assert_array_equal(fast, once)


def test_nan_and_inf_mean_what_they_always_do() -> None:
    x = gw.tensor([np.inf, -np.inf, np.nan, 0.0])
    fast = gw.compile(lambda x: (x * 2 + x, x - x), fast_math=True)(x)
    np.testing.assert_array_equal(fast[0].numpy(), (x * 2 + x).numpy())
    np.testing.assert_array_equal(fast[1].numpy(), (x - x).numpy())
