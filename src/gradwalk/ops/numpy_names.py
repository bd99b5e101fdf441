"""NumPy's names of arguments, which PyTorch takes as well."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


def numpy_names(function: Callable[P, R]) -> Callable[P, R]:
    """Let `axis` and `keepdims` stand for `dim` and `keepdim`.

    >>> import gradwalk as gw
    >>> gw.ones(2, 3).sum(axis=1, keepdims=True).shape
    (2, 1)
    """

    @wraps(function)
    def named(*args: Any, **keywords: Any) -> Any:
        if "axis" in keywords:
            keywords["dim"] = keywords.pop("axis")
        if "keepdims" in keywords:
            keywords["keepdim"] = keywords.pop("keepdims")
        return function(*args, **keywords)

    return named
