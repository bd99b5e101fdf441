"""Embedding and one_hot, and products with weights."""

from __future__ import annotations

from typing import Any

from gradwalk.engine.modes import no_grad
from gradwalk.graph.abstract import numbers_of
from gradwalk.ops.core.halves import rounds_once
from gradwalk.ops.elementwise.choice import where
from gradwalk.ops.index.embedding import embedding_op
from gradwalk.ops.index.picking import one_hot
from gradwalk.ops.linear import matmul
from gradwalk.ops.network.softmax import without_negatives

__all__ = ["bilinear", "embedding", "linear", "one_hot"]


def _check_indices(name: str, indices: Any, count: int) -> None:
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

    >>> import gradwalk as gw
    >>> gw.nn.functional.embedding(gw.tensor([1, 0]), gw.tensor([[1.0, 2.0], [3.0, 4.0]]))
    tensor([[3., 4.],
            [1., 2.]])
    """
    if scale_grad_by_freq or sparse:
        raise NotImplementedError("embedding: scale_grad_by_freq and sparse are not supported")
    if weight.ndim != 2:
        raise ValueError(f"embedding: weight is a matrix, not of shape {tuple(weight.shape)}")
    _check_indices("embedding", input, weight.shape[0])
    input = without_negatives(input, weight.shape[0])
    if padding_idx is not None:
        count = weight.shape[0]
        if not -count <= padding_idx < count:
            raise ValueError(f"padding_idx {padding_idx} is out of range for {count} rows")
        padding_idx %= count
    if max_norm is not None:
        _shrink(weight, input, max_norm, norm_type)
    return embedding_op(weight, input, padding_idx=padding_idx)


def _shrink(weight: Any, indices: Any, max_norm: float, norm_type: float) -> None:
    """Scale the used rows down to `max_norm`, in place."""
    used = indices.reshape(-1)
    with no_grad():
        rows = weight[used]  # a row that is used twice is written twice, with the same numbers
        norms = rows.norm(norm_type, dim=1, keepdim=True)
        weight[used] = where(norms > max_norm, rows * (max_norm / (norms + 1e-7)), rows)


def linear(input: Any, weight: Any, bias: Any = None) -> Any:
    """x Wᵀ + b, for x of any leading shape; `weight` is (out features, in features)."""
    return matmul.linear(input, weight, bias)


@rounds_once
def bilinear(input1: Any, input2: Any, weight: Any, bias: Any = None) -> Any:
    """x1ᵀ W x2 + b for every output; `weight` is (out, in1, in2)."""
    out = matmul.einsum("...i,oij,...j->...o", input1, weight, input2)
    return out if bias is None else out + bias
