"""Where live tensors stand in a trace."""

from __future__ import annotations

import re
import weakref
from dataclasses import dataclass
from typing import Any

import torch

from gradwalk.inspect.trace.trace import Edge
from gradwalk.torch import private
from gradwalk.torch.record.operations import plain_name, version_of


@dataclass(slots=True)
class Noted:
    """The position of a live tensor in the trace."""

    tensor: weakref.ref[torch.Tensor]
    edge: Edge
    version: int  # version counter when it was noted
    memory: int | None  # address: `parameter.data = ...` does not advance the version
    being_written: bool = False  # written by its own operation, which PyTorch counts afterwards
    base_version: int | None = None  # of a view, which takes it over when its operation is done
    number: int = -1  # of the autograd node of the operation whose only output it is
    operation: str = ""  # the name of that operation

    def is_result_of(self, grad_fn: Any, tensor: torch.Tensor) -> bool:
        """Whether this autograd node of the tensor is that of the operation that made it."""
        return (
            self.number >= 0
            and grad_fn._sequence_nr() == self.number
            and tensor._version in (self.version, self.base_version)
            and fits(self.operation, grad_fn)
        )

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


# -- names of operations and of autograd nodes -----------------------------------------------------

_fitting: dict[tuple[str, Any], bool] = {}  # operation and type of the node


def fits(operation: str, grad_fn: Any) -> bool:
    """Whether an autograd node can belong to an operation, judging by their names."""
    key = operation, type(grad_fn)
    known = _fitting.get(key)
    if known is None:
        name = grad_fn.name()
        node = plain_name(without_backward(name))
        known = operation.startswith(node) or node.startswith(operation)
        if key[1].__name__ == name.rpartition("::")[2]:  # not a type of nodes of many names
            _fitting[key] = known
    return known


def without_backward(name: str) -> str:
    """The name of an autograd node without the ending that all of them have."""
    name = name.rpartition("::")[2]
    return re.sub(r"Backward\d*$", "", name) or name
