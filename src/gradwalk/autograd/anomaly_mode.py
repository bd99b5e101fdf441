"""Anomaly detection: backward stops at the first operation whose gradient is NaN."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np

from gradwalk.engine import gradients
from gradwalk.engine.errors import AutogradError, made_at, name_of
from gradwalk.graph.abstract import numbers_of
from gradwalk.graph.source import source_line


def _refuse_nan(node: Any, g: Any, contributions: Sequence[Any]) -> None:
    """Raise if a gradient that this visit passes on has a NaN."""
    for position, contribution in enumerate(contributions):
        if isinstance(contribution, np.generic):  # NumPy's form of an array of no dimensions
            contribution = np.asarray(contribution)
        numbers = numbers_of(contribution)
        if numbers is None or not np.isnan(numbers).any():
            continue
        error = AutogradError(
            f"Function '{node.name()}' returned nan values in its {position}th output: the "
            f"gradient that {name_of(node)} passes to its input {position}.\n"
            f"  made at:   {made_at(node)}\n"
            "Fix: gradwalk.find_nan tells which operation made the first NaN, and why."
        )
        error.gradwalk_line = source_line(node.code, node.position)
        raise error


class detect_anomaly:
    """Inside, backward raises an error at the first gradient that is NaN, with its line.

    Errors of gradwalk name the lines of the forward pass anyway; this costs a look at every
    gradient.

    >>> import gradwalk as gw
    >>> x = gw.tensor(0.0, requires_grad=True)
    >>> with gw.autograd.detect_anomaly():
    ...     (x.sqrt() * 0).backward()
    Traceback (most recent call last):
    ...
    gradwalk.engine.errors.AutogradError: Function 'SqrtBackward0' returned nan values ...
    """

    def __init__(self, check_nan: bool = True) -> None:
        self.wanted = _refuse_nan if check_nan else None

    def __enter__(self) -> Self:
        self.before = gradients.step_check
        gradients.step_check = self.wanted
        return self

    def __exit__(self, *exception: Any) -> None:
        gradients.step_check = self.before


class set_detect_anomaly(detect_anomaly):
    """Switch anomaly detection on or off, until the end of a `with` or for good."""

    def __init__(self, mode: bool, check_nan: bool = True) -> None:
        super().__init__(mode and check_nan)
        super().__enter__()

    def __enter__(self) -> Self:
        return self
