"""The states of random generators: the global ones, and those that the program made."""

from __future__ import annotations

import ctypes
import random
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from gradwalk.torch import private

GENERATORS = (torch.Generator, random.Random, np.random.Generator, np.random.RandomState)
_TWISTER = 624 * 4 + 4  # bytes: the words of a Mersenne Twister, and its position
# A number drawn from it changes the position; a seed, and every 624th number, all of the words. So
# the position and these bytes of the words tell whether it changed.
_FEW = 64


@dataclass(slots=True)
class Randomness:
    """The states of all global generators at one moment."""

    cpu: torch.Tensor
    devices: dict[torch.device, torch.Tensor]
    python: Any
    numpy: Any

    @classmethod
    def now(cls, devices: set[torch.device]) -> Randomness:
        """Take the states of PyTorch's CPU generator, Python, NumPy and these devices."""
        return cls(
            torch.default_generator.get_state(),
            {device: private.rng_state(device) for device in devices} if devices else {},
            _python.state(),
            _numpy.state(),
        )

    def restore(self) -> None:
        """Restore all of them."""
        torch.set_rng_state(self.cpu)
        for device, state in self.devices.items():
            private.set_rng_state(device, state)
        random.setstate(self.python)
        np.random.set_state(self.numpy)


def _view(address: int, size: int) -> memoryview:
    return memoryview((ctypes.c_char * size).from_address(address)).cast("B")


class _NumpyGenerator:
    """NumPy's global generator. Reading its state is slow; do so only if its memory changed."""

    def __init__(self) -> None:
        self._generator: Any = None  # keeps the memory alive
        self._memory: tuple[memoryview, ...] = ()  # empty: it is no Mersenne Twister
        self._last: list[bytes] = []
        self._state: Any = None

    def state(self) -> Any:
        """The state. Do not write to it."""
        generator = np.random.get_bit_generator()  # type: ignore[attr-defined]
        if generator is not self._generator:  # the program may replace it
            self._generator, self._memory, self._state = generator, (), None
            if isinstance(generator, np.random.MT19937):
                address = int(generator.ctypes.state_address)
                self._memory = _view(address, _FEW), _view(address + _TWISTER - 4, 4)
        memory = list(map(bytes, self._memory))
        # A cached normal number is not part of that memory; using it up changes nothing there.
        if not memory or memory != self._last or self._state is None or self._state["has_gauss"]:
            self._last, self._state = memory, np.random.get_state(legacy=False)
        return self._state


class _PythonGenerator:
    """Python's global generator. Making the tuple of its state takes long, too."""

    _FIRST = object.__basicsize__  # behind this, an object of C has its own fields: the position

    def __init__(self) -> None:
        self._generator: Any = None  # keeps the memory alive
        self._memory = memoryview(b"")
        self._seen: Any = None  # the memory, and the cached normal number
        self._state: Any = None

    def state(self) -> Any:
        """The state."""
        generator: Any = getattr(random.getstate, "__self__", None)
        if type(generator) is not random.Random:  # the program has replaced it
            return random.getstate()
        if generator is not self._generator:
            self._generator, self._seen = generator, None
            self._memory = _view(id(generator) + self._FIRST, 4 + _FEW)
        seen = bytes(self._memory), generator.gauss_next
        if seen != self._seen:
            self._seen, self._state = seen, random.getstate()
        return self._state


_numpy, _python = _NumpyGenerator(), _PythonGenerator()
