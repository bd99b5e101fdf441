"""NumPy's functions on traced arrays: what optimizers and the engine use, as ops of the table.

Whatever is not listed raises: NumPy would have to look at numbers that are not there yet.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from gradwalk.compiler.tracing.errors import untraceable
from gradwalk.graph.abstract import AbstractArray
from gradwalk.ops.core.dtypes import bool_
from gradwalk.ops.core.op import Op
from gradwalk.ops.core.ufuncs import op_of_ufunc
from gradwalk.ops.elementwise import choice
from gradwalk.ops.reduce import reduction
from gradwalk.ops.shape import reshaping as shaping

if TYPE_CHECKING:
    from gradwalk.compiler.tracing.traced import Traced
    from gradwalk.compiler.tracing.tracer import Tracer


def apply_ufunc(
    tracer: Tracer, ufunc: np.ufunc, method: str, inputs: tuple[Any, ...], keywords: dict[str, Any]
) -> Any:
    """A ufunc as the op it is; with `out`, written to that memory."""
    op = op_of_ufunc(ufunc)
    options = keywords.keys() - {"out", "dtype", "casting"}
    if method != "__call__" or op is None or options:
        name = ufunc.__name__ if method == "__call__" else f"{ufunc.__name__}.{method}"
        raise unknown(name + "".join(f" with {option}=" for option in sorted(options)))
    if "dtype" in keywords:
        inputs = tuple(tracer.array(i).astype(keywords["dtype"], copy=False) for i in inputs)
    if isinstance(op, Op):
        found = tracer.compute(op, inputs, {})
    else:  # matmul, which takes vectors as well
        found = op(*(tracer.array(i) for i in inputs))
    if "out" not in keywords:
        return found
    (target,) = (tracer.array(o) for o in keywords["out"])
    target.assign(tracer.fitted(found, target.shape, target.dtype))
    return target


def apply_function(array: Traced, function: Any, args: Any, keywords: Any) -> Any:
    """A NumPy function that is on the list."""
    spelled = _FUNCTIONS.get(function)
    if spelled is None:
        raise unknown(getattr(function, "__name__", str(function)))
    return spelled(*args, **keywords)


def unknown(name: str) -> Exception:
    """A NumPy function that cannot be traced."""
    return untraceable(
        f"np.{name} inside a compiled function: NumPy computes with numbers, and there are none "
        "yet.",
        "use the gradwalk function on tensors, or call NumPy outside, on what the compiled "
        "function returns.",
    )


def _axes(x: Any, axis: Any) -> tuple[int, ...]:
    return shaping.full_axes(x, axis)


def total(x: Any, axis: Any = None, dtype: Any = None, *, keepdims: bool = False) -> Any:
    """np.sum."""
    x = x if dtype is None else x.astype(dtype, copy=False)
    return reduction.sum_op(x, axis=_axes(x, axis), keepdim=keepdims)


def average(x: Any, axis: Any = None, *, keepdims: bool = False) -> Any:
    """np.mean."""
    count = math.prod(x.shape[i] for i in _axes(x, axis))
    return total(x, axis, keepdims=keepdims) / count


def variance(x: Any, axis: Any = None, *, keepdims: bool = False) -> Any:
    """np.var: the mean squared distance from the mean."""
    apart = x - average(x, axis, keepdims=True)
    return average(apart * apart, axis, keepdims=keepdims)


def largest(x: Any, axis: Any = None, *, keepdims: bool = False) -> Any:
    """np.max."""
    return reduction.amax(x, _axes(x, axis), keepdim=keepdims)


def _like(number: float) -> Callable[..., Any]:
    def made(x: Any, dtype: Any = None, order: str = "K") -> Any:
        return x.tracer.filled(x.shape, np.dtype(dtype or x.dtype), number)

    return made


def _full_like(x: Any, fill_value: float, dtype: Any = None, order: str = "K") -> Any:
    return x.tracer.filled(x.shape, np.dtype(dtype or x.dtype), fill_value)


def _shares(x: Any, y: Any, max_work: Any = None) -> bool:
    if not (isinstance(x, AbstractArray) and isinstance(y, AbstractArray)):
        return False
    first: Any = x
    second: Any = y
    return first.owner is second.owner


def _clip(x: Any, a_min: Any, a_max: Any, out: Any = None) -> Any:
    found = choice.clip(x, a_min, a_max)
    if out is None:
        return found
    out.assign(found.term)
    return out


def _dot(x: Any, y: Any) -> Any:
    return total(x * y)


def _copyto(target: Any, source: Any, casting: str = "same_kind") -> None:
    target.put(("...",), source, ())


def _where(condition: Any, x: Any, y: Any) -> Any:
    return choice.where(condition, x, y)


_FUNCTIONS: dict[Any, Callable[..., Any]] = {
    np.shape: lambda x: x.shape,
    np.ndim: lambda x: x.ndim,
    np.size: lambda x: x.size,
    np.zeros_like: _like(0),
    np.empty_like: _like(0),  # it will be written to: zeros cost nothing here
    np.ones_like: _like(1),
    np.full_like: _full_like,
    np.may_share_memory: _shares,
    np.shares_memory: _shares,
    np.sum: total,
    np.mean: average,
    np.var: variance,
    np.max: largest,
    np.clip: _clip,
    np.dot: _dot,
    np.where: _where,
    np.copyto: _copyto,
    np.copy: lambda x, order="C": x.copy(),
    np.reshape: lambda x, shape: shaping.reshape_to(x, shape),
    np.transpose: lambda x, axes=None: shaping.permute(
        x, axes=tuple(axes) if axes is not None else tuple(reversed(range(x.ndim)))
    ),
    np.broadcast_to: lambda x, shape: shaping.broadcast_to(x, shape),
    np.all: lambda x, axis=None, keepdims=False: reduction.all_op(
        x != 0 if x.dtype != bool_ else x, axis=_axes(x, axis), keepdim=keepdims
    ),
}
