"""Arrays in pieces: each process writes those that its devices have to a file of its own.

The main file of a run says which pieces an array has, and which file has them. A reader needs only
the pieces that overlap its own part, whatever the division they were written with. Beside each
piece its file has a checksum; the main file has one of the header of each file.
"""

from __future__ import annotations

import functools
import json
import math
import os
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from gradwalk.io.errors import FileError, content_of, opened, wrong
from gradwalk.io.safetensors_files import Array, piece_of, read_header, write

Index = tuple[slice, ...]
OWN = "own:"  # before the names of arrays that only one rank has


class Piece(NamedTuple):
    """A part of an array: where it begins, and its shape; `rank` wrote it."""

    rank: int
    start: tuple[int, ...]
    shape: tuple[int, ...]

    def key(self, name: str) -> str:
        """The name of the piece in its file."""
        return f"{name}@{','.join(map(str, self.start))}"


class ShardFile(NamedTuple):
    """What the main file knows of a file with pieces."""

    name: str
    size: int
    header: int  # checksum


def folder_of(path: Path) -> Path:
    """The folder with the pieces of a run, beside its main file."""
    return path.with_name(path.name + ".shards")


def pieces_of(value: Any) -> list[tuple[Piece, Any]]:
    """The pieces of a `jax.Array` that is divided over processes, each with its device.

    Where several devices have the same piece, the first of them writes it.
    """
    found: dict[tuple[int, ...], tuple[Piece, Any]] = {}
    for device, index in value.sharding.devices_indices_map(value.shape).items():
        ranges = [part.indices(n)[:2] for part, n in zip(index, value.shape, strict=True)]
        start = tuple(first for first, _ in ranges)
        shape = tuple(stop - first for first, stop in ranges)
        found.setdefault(start, (Piece(device.process_index, start, shape), device))
    return list(found.values())


def write_pieces(
    file: Path, rank: int, divided: Mapping[str, Any], host: Mapping[str, Array], text: str
) -> ShardFile:
    """Write the pieces that this process has to write, and arrays of its own."""
    arrays = dict(host)
    for name, value in divided.items():
        here = {shard.device: shard.data for shard in value.addressable_shards}
        for piece, device in pieces_of(value):
            if piece.rank == rank:
                arrays[piece.key(name)] = np.asarray(here[device], order="C")
    checksums = {name: zlib.crc32(_bytes(array)) for name, array in arrays.items()}
    file.parent.mkdir(exist_ok=True)
    write(file, arrays, {"own": text, "checksums": json.dumps(checksums)})
    return _facts(file)


def _bytes(array: Array) -> Any:
    return np.asarray(array, order="C").reshape(-1).view(np.uint8) if array.size else b""


def _facts(file: Path) -> ShardFile:
    with opened(file) as (stream, size):
        _, begin = read_header(stream, size, file)
        stream.seek(0)
        return ShardFile(file.name, size, zlib.crc32(stream.read(begin)))


class Shards:
    """The pieces of a run, to be read."""

    def __init__(self, path: Path, text: str) -> None:
        """`text` is what the main file, at `path`, says of them."""
        self.path = path
        with content_of(path):
            facts = json.loads(text)
            folder = str(facts["folder"])
            if Path(folder).name != folder:
                raise wrong(path, f"its shards would be in {folder!r}, which is elsewhere")
            self.folder = path.parent / folder
            self.token, self.world_size = str(facts["token"]), int(facts["world_size"])
            self.files = {int(rank): ShardFile(*f) for rank, f in facts["files"].items()}
            self.shapes = {name: tuple(map(int, a["shape"])) for name, a in facts["arrays"].items()}
            self.pieces = {
                name: [Piece(r, tuple(start), tuple(shape)) for r, start, shape in a["pieces"]]
                for name, a in facts["arrays"].items()
            }
            for file in self.files.values():
                if Path(file.name).name != file.name:
                    raise wrong(path, f"a shard would be in {file.name!r}, which is elsewhere")
        self.piece = functools.lru_cache(maxsize=8)(self._piece)  # the last ones that were read
        self._headers: dict[int, tuple[dict[str, Any], int]] = {}

    def read(self, name: str, index: Index | None = None) -> Array:
        """A part of an array, from the pieces that overlap it."""
        shape = self.shapes[name]
        index = (slice(None),) * len(shape) if index is None else index
        ranges = [part.indices(n)[:2] for part, n in zip(index, shape, strict=True)]
        out: Array | None = None
        filled = 0
        for piece in self.pieces[name]:
            common = [
                (max(a, start), min(b, start + n))
                for (a, b), start, n in zip(ranges, piece.start, piece.shape, strict=True)
            ]
            if any(a >= b for a, b in common):
                continue
            data = self.piece(piece, name)
            if out is None:
                out = np.empty([b - a for a, b in ranges], data.dtype)
            into = tuple(slice(a - r[0], b - r[0]) for (a, b), r in zip(common, ranges))
            source = tuple(slice(a - s, b - s) for (a, b), s in zip(common, piece.start))
            out[into] = data[source]
            filled += math.prod(b - a for a, b in common)
        if out is None or filled != out.size:
            raise wrong(self.path, f"its pieces do not make up {name!r}")
        return out

    def own(self, rank: int) -> str:
        """What a rank wrote of its own state; "" if it is that of rank 0."""
        if rank not in self.files:
            return ""
        header, _ = self._header(rank)
        return str(header["__metadata__"].get("own", ""))

    def own_arrays(self, rank: int) -> dict[str, Array]:
        """The arrays of a rank's own state."""
        header, _ = self._header(rank)
        names = [name for name in header if name.startswith(OWN)]
        return {name.removeprefix(OWN): self._array(rank, name) for name in names}

    def _piece(self, piece: Piece, name: str) -> Array:
        data = self._array(piece.rank, piece.key(name))
        if data.shape != piece.shape:
            raise wrong(self.path, f"a piece of {name!r} has the shape {data.shape}")
        return data

    def _array(self, rank: int, key: str) -> Array:
        """An array of a rank's file, checked."""
        header, begin = self._header(rank)
        file = self.folder / self.files[rank].name
        with self._blamed(file), opened(file) as (stream, _):
            data, raw = piece_of(stream, begin, header[key])
            checksums = json.loads(header["__metadata__"]["checksums"])
            if zlib.crc32(raw) != checksums[key]:
                raise self._damaged(file, f"{key!r} does not match its checksum")
        return data

    def _header(self, rank: int) -> tuple[dict[str, Any], int]:
        if rank not in self._headers:
            if rank not in self.files:
                raise wrong(self.path, f"it names no file of rank {rank}")
            name, size, checksum = self.files[rank]
            file = self.folder / name
            with self._blamed(file), opened(file) as (stream, found):
                if found != size:
                    raise self._damaged(file, f"it has {found:,} bytes, not {size:,}")
                _, begin = header = read_header(stream, found, file)
                stream.seek(0)
                if zlib.crc32(stream.read(begin)) != checksum:
                    raise self._damaged(file, "its header does not match its checksum")
                self._headers[rank] = header
        return self._headers[rank]

    def _damaged(self, file: Path, what: str) -> FileError:
        return wrong(self.path, f"its shard {file} is damaged: {what}")

    @contextmanager
    def _blamed(self, file: Path) -> Iterator[None]:
        """Errors of a shard name the run and the shard."""
        try:
            yield
        except FileNotFoundError as error:
            raise wrong(self.path, f"its shard {file} is missing") from error
        except OSError as error:
            raise wrong(self.path, f"its shard {file} cannot be read: {error}") from error
        except FileError as error:
            if str(error).startswith(f"{self.path} "):
                raise
            raise wrong(self.path, f"its shard is damaged. {error}") from error


def describe(
    folder: Path,
    token: str,
    files: Mapping[int, Sequence[Any]],
    world_size: int,
    divided: Mapping[str, Any],
) -> str:
    """What the main file says of the pieces."""
    arrays = {
        name: {"shape": list(value.shape), "pieces": [list(piece) for piece, _ in pieces_of(value)]}
        for name, value in divided.items()
    }
    facts = {"folder": folder.name, "token": token, "world_size": world_size}
    return json.dumps({**facts, "files": dict(files), "arrays": arrays})


def sweep(folder: Path, kept: Sequence[str]) -> None:
    """Remove the files of saves that are neither the last nor the one before it."""
    with suppress(OSError):  # there is no such folder
        for name in os.listdir(folder):
            if not any(token in name for token in kept):
                with suppress(OSError):  # the next save tries again
                    (folder / name).unlink()
