"""Files that `torch.save` writes: a zip of a pickle and of the bytes of each storage.

Before PyTorch 1.6 a file was a row of pickles, with the bytes after them.
"""

from __future__ import annotations

import io
import math
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

import numpy as np

from gradwalk.io.errors import foreign, opened, wrong
from gradwalk.io.npz import fill
from gradwalk.io.pickled import KNOWN, PickleRefused, unpickled
from gradwalk.io.safetensors_files import Array, bfloat16_of
from gradwalk.nn.parameter import Parameter
from gradwalk.tensors.apply import wrap
from gradwalk.tensors.conversions import TYPE_NAMES
from gradwalk.tensors.devices import device
from gradwalk.tensors.tensor import Tensor

MOST_ELEMENTS = 2**34  # of a tensor, which may repeat a few numbers any number of times
_OLD_MAGIC = 0x1950A86A20F9469CFC6C
# "torch.FloatStorage" to "float32"; a storage without a type has bytes.
_STORAGES = {name.replace("Tensor", "Storage"): dtype for name, dtype in TYPE_NAMES.items()}
_STORAGES["UntypedStorage"] = "uint8"

Storage = Callable[[str, str, int], Any]  # the elements of a storage: its key, dtype and length


def load_pt(path: Path, map_location: Any = None) -> Any:
    """What a file of `torch.save` has: tensors in containers, on the device `map_location`.

    Tensors that share a storage share memory.
    """
    with opened(path) as (file, _):
        try:
            if zipfile.is_zipfile(file):
                return _read_zip(file, map_location)
            file.seek(0)
            content = file.read()
            if content.startswith(b"PK"):
                raise wrong(path, foreign(content) or "")
            return _read_old(io.BytesIO(content), map_location)
        except PickleRefused as error:
            raise wrong(path, str(error)) from None


def _read_zip(file: IO[bytes], where: Any) -> Any:
    with zipfile.ZipFile(file) as archive:
        entries = {entry.filename: entry for entry in archive.infolist()}
        pickles = [name for name in entries if name.split("/")[-1] == "data.pkl"]
        if len(pickles) != 1:
            raise ValueError("it is a zip file, but not one that torch.save wrote")
        if any(entry.compress_type for entry in entries.values()):
            raise ValueError("torch.save compresses nothing, and this is compressed")
        root = pickles[0].removesuffix("data.pkl")
        order = archive.read(f"{root}byteorder") if f"{root}byteorder" in entries else b"little"
        known: dict[str, Array] = {}

        def storage(key: str, dtype: str, count: int) -> Array:
            if key not in known:
                with archive.open(entries[f"{root}data/{key}"]) as stored:
                    size = entries[f"{root}data/{key}"].file_size
                    known[key] = _elements(stored, dtype, count, size, order == b"big")
            return known[key]

        with archive.open(pickles[0]) as pickled:
            return unpickled(pickled, _names(where), _persistent(storage))


def _read_old(file: io.BytesIO, where: Any) -> Any:
    """A file of before PyTorch 1.6: what it is, the object, the keys of storages, their bytes."""
    size = len(file.getbuffer())
    if unpickled(file, KNOWN, _no_storage) != _OLD_MAGIC:
        raise PickleRefused("it is a pickle, but not one that torch.save wrote")
    unpickled(file, KNOWN, _no_storage)  # the version of the format
    facts = unpickled(file, KNOWN, _no_storage)
    start = file.tell()
    found: dict[str, tuple[str, int]] = {}

    def note(key: str, dtype: str, count: int) -> None:
        found[key] = dtype, count

    # The bytes come after the object: read it once for what they are, and then again.
    nothing = {name: _nothing for name in _names(where) if "_rebuild" in name}
    unpickled(file, _names(where) | nothing, _persistent(note))
    known: dict[str, Array] = {}
    for key in unpickled(file, KNOWN, _no_storage):
        dtype, count = found[key]
        file.read(8)  # the number of elements, once more
        room = min(count * np.dtype(_stored(dtype)).itemsize, size - file.tell())
        known[key] = _elements(file, dtype, count, room, not facts.get("little_endian", True))
    file.seek(start)
    return unpickled(file, _names(where), _persistent(lambda key, dtype, count: known[key]))


def _nothing(*arguments: Any) -> None:
    """In the place of a tensor whose bytes are not read yet."""


def _no_storage(key: Any) -> Any:
    raise PickleRefused("it refers to a storage where there is none")


def _stored(dtype: str) -> str:
    """The dtype of the bytes; NumPy alone knows no bfloat16."""
    return "uint16" if dtype == "bfloat16" else dtype


def _elements(file: IO[bytes], dtype: str, count: int, size: int, swapped: bool) -> Array:
    """The elements of a storage; its memory is taken when its length agrees with the file."""
    kind = np.dtype(_stored(dtype))
    if count < 0 or count * kind.itemsize != size:
        raise ValueError(f"a storage of {count} × {dtype} has {size} bytes")
    elements = np.empty(count, kind)
    if count:
        fill(file, elements.view(np.uint8).data)
    if swapped:
        elements.byteswap(inplace=True)
    return bfloat16_of(elements) if dtype == "bfloat16" else elements


def _persistent(storage: Storage) -> Callable[[Any], Any]:
    """What stands for a persistent id: ("storage", type, key, location, length, ...)."""

    def found(key: Any) -> Any:
        if not isinstance(key, tuple) or len(key) < 5 or key[0] != "storage":
            raise PickleRefused(f"it refers to {key!r:.60}, which is no storage of a tensor")
        _, kind, name, _, count = key[:5]
        if not isinstance(kind, str) or not isinstance(count, int):
            raise PickleRefused(f"it has a storage of {kind!r:.60}")
        return storage(str(name), kind, count)

    return found


def _names(where: Any) -> dict[str, Any]:
    """What stands for each name that the pickle of a state dict may have."""

    def tensor(storage: Any, offset: int, size: Any, stride: Any, *rest: Any) -> Tensor:
        return _tensor(storage, offset, size, stride, where)

    def parameter(data: Tensor, requires_grad: bool, *rest: Any) -> Parameter:
        return Parameter(data, requires_grad=bool(requires_grad) and data.is_floating_point())

    dtypes = [name for name in TYPE_NAMES.values() if name != "bfloat16"]  # NumPy's own
    known = KNOWN | {f"torch.{name}": np.dtype(name) for name in dtypes}
    known |= {f"torch.{name}": dtype for name, dtype in _STORAGES.items()}
    known["torch.storage.UntypedStorage"] = "uint8"
    return known | {
        "torch._utils._rebuild_tensor": tensor,
        "torch._utils._rebuild_tensor_v2": tensor,
        "torch._utils._rebuild_parameter": parameter,
        "torch.Size": tuple,
        "torch.device": device,
    }


def _tensor(storage: Any, offset: Any, size: Any, stride: Any, where: Any) -> Tensor:
    """A tensor on a part of a storage."""
    numbers = (offset, *size, *stride)
    if not isinstance(storage, np.ndarray) or len(size) != len(stride):
        raise ValueError("a tensor without a storage, or with a shape that does not fit")
    if not all(isinstance(n, int) and n >= 0 for n in numbers):
        raise ValueError(f"a tensor of shape {size} with strides {stride} at {offset}")
    last = offset + sum((n - 1) * s for n, s in zip(size, stride, strict=True))
    if math.prod(size) and last >= storage.size:
        raise ValueError(f"a tensor of shape {size} reaches beyond its {storage.size} elements")
    if math.prod(size) > MOST_ELEMENTS:
        raise ValueError(f"a tensor of shape {size} is too large")
    steps = tuple(s * storage.itemsize for s in stride)
    array = np.lib.stride_tricks.as_strided(storage[offset:], tuple(size), steps)
    made: Tensor = wrap(array)
    made._keeps_layout = True
    return made if where is None else made.to(where)
