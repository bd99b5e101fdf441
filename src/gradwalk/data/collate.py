"""Collating samples to batches, and converting single ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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
    if isinstance(first, (np.ndarray, np.generic)):
        return creation.from_numpy(np.stack([np.asarray(x) for x in batch]))
    if isinstance(first, (bool, int)):
        return creation.tensor(list(batch))
    if isinstance(first, float):
        return creation.tensor(list(batch), dtype=np.float64)  # as PyTorch
    if isinstance(first, (str, bytes)):
        return batch
    if isinstance(first, Mapping):
        return {key: default_collate([x[key] for x in batch]) for key in first}
    if isinstance(first, tuple) and hasattr(first, "_fields"):  # a named tuple
        return type(first)(*(default_collate(part) for part in zip(*batch)))
    if isinstance(first, Sequence):
        lengths = {len(x) for x in batch}
        if len(lengths) > 1:
            raise ValueError(
                f"the samples of a batch have different lengths ({sorted(lengths)}): give the "
                "loader a collate_fn that pads them"
            )
        return [default_collate(part) for part in zip(*batch)]
    raise TypeError(
        f"a batch cannot be made of {type(first).__name__}: give the loader a collate_fn"
    )


def default_convert(data: Any) -> Any:
    """Arrays and NumPy's numbers in a sample as tensors; the rest as it is, tuples as lists.

    It is what a loader without batches (`batch_size=None`) makes of a sample.

    >>> import gradwalk as gw
    >>> import numpy as np
    >>> gw.data.default_convert((np.arange(2), "one", 2))
    [tensor([0, 1]), 'one', 2]
    """
    if isinstance(data, (np.ndarray, np.generic)):
        return data if data.dtype.kind in "SUO" else creation.as_tensor(data)
    if isinstance(data, Mapping):
        return {key: default_convert(data[key]) for key in data}
    if isinstance(data, tuple) and hasattr(data, "_fields"):  # a named tuple
        return type(data)(*(default_convert(part) for part in data))
    if isinstance(data, Sequence) and not isinstance(data, (str, bytes)):
        return [default_convert(part) for part in data]
    return data
