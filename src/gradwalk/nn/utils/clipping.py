"""Gradient clipping."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable
from typing import Any

import numpy as np

from gradwalk.engine.modes import quietly
from gradwalk.graph.abstract import AbstractArray, is_array
from gradwalk.graph.source import caller
from gradwalk.graph.versions import touch
from gradwalk.ops.elementwise.complex_numbers import as_pairs
from gradwalk.tensors.apply import wrap
from gradwalk.tensors.tensor import Tensor

Array = np.ndarray[Any, Any]


def clip_grad_norm_(
    parameters: Tensor | Iterable[Tensor],
    max_norm: float,
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:
    """Scale all gradients together so that their norm is at most `max_norm`; returns the norm.

    >>> import gradwalk as gw
    >>> w = gw.tensor([1.0, 1.0], requires_grad=True)
    >>> (w * gw.tensor([3.0, 4.0])).sum().backward()
    >>> gw.nn.utils.clip_grad_norm_([w], max_norm=1.0)
    tensor(5.)
    >>> w.grad
    tensor([0.6000, 0.8000])
    """
    gradients = _gradients(parameters)
    norm = _norm(gradients, float(norm_type), error_if_nonfinite)
    _scale(gradients, float(max_norm), norm)
    return _as_tensor(norm, gradients)


clip_grad_norm = clip_grad_norm_  # PyTorch's first name


def clip_grads_with_norm_(
    parameters: Tensor | Iterable[Tensor],
    max_norm: float,
    total_norm: Tensor | float,
    foreach: bool | None = None,
) -> None:
    """Scale all gradients as `clip_grad_norm_` does, given their norm (see `get_total_norm`).

    >>> import gradwalk as gw
    >>> w = gw.tensor([3.0, 4.0], requires_grad=True)
    >>> (w * w).sum().backward()
    >>> gw.nn.utils.clip_grads_with_norm_([w], 1.0, gw.nn.utils.get_total_norm([w.grad]))
    >>> w.grad
    tensor([0.6000, 0.8000])
    """
    norm = total_norm._array if isinstance(total_norm, Tensor) else total_norm
    _scale(
        _gradients(parameters),
        float(max_norm),
        norm if isinstance(norm, AbstractArray) else float(norm),
    )


def _as_tensor(norm: Any, arrays: list[Array]) -> Tensor:
    dtype = arrays[0].dtype if arrays else np.float32
    tensor: Tensor = wrap(norm.astype(dtype) if is_array(norm) else np.array(norm, dtype))
    return tensor


def _scale(gradients: list[Array], max_norm: float, norm: Any) -> None:
    scale = max_norm / (norm + 1e-6)
    if is_array(scale):  # traced: no branch; multiplying by 1 changes nothing
        scale = np.minimum(scale, 1.0)
        for gradient in gradients:
            np.multiply(gradient, scale.astype(gradient.dtype), out=gradient)
    elif not scale >= 1:  # a NaN norm propagates, as in PyTorch
        here = caller()
        for gradient in gradients:
            quietly(np.multiply, gradient, scale, out=gradient)
            touch(gradient, *here)


def clip_grad_value_(
    parameters: Tensor | Iterable[Tensor], clip_value: float, foreach: bool | None = None
) -> None:
    """Clamp every element of the gradients to ±`clip_value`.

    >>> import gradwalk as gw
    >>> w = gw.tensor([1.0, 1.0], requires_grad=True)
    >>> (w * gw.tensor([3.0, -0.1])).sum().backward()
    >>> gw.nn.utils.clip_grad_value_([w], 1.0)
    >>> w.grad
    tensor([ 1.0000, -0.1000])
    """
    here = caller()
    for gradient in _gradients(parameters):
        np.clip(gradient, -float(clip_value), float(clip_value), out=gradient)
        touch(gradient, *here)


def get_total_norm(
    tensors: Tensor | Iterable[Tensor],
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:
    """The norm of several tensors as if they were one.

    >>> import gradwalk as gw
    >>> gw.nn.utils.get_total_norm([gw.tensor([3.0]), gw.tensor([4.0])])
    tensor(5.)
    """
    listed = [tensors] if isinstance(tensors, Tensor) else tensors
    arrays = [as_pairs(t._array) for t in listed]
    return _as_tensor(_norm(arrays, float(norm_type), error_if_nonfinite), arrays)


def _gradients(parameters: Tensor | Iterable[Tensor]) -> list[Array]:
    listed = [parameters] if isinstance(parameters, Tensor) else parameters
    return [as_pairs(g._array) for g in (p.grad for p in listed) if g is not None]


def _norm(arrays: list[Array], kind: float, error_if_nonfinite: bool) -> Any:
    """The norm of all elements together, which must be finite if that is asked for."""
    norm = _norm_of(arrays, kind)
    if error_if_nonfinite and not math.isfinite(norm):  # a trace cannot decide this
        raise RuntimeError(
            f"the norm is {norm}. A loss or a gradient is infinite or not a number; leave "
            "error_if_nonfinite off to scale gradients anyway."
        )
    return norm


def _norm_of(arrays: list[Array], kind: float) -> Any:
    """The p-norm of all elements together; traced for traced arrays."""
    if not arrays:
        return 0.0
    if isinstance(arrays[0], AbstractArray):
        return _traced_norm([a.ravel().astype(np.float64) for a in arrays if a.size], kind)
    if abs(kind) == math.inf:
        of, between = (np.max, max) if kind > 0 else (np.min, min)
        ends = [float(of(np.abs(a))) for a in arrays if a.size]
        return math.nan if any(map(math.isnan, ends)) else between(ends, default=0.0)
    if kind == 0:  # as in PyTorch, which takes the norm of norms: of the arrays that are not 0
        return float(sum(1 for a in arrays if np.any(a != 0)))
    if kind == 2:  # a dot product: one pass, no temporary
        flat = [a.ravel(order="K") for a in arrays]
        total = quietly(lambda: sum(float(np.dot(a, a)) for a in flat))
        # Squares of large float32 numbers overflow where their root would not.
        if math.isfinite(total) and total > 1e-30:
            return math.sqrt(total)
        return float(np.sqrt(sum(np.square(a, dtype=np.float64).sum() for a in flat)))
    return float(sum((np.abs(a).astype(np.float64) ** kind).sum() for a in arrays) ** (1 / kind))


def _traced_norm(arrays: list[Any], kind: float) -> Any:
    """The same for traced arrays, whose values are unknown: one formula that is always right."""
    if kind == math.inf:
        return functools.reduce(np.maximum, [np.abs(a).max() for a in arrays])
    if kind == -math.inf:
        return -functools.reduce(np.maximum, [(-np.abs(a)).max() for a in arrays])
    if kind == 0:
        return sum(np.sign((a != 0).astype(np.float64).sum()) for a in arrays)
    if kind == 2:
        return np.sqrt(sum(np.dot(a, a) for a in arrays))
    return sum((np.abs(a) ** kind).sum() for a in arrays) ** (1 / kind)
