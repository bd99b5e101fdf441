"""Arrays in pieces: any part is read from the pieces that overlap it. Without JAX."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gradwalk.io import FileError
from gradwalk.io.shards import Shards, describe, folder_of, pieces_of, sweep, write_pieces


class Device:
    def __init__(self, process: int) -> None:
        self.process_index = process


class Divided:
    """What a `jax.Array` divided over devices shows of itself; each piece has two devices."""

    def __init__(self, array: Any, cuts: tuple[int, ...], processes: int) -> None:
        self.shape, self.sharding, self.array = array.shape, self, array
        self.index: dict[Device, tuple[slice, ...]] = {}
        for number, block in enumerate(np.ndindex(*cuts)):
            sizes = [n // c for n, c in zip(array.shape, cuts, strict=True)]
            index = tuple(slice(b * s, (b + 1) * s) for b, s in zip(block, sizes, strict=True))
            for copy in range(2):
                self.index[Device((number + copy) % processes)] = index

    def devices_indices_map(self, shape: tuple[int, ...]) -> Any:
        assert shape == self.shape
        return self.index

    @property
    def addressable_shards(self) -> Any:
        kind = type("Shard", (), {})
        for device, index in self.index.items():
            shard: Any = kind()
            shard.device, shard.data = device, self.array[index]
            yield shard


def written(folder: Path, arrays: dict[str, Divided], processes: int) -> Shards:
    path = folder / "run.safetensors"
    files = {
        rank: write_pieces(folder_of(path) / f"abc-{rank}.safetensors", rank, arrays, {}, "")
        for rank in range(processes)
    }
    return Shards(path, describe(folder_of(path), "abc", files, processes, arrays))


@settings(max_examples=30)
@given(st.data())
def test_any_part_of_any_division(tmp_path_factory: pytest.TempPathFactory, data: Any) -> None:
    cuts = tuple(data.draw(st.lists(st.integers(1, 3), max_size=3)))
    shape = [c * data.draw(st.integers(1, 3)) for c in cuts]
    kind = data.draw(st.sampled_from([np.float32, np.float64, np.int64, np.bool_]))
    array = np.random.default_rng(0).integers(0, 2, shape).astype(kind)
    shards = written(tmp_path_factory.mktemp("run"), {"x": Divided(array, cuts, 3)}, 3)
    assert shards.read("x").dtype == array.dtype and np.array_equal(shards.read("x"), array)
    index = []
    for n in shape:
        start = data.draw(st.integers(0, n - 1))
        index.append(slice(start, data.draw(st.integers(start + 1, n))))
    assert np.array_equal(shards.read("x", tuple(index)), array[tuple(index)])


def test_each_piece_is_written_once(tmp_path: Path) -> None:
    value = Divided(np.arange(12.0), (4,), 2)
    assert [p.rank for p, _ in pieces_of(value)] == [0, 1, 0, 1]
    shards = written(tmp_path, {"x": value}, 2)
    sizes = [file.size for file in shards.files.values()]
    assert sum(sizes) < 2 * 400 + 12 * 8  # headers, and each number once
    read: list[Any] = []
    piece = shards._piece
    shards.piece = lambda *args: (read.append(args[0].start), piece(*args))[1]  # type: ignore[assignment]
    assert shards.read("x", (slice(4, 7),)).tolist() == [4.0, 5.0, 6.0]
    assert read == [(3,), (6,)]


@pytest.mark.parametrize(
    "change, complaint",
    [
        ({"folder": "../elsewhere"}, "elsewhere"),
        ({"files": {"0": ["../x", 1, 1]}}, "elsewhere"),
        ({"files": {}}, "names no file of rank 0"),
        ({"files": {"0": ["no", 1, 1]}}, "no is missing"),
        ({"arrays": {"x": {"shape": [4], "pieces": []}}}, "pieces do not make up 'x'"),
        ({"arrays": {"x": {"shape": [2], "pieces": [[0, [0], [3]]]}}}, "has the shape"),
        ({"arrays": {"x": {"shape": "?"}}}, "damaged"),
        ({"world_size": None}, "damaged"),
    ],
)
def test_a_damaged_description_is_refused(tmp_path: Path, change: Any, complaint: str) -> None:
    path = tmp_path / "run.safetensors"
    arrays: Any = {"x": Divided(np.arange(2.0), (1,), 1)}
    files = {0: write_pieces(folder_of(path) / "abc-0.safetensors", 0, arrays, {}, "")}
    facts = json.loads(describe(folder_of(path), "abc", files, 1, arrays)) | change
    with pytest.raises(FileError, match=complaint):
        Shards(path, json.dumps(facts)).read("x")


def test_the_files_of_older_saves_are_removed(tmp_path: Path) -> None:
    for name in ("aaa-0", "bbb-0", "ccc-0", ".ccc-1.12-ab.held.partial", "bbb-1"):
        (tmp_path / name).touch()
    sweep(tmp_path, ["aaa", "bbb"])
    assert sorted(p.name for p in tmp_path.iterdir()) == ["aaa-0", "bbb-0", "bbb-1"]
    sweep(tmp_path / "nothing", [])
