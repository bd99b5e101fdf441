"""The table from ONNX's operators to ours.

An operator is a function of tensors. It gets the inputs at the positions `numbers` as arrays: a
shape, a list of axes. What it returns as an array is known as well, and everything that depends
only on arrays is computed outside of recordings and compiled programs.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from gradwalk.tensors.tensor import Tensor

Array = np.ndarray[Any, Any]
ALL = range(1000)  # positions


@dataclass(frozen=True)
class OnnxNode:
    """One node of a graph: its operator, the version of that, and the attributes."""

    name: str
    op: str
    domain: str = ""
    version: int = 1  # of the operator set
    inputs: tuple[str | None, ...] = ()  # names; None where an optional one is left out
    outputs: tuple[str, ...] = ()
    attributes: dict[str, Any] = field(default_factory=dict)

    def get(self, name: str, default: Any = None) -> Any:
        """An attribute, or its default."""
        return self.attributes.get(name, default)

    def option(self, name: str, given: Array | None) -> list[Any] | None:
        """Integers that are an input in newer versions of the operator, an attribute in older."""
        if given is not None:
            return [int(n) for n in np.asarray(given).reshape(-1)]
        found = self.attributes.get(name)
        return None if found is None else list(found)

    def where(self) -> str:
        """The node, for messages."""
        return f"node '{self.name}' ({self.op})"


@dataclass(frozen=True)
class Operator:
    """What computes the outputs of a node: function(node, *inputs)."""

    function: Callable[..., Any]
    numbers: Collection[int] = ()  # the inputs that it needs as arrays
    varies: bool = False  # every call has another result: random numbers
    values: bool = False  # it takes tensors and arrays as they come, and graphs as functions


TABLE: dict[tuple[str, str], Operator] = {}  # by domain and name
PREVIEW = "ai.onnx.preview.training"


def operator(
    *names: str,
    numbers: Collection[int] = (),
    domain: str = "",
    varies: bool = False,
    values: bool = False,
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register the decorated function for these operators."""

    def put(function: Callable[..., Any]) -> Callable[..., Any]:
        for name in names:
            TABLE[domain, name] = Operator(function, numbers, varies, values)
        return function

    return put


def direct(**functions: Callable[..., Any]) -> None:
    """Register operators that are a function of ours, without attributes."""
    for name, function in functions.items():
        TABLE["", name] = Operator(lambda node, *inputs, _call=function: _call(*inputs))


def axis_of(node: OnnxNode, x: Any, default: int) -> int:
    """The attribute `axis`, counted from the front."""
    axis = int(node.get("axis", default))
    return axis + x.ndim if axis < 0 else axis


def constant(array: Any) -> Tensor:
    """An array as a tensor that never changes."""
    from gradwalk.tensors.creation import from_numpy

    if array.flags.writeable or not array.flags.owndata:
        array = array.copy()
        array.flags.writeable = False
    return from_numpy(array)
