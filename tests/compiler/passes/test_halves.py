"""Halves in compiled code: the same bits as NumPy's casts, and the same results as eager."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gradwalk as gw

HALVES = ["bfloat16", "float16"]


def bits(array: Any) -> Any:
    """The bits of floats; all NaNs alike."""
    unsigned = array.view(f"u{array.itemsize}")
    return np.where(np.isnan(array.astype(np.float32)), 0, unsigned)


@pytest.mark.parametrize("name", HALVES)
def test_casts_have_the_bits_of_numpys(name: str) -> None:
    dtype = getattr(gw, name)
    halves = np.arange(2**16, dtype=np.uint16).view(dtype)
    wide = gw.compile(lambda x: x.to(gw.float32))(gw.tensor(halves)).numpy()
    np.testing.assert_array_equal(bits(wide), bits(halves.astype(np.float32)))
    some = np.arange(0, 2**32, 4099, dtype=np.uint64).astype(np.uint32).view(np.float32)
    exact = np.sort(wide[np.isfinite(wide)])
    with np.errstate(all="ignore"):
        between = (exact[1:] + exact[:-1]) / 2  # where rounding is to the even one
        floats = np.concatenate([some, wide, between, np.nextafter(between, np.float32(0))])
        expected = floats.astype(dtype)
    rounded = gw.compile(lambda x: x.to(dtype))(gw.tensor(floats)).numpy()
    np.testing.assert_array_equal(bits(rounded), bits(expected))


def several(x: Any, y: Any) -> tuple[Any, ...]:
    z = (x.T * y.T + 1.5).exp()
    return (
        *(z.sum(0), z[::2, 1:].clone(), x.max(1).values, x.sort(1).values, x[:, [1, 2]]),
        *(
            gw.cat([x, y]),
            x.cumsum(1),
            x > y,
            gw.where(x > 0, x, 0),
            x.mean(),
            (x @ y.T).softmax(1),
        ),
    )


@pytest.mark.parametrize("name", HALVES)
@pytest.mark.parametrize("backend", ["llvm", "numpy"])
def test_results_are_those_of_eager_code(name: str, backend: str) -> None:
    x, y = (gw.randn(7, 13).to(getattr(gw, name)) for _ in range(2))
    for got, want in zip(gw.compile(several, backend=backend)(x, y), several(x, y)):
        assert got.dtype == want.dtype
        np.testing.assert_allclose(got.float().numpy(), want.float().numpy(), 2**-7)


def losses(dtype: Any, compiled: bool) -> list[float]:
    gw.manual_seed(0)
    model = gw.nn.Sequential(gw.nn.Linear(4, 8), gw.nn.Tanh(), gw.nn.Linear(8, 1)).to(dtype)
    optimizer = gw.optim.Adam(model.parameters(), lr=0.01)
    x, y = gw.randn(16, 4).to(dtype), gw.randn(16, 1).to(dtype)

    def step(x: Any, y: Any) -> Any:
        optimizer.zero_grad()
        loss = gw.nn.functional.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    run = gw.compile(step) if compiled else step
    found = [run(x, y).item() for _ in range(5)]
    assert model[0].weight.dtype == dtype
    return found


@pytest.mark.parametrize("name", HALVES)
def test_a_step_of_a_half_model(name: str) -> None:
    eager, compiled = (losses(getattr(gw, name), compiled) for compiled in (False, True))
    np.testing.assert_allclose(compiled, eager, 2**-6)
    assert eager[-1] < eager[0]
