"""Moving a module to another device, and to another dtype."""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType
from typing import Any, Self

import numpy as np

from gradwalk.ops.core.dtypes import bfloat16, has_gradients, is_floating
from gradwalk.tensors.devices import read_to
from gradwalk.tensors.tensor import Tensor


class ModuleConversions:
    """The methods of a Module that replace all its tensors."""

    def __init_subclass__(cls, **keywords: Any) -> None:
        """Let `conv = F.conv2d` in the body of a class stay a function, as PyTorch's in C++ do; a
        function written in Python would become a method."""
        super().__init_subclass__(**keywords)
        if not cls.__module__.startswith("gradwalk"):
            for name, value in list(vars(cls).items()):
                if isinstance(value, FunctionType) and f"{value.__module__}".startswith("gradwalk"):
                    setattr(cls, name, staticmethod(value))

    _parameters: dict[str, Any]
    _buffers: dict[str, Any]
    _modules: dict[str, Any]

    def to(self, *args: Any, **keywords: Any) -> Self:
        """Move all parameters and buffers in place: `to("cuda")`, `to(dtype)`, `to("cuda", dtype)`,
        `to(tensor)`. Those that are floating-point get the dtype; complex ones only a complex one.
        """
        dtype, where, _ = read_to(args, keywords)
        if dtype is not None and not has_gradients(dtype):
            raise TypeError(f"a module can only be moved to a floating-point dtype, not {dtype}")
        changes = is_floating if dtype is None or is_floating(dtype) else has_gradients
        return self._apply(lambda t: t.to(dtype if changes(t.dtype) else None, device=where))

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        """Replace parameters, buffers and gradients by what `fn` makes of them, modules inside
        first. A subclass may override it, to move or compute more.
        """
        if recurse:
            for module in dict.fromkeys(self._modules.values()):  # a shared one once
                if module is not None:
                    module._apply(fn)
        for tensor in (*self._parameters.values(), *self._buffers.values()):
            if not isinstance(tensor, Tensor):
                if tensor is not None:  # a sparse one
                    tensor._hold(fn(tensor.detach()))
                continue
            moved = fn(tensor.detach())
            if moved._array is tensor._array:
                continue
            grad, tensor._grad = tensor._grad, None
            tensor.data = moved
            tensor._grad = None if grad is None else fn(grad.detach())
        return self

    def float(self) -> Self:
        """All floating-point parameters and buffers as float32."""
        return self.to(np.float32)

    def double(self) -> Self:
        """All floating-point parameters and buffers as float64."""
        return self.to(np.float64)

    def half(self) -> Self:
        """All floating-point parameters and buffers as float16."""
        return self.to(np.float16)

    def bfloat16(self) -> Self:
        """All floating-point parameters and buffers as bfloat16."""
        return self.to(bfloat16())

    def type(self, dst_type: Any) -> Self:
        """The same as `to(dtype)`."""
        return self.to(np.dtype(dst_type))

    def cpu(self) -> Self:
        """Move all parameters and buffers to the CPU."""
        return self.to("cpu")

    def cuda(self, device: Any = None) -> Self:
        """Move all parameters and buffers to a GPU."""
        return self.to("cuda" if device is None else device)
