"""The states of generators of Python, NumPy, PyTorch and our own, read and put back."""

from __future__ import annotations

import random
from typing import Any

import numpy as np


def generator_state(generator: Any) -> Any:
    """The state of a generator that the program made."""
    if isinstance(generator, random.Random):
        return generator.getstate()
    if isinstance(generator, np.random.Generator):
        return generator.bit_generator.state
    return generator.get_state()


def set_generator_state(generator: Any, state: Any) -> None:
    """The inverse of `generator_state`."""
    if isinstance(generator, random.Random):
        generator.setstate(state)
    elif isinstance(generator, np.random.Generator):
        generator.bit_generator.state = state
    else:
        generator.set_state(state)
