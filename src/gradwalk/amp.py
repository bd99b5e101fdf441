"""Automatic mixed precision, under PyTorch's names."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, cast

from gradwalk.engine.tree import mapped
from gradwalk.ops.core.dtypes import float64, is_floating
from gradwalk.ops.core.longer_paths import longer_paths
from gradwalk.optim.grad_scaler import GradScaler
from gradwalk.tensors.autocast import autocast, get_autocast_dtype, is_autocast_enabled
from gradwalk.tensors.tensor import Tensor

__all__ = ["GradScaler", "autocast", "custom_bwd", "custom_fwd", "is_autocast_available"]

longer_paths(__name__, "autocast_mode", "grad_scaler")

Method = Callable[..., Any]


def is_autocast_available(device_type: str) -> bool:
    """Whether `autocast` works on this type of device."""
    return device_type in ("cpu", "cuda", "xla")


def custom_fwd(
    fwd: Method | None = None, *, device_type: str = "cuda", cast_inputs: Any = None
) -> Method:
    """Decorate the forward of a `Function`: inside autocast, it gets its tensors in the dtype
    `cast_inputs` and runs without autocast; without `cast_inputs` it runs as any other code.

    >>> import gradwalk as gw
    >>> class Double(gw.autograd.Function):
    ...     @staticmethod
    ...     @gw.amp.custom_fwd(device_type="cpu", cast_inputs=gw.float32)
    ...     def forward(ctx, x):
    ...         return 2 * x
    ...
    ...     @staticmethod
    ...     @gw.amp.custom_bwd(device_type="cpu")
    ...     def backward(ctx, g):
    ...         return 2 * g
    >>> with gw.autocast("cpu", dtype=gw.float16):
    ...     Double.apply(gw.ones(1, dtype=gw.float16))
    tensor([2.])
    """
    if fwd is None:
        return cast(
            Method, functools.partial(custom_fwd, device_type=device_type, cast_inputs=cast_inputs)
        )

    @functools.wraps(fwd)
    def forward(ctx: Any, *args: Any, **keywords: Any) -> Any:
        inside = is_autocast_enabled(device_type)
        ctx._autocast_dtype = get_autocast_dtype(device_type)
        ctx._in_autocast = inside and cast_inputs is None
        if not inside or cast_inputs is None:
            return fwd(ctx, *args, **keywords)

        def converted(value: Any) -> Any:
            taken = isinstance(value, Tensor) and value.device.type == device_type
            taken = taken and is_floating(value.dtype) and value.dtype != float64
            return value.to(cast_inputs) if taken else value

        with autocast(device_type, enabled=False):
            return fwd(ctx, *mapped(converted, list(args)), **mapped(converted, keywords))

    return forward


def custom_bwd(bwd: Method | None = None, *, device_type: str = "cuda") -> Method:
    """Decorate the backward of a `Function`: it runs in the autocast of its forward, which is
    decorated with `custom_fwd`."""
    if bwd is None:
        return cast(Method, functools.partial(custom_bwd, device_type=device_type))

    @functools.wraps(bwd)
    def backward(ctx: Any, *args: Any, **keywords: Any) -> Any:
        with autocast(device_type, ctx._autocast_dtype, ctx._in_autocast):
            return bwd(ctx, *args, **keywords)

    return backward
