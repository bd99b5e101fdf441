"""In which order samples are visited."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sized
from typing import Any

import numpy as np

from gradwalk.random import Generator, default_generator


class Sampler:
    """An order of indices: subclasses write `__iter__`, and `__len__` if they know it.

    One whose order is random also writes `state_dict` and `load_state_dict`, so that a loader can
    visit the rest of an epoch in the same order after a restart.
    """

    def __iter__(self) -> Iterator[Any]:
        raise NotImplementedError(f"{type(self).__name__} defines no __iter__")

    def state_dict(self) -> dict[str, Any]:
        """What makes the present order again."""
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

    Each order grows from a seed drawn from `generator` (or the library's own), and that seed is
    all that needs saving.

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
            raise ValueError(f"num_samples must be above 0, and is {num_samples}")
        self.data_source = data_source
        self.replacement = replacement
        self._num_samples = num_samples
        self.generator = generator
        self._seed: int | None = None  # of the order in use
        self._next: int | None = None  # of the next, if it was loaded

    @property
    def num_samples(self) -> int:
        """How many indices one iteration gives."""
        return len(self.data_source) if self._num_samples is None else self._num_samples

    def __iter__(self) -> Iterator[int]:
        if self._next is None:
            drawn = (self.generator or default_generator).numpy.integers(2**63 - 1)
            self._seed = int(drawn)
        else:
            self._seed, self._next = self._next, None
        # Drawn here and not while iterating: another iteration may begin before this one ends.
        return iter(self._order(np.random.Generator(np.random.Philox(self._seed))))

    def _order(self, draw: np.random.Generator) -> list[int]:
        available, wanted = len(self.data_source), self.num_samples
        if self.replacement:
            return draw.integers(available, size=wanted).tolist() if wanted else []
        order: list[int] = []
        while len(order) < wanted and available:
            order += draw.permutation(available).tolist()
        return order[:wanted]

    def __len__(self) -> int:
        return self.num_samples

    def state_dict(self) -> dict[str, Any]:
        """The seed of the present order, and the state of the generator if it has its own."""
        state: dict[str, Any] = {"seed": self._seed if self._next is None else self._next}
        if self.generator is not None:
            state["generator"] = self.generator.get_state()
        return state

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Use the saved order next."""
        self._next = state_dict["seed"]
        if self.generator is not None and "generator" in state_dict:
            self.generator.set_state(state_dict["generator"])


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
    """Lists of `size` items; the last may be shorter, or is left out."""
    batch = []
    for item in items:
        batch.append(item)
        if len(batch) == size:
            yield batch
            batch = []
    if batch and not drop_last:
        yield batch
