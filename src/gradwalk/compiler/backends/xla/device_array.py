"""DeviceArray: the array of a tensor on a device. It holds a `jax.Array`, or a part of a pack."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from gradwalk.compiler.backends.xla.packed_state import PackedValue
from gradwalk.compiler.functional.functional_array import FunctionalArray


class DeviceArray(FunctionalArray):
    """Memory on a device: writes replace its value, and views of it see that."""

    __slots__ = ("held",)
    machine: Any
    on_device = True

    @property
    def _term(self) -> Any:
        held = self.held
        return held.value if held.__class__ is PackedValue else held

    @_term.setter
    def _term(self, term: Any) -> None:
        self.held = term

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    def numbers(self, how: str) -> np.ndarray[Any, Any]:
        """The elements, copied to the host."""
        return self.machine.on_host(self.term)

    def assign(self, term: Any) -> None:
        """Write `term` to the memory, which stays on its devices."""
        held = self.held
        if held.__class__ is PackedValue:
            held.pack.intact = False
        else:
            term = self.machine.kept_in_place(held, term)
        super().assign(term)

    def shown(self) -> np.ndarray[Any, Any] | None:
        return self.numbers("the text") if self.machine.has_all(self.term) else None

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
        return np.asarray(self.machine.on_host(self.term), dtype)

    def __reduce__(self) -> Any:
        return self.machine.pickled(self.term)

    def __repr__(self) -> str:
        return f"<{self.machine.device} {self.dtype.name}{list(self.shape)}>"
