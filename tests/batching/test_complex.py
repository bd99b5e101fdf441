"""vmap of functions with complex numbers inside: values and gradients of every sample."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

import gradwalk as gw
from tests.batches import batched


def rotary(m: Any, x: Any) -> Any:
    angles = m.outer(m.arange(5.0), 0.1 + m.arange(4.0))
    pairs = m.view_as_complex(x.reshape(5, 4, 2))
    return m.view_as_real(pairs * m.polar(m.ones(5, 4), angles)).flatten(1)


FUNCTIONS: dict[str, Any] = {
    "FNet": lambda m, x: m.fft.fft(m.fft.fft(x, dim=-1), dim=-2).real,
    "global filter": lambda m, x: m.fft.irfft2(
        m.fft.rfft2(x, norm="ortho") * m.complex(m.ones(5), m.arange(5.0)), s=(5, 8), norm="ortho"
    ),
    "long convolution": lambda m, x: m.fft.irfft(
        m.fft.rfft(x, n=16) * m.fft.rfft(m.arange(8.0), n=16), n=16
    ),
    "rotary": rotary,
    "spectrum": lambda m, x: m.fft.rfft(x).abs(),
    "phase": lambda m, x: m.fft.fft(x + 0.1).angle(),
    "exponential": lambda m, x: m.exp(1j * x).imag,
}


@batched("name", list(FUNCTIONS))
def test_as_functorch(name: str) -> None:
    numbers = np.random.default_rng(0).normal(size=(3, 5, 8)).astype(np.float32)
    found = []
    for m, vmap, grad in ((gw, gw.vmap, gw.func.grad), (torch, torch.vmap, torch.func.grad)):
        x = m.from_numpy(numbers.copy())

        def value(one: Any, m: Any = m) -> Any:
            return FUNCTIONS[name](m, one)

        def total(one: Any, m: Any = m) -> Any:
            return (FUNCTIONS[name](m, one) * m.arange(5.0)[:, None]).sum()

        found.append((vmap(value)(x).numpy(), vmap(grad(total))(x).numpy()))
    for ours, theirs in zip(*found, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-4)
