"""Places: where captured things are found at each call, and where results go.

Tensors are captured by what holds them, not by their array: assigning to `.data`, `.grad` or
loading an optimizer's state gives them another, and the next call must find it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(eq=False)
class OfTensor:
    """A tensor that the function knows by itself."""

    tensor: Any

    def get(self, arguments: list[Any]) -> Any:
        """The tensor."""
        return self.tensor


@dataclass(eq=False)
class OfArgument:
    """A tensor the function was called with."""

    position: int

    def get(self, arguments: list[Any]) -> Any:
        """The tensor."""
        return arguments[self.position]


@dataclass(eq=False)
class OfGradient:
    """The `.grad` of a tensor."""

    of: Any  # the place of the tensor

    def get(self, arguments: list[Any]) -> Any:
        """The gradient, or None."""
        return self.of.get(arguments)._grad

    def set(self, value: Any, arguments: list[Any]) -> None:
        """Replace the gradient."""
        self.of.get(arguments)._grad = value


class KeptState:
    """The dictionary of one parameter's state, as last found (OptimizerAsBefore looks again)."""

    __slots__ = ("kept", "optimizer", "parameter")

    def __init__(self, optimizer: Any, parameter: Any, kept: dict[str, Any] | None) -> None:
        self.optimizer = optimizer
        self.parameter = parameter
        self.kept: Any = kept  # None if a first step makes it


@dataclass(eq=False)
class OfState:
    """A tensor or number in the state of an optimizer."""

    state: KeptState
    name: str

    def get(self, arguments: list[Any]) -> Any:
        """What is there, or None."""
        return None if self.state.kept is None else self.state.kept.get(self.name)

    def set(self, value: Any, arguments: list[Any]) -> None:
        """Replace it; a first step makes the dictionary."""
        kept = self.state.kept
        if kept is None:
            kept = self.state.optimizer.state[self.state.parameter]
        kept[self.name] = value

    def __str__(self) -> str:
        return f"'{self.name}' in the state of {type(self.state.optimizer).__name__}"


@dataclass(eq=False)
class OfGroup:
    """An option of a parameter group; `part` counts within a tuple such as betas."""

    optimizer: Any
    group: int
    name: str
    part: int | None = None

    def get(self, arguments: list[Any]) -> Any:
        """The number."""
        found = self.optimizer.param_groups[self.group].get(self.name)
        return found if self.part is None else found[self.part]

    def set(self, value: Any, arguments: list[Any]) -> None:
        """Replace it."""
        group = self.optimizer.param_groups[self.group]
        if self.part is None:
            group[self.name] = value
        else:
            parts = list(group[self.name])
            parts[self.part] = value
            group[self.name] = tuple(parts)

    def __str__(self) -> str:
        return f"{self.name} of {type(self.optimizer).__name__}"


class OfGenerator:
    """The state of a random generator: [seed, offset], each 64 bits, in an int64 array."""

    def __init__(self, generator: Any) -> None:
        self.generator = generator

    def get(self, arguments: list[Any]) -> Any:
        """The place itself, which has the array."""
        return self

    @property
    def _array(self) -> Any:
        if self.generator.like != "gradwalk":
            return None
        stream = self.generator._stream
        return np.array([stream.seed % 2**64, stream.offset], np.uint64).view(np.int64)

    def drew(self, array: Any) -> None:
        """Go on where compiled code ended."""
        self.generator._stream.move_to(int(array[1]))


@dataclass(eq=False)
class OfNumber:
    """A float the function was called with."""

    position: int
    name: str

    def get(self, arguments: list[Any]) -> Any:
        """The number; it stands behind the tensors."""
        return arguments[self.position]

    def __str__(self) -> str:
        return f"the argument {self.name}"
