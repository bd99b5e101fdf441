"""NumPy functions on functional arrays: those that optimizers and the engine use, as ops of the
table. All others raise."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from gradwalk.graph.abstract import AbstractArray
from gradwalk.ops.core.dtypes import bool_
from gradwalk.ops.core.op import Op
from gradwalk.ops.core.operators import op_of_ufunc
from gradwalk.ops.elementwise import choice
from gradwalk.ops.reduce import reduction
from gradwalk.ops.shape import reshaping as shaping

if TYPE_CHECKING:
    from gradwalk.compiler.functional.machine import Machine


def apply_ufunc(
    machine: Machine,
    ufunc: np.ufunc,
    method: str,
    inputs: tuple[Any, ...],
    keywords: dict[str, Any],
) -> Any:
    """Apply a ufunc as an op; with `out`, write its result to that memory."""
    op = op_of_ufunc(ufunc)
    options = keywords.keys() - {"out", "dtype", "casting"}
    if method != "__call__" or op is None or options:
        name = ufunc.__name__ if method == "__call__" else f"{ufunc.__name__}.{method}"
        raise machine.unknown_function(
            name + "".join(f" with {option}=" for option in sorted(options))
        )
    if "dtype" in keywords:
        inputs = tuple(machine.array(i).astype(keywords["dtype"], copy=False) for i in inputs)
    if isinstance(op, Op):
        result = machine.compute(op, inputs, {})
    else:  # matmul, which takes vectors as well
        result = op(*(machine.array(i) for i in inputs))
    if "out" not in keywords:
        return result
    (target,) = (machine.array(o) for o in keywords["out"])
    target.assign(machine.fitted(result, target.shape, target.dtype))
    return target


def apply_function(machine: Machine, function: Any, args: Any, keywords: Any) -> Any:
    """Apply a NumPy function that is listed below."""
    definition = _FUNCTIONS.get(function)
    if definition is None:
        raise machine.unknown_function(getattr(function, "__name__", str(function)))
    if "shape" in keywords and function in _LIKE:  # of another shape than that of the array
        raise machine.unknown_function(f"{function.__name__} with shape=")
    return definition(*args, **keywords)


def total(x: Any, axis: Any = None, dtype: Any = None, *, keepdims: bool = False) -> Any:
    """np.sum."""
    x = x if dtype is None else x.astype(dtype, copy=False)
    return reduction.sum_op(x, axis=shaping.full_axes(x, axis), keepdim=keepdims)


def average(x: Any, axis: Any = None, *, keepdims: bool = False) -> Any:
    """np.mean."""
    count = math.prod(x.shape[i] for i in shaping.full_axes(x, axis))
    return total(x, axis, keepdims=keepdims) / count


def variance(x: Any, axis: Any = None, *, keepdims: bool = False) -> Any:
    """np.var: the mean squared distance from the mean."""
    apart = x - average(x, axis, keepdims=True)
    return average(apart * apart, axis, keepdims=keepdims)


def largest(x: Any, axis: Any = None, *, keepdims: bool = False) -> Any:
    """np.max."""
    return reduction.amax(x, shaping.full_axes(x, axis), keepdim=keepdims)


def _full_like(x: Any, fill_value: float, dtype: Any = None, order: str = "K") -> Any:
    return x.machine.filled_like(x, np.dtype(dtype or x.dtype), fill_value)


def _shares(x: Any, y: Any, max_work: Any = None) -> bool:
    owners = [getattr(a, "owner", None) for a in (x, y) if isinstance(a, AbstractArray)]
    return len(owners) == 2 and owners[0] is owners[1]


def _clip(x: Any, a_min: Any, a_max: Any, out: Any = None) -> Any:
    clipped = choice.clip(x, a_min, a_max)
    if out is None:
        return clipped
    out.assign(clipped.term)
    return out


_LIKE = (np.zeros_like, np.empty_like, np.ones_like, np.full_like)
_FUNCTIONS: dict[Any, Callable[..., Any]] = {
    np.shape: lambda x: x.shape,
    np.ndim: lambda x: x.ndim,
    np.size: lambda x: x.size,
    np.zeros_like: lambda x, dtype=None, order="K": _full_like(x, 0, dtype),
    np.empty_like: lambda x, dtype=None, order="K": _full_like(x, 0, dtype),  # overwritten later
    np.ones_like: lambda x, dtype=None, order="K": _full_like(x, 1, dtype),
    np.full_like: _full_like,
    np.may_share_memory: _shares,
    np.shares_memory: _shares,
    np.sum: total,
    np.mean: average,
    np.var: variance,
    np.max: largest,
    np.clip: _clip,
    np.dot: lambda x, y: total(x * y),
    np.where: choice.where,
    np.copyto: lambda x, source, casting="same_kind": x.put(("...",), source, ()),
    np.copy: lambda x, order="C": x.copy(),
    np.reshape: shaping.reshape_to,
    np.transpose: lambda x, axes=None: shaping.permute(
        x, axes=tuple(axes) if axes is not None else tuple(reversed(range(x.ndim)))
    ),
    np.broadcast_to: shaping.broadcast_to,
    np.concatenate: lambda arrays, axis=0: shaping.concatenate(*arrays, axis=axis),
    np.all: lambda x, axis=None, keepdims=False: reduction.all_op(
        x != 0 if x.dtype != bool_ else x, axis=shaping.full_axes(x, axis), keepdim=keepdims
    ),
}
