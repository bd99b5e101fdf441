"""How the loss went: fell, stayed, rose, or became NaN."""

from __future__ import annotations

import math
import statistics
from typing import NamedTuple

from gradwalk.inspect.report import short

FALLS, STUCK, RISES, LOST, UNKNOWN = "falls", "stuck", "rises", "NaN", "unknown"
FEWEST = 6  # steps to judge
SHARE = 0.25  # of the steps: the beginning and the end that are compared
LEAST = 0.02  # relative change that counts, if it is above the noise
CLEAR = 0.2  # relative fall that is no standstill, even if it is below the noise
RISEN = 1.5  # times the first loss
SPIKED = 10.0  # times the largest of the first losses, by the last


class LossVerdict(NamedTuple):
    """How the loss went."""

    kind: str
    text: str
    fallen: float = 0.0  # the share of the first loss that is gone


def verdict(losses: list[float]) -> LossVerdict:
    """Compare the losses at the end with those at the beginning."""
    if not losses:
        return LossVerdict(UNKNOWN, "")
    told = f"{short(losses[0])} at the first step, {short(losses[-1])} at the last"
    if not all(map(math.isfinite, losses)):
        where = next(i for i, loss in enumerate(losses) if not math.isfinite(loss))
        return LossVerdict(LOST, f"{told}; not finite from step {where} on")
    if len(losses) < FEWEST:
        return LossVerdict(UNKNOWN, told)
    part = max(2, int(len(losses) * SHARE))
    begin, end = losses[:part], losses[-part:]
    first, last = statistics.median(begin), statistics.median(end)
    spread = statistics.pstdev(end)
    noise = 3 * math.hypot(statistics.pstdev(begin), spread) / math.sqrt(part)
    if losses[0] > max(end) and losses[0] - last > 4 * spread:  # it fell before `begin` ended
        first, noise = max(first, losses[0]), 0.0
    size = max(abs(first), 1e-30)
    if last - first > max((RISEN - 1) * size, noise) or losses[-1] > SPIKED * max(map(abs, begin)):
        return LossVerdict(RISES, f"{told}: it rises")
    if first - last > max(LEAST * size, noise):
        return LossVerdict(FALLS, f"{told}: it falls", (first - last) / size)
    if first - last > CLEAR * size:
        return LossVerdict(UNKNOWN, f"{told}: less than it differs from step to step")
    return LossVerdict(STUCK, f"{told}: it does not fall")
