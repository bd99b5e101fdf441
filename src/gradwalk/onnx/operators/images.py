"""Images: Resize and Upsample, and reading between places (GridSample, RoiAlign)."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np

import gradwalk as gw
from gradwalk.onnx.operators.table import Array, OnnxNode, constant, operator
from gradwalk.ops.core.dtypes import is_floating

# -- Resize: along each dimension a product with a small matrix ------------------------------------


def cubic(t: Any, a: float = -0.75) -> list[Any]:
    """The weights of the four neighbours of a place, t after the second."""

    def near(u: Any) -> Any:
        return ((a + 2) * u - (a + 3)) * u * u + 1

    def far(u: Any) -> Any:
        return ((a * u - 5 * a) * u + 8 * a) * u - 4 * a

    return [far(t + 1), near(t), near(1 - t), far(2 - t)]


def _places(mode: str, out: int, scale: float, own: int, length: float, roi: Any) -> Array:
    """Where in the input each place of the output lies."""
    i = np.arange(out, dtype=np.float64)
    if mode == "align_corners":
        # `out`, not own × scale: what PyTorch and ONNX Runtime compute.
        return i * (own - 1) / (out - 1) if out > 1 else i * 0
    if mode == "asymmetric":
        return i / scale
    if mode == "tf_crop_and_resize":
        start, end = roi
        if out > 1:
            return start * (own - 1) + i * (end - start) * (own - 1) / (length - 1)
        return np.full(out, 0.5 * (start + end) * (own - 1))
    places = (i + 0.5) / scale - 0.5
    if mode == "pytorch_half_pixel" and length <= 1:
        return i * 0
    if mode == "half_pixel_symmetric":
        centre = own / 2
        return centre * (1 - out / length) + places
    if mode == "tf_half_pixel_for_nn":
        return (i + 0.5) / scale
    return places


def _nearest(places: Array, mode: str) -> Array:
    if mode == "round_prefer_floor":
        return np.ceil(places - 0.5)
    return {"floor": np.floor, "ceil": np.ceil}.get(mode, lambda p: np.floor(p + 0.5))(places)


def _weights(places: Array, own: int, scale: float, mode: str, node: OnnxNode) -> Array:
    """The matrix (out, own) that interpolates along one dimension."""
    matrix = np.zeros((len(places), own))
    rows = np.arange(len(places))
    stretch = max(1.0, 1 / scale) if node.get("antialias", 0) else 1.0
    a = node.get("cubic_coeff_a", -0.75)
    reach = math.ceil((1 if mode == "linear" else 2) * stretch)
    low = np.floor(places)
    for offset in range(1 - reach, reach + 1):
        at = low + offset
        distance = np.abs(places - at) / stretch
        if mode == "linear":
            weight = np.maximum(1 - distance, 0)
        else:
            part = np.minimum(distance, 2)
            weight = np.where(part <= 1, cubic(part, a)[1], cubic(part - 1, a)[0])
        if node.get("exclude_outside", 0):
            weight = weight * ((at >= 0) & (at < own))
        np.add.at(matrix, (rows, np.clip(at, 0, own - 1).astype(int)), weight)
    return matrix / matrix.sum(1, keepdims=True)


def _sizes(
    node: OnnxNode, x: Any, axes: list[int], scales: Any, sizes: Any
) -> tuple[list[int], list[float], list[float]]:
    """For each axis the new size, its factor, and the size before rounding."""
    own = [x.shape[axis] for axis in axes]
    if sizes is not None and len(sizes):
        new, policy = [int(n) for n in sizes], node.get("keep_aspect_ratio_policy", "stretch")
        if policy != "stretch":
            choose = min if policy == "not_larger" else max
            factor = choose(n / o for n, o in zip(new, own, strict=True))
            new = [math.floor(factor * o + 0.5) for o in own]
            return new, [factor] * len(own), [factor * o for o in own]
        return new, [n / o for n, o in zip(new, own, strict=True)], [float(n) for n in new]
    factors = [float(s) for s in scales]
    exact = [o * f for o, f in zip(own, factors, strict=True)]
    return [math.floor(n) for n in exact], factors, exact


@operator("Resize", "Upsample", numbers=(1, 2, 3))
def resize(node: OnnxNode, x: Any, *given: Any) -> Any:
    roi: Any
    if node.op == "Upsample" or node.version < 11:
        scales = given[0] if given else np.array(node.get("scales"))
        roi = sizes = None
        way, rounding = "asymmetric", "floor"
    else:
        roi, scales, sizes = (*given, None, None, None)[:3]
        way = node.get("coordinate_transformation_mode", "half_pixel")
        rounding = node.get("nearest_mode", "round_prefer_floor")
    axes = [axis % x.ndim for axis in node.get("axes", range(x.ndim))]
    mode = node.get("mode", "nearest")
    result, outside = x, []
    for i, (axis, new, factor, exact) in enumerate(
        zip(axes, *_sizes(node, x, axes, scales, sizes), strict=True)
    ):
        own = x.shape[axis]
        crop = (float(roi[i]), float(roi[i + len(axes)])) if way == "tf_crop_and_resize" else None
        places = _places(way, new, factor, own, exact if crop is None else new, crop)
        if crop is not None:
            shape = [1] * x.ndim
            shape[axis] = new
            outside.append(((places < 0) | (places > own - 1)).reshape(shape))
        elif new == own and np.array_equal(places, np.arange(own)):
            continue
        if mode == "nearest":
            chosen = np.clip(_nearest(places, rounding), 0, own - 1).astype(np.int64)
            result = gw.index_select(result, axis, constant(chosen))
            continue
        matrix = _weights(places, own, factor, mode, node)
        floats = result if is_floating(x.dtype) else result.float()
        turned = gw.movedim(floats, axis, -1) @ constant(matrix.T.astype(floats.dtype))
        result = gw.movedim(turned, -1, axis)
    if outside:
        beyond = np.broadcast_to(np.logical_or.reduce(np.broadcast_arrays(*outside)), result.shape)
        result = gw.where(constant(beyond), node.get("extrapolation_value", 0.0), result)
    return result if is_floating(x.dtype) else result.to(x.dtype)


# -- reading between places ------------------------------------------------------------------------


def _picked(flat: Any, places: Any) -> Any:
    """Elements of (batch, channels, places) at (batch, points): (batch, channels, points)."""
    batch, channels = flat.shape[:2]
    at = gw.unsqueeze(places, 1).expand(batch, channels, places.shape[1])
    return gw.gather(flat, 2, at)


def sampled(x: Any, where: list[Any], mode: str = "linear", outside: str = "zeros") -> Any:
    """Values of (batch, channels, *size) at coordinates, one (batch, points) per dimension.

    `mode` is nearest, linear or cubic. Places `outside` are zeros, or those at the border.
    """
    size = x.shape[2:]
    flat = gw.reshape(x, (*x.shape[:2], -1))
    choices = []  # for each dimension: pairs of places and weights
    for coordinate, n in zip(where, size, strict=True):
        if mode == "nearest":
            taps = [(gw.round(coordinate.detach()), None)]
        else:
            low = gw.floor(coordinate.detach())
            part = coordinate - low
            weights = [1 - part, part] if mode == "linear" else cubic(part)
            first = 0 if mode == "linear" else -1
            taps = [(low + first + i, weight) for i, weight in enumerate(weights)]
        choices.append([(*_inside(place, n, outside), weight) for place, weight in taps])
    total = None
    for corner in itertools.product(*choices):
        places, factor = gw.zeros_like(corner[0][0]), None
        for (place, valid, weight), n in zip(corner, size, strict=True):
            places = places * n + place
            for more in (valid, weight):
                if more is not None:
                    factor = more if factor is None else factor * more
        value = _picked(flat, places)
        value = value if factor is None else value * gw.unsqueeze(factor, 1)
        total = value if total is None else total + value
    return total


def _inside(place: Any, n: int, outside: str) -> tuple[Any, Any]:
    """A place that exists, and 1 where it is the one asked for; None if all are."""
    near = gw.clip(place, 0, n - 1)
    valid = (near == place).to(place.dtype) if outside == "zeros" else None
    return gw.nan_to_num(near).to(gw.int64), valid


# -- GridSample ------------------------------------------------------------------------------------


def _reflected(coordinate: Any, low: float, high: float) -> Any:
    """Coordinates folded back into a range."""
    span = high - low
    if span <= 0:
        return gw.zeros_like(coordinate)
    distance = gw.abs(coordinate - low)
    turns = gw.floor(distance.detach() / span)
    rest = distance - turns * span
    return gw.where(turns % 2 == 0, rest + low, high - rest)


@operator("GridSample")
def grid_sample(node: OnnxNode, x: Any, grid: Any) -> Any:
    size, out = tuple(x.shape[2:]), tuple(grid.shape[1:-1])
    corners, outside = bool(node.get("align_corners", 0)), node.get("padding_mode", "zeros")
    mode = node.get("mode", "linear").removeprefix("bi")
    where = []
    for axis, n in enumerate(size):
        given = gw.reshape(grid[..., len(size) - 1 - axis], (x.shape[0], math.prod(out)))
        place = (given + 1) * (n - 1) / 2 if corners else ((given + 1) * n - 1) / 2
        if outside == "reflection" and mode != "cubic":
            place = _reflected(place, 0, n - 1) if corners else _reflected(place, -0.5, n - 0.5)
        where.append(place)
    if mode == "cubic" and outside == "reflection":
        return _cubic_reflected(x, where, corners, out)
    values = sampled(x, where, mode, "zeros" if outside == "zeros" else "border")
    return gw.reshape(values, (*x.shape[:2], *out))


def _cubic_reflected(x: Any, where: list[Any], corners: bool, out: tuple[int, ...]) -> Any:
    """Cubic sampling of an image that is continued by its reflection."""
    reach = 2 + max(
        math.ceil(float(gw.abs(place.detach()).max().item())) for place in where if place.numel()
    )
    for axis, n in enumerate(x.shape[2:], 2):
        mode = "reflect" if corners else "symmetric"
        places = np.pad(np.arange(n), reach, mode)  # type: ignore[call-overload]
        x = gw.index_select(x, axis, constant(places))
    values = sampled(x, [place + reach for place in where], "cubic", "border")
    return gw.reshape(values, (*x.shape[:2], *out))


# -- RoiAlign --------------------------------------------------------------------------------------


@operator("RoiAlign", numbers=(1, 2))
def roi_align(node: OnnxNode, x: Any, boxes: Array, images: Array) -> Any:
    height, width = node.get("output_height", 1), node.get("output_width", 1)
    ratio, scale = node.get("sampling_ratio", 0), node.get("spatial_scale", 1.0)
    half = node.get("coordinate_transformation_mode", "half_pixel") == "half_pixel"
    mean = node.get("mode", "avg") == "avg"
    parts = []
    for box, image in zip(boxes, images, strict=True):
        x1, y1, x2, y2 = box.astype(np.float64) * scale - (0.5 if half else 0.0)
        tall, wide = y2 - y1, x2 - x1
        if not half:
            tall, wide = max(tall, 1.0), max(wide, 1.0)
        rows = int(ratio) or math.ceil(tall / height)
        columns = int(ratio) or math.ceil(wide / width)
        y = y1 + (np.arange(height * rows) + 0.5) * tall / height / rows
        across = x1 + (np.arange(width * columns) + 0.5) * wide / width / columns
        values = _bilinear(x[int(image)], y, across, mean)  # (channels, 4 or 1, rows, columns)
        cells = gw.reshape(values, (x.shape[1], -1, height, rows, width, columns))
        if mean:
            parts.append(gw.mean(gw.sum(cells, 1), (2, 4)))
        else:
            parts.append(gw.amax(cells, (1, 3, 5)))
    if not parts:
        return x.new_zeros((0, x.shape[1], height, width))
    return gw.stack(parts)


def _bilinear(x: Any, rows: Array, columns: Array, mean: bool) -> Any:
    """The four weighted neighbours of each point of a grid: (channels, 4, rows, columns)."""
    neighbours = []
    for places, n in ((rows, x.shape[1]), (columns, x.shape[2])):
        valid = (places >= -1) & (places <= n)
        near = np.clip(places, 0, n - 1)
        low = np.minimum(near.astype(int), n - 1)
        part = near - low
        neighbours.append([(low, (1 - part) * valid), (np.minimum(low + 1, n - 1), part * valid)])
    corners = []
    for (row, a), (column, b) in itertools.product(*neighbours):
        weight = constant(np.outer(a, b).astype(x.dtype))
        corners.append(x[:, constant(row)][:, :, constant(column)] * weight)
    return gw.stack(corners, 1)
