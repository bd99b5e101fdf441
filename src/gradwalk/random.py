"""Random numbers: one seeded, counter-based generator for the whole library."""

from __future__ import annotations

from typing import Any

import numpy as np

from gradwalk.engine import checkpoint
from gradwalk.mersenne import MersenneStream


class Generator:
    """A stream of random numbers with a seed and a state that can be saved and restored.

    The stream is counter-based (Philox); with `like="torch"` it is PyTorch's, the Mersenne
    Twister, and `rand`, `randn`, `randint` and `randperm` give PyTorch's numbers.

    >>> import gradwalk as gw
    >>> g = gw.Generator().manual_seed(0)
    >>> a = gw.rand(2, generator=g)
    >>> b = gw.rand(2, generator=g.manual_seed(0))
    >>> bool((a == b).all())
    True
    >>> gw.rand(2, generator=gw.Generator(like="torch").manual_seed(0))
    tensor([0.4963, 0.7682])
    """

    def __init__(self, *, like: str | None = None) -> None:
        self.like = _checked(like)
        self._seed = 0
        self._stream: np.random.Generator | MersenneStream | None = None

    @property
    def numpy(self) -> Any:
        """The stream behind it, with the methods of NumPy's generators.

        Made when first needed: importing np.random takes time.
        """
        if self._stream is None:
            self.seed()
        return self._stream

    def manual_seed(self, seed: int, *, like: str | None = None) -> Generator:
        """Start the stream again from `seed`; `like` may switch to PyTorch's stream."""
        if like is not None:
            self.like = _checked(like)
        self._seed = int(seed)
        if self.like == "torch":
            self._stream = MersenneStream(self._seed)
        else:
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
        stream = self.numpy
        if isinstance(stream, MersenneStream):
            return {"seed": self._seed, "like": "torch", "mersenne": stream.get_state()}
        return {"seed": self._seed, "philox": stream.bit_generator.state}

    def set_state(self, state: dict[str, Any]) -> Generator:
        """Continue a stream from what `get_state` returned."""
        self.manual_seed(state["seed"], like=state.get("like", "numpy"))
        if "mersenne" in state:
            self.numpy.set_state(state["mersenne"])
        else:
            self.numpy.bit_generator.state = state["philox"]
        return self


def _checked(like: str | None) -> str:
    if like not in (None, "numpy", "torch"):
        raise ValueError(f"like is 'torch' or 'numpy', not {like!r}")
    return like or "numpy"


default_generator = Generator()


def manual_seed(seed: int, *, like: str | None = None) -> Generator:
    """Seed the default generator; with `like="torch"` it gives PyTorch's numbers from then on.

    >>> import gradwalk as gw
    >>> _ = gw.manual_seed(0, like="torch")
    >>> gw.randn(3)
    tensor([ 1.5410, -0.2934, -2.1788])
    >>> _ = gw.manual_seed(0, like="numpy")
    """
    return default_generator.manual_seed(seed, like=like)


def get_rng_state() -> dict[str, Any]:
    """The state of the default generator."""
    return default_generator.get_state()


def set_rng_state(state: dict[str, Any]) -> None:
    """Restore the default generator."""
    default_generator.set_state(state)


checkpoint.library_random = (get_rng_state, set_rng_state)
