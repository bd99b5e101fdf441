"""Collating samples to batches."""

from __future__ import annotations

import copy
from collections.abc import Mapping, MutableMapping, MutableSequence, Sequence
from typing import Any

import numpy as np

from gradwalk.ops.shape.reshaping import stack
from gradwalk.tensors import creation
from gradwalk.tensors.tensor import Tensor


def default_collate(batch: Sequence[Any]) -> Any:
    """Make a batch of samples: stack tensors, make a tensor of numbers, keep structures.

    >>> import gradwalk as gw
    >>> gw.data.default_collate([(1, "one"), (2, "two")])
    [tensor([1, 2]), ('one', 'two')]
    """
    first = batch[0]
    if isinstance(first, Tensor):
        return stack(list(batch))
    if isinstance(first, (str, bytes)):
        return batch
    if isinstance(first, (np.ndarray, np.generic)):
        return creation.from_numpy(np.stack([np.asarray(x) for x in batch]))
    if isinstance(first, (bool, int)):
        return creation.tensor(list(batch))
    if isinstance(first, float):
        return creation.tensor(list(batch), dtype=np.float64)  # as PyTorch
    if isinstance(first, Mapping):
        return _mapping_like(
            first, {key: default_collate([x[key] for x in batch]) for key in first}
        )
    if isinstance(first, tuple) and hasattr(first, "_fields"):  # a named tuple
        return type(first)(*(default_collate(part) for part in zip(*batch)))
    if isinstance(first, Sequence):
        lengths = {len(x) for x in batch}
        if len(lengths) > 1:
            raise ValueError(
                f"the samples of a batch have different lengths ({sorted(lengths)}): give the "
                "loader a collate_fn that pads them"
            )
        parts = [default_collate(part) for part in zip(*batch)]
        return parts if isinstance(first, tuple) else _sequence_like(first, parts)
    raise TypeError(
        f"a batch cannot be made of {type(first).__name__}: give the loader a collate_fn"
    )


def default_convert(data: Any) -> Any:
    """Make tensors of the arrays in a sample: what a loader without batches does.

    >>> import gradwalk as gw
    >>> gw.data.default_convert({"x": np.ones(2), "name": "one"})
    {'x': tensor([1., 1.], dtype=gradwalk.float64), 'name': 'one'}
    """
    if isinstance(data, (Tensor, str, bytes)):
        return data
    if isinstance(data, (np.ndarray, np.generic)):
        return data if data.dtype.kind in "SUO" else creation.as_tensor(data)
    if isinstance(data, Mapping):
        return _mapping_like(data, {key: default_convert(value) for key, value in data.items()})
    if isinstance(data, tuple) and hasattr(data, "_fields"):
        return type(data)(*map(default_convert, data))
    if isinstance(data, tuple):
        return [default_convert(part) for part in data]  # a list, as in PyTorch
    if isinstance(data, Sequence):
        return _sequence_like(data, [default_convert(part) for part in data])
    return data


def _mapping_like(first: Any, parts: dict[Any, Any]) -> Any:
    """The parts in a mapping of the class of a sample, if it can hold them."""
    try:
        if not isinstance(first, MutableMapping):
            return type(first)(parts)
        made = copy.copy(first)
        made.update(parts)
        return made
    except TypeError:
        return parts


def _sequence_like(first: Any, parts: list[Any]) -> Any:
    """The parts in a sequence of the class of a sample, if it can hold them."""
    try:
        if not isinstance(first, MutableSequence):
            return type(first)(parts)
        made = copy.copy(first)
        for i, part in enumerate(parts):
            made[i] = part
        return made
    except TypeError:
        return parts
