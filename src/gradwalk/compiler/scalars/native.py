"""The two engines of a replay: native code, and the Values themselves.

Both have `numbers` (of the leaves in order, to be filled in), `run()`, which returns the loss, and
`gradients` after that.
"""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from gradwalk.compiler.backends.llvm import target
from gradwalk.compiler.backends.llvm.emit.kernel_builder import Kernel
from gradwalk.compiler.backends.llvm.kernels import scalar_tape
from gradwalk.compiler.scalars.flat_graph import Steps
from gradwalk.compiler.scalars.kernels import Kernels
from gradwalk.compiler.scalars.tape_builder import TapeBuilder

Array = np.ndarray[Any, np.dtype[np.float64]]


class NativeGraph:
    """A tape in memory, with its arena."""

    def __init__(self, steps: Steps, inputs: list[int]) -> None:
        self._kernels = Kernels(target.host().lanes(8))
        tape = TapeBuilder(steps, inputs, self._kernels)
        self._library, addresses = self._kernels.load()
        self._entries = tape.entries.finished(addresses)
        arena = tape.entries.arena()
        self.numbers: Array = arena[tape.inputs_at : tape.inputs_at + len(inputs)]
        self.gradients: Array = arena[tape.gradients_at : tape.gradients_at + len(inputs)]
        self._loss = arena[tape.loss : tape.loss + 1]
        self._run = self._library.function(scalar_tape.RUN, None, ctypes.c_void_p, ctypes.c_void_p)
        self._addresses = arena.ctypes.data, self._entries.ctypes.data
        self._explanation = tape.explain()

    def run(self) -> float:
        """Forward and backward."""
        self._run(*self._addresses)
        if self._kernels.failure is not None:
            failure, self._kernels.failure = self._kernels.failure, None
            raise failure
        return float(self._loss[0])

    @property
    def texts(self) -> list[Kernel]:
        """The native kernels."""
        return list(self._kernels.texts.values())

    def explain(self) -> str:
        """What was recorded and what runs."""
        return self._explanation


class PythonGraph:
    """The Values themselves, computed again one by one; then they are restored."""

    texts: tuple[Kernel, ...] = ()  # no kernels

    def __init__(self, steps: Steps, inputs: list[int]) -> None:
        self._steps = steps
        self._inputs = [steps.leaves[number - len(steps.walk)] for number in inputs]
        self.numbers: Array = np.zeros(len(inputs))
        self.gradients: Array = np.zeros(len(inputs))

    def run(self) -> float:
        """Forward and backward."""
        walk, leaves = self._steps.walk, self._steps.leaves
        before = [(v, v.data, v._grad) for v in (*walk, *leaves)]
        try:
            for leaf in leaves:
                leaf._grad = 0
            for leaf, number in zip(self._inputs, self.numbers.tolist(), strict=True):
                leaf.data = number
            for v in walk:
                v.data = v.op.on_numbers([i.data for i in v.inputs], v.attrs)  # type: ignore[union-attr]
            root = walk[-1] if walk else leaves[0]
            root.backward()
            self.gradients[:] = [leaf.grad for leaf in self._inputs]
            return float(root.data)
        finally:
            for v, data, grad in before:
                v.data, v._grad = data, grad

    def explain(self) -> str:
        """What runs."""
        return f"{len(self._steps.walk)} operations, computed one by one by Python"
