"""Random tensors with the shape and dtype of another."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from gradwalk.random.generator import stream_of
from gradwalk.random.memory_order import memory_order
from gradwalk.random.sampling import rand, randint, randn
from gradwalk.tensors.leaves import leaf, like

if TYPE_CHECKING:
    from gradwalk.tensors.tensor import Tensor

__all__ = ["rand_like", "randint_like", "randn_like"]


def rand_like(input: Tensor, *, memory_format: Any = None, **options: Any) -> Tensor:
    """`rand` with the shape and dtype of another tensor."""
    return _like(input, options, rand, "uniform_")


def randn_like(input: Tensor, *, memory_format: Any = None, **options: Any) -> Tensor:
    """`randn` with the shape and dtype of another tensor."""
    return _like(input, options, randn, "normal_")


def _like(input: Any, options: Any, draw: Callable[..., Tensor], fill: str) -> Tensor:
    """A tensor like `input`, whose elements are drawn in the order of its memory."""
    chosen, generator = like(input, options), options.get("generator")
    axes = memory_order(input, stream_of(generator))
    if axes is None:
        return draw(input.shape, **chosen)
    requires_grad = chosen.pop("requires_grad", False)
    chosen.pop("generator", None)
    empty = leaf(np.empty([input.shape[axis] for axis in axes], chosen["dtype"]), **chosen)
    made = getattr(empty.permute(*np.argsort(axes).tolist()), fill)(generator=generator)
    return made.requires_grad_(requires_grad)


def randint_like(
    input: Tensor,
    low: int | None = None,
    high: int | None = None,
    *,
    memory_format: Any = None,
    **options: Any,
) -> Tensor:
    """`randint` with the shape and dtype of another tensor: (input, high) or (input, low, high)."""
    return randint(low, high, input.shape, **like(input, options))
