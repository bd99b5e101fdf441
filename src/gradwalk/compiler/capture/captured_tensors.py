"""What a trace captures: tensors from outside, and their memory."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from gradwalk.compiler.capture.locations import ArgumentLocation
from gradwalk.compiler.ir.program import Term

if TYPE_CHECKING:
    from gradwalk.compiler.tracing.traced import Traced


class CapturedTensor:
    """A tensor whose array is replaced during a trace, and how it was before."""

    def __init__(self, tensor: Any, location: Any) -> None:
        self.tensor = tensor
        self.location = location
        self.array = tensor._array
        self.node, self.index = tensor._node, tensor._index
        self.attributes = dict(tensor.__dict__)
        hooks = tensor.hooks or {}
        self.hooks = [(functions, dict(functions)) for functions in hooks.values()]
        self.needed = bool(tensor._requires_grad) or tensor._node is not None
        self.grad_was = "untouched"  # by the function: then "read" or "replaced"
        self.traced: Any = None

    def restore(self) -> None:
        """Put everything back; a stand-in for an argument stays abstract, in case it was kept."""
        tensor = self.tensor
        if isinstance(self.location, ArgumentLocation):
            self.array = tensor._grad = None
            return
        tensor._array, tensor._node, tensor._index = self.array, self.node, self.index
        tensor.__dict__.clear()
        tensor.__dict__.update(self.attributes)
        for functions, before in self.hooks:
            functions.clear()
            functions.update(before)


@dataclass(eq=False)
class Storage:
    """Captured memory: the array that owns it, its locations, and the traced array for it."""

    array: np.ndarray[Any, Any]
    traced: Traced
    source: Term
    locations: list[Any] = field(default_factory=list)  # of the tensors that have just this array
