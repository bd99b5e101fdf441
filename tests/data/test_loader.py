"""The loader gives every sample once, in the background too, and resumes anywhere."""

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


def test_without_batches_samples_are_converted() -> None:
    """Arrays stayed arrays, and tuples tuples."""

    class Named(NamedTuple):
        one: Any
        other: Any

    samples = [
        (np.arange(2), "a", [np.float32(1.5)], Named(np.int64(1), 2)),
        ({"x": np.ones((1, 2)), "y": b"b"}, np.str_("c"), 1.5, None),
    ]

    class Samples(data.IterableDataset):
        def __iter__(self) -> Iterator[Any]:
            return iter(samples)

    def plain(x: Any) -> Any:
        if hasattr(x, "detach"):
            return ("tensor", x.tolist(), str(x.dtype).removeprefix("torch."))
        if isinstance(x, dict):
            return {key: plain(value) for key, value in x.items()}
        return type(x)(map(plain, x)) if type(x) in (list, tuple) else x

    theirs = plain(list(torch.utils.data.DataLoader(samples, batch_size=None)))
    for dataset in (samples, Samples()):
        assert str(plain(list(data.DataLoader(dataset, batch_size=None)))).replace(
            "gradwalk", "torch"
        ) == str(theirs)
    made = data.default_convert(Named(np.int64(1), (np.ones(1),)))
    assert isinstance(made, Named) and made.other[0].tolist() == [1.0]
