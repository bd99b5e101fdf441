"""Fourier transforms against PyTorch's: values, first and second derivatives, all norms."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
import torch

import gradwalk as gw
from tests.batches import batched
from tests.ops.complex_oracle import COMPLEX, REAL, as_pytorch, close, of

KINDS = ("fft", "ifft", "irfft", "hfft", "rfft", "ihfft")
NORMS = (None, "backward", "ortho", "forward")
ONE = [
    (name, {"n": n, "dim": dim, "norm": norm})
    for name, n, dim, norm in itertools.product(KINDS, (None, 3, 4, 5, 7), (-1, 0), NORMS)
]
SEVERAL = [
    (name, {"s": s, "dim": dim, "norm": norm})
    for name, s, dim, norm in itertools.product(
        [f"{kind}{end}" for kind in KINDS for end in "2n"],
        (None, (4, 6), (2, -1)),
        ((-2, -1), (1, 0)),
        NORMS,
    )
]


@batched("name, options", [*ONE, *SEVERAL], key=lambda case: f"{case[0]} {case[1]['norm']}")
def test_as_pytorch(name: str, options: dict[str, Any]) -> None:
    real = name.startswith(("rfft", "ihfft"))
    as_pytorch(lambda t, x: getattr(t.fft, name)(x, **options), REAL if real else COMPLEX)


def test_frequencies_and_shifts() -> None:
    for n in (1, 4, 5):
        close(gw.fft.fftfreq(n, d=0.5), torch.fft.fftfreq(n, d=0.5))
        close(gw.fft.rfftfreq(n), torch.fft.rfftfreq(n))
    for dim in (None, 0, (1,), (0, 1)):
        as_pytorch(lambda t, x, dim=dim: t.fft.fftshift(x, dim), REAL)
        as_pytorch(lambda t, x, dim=dim: t.fft.ifftshift(x, dim), COMPLEX)


def test_float32_stays_in_single_precision() -> None:
    x = gw.ones(6)
    assert gw.fft.rfft(x).dtype == gw.fft.fft(x).dtype == gw.complex64
    assert gw.fft.irfft(gw.fft.rfft(x)).dtype == gw.float32
    assert gw.fft.fft(gw.arange(3)).dtype == gw.complex64


@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")  # PyTorch's own
@pytest.mark.parametrize("name", ["fft", "rfft", "irfft"])
def test_forward_mode(name: str) -> None:
    x, move = (REAL, REAL[::-1].copy()) if name == "rfft" else (COMPLEX, COMPLEX[::-1].copy())
    ours, theirs = (lambda x, t=t: getattr(t.fft, name)(x) ** 2 for t in (gw, torch))
    close(
        gw.jvp(ours, (gw.from_numpy(x),), (gw.from_numpy(move),))[1],
        torch.func.jvp(theirs, (torch.from_numpy(x),), (torch.from_numpy(move),))[1],
    )


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: gw.fft.rfft(gw.tensor([1j])), "real numbers"),
        (lambda: gw.fft.fft(gw.ones(3), norm="half"), "norm"),
        (lambda: gw.fft.fft(gw.ones(3), n=0), "at least 1"),
        (lambda: gw.fft.irfft(gw.ones(1)), "at least 1"),
        (lambda: gw.fft.fft2(gw.ones(3, 3), dim=(0, 0)), "twice"),
        (lambda: gw.fft.fft2(gw.ones(3, 3), s=(2,)), "1 size"),
        (lambda: gw.fft.fft(gw.tensor(1.0)), "dimension"),
        (lambda: gw.fft.rfft(gw.ones(4, dtype=gw.float16)), "float16"),
    ],
)
def test_refusals(call: Any, words: str) -> None:
    with pytest.raises((TypeError, ValueError), match=words):
        call()


def spectral_convolution(t: Any, x: Any, weight: Any, modes: int) -> Any:
    """The layer of a Fourier neural operator: mix channels, mode by mode."""
    spectrum = t.fft.rfft(x)  # (batch, channels, frequencies)
    out = t.zeros(x.shape[0], weight.shape[1], spectrum.shape[-1], dtype=t.complex128)
    out[:, :, :modes] = t.einsum("bix,iox->box", spectrum[:, :, :modes], weight)
    return t.fft.irfft(out, n=x.shape[-1])


def test_spectral_convolution() -> None:
    random = np.random.default_rng(1)
    x = random.normal(size=(2, 3, 8))
    weight = random.normal(size=(3, 2, 4)) + 1j * random.normal(size=(3, 2, 4))
    as_pytorch(lambda t, x, w: spectral_convolution(t, x, w, 4), x, weight)


def test_mixing_of_tokens() -> None:
    """FNet: two transforms in place of attention; the real part goes on."""
    x = np.random.default_rng(2).normal(size=(2, 5, 6))
    as_pytorch(lambda t, x: t.fft.fft(t.fft.fft(x, dim=-1), dim=-2).real.exp(), x)


def test_a_model_with_complex_weights_learns() -> None:
    losses = []
    for t in (gw, torch):
        start = torch.from_numpy(COMPLEX[:1, :3].astype(np.complex64)).numpy()
        weight = t.nn.Parameter(t.from_numpy(start.copy()))
        x = t.from_numpy(REAL.astype(np.float32))
        optimizer = t.optim.Adam([weight], lr=0.1)
        for _ in range(5):
            optimizer.zero_grad()
            loss = ((t.fft.irfft(t.fft.rfft(x) * weight, n=4) - x.flip(0)) ** 2).mean()
            loss.backward()
            t.nn.utils.clip_grad_norm_([weight], 0.5)
            optimizer.step()
        losses.append([of(loss), of(weight)])
    np.testing.assert_allclose(losses[0][0], losses[1][0], rtol=1e-5)
    np.testing.assert_allclose(losses[0][1], losses[1][1], rtol=1e-4)
