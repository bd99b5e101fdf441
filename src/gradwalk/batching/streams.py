"""BatchedStream: random numbers inside vmap, the same for all samples or different ones."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from gradwalk.batching.lanes import spread
from gradwalk.ops.reduce.sorting import argsort
from gradwalk.ops.shape.reshaping import broadcast_to

if TYPE_CHECKING:
    from gradwalk.batching.level import Level

Size = tuple[int, ...]


class BatchedStream:
    """A random.Stream that draws for all samples of a level at once."""

    def __init__(self, level: Level, stream: Any) -> None:
        self.level = level
        self.stream = stream
        self.is_pytorchs: bool = stream.is_pytorchs

    def get_state(self) -> dict[str, Any]:
        """Everything needed to continue the stream from here."""
        state: dict[str, Any] = self.stream.get_state()
        return state

    def _drawn(self, size: Any, draw: Any) -> Any:
        level = self.level
        level.check_draws()
        shape = tuple(int(n) for n in size)
        if level.randomness == "same":
            return draw(shape)
        return level.batched(draw((level.size, *shape)))

    def uniform(self, size: Any, *options: Any) -> Any:
        """Uniform numbers."""
        return self._drawn(size, lambda shape: self.stream.uniform(shape, *options))

    def normal(self, size: Any, *options: Any) -> Any:
        """Normal numbers."""
        return self._drawn(size, lambda shape: self.stream.normal(shape, *options))

    def each_normal(self, size: Any, mean: float, std: float) -> Any:
        """Normals one by one, of PyTorch's stream."""
        return self._drawn(size, lambda shape: self.stream.each_normal(shape, mean, std))

    def exponential(self, size: Any, *options: Any) -> Any:
        """Exponential numbers."""
        return self._drawn(size, lambda shape: self.stream.exponential(shape, *options))

    def integers(self, low: int, high: int, size: Any) -> Any:
        """Integers from `low` to below `high`."""
        return self._drawn(size, lambda shape: self.stream.integers(low, high, shape))

    def permutation(self, n: int) -> Any:
        """An order of 0 to n − 1."""
        if self.level.randomness == "different":
            return argsort(self.uniform((n,), np.float64), 0)
        return self._drawn((n,), lambda shape: self.stream.permutation(n))

    def bernoulli(self, p: Any, size: Any) -> Any:
        """1 with probability p, a number or an array of them, else 0."""
        if not hasattr(p, "shape"):
            return self._drawn(size, lambda shape: self.stream.bernoulli(p, shape))
        if self.level.randomness == "same":
            return self.uniform(size, p.dtype) < p
        chances = self.level.values(None, [p])[0]  # type: ignore[arg-type]

        def draw(shape: Size) -> Any:
            each = broadcast_to(spread(chances, shape[0], len(shape) - 1), shape)
            return self.stream.bernoulli(getattr(each, "_array", each), shape)

        return self._drawn(size, draw)
