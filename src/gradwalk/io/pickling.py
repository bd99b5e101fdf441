"""Writing pickles of plain data that `torch.load` reads; with `weights_only=True` too, unless there
are namespaces, default dictionaries, frozen sets or paths among them.

The pickle module cannot write them without PyTorch: it imports whatever a pickle names. This module
writes the instructions that build containers, numbers, text, tensors and arrays, and no others.
"""

from __future__ import annotations

import struct
from collections import Counter, OrderedDict, defaultdict
from collections.abc import Callable
from pathlib import PurePath
from typing import Any

import numpy as np

from gradwalk.io.pickled import FACTORIES, NAMESPACES
from gradwalk.sparse import SparseTensor
from gradwalk.tensors.devices import device
from gradwalk.tensors.size import Size
from gradwalk.tensors.tensor import Tensor

Array = np.ndarray[Any, Any]
# Adds the instructions that build a tensor, which messages call by the name.
WriteTensor = Callable[["Pickler", Tensor, str], None]


class Pickler:
    """The pickle of one object; `tensor` writes the tensors in it."""

    def __init__(self, tensor: WriteTensor) -> None:
        self.parts = [b"\x80\x02"]  # protocol 2, as torch.save
        self.tensor = tensor
        self._memo: dict[int, int] = {}
        self._kept: list[Any] = []  # whose ids are in the memo

    def pickle(self, value: Any, name: str) -> bytes:
        """The pickle of a value that messages call `name`."""
        self.write(value, name)
        return b"".join([*self.parts, b"."])

    def write(self, value: Any, name: str) -> None:
        """Add the instructions that build a value."""
        if id(value) in self._memo:
            self.parts.append(b"j" + struct.pack("<I", self._memo[id(value)]))
            return
        kind = type(value)
        if kind in _SCALARS:
            self.parts.append(_SCALARS[kind](value))
        elif isinstance(value, Tensor):
            self.tensor(self, value, name)
            self._remember(value)
        elif isinstance(value, SparseTensor):
            self._sparse(value, name)
            self._remember(value)
        elif isinstance(value, np.ndarray):
            self._array(value, name)
            self._remember(value)
        elif isinstance(value, np.dtype):
            self.named("torch", value.name)
        elif isinstance(value, np.generic):
            self.write(value.item(), name)
        elif isinstance(value, device):
            self.call("torch", "device", str(value))
        elif kind is bytes:
            self.call("_codecs", "encode", value.decode("latin1"), "latin1")
        elif kind is bytearray:
            self.call("builtins", "bytearray", bytes(value))
        elif kind is complex:
            self.call("builtins", "complex", value.real, value.imag)
        elif kind is Size:
            self.call("torch", "Size", tuple(value))
        elif isinstance(value, PurePath):
            self.call("pathlib", kind.__name__, *value.parts)
        elif kind in NAMESPACES:
            self.named(kind.__module__, kind.__name__)
            self.parts.append(b")\x81")  # made without arguments
            self._remember(value)
            self.write(vars(value), name)
            self.parts.append(b"b")
        elif kind in (tuple, list, dict, set, frozenset, OrderedDict, Counter, defaultdict):
            self._container(value, name)
        else:
            raise TypeError(_refusal(value, name))

    def _sparse(self, value: SparseTensor, name: str) -> None:
        """The name of the layout, and what the function that makes one takes."""
        self.named("torch._utils", "_rebuild_sparse_tensor")
        self.parts.append(b"(")
        self.call("torch.serialization", "_get_layout", value.layout)
        self.items(value._parts(), name)
        self.parts.append(b"ttR")

    def _array(self, value: Array, name: str) -> None:
        """An ndarray as NumPy pickles it: an empty one, and then what it holds."""
        if value.dtype.kind not in "biufcSU":
            raise TypeError(f"{name} holds {value.dtype}, which is not numbers or text")
        make: Any = value.__reduce__()[0]
        self.named(make.__module__, make.__name__)
        self.parts.append(b"(")
        self.named("numpy", "ndarray")
        self.write((0,), name)
        self.write(b"b", name)
        self.parts.append(b"tR(")
        self.write(1, name)
        self.write(value.shape, name)
        _, arguments, state = value.dtype.__reduce__()
        self.call("numpy", "dtype", *arguments)
        self.write(state, name)
        self.parts.append(b"b")
        in_columns = value.flags.f_contiguous and not value.flags.c_contiguous
        self.write(in_columns, name)
        self.write(value.tobytes("A"), name)
        self.parts.append(b"tb")

    def _container(self, value: Any, name: str) -> None:
        kind = type(value)
        if kind is tuple:  # cannot contain itself: it is remembered when it is complete
            self.items(value, name)
            self.parts.append(b"t")
            self._remember(value)
            return
        if kind in (dict, list):
            self.parts.append(b"}" if kind is dict else b"]")
        elif kind is OrderedDict:
            self.call("collections", "OrderedDict")
        elif kind is Counter:
            self.call("collections", "Counter", dict(value))
        elif kind is defaultdict:
            self._default_dict(value, name)
        else:
            self.call("builtins", kind.__name__, list(value))
        self._remember(value)
        if kind is list:
            self.items(value, name)
            self.parts.append(b"e")
        elif kind in (dict, OrderedDict, defaultdict):
            self.parts.append(b"(")
            for key, inner in value.items():
                self.write(key, f"a key of {name}")
                self.write(inner, f"{name}[{key!r:.60}]")
            self.parts.append(b"u")
            versions = getattr(value, "_metadata", None)  # of the modules of a state dict
            if versions is not None:
                self.write({"_metadata": versions}, name)
                self.parts.append(b"b")

    def _default_dict(self, value: Any, name: str) -> None:
        """An empty one, with what it makes."""
        factory = value.default_factory
        if factory is not None and factory not in (*FACTORIES.values(), set):
            raise TypeError(f"{name} is a defaultdict of {factory!r}. Fix: save dict({name})")
        self.named("collections", "defaultdict")
        self.parts.append(b"(")
        if factory is not None:
            self.named("builtins", factory.__name__)
        self.parts.append(b"tR")

    def items(self, values: Any, name: str) -> None:
        """A mark, and values above it."""
        self.parts.append(b"(")
        for place, inner in enumerate(values):
            self.write(inner, f"{name}[{place}]")

    def named(self, module: str, name: str) -> None:
        """Something that the reader has under this name."""
        self.parts.append(f"c{module}\n{name}\n".encode())

    def call(self, module: str, name: str, *arguments: Any) -> None:
        """The result of a constructor that the reader has under this name."""
        self.named(module, name)
        self.items(arguments, name)
        self.parts.append(b"tR")

    def _remember(self, value: Any) -> None:
        self._memo[id(value)] = len(self._memo)
        self._kept.append(value)
        self.parts.append(b"r" + struct.pack("<I", self._memo[id(value)]))


def _integer(value: int) -> bytes:
    if -(2**31) <= value < 2**31:
        return b"J" + struct.pack("<i", value)
    encoded = value.to_bytes(value.bit_length() // 8 + 1, "little", signed=True)
    if len(encoded) > 255:
        raise ValueError(f"an integer of {value.bit_length()} bits is too long for a checkpoint")
    return b"\x8a" + bytes([len(encoded)]) + encoded


def _text(value: str) -> bytes:
    encoded = value.encode("utf-8", "surrogatepass")
    return b"X" + struct.pack("<I", len(encoded)) + encoded


_SCALARS: dict[type, Callable[[Any], bytes]] = {
    type(None): lambda value: b"N",
    bool: lambda value: b"\x88" if value else b"\x89",
    int: _integer,
    float: lambda value: b"G" + struct.pack(">d", value),
    str: _text,
}


def _refusal(value: Any, name: str) -> str:
    if hasattr(value, "state_dict"):
        fix = f"save {type(value).__name__}.state_dict(), and load it into a new one"
    elif hasattr(value, "__dict__"):
        fix = "save what it contains: vars(...) gives its attributes as a dict"
    else:
        fix = "save it as numbers, text, lists, dicts and tensors"
    return (
        f"{name} is a {type(value).__name__}, which a checkpoint cannot hold, because loading it "
        f"would execute code. Fix: {fix}."
    )
