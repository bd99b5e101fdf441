"""State dicts in safetensors files: a JSON header and the numbers, nothing to execute."""

from __future__ import annotations

import io
import json
import math
import zlib
from collections import Counter
from collections.abc import Iterable, Mapping
from importlib.util import find_spec
from itertools import chain
from pathlib import Path
from typing import IO, Any

import numpy as np

from gradwalk.io.atomic import write_atomically
from gradwalk.io.errors import Source, content_of, foreign, opened, wrong
from gradwalk.ops.core.dtypes import bfloat16, is_bfloat16
from gradwalk.tensors.apply import wrap
from gradwalk.tensors.devices import placed
from gradwalk.tensors.tensor import Tensor

Array = np.ndarray[Any, Any]

LONGEST_HEADER = 100_000_000  # bytes: the format's own limit
MOST_TENSORS = 100_000  # in a file: opening so many takes about a second
_DTYPES = {
    "BOOL": np.bool_, "U8": np.uint8, "I8": np.int8, "U16": np.uint16, "I16": np.int16,
    "U32": np.uint32, "I32": np.int32, "U64": np.uint64, "I64": np.int64, "F16": np.float16,
    "F32": np.float32, "F64": np.float64,
}  # fmt: skip
_NAMES = {np.dtype(kind).newbyteorder("<"): name for name, kind in _DTYPES.items()}
# What their bytes are read as: any byte but 0 is True.
_TYPES: dict[str, Any] = {name: kind for kind, name in _NAMES.items()}
_TYPES |= {"BOOL": np.dtype(np.uint8), "BF16": np.dtype("<u2")}
_ITEMSIZES = {name: kind.itemsize for name, kind in _TYPES.items()}
_NOTHING = np.empty(0)


def load_safetensors(path: Source, *, most_tensors: int = MOST_TENSORS) -> dict[str, Tensor]:
    """Read a state dict from any safetensors file; without ml_dtypes, bfloat16 becomes float32.

    A file that is damaged, of another kind, or has more than `most_tensors` tensors raises
    `gradwalk.io.FileError`.
    """
    arrays, metadata = read(path, most_tensors)
    if "gradwalk_run" in metadata:
        raise wrong(path, "it is a training checkpoint. Fix: gradwalk.load_run(path, ...).")
    state = {name: wrap(array) for name, array in arrays.items()}
    # safetensors.torch.save_model writes tied weights once, and notes their other names here.
    tied = {name: kept for name, kept in metadata.items() if name != "format" and kept in arrays}
    return {name: state[kept] for name, kept in tied.items()} | state


def array_of(value: Any, name: str) -> Array:
    """The elements of one entry, in C order."""
    array = placed(value._array, "cpu") if isinstance(value, Tensor) else value
    if not isinstance(array, np.ndarray):
        raise TypeError(
            f"a state dict holds tensors, and {name!r} is {type(value).__name__}. Fix: save other "
            "things with gradwalk.save_run, or from PyTorch go through gradwalk.io.from_torch."
        )
    if is_bfloat16(array.dtype):
        return np.ascontiguousarray(array)
    if array.dtype.newbyteorder("<") not in _NAMES:
        raise TypeError(f"{name!r} holds {array.dtype}, which a safetensors file cannot hold")
    return np.asarray(array, array.dtype.newbyteorder("<"), order="C")


def write(
    path: Path, arrays: Mapping[str, Array], metadata: dict[str, str], keep_previous: bool = False
) -> None:
    """Write arrays and text, with a checksum of both."""
    write_atomically(path, pieces(path, arrays, metadata), keep_previous)


def pieces(
    path: Path | str, arrays: Mapping[str, Array], metadata: dict[str, str]
) -> Iterable[bytes | memoryview]:
    """The content of a file, piece by piece; `path` is for messages."""
    for name in arrays:
        if not isinstance(name, str) or name == "__metadata__":
            raise ValueError(f"{name!r} cannot be the name of a tensor")
    if len(arrays) > MOST_TENSORS:
        raise ValueError(
            f"{path} is not saved: it would have {len(arrays):,} tensors, and {MOST_TENSORS:,} are "
            "allowed. Fix: join small tensors into larger ones, or save several files."
        )
    metadata = {"format": "np", **metadata}
    metadata["checksum"] = checksum(arrays, metadata)
    # Wide numbers first keeps every array aligned. Written here and not by the library, whose
    # order of the metadata changes from run to run: equal states make equal files.
    names = sorted(arrays, key=lambda name: (-arrays[name].itemsize, name))
    # The header has the order of the state dict, which `load` gives back.
    header: dict[str, Any] = {"__metadata__": dict(sorted(metadata.items()))}
    header |= dict.fromkeys(arrays)
    end = 0
    for name in names:
        array = arrays[name]
        start, end = end, end + array.nbytes
        kind = "BF16" if is_bfloat16(array.dtype) else _NAMES[array.dtype.newbyteorder("<")]
        header[name] = {"dtype": kind, "shape": list(array.shape), "data_offsets": [start, end]}
    text = json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    if len(text) > LONGEST_HEADER:
        raise ValueError(
            f"{path} is not saved: the names of its tensors and the text beside them take "
            f"{len(text):,} bytes, and a safetensors file has room for {LONGEST_HEADER:,}. "
            "Fix: save several files."
        )
    first: Any = [len(text).to_bytes(8, "little") + text]
    numbers = (_stored(arrays[name]).data for name in names if arrays[name].size)
    return chain(first, numbers)


def _stored(array: Array) -> Array:
    """An array as it is in a file: Python knows no memory of bfloat16s, so their bits."""
    return array.view(_TYPES["BF16"]) if is_bfloat16(array.dtype) else array


def checksum(arrays: Mapping[str, Array], metadata: Mapping[str, str]) -> str:
    """A checksum of all names, shapes, elements and texts."""
    crc = 0
    for name in sorted(arrays):
        array = _stored(arrays[name])
        crc = zlib.crc32(f"{name} {array.dtype.str} {array.shape}".encode(), crc)
        if array.size:
            crc = zlib.crc32(array.data, crc)
    for key in sorted(metadata):
        if key != "checksum":
            crc = zlib.crc32(f"{key} {metadata[key]}".encode(), crc)
    return f"crc32 {crc:08x}"


def read(path: Source, most: int = MOST_TENSORS) -> tuple[dict[str, Array], dict[str, str]]:
    """The arrays and the text of a safetensors file, checked."""
    with opened(path) as (file, size):
        return _read(file, size, path, most)


def parse(content: bytes, path: Path) -> tuple[dict[str, Array], dict[str, str]]:
    """Parse the content of a file; `path` is for messages."""
    with content_of(path):
        return _read(io.BytesIO(content), len(content), path)


def _read(
    file: IO[bytes], size: int, path: Source, most: int = MOST_TENSORS
) -> tuple[dict[str, Array], dict[str, str]]:
    header, begin = read_header(file, size, path, most)
    metadata = header.pop("__metadata__", {})
    if not isinstance(metadata, dict) or not all(isinstance(v, str) for v in metadata.values()):
        raise wrong(path, "its metadata is not text")
    arrays = _arrays(file, size - begin, header, path)
    stored = metadata.get("checksum", "")
    if stored.startswith("crc32 ") and stored != checksum(arrays, metadata):
        raise wrong(path, "its checksum does not match its content: it was damaged after writing")
    for name, entry in header.items():
        if entry["dtype"] == "BF16":
            arrays[name] = bfloat16_of(arrays[name])
    return arrays, metadata


def read_header(
    file: IO[bytes], size: int, path: Source, most: int = MOST_TENSORS
) -> tuple[dict[str, Any], int]:
    """The JSON header, checked, and where the numbers begin."""
    start = file.read(8)
    known = foreign(start)
    if known is not None:
        raise wrong(path, known)
    if len(start) < 8:
        raise wrong(path, f"it has only {len(start)} bytes")
    length = int.from_bytes(start, "little")
    if length > LONGEST_HEADER:
        raise wrong(path, f"it does not begin like a safetensors file, but with {start!r}")
    if length > (left := size - 8):
        cut = f"its header should have {length:,} bytes, and {left:,} are left"
        raise wrong(path, f"it is cut off or not a safetensors file: {cut}")
    text = file.read(length)
    if text.count(b"{") > most and (count := text.count(b'"data_offsets"')) > most:
        fix = "Fix: for a state dict that you trust, gradwalk.load(path, most_tensors=...)."
        raise wrong(path, f"it has {count:,} tensors, and {most:,} are allowed. {fix}")
    try:
        header = json.loads(text, object_pairs_hook=unique_names)
    except (ValueError, RecursionError) as error:
        raise wrong(path, f"its header is not JSON ({error})") from None
    if not isinstance(header, dict):
        raise wrong(path, "its header is not a JSON object")
    return header, 8 + length


def _arrays(file: IO[bytes], size: int, header: dict[str, Any], path: Source) -> dict[str, Array]:
    """The arrays, in the header's order; nothing is read before all entries fit the file."""
    entries = []
    for name, entry in header.items():
        try:
            kind, shape, (start, stop) = entry["dtype"], entry["shape"], entry["data_offsets"]
            fits = stop - start == _ITEMSIZES.get(kind, 0) * math.prod(shape)
        except (LookupError, TypeError, ValueError):
            raise wrong(path, f"its header is damaged at {name!r}") from None
        if kind not in _ITEMSIZES:
            what = f"{name!r} holds {kind} numbers, which gradwalk does not have"
            raise wrong(path, f"it is damaged or of a newer kind: {what}")
        if not fits:
            raise wrong(path, f"it is damaged: {name!r} has bytes that do not fit its shape")
        entries.append((start, stop, name, kind, shape))
    entries.sort()
    end = 0
    for start, stop, name, *_ in entries:
        if start != end:
            raise wrong(path, f"it is damaged: {name!r} does not begin where its neighbour ends")
        end = stop
    if end != size:
        raise wrong(path, f"it is damaged or incomplete: {size:,} bytes of numbers, not {end:,}")
    arrays = dict.fromkeys(header, _NOTHING)
    for _, _, name, kind, shape in entries:
        arrays[name] = _array(file, kind, shape)
    return arrays


def _array(file: IO[bytes], kind: str, shape: list[int]) -> Array:
    """The next array of a file, in memory of its own."""
    array = np.empty(shape, _TYPES[kind])
    if file.readinto(array) != array.nbytes:  # type: ignore[attr-defined]
        raise ValueError("it became shorter while it was read")
    return array != 0 if kind == "BOOL" else array


def piece_of(file: IO[bytes], begin: int, entry: dict[str, Any]) -> tuple[Array, bytes]:
    """One array of a file whose numbers begin there, and its bytes."""
    kind, (start, stop) = entry["dtype"], entry["data_offsets"]
    file.seek(begin + start)
    raw = file.read(stop - start)
    array = np.frombuffer(raw, _TYPES[kind]).reshape(entry["shape"])
    if kind == "BF16":
        return bfloat16_of(array), raw
    return (array != 0 if kind == "BOOL" else array), raw


def bfloat16_of(bits: Array) -> Array:
    """The numbers whose bits these are; in float32, of which they are the upper half, if there is
    no ml_dtypes."""
    if find_spec("ml_dtypes") is None:
        return (bits.astype(np.uint32) << 16).view(np.float32)
    return bits.astype(np.uint16, copy=False).view(bfloat16())


def unique_names(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Reject duplicate names in a JSON object, on which readers disagree."""
    values = dict(pairs)
    if len(values) != len(pairs):
        twice = [name for name, count in Counter(name for name, _ in pairs).items() if count > 1]
        raise ValueError(f"a name occurs twice: {', '.join(sorted(twice))}")
    return values
