"""Points that fill a cube evenly: Sobol sequences, PyTorch's `quasirandom`."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from gradwalk.ops.core.dtypes import get_default_dtype
from gradwalk.random.generator import Generator
from gradwalk.random.sampling import randint
from gradwalk.tensors.creation import as_tensor
from gradwalk.tensors.tensor import Tensor

__all__ = ["SobolEngine"]

sys.modules["gradwalk.quasirandom"] = sys.modules[__name__]  # where PyTorch has it


class SobolEngine:
    """A Sobol sequence of points in a cube, one row each.

    With `scramble`, digits are exchanged and shifted at random, in PyTorch's way: a `seed` gives
    PyTorch's points.

    >>> import gradwalk as gw
    >>> gw.quasirandom.SobolEngine(2).draw(3)
    tensor([[0.0000, 0.0000],
            [0.5000, 0.5000],
            [0.7500, 0.2500]])
    """

    MAXBIT = 30
    MAXDIM = 21201

    def __init__(self, dimension: int, scramble: bool = False, seed: int | None = None) -> None:
        if not 1 <= dimension <= self.MAXDIM:
            raise ValueError(
                f"a Sobol sequence has from 1 to {self.MAXDIM} dimensions, not {dimension}"
            )
        self.dimension, self.scramble, self.seed = dimension, scramble, seed
        generator = None if seed is None else Generator(like="torch").manual_seed(seed)
        drawn: tuple[Any, Any] = _scrambling(dimension, generator) if scramble else (0, None)
        self._shift, self._rows = drawn
        self.reset()

    def reset(self) -> SobolEngine:
        """Begin again, with the same scrambling."""
        from scipy.stats import qmc

        self.num_generated = 0
        self._plain = qmc.Sobol(self.dimension, scramble=False, bits=self.MAXBIT)
        return self

    def draw(self, n: int = 1, out: Tensor | None = None, dtype: Any = None) -> Tensor:
        """The next n points."""
        parts = []
        if self.num_generated == 0 and n:  # alone: SciPy warns of a first number of points
            parts.append(self._plain.random(1))
        left = n - len(parts)
        if left:
            parts.append(self._plain.random(left))
        self.num_generated += n
        points = np.concatenate(parts) if parts else np.empty((0, self.dimension))
        size = 1 << self.MAXBIT
        digits = self._scrambled((points * size).astype(np.int64))
        kind = get_default_dtype() if dtype is None else np.dtype(dtype)
        made = as_tensor((digits / size).astype(kind))
        return made if out is None else out.resize_as_(made).copy_(made)

    def draw_base2(self, m: int, out: Tensor | None = None, dtype: Any = None) -> Tensor:
        """The next 2 ** m points; those drawn so far are then a power of 2 as well."""
        n = 2**m
        total = self.num_generated + n
        if total & (total - 1):
            raise ValueError(
                f"after {self.num_generated} points, {n} more are {total}, which is no power of 2. "
                "Fix: draw(n)"
            )
        return self.draw(n, out, dtype)

    def fast_forward(self, n: int) -> SobolEngine:
        """Leave out the next n points."""
        self._plain.fast_forward(n)
        self.num_generated += n
        return self

    def _scrambled(self, digits: Any) -> Any:
        """Every bit becomes the parity of some bits at or above it, and some are turned over."""
        if self._rows is None:
            return digits
        made = np.zeros_like(digits)
        for place in range(self.MAXBIT):
            parity = np.bitwise_count(digits & self._rows[:, place]) & 1
            made |= parity.astype(np.int64) << (self.MAXBIT - 1 - place)
        return made ^ self._shift

    def __repr__(self) -> str:
        facts = [f"dimension={self.dimension}"]
        facts += ["scramble=True"] if self.scramble else []
        facts += [] if self.seed is None else [f"seed={self.seed}"]
        return f"SobolEngine({', '.join(facts)})"


def _scrambling(dimension: int, generator: Generator | None) -> tuple[Any, Any]:
    """The bits that are turned over, and for each bit those that are added up, by dimension."""
    bits = SobolEngine.MAXBIT
    upward = 1 << np.arange(bits)
    shift = randint(2, (dimension, bits), generator=generator).numpy() @ upward
    lower = np.tril(randint(2, (dimension, bits, bits), generator=generator).numpy())
    lower[:, np.arange(bits), np.arange(bits)] = 1
    return shift, lower @ upward[::-1]
