"""Datasets made of datasets, against PyTorch's."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch

import gradwalk as gw


def letters(engine: Any) -> Any:
    class Letters(engine.utils.data.IterableDataset):  # type: ignore[misc, name-defined]
        def __init__(self, text: str) -> None:
            self.text = text

        def __iter__(self) -> Iterator[str]:
            return iter(self.text)

        def __len__(self) -> int:
            return len(self.text)

    return Letters


def test_streams_one_after_the_other() -> None:
    for engine in (gw, torch):
        stream = letters(engine)
        both = stream("ab") + stream("cde")
        assert isinstance(both, engine.utils.data.ChainDataset)
        assert list(both) == list("abcde") and len(both) == 5
        batches = list(engine.utils.data.DataLoader(both, batch_size=2))
        assert [list(batch) for batch in batches] == [["a", "b"], ["c", "d"], ["e"]]
    with pytest.raises(TypeError, match="ConcatDataset"):
        list(gw.data.ChainDataset([[1, 2]]))


def test_datasets_side_by_side() -> None:
    for engine in (gw, torch):
        data = engine.utils.data
        by_place = data.StackDataset([1, 2, 3], "abc")
        assert len(by_place) == 3 and by_place[1] == (2, "b")
        by_name = data.StackDataset(x=engine.arange(3), y="abc")
        batch = next(iter(data.DataLoader(by_name, batch_size=2)))
        assert batch["x"].tolist() == [0, 1] and list(batch["y"]) == ["a", "b"]
        for wrong in (lambda d=data: d.StackDataset(), lambda d=data: d.StackDataset([1], [1, 2])):
            with pytest.raises(ValueError):
                wrong()
