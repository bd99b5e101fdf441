"""Storages: the memory that a tensor and its views share, as PyTorch's programs ask for it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from gradwalk.graph.source import caller
from gradwalk.graph.versions import owner_of, touch

Array = np.ndarray[Any, Any]


def memory_of(array: Array) -> Array:
    """All elements of the memory behind an array, in the order of their places."""
    owner = owner_of(array)
    # An owner that the system or another library gave may have gaps; then the array itself is all.
    dense = owner.nbytes == sum((n - 1) * abs(s) for n, s in zip(owner.shape, owner.strides)) + (
        owner.itemsize if owner.size else 0
    )
    first = owner if dense and all(s >= 0 for s in owner.strides) else array
    flat = np.lib.stride_tricks.as_strided(first, (first.size,), (first.itemsize,))
    return flat if flat.dtype == array.dtype else flat.view(array.dtype)


def offset_of(array: Array) -> int:
    """How many elements lie in the memory of an array before its first one."""
    addresses = [a.__array_interface__["data"][0] for a in (array, memory_of(array))]
    return (addresses[0] - addresses[1]) // array.itemsize if array.size else 0


def copied_memory(array: Array, is_view: bool, memo: dict[Any, Any]) -> Array:
    """A copy for `deepcopy`; copies of a tensor and of its views share memory, by way of `memo`."""
    if not isinstance(array, np.ndarray) or not array.flags.writeable or not array.size:
        return array.copy()
    key = "memory", id(owner_of(array))
    if key not in memo:
        whole = memory_of(array) if is_view else array
        memo[key] = whole, whole.copy()
    whole, copied = memo[key]
    if array is whole:
        return copied
    first, start = (a.__array_interface__["data"][0] for a in (array, whole))
    end = first - start + sum((n - 1) * s for n, s in zip(array.shape, array.strides, strict=True))
    known = 0 <= first - start <= end < whole.nbytes and whole.flags.c_contiguous
    if not known or min(array.strides, default=0) < 0:
        return array.copy()
    return np.ndarray(array.shape, array.dtype, copied, first - start, array.strides)


class UntypedStorage:
    """The bytes of a tensor's memory; two tensors share it if `data_ptr()` is equal.

    >>> import gradwalk as gw
    >>> x = gw.zeros(4)
    >>> x[2:].untyped_storage().data_ptr() == x.untyped_storage().data_ptr()
    True
    >>> x[2:].untyped_storage().nbytes(), x[2:].storage_offset()
    (16, 2)
    """

    def __init__(self, array: Array) -> None:
        self._elements = memory_of(array).view(np.uint8)

    def data_ptr(self) -> int:
        """The address of the first byte."""
        return int(self._elements.__array_interface__["data"][0])

    def nbytes(self) -> int:
        """How many bytes it has."""
        return self._elements.nbytes

    def size(self) -> int:
        """How many elements it has: bytes, if it has no dtype."""
        return self._elements.size

    __len__ = size

    def __sizeof__(self) -> int:
        return object.__sizeof__(self) + self.nbytes()  # as in PyTorch, the memory it shows

    def element_size(self) -> int:
        """Bytes per element."""
        return self._elements.itemsize

    def tolist(self) -> list[Any]:
        """The elements as Python numbers."""
        return self._elements.tolist()

    def __iter__(self) -> Iterator[Any]:
        return iter(self.tolist())

    def __getitem__(self, index: int | slice) -> Any:
        found = self._elements[index]
        return found.tolist()

    def __setitem__(self, index: int | slice, value: Any) -> None:
        self._elements[index] = value
        touch(self._elements, *caller())

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._elements.dtype}, {self.size()} elements)"


class TypedStorage(UntypedStorage):
    """The elements of a tensor's memory, in the tensor's dtype."""

    def __init__(self, array: Array) -> None:
        self._elements = memory_of(array)

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type of the elements."""
        return self._elements.dtype

    def untyped(self) -> UntypedStorage:
        """The same memory as bytes."""
        return UntypedStorage(self._elements)


def strided(memory: Array, size: tuple[int, ...], stride: tuple[int, ...], offset: int) -> Array:
    """The elements of a memory that lie `stride` apart, from `offset` on; raise if some do not."""
    if len(size) != len(stride) or min((*size, *stride, offset), default=0) < 0:
        raise ValueError(f"size {size}, stride {stride} and offset {offset} do not fit each other")
    last = offset + sum((n - 1) * step for n, step in zip(size, stride, strict=True))
    if 0 not in size and last >= memory.size:
        raise ValueError(
            f"size {size} and stride {stride} from {offset} on reach element {last}, but the "
            f"memory has {memory.size}"
        )
    bytes_apart = [step * memory.itemsize for step in stride]
    return np.lib.stride_tricks.as_strided(memory[offset:], size, bytes_apart)


def row_strides(size: tuple[int, ...]) -> tuple[int, ...]:
    """The strides of a shape whose elements lie in memory in order."""
    steps = [1]
    for length in reversed(size[1:]):
        steps.append(steps[-1] * max(length, 1))
    return tuple(reversed(steps[: len(size)]))


def strided_zeros(size: Any, stride: Any, dtype: Any) -> Array:
    """Zeros with these strides, in elements."""
    sizes, steps = tuple(map(int, size)), tuple(map(int, stride))
    if len(sizes) != len(steps) or min((*sizes, *steps), default=0) < 0:
        raise ValueError(f"size {sizes} and stride {steps} do not fit each other")
    last = sum((n - 1) * step for n, step in zip(sizes, steps, strict=True))
    return strided(np.zeros(0 if 0 in sizes else last + 1, dtype), sizes, steps, 0)


class _Capsule:
    """Memory of the CPU in a capsule, which NumPy takes from an object only."""

    def __init__(self, capsule: Any) -> None:
        self.capsule = capsule

    def __dlpack__(self, **_: Any) -> Any:
        return self.capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)


def is_exported(data: Any) -> bool:
    """Whether only the protocol of DLPack tells what this holds; it may be a capsule."""
    own = hasattr(data, "__dlpack__") and not hasattr(data, "__array__")
    return own or type(data).__name__ == "PyCapsule"


def imported(other: Any) -> np.ndarray[Any, Any]:
    """The memory of an object with `__dlpack__`, or in a capsule."""
    return np.from_dlpack(_Capsule(other) if type(other).__name__ == "PyCapsule" else other)
