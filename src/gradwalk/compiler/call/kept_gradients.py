"""KeptGradients: the tensors that a step on a device puts into `.grad`, used again and again.

Making a tensor and its array takes the host about a microsecond, which is much if there are
hundreds. So a step puts its new gradients into the tensors of the last one, unless somebody else
has one of them or changed it.
"""

from __future__ import annotations

import operator
import sys
import sysconfig
from collections.abc import Callable, Iterable, Sequence
from types import SimpleNamespace
from typing import Any

from gradwalk.tensors.apply import wrap

_array_of = operator.attrgetter("_array")
_node_of = operator.attrgetter("_node")


class KeptGradients:
    """The gradients of some tensors, by the numbers of the results that they are."""

    def __init__(self, numbers: Sequence[int], results: int) -> None:
        self.numbers = list(numbers)
        self.others = sorted(set(range(results)) - set(numbers))
        self.holders: list[Any] = []  # the tensors whose gradients they are, in a call
        self.tensors: list[Any] = []  # empty if they must be made anew
        self.arrays: list[Any] = []
        self._attributes: list[dict[str, Any]] = []  # of the tensors; empty until someone sets one

    def forget(self, machine: Any) -> None:
        """Let go of the old gradients, as `zero_grad` does: there is never memory for both. The new
        ones will be on this machine."""
        for holder in self.holders:
            holder._grad = None
        if self._unshared() and getattr(self.arrays[0], "machine", None) is machine:
            for array in self.arrays:
                array._term = None
        else:
            self.tensors = []

    def put(self, values: Sequence[Any], make: Callable[[Any], Any]) -> None:
        """Let the gradients be these values of a device; `make` makes an array of one."""
        if self.tensors:
            for array, value in zip(self.arrays, values, strict=True):
                array._term = value
        else:
            self.arrays = [make(value) for value in values]
            self.tensors = [wrap(array) for array in self.arrays]
            self._attributes = [tensor.__dict__ for tensor in self.tensors]
        for holder, tensor in zip(self.holders, self.tensors, strict=True):
            holder._grad = tensor

    def _unshared(self) -> bool:
        """Whether the tensors are nobody else's, and as they were made."""
        if _UNSHARED is None:
            return False
        counts = max(_references(self.tensors), default=0), max(_references(self.arrays), default=0)
        return (
            counts == _UNSHARED
            and all(map(operator.is_, map(_array_of, self.tensors), self.arrays))
            and not any(map(_node_of, self.tensors))
            and not any(self._attributes)
        )


def _references(things: Iterable[Any]) -> list[int]:
    return list(map(sys.getrefcount, things))


def _unshared_counts() -> tuple[int, int] | None:
    """What is counted for a tensor and an array that only KeptGradients has."""
    if sysconfig.get_config_var("Py_GIL_DISABLED"):
        return None  # there it counts nothing useful
    holder = SimpleNamespace(_array=object())
    arrays, tensors = [holder._array], [holder]
    del holder
    return _references(tensors)[0], _references(arrays)[0]


_UNSHARED = _unshared_counts()
