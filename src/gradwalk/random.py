"""Random numbers: one seeded, counter-based generator for the whole library."""

from __future__ import annotations

from typing import Any

import numpy as np

from gradwalk.engine import checkpoint


class Generator:
    """A stream of random numbers with a seed and a state that can be saved and restored.

    >>> import gradwalk as gw
    >>> g = gw.Generator().manual_seed(0)
    >>> a = gw.rand(2, generator=g)
    >>> b = gw.rand(2, generator=g.manual_seed(0))
    >>> bool((a == b).all())
    True
    """

    def __init__(self) -> None:
        self._seed = 0
        self._stream: np.random.Generator | None = None

    @property
    def numpy(self) -> np.random.Generator:
        """NumPy's generator behind it, made when first needed: importing np.random takes time."""
        if self._stream is None:
            self._stream = np.random.Generator(np.random.Philox())
        return self._stream

    def manual_seed(self, seed: int) -> Generator:
        """Start the stream again from `seed`."""
        self._seed = int(seed)
        self._stream = np.random.Generator(np.random.Philox(self._seed % 2**64))
        return self

    def seed(self) -> int:
        """Start the stream from a seed nobody knows, and return it."""
        self.manual_seed(int(np.random.SeedSequence().generate_state(1, np.uint64)[0] >> 1))
        return self._seed

    def initial_seed(self) -> int:
        """The seed the stream started from."""
        return self._seed

    def get_state(self) -> dict[str, Any]:
        """Everything needed to continue the stream from here."""
        return {"seed": self._seed, "philox": self.numpy.bit_generator.state}

    def set_state(self, state: dict[str, Any]) -> Generator:
        """Continue a stream from what `get_state` returned."""
        self.manual_seed(state["seed"])
        self.numpy.bit_generator.state = state["philox"]
        return self


default_generator = Generator()


def manual_seed(seed: int) -> Generator:
    """Seed the default generator.

    >>> import gradwalk as gw
    >>> _ = gw.manual_seed(0)
    """
    return default_generator.manual_seed(seed)


def get_rng_state() -> dict[str, Any]:
    """The state of the default generator."""
    return default_generator.get_state()


def set_rng_state(state: dict[str, Any]) -> None:
    """Restore the default generator."""
    default_generator.set_state(state)


checkpoint.library_random = (get_rng_state, set_rng_state)
