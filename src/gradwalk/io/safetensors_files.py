"""State dicts in safetensors files: a JSON header and the numbers, nothing to execute."""

from __future__ import annotations

import json
import os
import zlib
from collections import Counter
from collections.abc import Mapping
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from gradwalk.io.atomic import write_atomically
from gradwalk.io.errors import foreign, wrong
from gradwalk.tensors.apply import wrap
from gradwalk.tensors.tensor import Tensor

Array = np.ndarray[Any, Any]

_LONGEST_HEADER = 100_000_000  # the format's own limit
_DTYPES = {
    "BOOL": np.bool_, "U8": np.uint8, "I8": np.int8, "U16": np.uint16, "I16": np.int16,
    "U32": np.uint32, "I32": np.int32, "U64": np.uint64, "I64": np.int64, "F16": np.float16,
    "F32": np.float32, "F64": np.float64,
}  # fmt: skip
_NAMES = {np.dtype(kind).newbyteorder("<"): name for name, kind in _DTYPES.items()}


def save(state: Mapping[str, Any], path: str | os.PathLike[str]) -> None:
    """Write a state dict (names to tensors) as safetensors, atomically.

    >>> import gradwalk as gw
    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "model.safetensors"
    >>> model = gw.nn.Linear(2, 1)
    >>> gw.save(model.state_dict(), path)
    >>> model.load_state_dict(gw.load(path))
    <All keys matched successfully>
    """
    write(Path(path), {name: array_of(value, name) for name, value in state.items()}, {})


def load(path: str | os.PathLike[str]) -> dict[str, Tensor]:
    """Read a state dict from any safetensors file; bfloat16 becomes float32.

    A file that is damaged or of another kind raises `gradwalk.io.FileError`.
    """
    path = Path(path)
    arrays, metadata = read(path)
    if "gradwalk_run" in metadata:
        raise wrong(path, "it is a training checkpoint. Fix: gradwalk.load_run(path, ...).")
    state = {name: wrap(array) for name, array in arrays.items()}
    # safetensors.torch.save_model writes tied weights once, and notes their other names here.
    tied = {name: kept for name, kept in metadata.items() if name != "format" and kept in arrays}
    return {name: state[kept] for name, kept in tied.items()} | state


def array_of(value: Any, name: str) -> Array:
    """The elements of one entry, in C order."""
    array = value._array if isinstance(value, Tensor) else value
    if not isinstance(array, np.ndarray):
        raise TypeError(
            f"a state dict holds tensors, and {name!r} is {type(value).__name__}. Fix: save other "
            "things with gradwalk.save_run, or from PyTorch go through gradwalk.io.from_torch."
        )
    if array.dtype.newbyteorder("<") not in _NAMES:
        raise TypeError(f"{name!r} holds {array.dtype}, which a safetensors file cannot hold")
    return np.asarray(array, array.dtype.newbyteorder("<"), order="C")


def write(
    path: Path, arrays: Mapping[str, Array], metadata: dict[str, str], keep_previous: bool = False
) -> None:
    """Write arrays and text, with a checksum of both."""
    for name in arrays:
        if not isinstance(name, str) or name == "__metadata__":
            raise ValueError(f"{name!r} cannot be the name of a tensor")
    metadata = {"format": "np", **metadata}
    metadata["checksum"] = checksum(arrays, metadata)
    # Wide numbers first keeps every array aligned. Written here and not by the library, whose
    # order of the metadata changes from run to run: equal states make equal files.
    names = sorted(arrays, key=lambda name: (-arrays[name].itemsize, name))
    header: dict[str, Any] = {"__metadata__": dict(sorted(metadata.items()))}
    end = 0
    for name in names:
        array = arrays[name]
        start, end = end, end + array.nbytes
        kind = _NAMES[array.dtype.newbyteorder("<")]
        header[name] = {"dtype": kind, "shape": list(array.shape), "data_offsets": [start, end]}
    text = json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    first: Any = [len(text).to_bytes(8, "little") + text]
    numbers = (_bytes(arrays[name]) for name in names if arrays[name].size)
    write_atomically(path, chain(first, numbers), keep_previous)


def _bytes(array: Array) -> memoryview:
    """The memory of an array that is not empty, without a copy."""
    return array.reshape(-1).view(np.uint8).data


def checksum(arrays: Mapping[str, Array], metadata: Mapping[str, str]) -> str:
    """A checksum of all names, shapes, elements and texts."""
    crc = 0
    for name in sorted(arrays):
        array = arrays[name]
        crc = zlib.crc32(f"{name} {array.dtype.str} {array.shape}".encode(), crc)
        if array.size:
            crc = zlib.crc32(_bytes(array), crc)
    for key in sorted(metadata):
        if key != "checksum":
            crc = zlib.crc32(f"{key} {metadata[key]}".encode(), crc)
    return f"crc32 {crc:08x}"


def read(path: Path) -> tuple[dict[str, Array], dict[str, str]]:
    """The arrays and the text of a safetensors file, checked."""
    return parse(path.read_bytes(), path)


def parse(content: bytes, path: Path) -> tuple[dict[str, Array], dict[str, str]]:
    """Parse the content of a file; `path` is for messages."""
    header = _header(path, content)
    metadata = header.pop("__metadata__", {})
    if not isinstance(metadata, dict) or not all(isinstance(v, str) for v in metadata.values()):
        raise wrong(path, "its metadata is not text")
    from safetensors import SafetensorError, deserialize

    split: Any = deserialize  # has no types
    try:
        entries = dict(split(content))
    except SafetensorError as error:
        raise wrong(path, f"it is damaged or incomplete ({error})") from None
    arrays = {name: _array(path, name, entries[name]) for name in header}
    stored = metadata.get("checksum", "")
    if stored.startswith("crc32 ") and stored != checksum(arrays, metadata):
        raise wrong(path, "its checksum does not match its content: it was damaged after writing")
    return arrays, metadata


def _header(path: Path, content: bytes) -> dict[str, Any]:
    """The JSON header, checked."""
    known = foreign(content)
    if known is not None:
        raise wrong(path, known)
    if len(content) < 8:
        raise wrong(path, f"it has only {len(content)} bytes")
    length = int.from_bytes(content[:8], "little")
    if length > _LONGEST_HEADER:
        raise wrong(path, f"its header would be {length:,} bytes long: not a safetensors file")
    if length > (left := len(content) - 8):
        cut = f"its header should have {length:,} bytes, and {left:,} are left"
        raise wrong(path, f"it is cut off or not a safetensors file: {cut}")
    try:
        header = json.loads(content[8 : 8 + length], object_pairs_hook=unique_names)
    except (ValueError, RecursionError) as error:
        raise wrong(path, f"its header is not JSON ({error})") from None
    if not isinstance(header, dict):
        raise wrong(path, "its header is not a JSON object")
    return header


def unique_names(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Reject duplicate names in a JSON object, on which readers disagree."""
    twice = [name for name, count in Counter(name for name, _ in pairs).items() if count > 1]
    if twice:
        raise ValueError(f"a name occurs twice: {', '.join(sorted(twice))}")
    return dict(pairs)


def _array(path: Path, name: str, entry: Mapping[str, Any]) -> Array:
    kind, shape, data = entry["dtype"], entry["shape"], entry["data"]
    if kind == "BF16":  # the upper half of a float32
        halves = np.frombuffer(data, "<u2").astype(np.uint32)
        return (halves << 16).view(np.float32).reshape(shape)
    if kind not in _DTYPES:
        raise wrong(path, f"{name!r} holds {kind} numbers, which gradwalk does not have")
    if kind == "BOOL":
        return (np.frombuffer(data, np.uint8) != 0).reshape(shape)
    return np.frombuffer(data, np.dtype(_DTYPES[kind]).newbyteorder("<")).reshape(shape)
