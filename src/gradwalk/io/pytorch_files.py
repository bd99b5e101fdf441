"""PyTorch's files, read and written: a zip of a pickle and of the bytes of each storage.

Before PyTorch 1.6 a file was a row of pickles, with the bytes after them.
"""

from __future__ import annotations

import io
import math
import sys
import zipfile
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import IO, Any

import numpy as np

from gradwalk.io.errors import Source, foreign, opened, wrong
from gradwalk.io.npz import fill
from gradwalk.io.pickled import KNOWN, PickleRefused, unpickled
from gradwalk.io.pickling import Pickler
from gradwalk.io.safetensors_files import Array, bfloat16_of
from gradwalk.nn.parameter import Parameter
from gradwalk.ops.core.dtypes import has_gradients
from gradwalk.sparse import (
    CompressedRows,
    SparseTensor,
    sparse_coo_tensor,
    sparse_csr_tensor,
)
from gradwalk.tensors.apply import wrap
from gradwalk.tensors.conversions import TYPE_NAMES
from gradwalk.tensors.devices import device, placed
from gradwalk.tensors.size import Size
from gradwalk.tensors.tensor import Tensor

MOST_ELEMENTS = 2**34  # of a tensor, which may repeat a few numbers any number of times
_OLD_MAGIC = 0x1950A86A20F9469CFC6C
# "torch.FloatStorage" to "float32"; a storage without a type has bytes.
_STORAGES = {name.replace("Tensor", "Storage"): dtype for name, dtype in TYPE_NAMES.items()}
_STORAGE_NAMES = {dtype: name for name, dtype in _STORAGES.items()}
_STORAGES["UntypedStorage"] = "uint8"

Storage = Callable[[str, str, int], Any]  # the elements of a storage: its key, dtype and length


def write_pt(thing: Any, file: IO[bytes]) -> None:
    """Write nested containers of tensors, numbers and text as `torch.save` does.

    Tensors on the same memory share a storage. A view of part of a tensor has one of its own.
    """
    storages: list[Array] = []
    known: dict[tuple[int, int, str], int] = {}

    def tensor(pickler: Pickler, value: Tensor, name: str) -> None:
        array = placed(value._array, "cpu")
        if array.dtype.name not in _STORAGE_NAMES:
            raise TypeError(f"{name} holds {array.dtype}, which PyTorch's files cannot hold")
        dense = array if _is_dense(array) else np.ascontiguousarray(array)
        memory = dense.__array_interface__["data"][0], dense.nbytes, dense.dtype.name
        key = known.setdefault(memory, len(storages))
        if key == len(storages):
            storages.append(dense)  # which keeps its address from being used again
        strides = tuple(step // dense.itemsize for step in dense.strides)
        parameter = isinstance(value, Parameter)
        leaf = value.is_leaf and value.requires_grad
        if parameter:
            pickler.named("torch._utils", "_rebuild_parameter")
            pickler.parts.append(b"(")
        pickler.named("torch._utils", "_rebuild_tensor_v2")
        pickler.parts.append(b"((")
        pickler.write("storage", name)
        pickler.named("torch", _STORAGE_NAMES[dense.dtype.name])
        for fact in (str(key), "cpu", dense.size):
            pickler.write(fact, name)
        pickler.parts.append(b"tQ")  # a persistent id
        for fact in (0, dense.shape, strides, leaf and not parameter, OrderedDict()):
            pickler.write(fact, name)
        pickler.parts.append(b"tR")
        if parameter:
            pickler.write(leaf, name)
            pickler.write(OrderedDict(), name)
            pickler.parts.append(b"tR")

    pickled = Pickler(tensor).pickle(thing, "the object")
    with zipfile.ZipFile(file, "w") as archive:
        parts = {"data.pkl": pickled, "byteorder": sys.byteorder.encode(), "version": b"3\n"}
        for name, content in parts.items():
            archive.writestr(zipfile.ZipInfo(f"archive/{name}"), content)
        for key, dense in enumerate(storages):
            with archive.open(zipfile.ZipInfo(f"archive/data/{key}"), "w", force_zip64=True) as out:
                if dense.size:
                    out.write(dense.ravel(order="K").view(np.uint8).data)


def _is_dense(array: Array) -> bool:
    """Whether the elements fill their memory, in any order of the dimensions."""
    if array.dtype.newbyteorder("=") != array.dtype:
        return False
    kept = sorted((step, n) for step, n in zip(array.strides, array.shape, strict=True) if n != 1)
    wanted = array.itemsize
    for step, n in kept:
        if step != wanted:
            return False
        wanted *= n
    return True


def load_pt(path: Source, map_location: Any = None) -> Any:
    """What a file of `torch.save` has: tensors in containers, on the device `map_location`.

    Tensors that share a storage share memory.
    """
    with opened(path) as (file, _):
        try:
            begin = file.tell()
            if zipfile.is_zipfile(file):
                return _read_zip(file, map_location)
            file.seek(begin)
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
        made = _tensor(storage, offset, size, stride, where)
        # PyTorch notes a conjugate, or a sign, beside memory that has neither.
        facts = rest[2] if len(rest) > 2 and isinstance(rest[2], dict) else {}
        if facts.get("conj") is True:
            made = made.conj()
        if facts.get("neg") is True:
            made = -made
        # A leaf that requires a gradient does so again, as in PyTorch.
        return made.requires_grad_() if rest and rest[0] is True else made

    def parameter(data: Tensor, requires_grad: bool, *rest: Any) -> Parameter:
        return Parameter(data, requires_grad=bool(requires_grad) and has_gradients(data.dtype))

    dtypes = [name for name in TYPE_NAMES.values() if name != "bfloat16"]  # NumPy's own
    known = KNOWN | {f"torch.{name}": np.dtype(name) for name in dtypes}
    known |= {f"torch.{name}": dtype for name, dtype in _STORAGES.items()}
    known["torch.storage.UntypedStorage"] = "uint8"
    return known | {
        "torch._utils._rebuild_tensor": tensor,
        "torch._utils._rebuild_tensor_v2": tensor,
        "torch._utils._rebuild_parameter": parameter,
        "torch._utils._rebuild_sparse_tensor": _sparse_tensor,
        "torch.serialization._get_layout": str,
        "torch.Size": Size,
        "torch.device": device,
    }


def _sparse_tensor(layout: str, data: Any) -> SparseTensor:
    """A sparse tensor of the tensors that were read before it."""
    if layout == CompressedRows.layout:
        return sparse_csr_tensor(*data)
    if layout != SparseTensor.layout:
        raise PickleRefused(f"it has a tensor of the layout {layout!r:.60}, which is not read")
    indices, values, size, *coalesced = data
    known = bool(coalesced[0]) if coalesced else None
    return sparse_coo_tensor(indices, values, size, is_coalesced=known)


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
    return mapped(made, where)


def mapped(tensor: Tensor, where: Any) -> Tensor:
    """A tensor where `map_location` wants it: a device, a dictionary, or a function as PyTorch's.

    Everything is read on the CPU. A dictionary is asked where that goes, a function is called with
    the tensor, in the place of its storage, and "cpu".
    """
    if callable(where) and not isinstance(where, device):
        placed_there = where(tensor, "cpu")
        return tensor if placed_there is None else placed_there
    if isinstance(where, Mapping):
        where = where.get("cpu")
    return tensor if where is None else tensor.to(where)
