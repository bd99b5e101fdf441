"""Questions about shapes: a small computation with arrays, whose shapes the engine gives."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
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
        if word not in _SHAPES:
            raise ValueError(f"'{text}' is no shape; there are: {', '.join(_SHAPES)}")
        try:
            return str(tuple(_SHAPES[word](*(self._named[name] for name in names))))
        except (KeyError, TypeError) as error:
            raise ValueError(f"'{text}' cannot be computed: {error}") from None


_SHAPES: dict[str, Callable[..., Sequence[int]]] = {
    "gradient": lambda x: x.grad.shape,
    "value": lambda x: x.shape,
    "transposed": lambda x: x.shape[::-1],
    "jacobian": lambda out, x: (math.prod(out.shape), math.prod(x.shape)),
}
