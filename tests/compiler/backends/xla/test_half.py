"""Halves and autocast on a device."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import gradwalk as gw
from gradwalk.compiler.backends.xla.forwards import FORWARDS


class Attends(gw.nn.Module):
    """A small transformer."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens, self.norm = gw.nn.Embedding(11, 8), gw.nn.LayerNorm(8)
        self.mixed, self.head = gw.nn.Linear(8, 24), gw.nn.Linear(8, 11)

    def forward(self, tokens: Any) -> Any:
        x = self.tokens(tokens)
        q, k, v = self.mixed(self.norm(x)).chunk(3, -1)
        x = x + gw.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.head(gw.nn.functional.gelu(x))


def losses(device: str, compiled: bool, half: bool) -> list[float]:
    gw.manual_seed(0)
    model = Attends().to(device)
    optimizer = gw.optim.Adam(model.parameters(), lr=0.01)
    x = gw.randint(0, 11, (4, 6)).to(device)

    def step(x: Any) -> Any:
        optimizer.zero_grad()
        with gw.autocast(device, dtype=gw.bfloat16, enabled=half):
            out = model(x)
            loss = gw.nn.functional.cross_entropy(out.reshape(-1, 11), x.reshape(-1))
        loss.backward()
        optimizer.step()
        assert out.dtype == (gw.bfloat16 if half else gw.float32)
        assert loss.dtype == gw.float32
        return loss

    run = gw.compile(step) if compiled else step
    found = [run(x).item() for _ in range(4)]
    assert model.mixed.weight.grad.dtype == gw.float32
    return found


def test_a_training_step_inside_autocast() -> None:
    exact = losses("cpu", False, False)
    for compiled in (False, True):
        half = losses("xla", compiled, True)
        np.testing.assert_allclose(half, exact, 1e-2)
        assert half != exact


def test_products_are_of_halves_with_sums_in_float32() -> None:
    x = jnp.ones((4, 4), jnp.bfloat16)
    text = jax.jit(FORWARDS["matmul"]).lower(x, x).as_text()
    assert "(tensor<4x4xbf16>, tensor<4x4xbf16>) -> tensor<4x4xf32>" in text
    conv = FORWARDS["conv"]
    image = jnp.ones((1, 2, 4, 4), jnp.bfloat16)
    options = {"stride": (1, 1), "padding": ((0, 0),) * 2, "dilation": (1, 1), "groups": 1}
    text = jax.jit(lambda x: conv(x, x, **options)).lower(image).as_text()
    assert "(tensor<1x2x4x4xbf16>, tensor<1x2x4x4xbf16>) -> tensor<1x1x1x1xf32>" in text


def test_the_precision_of_float32_products() -> None:
    x = gw.tensor([[1 + 2**-12, 1.0]], device="xla")
    f = gw.compile(lambda x: x @ x.T)
    want = (1 + 2**-12) ** 2 + 1
    try:
        for precision, exact in {"highest": True, "medium": False, "high": True}.items():
            gw.set_float32_matmul_precision(precision)
            assert gw.get_float32_matmul_precision() == precision
            for found in (f(x), x @ x.T):
                assert (abs(found.item() - want) < 1e-6) is exact
    finally:
        gw.set_float32_matmul_precision("highest")
    assert len(f.specializations) == 3
    with pytest.raises(ValueError, match="highest"):
        gw.set_float32_matmul_precision("low")
