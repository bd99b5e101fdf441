"""State dicts as NumPy's .npz."""

from __future__ import annotations

import math
import os
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

import numpy as np

from gradwalk.io.atomic import writing
from gradwalk.io.errors import opened, wrong
from gradwalk.io.safetensors_files import MOST_TENSORS, Array, array_of, bfloat16_of
from gradwalk.tensors.apply import wrap
from gradwalk.tensors.tensor import Tensor

LIMIT = 2**30  # bytes that a compressed file may become
_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)  # others unpack without bounds
_HEADERS = {
    (1, 0): np.lib.format.read_array_header_1_0,
    (2, 0): np.lib.format.read_array_header_2_0,
}


def save_npz(
    state: Mapping[str, Any], path: str | os.PathLike[str], compressed: bool = False
) -> None:
    """Write a state dict as .npz; `numpy.load` reads it.

    >>> import gradwalk as gw
    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "model.npz"
    >>> gw.io.save_npz({"weight": gw.ones(2)}, path)
    >>> gw.io.load_npz(path)
    {'weight': tensor([1., 1.])}
    """
    method = zipfile.ZIP_DEFLATED if compressed else zipfile.ZIP_STORED
    arrays = {name: array_of(value, name) for name, value in state.items()}
    # numpy.savez has no name "file"
    with writing(Path(path)) as out, zipfile.ZipFile(out, "w", method) as archive:
        for name, array in arrays.items():
            entry = zipfile.ZipInfo(f"{name}.npy")
            entry.compress_type = method
            with archive.open(entry, "w", force_zip64=True) as file:
                np.lib.format.write_array(file, array, allow_pickle=False)


def load_npz(path: str | os.PathLike[str], *, limit: int = LIMIT) -> dict[str, Tensor]:
    """Read a state dict from .npz; arrays of Python objects, which are pickles, are refused.

    So is a file that unpacks to more than `limit` bytes (1 GiB) and to more than twice its own
    size, before memory is used.
    """
    path = Path(path)
    with opened(path) as (file, size):
        if file.read(6) == b"\x93NUMPY":
            raise wrong(path, "it holds a single array. Fix: numpy.load(path).")
        with zipfile.ZipFile(file) as archive:
            entries = archive.infolist()
            _check(path, entries, max(limit, 2 * size))
            arrays = {_name(path, entry): _array(path, archive, entry) for entry in entries}
    return {name: wrap(array) for name, array in arrays.items()}


def _check(path: Path, entries: list[zipfile.ZipInfo], most: int) -> None:
    """Refuse a file by its list of entries."""
    if len(entries) > MOST_TENSORS:
        raise wrong(path, f"it has {len(entries):,} arrays, and {MOST_TENSORS:,} are allowed")
    if len({entry.filename for entry in entries}) != len(entries):
        raise wrong(path, "a name occurs twice in it")
    total = sum(entry.file_size for entry in entries)
    if total > most:
        fix = f"Fix: if you trust it, gradwalk.io.load_npz(path, limit={total})."
        raise wrong(path, f"it unpacks to {total:,} bytes, and {most:,} are allowed. {fix}")
    for entry in entries:
        if entry.compress_type not in _METHODS or entry.flag_bits & 1:
            raise wrong(
                path,
                f"{entry.filename!r} is encrypted or compressed in a way that NumPy does not "
                "write. Fix: numpy.savez_compressed.",
            )


def _name(path: Path, entry: zipfile.ZipInfo) -> str:
    if not entry.filename.endswith(".npy"):
        raise wrong(path, f"{entry.filename!r} is not an array: it is another kind of zip file")
    return entry.filename.removesuffix(".npy")


def _array(path: Path, archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> Array:
    """One array; its memory is taken when its header agrees with the size of its entry."""
    with archive.open(entry) as file:
        read_header = _HEADERS.get(np.lib.format.read_magic(file))
        if read_header is None:
            raise wrong(path, f"{entry.filename!r} is of an unknown version of NumPy's format")
        shape, turned, dtype = read_header(file)
        if dtype.hasobject:
            raise wrong(
                path,
                f"{entry.filename!r} holds Python objects, and loading those can execute code. "
                "Fix: save arrays of numbers.",
            )
        count = math.prod(shape)
        if count * dtype.itemsize != entry.file_size - file.tell():
            raise wrong(path, f"{entry.filename!r} has a shape that does not fit its size")
        flat = np.empty(count, dtype)
        fill(file, flat.view(np.uint8).data if count * dtype.itemsize else memoryview(b""))
        if file.read(1):
            raise ValueError("more numbers than its header says")
    if dtype.str[1:] == "V2":  # what NumPy writes for bfloat16
        flat = bfloat16_of(flat.view(np.uint16))
    return array_of(flat.reshape(shape, order="F" if turned else "C"), entry.filename)


def fill(file: IO[bytes], memory: memoryview) -> None:
    """Read in pieces: memory that a damaged file only claims is never touched."""
    at = 0
    while at < len(memory):
        piece = file.read(min(len(memory) - at, 1 << 20))
        if not piece:
            raise ValueError("it is cut off")
        memory[at : at + len(piece)] = piece
        at += len(piece)
