"""How far the steps of an optimizer usually move each weight, and when a step goes much further."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence

import numpy as np

TIMES = 10.0  # a step this many times the usual one stands out
HARM = 0.1  # of a weight's norm: what one step, or several that stand out, may not move
WINDOW = 9  # measured steps whose median is the usual step
FEWEST = 3  # measured steps to see before judging any


Ratios = np.ndarray[tuple[int], np.dtype[np.float64]]


class UpdateHistory:
    """The updates of several weights, each divided by the weight's norm, measured now and then.

    The usual update is the largest median that a window of measured steps ever had: a step that
    returns to an earlier size, after a warm restart or a change of the data, does not stand out.
    """

    def __init__(self) -> None:
        self.usual: Ratios | None = None
        self.recent: Ratios | None = None  # the median of the last measured steps
        self._window: deque[Ratios] = deque(maxlen=WINDOW)

    def add(self, ratios: Sequence[float]) -> None:
        """Note the updates of one step."""
        row = np.asarray(ratios, np.float64)
        if self._window and len(self._window[0]) != len(row):  # parameters were added
            self._window.clear()
            self.usual = self.recent = None
        self._window.append(row)
        if len(self._window) >= FEWEST:
            self.recent = middle = np.median(np.stack(self._window), axis=0)
            self.usual = middle if self.usual is None else np.maximum(self.usual, middle)

    def standing_out(self, ratios: Sequence[float], times: float = TIMES) -> list[int]:
        """The positions of updates that are `times` the usual ones, largest first."""
        row = np.asarray(ratios, np.float64)
        if self.usual is None or len(row) != len(self.usual):
            return []
        found = np.flatnonzero((row > times * self.usual) & (self.usual > 0))
        return [int(k) for k in found[np.argsort(-row[found])]]


class LossHistory:
    """The losses of a training, and whether one jumps further than its noise explains.

    The excess of a loss is how far it lies above the median. Noise with heavy tails has excesses
    that dwarf the typical one, and its next record may be as far above the last record as that is
    above the typical excess; only a loss beyond that has jumped.
    """

    WINDOW = 128
    FEWEST = 32  # losses to see before judging any
    FIRST = 8  # losses at the start
    AGAIN = 16  # losses between two looks at the window

    def __init__(self) -> None:
        self._recent: deque[float] = deque(maxlen=self.WINDOW)
        self._first: list[float] = []
        self._limit = math.inf
        self._until = 0  # losses until the limit is computed again

    @property
    def usual(self) -> float:
        """The median of the last losses."""
        return float(np.median(self._recent)) if self._recent else 0.0

    @property
    def start(self) -> float:
        """The median of the first losses."""
        return float(np.median(self._first)) if self._first else 0.0

    def jumps(self, loss: float) -> bool:
        """Whether this loss has jumped; note it otherwise."""
        if len(self._recent) >= self.FEWEST and loss > self._limit:
            return True
        self._until -= 1
        self.add(loss)
        return False

    def add(self, loss: float) -> None:
        """Note a loss."""
        self._recent.append(loss)
        if len(self._first) < self.FIRST:
            self._first.append(loss)
        if len(self._recent) >= self.FEWEST and (self._until <= 0 or loss > self._limit):
            self._until = self.AGAIN
            self._limit = self._computed_limit()

    def _computed_limit(self) -> float:
        losses = sorted(self._recent)  # sorting so few is faster than NumPy's quantile
        middle = losses[len(losses) // 2]
        excesses = sorted(abs(loss - middle) for loss in losses)
        largest, typical = excesses[-1], excesses[3 * len(excesses) // 4]
        if not typical:
            return math.inf
        return middle + largest * max(3.0, largest / typical)
