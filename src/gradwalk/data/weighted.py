"""Orders of some indices, or of all with weights."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gradwalk.data.sampler import RandomSampler
from gradwalk.random.generator import Generator
from gradwalk.random.sampling import multinomial
from gradwalk.tensors.apply import wrap


class SubsetRandomSampler(RandomSampler):
    """The given indices, in a new random order every time.

    >>> import gradwalk as gw
    >>> sorted(gw.data.SubsetRandomSampler([5, 2, 9]))
    [2, 5, 9]
    """

    def __init__(self, indices: Sequence[int], generator: Generator | None = None) -> None:
        super().__init__(indices, generator=generator)
        self.indices = indices

    def _order(self, draw: Generator) -> list[int]:
        order = draw.stream.permutation(len(self.indices)).tolist()
        return [self.indices[i] for i in order]


class WeightedRandomSampler(RandomSampler):
    """Indices drawn with the given weights, which need not add up to 1.

    >>> import gradwalk as gw
    >>> list(gw.data.WeightedRandomSampler([0.0, 3.0, 0.0], num_samples=2))
    [1, 1]
    """

    def __init__(
        self,
        weights: Sequence[float],
        num_samples: int,
        replacement: bool = True,
        generator: Generator | None = None,
    ) -> None:
        if not isinstance(num_samples, int) or isinstance(num_samples, bool) or num_samples <= 0:
            raise ValueError(f"num_samples must be a positive integer, not {num_samples!r}")
        if not isinstance(replacement, bool):
            raise ValueError(f"replacement is True or False, not {replacement!r}")
        self.weights: Any = wrap(np.asarray(weights, dtype=np.float64))
        if self.weights.ndim != 1:
            raise ValueError(f"weights are a sequence, not of shape {self.weights.shape}")
        super().__init__(self.weights, replacement, num_samples, generator)

    def _order(self, draw: Generator) -> list[int]:
        drawn = multinomial(self.weights, self.num_samples, self.replacement, generator=draw)
        return drawn.tolist()
