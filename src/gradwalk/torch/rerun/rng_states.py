"""The states of the global random generators, taken at every model call."""

from __future__ import annotations

import ctypes
import random
import struct
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch

from gradwalk.torch import private

_HEAD = object.__basicsize__  # bytes of an object's header
_TWISTER = 624 * 4 + 4  # bytes: the words of a Mersenne Twister, and its position


@dataclass
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
            torch.get_rng_state(),
            {device: private.rng_state(device) for device in devices},
            _of_python.now(),
            _of_numpy.now(),
        )

    def restore(self) -> None:
        """Restore all of them."""
        torch.set_rng_state(self.cpu)
        for device, state in self.devices.items():
            private.set_rng_state(device, state)
        random.setstate(self.python)
        np.random.set_state(self.numpy)


class _Twister:
    """A Mersenne Twister whose state is slow to ask for; ask only if it has moved.

    Comparing its raw memory tells, at far lower cost.
    """

    def __init__(
        self,
        generator: Callable[[], Any],
        address: Callable[[Any], int | None],
        get: Callable[[], Any],
        waiting: Any,
        none: object,
    ) -> None:
        self._generator_now = generator  # the generator in use
        self._address = address  # of its memory; None if it is of another kind
        self._get = get
        # A cached normal number is not part of that memory; using it up changes nothing there.
        self._waiting = waiting  # key of that number in a state
        self._none = none  # its value when there is none
        self._generator: Any = None
        self._memory: Any = None  # None: always ask
        self._last = b""
        self._state: Any = None

    def now(self) -> Any:
        """The state. Do not write to it."""
        generator = self._generator_now()
        if generator is not self._generator:  # the program may replace it
            address = self._address(generator)
            self._generator = generator  # keeps the memory alive
            self._memory = address and (ctypes.c_char * _TWISTER).from_address(address)
            self._state = None
        if self._memory is None:
            return self._get()
        memory = self._memory.raw
        state = self._state
        if memory != self._last or state is None or state[self._waiting] != self._none:
            self._last, self._state = memory, self._get()
        return self._state


def _address_of_numpy(generator: Any) -> int | None:
    is_twister = isinstance(generator, np.random.MT19937)
    return int(generator.ctypes.state_address) if is_twister else None


def _address_of_python(generator: Any) -> int | None:
    """Valid only with CPython's object layout, which a comparison verifies."""
    large = type(generator).__basicsize__ >= _HEAD + _TWISTER
    if sys.implementation.name != "cpython" or not large:
        return None
    _, (*words, position), _ = generator.getstate()
    told = struct.pack("=i624I", position, *words)
    address = id(generator) + _HEAD
    return address if ctypes.string_at(address, _TWISTER) == told else None


_of_numpy = _Twister(
    lambda: np.random.get_bit_generator(),  # type: ignore[attr-defined]
    _address_of_numpy,
    partial(np.random.get_state, legacy=False),
    "has_gauss",
    0,
)
_of_python = _Twister(
    lambda: random.getstate.__self__,  # type: ignore[attr-defined]
    _address_of_python,
    random.getstate,
    2,
    None,
)
