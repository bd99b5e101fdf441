"""The outcome of a trace: the program, and everything that a call of it needs around it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from gradwalk.compiler.capture.environment_guards import Environment
from gradwalk.compiler.capture.guards import ModulesGuard, OptimizerGuard
from gradwalk.compiler.capture.locations import GradientLocation
from gradwalk.compiler.capture.runtime_scalars import RuntimeScalar
from gradwalk.compiler.functional.functional_array import Chain
from gradwalk.compiler.ir.program import Layout, Memory, Program, Term
from gradwalk.compiler.tracing.gradient import Gradient
from gradwalk.ops.index.indexing import Index


class Itself(NamedTuple):
    """A result that is a tensor from outside."""

    location: Any


# Parts at indices that the program computes: for each, view ops, a subscript, and the numbers of
# the outputs that are its integers.
PickedParts = tuple[tuple[Chain, Index, tuple[int, ...]], ...]


class Result(NamedTuple):
    """A result in memory of its own: output `number` of the program, seen through a chain."""

    number: int
    chain: Chain = ()
    requires_grad: bool = False
    picked: PickedParts = ()  # before the chain


class Alias(NamedTuple):
    """A result on the memory of a source (Memory or Argument)."""

    source: Term
    chain: Chain
    picked: PickedParts = ()  # before the chain


@dataclass(eq=False)
class CapturedMemory:
    """Captured memory: an array, and the locations of the tensors that have it."""

    array: np.ndarray[Any, Any]
    locations: list[Any]


@dataclass(eq=False)
class TracedProgram:
    """A program and what a call of it needs."""

    program: Program
    device: Any  # that the program runs on
    captured: list[CapturedMemory]  # by the number of the Memory source
    scalars: list[Any]  # locations, by the number of the Scalar source
    tensors: list[Itself | Result | Alias]  # to be made after a call; their positions are slots
    result: Any  # nested; leaves are Slot, Numeral or fixed values
    assigned: list[tuple[Any, int | None]]  # (location, slot): put the tensor, or None, there
    rebound: list[tuple[Any, int]]  # (location, slot): `.data` of that tensor was replaced
    flags: list[tuple[Any, bool]]  # (location, requires_grad) that the function set
    counted: list[tuple[Any, Any]]  # (location, fixed number) that the function wrote
    updated: list[list[Any]]  # locations for each scalar that the program updates, in order
    arguments: int  # how many tensors it is called with
    layout: Layout
    # The guards:
    needs: list[tuple[Any, bool]]  # (location, whether the tensor needs a gradient)
    views: list[tuple[Any, Any]]  # (location, array) of tensors on a part of captured memory
    grads: list[tuple[Any, bool]]  # (location, whether its .grad is None)
    unread: list[Any]  # locations whose .grad is replaced, whatever it was before
    optimizers: list[OptimizerGuard]
    modules: ModulesGuard
    decisions: list[tuple[RuntimeScalar, bool]]
    environment: Environment
    fresh: list[tuple[Any, Any, dict[str, Any]]]  # (optimizer, parameter, state) to begin with
    written_arguments: list[int]
    captured_arguments: dict[int, Any]  # by position: the function knows them by itself as well
    gradient: Gradient | None  # if a result is differentiated outside
    tells_finite: bool = False  # whether the last result says that updates happened

    @property
    def written(self) -> list[int]:
        """The numbers of the captured memories that the program updates."""
        targets = (target.source for target, _ in self.program.updates)
        return [source.number for source in targets if isinstance(source, Memory)]

    @property
    def gradient_results(self) -> list[int]:
        """The numbers of the results that become a `.grad`."""
        slots = [s for location, s in self.assigned if isinstance(location, GradientLocation)]
        tensors = [self.tensors[slot] for slot in slots if slot is not None]
        return [tensor.number for tensor in tensors if isinstance(tensor, Result)]


@dataclass(eq=False)
class Slot:
    """In a nested result: the tensor with this number among `TracedProgram.tensors`."""

    number: int


@dataclass(eq=False)
class Numeral:
    """In a nested result: the Python number that is this output of the program."""

    whole: bool
    number: int = -1  # known when the results of tensors are


@dataclass(eq=False)
class Record:
    """In a nested result: an object with tensors in its attributes, made anew in every call."""

    kind: type
    attributes: dict[str, Any]

    def make(self, *values: Any) -> Any:
        made: Any = object.__new__(self.kind)
        for name, value in zip(self.attributes, values, strict=True):
            object.__setattr__(made, name, value)
        return made
