"""PyTorch's stream of random numbers on the CPU: the Mersenne Twister, used the way it uses it.

With the same seed, `rand`, `randn`, `randint` and `randperm` give PyTorch's numbers, so that
published notebooks reproduce. The twister itself is NumPy's; here is how its 32-bit words become
floats, normals, integers and orders.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

BLOCK = 16  # normals are made in blocks: 8 radii and 8 angles


class MersenneStream:
    """The methods of `np.random.Generator` that gradwalk uses, with PyTorch's numbers."""

    def __init__(self, seed: int) -> None:
        self.twister = np.random.MT19937()
        self.twister._legacy_seeding(seed % 2**32)
        self.next_normal: float | None = None  # normals come in pairs; the second one waits

    def _words(self, count: int) -> np.ndarray[Any, Any]:
        return np.asarray(self.twister.random_raw(count), np.uint64)

    def _doubles(self, count: int) -> np.ndarray[Any, Any]:
        words = self._words(2 * count)
        joined = (words[0::2] << np.uint64(32)) | words[1::2]
        return (joined & np.uint64(2**53 - 1)) * 2.0**-53

    def _uniform(self, count: int, dtype: Any) -> np.ndarray[Any, Any]:
        if np.dtype(dtype) == np.float32:
            return ((self._words(count) & np.uint64(2**24 - 1)) * 2.0**-24).astype(np.float32)
        return self._doubles(count)

    def random(self, size: Any, dtype: Any = np.float64) -> np.ndarray[Any, Any]:
        """Uniform in [0, 1): 24 bits of a word for float32, 53 of two for float64."""
        return self._uniform(math.prod(size), dtype).reshape(size)

    def standard_normal(self, size: Any, dtype: Any = np.float64) -> np.ndarray[Any, Any]:
        """Box and Muller's normals: in blocks of 16, or one by one for fewer than 16."""
        count = math.prod(size)
        if count < BLOCK:
            found = np.array([self._one_normal() for _ in range(count)], dtype)
            return found.reshape(size)
        values = self._uniform(count, dtype)
        whole = count - count % BLOCK
        _to_normals(values[:whole])
        if count % BLOCK:  # the last 16 are drawn again
            values[-BLOCK:] = self._uniform(BLOCK, dtype)
            _to_normals(values[-BLOCK:])
        return values.reshape(size)

    def _one_normal(self) -> float:
        if self.next_normal is not None:
            waiting, self.next_normal = self.next_normal, None
            return waiting
        u1, u2 = self._doubles(2).tolist()
        radius, angle = math.sqrt(-2.0 * math.log1p(-u2)), 2.0 * math.pi * u1
        self.next_normal = radius * math.sin(angle)
        return radius * math.cos(angle)

    def integers(self, low: int, high: int, size: Any, dtype: Any) -> np.ndarray[Any, Any]:
        """A word (two for a range of 2²⁸ or more) modulo the range."""
        span = int(high) - int(low)
        count = math.prod(size)
        if span >= 2**28:
            words = self._words(2 * count)
            words = (words[0::2] << np.uint64(32)) | words[1::2]
        else:
            words = self._words(count)
        return ((words % np.uint64(span)).astype(np.int64) + int(low)).astype(dtype).reshape(size)

    def permutation(self, n: int) -> np.ndarray[Any, Any]:
        """Each place in turn is swapped with a random one at or after it."""
        order = np.arange(n)
        swaps = self._words(max(n - 1, 0)) % np.arange(n, 1, -1, dtype=np.uint64)
        for place, ahead in enumerate(swaps.tolist()):
            other = place + ahead
            order[place], order[other] = order[other], order[place]
        return order

    def get_state(self) -> dict[str, Any]:
        """Everything needed to continue from here."""
        return {"twister": self.twister.state, "next_normal": self.next_normal}

    def set_state(self, state: dict[str, Any]) -> None:
        """Continue from what `get_state` returned."""
        self.twister.state = state["twister"]
        self.next_normal = state["next_normal"]


def _to_normals(uniform: np.ndarray[Any, Any]) -> None:
    """Blocks of 16 uniform numbers to normals in place: 8 give the radius, 8 the angle."""
    blocks = uniform.reshape(-1, 2, BLOCK // 2)  # (blocks, radius and angle, 8)
    one, two_pi = uniform.dtype.type(1), uniform.dtype.type(2 * math.pi)
    radius = np.sqrt(-2 * np.log(one - blocks[:, 0]))
    angle = two_pi * blocks[:, 1]
    blocks[:, 0] = radius * np.cos(angle)
    blocks[:, 1] = radius * np.sin(angle)
