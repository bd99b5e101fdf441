"""`stft`, `istft` and windows against PyTorch's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import gradwalk as gw
from tests.batches import batched
from tests.ops.complex_oracle import as_pytorch, close

SIGNAL = np.random.default_rng(3).normal(size=(2, 40))
OPTIONS: list[dict[str, Any]] = [
    {},
    {"hop_length": 3, "center": False},
    {"win_length": 5, "normalized": True},
    {"onesided": False, "pad_mode": "constant"},
    {"hop_length": 2, "win_length": 6, "onesided": True},
]


@batched("options", OPTIONS)
def test_there(options: dict[str, Any]) -> None:
    def pieces(t: Any, x: Any) -> Any:
        window = t.hann_window(options.get("win_length", 8), dtype=t.float64)
        return t.stft(x, 8, window=window, return_complex=True, **options)

    as_pytorch(pieces, SIGNAL)
    as_pytorch(lambda t, x: pieces(t, x[0]), SIGNAL)


@batched("options", [o for o in OPTIONS if o.get("center", True)])
def test_and_back(options: dict[str, Any]) -> None:
    there = {k: v for k, v in options.items() if k != "pad_mode"}

    def restored(t: Any, x: Any) -> Any:
        window = t.hamming_window(options.get("win_length", 8), dtype=t.float64)
        pieces = t.stft(x, 8, window=window, return_complex=True, **options)
        whole = t.istft(pieces, 8, window=window, **there)
        return whole + t.istft(pieces, 8, window=window, length=40, **there)[:, : whole.shape[-1]]

    as_pytorch(restored, SIGNAL)


def test_pairs_and_complex_signals() -> None:
    close(gw.stft(gw.from_numpy(SIGNAL), 8, return_complex=False),
          torch.view_as_real(torch.stft(torch.from_numpy(SIGNAL), 8, return_complex=True,
                                        window=torch.ones(8, dtype=torch.float64))))  # fmt: skip
    as_pytorch(
        lambda t, x: t.stft(x * 1j, 8, window=t.ones(8, dtype=t.float64), return_complex=True),
        SIGNAL,
    )


@batched("name", ["hann", "hamming", "blackman", "bartlett", "kaiser"])
def test_windows(name: str) -> None:
    for length in (0, 1, 2, 7, 8):
        for periodic in (True, False):
            ours, theirs = (
                getattr(t, f"{name}_window")(length, periodic, dtype=t.float64) for t in (gw, torch)
            )
            close(ours, theirs, 1e-6)  # PyTorch's kaiser_window is exact to single precision


def test_refusals() -> None:
    x = gw.ones(16)
    with pytest.raises(TypeError, match="return_complex"):
        gw.stft(x, 8)
    with pytest.raises(ValueError, match="win_length"):
        gw.stft(x, 8, win_length=9, return_complex=True)
    with pytest.raises(RuntimeError, match="gap"):
        gw.istft(gw.stft(x, 8, 8, window=gw.hann_window(8), return_complex=True), 8, 8,
                 window=gw.zeros(8))  # fmt: skip
