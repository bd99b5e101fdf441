"""PyTorch's `jit`, for programs that mark functions to be compiled: they run as they are.

`gradwalk.compile` is what compiles. There is no TorchScript here, and none is saved or loaded.

>>> import gradwalk as gw
>>> @gw.jit.script
... def double(x):
...     return 2 * x
>>> double(gw.ones(2))
tensor([2., 2.])
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NoReturn

from gradwalk.nn.module import Module

__all__ = [
    "Final", "ScriptModule", "annotate", "export", "freeze", "ignore", "is_scripting",
    "is_tracing", "load", "optimize_for_inference", "save", "script", "script_method", "trace",
    "unused",
]  # fmt: skip


class ScriptModule(Module):
    """What a program derives modules from that TorchScript compiles; no other module is one."""


def script(obj: Any, *args: Any, **options: Any) -> Any:
    """The function, class or module itself."""
    return obj


def trace(func: Any, *example_inputs: Any, **options: Any) -> Any:
    """The function or module itself: it is not traced, and keeps its branches and loops."""
    return func


script_method = export = freeze = optimize_for_inference = script


def ignore(drop: Any = False, **options: Any) -> Any:
    """A decorator that changes nothing, with or without arguments."""
    return drop if callable(drop) else _same


def unused(fn: Callable[..., Any]) -> Callable[..., Any]:
    """The function itself."""
    return fn


def _same(fn: Callable[..., Any]) -> Callable[..., Any]:
    return fn


def annotate(the_type: Any, the_value: Any) -> Any:
    """The value; the type is a comment."""
    return the_value


def is_scripting() -> bool:
    """False: there is no TorchScript."""
    return False


is_tracing = is_scripting


def save(*args: Any, **options: Any) -> NoReturn:
    """An error: there is no TorchScript. `gradwalk.onnx.export` saves a function as a file."""
    raise NotImplementedError(
        "jit.save writes TorchScript, which gradwalk does not have. Fix: save weights with "
        "gradwalk.save(model.state_dict(), path), or the function with gradwalk.onnx.export."
    )


def load(*args: Any, **options: Any) -> NoReturn:
    """An error: there is no TorchScript. `gradwalk.onnx.load` loads a function from a file."""
    raise NotImplementedError(
        "jit.load reads TorchScript, which gradwalk does not have. Fix: load weights with "
        "model.load_state_dict(gradwalk.load(path)), or an ONNX file with gradwalk.onnx.load."
    )
