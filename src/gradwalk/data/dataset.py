"""Datasets: anything with a length and an index, or any iterable."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate
from types import GenericAlias
from typing import Any

import numpy as np

from gradwalk.random.generator import Generator, default_generator
from gradwalk.tensors.tensor import Tensor


class Dataset:
    """Samples by index: subclasses write `__getitem__` and `__len__`.

    >>> import gradwalk as gw
    >>> class Squares(gw.data.Dataset):
    ...     def __len__(self):
    ...         return 3
    ...
    ...     def __getitem__(self, index):
    ...         return index, index**2
    >>> (Squares() + Squares())[5]
    (2, 4)
    """

    __class_getitem__: Any = classmethod(GenericAlias)  # Dataset[int], as annotations and bases

    def __getitem__(self, index: Any) -> Any:
        raise NotImplementedError(f"{type(self).__name__} defines no __getitem__")

    def __len__(self) -> int:
        raise TypeError(f"{type(self).__name__} defines no __len__")

    def __add__(self, other: Dataset) -> ConcatDataset:
        return ConcatDataset([self, other])


class IterableDataset(Dataset):
    """Samples in a stream: subclasses write `__iter__`.

    >>> import gradwalk as gw
    >>> class Count(gw.data.IterableDataset):
    ...     def __iter__(self):
    ...         return iter(range(5))
    >>> [batch.tolist() for batch in gw.data.DataLoader(Count(), batch_size=2)]
    [[0, 1], [2, 3], [4]]
    """

    def __iter__(self) -> Iterator[Any]:
        raise NotImplementedError(f"{type(self).__name__} defines no __iter__")

    def __add__(self, other: Dataset) -> ChainDataset:  # type: ignore[override]
        return ChainDataset([self, other])


class TensorDataset(Dataset):
    """Tensors of equal length; a sample is a tuple of their rows.

    >>> import gradwalk as gw
    >>> gw.data.TensorDataset(gw.arange(3), gw.tensor([0.0, 0.5, 1.0]))[1]
    (tensor(1), tensor(0.5000))
    """

    def __init__(self, *tensors: Tensor) -> None:
        lengths = {len(tensor) for tensor in tensors}
        if len(lengths) != 1:
            raise ValueError(f"the tensors must have one length, not {sorted(lengths)}")
        self.tensors = tensors

    def __getitem__(self, index: Any) -> tuple[Tensor, ...]:
        return tuple(tensor[index] for tensor in self.tensors)

    def __len__(self) -> int:
        return len(self.tensors[0])

    def take(self, indices: Sequence[int]) -> list[Tensor]:
        """A whole batch at once, equal to `default_collate` of its samples."""
        chosen = np.asarray(indices, np.int64)
        return [tensor[chosen] for tensor in self.tensors]


class Subset(Dataset):
    """Some samples of another dataset.

    >>> import gradwalk as gw
    >>> list(gw.data.Subset("abcdef", [0, 2]))
    ['a', 'c']
    """

    def __init__(self, dataset: Any, indices: Sequence[int]) -> None:
        self.dataset = dataset
        self.indices = indices

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, (list, slice)):
            listed = index if isinstance(index, list) else range(len(self))[index]
            return self.dataset[[self.indices[i] for i in listed]]
        return self.dataset[self.indices[index]]

    def __len__(self) -> int:
        return len(self.indices)


class ConcatDataset(Dataset):
    """Several datasets, concatenated.

    >>> import gradwalk as gw
    >>> gw.data.ConcatDataset(["ab", "cde"])[-1]
    'e'
    """

    def __init__(self, datasets: Any) -> None:
        self.datasets = list(datasets)
        if not self.datasets:
            raise ValueError("ConcatDataset needs at least one dataset")
        self.cumulative_sizes = list(accumulate(len(dataset) for dataset in self.datasets))

    def __getitem__(self, index: int) -> Any:
        length = len(self)
        if not -length <= index < length:
            raise IndexError(f"index {index} is out of range for {length} samples")
        index %= length
        which = bisect_right(self.cumulative_sizes, index)
        before = self.cumulative_sizes[which - 1] if which else 0
        return self.datasets[which][index - before]

    def __len__(self) -> int:
        return self.cumulative_sizes[-1]


class ChainDataset(IterableDataset):
    """Several streams of samples, one after the other.

    >>> import gradwalk as gw
    >>> class Letters(gw.data.IterableDataset):
    ...     def __iter__(self):
    ...         return iter("ab")
    >>> list(Letters() + Letters())
    ['a', 'b', 'a', 'b']
    """

    def __init__(self, datasets: Any) -> None:
        self.datasets = datasets

    def __iter__(self) -> Iterator[Any]:
        for dataset in self.datasets:
            if not isinstance(dataset, IterableDataset):
                raise TypeError(
                    f"ChainDataset takes IterableDatasets, not {type(dataset).__name__}. "
                    "Fix: ConcatDataset joins datasets with a length."
                )
            yield from dataset

    def __len__(self) -> int:
        return sum(len(dataset) for dataset in self.datasets)


class StackDataset(Dataset):
    """Datasets of equal length side by side: a sample is a tuple, or a dict, of theirs.

    >>> import gradwalk as gw
    >>> gw.data.StackDataset(image="abc", label=[0, 1, 2])[1]
    {'image': 'b', 'label': 1}
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if bool(args) == bool(kwargs):
            raise ValueError("StackDataset takes datasets by position or by name, at least one")
        self.datasets: Any = args or kwargs
        lengths = {len(dataset) for dataset in (args or tuple(kwargs.values()))}
        if len(lengths) > 1:
            raise ValueError(f"StackDataset: the datasets have lengths {sorted(lengths)}")
        (self._length,) = lengths

    def __getitem__(self, index: Any) -> Any:
        if isinstance(self.datasets, dict):
            return {name: dataset[index] for name, dataset in self.datasets.items()}
        return tuple(dataset[index] for dataset in self.datasets)

    def __len__(self) -> int:
        return self._length


def random_split(
    dataset: Any, lengths: Sequence[float], generator: Generator | None = None
) -> list[Subset]:
    """Parts without overlap, of given lengths or fractions that sum to 1.

    >>> import gradwalk as gw
    >>> [len(part) for part in gw.data.random_split(range(10), [0.75, 0.25])]
    [8, 2]
    """
    total = len(dataset)
    if math.isclose(sum(lengths), 1) and sum(lengths) <= 1:
        counts = [math.floor(total * fraction) for fraction in lengths]
        for i in range(total - sum(counts)):  # distribute the remainder from the front
            counts[i % len(counts)] += 1
    else:
        counts = [int(length) for length in lengths]
    if sum(counts) != total or min(counts, default=0) < 0:
        raise ValueError(f"the lengths {list(lengths)} do not sum to {total}, the set's length")
    order = (generator or default_generator).stream.permutation(total).tolist()
    ends = list(accumulate(counts))
    return [Subset(dataset, order[end - n : end]) for end, n in zip(ends, counts)]


def batch_taker(dataset: Any) -> Callable[[Sequence[int]], Any] | None:
    """A function that takes a whole batch at once, if the dataset consists of tensors."""
    if (
        isinstance(dataset, TensorDataset)
        and type(dataset).__getitem__ is TensorDataset.__getitem__
    ):
        return dataset.take
    if isinstance(dataset, Subset) and type(dataset).__getitem__ is Subset.__getitem__:
        inner, indices = batch_taker(dataset.dataset), dataset.indices
        if inner is not None:
            return lambda chosen: inner([indices[i] for i in chosen])
    return None


def batch_fetcher(dataset: Any) -> Callable[[Sequence[int]], Any]:
    """A function that lists the samples of a batch: the dataset's own, if it has one."""
    own = getattr(dataset, "__getitems__", None)
    return own if callable(own) else lambda chosen: [dataset[i] for i in chosen]
