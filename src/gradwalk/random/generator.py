"""Random numbers: generators, their seeds and their states.

`philox.py` defines the library's own stream and `mersenne.py` PyTorch's; `sampling.py` makes
tensors of them.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from gradwalk.engine import checkpoint
from gradwalk.engine.modes import state as modes
from gradwalk.random.mersenne import MersenneStream
from gradwalk.random.philox import PhiloxStream
from gradwalk.tensors import devices

Stream = PhiloxStream | MersenneStream  # the same methods, other numbers
_KINDS: dict[str, type[Stream]] = {"gradwalk": PhiloxStream, "torch": MersenneStream}


class Generator:
    """A stream of random numbers with a seed and a state that can be saved and restored.

    The stream is counter-based (Philox); with `like="torch"` it is PyTorch's Mersenne Twister, and
    every draw equals PyTorch's. The numbers of a seed are the same on every device, so `device` may
    be any.

    >>> import gradwalk as gw
    >>> g = gw.Generator().manual_seed(0)
    >>> a = gw.rand(2, generator=g)
    >>> b = gw.rand(2, generator=g.manual_seed(0))
    >>> bool((a == b).all())
    True
    >>> gw.rand(2, generator=gw.Generator(like="torch").manual_seed(0))
    tensor([0.4963, 0.7682])
    """

    device = devices.CPU

    def __init__(self, device: Any = "cpu", *, like: str | None = None) -> None:
        self.device = devices.device(device)
        self.like = _checked(like)
        self._seed = 0
        self._stream: Stream | None = None

    @property
    def stream(self) -> Stream:
        """The random stream; created on first use, because importing np.random takes time."""
        if self is default_generator and (reader := reading_with.get()) is not None:
            return reader.stream
        if self._stream is None:
            self._begin(_unknown_seed())
        here = modes.here
        stream: Any = self._stream if here.tracer is None else here.tracer.stream(self)
        return stream if here.level is None else here.level.stream(stream)

    def clone_state(self) -> Generator:
        """Another generator in the same state."""
        other = Generator(self.device, like=self.like)
        other.set_state(self.get_state())
        return other

    def manual_seed(self, seed: int, *, like: str | None = None) -> Generator:
        """Start the stream again from `seed`; `like` may switch to PyTorch's stream."""
        seed = int(seed)
        if not -(2**63) <= seed < 2**64:
            raise ValueError(f"a seed has 64 bits: {seed} is too large")
        if modes.here.tracer is not None:
            modes.here.tracer.refuse("manual_seed", "seed outside the compiled function.")
        if like is not None:
            self.like = _checked(like)
        self._begin(seed % 2**64)
        return self

    def _begin(self, seed: int) -> None:
        self._seed = seed
        self._stream = _KINDS[self.like](seed)

    def seed(self) -> int:
        """Seed the stream from the operating system's entropy; return the seed."""
        self.manual_seed(_unknown_seed())
        return self._seed

    def initial_seed(self) -> int:
        """The seed the stream started from."""
        return self._seed

    def get_state(self) -> dict[str, Any]:
        """Everything needed to continue the stream from here, as numbers, text and lists."""
        return {"like": self.like, **self.stream.get_state()}

    def set_state(self, state: dict[str, Any]) -> Generator:
        """Restore the result of `get_state`."""
        if modes.here.tracer is not None:
            modes.here.tracer.stream(self).set_state(state)
            return self
        try:
            like, stream = state["like"], _KINDS[state["like"]].of_state(state)
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(f"this is not the state of a generator ({error!r})") from None
        self.like, self._seed, self._stream = like, stream.seed, stream
        return self


def _unknown_seed() -> int:
    return int.from_bytes(os.urandom(8), "little") >> 1


def _checked(like: str | None) -> str:
    if like is not None and like not in _KINDS:
        raise ValueError(f"like is 'torch' or 'gradwalk', not {like!r}")
    return like or "gradwalk"


default_generator = Generator()
# In a thread that reads samples: what stands in for the default generator there, so that the order
# in which threads draw changes no numbers.
reading_with: ContextVar[Generator | None] = ContextVar("reading_with", default=None)


def _default_here() -> Generator:
    return reading_with.get() or default_generator


def stream_of(generator: Generator | None) -> Stream:
    """The stream that a draw reads: that of the default generator unless another is given."""
    return (default_generator if generator is None else generator).stream


def manual_seed(seed: int, *, like: str | None = None) -> Generator:
    """Seed the default generator; with `like="torch"` it gives PyTorch's numbers from then on.

    >>> import gradwalk as gw
    >>> _ = gw.manual_seed(0, like="torch")
    >>> gw.randn(3)
    tensor([ 1.5410, -0.2934, -2.1788])
    >>> _ = gw.manual_seed(0, like="gradwalk")
    """
    return _default_here().manual_seed(seed, like=like)


def get_rng_state() -> dict[str, Any]:
    """The state of the default generator."""
    return _default_here().get_state()


def set_rng_state(state: dict[str, Any]) -> None:
    """Restore the default generator."""
    _default_here().set_state(state)


def seed() -> int:
    """Seed the default generator from the operating system's entropy; return the seed."""
    return _default_here().seed()


def initial_seed() -> int:
    """The seed that the default generator started from."""
    return _default_here().initial_seed()


@contextmanager
def fork_rng(*unused: Any, enabled: bool = True, **options: Any) -> Iterator[None]:
    """Restore the default generator after the block. Devices share it, so none need be named.

    >>> import gradwalk as gw
    >>> before = gw.get_rng_state()
    >>> with gw.random.fork_rng():
    ...     _ = gw.rand(3)
    >>> gw.get_rng_state() == before
    True
    """
    state = get_rng_state()
    try:
        yield
    finally:
        if enabled:
            set_rng_state(state)


checkpoint.library_random = (get_rng_state, set_rng_state)
