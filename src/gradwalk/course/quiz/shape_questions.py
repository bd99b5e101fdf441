"""Questions about shapes: a small computation with arrays, whose shapes the engine gives."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import gradwalk

FUNCTIONS = ("add", "sub", "mul", "matmul", "tanh", "relu", "exp", "sum", "mean")


class Shapes:
    """The shapes in one computation, and those of its gradients, as text.

    >>> shape = Shapes({"X": (4, 3), "W": (3, 2)}, [["Y", "matmul", "X", "W"], ["L", "sum", "Y"]])
    >>> shape("gradient W"), shape("value Y"), shape("transposed W"), shape("jacobian Y W")
    ('(3, 2)', '(4, 2)', '(2, 3)', '(8, 6)')
    """

    def __init__(self, leaves: Mapping[str, Sequence[int]], steps: Sequence[Sequence[str]]) -> None:
        self._named: dict[str, Any] = {
            name: gradwalk.ones(*shape, requires_grad=True) for name, shape in leaves.items()
        }
        for name, function, *operands in steps:
            if function not in FUNCTIONS:
                raise ValueError(f"'{function}' is not one of {', '.join(FUNCTIONS)}")
            made = getattr(gradwalk, function)(*(self._named[operand] for operand in operands))
            made.retain_grad()
            self._named[name] = made
        made.backward()

    def __call__(self, text: str) -> str:
        """A shape: `gradient W`, `value Y`, `transposed W` or `jacobian Y W`."""
        word, *names = text.split()
        try:
            given = [self._named[name] for name in names]
            if word == "gradient":
                return str(tuple(given[0].grad.shape))
            if word == "value":
                return str(tuple(given[0].shape))
            if word == "transposed":
                return str(tuple(given[0].shape)[::-1])
            if word == "jacobian":
                out, into = given
                return str((math.prod(out.shape), math.prod(into.shape)))
        except (KeyError, IndexError, ValueError) as error:
            raise ValueError(f"'{text}' cannot be computed: {error}") from None
        raise ValueError(f"'{text}' is no shape; there are: gradient, value, transposed, jacobian")
