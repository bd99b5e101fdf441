"""Samplers of some indices, and with weights: PyTorch's orders, and resumable."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import gradwalk as gw

MAKERS: dict[str, Any] = {
    "subset": lambda d, g: d.SubsetRandomSampler([7, 3, 9, 1, 4], generator=g),
    "weighted": lambda d, g: d.WeightedRandomSampler([0.1, 0.4, 0.5, 2.0], 9, generator=g),
    "no replacement": lambda d, g: d.WeightedRandomSampler([0.1, 0.4, 0.5, 2.0], 3, False, g),
}


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
def test_with_pytorchs_generator_the_orders_are_pytorchs(make: Any) -> None:
    ours = make(gw.data, gw.Generator(like="torch").manual_seed(3))
    theirs = make(torch.utils.data, torch.Generator().manual_seed(3))
    assert len(ours) == len(theirs)
    for _ in range(3):
        assert list(ours) == list(theirs)


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
def test_without_a_generator_they_draw_from_the_default_one_as_pytorchs_do(make: Any) -> None:
    gw.manual_seed(3, like="torch")
    torch.manual_seed(3)
    try:
        ours, theirs = make(gw.data, None), make(torch.utils.data, None)
        for _ in range(2):
            assert list(ours) == list(theirs)
            assert gw.rand(1).item() == torch.rand(1).item()
    finally:
        gw.manual_seed(0, like="gradwalk")


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
def test_an_epoch_is_taken_up_again(make: Any) -> None:
    data = list(range(10))
    loader = gw.data.DataLoader(data, batch_size=2, sampler=make(gw.data, None))
    batches = iter(loader)
    next(batches)
    saved = loader.state_dict()
    resumed = gw.data.DataLoader(data, batch_size=2, sampler=make(gw.data, None))
    resumed.load_state_dict(saved)
    assert [b.tolist() for b in resumed] == [b.tolist() for b in batches]


@pytest.mark.parametrize(
    "make",
    [
        lambda d: d.WeightedRandomSampler([1.0], 0),
        lambda d: d.WeightedRandomSampler([1.0], 1, replacement=1),
        lambda d: d.WeightedRandomSampler([[1.0]], 1),
    ],
)
def test_mistakes_are_refused(make: Any) -> None:
    for data in (gw.data, torch.utils.data):
        with pytest.raises(ValueError):
            make(data)


def test_a_huge_number_of_draws_is_made_in_chunks() -> None:
    many = gw.data.RandomSampler(range(10), replacement=True, num_samples=10**10)
    assert len(many) == 10**10 and next(iter(many)) in range(10)
    ours = gw.data.RandomSampler(
        range(10), True, 70_000, generator=gw.Generator(like="torch").manual_seed(3)
    )
    theirs = torch.utils.data.RandomSampler(
        range(10), True, 70_000, generator=torch.Generator().manual_seed(3)
    )
    assert list(ours) == list(theirs) and list(ours) == list(theirs)
    present = list(ours)
    ours.load_state_dict(ours.state_dict())
    assert list(ours) == present
