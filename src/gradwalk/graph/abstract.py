"""What stands in for an array while a function is traced.

The engine asks here what counts as an array, and copies arrays here, so that it never has to know
more of the compiler; the classes themselves are in `compiler/tracing/`.
"""

from __future__ import annotations

import threading
from typing import Any

import numpy as np


class AbstractArray:
    """Base class of an array without numbers: with a shape, a dtype, and a record of what is done.

    It has what an ndarray has, as far as the engine and the optimizers use it, and these methods.
    """

    __slots__ = ()

    def become(self, op: Any, operands: list[Any], attrs: dict[str, Any]) -> None:
        """Hold op(*operands) from now on."""
        raise NotImplementedError

    def copy(self) -> Any:
        """Another with the same elements."""
        raise NotImplementedError

    def numbers(self, how: str) -> np.ndarray[Any, Any]:
        """The numbers of a constant; for anything else an error that says how they were asked."""
        raise NotImplementedError


class AbstractNumber:
    """Base class of a Python number that is only known when the compiled function is called."""

    __slots__ = ()


class _Traces(threading.local):
    """Whether this thread traces a function: then no check may look at numbers."""

    on = False


traces = _Traces()


def numbers_of(thing: Any) -> np.ndarray[Any, Any] | None:
    """The numbers of a tensor or an array, for a check of them; None if there are none to see.

    While a function is traced there are none even where an array has some: what they are now may
    not be what they are when the compiled function is called.
    """
    array = getattr(thing, "_array", thing)
    return array if isinstance(array, np.ndarray) and not traces.on else None


def is_array(thing: Any) -> bool:
    """Whether it is an ndarray, or stands in for one."""
    return isinstance(thing, (np.ndarray, AbstractArray))


def own_copy(array: Any) -> Any:
    """A new array with the same elements (of a NumPy number too)."""
    return array.copy() if isinstance(array, AbstractArray) else np.array(array)
