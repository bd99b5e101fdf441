"""Estimates of a derivative from samples: second-order differences."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gradwalk.ops.core.dtypes import get_default_dtype, has_gradients, promote_types
from gradwalk.ops.core.halves import rounds_once
from gradwalk.ops.core.public import public
from gradwalk.ops.reduce.statistics import diff
from gradwalk.ops.shape.reshaping import cast, cat, full_axes, getitem_slice, reshape


@public()
@rounds_once
def gradient(
    input: Any, *, spacing: Any = None, dim: int | Sequence[int] | None = None, edge_order: int = 1
) -> tuple[Any, ...]:
    """The slope along each dimension at every sample, from its neighbours; one tensor for each.

    `spacing` is the distance between samples, one for each dimension, or the samples' coordinates.

    >>> import gradwalk as gw
    >>> gw.gradient(gw.tensor([1.0, 4.0, 9.0, 16.0]))[0]
    tensor([3., 4., 6., 7.])
    """
    axes = full_axes(input, dim)
    if edge_order not in (1, 2):
        raise ValueError(f"gradient: edge_order is 1 or 2, not {edge_order}")
    if spacing is None or isinstance(spacing, (int, float, complex)):
        steps = [1.0 if spacing is None else spacing] * len(axes)
    else:
        steps = [spacing] if hasattr(spacing, "shape") else list(spacing)
    if len(steps) != len(axes):
        raise ValueError(f"gradient: {len(steps)} spacing(s) for {len(axes)} dimension(s)")
    for axis, step in zip(axes, steps, strict=True):
        if input.shape[axis] <= edge_order:
            raise ValueError(
                f"gradient: dimension {axis} of shape {tuple(input.shape)} needs at least "
                f"{edge_order + 1} samples"
            )
        if hasattr(step, "shape") and tuple(step.shape) not in ((), (input.shape[axis],)):
            raise ValueError(f"gradient: dimension {axis} needs a coordinate for each sample")
    x = input if has_gradients(input.dtype) else cast(input, dtype=get_default_dtype())
    return tuple(_slope(x, axis, step, edge_order) for axis, step in zip(axes, steps, strict=True))


def _slope(x: Any, axis: int, step: Any, edge_order: int) -> Any:
    count = x.shape[axis] - 1

    def part(values: Any, start: int, stop: int) -> Any:
        return getitem_slice(values, axis, start, stop)

    if getattr(step, "ndim", 0):
        x = cast(x, dtype=promote_types(x.dtype, step.dtype))  # before neighbours are subtracted
        along = tuple(count if i == axis else 1 for i in range(x.ndim))
        widths = reshape(diff(step), shape=along)
        before, after = part(widths, 0, count - 1), part(widths, 1, count)
        share = before / (before + after)
        slopes = diff(x, dim=axis) / widths  # between neighbours
    else:
        share = 0.5
        slopes = diff(x, dim=axis) / step
    left, right = part(slopes, 0, count - 1), part(slopes, 1, count)
    change = (right - left) * share
    if getattr(step, "ndim", 0):
        middle = left + change
    else:  # without the sample between them: it may be infinite
        middle = (part(x, 2, count + 1) - part(x, 0, count - 1)) / (2 * step)
    first, last = part(slopes, 0, 1), part(slopes, count - 1, count)
    if edge_order == 2:  # continue the change of the slope
        first = first - part(change, 0, 1)
        last = last + part((right - left) * (1 - share), count - 2, count - 1)
    return cat([first, middle, last], axis)
