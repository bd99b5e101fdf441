"""Where tensors live: in NumPy arrays on the CPU, or in `jax.Array`s on another device."""

from __future__ import annotations

import contextvars
from typing import Any, NamedTuple, Self

import numpy as np

from gradwalk.engine.guest_loaders import loaders
from gradwalk.graph.abstract import AbstractArray
from gradwalk.ops.core.dtypes import dtype_named

KINDS = ("cpu", "cuda", "tpu", "xla")


class device(str):
    """The device of a tensor: "cpu", "cuda", "cuda:1", "tpu", or "xla", which is XLA on the CPU.

    >>> import gradwalk as gw
    >>> gw.zeros(2, device=gw.device("cpu")).device
    device(type='cpu')

    New tensors of a `with` block are on its device:

    >>> with gw.device("cpu"):
    ...     gw.zeros(2).device
    device(type='cpu')
    """

    __slots__ = ()

    def __new__(cls, type: Any = "cpu", index: int | None = None) -> device:
        """`device("cuda", 1)` is `device("cuda:1")`; a number is a GPU."""
        if isinstance(type, device) and index is None:
            return type  # a mesh too
        if isinstance(type, int):
            type, index = "cuda", type
        kind, _, number = str(type).partition(":")
        if kind not in KINDS:
            raise ValueError(f"no device {str(type)!r}: there are {', '.join(KINDS)}")
        if number and (index is not None or not number.isdecimal()):
            raise ValueError(f"no device {str(type)!r}: write {kind}:0 or device({kind!r}, 0)")
        if kind == "cpu" or (not number and index is None):
            return super().__new__(cls, kind)
        return super().__new__(cls, f"{kind}:{int(number) if number else index}")

    @property
    def type(self) -> str:
        """The kind of device."""
        return str(self).partition(":")[0]

    @property
    def index(self) -> int | None:  # type: ignore[override]
        """Which one of its kind; None: the first, and for the CPU always."""
        number = str(self).partition(":")[2]
        return int(number) if number else None

    def __repr__(self) -> str:
        number = "" if self.index is None else f", index={self.index}"
        return f"device(type={self.type!r}{number})"

    def __enter__(self) -> Self:
        _outer.set((default.get(), _outer.get()))
        default.set(self)
        return self

    def __exit__(self, *_: object) -> None:
        entered = _outer.get()
        assert entered is not None
        before, rest = entered
        default.set(before)
        _outer.set(rest)


CPU = device()
# Where new tensors are made if nothing else is said, and what it was outside each `with` block.
default: contextvars.ContextVar[device] = contextvars.ContextVar("device", default=CPU)
_outer: contextvars.ContextVar[Any] = contextvars.ContextVar("outer devices", default=None)


def get_default_device() -> device:
    """The device of new tensors: the CPU unless changed.

    >>> import gradwalk as gw
    >>> gw.get_default_device()
    device(type='cpu')
    """
    return default.get()


def set_default_device(device: Any) -> None:
    """Make new tensors on this device; None: on the CPU.

    >>> import gradwalk as gw
    >>> gw.set_default_device("cpu")
    """
    default.set(CPU if device is None else numbered(device))


def device_of(array: Any) -> device:
    """The device that an array is on."""
    if isinstance(array, AbstractArray):
        where: device = getattr(array.machine, "device", CPU)  # type: ignore[attr-defined]
        return where
    return CPU


def numbered(where: Any) -> device:
    """The device with its number, as a tensor has it: "cuda" is "cuda:0". A mesh has none."""
    wanted = device(where)
    return device(f"{wanted}:0") if wanted in KINDS and wanted != CPU else wanted


def placed(array: Any, where: Any) -> Any:
    """The array on a device; itself if it is there."""
    wanted = numbered(where)
    if wanted == device_of(array):
        return array
    if wanted == CPU:
        return array.numbers("cpu()")
    return loaders["xla"]().upload(np.asarray(array), wanted)


class Target(NamedTuple):
    """What the arguments of a method `to` ask for; None: as it is."""

    dtype: np.dtype[Any] | None
    device: device | None
    copy: bool


def read_to(args: tuple[Any, ...], keywords: dict[str, Any]) -> Target:
    """Read the arguments of a method `to`.

    They are a dtype, a device, both, or a tensor to be like, and then PyTorch's `non_blocking`,
    which means nothing here, and `copy`.
    """
    unknown = keywords.keys() - {"dtype", "device", "copy", "non_blocking", "memory_format"}
    if unknown or len(args) > 4:
        raise TypeError(f"to() does not take {', '.join(unknown) or f'{len(args)} arguments'}")
    dtype, copy = keywords.get("dtype"), keywords.get("copy", False)
    where = None
    flags = []
    for value in (*args, keywords.get("device")):
        if isinstance(value, bool):
            flags.append(value)  # non_blocking, copy
        elif hasattr(value, "_array"):
            dtype, where = value.dtype, value.device
        elif isinstance(value, (np.dtype, type)):
            dtype = value
        elif isinstance(value, (str, int)):
            try:
                where = device(value)
            except ValueError as error:
                try:
                    dtype = dtype_named(str(value))
                except TypeError:  # it is no dtype either
                    raise error from None
        elif value is not None:
            raise TypeError(f"to() takes a dtype, a device or a tensor, not {value!r}")
    kind = None if dtype is None else np.dtype(dtype)
    return Target(kind, where, copy or flags[1:] == [True])
