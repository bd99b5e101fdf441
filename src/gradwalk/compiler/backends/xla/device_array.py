"""DeviceArray: the array of a tensor on a device. It holds a `jax.Array`."""

from __future__ import annotations

from typing import Any

import numpy as np

from gradwalk.compiler.functional.functional_array import FunctionalArray


class DeviceArray(FunctionalArray):
    """Memory on a device: writes replace its value, and views of it see that."""

    __slots__ = ()
    machine: Any
    on_device = True

    def numbers(self, how: str) -> np.ndarray[Any, Any]:
        """The elements, copied to the host."""
        self.machine.pending.settle()
        return np.array(self.term)

    @property
    def is_constant(self) -> bool:
        return False

    @property
    def strides(self) -> tuple[int, ...]:
        """Of the memory that it models."""
        if isinstance(self.layout, tuple):
            return tuple(step * self.itemsize for step in self.layout)
        return super().strides

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        self.machine.pending.settle()
        return np.asarray(self.term, dtype)

    def __reduce__(self) -> Any:
        from gradwalk.compiler.backends.xla.machine import upload

        return upload, (self.numbers("pickle"), self.machine.device)

    def __repr__(self) -> str:
        return f"<{self.machine.device} {self.dtype.name}{list(self.shape)}>"
