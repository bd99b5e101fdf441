"""The loader gives every sample once, in the background too, and resumes anywhere."""

import collections
import gc
import json
import threading
import time
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch.utils.data

import gradwalk as gw
from gradwalk import data


class Stream(data.IterableDataset):
    def __iter__(self) -> Iterator[int]:
        return iter(range(10))


def make(workers: int = 0, **options: Any) -> data.DataLoader:
    settings: dict[str, Any] = {"batch_size": 3, "shuffle": True, **options}
    return data.DataLoader(range(10), num_workers=workers, **settings)


def listed(batches: Any) -> list[Any]:
    return [batch.tolist() for batch in batches]


@pytest.mark.parametrize("workers", [0, 1])
@pytest.mark.parametrize("drop_last", [False, True])
@pytest.mark.parametrize("batch_size", [1, 3, 10, 11])
def test_in_order_it_gives_pytorchs_batches(batch_size: int, drop_last: bool, workers: int) -> None:
    options: dict[str, Any] = {"batch_size": batch_size, "drop_last": drop_last}
    ours = data.DataLoader(range(10), num_workers=workers, **options)
    theirs = torch.utils.data.DataLoader(range(10), **options)
    assert listed(ours) == listed(theirs)
    assert len(ours) == len(theirs)
    stream = data.DataLoader(Stream(), num_workers=workers, **options)
    assert listed(stream) == listed(theirs)


@pytest.mark.parametrize("workers", [0, 1])
def test_shuffled_it_gives_every_sample_once_in_a_seeded_order(workers: int) -> None:
    gw.manual_seed(5)
    first, second = listed(make(workers)), listed(make(workers))
    assert sorted(x for batch in first for x in batch) == list(range(10))
    assert first != second
    gw.manual_seed(5)
    assert listed(make(0)) == first
    own = [listed(make(workers, generator=gw.Generator().manual_seed(5))) for _ in range(2)]
    assert own[0] == own[1] != first  # drawn from it directly, as in PyTorch


def test_without_batches_and_with_a_collate_function() -> None:
    assert list(data.DataLoader("abc", batch_size=None)) == ["a", "b", "c"]
    assert list(data.DataLoader("abc", batch_size=2, collate_fn="".join)) == ["ab", "c"]
    assert list(data.DataLoader(Stream(), batch_size=None)) == list(range(10))
    assert list(data.DataLoader("abc", batch_size=None, collate_fn=str.upper)) == ["A", "B", "C"]
    assert list(data.DataLoader("abc", batch_sampler=[[2, 0], [1]])) == [["c", "a"], ["b"]]
    assert list(data.DataLoader("abc", sampler=[1, 1], batch_size=None)) == ["b", "b"]


def test_tensors_are_taken_whole_and_give_what_single_samples_would() -> None:
    tensors = data.TensorDataset(gw.arange(12).reshape(6, 2), gw.arange(6))
    for dataset in (tensors, data.Subset(data.Subset(tensors, [5, 3, 1, 0]), [0, 2, 3])):
        quick = data.DataLoader(dataset, batch_size=2)
        slow = data.DataLoader(dataset, batch_size=2, collate_fn=data.default_collate)
        for a, b in zip(quick, slow, strict=True):
            assert [t.tolist() for t in a] == [t.tolist() for t in b]

    class Doubled(data.TensorDataset):
        def __getitem__(self, index: Any) -> Any:
            return tuple(2 * t for t in super().__getitem__(index))

    (batch,) = next(iter(data.DataLoader(Doubled(gw.arange(3)), batch_size=3)))
    assert batch.tolist() == [0, 2, 4]


@pytest.mark.parametrize("own_generator", [False, True])
@pytest.mark.parametrize("workers", [0, 1])
@pytest.mark.parametrize("stop", range(9))
def test_a_resumed_run_sees_the_same_batches(stop: int, workers: int, own_generator: bool) -> None:
    def fresh(seed: int) -> data.DataLoader:
        generator = gw.Generator().manual_seed(seed) if own_generator else None
        return make(workers, generator=generator)

    gw.manual_seed(1)
    loader = fresh(1)
    seen: list[Any] = []
    saved: Any = None
    random_state: Any = None
    for epoch in range(3):
        for batch in loader:
            seen.append(batch.tolist())
            if len(seen) == stop:
                saved, random_state = loader.state_dict(), gw.get_rng_state()
                here = epoch
        if stop == 0 and epoch == 0:  # between two epochs
            saved, random_state, here = loader.state_dict(), gw.get_rng_state(), 1
    start = 4 if stop == 0 else stop

    gw.manual_seed(99)
    resumed = fresh(99)
    if not own_generator:
        saved = json.loads(json.dumps(saved))
    resumed.load_state_dict(saved)
    assert resumed.state_dict()["position"] == saved["position"]
    gw.set_rng_state(random_state)
    after = [batch.tolist() for _ in range(here, 3) for batch in resumed]
    assert after == seen[start:]


def test_a_stream_resumes() -> None:
    loader = data.DataLoader(Stream(), batch_size=3)
    batches = iter(loader)
    next(batches)
    resumed = data.DataLoader(Stream(), batch_size=3)
    resumed.load_state_dict(loader.state_dict())
    assert listed(resumed) == listed(batches)
    assert len(listed(resumed)) == 4


def test_prefetching_goes_ahead_but_not_further_than_told() -> None:
    made: list[int] = []

    class Noted(data.Dataset):
        def __len__(self) -> int:
            return 20

        def __getitem__(self, index: int) -> int:
            made.append(index)
            return index

    batches = iter(data.DataLoader(Noted(), num_workers=1, prefetch_factor=3))
    next(batches)
    end = time.monotonic() + 5
    while len(made) < 5 and time.monotonic() < end:
        time.sleep(0.01)
    time.sleep(0.05)
    assert len(made) == 5  # one given, three waiting, one in hand


def test_an_error_in_the_background_reaches_the_loop() -> None:
    class Broken(data.Dataset):
        def __len__(self) -> int:
            return 5

        def __getitem__(self, index: int) -> int:
            if index == 2:
                raise KeyError("sample 2")
            return index

    seen = []
    with pytest.raises(KeyError, match="sample 2"):
        for batch in data.DataLoader(Broken(), num_workers=1):
            seen.append(batch.item())
    assert seen == [0, 1]


def test_a_loop_left_early_leaves_no_thread() -> None:
    def background() -> int:
        gc.collect()
        return sum(t.name.startswith("gradwalk batches") for t in threading.enumerate())

    for batch in make(1):
        assert len(batch) and background() == 1
        break
    del batch
    assert background() == 0
    batches = iter(make(1))
    next(batches)
    del batches
    assert background() == 0


@pytest.mark.parametrize(
    "options",
    [
        {"shuffle": True, "sampler": [1]},
        {"batch_sampler": [[1]], "shuffle": True},
        {"batch_size": 0},
        {"num_workers": -1},
        {"prefetch_factor": 0},
    ],
)
def test_mistakes_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ValueError):
        data.DataLoader(range(3), **options)
    with pytest.raises(ValueError, match="own order"):
        data.DataLoader(Stream(), shuffle=True)
    with pytest.raises(ValueError, match="position"):
        make().load_state_dict({"position": -1, "sampler": {}})


class Named(NamedTuple):
    a: Any
    b: Any


class Growing(list[Any]):
    pass


SAMPLES: list[Any] = [
    2.5, "s", np.float32(2), np.str_("x"), np.ones(2), np.array(3.0), (1, 2), [np.ones(1), 2],
    Growing([1, 2]), collections.OrderedDict(a=np.ones(1)), collections.UserDict(a=1),
    Named(1, np.ones(1)), range(2), collections.defaultdict(list, a=1), np.array(["a"]), None,
]  # fmt: skip


def _shown(value: Any) -> Any:
    if isinstance(value, (dict, collections.UserDict)):
        return type(value).__name__, {key: _shown(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value).__name__, [_shown(one) for one in value]
    if isinstance(value, (gw.Tensor, torch.Tensor)):
        return str(value.dtype).removeprefix("torch."), value.tolist()
    return type(value).__name__, str(value)


@pytest.mark.parametrize("name", ["default_collate", "default_convert"])
def test_samples_of_any_class_as_in_pytorch(name: str) -> None:
    for sample in SAMPLES:
        found: list[Any] = []
        for m in (gw, torch):
            given = [sample, sample] if name == "default_collate" else sample
            try:
                found.append(_shown(getattr(m.utils.data, name)(given)))
            except TypeError:
                found.append("TypeError")
        assert found[0] == found[1], sample


def test_a_dataset_that_reads_whole_batches_and_a_loader_without_batches() -> None:
    class Batches:
        def __len__(self) -> int:
            return 4

        def __getitem__(self, index: int) -> Any:
            return np.ones(1) * index

        def __getitems__(self, indices: list[int]) -> Any:
            return [10 * i for i in indices]

    data = gw.utils.data
    assert [b.tolist() for b in data.DataLoader(Batches(), batch_size=2)] == [[0, 10], [20, 30]]
    alone = list(data.DataLoader(Batches(), batch_size=None))
    assert all(isinstance(sample, gw.Tensor) for sample in alone)
    assert [float(sample) for sample in alone] == [0, 1, 2, 3]


def test_what_a_loader_tells_of_itself() -> None:
    loader = gw.utils.data.DataLoader(range(4), batch_size=2, pin_memory=True)
    assert loader.pin_memory and loader.timeout == 0 and loader.worker_init_fn is None
    assert loader.collate_fn([1, 2]).tolist() == [1, 2]
    with pytest.raises(ValueError, match="batch_size of a DataLoader does not change"):
        loader.batch_size = 3


class Drawing(data.Dataset):
    def __len__(self) -> int:
        return 7

    def __getitem__(self, index: int) -> Any:
        return gw.rand(2)


@pytest.mark.parametrize("like", ["gradwalk", "torch"])
def test_samples_that_draw_in_the_background_repeat_with_the_seed(like: str) -> None:
    def run() -> list[Any]:
        gw.manual_seed(5, like=like)
        loader = data.DataLoader(Drawing(), 2, num_workers=2)
        found = [with_others(batch) for _ in range(2) for batch in loader]
        return [*found, next(iter(loader)).tolist()]

    def with_others(batch: Any) -> Any:
        return batch.tolist(), gw.rand(100).tolist()  # while the next are read

    once, again = run(), run()
    gw.manual_seed(0, like="gradwalk")
    assert once == again
    assert once[0][0] != once[1][0] and once[0][0] != once[4][0]  # nor do epochs repeat each other


def test_samples_draw_what_they_draw_in_pytorchs_workers() -> None:
    gw.manual_seed(5, like="torch")
    torch.manual_seed(5)
    found = [batch.tolist() for batch in data.DataLoader(Drawing(), 2, num_workers=3)]
    after = gw.rand(1).item()
    gw.manual_seed(0, like="gradwalk")
    seed = int(torch.empty((), dtype=torch.int64).random_())
    expected_after = torch.rand(1).item()
    workers = [torch.Generator().manual_seed(seed + n) for n in range(3)]
    for number, batch in enumerate(found):
        expected = [torch.rand(2, generator=workers[number % 3]).tolist() for _ in batch]
        assert batch == expected
    assert after == expected_after


def test_a_sampler_of_ones_own_draws_with_the_default_generator() -> None:
    class Shuffled(data.Sampler):
        def __iter__(self) -> Any:
            yield from gw.randperm(7).tolist()

        def __len__(self) -> int:
            return 7

    gw.manual_seed(3)
    order = gw.randperm(7).tolist()
    gw.manual_seed(3)
    loader = data.DataLoader(list(range(7)), sampler=Shuffled(), batch_size=None, num_workers=2)
    assert [int(sample) for sample in loader] == order
