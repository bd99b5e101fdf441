"""Evidence of a mistake, a wrong gradient beside the right one, and the sentences for mistakes."""

from __future__ import annotations

import functools
import math
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

SENTENCES = Path(__file__).with_name("sentences.toml")
Array = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]


@functools.cache
def _sentences() -> dict[str, str]:
    return tomllib.loads(SENTENCES.read_text(encoding="utf-8"))


def say(name: str, **facts: Any) -> str:
    """The sentence for a mistake, filled in.

    >>> say("sign")
    'wrong sign: backward gives the negative of the derivative.'
    """
    return _sentences()[name].format(**facts)


def differs(
    given: npt.ArrayLike, right: npt.ArrayLike, atol: float = 1e-5, rtol: float = 1e-3
) -> Mask:
    """Where the two are further apart than atol + rtol·|right|; NaN differs from everything.

    >>> differs([1.0, 2.0], [1.0, 2.1])
    array([False,  True])
    """
    one, other = np.asarray(given, np.float64), np.asarray(right, np.float64)
    with np.errstate(all="ignore"):
        near = np.abs(one - other) <= atol + rtol * np.abs(other)
    near &= np.isfinite(other)  # inf is near nothing but itself, though inf <= rtol × inf
    return np.asarray(~(near | (one == other)))


@dataclass(frozen=True)
class Evidence:
    """Two gradients, in the shape of the input, or two Jacobians, in that of output + input."""

    given: Array
    right: Array
    output_shape: tuple[int, ...] = ()  # of a Jacobian
    atol: float = 1e-5
    rtol: float = 1e-3
    # The op that handed it on. A trace knows most of this, two plain gradients nothing.
    op: str = ""
    argument: int = 0
    operands: tuple[Any, ...] = ()  # arrays and numbers
    output: Array | None = None
    g: Array | None = None  # the gradient at its output; beside a Jacobian the identity
    others: Mapping[int, Array] = field(default_factory=dict)  # the right gradients of its inputs
    jacobian: Array | None = None  # of an op that mixes elements, a row per output element
    unsummed: tuple[str, Array] | None = None  # broadcast axes, the gradient of their index 0
    right_for: str = ""  # another call of the op, for which it would be right
    right_elsewhere: bool = False  # whether the rule was right in another call

    @property
    def input_shape(self) -> tuple[int, ...]:
        """The shape of the input."""
        return self.right.shape[len(self.output_shape) :]

    def same(self, given: npt.ArrayLike, right: npt.ArrayLike) -> bool:
        """Whether two arrays agree within the tolerances."""
        if np.shape(given) != np.shape(right):
            return False
        return not differs(given, right, self.atol, self.rtol).any()

    def is_given(self, array: npt.ArrayLike) -> bool:
        """Whether backward gives this."""
        return self.same(self.given, array)

    def nonzero(self, array: Array) -> Mask:
        """Where an array is more than rounding away from zero."""
        return np.asarray(np.abs(array) > self.atol)

    def matrix(self, array: Array) -> Array:
        """One row per element of the output, one column per element of the input."""
        return array.reshape(math.prod(self.output_shape), math.prod(self.input_shape))
