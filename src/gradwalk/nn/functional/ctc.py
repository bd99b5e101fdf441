"""Connectionist temporal classification: the sum over every alignment of labels with time."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from gradwalk.graph.abstract import numbers_of
from gradwalk.nn.functional.loss import how_reduced
from gradwalk.ops.elementwise.choice import clip, where
from gradwalk.ops.index.indexing import gather
from gradwalk.ops.network.recurrent import scan
from gradwalk.ops.network.softmax import logsumexp
from gradwalk.ops.reduce.reduction import mean, sum
from gradwalk.ops.shape.rearranging import concrete
from gradwalk.ops.shape.reshaping import broadcast_to, cat, pad, reshape, stack, unsqueeze
from gradwalk.tensors import creation
from gradwalk.tensors.autocast import in_float32

__all__ = ["ctc_loss"]


@in_float32
def ctc_loss(
    log_probs: Any,
    targets: Any,
    input_lengths: Any,
    target_lengths: Any,
    blank: int = 0,
    reduction: str = "mean",
    zero_infinity: bool = False,
) -> Any:
    """−log of the probability of `targets`, summed over all alignments; `log_probs` is (T, N, C).

    Targets are (N, S), padded, or all in one row. With `zero_infinity`, a target that is too long
    for its input costs 0. "mean" divides by the lengths of the targets first.

    >>> import gradwalk as gw
    >>> even = gw.zeros(2, 1, 2).log_softmax(2)  # two times, two classes of probability 1/2
    >>> loss = gw.nn.functional.ctc_loss(even, gw.tensor([[1]]), (2,), (1,))
    >>> (-loss).exp()  # "1 1", "blank 1" or "1 blank"
    tensor(0.7500)
    """
    how = how_reduced(reduction)
    batched = log_probs.ndim == 3
    log_p = log_probs if batched else unsqueeze(log_probs, 1)
    times, batch, classes = log_p.shape
    lasts = _lengths("input_lengths", input_lengths, batch, times)
    counts = _lengths("target_lengths", target_lengths, batch)
    labels = _rows(targets, counts, batch)  # (N, S)
    if not 0 <= blank < classes:
        raise ValueError(f"ctc_loss: blank {blank} is not one of {classes} classes")
    # The states: a blank before, between and after the labels.
    pairs = stack([creation.full_like(labels, blank), labels], 2)
    states = pad(reshape(pairs, shape=(batch, 2 * labels.shape[1])), (0, 1), value=blank)
    width = states.shape[1]
    places = unsqueeze(clip(states, 0, classes - 1), 0)
    emitted = gather(log_p, 2, broadcast_to(places, (times, batch, width)))
    # A step may skip the blank between two different labels.
    skips = (states != blank) & (states != pad(states, (2, 0), value=blank)[:, :-2])
    # Before the first step everything is at the first blank.
    first = broadcast_to(np.arange(width) == 0, (batch, width))
    start = where(first, creation.zeros_like(emitted[0]), -math.inf)
    reached, _ = scan(_step, emitted, (start,), (skips,), False)
    reached = cat([unsqueeze(start, 0), reached], 0)  # (T + 1, N, states)
    at = broadcast_to(reshape(lasts, shape=(1, batch, 1)), (1, batch, width))
    final = gather(reached, 0, at)[0]  # (N, states)
    ends = reshape(counts, shape=(batch, 1)) * 2
    last = gather(final, 1, ends)
    before = where(ends > 0, gather(final, 1, clip(ends - 1, min=0)), -math.inf)
    loss = -logsumexp(cat([last, before], 1), 1)
    if zero_infinity:
        loss = where(loss == math.inf, 0.0, loss)
    if how == "mean":
        return mean(loss / clip(counts, min=1))
    if how == "sum":
        return sum(loss)
    return loss if batched else loss[0]


def _step(emitted: Any, reached: Any, skips: Any) -> tuple[Any]:
    """The log-probability of being at each state one step later."""
    never = -math.inf
    one = pad(reached[:, :-1], (1, 0), value=never)
    two = where(skips, pad(one[:, :-1], (1, 0), value=never), never)
    return (logsumexp(stack([reached, one, two]), 0) + emitted,)


def _lengths(name: str, given: Any, batch: int, most: int | None = None) -> Any:
    """One length per row, as a tensor."""
    lengths = creation.as_tensor(given, dtype=np.int64)
    lengths = reshape(lengths, shape=(lengths.numel(),))
    numbers = numbers_of(lengths)
    wrong = numbers is not None and numbers.size and not numbers.min() >= 0
    over = numbers is not None and most is not None and numbers.max(initial=0) > most
    if lengths.shape[0] != batch or wrong or over:
        limit = "" if most is None else f" of at most {most}"
        raise ValueError(f"ctc_loss: {name} is {batch} length(s){limit}, not {given}")
    return lengths


def _rows(targets: Any, lengths: Any, batch: int) -> Any:
    """The targets as (N, S), also where all stand in one row."""
    if targets.ndim == 2:
        return targets
    numbers = concrete(lengths, "ctc_loss with targets in one row").tolist()
    if int(np.sum(numbers)) > targets.shape[0]:
        raise ValueError(f"ctc_loss: {targets.shape[0]} targets for lengths {numbers}")
    ends = np.cumsum(numbers).tolist()
    longest = max(numbers, default=0)
    rows = [
        pad(targets[end - count : end], (0, longest - count))
        for end, count in zip(ends, numbers, strict=True)
    ]
    return stack(rows)
