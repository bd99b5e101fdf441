"""Outcome of a trace: the program, and everything that a call of it needs around it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from gradwalk.compiler.capture.environment import Environment
from gradwalk.compiler.capture.modules import ModulesAsBefore
from gradwalk.compiler.capture.optimizers import OptimizerAsBefore
from gradwalk.compiler.capture.runtime_scalars import Number
from gradwalk.compiler.ir.program import Program, Term
from gradwalk.compiler.tracing.gradient import Gradient
from gradwalk.compiler.tracing.traced import Chain


class Itself(NamedTuple):
    """A result that is a tensor from outside."""

    place: Any


class Result(NamedTuple):
    """A result in memory of its own: output `number` of the program, seen through a chain."""

    number: int
    chain: Chain = ()
    requires_grad: bool = False


class Alias(NamedTuple):
    """A result on the memory of a source (Memory or Argument)."""

    source: Term
    chain: Chain


@dataclass(eq=False)
class Captured:
    """Captured memory: the places whose tensors have it (none: an array that has it for good)."""

    array: np.ndarray[Any, Any]
    places: list[Any] = field(default_factory=list)
    name: str = ""


@dataclass(eq=False)
class Trace:
    """A program and what a call of it needs."""

    program: Program
    captured: list[Captured]  # by the number of the Memory source
    lates: list[Any]  # places, by the number of the Late source
    tensors: list[Itself | Result | Alias]  # those to be made after a call
    result: Any  # nested; leaves are Slot, Numeral or fixed values
    assigned: list[tuple[Any, int | None]]  # (place, slot): put the tensor there, None for None
    rebound: list[tuple[Any, int]]  # (place, slot): `.data` of that tensor was replaced
    flags: list[tuple[Any, bool]]  # (place, requires_grad) that the function set
    counted: list[tuple[Any, Any]]  # (place, fixed number) that the function wrote
    updated: list[list[Any]]  # places for each late update of the program, in order
    arguments: int  # how many tensors it is called with
    layout: dict[Term, tuple[int, ...]]  # strides of the sources that do not lie in order
    # What must be as it was for the program to be right:
    needs: list[tuple[Any, bool]]  # (place, whether the tensor needs a gradient)
    views: list[tuple[Any, Any]]  # (place, array) of tensors on a part of captured memory
    grads: list[tuple[Any, bool]]  # (place, whether its .grad is None)
    unread: list[Any]  # places whose .grad is replaced, whatever it was before
    optimizers: list[OptimizerAsBefore]
    modules: ModulesAsBefore
    decisions: list[tuple[Number, bool]]
    environment: Environment
    fresh: list[tuple[Any, Any, dict[str, Any]]]  # (optimizer, parameter, state) to begin with
    written_arguments: list[int]
    themselves: dict[int, Any]  # arguments that the function knows by itself as well
    gradient: Gradient | None  # if a result is differentiated outside


@dataclass(eq=False)
class Slot:
    """In a nested result: the tensor with this number."""

    number: int


@dataclass(eq=False)
class Numeral:
    """In a nested result: the Python number that is this output of the program."""

    number: int
    whole: bool


@dataclass(eq=False)
class Record:
    """In a nested result: an object with tensors in its attributes, made anew in every call."""

    kind: type
    attributes: dict[str, Any]

    def make(self, *values: Any) -> Any:
        """Such an object with these values."""
        made: Any = object.__new__(self.kind)
        for name, value in zip(self.attributes, values, strict=True):
            object.__setattr__(made, name, value)
        return made
