"""Normalisation: subtract the mean, divide by the standard deviation, scale and shift.

One pair of ops serves layer, batch, group, instance and RMS normalisation: they differ in the
axes of the statistics. The rules keep two residuals, the mean and
1 / standard deviation, each as large as the statistics, and are for arrays; graph readings go
through the definition in other ops.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from gradwalk.ops.core.op import Op, Shape, define
from gradwalk.ops.elementwise.arithmetic import add, mul, rsqrt
from gradwalk.ops.reduce.reduction import mean_op
from gradwalk.ops.reduce.row_sums import Axes, dot_over, sum_over


def _statistics(x: Any, axes: Axes, eps: float, center: bool) -> tuple[Any, Any, Any]:
    """x centred and divided, the mean, and 1 / standard deviation."""
    count = math.prod(x.shape[i] for i in axes)
    mean = np.true_divide(sum_over(x, axes), count) if center else np.zeros((1,) * x.ndim, x.dtype)
    out = x - mean if center else x.copy()
    rstd = 1 / np.sqrt(np.true_divide(dot_over(out, out, axes), count) + eps)
    rstd = rstd.astype(x.dtype, copy=False)
    out *= rstd
    return out, mean, rstd


def _scaled(x: Any, mean: Any, rstd: Any, center: bool) -> Any:
    """Recompute the normalised x in two passes instead of keeping it."""
    if not center:
        return x * rstd
    out = x - mean
    out *= rstd
    return out


def _pulled(g: Any, out: Any, rstd: Any, axes: Axes, center: bool) -> Any:
    """From the gradient of the normalised x to that of x."""
    count = math.prod(g.shape[i] for i in axes)
    to_x = out * (dot_over(g, out, axes) * (-1 / count))
    to_x += g
    if center:
        to_x -= sum_over(g, axes) * (1 / count)
    to_x *= rstd
    return to_x


def _text(g: str, out: str, center: bool) -> str:
    """`_pulled` as a formula."""
    if center:
        return f"({g} − mean({g}) − {out} × mean({g} × {out})) / std({{x}})"
    return f"({g} − {out} × mean({g} × {out})) / rms({{x}})"


def _standardize_expanded(x: Any, *, axes: Axes, eps: float, center: bool) -> Any:
    if center:
        x = x - mean_op(x, axis=axes, keepdim=True)
    return x * rsqrt(mean_op(x * x, axis=axes, keepdim=True) + eps)


standardize: Op = define(
    "standardize",
    lambda x, *, axes, eps, center: _statistics(x, axes, eps, center),
    vjp=[
        lambda g, x, mean, rstd, axes, center: _pulled(
            g, _scaled(x, mean, rstd, center), rstd, axes, center
        )
    ],
    residuals=("mean", "rstd"),
    shape=lambda x, *, axes, eps, center: x,
    expand=_standardize_expanded,
    formula={"x": lambda center, **_: _text("g", "{out}", center)},
)


def _affine_forward(
    x: Any, weight: Any, bias: Any, *, axes: Axes, eps: float, center: bool
) -> tuple[Any, Any, Any]:
    out, mean, rstd = _statistics(x, axes, eps, center)
    out *= weight
    out += bias
    return out, mean, rstd


def _affine_rule(
    g: Any,
    x: Any,
    weight: Any,
    mean: Any,
    rstd: Any,
    bias_shape: Shape,
    axes: Axes,
    center: bool,
    *,
    wants: tuple[bool, ...],
) -> tuple[Any, ...]:
    scaled = _scaled(x, mean, rstd, center)
    to_x = _pulled(g * weight, scaled, rstd, axes, center) if wants[0] else None
    scaled *= g
    return to_x, _summed(scaled, weight.shape), _summed(g, bias_shape)


def _summed(g: Any, shape: Shape) -> Any:
    """Summed over the axes along which an array of `shape` was broadcast."""
    axes = tuple(i for i, (n, m) in enumerate(zip(g.shape, shape, strict=True)) if n != m)
    return sum_over(g, axes) if axes else g.copy()


# The same, then × weight + bias. Both have as many dimensions as x, of size 1 where broadcast.
standardize_affine: Op = define(
    "standardize_affine",
    _affine_forward,
    joint=_affine_rule,
    residuals=("mean", "rstd"),
    shape=lambda x, weight, bias, **_: x,
    formula={
        "x": lambda center, **_: (
            f"{_text('h', 'n', center)}, h = g × {{weight}}, n = normalised {{x}}"
        ),
        "weight": "Σ g × n, n = normalised {x}",
        "bias": "Σ g",
    },
    expand=lambda x, weight, bias, *, axes, eps, center: add(
        mul(standardize(x, axes=axes, eps=eps, center=center), weight), bias
    ),
    promotes=True,
)
