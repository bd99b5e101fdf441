"""DataLoader: batches, in order or shuffled, prefetched in the background, and resumable."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from itertools import chain, count, islice
from types import GenericAlias
from typing import Any

from gradwalk.data.collate import default_collate, default_convert
from gradwalk.data.dataset import IterableDataset, batch_fetcher, batch_taker
from gradwalk.data.global_batches import GlobalBatches
from gradwalk.data.sampler import BatchSampler, RandomSampler, Sampler, SequentialSampler, batched
from gradwalk.distributed.mesh import Mesh
from gradwalk.random.generator import Generator, default_generator, reading_with

# PyTorch's options about worker processes and GPUs. They change no batch: they are attributes only.
_WITHOUT_MEANING = {
    "pin_memory": False, "pin_memory_device": "", "persistent_workers": False, "timeout": 0,
    "worker_init_fn": None, "multiprocessing_context": None, "in_order": True,
}  # fmt: skip
_SETTLED = ("batch_size", "batch_sampler", "sampler", "drop_last", "dataset")


class DataLoader:
    """Batches of a dataset.

    `num_workers` above 0 prefetches `prefetch_factor` batches in one background thread, which runs
    during NumPy calls and file reads. There, gradwalk's random numbers come from streams of their
    own, one for each worker that PyTorch would have, so that a run with the same seed repeats. (If
    samples draw from `random` or NumPy and the run must repeat exactly, leave it off.)

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
        if unused.keys() - _WITHOUT_MEANING.keys():
            unknown = ", ".join(sorted(unused.keys() - _WITHOUT_MEANING.keys()))
            raise TypeError(f"DataLoader has no option {unknown}")
        vars(self).update(_WITHOUT_MEANING | unused)
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
        alone = batch_size is None and batch_sampler is None
        self.collate_fn = collate_fn or (default_convert if alone else default_collate)
        self._position = 0  # batches of the present epoch so far
        self._epochs = 0  # begun so far
        self._skip: int | None = None  # batches to skip in the next epoch, if a state was loaded

    def __setattr__(self, name: str, value: Any) -> None:
        if name in _SETTLED and "_skip" in vars(self):
            raise ValueError(
                f"{name} of a DataLoader does not change after it is made: make another one"
            )
        super().__setattr__(name, value)

    def __len__(self) -> int:
        if self.streams:
            n = len(self.dataset)
            if self.batch_size is None:
                return n
            return n // self.batch_size if self.drop_last else -(-n // self.batch_size)
        return len(self.batch_sampler if self.batch_sampler is not None else self.sampler)  # type: ignore[arg-type]

    def __iter__(self) -> Iterator[Any]:
        skipped = self._skip or 0
        readers = self._readers(skipped)
        self._skip, self._position = None, skipped
        return self._give(self._batches(skipped), readers)

    def _readers(self, skipped: int) -> list[Generator]:
        """What the workers of PyTorch would draw with, one after the other."""
        source, more = self.generator or default_generator, 0
        if source.like != "torch" or skipped:  # which draws a seed for them here
            if not self.num_workers:
                return []
            source, more = source.clone_state(), self._epochs * self.num_workers
        self._epochs += 1
        seed = int(source.stream.integers(0, 2**63, ())) + more
        like = default_generator.like
        return [Generator(like=like).manual_seed(seed + n) for n in range(self.num_workers)]

    def _batches(self, skipped: int) -> Iterator[Any]:
        """This epoch's batches without the skipped ones, which are read only from a stream."""
        collate = self.collate_fn
        if self.streams:
            if self.batch_size is None:
                return map(collate, islice(iter(self.dataset), skipped, None))
            groups = batched(iter(self.dataset), self.batch_size, self.drop_last)
            return self._made(islice(groups, skipped, None), collate)
        dataset = self.dataset
        if self.batch_sampler is None:
            indices = _by_default(islice(iter(self.sampler), skipped, None))  # type: ignore[arg-type]
            return map(collate, (dataset[i] for i in indices))
        chosen = _by_default(islice(iter(self.batch_sampler), skipped, None))
        take = batch_taker(dataset) if collate is default_collate else None
        fetch = batch_fetcher(dataset)
        return self._made(chosen, take or (lambda batch: collate(fetch(batch))))

    def _made(self, groups: Iterator[Any], make: Callable[[Any], Any]) -> Iterator[Any]:
        """A batch for each group of samples or their indices."""
        return map(make, groups) if self._global is None else self._global.of(groups, make)

    def _give(self, batches: Iterator[Any], readers: list[Generator]) -> Iterator[Any]:
        if readers:
            batches = ahead(batches, self.prefetch_factor, readers)
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


def _by_default(groups: Iterator[Any]) -> Iterator[Any]:
    """A sampler's choices; it draws with the default generator, also if a thread asks for them.

    The first is made now: a sampler of a program's own draws an order before it.
    """

    def rest() -> Iterator[Any]:
        while True:
            before = reading_with.set(None)
            try:
                group = next(groups, _END)
            finally:
                reading_with.reset(before)
            if group is _END:
                return
            yield group

    return chain(list(islice(groups, 1)), rest())


def ahead(items: Iterator[Any], depth: int, readers: list[Generator]) -> Iterator[Any]:
    """Prefetch up to `depth` items in a thread, drawing each with the next of the generators."""
    from concurrent.futures import ThreadPoolExecutor  # importing it has effects on forks

    numbers = count()

    def read() -> Any:
        reading_with.set(readers[next(numbers) % len(readers)])
        return next(items, _END)

    pool = ThreadPoolExecutor(1, thread_name_prefix="gradwalk batches")
    try:
        ready = deque(pool.submit(read) for _ in range(depth + 1))
        while (item := ready.popleft().result()) is not _END:
            ready.append(pool.submit(read))
            yield item
    finally:  # also when the loop ends early
        pool.shutdown(cancel_futures=True)


def get_worker_info() -> None:
    """None, as in the main process: a thread prefetches batches, and it sees the whole dataset.

    >>> import gradwalk as gw
    >>> gw.data.get_worker_info() is None
    True
    """
