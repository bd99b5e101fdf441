"""Other names of arguments, which PyTorch takes as well: NumPy's, and those of its overloads."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


def other_names(**known_as: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """A decorator that lets keywords stand for others: `other_names(axis="dim")`."""

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        @wraps(function)
        def named(*args: Any, **keywords: Any) -> Any:
            if keywords:
                keywords = {known_as.get(name, name): given for name, given in keywords.items()}
            return function(*args, **keywords)

        # For tools/pytorch_names.py, which compares signatures.
        named.__dict__["known_as"] = {**function.__dict__.get("known_as", {}), **known_as}
        return named

    return decorate


_numpy = other_names(a="input", axis="dim", keepdims="keepdim", x="input", x1="input", x2="other")


def numpy_names(function: Callable[P, R]) -> Callable[P, R]:
    """Let `axis` and `keepdims` stand for `dim` and `keepdim`, `x` for `input`.

    >>> import gradwalk as gw
    >>> gw.ones(2, 3).sum(axis=1, keepdims=True).shape
    (2, 1)
    """
    return _numpy(function)


_SPLIT = "indices_or_sections"
split_names = other_names(indices=_SPLIT, sections=_SPLIT, tensor_indices_or_sections=_SPLIT)
