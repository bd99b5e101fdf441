"""Functions for one, two and three dimensions, made from one that takes their number."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from types import FunctionType
from typing import Any, Concatenate, ParamSpec, TypeVar, cast

import numpy as np

from gradwalk.ops.core.op import Shape

P = ParamSpec("P")
R = TypeVar("R")
Size = int | Sequence[int]


def for_dimensions(function: Callable[Concatenate[int, P], R], n: int, doc: str) -> Callable[P, R]:
    """`function` for n dimensions: `conv2d` of `conv`."""

    own = cast(FunctionType, function)
    name, places = f"{own.__name__}{n}d", own.__globals__
    named: Any = FunctionType(own.__code__, places, name, own.__defaults__)
    named.__qualname__ = name  # for Python's errors about arguments

    def fixed(*args: P.args, **keywords: P.kwargs) -> R:
        return named(n, *args, **keywords)

    made = FunctionType(fixed.__code__, places, name, None, fixed.__closure__)
    whole = inspect.signature(function)
    _, *parameters = whole.parameters.values()
    made.__signature__ = whole.replace(parameters=parameters)  # type: ignore[attr-defined]
    made.__qualname__, made.__doc__ = made.__name__, doc
    return made


def sizes(name: str, value: Size, n: int, least: int = 1) -> Shape:
    """Repeat one number for all dimensions; keep one for each."""
    numbers = (
        (int(value),) * n if isinstance(value, (int, np.integer)) else tuple(int(v) for v in value)
    )
    if len(numbers) == 1 < n:
        numbers *= n
    if len(numbers) != n or any(v < least for v in numbers):
        raise ValueError(f"{name} must be one or {n} integer(s) of at least {least}, not {value!r}")
    return numbers


def check_rank(name: str, x: Any, n: int) -> None:
    """Reject anything but (batch, channels, ...) or (channels, ...) with n dimensions after it."""
    if x.ndim not in (n + 1, n + 2):
        raise ValueError(
            f"{name} takes {n + 2} dimensions (batch, channels, ...) or {n + 1} without a batch; "
            f"this input has shape {tuple(x.shape)}"
        )
