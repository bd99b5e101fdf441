"""Reading and writing by index: Gather, Scatter and what chooses elements."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import gradwalk as gw
from gradwalk.onnx.operators.table import ALL, Array, OnnxNode, axis_of, constant, operator


def _counted(indices: Any, n: int) -> Any:
    """Indices counted from the front."""
    indices = indices.to(gw.int64)
    return gw.where(indices < 0, indices + n, indices)


@operator("Gather")
def gather(node: OnnxNode, x: Any, indices: Any) -> Any:
    axis = axis_of(node, x, 0)
    return x[(slice(None),) * axis + (indices.to(gw.int64),)]


@operator("GatherElements")
def gather_elements(node: OnnxNode, x: Any, indices: Any) -> Any:
    axis = axis_of(node, x, 0)
    return gw.gather(x, axis, _counted(indices, x.shape[axis]))


@operator("GatherND")
def gather_nd(node: OnnxNode, x: Any, indices: Any) -> Any:
    batch = int(node.get("batch_dims", 0))
    lead = tuple(x.shape[:batch])
    flat = gw.reshape(x, (math.prod(lead), *x.shape[batch:]))
    last = indices.shape[-1]
    rows = gw.reshape(indices.to(gw.int64), (math.prod(lead), -1, last))
    number = constant(np.arange(math.prod(lead))[:, None])  # of each row in the batch
    picked = flat[(number, *(rows[..., i] for i in range(last)))]
    return gw.reshape(picked, (*indices.shape[:-1], *x.shape[batch + last :]))


@operator("ArrayFeatureExtractor", domain="ai.onnx.ml")
def array_feature_extractor(node: OnnxNode, x: Any, indices: Any) -> Any:
    return x[..., gw.reshape(indices.to(gw.int64), (-1,))]


# -- writing ---------------------------------------------------------------------------------------


def _written(x: Any, places: Any, updates: Any, reduction: str) -> Any:
    """x with `updates` at the flat `places`, each combined with what is there."""
    flat, values = gw.reshape(x, (-1,)), gw.reshape(updates, (-1,))
    places = gw.reshape(places, (-1,))
    if reduction in ("none", "add"):
        written = gw.index_put(flat, (places,), values, accumulate=reduction == "add")
        return gw.reshape(written, tuple(x.shape))
    combine = {"mul": gw.mul, "max": gw.maximum, "min": gw.minimum}[reduction]
    numbers = places.numpy()
    order = np.argsort(numbers, kind="stable")
    ranked = numbers[order]
    first = np.searchsorted(ranked, ranked)  # where the run of equal places begins
    turn = np.empty(len(numbers), np.int64)
    turn[order] = np.arange(len(numbers)) - first
    for now in range(int(turn.max(initial=-1)) + 1):  # no place is met twice in a turn
        chosen = constant(np.flatnonzero(turn == now))
        here = places[chosen]
        flat = gw.index_put(flat, (here,), combine(flat[here], values[chosen]))
    return gw.reshape(flat, tuple(x.shape))


def _strides(shape: Any) -> list[int]:
    return [math.prod(shape[i + 1 :]) for i in range(len(shape))]


@operator("ScatterElements", "Scatter")
def scatter_elements(node: OnnxNode, x: Any, indices: Any, updates: Any) -> Any:
    axis, strides = axis_of(node, x, 0), _strides(x.shape)
    at = np.indices(tuple(indices.shape), sparse=True)
    others: Any = sum(at[i] * strides[i] for i in range(x.ndim) if i != axis)
    places = _counted(indices, x.shape[axis]) * strides[axis]
    if x.ndim > 1:
        places = places + constant(np.broadcast_to(others, tuple(indices.shape)))
    return _written(x, places, updates, node.get("reduction", "none"))


@operator("ScatterND")
def scatter_nd(node: OnnxNode, x: Any, indices: Any, updates: Any) -> Any:
    depth, strides = indices.shape[-1], _strides(x.shape)
    inner = math.prod(x.shape[depth:])
    places = sum(
        (_counted(indices[..., i], x.shape[i]) * strides[i] for i in range(depth)),
        gw.zeros(*indices.shape[:-1], dtype=gw.int64),
    )
    places = gw.unsqueeze(places, -1) + constant(np.arange(inner))
    return _written(x, places, updates, node.get("reduction", "none"))


@operator("TensorScatter", numbers=(2,))
def tensor_scatter(node: OnnxNode, cache: Any, update: Any, starts: Any = None) -> Any:
    axis = axis_of(node, cache, -2)
    length, count = cache.shape[axis], update.shape[axis]
    begin = np.zeros(cache.shape[0], np.int64) if starts is None else starts.astype(np.int64)
    along = begin[:, None] + np.arange(count)  # (batch, time)
    if node.get("mode", "linear") == "circular":
        along = along % length
    at = list(np.indices(tuple(update.shape), sparse=True))
    shape = [1] * cache.ndim
    shape[0], shape[axis] = along.shape
    at[axis] = along.reshape(shape)
    places = np.ravel_multi_index(np.broadcast_arrays(*at), tuple(cache.shape))
    return _written(cache, constant(places), update, "none")


# -- choosing --------------------------------------------------------------------------------------


@operator("Compress", numbers=(1,))
def compress(node: OnnxNode, x: Any, condition: Any) -> Any:
    if node.get("axis") is None:
        return gw.reshape(x, (-1,))[constant(np.flatnonzero(condition))]
    return gw.index_select(x, axis_of(node, x, 0), constant(np.flatnonzero(condition)))


@operator("NonZero", numbers=ALL)
def non_zero(node: OnnxNode, x: Array) -> Any:
    return np.array(np.nonzero(np.atleast_1d(x)), np.int64)


@operator("Unique", numbers=ALL)
def unique(node: OnnxNode, x: Array) -> Any:
    values, first, inverse, counts = np.unique(
        x, return_index=True, return_inverse=True, return_counts=True, axis=node.get("axis")
    )
    inverse = inverse.reshape(-1)
    if not node.get("sorted", 1):
        order = np.argsort(first)
        rank = np.argsort(order)
        axis = node.get("axis", 0)
        values, first, counts = np.take(values, order, axis), first[order], counts[order]
        inverse = rank[inverse]
    return values, *(part.astype(np.int64) for part in (first, inverse, counts))


@operator("ReverseSequence", numbers=(1,))
def reverse_sequence(node: OnnxNode, x: Any, lengths: Any) -> Any:
    time, batch = node.get("time_axis", 0), node.get("batch_axis", 1)
    steps, n = np.arange(x.shape[time])[:, None], lengths.astype(np.int64)
    places = np.where(steps < n, n - 1 - steps, steps)  # (time, batch)
    shape = [1] * x.ndim
    shape[time], shape[batch] = places.shape
    places = (places if time < batch else places.T).reshape(shape)
    return gw.gather(x, time, constant(np.broadcast_to(places, tuple(x.shape))))


@operator("TopK", numbers=(1,))
def top_k(node: OnnxNode, x: Any, k: Any = None) -> Any:
    count = int(node.get("k", 0) if k is None else k.reshape(-1)[0])
    values, indices = gw.topk(x, count, axis_of(node, x, -1), bool(node.get("largest", 1)))
    return values, indices


@operator("ArgMax", "ArgMin")
def arg_max(node: OnnxNode, x: Any) -> Any:
    axis, keep = axis_of(node, x, 0), bool(node.get("keepdims", 1))
    function = gw.argmax if node.op == "ArgMax" else gw.argmin
    if node.get("select_last_index", 0):
        return x.shape[axis] - 1 - function(gw.flip(x, (axis,)), axis, keep)
    return function(x, axis, keep)


@operator("NonMaxSuppression", numbers=ALL)
def non_max_suppression(
    node: OnnxNode,
    boxes: Array,
    scores: Array,
    most: Any = None,
    overlap: Any = None,
    least: Any = None,
) -> Any:
    count = 0 if most is None else int(most.reshape(-1)[0])
    limit = 0.0 if overlap is None else float(overlap.reshape(-1)[0])
    centered = bool(node.get("center_point_box", 0))
    chosen: list[tuple[int, int, int]] = []
    for batch, kind in np.ndindex(*scores.shape[:2]):
        corners = _corners(boxes[batch], centered)
        kept: list[int] = []
        for i in np.argsort(-scores[batch, kind], kind="stable"):
            if len(kept) == count:
                break
            if least is not None and scores[batch, kind, i] <= least.reshape(-1)[0]:
                break
            if all(_overlap(corners[i], corners[j]) <= limit for j in kept):
                kept.append(int(i))
        chosen += [(batch, kind, i) for i in kept]
    return np.array(chosen, np.int64).reshape(-1, 3)


def _corners(boxes: Array, centered: bool) -> Array:
    """Boxes as (low, low, high, high)."""
    if centered:
        x, y, width, height = boxes.T
        return np.stack([y - height / 2, x - width / 2, y + height / 2, x + width / 2], 1)
    low, high = np.minimum(boxes[:, :2], boxes[:, 2:]), np.maximum(boxes[:, :2], boxes[:, 2:])
    return np.concatenate([low, high], 1)


def _overlap(one: Array, other: Array) -> float:
    """The intersection of two boxes over their union."""
    sides = np.minimum(one[2:], other[2:]) - np.maximum(one[:2], other[:2])
    common = float(np.prod(np.maximum(sides, 0)))
    areas = float(np.prod(one[2:] - one[:2]) + np.prod(other[2:] - other[:2]))
    return common / (areas - common) if areas > common else 0.0


@operator("TfIdfVectorizer", numbers=ALL)
def tf_idf(node: OnnxNode, x: Array) -> Any:
    """Count n-grams of a pool, also with gaps."""
    starts, pool = node.get("ngram_counts"), node.get("pool_int64s", ())
    places, weights = node.get("ngram_indexes"), node.get("weights")
    grams: dict[tuple[int, ...], int] = {}  # their places in the result
    for n, (start, end) in enumerate(zip(starts, [*starts[1:], len(pool)]), 1):
        for at in range(start, end, n):
            grams[tuple(pool[at : at + n])] = places[len(grams)]
    counts = np.zeros((*x.shape[:-1], max(places) + 1), np.float32)
    for row in np.ndindex(*x.shape[:-1]):
        items = x[row].tolist()
        for n in range(node.get("min_gram_length"), node.get("max_gram_length") + 1):
            for step in range(1, node.get("max_skip_count", 0) + 2 if n > 1 else 2):
                for at in range(len(items) - (n - 1) * step):
                    place = grams.get(tuple(items[at : at + n * step : step]))
                    if place is not None:
                        counts[(*row, place)] += 1
    if node.get("mode") == "TF":
        return counts
    factors = np.ones(counts.shape[-1], np.float32)
    if weights:
        factors[list(places)] = weights
    return (counts if node.get("mode") == "TFIDF" else counts > 0) * factors
