"""Stand-ins for arrays and numbers while a function is traced.

The engine tests for arrays and copies them here, so that it does not depend on the compiler; the
classes themselves are in `compiler/tracing/`.
"""

from __future__ import annotations

import threading
from typing import Any

import numpy as np


class AbstractArray:
    """Base class of an array without values: a shape, a dtype, and a record of operations.

    It has the part of ndarray's interface that the engine and the optimizers use, and these
    methods.
    """

    __slots__ = ()
    on_device = False  # whether it has values after all, in the memory of a device

    @property
    def depth(self) -> int:
        """How many vmaps it is inside of."""
        return 0

    def become(self, op: Any, operands: list[Any], attrs: dict[str, Any]) -> None:
        """Take the value of op(*operands)."""
        raise NotImplementedError

    def copy(self) -> Any:
        """A copy."""
        raise NotImplementedError

    def scan(
        self, step: Any, x: Any, state: tuple[Any, ...], weights: tuple[Any, ...], reverse: bool
    ) -> tuple[Any, ...]:
        """`ops.network.recurrent.scan` as one loop: all outputs, then the last state."""
        raise NotImplementedError

    def real(self) -> np.ndarray[Any, Any] | None:
        """The array that another thread than the tracing one sees; None if this is that thread."""
        raise NotImplementedError

    def numbers(self, how: str) -> np.ndarray[Any, Any]:
        """The values of a constant; raise for anything else, naming the caller."""
        raise NotImplementedError

    def shown(self) -> np.ndarray[Any, Any] | None:
        """The values for a text, of an array on a device; None if this process lacks some."""
        raise NotImplementedError

    @property
    def is_constant(self) -> bool:
        """Whether `numbers` has them."""
        raise NotImplementedError


class AbstractNumber:
    """Base class of a runtime scalar: a Python number known only when the compiled function is
    called.
    """

    __slots__ = ()


class _Traces(threading.local):
    """Whether this thread traces a function: then no check may read values."""

    on = False


traces = _Traces()


def numbers_of(thing: Any) -> np.ndarray[Any, Any] | None:
    """The values of a tensor or array, for a check; None if they are unknown.

    While a function is traced they are always unknown, because they may differ when the compiled
    function is called.
    """
    array = getattr(thing, "_array", thing)
    if traces.on:
        return None
    if getattr(array, "on_device", False):
        copied: np.ndarray[Any, Any] = array.numbers("a check")
        return copied
    return array if isinstance(array, np.ndarray) else None


def is_unknown(thing: Any) -> bool:
    """Whether the values of a tensor or array are known only when a compiled function runs."""
    array = getattr(thing, "_array", thing)
    if isinstance(array, AbstractArray):
        return not array.is_constant
    return traces.on and array is not thing  # a tensor from outside


def is_array(thing: Any) -> bool:
    """Whether a value is an ndarray or its stand-in."""
    return isinstance(thing, (np.ndarray, AbstractArray))


def own_copy(array: Any) -> Any:
    """A new array with the same elements (of a NumPy number too)."""
    return array.copy() if isinstance(array, AbstractArray) else np.array(array)
