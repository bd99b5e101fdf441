"""Inputs that differ from given ones at some positions of an axis, and are as valid."""

from __future__ import annotations

from typing import Any

import numpy as np

from gradwalk.inspect.silent.other_numbers import is_mask, other_numbers
from gradwalk.inspect.trace.live import numbers_of
from gradwalk.testing.one_step import mapped, tensors_in


def length_along(inputs: Any, axis: int) -> int:
    """The length of the first input that has this axis."""
    for tensor in tensors_in(inputs):
        if -len(tensor.shape) <= axis < len(tensor.shape):
            return int(tensor.shape[axis])
    raise ValueError(f"no input has an axis {axis}. Fix: pass the model's inputs, and axis=...")


def perturbed(inputs: Any, axis: int, where: Any) -> Any:
    """Change all inputs with this axis at the positions where `where` is true.

    Floats get noise of their own size. Integers are exchanged for others that occur in the same
    tensor, which are valid as ids. A mask stays: booleans, a constant tensor, infinite numbers.
    """
    noise = np.random.Generator(np.random.PCG64(0))
    given = [tensor for tensor in tensors_in(inputs) if _has(tensor, axis, len(where))]
    free = {id(tensor) for tensor in given if not is_mask(numbers_of(tensor))}
    chosen = free or {id(tensor) for tensor in given}
    return mapped(inputs, lambda t: _changed(t, axis, where, noise) if id(t) in chosen else t)


def _has(tensor: Any, axis: int, length: int) -> bool:
    count = len(tensor.shape)
    return -count <= axis < count and tensor.shape[axis] == length


def _changed(tensor: Any, axis: int, where: Any, noise: np.random.Generator) -> Any:
    array = np.array(numbers_of(tensor))
    at: list[Any] = [slice(None)] * array.ndim
    at[axis] = where
    index = tuple(at)
    array[index] = other_numbers(array, array[index], noise)
    return tensor.detach().new_tensor(array)
