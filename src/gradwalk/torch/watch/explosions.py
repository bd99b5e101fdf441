"""When a gradient is far above what it has been: judged by the median, so that spikes are not."""

from __future__ import annotations

import math
import statistics
from collections import deque

WINDOW = 64  # steps that the usual length of the gradient is taken from
FEWEST = 3  # steps before anything is judged


class GradientHistory:
    """The lengths of one optimizer's gradients, step after step.

    A gradient has exploded if it is `factor` times as long as is usual and longer than `floor`.
    Usual is the median of the last steps, or of the first ones if that is more: a gradient that
    comes back to where it began is none. While there are few steps to judge by (`warmup`), it
    takes the square of the factor.
    """

    def __init__(self, factor: float, warmup: int, floor: float) -> None:
        self.factor = factor
        self.warmup = max(warmup, FEWEST)
        self.floor = floor
        self._recent: deque[float] = deque(maxlen=WINDOW)
        self._first: list[float] = []

    @property
    def usual(self) -> float:
        """The length that a gradient is compared with; 0 before the first step."""
        if not self._first:
            return 0.0
        return max(statistics.median(self._recent), statistics.median(self._first))

    def has_exploded(self, norm: float) -> bool:
        """Whether a gradient of this length is no gradient to step with."""
        # Almost always this decides, without a median.
        if len(self._first) < FEWEST or norm <= self.floor:
            return False
        judged = len(self._first) >= self.warmup
        factor = self.factor if judged else self.factor**2
        return math.isfinite(factor) and norm > factor * self.usual

    def add(self, norm: float) -> None:
        """A step was made with a gradient of this length."""
        self._recent.append(norm)
        if len(self._first) < self.warmup:
            self._first.append(norm)
