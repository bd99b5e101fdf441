"""An LSTM 512 wide over 256 steps of a batch of 64, float32 with TF32 products, Adam."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.devices.adam import adam_step

WIDTH, STEPS, BATCH, RATE = 512, 256, 64, 1e-3


def batch() -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    rng = np.random.default_rng(0)
    x = rng.standard_normal((STEPS, BATCH, WIDTH), np.float32)
    return x, rng.standard_normal((STEPS, BATCH, WIDTH), np.float32) * 0.1


def gradwalk_step() -> Callable[[], Any]:
    import gradwalk as gw

    device = "cuda" if gw.cuda.is_available() else "xla"
    gw.set_float32_matmul_precision("high")
    gw.manual_seed(0)
    model = gw.nn.LSTM(WIDTH, WIDTH).to(device)
    optimizer = gw.optim.Adam(model.parameters(), RATE)
    x, y = (gw.tensor(a, device=device) for a in batch())

    @gw.compile
    def step(x: Any, y: Any) -> Any:
        loss = gw.nn.functional.mse_loss(model(x)[0], y)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss

    return lambda: step(x, y)


def torch_step() -> Callable[[], Any]:
    """cuDNN's LSTM; torch.compile leaves it as it is."""
    import torch

    torch.set_float32_matmul_precision("high")
    torch.backends.cudnn.allow_tf32 = True
    torch.manual_seed(0)
    model = torch.nn.LSTM(WIDTH, WIDTH).to("cuda")
    optimizer = torch.optim.Adam(model.parameters(), RATE, fused=True)
    x, y = (torch.tensor(a, device="cuda") for a in batch())

    def step() -> Any:
        loss = torch.nn.functional.mse_loss(model(x)[0], y)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss

    return step


def jax_step() -> Callable[[], Any]:
    import jax
    import jax.numpy as jnp
    from jax import lax

    rng = np.random.default_rng(1)
    bound = WIDTH**-0.5
    high = lax.Precision.HIGH

    def uniform(*shape: int) -> Any:
        return jnp.asarray(rng.uniform(-bound, bound, shape).astype(np.float32))

    parameters = (uniform(WIDTH, 4 * WIDTH), uniform(WIDTH, 4 * WIDTH), uniform(4 * WIDTH))

    def loss_of(p: Any, x: Any, y: Any) -> Any:
        w, u, b = p

        def cell(state: Any, now: Any) -> Any:
            h, c = state
            i, f, g, o = jnp.split(now + jnp.matmul(h, u, precision=high), 4, -1)
            c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
            h = jax.nn.sigmoid(o) * jnp.tanh(c)
            return (h, c), h

        zero = jnp.zeros((BATCH, WIDTH), jnp.float32)
        _, out = lax.scan(cell, (zero, zero), jnp.matmul(x, w, precision=high) + b)
        return ((out - y) ** 2).mean()

    x, y = (jnp.asarray(a) for a in batch())
    return adam_step(loss_of, parameters, (x, y), RATE, 0.0)
