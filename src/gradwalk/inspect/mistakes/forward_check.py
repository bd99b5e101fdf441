"""What else gradcheck is asked for: forward mode, and PyTorch's options that change nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gradwalk.engine import gradients
from gradwalk.engine.modes import no_grad
from gradwalk.engine.transforms import jvp
from gradwalk.inspect.mistakes.differences import (
    Function,
    Tolerance,
    is_checked,
    numbers,
    outputs_of,
)
from gradwalk.ops.core.dtypes import is_complex_dtype
from gradwalk.scalar.value import Value

# Options of PyTorch's checks that change nothing here.
OPTIONS = {
    "check_batched_forward_grad", "check_batched_grad", "check_fwd_over_rev", "check_grad_dtypes",
    "check_rev_over_rev", "check_undefined_grad", "fast_mode", "gen_non_contig_grad_outputs",
    "masked",
}  # fmt: skip


def known_options(asked: str, given: dict[str, Any]) -> None:
    if unknown := given.keys() - OPTIONS:
        raise TypeError(f"{asked}() got an unexpected keyword argument '{min(unknown)}'")


def forward_fault(func: Function, inputs: Sequence[Any], tolerance: Tolerance) -> str:
    """What is wrong with how the outputs of `func` move when all checked inputs move along one
    random direction; "" if nothing is."""
    if any(isinstance(x, Value) for x in inputs):
        raise TypeError("forward mode is checked of tensors, not of Values")
    places = [i for i, x in enumerate(inputs) if is_checked(x)]

    def outputs(*moved: Any) -> tuple[Any, ...]:
        given = list(inputs)
        for place, x in zip(places, moved, strict=True):
            given[place] = x
        return tuple(outputs_of(func, given))

    points = tuple(inputs[i].detach() for i in places)
    source = np.random.default_rng(0)
    along = tuple(gradients.wrap(_direction(source, x)) for x in points)
    _, tangents = jvp(outputs, points, along)
    with no_grad():
        step = tolerance.eps
        ahead = outputs(*(x + step * d for x, d in zip(points, along, strict=True)))
        behind = outputs(*(x - step * d for x, d in zip(points, along, strict=True)))
    for place, (tangent, high, low) in enumerate(zip(tangents, ahead, behind, strict=True)):
        right = (numbers(high) - numbers(low)) / (2 * step)
        given = numbers(tangent)
        if not np.allclose(given, right, tolerance.rtol, tolerance.atol, equal_nan=True):
            worst = np.unravel_index(np.abs(given - right).argmax(), given.shape)
            return (
                f"the tangent of output {place} is wrong.\n  worst element: {[*map(int, worst)]}\n"
                f"  forward mode:  {given[worst]:g}\n  numeric:       {right[worst]:g}  (central "
                f"differences, eps = {step:g})"
            )
    return ""


def _direction(source: np.random.Generator, like: Any) -> Any:
    drawn: Any = source.uniform(0.5, 1.5, like.shape)
    if is_complex_dtype(like.dtype):
        drawn = drawn + 1j * source.uniform(0.5, 1.5, like.shape)
    return np.asarray(drawn, like.dtype)
