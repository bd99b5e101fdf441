"""PyTorch's random numbers on the CPU: the Mersenne Twister and PyTorch's use of its words.

With the same seed, draws equal PyTorch's, so that published notebooks reproduce. The twister itself
is NumPy's; this module turns its 32-bit words into floats, normals, integers and orders.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Literal, Self

import numpy as np

Array = np.ndarray[Any, Any]

BLOCK = 16  # normals are made in blocks: 8 radii and 8 angles


class MersenneStream:
    """The draws of `PhiloxStream`, with PyTorch's numbers."""

    is_pytorchs: Literal[True] = True

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.twister = np.random.MT19937()
        self.twister._legacy_seeding(seed % 2**32)
        self.next_normal: float | None = None  # normals come in pairs; the second one waits

    def _words(self, count: int) -> Array:
        return np.asarray(self.twister.random_raw(count), np.uint64)

    def _long_words(self, count: int) -> Array:
        words = self._words(2 * count)
        return (words[0::2] << np.uint64(32)) | words[1::2]

    def _uniform(self, count: int, dtype: Any) -> Array:
        """24 bits of a word for float32, 53 of two for float64."""
        if np.dtype(dtype) == np.float32:
            return ((self._words(count) & np.uint64(2**24 - 1)) * 2.0**-24).astype(np.float32)
        return self.long_uniform(count)

    def long_uniform(self, count: int) -> Array:
        """Uniform in [0, 1), in float64."""
        return (self._long_words(count) & np.uint64(2**53 - 1)) * 2.0**-53

    def uniform(self, size: Any, dtype: Any, low: float = 0.0, high: float = 1.0) -> Array:
        """Uniform from `low` to below `high`."""
        out = self._uniform(math.prod(size), dtype)
        if (low, high) != (0, 1):
            kind = out.dtype.type
            # PyTorch multiplies and adds with one rounding; float64 arithmetic does the
            # same for float32.
            width, start = np.float64(kind(high) - kind(low)), np.float64(kind(low))
            out = (out * width + start).astype(out.dtype)
        return out.reshape(size)

    def exponential(self, size: Any, dtype: Any) -> Array:
        """Exponential of rate 1."""
        return -np.log1p(-self._uniform(math.prod(size), np.float64)).astype(dtype).reshape(size)

    def normal(
        self, size: Any, dtype: Any, mean: float = 0.0, std: float = 1.0, half: bool = False
    ) -> Array:
        """Box and Muller's normals: in blocks of 16, or one by one for fewer than 16.

        For `half` precision, the numbers of a last block that is not full are not drawn twice.
        """
        count = math.prod(size)
        if count < BLOCK:
            return self.each_normal(size, mean, std).astype(dtype)
        whole = count - count % BLOCK
        values = np.empty(count, dtype)
        values[: whole if half else count] = self._uniform(whole if half else count, dtype)
        _to_normals(values[:whole])
        if count % BLOCK:  # the last 16 are drawn again
            values[-BLOCK:] = self._uniform(BLOCK, dtype)
            _to_normals(values[-BLOCK:])
        if (mean, std) != (0, 1):
            values *= values.dtype.type(std)
            values += values.dtype.type(mean)
        return values.reshape(size)

    def each_normal(self, size: Any, mean: float, std: float) -> Array:
        """Normals one by one, in float64."""
        drawn = [self.one_normal() * std + mean for _ in range(math.prod(size))]
        return np.array(drawn, np.float64).reshape(size)

    def one_normal(self, uniform: Callable[[], float] | None = None) -> float:
        """The next normal of float64, from numbers that `uniform` may have drawn ahead."""
        if self.next_normal is not None:
            waiting, self.next_normal = self.next_normal, None
            return waiting
        u1, u2 = self.long_uniform(2).tolist() if uniform is None else (uniform(), uniform())
        radius, angle = math.sqrt(-2.0 * math.log1p(-u2)), 2.0 * math.pi * u1
        self.next_normal = radius * math.sin(angle)
        return radius * math.cos(angle)

    def bernoulli(self, p: float | Array, size: Any) -> Array:
        """True with probability p: 53 bits decide, but 24 if p is an array of shorter floats."""
        short = isinstance(p, np.ndarray) and p.dtype != np.float64
        dtype = np.float32 if short else np.float64
        return np.asarray(self._uniform(math.prod(size), dtype).reshape(size) < p)

    def integers(self, low: int, high: int, size: Any) -> Array:
        """A word (two for a range of 2²⁸ or more) modulo the range, as int64."""
        span = int(high) - int(low)
        count = math.prod(size)
        words = self._long_words(count) if span >= 2**28 else self._words(count)
        if span < 2**64:
            words %= np.uint64(span)
        out = words.view(np.int64)
        out += low
        return out.reshape(size)

    def permutation(self, n: int) -> Array:
        """Swap each position in turn with a random one at or after it."""
        order = np.arange(n)
        swaps = self._words(max(n - 1, 0)) % np.arange(n, 1, -1, dtype=np.uint64)
        for place, ahead in enumerate(swaps.tolist()):
            other = place + ahead
            order[place], order[other] = order[other], order[place]
        return order

    def get_state(self) -> dict[str, Any]:
        """Everything needed to continue from here."""
        inside = self.twister.state["state"]
        return {
            "seed": self.seed,
            "words": inside["key"].tolist(),
            "position": int(inside["pos"]),
            "next_normal": self.next_normal,
        }

    @classmethod
    def of_state(cls, state: dict[str, Any]) -> Self:
        """Restore a stream from the result of `get_state`."""
        stream = cls(int(state["seed"]))
        key = np.array(state["words"], np.uint32)
        inside: Any = {"key": key, "pos": int(state["position"])}
        stream.twister.state = {"bit_generator": "MT19937", "state": inside}
        stream.next_normal = state["next_normal"]
        return stream


def _to_normals(uniform: Array) -> None:
    """Turn blocks of 16 uniform numbers into normals, in place: 8 radii and 8 angles."""
    blocks = uniform.reshape(-1, 2, BLOCK // 2)  # (blocks, radius and angle, 8)
    one, two_pi = uniform.dtype.type(1), uniform.dtype.type(2 * math.pi)
    radius = np.sqrt(-2 * np.log(one - blocks[:, 0]))
    angle = two_pi * blocks[:, 1]
    blocks[:, 0] = radius * np.cos(angle)
    blocks[:, 1] = radius * np.sin(angle)
