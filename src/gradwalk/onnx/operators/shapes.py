"""Shapes, and moving elements without computing anything."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import gradwalk as gw
from gradwalk.onnx.operators.table import OnnxNode, axis_of, constant, operator
from gradwalk.ops.shape.reshaping import pad_op


@operator("Shape")
def shape(node: OnnxNode, x: Any) -> Any:
    ends = slice(node.get("start", 0), node.get("end"))
    return np.array(tuple(x.shape)[ends], np.int64)


@operator("Size")
def size(node: OnnxNode, x: Any) -> Any:
    return np.array(math.prod(x.shape), np.int64)


@operator("Reshape", numbers=(1,))
def reshape(node: OnnxNode, x: Any, wanted: Any = None) -> Any:
    sizes = node.option("shape", wanted) or []
    if not node.get("allowzero", 0):
        sizes = [x.shape[i] if n == 0 else n for i, n in enumerate(sizes)]
    return gw.reshape(x, tuple(sizes))


@operator("Flatten")
def flatten(node: OnnxNode, x: Any) -> Any:
    axis = axis_of(node, x, 1)
    return gw.reshape(x, (math.prod(x.shape[:axis]), math.prod(x.shape[axis:])))


@operator("Squeeze", numbers=(1,))
def squeeze(node: OnnxNode, x: Any, axes: Any = None) -> Any:
    given = node.option("axes", axes)
    dropped = {i for i, n in enumerate(x.shape) if n == 1}
    if given is not None:
        dropped = {axis % x.ndim for axis in given}
    if any(x.shape[axis] != 1 for axis in dropped):
        raise ValueError(f"{node.where()} squeezes dimensions {given} of shape {tuple(x.shape)}")
    return gw.reshape(x, tuple(n for i, n in enumerate(x.shape) if i not in dropped))


@operator("Unsqueeze", numbers=(1,))
def unsqueeze(node: OnnxNode, x: Any, axes: Any = None) -> Any:
    given = node.option("axes", axes) or []
    ndim = x.ndim + len(given)
    new, sizes = {axis % ndim for axis in given}, iter(x.shape)
    return gw.reshape(x, tuple(1 if i in new else next(sizes) for i in range(ndim)))


@operator("Transpose")
def transpose(node: OnnxNode, x: Any) -> Any:
    return gw.permute(x, tuple(node.get("perm", range(x.ndim)[::-1])))


@operator("Expand", numbers=(1,))
def expand(node: OnnxNode, x: Any, wanted: Any) -> Any:
    return gw.broadcast_to(x, np.broadcast_shapes(x.shape, tuple(map(int, wanted))))


@operator("Tile", numbers=(1,))
def tile(node: OnnxNode, x: Any, repeats: Any) -> Any:
    return gw.tile(x, tuple(map(int, repeats)))


@operator("Concat")
def concat(node: OnnxNode, *xs: Any) -> Any:
    return gw.cat(xs, axis_of(node, xs[0], 1))


@operator("Split", numbers=(1,))
def split(node: OnnxNode, x: Any, sizes: Any = None) -> Any:
    axis = axis_of(node, x, 0)
    lengths = node.option("split", sizes)
    if lengths is None:
        count = int(node.get("num_outputs", len(node.outputs)))
        each = -(-x.shape[axis] // count)
        lengths = [each] * (count - 1) + [x.shape[axis] - each * (count - 1)]
    return tuple(gw.split(x, lengths, axis))


@operator("Slice", numbers=(1, 2, 3, 4))
def slice_of(
    node: OnnxNode,
    x: Any,
    starts: Any = None,
    ends: Any = None,
    axes: Any = None,
    steps: Any = None,
) -> Any:
    first, last = node.option("starts", starts) or [], node.option("ends", ends) or []
    where = node.option("axes", axes) or list(range(len(first)))
    by = [1] * len(first) if steps is None else [int(n) for n in steps]
    index = [slice(None)] * x.ndim
    for start, end, axis, step in zip(first, last, where, by, strict=True):
        places = range(x.shape[axis])[slice(start, end, step)]
        if step < 0:  # which a subscript does not have
            x = gw.index_select(x, axis, constant(np.array(places, np.int64)))
        else:
            index[axis] = slice(places.start, places.stop, step)
    return x[tuple(index)]


@operator("Pad", numbers=(1, 2, 3))
def pad(node: OnnxNode, x: Any, pads: Any = None, value: Any = None, axes: Any = None) -> Any:
    given = node.option("pads", pads) or node.option("paddings", None) or []
    where = range(x.ndim) if axes is None else [int(a) % x.ndim for a in axes]
    around = {axis: (given[i], given[i + len(given) // 2]) for i, axis in enumerate(where)}
    widths = [around.get(axis, (0, 0)) for axis in range(x.ndim)]
    mode: Any = node.get("mode", "constant")  # NumPy has the same names
    for axis, (before, after) in enumerate(widths):  # a negative width removes
        n = x.shape[axis]
        if before < 0 or after < 0:
            x = gw.narrow(x, axis, max(-before, 0), n - max(-before, 0) - max(-after, 0))
        if mode != "constant" and (before > 0 or after > 0):
            kept = np.arange(x.shape[axis])
            places = np.pad(kept, (max(before, 0), max(after, 0)), mode)
            x = gw.index_select(x, axis, constant(places))
    if mode != "constant":
        return x
    filled = node.get("value", 0.0) if value is None or not value.size else value.item()
    outside = tuple((max(before, 0), max(after, 0)) for before, after in widths)
    return pad_op(x, widths=outside, value=filled)


@operator("DepthToSpace")
def depth_to_space(node: OnnxNode, x: Any) -> Any:
    (batch, depth, height, width), block = x.shape, node.get("blocksize")
    rows_first = node.get("mode", "DCR") == "DCR"
    sides = (block, block, depth // block**2) if rows_first else (depth // block**2, block, block)
    order = (0, 3, 4, 1, 5, 2) if rows_first else (0, 1, 4, 2, 5, 3)
    apart = gw.permute(gw.reshape(x, (batch, *sides, height, width)), order)
    return gw.reshape(apart, (batch, depth // block**2, height * block, width * block))


@operator("SpaceToDepth")
def space_to_depth(node: OnnxNode, x: Any) -> Any:
    (batch, depth, height, width), block = x.shape, node.get("blocksize")
    rows, columns = height // block, width // block
    apart = gw.reshape(x, (batch, depth, rows, block, columns, block))
    order = (0, 3, 5, 1, 2, 4) if node.get("mode", "DCR") == "DCR" else (0, 1, 3, 5, 2, 4)
    return gw.reshape(gw.permute(apart, order), (batch, depth * block**2, rows, columns))


@operator("Trilu", numbers=(1,))
def trilu(node: OnnxNode, x: Any, k: Any = None) -> Any:
    return (gw.triu if node.get("upper", 1) else gw.tril)(x, 0 if k is None else int(k))
