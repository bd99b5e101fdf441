"""Batches of a mesh: the rows of one process, divided."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gradwalk as gw
from gradwalk.distributed import sharding_of


def data() -> Any:
    return gw.data.TensorDataset(gw.arange(24.0).reshape(12, 2), gw.arange(12))


def rows(loader: Any) -> list[Any]:
    return [[part.tolist() for part in batch] for batch in loader]


@pytest.mark.parametrize("workers", [0, 1])
def test_batches_are_those_of_one_process(workers: int) -> None:
    options: dict[str, Any] = {"batch_size": 8, "shuffle": True, "num_workers": workers}
    gw.manual_seed(3)
    alone = rows(gw.data.DataLoader(data(), **options))
    gw.manual_seed(3)
    loader = gw.data.DataLoader(data(), **options, mesh=gw.Mesh(model=2, data=4))
    batches = list(loader)
    assert rows(batches) == alone and [len(y) for _, y in batches] == [8, 4]
    assert sharding_of(batches[0][0]) == ("data", None)
    shard = batches[0][0]._array.term.addressable_shards[1]
    assert shard.data.shape == (2, 2) and shard.data.tolist() == alone[0][0][2:4]


def test_other_batches() -> None:
    """Of a stream, of dictionaries with names, of a batch sampler; the first axis is the data's."""

    class Stream(gw.data.IterableDataset):
        def __iter__(self) -> Any:
            return iter({"x": np.float32(i), "name": f"n{i}"} for i in range(20))

    mesh = gw.Mesh(rows=8)
    (first, second) = gw.data.DataLoader(Stream(), batch_size=8, drop_last=True, mesh=mesh)
    assert sharding_of(first["x"]) == ("rows",) and second["x"].tolist() == list(range(8, 16))
    assert list(second["name"]) == [f"n{i}" for i in range(8, 16)]
    reverse = gw.data.BatchSampler(range(11, -1, -1), 8, True)
    ((_, y),) = gw.data.DataLoader(data(), batch_sampler=reverse, mesh=mesh)
    assert y.tolist() == list(range(11, 3, -1)) and y.device == mesh


@pytest.mark.parametrize(
    "options, complaint",
    [
        ({"batch_size": 6}, "batch_size, 6, cannot be divided by axis 'data' of Mesh.*8 equal"),
        ({"batch_size": 8}, r"the size of the last batch, 4, (.|\n)*Fix: drop_last=True"),
        ({"batch_size": None}, "mesh divides batches. Fix: set batch_size"),
    ],
)
def test_batches_that_cannot_be_divided(options: Any, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        gw.data.DataLoader(data(), **options, mesh=gw.Mesh(data=8))


def test_what_is_found_while_iterating() -> None:
    mesh = gw.Mesh(data=8)
    loader = gw.data.DataLoader(data(), batch_sampler=[[0, 1, 2]], mesh=mesh)
    with pytest.raises(ValueError, match="the size of a batch, 3, cannot be divided"):
        list(loader)
    loader = gw.data.DataLoader(
        data(), 8, drop_last=True, collate_fn=lambda samples: gw.ones(2, 8), mesh=mesh
    )
    with pytest.raises(ValueError, match=r"shape \(2, 8\).*first dimension is not the samples"):
        list(loader)
    with pytest.raises(TypeError, match=r"mesh is a gw.Mesh, not 'xla'"):
        gw.data.DataLoader(data(), mesh="xla")  # type: ignore[arg-type]
