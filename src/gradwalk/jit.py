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

import builtins
import typing
from collections.abc import Callable
from types import UnionType
from typing import Any, Final, NoReturn, Union, get_args, get_origin

from gradwalk.nn.module import Module
from gradwalk.ops.core.longer_paths import longer_paths as _longer_paths
from gradwalk.utils.futures import Future

__all__ = [
    "Final", "ScriptModule", "TracerWarning", "annotate", "export", "fork", "freeze", "ignore",
    "interface", "is_scripting", "is_tracing", "isinstance", "load", "optimize_for_inference",
    "save", "script", "script_if_tracing", "script_method", "trace", "trace_module", "unused",
    "wait",
]  # fmt: skip


class TracerWarning(Warning):
    """What PyTorch warns with while it traces; programs silence it by this name."""


class ScriptModule(Module):
    """What a program derives modules from that TorchScript compiles; no other module is one."""


def script(obj: Any, *args: Any, **options: Any) -> Any:
    """The function, class or module itself."""
    return obj


def trace(func: Any, *example_inputs: Any, **options: Any) -> Any:
    """The function or module itself: it is not traced, and keeps its branches and loops."""
    return func


script_method = export = freeze = optimize_for_inference = script
interface = _overload = _overload_method = script_if_tracing = _script_if_tracing = script
# What `jit.annotations` has for annotations.
Dict, List, Optional, Tuple = typing.Dict, typing.List, typing.Optional, typing.Tuple  # noqa: UP006
BroadcastingList1 = BroadcastingList2 = BroadcastingList3 = list
_longer_paths(__name__, "annotations")


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


def isinstance(obj: Any, target_type: Any) -> bool:
    """Whether the object is of a type, which may say what its containers hold.

    >>> import gradwalk as gw
    >>> gw.jit.isinstance([gw.ones(1)], list[gw.Tensor]), gw.jit.isinstance([1], list[gw.Tensor])
    (True, False)
    """
    origin, inner = get_origin(target_type), get_args(target_type)
    if origin is Union or origin is UnionType:
        return any(isinstance(obj, one) for one in inner)
    if origin is None:
        return builtins.isinstance(obj, target_type)
    if not builtins.isinstance(obj, origin):
        return False
    if origin is dict:
        return all(isinstance(k, inner[0]) and isinstance(v, inner[1]) for k, v in obj.items())
    if origin is tuple and inner[-1:] != (...,):
        return len(obj) == len(inner) and all(map(isinstance, obj, inner))
    return all(isinstance(entry, inner[0]) for entry in obj)


def trace_module(mod: Any, inputs: Any, *args: Any, **options: Any) -> Any:
    """The module itself: its methods are not traced."""
    return mod


def fork(func: Callable[..., Any], *args: Any, **keywords: Any) -> Future:
    """The result of a call, which is made at once; `wait` gives it."""
    made: Future = Future()
    made.set_result(func(*args, **keywords))
    return made


def wait(future: Future) -> Any:
    """What `fork` computed."""
    return future.wait()


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
