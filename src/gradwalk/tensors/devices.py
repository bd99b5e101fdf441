"""Where tensors live: on the CPU, all of them. The names are here for code written for PyTorch."""

from __future__ import annotations

from typing import Any

import numpy as np


class device(str):
    """The device of a tensor, `device("cpu")`; asking for another raises.

    >>> import gradwalk as gw
    >>> gw.zeros(2, device=gw.device("cpu")).device
    device(type='cpu')
    """

    __slots__ = ()

    def __new__(cls, type: Any = "cpu", index: int | None = None) -> device:
        """Only "cpu" and "cpu:0" are devices here."""
        if str(type).partition(":")[0] != "cpu":
            raise ValueError(f"no device {str(type)!r} here: eager tensors live on the CPU")
        return super().__new__(cls, "cpu")

    @property
    def type(self) -> str:
        """The kind of device."""
        return "cpu"

    @property
    def index(self) -> None:  # type: ignore[override]
        """Which one of its kind; there is only one."""
        return None

    def __repr__(self) -> str:
        return "device(type='cpu')"


CPU = device()


def read_to(args: tuple[Any, ...], keywords: dict[str, Any]) -> tuple[Any, bool]:
    """The dtype (or None) and `copy` out of the arguments of a method `to`.

    They are a dtype, a device, both, or a tensor to be like, and then PyTorch's `non_blocking`
    and `copy`; where a tensor is and how it gets there means nothing here.
    """
    unknown = keywords.keys() - {"dtype", "device", "copy", "non_blocking", "memory_format"}
    if unknown or len(args) > 4:
        raise TypeError(f"to() does not take {', '.join(unknown) or f'{len(args)} arguments'}")
    dtype, copy = keywords.get("dtype"), keywords.get("copy", False)
    flags = []
    for value in (*args, keywords.get("device")):
        if isinstance(value, bool):
            flags.append(value)  # non_blocking, copy
        elif hasattr(value, "_array"):
            dtype = value.dtype
        elif isinstance(value, (np.dtype, type)):
            dtype = value
        elif isinstance(value, str):
            try:
                device(value)
            except ValueError:
                if value.partition(":")[0] in ("cuda", "mps", "xpu", "meta"):
                    raise
                dtype = np.dtype(value)
        elif value is not None:
            raise TypeError(f"to() takes a dtype, a device or a tensor, not {value!r}")
    return (None if dtype is None else np.dtype(dtype)), copy or flags[1:] == [True]
