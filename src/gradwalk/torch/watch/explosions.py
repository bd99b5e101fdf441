"""Decide whether a gradient has exploded, by the median of earlier norms: spikes do not count."""

from __future__ import annotations

import math
import statistics
from collections import deque

WINDOW = 64  # steps whose norms define the usual norm
FEWEST = 3  # steps to see before judging any


class GradientHistory:
    """The gradient norms of one optimizer, step after step.

    A gradient has exploded if its norm exceeds `factor` times the usual norm and `floor`. The
    usual norm is the median of the last steps, or of the first steps if that is larger: a gradient
    that returns to its first size has not exploded. During `warmup` the square of the factor
    applies.
    """

    def __init__(self, factor: float, warmup: int, floor: float) -> None:
        self.factor = factor
        self.warmup = max(warmup, FEWEST)
        self.floor = floor
        self._recent: deque[float] = deque(maxlen=WINDOW)
        self._first: list[float] = []

    @property
    def usual(self) -> float:
        """The norm that gradients are compared with; 0 before the first step."""
        if not self._first:
            return 0.0
        return max(statistics.median(self._recent), statistics.median(self._first))

    def has_exploded(self, norm: float) -> bool:
        """Whether a gradient of this norm has exploded."""
        # Almost always this decides, without computing a median.
        if len(self._first) < FEWEST or norm <= self.floor:
            return False
        judged = len(self._first) >= self.warmup
        factor = self.factor if judged else self.factor**2
        return math.isfinite(factor) and norm > factor * self.usual

    def add(self, norm: float) -> None:
        """Note the norm of a gradient that the optimizer stepped with."""
        self._recent.append(norm)
        if len(self._first) < self.warmup:
            self._first.append(norm)
