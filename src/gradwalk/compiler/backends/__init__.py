"""Backends: each turns a program into an executable.

A backend is a module with the three names of `Backend`, and a line in `BACKENDS`. It is imported
when the first program asks for it.
"""

from __future__ import annotations

import importlib
import time
from collections.abc import Callable, Collection, Sequence
from typing import Any, NamedTuple, Protocol, cast

import numpy as np

from gradwalk.compiler.ir.program import Layout, Program
from gradwalk.compiler.plan.capabilities import Capabilities
from gradwalk.compiler.plan.schedule import Plan

BACKENDS = {
    "numpy": "gradwalk.compiler.backends.numpy",
    "llvm": "gradwalk.compiler.backends.llvm.backend",
    "xla": "gradwalk.compiler.backends.xla.backend",
}

Array = np.ndarray[Any, Any]


class Lowered(NamedTuple):
    """What a backend gets: a program after the passes it wants, and a plan if it wants one."""

    program: Program
    plan: Plan | None


class Stages:
    """The seconds that each stage of compiling takes."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._last = time.perf_counter()

    def done(self, name: str) -> None:
        """Count the time since the last stage for this one."""
        now = time.perf_counter()
        self.seconds[name] = self.seconds.get(name, 0.0) + now - self._last
        self._last = now


class Executable(Protocol):
    """What a backend returns.

    An executable with `start` also offers its parts, which the generated call uses directly
    (`call/execution.py`, `backends/llvm/executable.py`). One with a plan offers `kernels` and
    `reasons` to `explain`.
    """

    program: Program  # as it runs
    plan: Plan | None

    def __call__(
        self, arguments: Sequence[Array], memories: Sequence[Array], scalars: Sequence[float]
    ) -> tuple[list[Array], list[float]]:
        """Return new arrays for the results, and the new values of updated runtime scalars, in the
        order of `program.updates`. Update memories in place.

        Operands are listed by the numbers of the program's sources.
        """
        ...


class Backend(Protocol):
    """The names that the module of a backend has."""

    PASSES: Collection[str] | None  # which passes it wants, by name; None: all
    CAPABILITIES: Capabilities | None  # what the plan asks; None: it wants no plan

    def build(
        self, lower: Callable[[], Lowered], layout: Layout, fast_math: bool, stages: Stages
    ) -> Executable:
        """Compile what `lower` returns, which is the same at every call.

        `layout` has the strides, in elements, of sources whose elements do not lie in order. With
        `fast_math` a multiplication and the addition after it may be rounded once.
        """
        ...


def load(name: str) -> Backend:
    """Import the backend of this name."""
    return cast(Backend, importlib.import_module(BACKENDS[name]))
