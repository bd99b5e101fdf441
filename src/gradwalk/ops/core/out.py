"""`out=`: the result of a function is written into a tensor that the caller has.

>>> import gradwalk as gw
>>> total = gw.zeros(2)
>>> gw.add(gw.ones(2), 2.0, out=total) is total, total
(True, tensor([3., 3.]))
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from gradwalk.ops.core.dtypes import can_cast

P = ParamSpec("P")
R = TypeVar("R")


def written(out: Any, result: Any) -> Any:
    """`out`, holding `result`; an `out` of another shape takes the result's, as in PyTorch."""
    if out is None:
        return result
    if isinstance(result, tuple):
        if not isinstance(out, tuple | list) or len(out) != len(result):
            raise TypeError(f"out must be a tuple of {len(result)} tensors")
        filled = [written(each, part) for each, part in zip(out, result, strict=True)]
        return result._make(filled) if hasattr(result, "_make") else tuple(filled)
    if not hasattr(out, "copy_"):
        raise TypeError(f"out must be a tensor, not {type(out).__name__}")
    if out.requires_grad or getattr(result, "requires_grad", False):
        raise RuntimeError(
            "a call with out= has no gradient: call it inside no_grad(), or assign its result"
        )
    sparse = getattr(type(out), "has_own_rules", False)
    if sparse != getattr(type(result), "has_own_rules", False):
        raise TypeError(
            f"a {type(result).__name__} does not fit an out that is {type(out).__name__}"
        )
    if not can_cast(result.dtype, out.dtype):
        raise TypeError(f"a result of {result.dtype} does not fit an out of {out.dtype}")
    if sparse:
        return out._become(result.to(out.dtype).clone())
    if tuple(out.shape) == tuple(result.shape):
        return out.copy_(result)
    if out.numel():
        warnings.warn(
            f"out has shape {tuple(out.shape)}, the result {tuple(result.shape)}: out gets other "
            "memory. Pass an out of that shape, or an empty one",
            stacklevel=3,
        )
    out.data = result.to(out.dtype, copy=True)  # the result may share memory with an operand
    return out


def takes_out(function: Callable[P, R]) -> Callable[P, R]:
    """A function that also takes `out=`."""

    @wraps(function)
    def taking(*args: Any, **keywords: Any) -> Any:
        if "out" in keywords:
            return written(keywords.pop("out"), function(*args, **keywords))
        return function(*args, **keywords)

    return taking
