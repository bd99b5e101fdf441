"""Line search for a step length that satisfies the strong Wolfe conditions."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
_NARROWEST = 1e-9  # of a bracket, as a change of a parameter


@dataclass
class LinePoint:
    """A step length, the loss there, its gradient, and the slope along the direction."""

    t: float
    loss: float
    gradient: Array
    slope: float


def strong_wolfe(
    evaluate: Callable[[float], tuple[float, Array]],
    t: float,
    direction: Array,
    loss: float,
    gradient: Array,
    slope: float,
    *,
    longest: int,
) -> tuple[float, Array, float]:
    """The loss and gradient at a good step length, and that length.

    As in PyTorch: first widen until a bracket contains a good point, then narrow by cubic
    interpolation.
    """

    def at(t: float) -> LinePoint:
        value, g = evaluate(t)
        return LinePoint(t, value, g, float(g @ direction))

    def too_high(point: LinePoint) -> bool:
        return point.loss > loss + 1e-4 * point.t * slope  # Armijo's condition

    def flat_enough(point: LinePoint) -> bool:
        return abs(point.slope) <= -0.9 * slope  # the curvature condition

    start = LinePoint(0.0, loss, gradient, slope)
    before, new = start, at(t)
    tries = 0
    while tries < longest:
        higher = too_high(new) or (tries > 1 and new.loss >= before.loss)
        if not higher and flat_enough(new):
            return new.loss, new.gradient, new.t
        if higher or new.slope >= 0:
            bracket = [before, new]
            break
        t = _cubic(before, new, (new.t + 0.01 * (new.t - before.t), new.t * 10))
        before, new = new, at(t)
        tries += 1
    else:
        bracket = [start, new]

    stuck = False
    low, high = _order(bracket)
    size = float(np.abs(direction).max())
    while tries < longest and abs(bracket[1].t - bracket[0].t) * size >= _NARROWEST:
        ends = sorted((bracket[0].t, bracket[1].t))
        t = _cubic(bracket[0], bracket[1], (ends[0], ends[1]))
        margin = 0.1 * (ends[1] - ends[0])
        if min(ends[1] - t, t - ends[0]) < margin:  # too close to an end to make progress
            if stuck or t >= ends[1] or t <= ends[0]:
                t = ends[1] - margin if abs(t - ends[1]) < abs(t - ends[0]) else ends[0] + margin
                stuck = False
            else:
                stuck = True
        else:
            stuck = False
        new = at(t)
        tries += 1
        if too_high(new) or new.loss >= bracket[low].loss:
            bracket[high] = new
            low, high = _order(bracket)
            continue
        done = flat_enough(new)
        if not done and new.slope * (bracket[high].t - bracket[low].t) >= 0:
            bracket[high] = bracket[low]
        bracket[low] = new
        if done:
            break
    best = bracket[low]
    return best.loss, best.gradient, best.t


def _order(bracket: list[LinePoint]) -> tuple[int, int]:
    """The positions of the lower and the higher end."""
    return (0, 1) if bracket[0].loss <= bracket[1].loss else (1, 0)


def _cubic(a: LinePoint, b: LinePoint, bounds: tuple[float, float]) -> float:
    """The minimum of the cubic through both points with their slopes, clipped to the bounds."""
    d1 = a.slope + b.slope - 3 * (a.loss - b.loss) / (a.t - b.t)
    square = d1 * d1 - a.slope * b.slope
    if not square >= 0:
        return (bounds[0] + bounds[1]) / 2
    d2 = math.sqrt(square)
    near, far = (a, b) if a.t <= b.t else (b, a)
    width = far.slope - near.slope + 2 * d2
    if width == 0:
        return (bounds[0] + bounds[1]) / 2
    lowest = far.t - (far.t - near.t) * ((far.slope + d2 - d1) / width)
    return min(max(lowest, bounds[0]), bounds[1])
