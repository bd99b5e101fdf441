"""Embedding and one_hot, and products with weights."""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np

from gradwalk.engine.modes import no_grad
from gradwalk.graph.abstract import numbers_of
from gradwalk.ops.core.dtypes import int64
from gradwalk.ops.core.halves import autocast_as_one, rounds_once
from gradwalk.ops.elementwise.choice import clip, where
from gradwalk.ops.index.embedding import embedding_op
from gradwalk.ops.index.indexing import Index, getitem, put
from gradwalk.ops.index.picking import one_hot
from gradwalk.ops.linear import matmul
from gradwalk.ops.network.softmax import without_negatives
from gradwalk.ops.reduce.reduction import max as maximum_along
from gradwalk.ops.reduce.reduction import sum
from gradwalk.ops.reduce.sorting import searchsorted
from gradwalk.ops.shape.reshaping import cast, cat, reshape, unsqueeze
from gradwalk.tensors import creation

__all__ = ["bilinear", "embedding", "embedding_bag", "linear", "one_hot"]


def check_indices(name: str, indices: Any, count: int) -> None:
    """Reject anything but integers from 0 to count − 1."""
    if indices.dtype.kind not in "iu":
        raise TypeError(f"{name} takes integers, these are {indices.dtype}")
    values = numbers_of(indices)
    if values is not None and values.size:
        low, high = int(values.min()), int(values.max())
        if low < 0 or high >= count:
            raise IndexError(
                f"{name}: index {low if low < 0 else high} is out of range for {count} rows "
                f"(0 to {count - 1})"
            )


def embedding(
    input: Any,
    weight: Any,
    padding_idx: int | None = None,
    max_norm: float | None = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Any:
    """Row `input[...]` of `weight` for every element; `padding_idx` receives no gradient.

    With `sparse` the gradient has the same numbers, but is a dense tensor. With
    `scale_grad_by_freq` that of a row is divided by how often `input` names it.

    >>> import gradwalk as gw
    >>> gw.nn.functional.embedding(gw.tensor([1, 0]), gw.tensor([[1.0, 2.0], [3.0, 4.0]]))
    tensor([[3., 4.],
            [1., 2.]])
    """
    if weight.ndim != 2:
        raise ValueError(f"embedding: weight is a matrix, not of shape {tuple(weight.shape)}")
    check_indices("embedding", input, weight.shape[0])
    input = without_negatives(input, weight.shape[0])
    if padding_idx is not None:
        count = weight.shape[0]
        if not -count <= padding_idx < count:
            raise ValueError(f"padding_idx {padding_idx} is out of range for {count} rows")
        padding_idx %= count
    if max_norm is not None:
        _shrink(weight, input, max_norm, norm_type)
    rows = embedding_op(weight, input, padding_idx=padding_idx)
    return _scaled_by_uses(rows, input, weight.shape[0]) if scale_grad_by_freq else rows


def _scaled_by_uses(rows: Any, indices: Any, count: int) -> Any:
    """The same rows, with gradients divided by how often each row is used."""
    at: Index = (("array", 0),)
    uses = put(cast(indices == indices, dtype=rows.dtype), indices, index=at, shape=(count,))
    values = rows.detach()
    return values + (rows - values) / unsqueeze(getitem(uses, indices, index=at), -1)


def _shrink(weight: Any, indices: Any, max_norm: float, norm_type: float) -> None:
    """Scale the used rows down to `max_norm`, in place."""
    used = indices.reshape(-1)
    with no_grad():
        rows = weight[used]  # a row that is used twice is written twice, with the same numbers
        norms = rows.norm(norm_type, dim=1, keepdim=True)
        weight[used] = where(norms > max_norm, rows * (max_norm / (norms + 1e-7)), rows)


def embedding_bag(
    input: Any,
    weight: Any,
    offsets: Any = None,
    max_norm: float | None = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: bool = False,
    mode: str = "mean",
    sparse: bool = False,
    per_sample_weights: Any = None,
    include_last_offset: bool = False,
    padding_idx: int | None = None,
) -> Any:
    """The sum, mean or maximum of rows of `weight` for every bag of indices; `padding_idx` counts
    in none. A bag is a row of `input`, or begins at an element of `offsets`.

    >>> import gradwalk as gw
    >>> table = gw.tensor([[1.0], [2.0], [4.0]])
    >>> bags = gw.nn.functional.embedding_bag(
    ...     gw.tensor([0, 1, 2]), table, gw.tensor([0, 2]), mode="sum"
    ... )
    >>> bags.tolist()
    [[3.0], [4.0]]
    """
    if mode not in ("sum", "mean", "max"):
        raise ValueError(f"embedding_bag: mode is 'sum', 'mean' or 'max', not {mode!r}")
    if scale_grad_by_freq and mode == "max":
        raise ValueError("embedding_bag: scale_grad_by_freq needs mode 'sum' or 'mean'")
    if per_sample_weights is not None and mode != "sum":
        raise NotImplementedError("embedding_bag: per_sample_weights need mode 'sum'")
    if input.is_floating_point() and not weight.is_floating_point():
        warnings.warn(
            "embedding_bag takes the indices first and the weight second; they are exchanged",
            stacklevel=2,
        )
        input, weight = weight, input
    if (offsets is None) != (input.ndim == 2):
        raise ValueError("embedding_bag takes rows of indices, or a vector of them and offsets")
    flat = reshape(input, shape=(input.numel(),))
    if offsets is None:
        starts = creation.arange(0, flat.shape[0], max(input.shape[1], 1), device=flat.device)
        starts = starts if input.shape[1] else creation.zeros(input.shape[0], dtype=int64)
    else:
        starts = offsets[:-1] if include_last_offset else offsets
    rows = embedding(flat, weight, padding_idx, max_norm, norm_type, scale_grad_by_freq, sparse)
    kept = None if padding_idx is None else flat != padding_idx % weight.shape[0]
    if mode == "max":
        return _largest_of_bags(rows, starts, kept)
    shares = creation.ones(flat.shape[0], dtype=rows.dtype, device=rows.device)
    if per_sample_weights is not None:
        shares = reshape(per_sample_weights, shape=tuple(flat.shape))
    if kept is not None:
        shares = shares * cast(kept, dtype=shares.dtype)
    bag_of = searchsorted(starts, creation.arange(flat.shape[0], device=flat.device), right=True)
    totals = rows.new_zeros(starts.shape[0], weight.shape[1])
    totals = totals.index_add(0, bag_of - 1, rows * unsqueeze(shares, 1))
    if mode == "sum":
        return totals
    sizes = rows.new_zeros(starts.shape[0]).index_add(0, bag_of - 1, shares)
    return totals / unsqueeze(clip(sizes, min=1), 1)


def _largest_of_bags(rows: Any, starts: Any, kept: Any) -> Any:
    """The largest number of every bag in every column, 0 of an empty one; bags are consecutive
    rows, and those that are not `kept` do not count."""
    count, bags = rows.shape[0], starts.shape[0]
    if not count:
        return rows.new_zeros(bags, rows.shape[1])
    known = numbers_of(starts)  # of traced ones a bag may have all rows
    longest = count if known is None else int(np.diff(known, append=count).max(initial=1))
    places = unsqueeze(starts, 1) + creation.arange(longest, device=rows.device)
    ends = cat([starts[1:], starts.new_full((1,), count)])
    inside = places < unsqueeze(ends, 1)
    places = clip(places, max=count - 1)
    if kept is not None:
        inside = inside & kept[places]
    each = where(unsqueeze(inside, 2), rows[places], -math.inf)  # (bags, longest, columns)
    some = sum(cast(inside, dtype=int64), 1, keepdim=True) > 0
    return where(some, maximum_along(each, 1)[0], 0.0)


def linear(input: Any, weight: Any, bias: Any = None) -> Any:
    """x Wᵀ + b, for x of any leading shape; `weight` is (out features, in features)."""
    return matmul.linear(input, weight, bias)


@autocast_as_one
@rounds_once
def bilinear(input1: Any, input2: Any, weight: Any, bias: Any = None) -> Any:
    """x1ᵀ W x2 + b for every output; `weight` is (out, in1, in2)."""
    out = matmul.einsum("...i,oij,...j->...o", input1, weight, input2)
    return out if bias is None else out + bias
