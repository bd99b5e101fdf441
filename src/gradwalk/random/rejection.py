"""PyTorch's gamma, Poisson and binomial numbers on the CPU: rejection, one number after the other.

How many words of the stream a number takes depends on the words. The methods are those of Marsaglia
and Tsang (gamma, 2000) and of Hörmann (Poisson and binomial by transformed rejection, 1993), with
PyTorch's constants and its order of draws.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from gradwalk.random.mersenne import MersenneStream

Array = np.ndarray[Any, Any]
_CHUNK = 1 << 12  # uniform numbers drawn at once
_THIRD, _SQUEEZE = float(np.float32(1) / np.float32(3)), float(np.float32(0.0331))
_ENOUGH = 10.0  # the expected count from which on rejection is used


class _OneByOne:
    """Uniform and normal numbers of float64, one at a time; drawn ahead in chunks."""

    def __init__(self, stream: MersenneStream) -> None:
        self.stream = stream
        self.ahead: Iterator[float] = iter(())
        self.before: Any = None  # the state of the twister before the chunk
        self.used = 0

    def uniform(self) -> float:
        """Uniform in [0, 1)."""
        found = next(self.ahead, None)
        if found is None:
            self.before, self.used = self.stream.twister.state, 0
            self.ahead = iter(self.stream.long_uniform(_CHUNK).tolist())
            found = next(self.ahead)
        self.used += 1
        return found

    def give_back(self) -> None:
        """Leave the stream behind the last number that was used."""
        if self.before is not None:
            self.stream.twister.state = self.before
            self.stream.long_uniform(self.used)


@contextmanager
def _numbers(stream: MersenneStream) -> Iterator[_OneByOne]:
    drawn = _OneByOne(stream)
    try:
        yield drawn
    finally:
        drawn.give_back()


def gammas(stream: MersenneStream, concentration: Array) -> Array:
    """Gamma numbers of rate 1 in the dtype of the concentrations."""
    kind = concentration.dtype.type
    least = float(np.finfo(concentration.dtype).tiny)
    with _numbers(stream) as drawn:
        out = [max(_gamma(drawn, a, kind), least) for a in concentration.reshape(-1)]
    return np.array(out, concentration.dtype).reshape(concentration.shape)


def _gamma(drawn: _OneByOne, concentration: Any, kind: Any) -> float:
    scale = 1.0
    if concentration < 1:  # a number of concentration + 1, times a power
        if concentration == 0:
            return 0.0
        scale = (1 - drawn.uniform()) ** float(kind(1) / concentration)
        concentration = concentration + kind(1)
    d = float(concentration - kind(_THIRD))
    c = 1 / math.sqrt(9 * d)
    while True:
        x = drawn.stream.one_normal(drawn.uniform)
        y = 1 + c * x
        if y <= 0:
            continue
        v = y * y * y
        u = 1 - drawn.uniform()
        if u < 1 - _SQUEEZE * x**4 or math.log(u) < 0.5 * x * x + d * (1 - v + math.log(v)):
            return scale * d * v


def poissons(stream: MersenneStream, rate: Array) -> Array:
    """Counts of events that happen at these rates."""
    with _numbers(stream) as drawn:
        out = [_poisson(drawn.uniform, r) for r in rate.reshape(-1).tolist()]
    return np.array(out, rate.dtype).reshape(rate.shape)


def _poisson(uniform: Callable[[], float], rate: float) -> float:
    if rate == 0:
        return 0
    if not rate >= _ENOUGH:  # multiply uniform numbers until the product is below e^−rate
        limit, product, count = math.exp(-rate), 1.0, 0
        while (product := product * uniform()) > limit:
            count += 1
        return count
    log_rate = math.log(rate)
    b = 0.931 + 2.53 * math.sqrt(rate)
    a = -0.059 + 0.02483 * b
    inverse_alpha = 1.1239 + 1.1328 / (b - 3.4)
    v_r = 0.9277 - 3.6224 / (b - 2)
    while True:
        u = uniform() - 0.5
        v = uniform()
        us = 0.5 - abs(u)
        k = math.floor((2 * a / us + b) * u + rate + 0.43) if us else -1
        if us >= 0.07 and v <= v_r:
            return k
        if k < 0 or (us < 0.013 and v > us):
            continue
        height = _log(v) + math.log(inverse_alpha) - math.log(a / (us * us) + b)
        if height <= -rate + k * log_rate - math.lgamma(k + 1):
            return k


def binomials(stream: MersenneStream, count: Array, p: Array) -> Array:
    """How many of `count` trials succeed, each with probability p."""
    pairs = zip(count.reshape(-1).tolist(), p.reshape(-1).tolist(), strict=True)
    with _numbers(stream) as drawn:
        out = [_binomial(drawn.uniform, n, one, p.dtype.type) for n, one in pairs]
    return np.array(out, p.dtype).reshape(p.shape)


def _binomial(uniform: Callable[[], float], n: float, p: float, kind: Any) -> float:
    if n <= 0 or p <= 0:
        return 0
    if p >= 1:
        return n
    if not p <= 0.5:
        return n - _below_half(uniform, n, float(kind(1 - p))) if p == p else math.nan
    return _below_half(uniform, n, p)


def _below_half(uniform: Callable[[], float], n: float, p: float) -> float:
    if n * p >= _ENOUGH:
        return _by_rejection(uniform, n, p)
    trials, successes, log_q = 0.0, 0, math.log1p(-p)
    while (trials := trials + math.ceil(_log(uniform()) / log_q)) <= n:
        successes += 1  # after so many trials
    return successes


def _by_rejection(uniform: Callable[[], float], n: float, p: float) -> float:
    spread = math.sqrt(n * p * (1 - p))
    b = 1.15 + 2.53 * spread
    a = -0.0873 + 0.0248 * b + 0.01 * p
    v_r = 0.92 - 4.2 / b
    odds = p / (1 - p)
    alpha = (2.83 + 5.1 / b) * spread
    m = math.floor((n + 1) * p)
    while True:
        u = uniform() - 0.5
        v = uniform()
        us = 0.5 - abs(u)
        k = math.floor((2 * a / us + b) * u + n * p + 0.5) if us else -1
        if k < 0 or k > n:
            continue
        if us >= 0.07 and v <= v_r:
            return k
        bound = (
            (m + 0.5) * math.log((m + 1) / (odds * (n - m + 1)))
            + (n + 1) * math.log((n - m + 1) / (n - k + 1))
            + (k + 0.5) * math.log(odds * (n - k + 1) / (k + 1))
            + _tail(m) + _tail(n - m) - _tail(k) - _tail(n - k)
        )  # fmt: skip
        if _log(v * alpha / (a / (us * us) + b)) <= bound:
            return k


def _tail(k: float) -> float:
    """What Stirling's formula leaves of log k!."""
    if k <= 9:
        return math.lgamma(k + 1) - (
            0.5 * math.log(2 * math.pi) + (k + 0.5) * math.log(k + 1) - (k + 1)
        )
    square = (k + 1) ** 2
    return (1 / 12 - (1 / 360 - 1 / 1260 / square) / square) / (k + 1)


def _log(x: float) -> float:
    return math.log(x) if x else -math.inf
