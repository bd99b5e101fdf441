"""Sets of samples, samplers and collation, most against PyTorch's."""

from collections import namedtuple
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch.utils.data

import gradwalk as gw
from gradwalk import data


class Squares(data.Dataset):
    def __len__(self) -> int:
        return 4

    def __getitem__(self, index: int) -> Any:
        return index, index**2


def test_concatenation_subsets_and_errors() -> None:
    both = Squares() + Squares()
    assert len(both) == 8
    assert both[7] == both[-1] == (3, 9)
    with pytest.raises(IndexError):
        both[8]
    part = data.Subset(both, [7, 0])
    assert list(part) == [(3, 9), (0, 0)]
    with pytest.raises(TypeError):  # the dataset is asked for a list, and takes numbers
        part[[0]]
    tensors = data.TensorDataset(gw.arange(5))
    few = data.Subset(data.Subset(tensors, [4, 3, 1]), [0, 2])
    assert [t.tolist() for t in few[:]] == [t.tolist() for t in few[[0, 1]]] == [[4, 1]]
    with pytest.raises(ValueError, match="one length"):
        data.TensorDataset(gw.zeros(2), gw.zeros(3))
    with pytest.raises(NotImplementedError):
        data.Dataset()[0]


@pytest.mark.parametrize(
    ("lengths", "expected"),
    [([7, 3], [7, 3]), ([0.5, 0.25, 0.25], [6, 2, 2]), ([1.0], [10]), ([0, 10], [0, 10])],
)
def test_random_split(lengths: list[float], expected: list[int]) -> None:
    parts = data.random_split(range(10), lengths, gw.Generator().manual_seed(1))
    assert [len(part) for part in parts] == expected
    assert sorted(x for part in parts for x in part) == list(range(10))
    theirs = torch.utils.data.random_split(range(10), lengths)
    assert [len(part) for part in theirs] == expected
    again = data.random_split(range(10), lengths, gw.Generator().manual_seed(1))
    assert [list(part) for part in again] == [list(part) for part in parts]


def test_random_split_refuses_wrong_lengths() -> None:
    with pytest.raises(ValueError, match="sum"):
        data.random_split(range(10), [3, 4])


Pair = namedtuple("Pair", "x y")
SAMPLES: list[Any] = [
    [1, 2, 3],
    [1.5, 2.5],
    [True, False],
    [(1, 2.0), (3, 4.0)],
    [{"a": 1, "b": (2, 3.0)}, {"a": 4, "b": (5, 6.0)}],
    [np.ones(2, np.float32), np.zeros(2, np.float32)],
    [np.float64(3.0), np.float64(4.0)],
    [Pair(1, 2.0), Pair(3, 4.0)],
    ["one", "two"],
    [[1, 2], [3, 4]],
]


def plain(thing: Any) -> Any:
    if isinstance(thing, gw.Tensor | torch.Tensor):
        return str(thing.dtype).removeprefix("torch."), thing.tolist()
    if isinstance(thing, dict):
        return {k: plain(v) for k, v in thing.items()}
    if isinstance(thing, str):
        return thing
    return [type(thing).__name__, *(plain(x) for x in thing)]


@pytest.mark.parametrize("batch", SAMPLES, ids=str)
def test_collation_is_pytorchs(batch: Any) -> None:
    expected = torch.utils.data.default_collate(batch)
    assert plain(data.default_collate(batch)) == plain(expected)


def test_collation_says_what_it_cannot_do() -> None:
    with pytest.raises(TypeError, match="collate_fn"):
        data.default_collate([object()])
    with pytest.raises(ValueError, match="collate_fn"):
        data.default_collate([[1], [1, 2]])


def test_samplers() -> None:
    gw.manual_seed(0)
    sampler = data.RandomSampler(range(20))
    first, second = list(sampler), list(sampler)
    assert sorted(first) == sorted(second) == list(range(20))
    assert first != second
    gw.manual_seed(0)
    assert list(sampler) == first
    drawn = list(data.RandomSampler(range(3), replacement=True, num_samples=50))
    assert len(drawn) == 50
    assert set(drawn) == {0, 1, 2}
    assert len(list(data.RandomSampler(range(3), num_samples=7))) == 7
    assert list(data.RandomSampler([])) == []
    for drop in (True, False):
        ours = data.BatchSampler(data.SequentialSampler(range(7)), 3, drop)
        theirs = torch.utils.data.BatchSampler(range(7), 3, drop)
        assert list(ours) == list(theirs)
        assert len(ours) == len(theirs)


@pytest.mark.parametrize("make", [data.moons, data.circles, data.spirals])
def test_generated_sets_are_seeded_and_labelled(make: Any) -> None:
    points, labels = make(101, seed=3).tensors
    assert points.shape == (101, 2)
    assert points.dtype == np.float32
    assert labels.dtype == np.int64
    counts = np.bincount(labels.numpy())
    assert counts.max() - counts.min() <= 1
    np.testing.assert_array_equal(make(101, seed=3).tensors[0].numpy(), points.numpy())
    assert not np.array_equal(make(101, seed=4).tensors[0].numpy(), points.numpy())


def test_digits() -> None:
    images, labels = data.digits().tensors
    assert images.shape == (1797, 1, 8, 8)
    assert images.dtype == np.float32
    assert images.numpy().min() == 0
    assert images.numpy().max() == 1
    assert np.bincount(labels.numpy()).tolist() == [
        178,
        182,
        177,
        183,
        181,
        182,
        181,
        179,
        174,
        180,
    ]
    assert len(data.digits("train")) + len(data.digits("test")) == 1797
    with pytest.raises(ValueError, match="split"):
        data.digits("validation")
    folder = Path(data.__file__).parent
    assert "CC BY 4.0" in (folder / "digits.txt").read_text(encoding="utf-8")


def test_characters_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "text.txt"
    path.write_text("abcäabc", encoding="utf-8")
    text = data.characters(path, length=3)
    assert text.vocabulary == "abcä"
    assert [text.decode(y) for _, y in data.Subset(text, range(len(text)))] == [
        "bcä",
        "cäa",
        "äab",
        "abc",
    ]
    x, y = next(iter(data.DataLoader(text, batch_size=4)))
    assert x.shape == y.shape == (4, 3)
    with pytest.raises(ValueError, match="vocabulary"):
        text.encode("z")
    with pytest.raises(ValueError, match="window"):
        data.characters("abc", length=3)
