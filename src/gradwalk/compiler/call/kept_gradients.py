"""KeptGradients: the tensors that a step on a device puts into `.grad`, used again and again.

Making a tensor and its array takes the host about a microsecond, which is much if there are
hundreds. So a step puts its new gradients into the tensors of the last one, unless somebody else
has one of them or changed it.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

from gradwalk.graph.reference_counts import LIST_AND_ATTRIBUTE, references
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
        if LIST_AND_ATTRIBUTE is None or not self.tensors:
            return False
        return (
            max(references(self.arrays)) == LIST_AND_ATTRIBUTE  # the attribute of the tensor
            and max(references(self.tensors)) == LIST_AND_ATTRIBUTE - 1
            and all(map(operator.is_, map(_array_of, self.tensors), self.arrays))
            and not any(map(_node_of, self.tensors))
            and not any(self._attributes)
        )
