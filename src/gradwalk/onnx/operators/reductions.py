"""Reductions, scans and softmax."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

import gradwalk as gw
from gradwalk.onnx.operators.table import OnnxNode, axis_of, constant, operator
from gradwalk.ops.core.dtypes import is_floating


def _extreme(x: Any, axes: Any, keep: bool, largest: bool) -> Any:
    if x.dtype.kind == "b":
        for axis in sorted(axes, reverse=True):
            x = (gw.any if largest else gw.all)(x, axis, keep)
        return x
    return (gw.amax if largest else gw.amin)(x, axes, keep)


_REDUCTIONS: dict[str, Callable[..., Any]] = {
    "ReduceSum": gw.sum,
    "ReduceMean": gw.mean,
    "ReduceMax": lambda x, axes, keep: _extreme(x, axes, keep, True),
    "ReduceMin": lambda x, axes, keep: _extreme(x, axes, keep, False),
    "ReduceL1": lambda x, axes, keep: gw.sum(gw.abs(x), axes, keep),
    "ReduceL2": lambda x, axes, keep: gw.sqrt(gw.sum(x * x, axes, keep)),
    "ReduceSumSquare": lambda x, axes, keep: gw.sum(x * x, axes, keep),
    "ReduceLogSum": lambda x, axes, keep: gw.log(gw.sum(x, axes, keep)),
    "ReduceLogSumExp": gw.logsumexp,
}


@operator(*_REDUCTIONS, "ReduceProd", numbers=(1,))
def reduce(node: OnnxNode, x: Any, given: Any = None) -> Any:
    axes = node.option("axes", given)
    keep = bool(node.get("keepdims", 1))
    if not axes:
        axes = [] if node.get("noop_with_empty_axes", 0) else list(range(x.ndim))
    axes = sorted(axis % x.ndim for axis in axes)
    if not math.prod(x.shape[axis] for axis in axes) and node.op in _OF_NOTHING:
        return _of_nothing(node.op, x, axes, keep)
    if node.op == "ReduceProd":
        out = x
        for axis in reversed(axes):
            out = gw.prod(out, axis, keep)
    elif not axes:  # one element each
        out = _REDUCTIONS[node.op](gw.unsqueeze(x, -1), (x.ndim,), False)
    else:
        out = _REDUCTIONS[node.op](x, tuple(axes), keep)
    return out.to(x.dtype)


_OF_NOTHING = {"ReduceMax": (-math.inf, "min"), "ReduceMin": (math.inf, "max")}


def _of_nothing(op: str, x: Any, axes: list[int], keep: bool) -> Any:
    """The largest or smallest of no elements."""
    infinite, end = _OF_NOTHING[op]
    if x.dtype.kind == "b":
        value: Any = end == "max"
    else:
        value = infinite if is_floating(x.dtype) else getattr(np.iinfo(x.dtype), end)
    sizes = [1 if i in axes else n for i, n in enumerate(x.shape)]
    shape = sizes if keep else [n for i, n in enumerate(sizes) if i not in axes]
    return np.full(shape, value, x.dtype)


@operator("CumSum", "CumProd", numbers=(1,))
def cumulative(node: OnnxNode, x: Any, axis: Any) -> Any:
    along = int(np.asarray(axis).reshape(-1)[0]) % x.ndim
    backwards, n = bool(node.get("reverse", 0)), x.shape[along]
    x = gw.flip(x, (along,)) if backwards else x
    if node.get("exclusive", 0):
        start = gw.zeros_like(x) if node.op == "CumSum" else gw.ones_like(x)
        x = gw.cat([gw.narrow(start, along, 0, 1), gw.narrow(x, along, 0, n - 1)], along)
    out = (gw.cumsum if node.op == "CumSum" else gw.cumprod)(x, along, dtype=x.dtype)
    return gw.flip(out, (along,)) if backwards else out


# -- softmax and its relatives ---------------------------------------------------------------------


def _along(node: OnnxNode, x: Any) -> tuple[Any, int]:
    """The input and the axis; before version 13 all dimensions from the axis on are one."""
    if node.version >= 13:
        return x, axis_of(node, x, -1)
    axis = axis_of(node, x, 1)
    return gw.reshape(x, (math.prod(x.shape[:axis]), math.prod(x.shape[axis:]))), 1


@operator("Softmax")
def softmax(node: OnnxNode, x: Any) -> Any:
    rows, axis = _along(node, x)
    return gw.reshape(gw.softmax(rows, axis), tuple(x.shape))


@operator("LogSoftmax")
def log_softmax(node: OnnxNode, x: Any) -> Any:
    rows, axis = _along(node, x)
    return gw.reshape(gw.log_softmax(rows, axis), tuple(x.shape))


@operator("Hardmax")
def hardmax(node: OnnxNode, x: Any) -> Any:
    rows, axis = _along(node, x)
    places = np.arange(rows.shape[axis]).reshape((-1, *(1,) * (rows.ndim - 1 - axis)))
    best = gw.argmax(rows, axis, True) == constant(places)
    return gw.reshape(best.to(x.dtype), tuple(x.shape))
