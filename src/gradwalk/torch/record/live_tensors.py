"""Where live tensors stand in a trace."""

from __future__ import annotations

import weakref
from dataclasses import dataclass
from typing import Any

import torch

from gradwalk.inspect.trace.trace import Edge
from gradwalk.torch import private


@dataclass(slots=True)
class Noted:
    """The position of a live tensor in the trace."""

    tensor: weakref.ref[torch.Tensor]
    edge: Edge
    version: int  # version counter when it was noted
    memory: int | None  # address: `parameter.data = ...` does not advance the version
    being_written: bool = False  # written by its own operation, which PyTorch counts afterwards
    base_version: int | None = None  # of a view, which takes it over when its operation is done

    @property
    def is_current(self) -> bool:
        """Whether nothing has written to the tensor since."""
        tensor = self.tensor()
        if tensor is None:
            return True
        version = version_of(tensor)
        since = version - self.version
        unwritten = since == 0 or (since == 1 and self.being_written)
        unwritten = unwritten or version == self.base_version
        return unwritten and private.memory_of(tensor) == self.memory


@dataclass(slots=True)
class Unused:
    """A constant, or a `detach()` that may be PyTorch's own; it is recorded once it is used."""

    tensor: weakref.ref[torch.Tensor]
    source: Edge | None  # the operand of a detach
    place: tuple[Any, Any]  # from `caller`
    group: int | None
    is_blank: bool = False  # uninitialized memory


def version_of(tensor: torch.Tensor) -> int:
    """The version counter of a tensor; tensors of inference mode have none."""
    return -1 if tensor.is_inference() else tensor._version
