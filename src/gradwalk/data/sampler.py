"""Samplers: the order in which samples are visited."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence, Sized
from itertools import cycle, islice
from types import GenericAlias
from typing import Any

import numpy as np

from gradwalk.distributed.processes import get_rank, get_world_size
from gradwalk.random.generator import Generator, default_generator
from gradwalk.random.sampling import multinomial, randperm
from gradwalk.tensors.apply import wrap

CHUNK = 2**16  # the most indices that are drawn at once with replacement


class Sampler:
    """An order of indices: subclasses write `__iter__`, and `__len__` if they know it.

    A random sampler also writes `state_dict` and `load_state_dict`, so that a loader can finish an
    epoch in the same order after a restart.
    """

    __class_getitem__: Any = classmethod(GenericAlias)  # annotations name what is inside

    def __iter__(self) -> Iterator[Any]:
        raise NotImplementedError(f"{type(self).__name__} defines no __iter__")

    def state_dict(self) -> dict[str, Any]:
        """The state that reproduces the present order."""
        return {}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Use the order of a saved state in the next iteration."""


class SequentialSampler(Sampler):
    """0, 1, 2, ...

    >>> import gradwalk as gw
    >>> list(gw.data.SequentialSampler("abc"))
    [0, 1, 2]
    """

    def __init__(self, data_source: Sized) -> None:
        self.data_source = data_source

    def __iter__(self) -> Iterator[int]:
        return iter(range(len(self.data_source)))

    def __len__(self) -> int:
        return len(self.data_source)


class RandomSampler(Sampler):
    """A new random order every time, or draws with replacement.

    An order is drawn from `generator`, or from a new one with a seed from the default generator.
    `state_dict` has the state of that generator before the order was drawn.

    >>> import gradwalk as gw
    >>> sorted(gw.data.RandomSampler("abc"))
    [0, 1, 2]
    """

    def __init__(
        self,
        data_source: Sized,
        replacement: bool = False,
        num_samples: int | None = None,
        generator: Generator | None = None,
    ) -> None:
        if num_samples is not None and num_samples <= 0:
            raise ValueError(f"num_samples must be above 0, not {num_samples}")
        self.data_source = data_source
        self.replacement = replacement
        self._num_samples = num_samples
        self.generator = generator
        self._start: dict[str, Any] | None = None  # the generator state before the present order
        self._next: dict[str, Any] | None = None  # the same of the next order, if it was loaded

    @property
    def num_samples(self) -> int:
        """The number of indices of one iteration."""
        return len(self.data_source) if self._num_samples is None else self._num_samples

    def __iter__(self) -> Iterator[int]:
        loaded, self._next = self._next, None
        self._start = loaded or self._fresh_start()
        draw = Generator().set_state(self._start)
        source = self._source()
        if self.replacement and self.num_samples > CHUNK:  # too many to draw before the first
            return self._draws(draw if loaded or source is None else source)
        # Drawn here and not while iterating: another iteration may begin before this one ends.
        order = self._order(draw)
        if source is not None and loaded is None:
            source.set_state(draw.get_state())
        return iter(order)

    def _source(self) -> Generator | None:
        """What orders are drawn from; None: a generator that the default one seeds each time."""
        return self.generator

    def _fresh_start(self) -> dict[str, Any]:
        source = self._source()
        if source is not None:
            return source.get_state()
        seed = int(default_generator.stream.integers(0, 2**63, ()))
        return Generator(like=default_generator.like).manual_seed(seed).get_state()

    def _draws(self, draw: Generator) -> Iterator[int]:
        """Draws with replacement, a chunk at a time, from the generator as it is then."""
        for done in range(0, self.num_samples, CHUNK):
            count = min(CHUNK, self.num_samples - done)
            yield from draw.stream.integers(0, len(self.data_source), (count,)).tolist()

    def _order(self, draw: Generator) -> list[int]:
        available, wanted = len(self.data_source), self.num_samples
        if not available or not wanted:
            return []
        if self.replacement:
            return draw.stream.integers(0, available, (wanted,)).tolist()
        # PyTorch draws one order too many if they fit exactly, which changes its next order.
        rounds = wanted // available + 1 if draw.like == "torch" else -(-wanted // available)
        orders = [draw.stream.permutation(available) for _ in range(rounds)]
        return np.concatenate(orders)[:wanted].tolist()

    def __len__(self) -> int:
        return self.num_samples

    def state_dict(self) -> dict[str, Any]:
        """The generator state before the present order; also the present state of `generator`."""
        state: dict[str, Any] = {"start": self._start if self._next is None else self._next}
        if self.generator is not None:
            state["generator"] = self.generator.get_state()
        return state

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Use the saved order next."""
        start = state_dict["start"]
        if start is not None:
            Generator().set_state(start)  # reject an invalid state now, not in the next epoch
        self._next = start
        if self.generator is not None and "generator" in state_dict:
            self.generator.set_state(state_dict["generator"])


class SubsetRandomSampler(RandomSampler):
    """The given indices, in a new random order every time.

    >>> import gradwalk as gw
    >>> sorted(gw.data.SubsetRandomSampler([5, 2, 9]))
    [2, 5, 9]
    """

    def __init__(self, indices: Sequence[int], generator: Generator | None = None) -> None:
        super().__init__(indices, generator=generator)
        self.indices = indices

    def _source(self) -> Generator:
        return self.generator or default_generator  # itself, as in PyTorch

    def _order(self, draw: Generator) -> list[int]:
        order = draw.stream.permutation(len(self.indices)).tolist()
        return [self.indices[i] for i in order]


class WeightedRandomSampler(RandomSampler):
    """Indices drawn with the given weights, which need not add up to 1.

    >>> import gradwalk as gw
    >>> list(gw.data.WeightedRandomSampler([0.0, 3.0, 0.0], num_samples=2))
    [1, 1]
    """

    def __init__(
        self,
        weights: Sequence[float],
        num_samples: int,
        replacement: bool = True,
        generator: Generator | None = None,
    ) -> None:
        if not isinstance(num_samples, int) or isinstance(num_samples, bool) or num_samples <= 0:
            raise ValueError(f"num_samples must be a positive integer, not {num_samples!r}")
        if not isinstance(replacement, bool):
            raise ValueError(f"replacement is True or False, not {replacement!r}")
        self.weights: Any = wrap(np.asarray(weights, dtype=np.float64))
        if self.weights.ndim != 1:
            raise ValueError(f"weights are a sequence, not of shape {self.weights.shape}")
        super().__init__(self.weights, replacement, num_samples, generator)

    def _source(self) -> Generator:
        return self.generator or default_generator  # itself, as in PyTorch

    def _order(self, draw: Generator) -> list[int]:
        drawn = multinomial(self.weights, self.num_samples, self.replacement, generator=draw)
        return drawn.tolist()


class BatchSampler(Sampler):
    """Lists of `batch_size` indices from another sampler.

    >>> import gradwalk as gw
    >>> list(gw.data.BatchSampler(range(5), batch_size=2, drop_last=False))
    [[0, 1], [2, 3], [4]]
    """

    def __init__(self, sampler: Iterable[int], batch_size: int, drop_last: bool) -> None:
        if not isinstance(batch_size, int) or batch_size <= 0:
            raise ValueError(f"batch_size must be a positive integer, not {batch_size!r}")
        self.sampler = sampler
        self.batch_size = batch_size
        self.drop_last = drop_last

    def __iter__(self) -> Iterator[list[int]]:
        return batched(iter(self.sampler), self.batch_size, self.drop_last)

    def __len__(self) -> int:
        n = len(self.sampler)  # type: ignore[arg-type]
        return n // self.batch_size if self.drop_last else -(-n // self.batch_size)

    def state_dict(self) -> dict[str, Any]:
        """What makes the present order again."""
        return self.sampler.state_dict() if isinstance(self.sampler, Sampler) else {}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Use the saved order next."""
        if isinstance(self.sampler, Sampler):
            self.sampler.load_state_dict(state_dict)


def batched(items: Iterator[Any], size: int, drop_last: bool) -> Iterator[list[Any]]:
    """Lists of `size` items; the last may be shorter, or is dropped."""
    batch = []
    for item in items:
        batch.append(item)
        if len(batch) == size:
            yield batch
            batch = []
    if batch and not drop_last:
        yield batch


class DistributedSampler(Sampler):
    """The share of one process: every `num_replicas`-th index of an order that all of them know.

    Call `set_epoch` before each epoch, or the order stays the same. Without `drop_last`, the first
    indices are used again until the shares are equally large.

    >>> import gradwalk as gw
    >>> for rank in range(2):
    ...     sampler = gw.data.DistributedSampler("abcde", num_replicas=2, rank=rank, shuffle=False)
    ...     print(list(sampler))
    [0, 2, 4]
    [1, 3, 0]
    """

    def __init__(
        self,
        dataset: Sized,
        num_replicas: int | None = None,
        rank: int | None = None,
        shuffle: bool = True,
        seed: int = 0,
        drop_last: bool = False,
    ) -> None:
        self.dataset = dataset
        self.num_replicas = get_world_size() if num_replicas is None else num_replicas
        self.rank = get_rank() if rank is None else rank
        if not 0 <= self.rank < self.num_replicas:
            raise ValueError(f"rank is from 0 to {self.num_replicas - 1}, not {self.rank}")
        self.epoch = 0
        self.shuffle = shuffle
        self.seed = seed
        self.drop_last = drop_last
        extra = 0 if drop_last else self.num_replicas - 1
        self.num_samples = (len(dataset) + extra) // self.num_replicas
        self.total_size = self.num_samples * self.num_replicas

    def __iter__(self) -> Iterator[int]:
        order = list(range(len(self.dataset)))
        if self.shuffle:
            draw = Generator(like=default_generator.like).manual_seed(self.seed + self.epoch)
            order = randperm(len(order), generator=draw).tolist()
        repeated = islice(cycle(order), self.total_size)
        return islice(repeated, self.rank, None, self.num_replicas)

    def __len__(self) -> int:
        return self.num_samples

    def set_epoch(self, epoch: int) -> None:
        """Draw another order next time: it depends on the seed and on the epoch."""
        self.epoch = epoch
