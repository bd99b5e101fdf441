"""New leaf tensors, and the keywords of every function that makes one."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any, ParamSpec, TypedDict, TypeVar

import numpy as np

from gradwalk.engine.modes import current, inside_vmap
from gradwalk.graph.source import caller
from gradwalk.ops.core.dtypes import category, get_default_dtype
from gradwalk.ops.core.out import written
from gradwalk.tensors import devices
from gradwalk.tensors.apply import wrap

P = ParamSpec("P")
R = TypeVar("R")


class LeafOptions(TypedDict, total=False):
    """The keywords of the functions that make a tensor; `**options` in their definitions."""

    dtype: Any
    requires_grad: bool
    device: Any
    layout: Any  # `strided`; the others are of sparse tensors
    pin_memory: bool  # a hint: the memory of the CPU is as it is
    out: Any


def leaf(
    array: Any,
    requires_grad: bool = False,
    device: Any = None,
    dtype: Any = None,
    *,
    layout: Any = None,
    pin_memory: bool = False,
    out: Any = None,
) -> Any:
    """A new tensor for the user; it records the source line for error messages.

    `makes_leaf` deals with the last three options, which never get here.
    """
    if dtype is not None and array.dtype != dtype:
        array = array.astype(dtype)
    category(array.dtype)
    where = devices.default.get() if device is None else device
    tracer = current().tracer
    if array.__class__ is not np.ndarray and getattr(array, "depth", 0) > 0:
        pass  # it is where the samples are
    elif tracer is not None:
        array = tracer.constant(array)
        if devices.numbered(where) != devices.CPU:
            tracer.moves_to(devices.numbered(where))
    elif where is not devices.CPU:
        array = devices.placed(array, where)
    tensor = wrap(array)
    if not array.flags.c_contiguous:
        tensor._keeps_layout = True  # the memory is perhaps the user's
    tensor.code, tensor.position = caller()
    if requires_grad:
        tensor = inside_vmap(tensor)
        tensor.requires_grad = True
    return tensor


def filled(
    fill: Callable[..., Any],
    shape: tuple[int, ...],
    *,
    dtype: Any = None,
    requires_grad: bool = False,
    device: Any = None,
    layout: Any = None,
    pin_memory: bool = False,
    out: Any = None,
) -> Any:
    """A leaf of fill(shape, dtype=...), where `fill` is `np.zeros` or like it."""
    kind = get_default_dtype() if dtype is None else dtype
    return leaf(fill(shape, dtype=kind), requires_grad, device)


def like(tensor: Any, options: Mapping[str, Any]) -> Any:
    """The options, with the dtype and the device of a tensor if they name none."""
    chosen = {"dtype": tensor.dtype, "device": tensor.device}
    return chosen | {name: value for name, value in options.items() if value is not None}


def _batched(given: Any) -> bool:
    return getattr(getattr(given, "_array", None), "depth", 0) > 0


_OPTIONS = [p for p in inspect.signature(filled).parameters.values() if p.kind is p.KEYWORD_ONLY]
_FURTHER = ("layout", "pin_memory", "out")


def makes_leaf(function: Callable[P, R]) -> Callable[P, R]:
    """Decorate a function that takes `**options`: its signature lists what they are.

    The function itself gets the options of `leaf`; the others are dealt with here.
    """

    @wraps(function)
    def making(*args: Any, **options: Any) -> Any:
        if not options or options.keys().isdisjoint(_FURTHER):
            made: Any = function(*args, **options)
            if current().level is None or not any(map(_batched, (*args, *options.values()))):
                return made
            return inside_vmap(made)  # made like a batched tensor: each sample may write to it
        layout, _, out = (options.pop(name, None) for name in _FURTHER)
        if layout not in (None, "torch.strided"):
            raise ValueError(
                f"{function.__name__} makes dense tensors, layout=gradwalk.strided, not {layout}.\n"
                "Fix: make it dense and call .to_sparse()"
            )
        if out is None:
            return function(*args, **options)
        of_tensors = any(hasattr(given, "_array") for given in args)  # normal(mean, std)
        made = function(*args, **(options if of_tensors else like(out, options)))
        if counts and made.numel() == out.numel():
            made = made.reshape(out.shape)
        return written(out, made)

    signature = inspect.signature(function)
    counts = "end" in signature.parameters  # arange and its relatives fill an out of any shape
    own = list(signature.parameters.values())[:-1]
    shown = signature.replace(parameters=[*own, *_OPTIONS])
    making.__signature__ = shown  # type: ignore[attr-defined]
    return making
