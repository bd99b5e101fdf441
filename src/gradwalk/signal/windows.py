"""The windows of `torch.signal.windows`: `sym` ones end as they begin, others are periodic."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Unpack

import numpy as np

from gradwalk.signal.window_functions import made_window
from gradwalk.tensors.leaves import LeafOptions, makes_leaf

__all__ = [
    "bartlett", "blackman", "cosine", "exponential", "gaussian", "general_cosine",
    "general_hamming", "hamming", "hann", "kaiser", "nuttall",
]  # fmt: skip


def _cosines(weights: Sequence[float]) -> Callable[[int], Any]:
    """Cosines of whole multiples of one turn, with alternating signs."""

    def shape(count: int) -> Any:
        turn = np.linspace(0, 2 * np.pi, count)
        waves = [(-1) ** k * weight * np.cos(k * turn) for k, weight in enumerate(weights)]
        return np.sum(waves, axis=0) if count != 1 else np.ones(1)

    return shape


def _from_centre(count: int, center: float | None) -> Any:
    return np.arange(count) - ((count - 1) / 2 if center is None else center)


@makes_leaf
def general_cosine(
    M: int, *, a: Sequence[float], sym: bool = True, **options: Unpack[LeafOptions]
) -> Any:
    """Σ (−1)ᵏ a[k] cos(k t) over one turn.

    >>> general_cosine(3, a=[0.5, 0.5])
    tensor([0., 1., 0.])
    """
    if not len(a):
        raise ValueError("general_cosine needs at least one weight")
    return made_window(_cosines(list(a)), M, not sym, options)


@makes_leaf
def general_hamming(
    M: int, *, alpha: float = 0.54, sym: bool = True, **options: Unpack[LeafOptions]
) -> Any:
    """alpha − (1 − alpha)·cos, over one turn."""
    return made_window(_cosines([alpha, 1 - alpha]), M, not sym, options)


@makes_leaf
def hamming(M: int, *, sym: bool = True, **options: Unpack[LeafOptions]) -> Any:
    """0.54 − 0.46·cos, over one turn."""
    return made_window(_cosines([0.54, 0.46]), M, not sym, options)


@makes_leaf
def hann(M: int, *, sym: bool = True, **options: Unpack[LeafOptions]) -> Any:
    """½ − ½·cos, over one turn."""
    return made_window(_cosines([0.5, 0.5]), M, not sym, options)


@makes_leaf
def blackman(M: int, *, sym: bool = True, **options: Unpack[LeafOptions]) -> Any:
    """0.42 − 0.5·cos + 0.08·cos of twice the angle."""
    return made_window(_cosines([0.42, 0.5, 0.08]), M, not sym, options)


@makes_leaf
def nuttall(M: int, *, sym: bool = True, **options: Unpack[LeafOptions]) -> Any:
    """Four cosines that leave side lobes of −98 dB."""
    weights = [0.3635819, 0.4891775, 0.1365995, 0.0106411]
    return made_window(_cosines(weights), M, not sym, options)


@makes_leaf
def cosine(M: int, *, sym: bool = True, **options: Unpack[LeafOptions]) -> Any:
    """Half a turn of a sine."""
    shape = lambda count: np.sin(np.pi * (np.arange(count) + 0.5) / count)
    return made_window(shape, M, not sym, options)


@makes_leaf
def exponential(
    M: int,
    *,
    center: float | None = None,
    tau: float = 1.0,
    sym: bool = True,
    **options: Unpack[LeafOptions],
) -> Any:
    """exp(−|t − center| / tau)."""
    if tau <= 0 or (sym and center is not None):
        raise ValueError("exponential takes tau > 0, and a center only with sym=False")
    shape = lambda count: np.exp(-np.abs(_from_centre(count, center)) / tau)
    return made_window(shape, M, not sym, options)


@makes_leaf
def gaussian(M: int, *, std: float = 1.0, sym: bool = True, **options: Unpack[LeafOptions]) -> Any:
    """exp(−½ (t / std)²), from the centre."""
    if std <= 0:
        raise ValueError(f"gaussian: the standard deviation must be positive, not {std}")
    shape = lambda count: np.exp(-((_from_centre(count, None) / (std * math.sqrt(2))) ** 2))
    return made_window(shape, M, not sym, options)


@makes_leaf
def kaiser(M: int, *, beta: float = 12.0, sym: bool = True, **options: Unpack[LeafOptions]) -> Any:
    """A Kaiser window, narrower for a larger `beta`."""
    if beta < 0:
        raise ValueError(f"kaiser: beta must not be negative, and is {beta}")
    return made_window(lambda count: np.kaiser(count, beta), M, not sym, options)


@makes_leaf
def bartlett(M: int, *, sym: bool = True, **options: Unpack[LeafOptions]) -> Any:
    """A triangle."""
    return made_window(np.bartlett, M, not sym, options)
