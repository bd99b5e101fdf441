"""The program's `autograd.Function`s, of either engine: their classes, calls of their forward."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from gradwalk.engine.function import Context, Function
from gradwalk.graph.source import SourceLine
from gradwalk.inspect.trace.live import guest, is_tensor, numbers_of
from gradwalk.inspect.trace.replay import NotReplayable, leaf_tensor

Class = type[Any]


def function_named(name: str) -> Class | None:
    """The Function of this name that the program defined last; PyTorch's own are not looked at."""
    theirs = sys.modules.get("torch")  # never imported here
    for base in (Function, *([] if theirs is None else [theirs.autograd.Function])):
        for cls in _below(base):
            if cls.__name__ == name and not cls.__module__.startswith(("torch.", "gradwalk.")):
                return cls
    return None


def _below(cls: Class) -> Iterator[Class]:
    for one in reversed(cls.__subclasses__()):  # the last defined of one name first
        yield from _below(one)
        yield one


def backward_of(name: str) -> SourceLine | None:
    """The line where the Function of this name defines its backward."""
    cls = function_named(name)
    if cls is None:
        return None
    code: Any = getattr(inspect.unwrap(cls.backward), "__code__", None)
    if code is None:
        return None
    return SourceLine(code.co_filename, code.co_firstlineno, f"{name}.backward", code.co_name)


def call_forward(cls: Class, arrays: Sequence[Any]) -> list[Any]:
    """What the forward of a Function gives for these arrays, which must be all its arguments."""
    make = leaf_tensor if issubclass(cls, Function) else guest().tensor_of
    tensors = [make(np.array(array)) for array in arrays]
    forward = cls.forward
    first, *_ = [*inspect.signature(forward).parameters, ""]
    context = [Context((False,) * len(tensors))] if first in ("ctx", "context", "self") else []
    try:
        given = forward(*context, *tensors)
    except Exception as error:  # it needs more than tensors, or another dtype or device
        raise NotReplayable(f"its forward cannot be called alone: {error!r}") from error
    outputs = list(given) if isinstance(given, tuple | list) else [given]
    return [numbers_of(out) if is_tensor(out) else None for out in outputs]
