"""Losses that keep a margin: between pairs, triples, and the scores of classes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gradwalk.nn.functional.distance import pairwise_distance
from gradwalk.nn.functional.loss import how_reduced, reduced
from gradwalk.ops.elementwise import activation
from gradwalk.ops.elementwise.arithmetic import pow, sqrt
from gradwalk.ops.elementwise.choice import clip, minimum, where
from gradwalk.ops.index.indexing import gather, take
from gradwalk.ops.index.picking import one_hot
from gradwalk.ops.network.softmax import check_classes
from gradwalk.ops.reduce.reduction import mean, sum
from gradwalk.ops.reduce.scan import cumsum
from gradwalk.ops.shape.reshaping import cast, reshape, unsqueeze
from gradwalk.tensors.autocast import in_float32

__all__ = [
    "cosine_embedding_loss", "hinge_embedding_loss", "margin_ranking_loss", "multi_margin_loss",
    "multilabel_margin_loss", "multilabel_soft_margin_loss", "soft_margin_loss",
    "triplet_margin_loss", "triplet_margin_with_distance_loss",
]  # fmt: skip


@in_float32
def margin_ranking_loss(
    input1: Any,
    input2: Any,
    target: Any,
    margin: float = 0.0,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Any:
    """max(0, −target × (input1 − input2) + margin): target 1 ranks input1 higher."""
    how = how_reduced(reduction, size_average, reduce)
    return reduced(clip(-target * (input1 - input2) + margin, min=0), how)


@in_float32
def hinge_embedding_loss(
    input: Any,
    target: Any,
    margin: float = 1.0,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Any:
    """x where the target is 1, max(0, margin − x) where it is −1."""
    how = how_reduced(reduction, size_average, reduce)
    apart = where(target != 1, clip(margin - input, min=0), 0)
    return reduced(apart + where(target != -1, input, 0), how)


@in_float32
def cosine_embedding_loss(
    input1: Any,
    input2: Any,
    target: Any,
    margin: float = 0.0,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Any:
    """1 − cosine where the target is 1, max(0, cosine − margin) where it is −1."""
    how = how_reduced(reduction, size_average, reduce)
    if target.ndim > 1 or input1.ndim != target.ndim + 1 or input2.ndim != target.ndim + 1:
        raise ValueError(
            "cosine_embedding_loss takes inputs of shape (batch, size) with targets of (batch,), "
            f"or of (size,) with one target; got {tuple(input1.shape)}, {tuple(input2.shape)} and "
            f"targets of {tuple(target.shape)}"
        )
    eps = 1e-12
    first, second = sum(input1 * input1, -1) + eps, sum(input2 * input2, -1) + eps
    cosine = sum(input1 * input2, -1) / sqrt(first * second)
    loss = where(target == 1, 1 - cosine, 0)
    return reduced(loss + where(target == -1, clip(cosine - margin, min=0), 0), how)


@in_float32
def triplet_margin_loss(
    anchor: Any,
    positive: Any,
    negative: Any,
    margin: float = 1.0,
    p: float = 2,
    eps: float = 1e-6,
    swap: bool = False,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Any:
    """max(0, distance to the positive − distance to the negative + margin)."""
    how = how_reduced(reduction, size_average, reduce)
    distance = lambda a, b: pairwise_distance(a, b, p, eps)
    return _triplet(anchor, positive, negative, distance, margin, swap, how)


@in_float32
def triplet_margin_with_distance_loss(
    anchor: Any,
    positive: Any,
    negative: Any,
    *,
    distance_function: Callable[[Any, Any], Any] | None = None,
    margin: float = 1.0,
    swap: bool = False,
    reduction: str = "mean",
) -> Any:
    """triplet_margin_loss with any distance function."""
    distance = distance_function or pairwise_distance
    return _triplet(anchor, positive, negative, distance, margin, swap, how_reduced(reduction))


def _triplet(
    anchor: Any,
    positive: Any,
    negative: Any,
    distance: Callable[[Any, Any], Any],
    margin: float,
    swap: bool,
    how: str,
) -> Any:
    if margin <= 0:
        raise ValueError(f"a triplet loss needs a margin above 0, not {margin}")
    near, far = distance(anchor, positive), distance(anchor, negative)
    if swap:
        far = minimum(far, distance(positive, negative))
    return reduced(clip(near - far + margin, min=0), how)


@in_float32
def soft_margin_loss(
    input: Any,
    target: Any,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Any:
    """log(1 + exp(−target × x))."""
    how = how_reduced(reduction, size_average, reduce)
    return reduced(-activation.logsigmoid(target * input), how)


# -- scores of classes -----------------------------------------------------------------------------


@in_float32
def multi_margin_loss(
    input: Any,
    target: Any,
    p: int = 1,
    margin: float = 1.0,
    weight: Any = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Any:
    """Σ max(0, margin − x[target] + x[i])^p / classes, over the other classes i."""
    how = how_reduced(reduction, size_average, reduce)
    if p not in (1, 2):
        raise ValueError(f"multi_margin_loss: p is 1 or 2, not {p}")
    scores = input if input.ndim == 2 else reshape(input, shape=(1, input.numel()))
    classes = reshape(target, shape=(scores.shape[0],))
    check_classes(classes, scores.shape[1])
    own = gather(scores, 1, unsqueeze(classes, 1))
    each = pow(clip(margin - own + scores, min=0), p)
    if weight is not None:
        each = each * unsqueeze(take(weight, classes), 1)
    each = where(one_hot(classes, scores.shape[1]) == 1, 0, each)
    loss = sum(each, 1) / scores.shape[1]
    return reduced(reshape(loss, shape=tuple(target.shape)) if how == "none" else loss, how)


@in_float32
def multilabel_margin_loss(
    input: Any,
    target: Any,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Any:
    """Σ max(0, 1 − x[j] + x[i]) / classes, over classes j in the target and i not in it.

    A row of the target lists its classes first, then −1.
    """
    how = how_reduced(reduction, size_average, reduce)
    if tuple(input.shape) != tuple(target.shape):
        raise ValueError(
            f"multilabel_margin_loss: target {tuple(target.shape)}, input {tuple(input.shape)}"
        )
    count = input.shape[-1] if input.ndim else 1
    if input.ndim > 2 or not count:
        raise ValueError(
            f"multilabel_margin_loss takes scores of classes, or rows of them, not shape "
            f"{tuple(input.shape)}"
        )
    scores, labels = (reshape(t, shape=(t.numel() // count, count)) for t in (input, target))
    listed = cumsum(cast(labels < 0, dtype=labels.dtype), 1) == 0  # those before the first −1
    labels = where(listed, labels, 0)
    among = sum(one_hot(labels, count) * unsqueeze(cast(listed, dtype=labels.dtype), 2), 1) > 0
    own = where(listed, gather(scores, 1, labels), 0)
    each = clip(1 - unsqueeze(own, 2) + unsqueeze(scores, 1), min=0)  # (N, labels, classes)
    each = where(unsqueeze(listed, 2) & ~unsqueeze(among, 1), each, 0)
    loss = sum(each, (1, 2)) / count
    return reduced(reshape(loss, shape=tuple(input.shape[:-1])) if how == "none" else loss, how)


@in_float32
def multilabel_soft_margin_loss(
    input: Any,
    target: Any,
    weight: Any = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Any:
    """Binary cross entropy of sigmoid(x), averaged over the classes."""
    how = how_reduced(reduction, size_average, reduce)
    each = -(target * activation.logsigmoid(input) + (1 - target) * activation.logsigmoid(-input))
    return reduced(mean(each if weight is None else each * weight, -1), how)
