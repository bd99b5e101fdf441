"""The generators of random numbers that belong to nobody: their states, kept at every call."""

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

_HEAD = object.__basicsize__  # bytes of an object of Python before its own
_TWISTER = 624 * 4 + 4  # bytes: the words of a Mersenne twister, and which of them comes next


@dataclass
class Randomness:
    """The states of all of them at one moment."""

    cpu: torch.Tensor
    devices: dict[torch.device, torch.Tensor]
    python: Any
    numpy: Any

    @classmethod
    def now(cls, devices: set[torch.device]) -> Randomness:
        """Of the CPU, of Python and NumPy, and of these devices."""
        return cls(
            torch.get_rng_state(),
            {device: private.rng_state(device) for device in devices},
            _of_python.now(),
            _of_numpy.now(),
        )

    def restore(self) -> None:
        """Set all of them back."""
        torch.set_rng_state(self.cpu)
        for device, state in self.devices.items():
            private.set_rng_state(device, state)
        random.setstate(self.python)
        np.random.set_state(self.numpy)


class _Twister:
    """A Mersenne twister that gives its state number by number: asked only if it has moved.

    That it has not is seen from its memory; to copy that is far less work.
    """

    def __init__(self, get: Callable[[], Any], waiting: Any, none: object) -> None:
        self._get = get
        # A normal number that waits is no part of the memory: to give it away moves nothing.
        self._waiting = waiting  # where in a state it says so,
        self._none = none  # and how that there is none
        self._generator: Any = None
        self._memory: Any = None  # None: it has to be asked always
        self._last = b""
        self._state: Any = None

    def now(self) -> Any:
        """Its state, not to be written to."""
        generator = self.generator()
        if generator is not self._generator:  # the program may put in another
            address = self.address(generator)
            self._generator = generator  # it keeps the memory alive
            self._memory = address and (ctypes.c_char * _TWISTER).from_address(address)
            self._state = None
        if self._memory is None:
            return self._get()
        memory = self._memory.raw
        state = self._state
        if memory != self._last or state is None or state[self._waiting] != self._none:
            self._last, self._state = memory, self._get()
        return self._state

    def generator(self) -> Any:
        """The one that is in use."""
        raise NotImplementedError

    def address(self, generator: Any) -> int | None:
        """Where its memory is; None if it is of another kind."""
        raise NotImplementedError


class _OfNumpy(_Twister):
    def generator(self) -> Any:
        return np.random.get_bit_generator()  # type: ignore[attr-defined]

    def address(self, generator: Any) -> int | None:
        is_twister = isinstance(generator, np.random.MT19937)
        return int(generator.ctypes.state_address) if is_twister else None


class _OfPython(_Twister):
    def generator(self) -> Any:
        return random.getstate.__self__  # type: ignore[attr-defined]

    def address(self, generator: Any) -> int | None:
        """Found only where objects lie in memory as CPython lays them; that is compared once."""
        large = type(generator).__basicsize__ >= _HEAD + _TWISTER
        if sys.implementation.name != "cpython" or not large:
            return None
        _, (*words, position), _ = generator.getstate()
        told = struct.pack("=i624I", position, *words)
        address = id(generator) + _HEAD
        return address if ctypes.string_at(address, _TWISTER) == told else None


_of_numpy = _OfNumpy(partial(np.random.get_state, legacy=False), "has_gauss", 0)
_of_python = _OfPython(random.getstate, 2, None)
