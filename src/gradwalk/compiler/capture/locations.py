"""Locations: where captured things are found at each call, and where results go.

Tensors are captured by what holds them, not by their array: assigning to `.data` or `.grad`, or
loading an optimizer's state, replaces the array, and the next call must find the new one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np


class Location:
    """Something to read, and perhaps to replace, given the arguments of a call: its tensors, then
    its floats."""

    def get(self, arguments: Any) -> Any:
        """What is there; None if nothing is."""
        raise NotImplementedError

    def set(self, value: Any, arguments: Any) -> None:
        """Replace what is there."""
        raise NotImplementedError


@dataclass(eq=False)
class TensorLocation(Location):
    """A tensor that the function knows by itself."""

    tensor: Any

    def get(self, arguments: Any) -> Any:
        return self.tensor


@dataclass(eq=False)
class ArgumentLocation(Location):
    """A tensor that the function is called with."""

    position: int

    def get(self, arguments: Any) -> Any:
        return arguments[self.position]


@dataclass(eq=False)
class ScalarLocation(ArgumentLocation):
    """A float that the function is called with."""

    name: str

    def __str__(self) -> str:
        return f"the argument {self.name}"


@dataclass(eq=False)
class GradientLocation(Location):
    """The `.grad` of a tensor."""

    of: Any  # the location of the tensor

    def get(self, arguments: Any) -> Any:
        return self.of.get(arguments)._grad

    def set(self, value: Any, arguments: Any) -> None:
        self.of.get(arguments)._grad = value


@dataclass(eq=False, slots=True)
class ParameterState:
    """The dictionary of one parameter's state, as OptimizerGuard last found it."""

    optimizer: Any
    parameter: Any
    entries: Any  # None if a first step makes it


@dataclass(eq=False)
class StateLocation(Location):
    """A tensor or number in the state of an optimizer."""

    state: ParameterState
    name: str

    def get(self, arguments: Any) -> Any:
        return None if self.state.entries is None else self.state.entries.get(self.name)

    def set(self, value: Any, arguments: Any) -> None:
        entries = self.state.entries
        if entries is None:
            entries = self.state.optimizer.state[self.state.parameter]
        entries[self.name] = value

    def __str__(self) -> str:
        return f"'{self.name}' in the state of {type(self.state.optimizer).__name__}"


@dataclass(eq=False)
class OptionLocation(Location):
    """An option of a parameter group; `part` is a position in a tuple such as betas."""

    optimizer: Any
    group: int
    name: str
    part: int | None = None

    def get(self, arguments: Any) -> Any:
        option = self.optimizer.param_groups[self.group].get(self.name)
        return option if self.part is None else option[self.part]

    def set(self, value: Any, arguments: Any) -> None:
        group = self.optimizer.param_groups[self.group]
        if self.part is None:
            group[self.name] = value
        else:
            parts = list(group[self.name])
            parts[self.part] = value
            group[self.name] = tuple(parts)

    def __str__(self) -> str:
        return f"{self.name} of {type(self.optimizer).__name__}"


@dataclass(eq=False)
class GeneratorLocation(Location):
    """The state of a random generator: [seed, offset], each 64 bits, in an int64 array."""

    generator: Any

    def get(self, arguments: Any) -> Any:
        return self  # which has the array

    @property
    def _array(self) -> Any:
        if self.generator.like != "gradwalk":
            return None
        stream = self.generator._stream
        return np.array([stream.seed % 2**64, stream.offset], np.uint64).view(np.int64)
