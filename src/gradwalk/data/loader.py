"""DataLoader: batches, in order or shuffled, prefetched in the background, and resumable."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from types import GenericAlias
from typing import Any

from gradwalk.data.collate import default_collate, default_convert
from gradwalk.data.dataset import IterableDataset, batch_taker
from gradwalk.data.global_batches import GlobalBatches
from gradwalk.data.sampler import BatchSampler, RandomSampler, Sampler, SequentialSampler, batched
from gradwalk.distributed.mesh import Mesh
from gradwalk.random.generator import Generator, default_generator

# PyTorch's options about worker processes and GPUs. They change no batch and are ignored.
_WITHOUT_MEANING = {
    "pin_memory", "pin_memory_device", "persistent_workers", "timeout", "worker_init_fn",
    "multiprocessing_context", "in_order",
}  # fmt: skip


class DataLoader:
    """Batches of a dataset.

    `num_workers` above 0 prefetches `prefetch_factor` batches in one background thread, which runs
    during NumPy calls and file reads. (If samples draw random numbers and the run must repeat
    exactly, leave it off.)

    With `mesh`, batches are divided over its axis "data", or its first, and each process reads
    the samples of its own rows (of a stream, all of them); the batches are those of one process.
    `batch_size` counts the rows of all processes.

    `state_dict()` is the position in the data; a loader that loads it continues with the remaining
    batches:

    >>> import gradwalk as gw
    >>> loader = gw.data.DataLoader(range(6), batch_size=2, shuffle=True)
    >>> batches = iter(loader)
    >>> first, saved = next(batches), loader.state_dict()
    >>> resumed = gw.data.DataLoader(range(6), batch_size=2, shuffle=True)
    >>> resumed.load_state_dict(saved)
    >>> [b.tolist() for b in resumed] == [b.tolist() for b in batches]
    True
    """

    __class_getitem__: Any = classmethod(GenericAlias)

    def __init__(
        self,
        dataset: Any,
        batch_size: int | None = 1,
        shuffle: bool = False,
        sampler: Iterable[int] | None = None,
        batch_sampler: Iterable[list[int]] | None = None,
        num_workers: int = 0,
        collate_fn: Callable[[list[Any]], Any] | None = None,
        drop_last: bool = False,
        generator: Generator | None = None,
        *,
        prefetch_factor: int | None = None,
        mesh: Mesh | None = None,
        **unused: Any,
    ) -> None:
        if unused.keys() - _WITHOUT_MEANING:
            unknown = ", ".join(sorted(unused.keys() - _WITHOUT_MEANING))
            raise TypeError(f"DataLoader has no option {unknown}")
        prefetch_factor = 2 if prefetch_factor is None else prefetch_factor
        self.dataset = dataset
        self.batch_size = batch_size
        self.drop_last = drop_last
        self.num_workers = num_workers
        self.prefetch_factor = prefetch_factor
        self.generator = generator
        self.streams = isinstance(dataset, IterableDataset) or not hasattr(dataset, "__getitem__")
        if sampler is not None and shuffle:
            raise ValueError("a sampler decides the order itself: leave shuffle off")
        if self.streams and (shuffle or sampler is not None or batch_sampler is not None):
            raise ValueError("a stream of samples has its own order: no shuffle and no sampler")
        if batch_sampler is not None and (sampler is not None or shuffle or drop_last):
            raise ValueError("batch_sampler excludes sampler, shuffle and drop_last")
        if num_workers < 0 or prefetch_factor < 1:
            raise ValueError("num_workers must not be negative, prefetch_factor at least 1")
        self.sampler: Iterable[int] | None = sampler
        self.batch_sampler: Iterable[list[int]] | None = batch_sampler
        if not self.streams and batch_sampler is None:
            if sampler is None:
                self.sampler = (
                    RandomSampler(dataset, generator=generator)
                    if shuffle
                    else SequentialSampler(dataset)
                )
            if batch_size is not None:
                self.batch_sampler = BatchSampler(self.sampler, batch_size, drop_last)  # type: ignore[arg-type]
        elif self.streams and batch_size is not None and batch_size <= 0:
            raise ValueError(f"batch_size must be a positive integer, not {batch_size!r}")
        self.mesh = mesh
        self._global = None if mesh is None else GlobalBatches(mesh)
        if self._global is not None and batch_sampler is None:
            samples = length_of(dataset if sampler is None else sampler)
            self._global.check_sizes(batch_size, samples, drop_last)
        self.collate_fn = collate_fn
        self._position = 0  # batches of the present epoch so far
        self._skip: int | None = None  # batches to skip in the next epoch, if a state was loaded

    def __len__(self) -> int:
        if self.streams:
            n = len(self.dataset)
            if self.batch_size is None:
                return n
            return n // self.batch_size if self.drop_last else -(-n // self.batch_size)
        return len(self.batch_sampler if self.batch_sampler is not None else self.sampler)  # type: ignore[arg-type]

    def __iter__(self) -> Iterator[Any]:
        skipped = self._skip or 0
        generator = self.generator or default_generator
        if generator.like == "torch" and not skipped:
            generator.stream.integers(0, 2**63, ())  # PyTorch draws a seed for its workers here
        self._skip, self._position = None, skipped
        return self._give(self._batches(skipped))

    def _batches(self, skipped: int) -> Iterator[Any]:
        """This epoch's batches without the skipped ones, which are read only from a stream."""
        collate = self.collate_fn or default_collate
        if self.streams:
            if self.batch_size is None:
                items = islice(iter(self.dataset), skipped, None)
                return map(self.collate_fn or default_convert, items)
            groups = batched(iter(self.dataset), self.batch_size, self.drop_last)
            return self._made(islice(groups, skipped, None), collate)
        dataset = self.dataset
        if self.batch_sampler is None:
            indices = islice(iter(self.sampler), skipped, None)  # type: ignore[arg-type]
            samples = (dataset[i] for i in indices)
            return map(self.collate_fn or default_convert, samples)
        chosen = islice(iter(self.batch_sampler), skipped, None)
        take = batch_taker(dataset) if self.collate_fn is None else None
        return self._made(chosen, take or (lambda batch: collate([dataset[i] for i in batch])))

    def _made(self, groups: Iterator[Any], make: Callable[[Any], Any]) -> Iterator[Any]:
        """A batch for each group of samples or their indices."""
        return map(make, groups) if self._global is None else self._global.of(groups, make)

    def _give(self, batches: Iterator[Any]) -> Iterator[Any]:
        if self.num_workers:
            batches = ahead(batches, self.prefetch_factor)
        for batch in batches:
            self._position += 1
            yield batch
        self._position = 0
        self._ended()

    def _ended(self) -> None:
        """End the epoch: the next has its own order."""
        if isinstance(self._random, RandomSampler):
            self._random._start = None

    @property
    def _random(self) -> Sampler | None:
        for sampler in (self.batch_sampler, self.sampler):
            if isinstance(sampler, BatchSampler) and isinstance(sampler.sampler, Sampler):
                return sampler.sampler
            if isinstance(sampler, Sampler):
                return sampler
        return None

    def state_dict(self) -> dict[str, Any]:
        """The position in the data, after the last batch."""
        position = self._position if self._skip is None else self._skip
        sampler = self._random
        return {"position": position, "sampler": {} if sampler is None else sampler.state_dict()}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Continue from a saved position in the next iteration."""
        position = state_dict["position"]
        if not isinstance(position, int) or position < 0:
            raise ValueError(f"the saved position must be a whole number, not {position!r}")
        sampler = self._random
        if sampler is not None and state_dict["sampler"]:
            sampler.load_state_dict(state_dict["sampler"])
        self._skip = position


def length_of(samples: Any) -> int | None:
    """How many there are, if they know it."""
    try:
        return len(samples)
    except TypeError:
        return None


_END = object()


def ahead(items: Iterator[Any], depth: int) -> Iterator[Any]:
    """Prefetch up to `depth` items in a thread."""
    from concurrent.futures import ThreadPoolExecutor  # importing it has effects on forks

    pool = ThreadPoolExecutor(1, thread_name_prefix="gradwalk batches")
    try:
        ready = deque(pool.submit(next, items, _END) for _ in range(depth + 1))
        while (item := ready.popleft().result()) is not _END:
            ready.append(pool.submit(next, items, _END))
            yield item
    finally:  # also when the loop ends early
        pool.shutdown(cancel_futures=True)


def get_worker_info() -> None:
    """None, as in the main process: a thread prefetches batches, and it sees the whole dataset.

    >>> import gradwalk as gw
    >>> gw.data.get_worker_info() is None
    True
    """
