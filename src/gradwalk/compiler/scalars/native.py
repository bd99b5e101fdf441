"""NativeGraph: a recorded graph of Values as a tape of native kernels."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from gradwalk.compiler.backends.llvm import target
from gradwalk.compiler.backends.llvm.kernels import scalar_tape
from gradwalk.compiler.scalars.flat_graph import Steps
from gradwalk.compiler.scalars.kernels import Kernels
from gradwalk.compiler.scalars.tape_builder import TapeBuilder

Array = np.ndarray[Any, np.dtype[np.float64]]


class NativeGraph:
    """A tape in memory, with its arena; an engine of `Replay`."""

    def __init__(self, steps: Steps, inputs: list[int]) -> None:
        self._kernels = Kernels(target.host().lanes(8))
        tape = TapeBuilder(steps, inputs, self._kernels)
        self._library, addresses = self._kernels.load()
        self._entries = tape.entries.finished(addresses)
        arena = tape.entries.arena()
        self.numbers: Array = arena[tape.inputs_at : tape.inputs_at + len(inputs)]
        self.gradients: Array = arena[tape.gradients_at : tape.gradients_at + len(inputs)]
        self.texts = list(self._kernels.texts.values())
        self.explanation = tape.explain()
        self._loss = arena[tape.loss : tape.loss + 1]
        self._run = self._library.function(scalar_tape.RUN, None, ctypes.c_void_p, ctypes.c_void_p)
        self._addresses = arena.ctypes.data, self._entries.ctypes.data

    def run(self) -> float:
        """Forward and backward."""
        self._run(*self._addresses)
        if self._kernels.failure is not None:
            failure, self._kernels.failure = self._kernels.failure, None
            raise failure
        return float(self._loss[0])
