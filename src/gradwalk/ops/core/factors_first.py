"""Calls with factors in PyTorch's first order, which it still accepts: `x.addcmul_(value, a, b)`.

Optimizers of 2018 are full of them.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from numbers import Number
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


def factors_first(*names: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Let a function of (input, a, b, *, names) also take its factors by position.

    One, such as `value`, comes after the input. Of two, `beta` comes before the input and `alpha`
    after it; of a method, both come after it. `beta` may stand there alone.
    """

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        @functools.wraps(function)
        def call(*args: Any, **keywords: Any) -> R:
            factors = len(args) - 3
            if 0 < factors <= len(names):
                if isinstance(args[0], Number):
                    args = (args[1], args[0], *args[2:])
                keywords |= zip(names[:factors], args[1 : 1 + factors], strict=True)
                args = (args[0], *args[1 + factors :])
            return function(*args, **keywords)

        return call

    return decorate
