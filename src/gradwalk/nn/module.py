"""Module and Parameter: where a model keeps what it learns."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from gradwalk.tensor import Tensor


class Parameter(Tensor):
    """A leaf tensor that a Module finds by itself.

    >>> import gradwalk as gw
    >>> gw.nn.Parameter(gw.zeros(2))
    Parameter containing:
    tensor([0., 0.], requires_grad=True)
    """

    __slots__ = ()

    def __init__(self, data: Any, requires_grad: bool = True) -> None:
        array = data._array if isinstance(data, Tensor) else np.asarray(data)
        self._set(array, None, 0)
        self.requires_grad = requires_grad

    def __repr__(self) -> str:
        return "Parameter containing:\n" + super().__repr__()


class Module:
    """A piece of a model: parameters and other modules, found by assigning them as attributes."""

    training = True

    def forward(self, *args: Any, **keywords: Any) -> Any:
        """What the module computes; subclasses write it."""
        raise NotImplementedError(f"{type(self).__name__} defines no forward()")

    def __call__(self, *args: Any, **keywords: Any) -> Any:
        return self.forward(*args, **keywords)

    def named_modules(self, prefix: str = "") -> Iterator[tuple[str, Module]]:
        """This module and all inside it, with dotted names; a shared one is listed once."""
        seen: set[int] = set()
        stack: list[tuple[str, Module]] = [(prefix, self)]
        while stack:
            name, module = stack.pop()
            if id(module) in seen:
                continue
            seen.add(id(module))
            yield name, module
            inner = [(k, v) for k, v in vars(module).items() if isinstance(v, Module)]
            stack += [(f"{name}.{k}" if name else k, m) for k, m in reversed(inner)]

    def named_parameters(self) -> Iterator[tuple[str, Parameter]]:
        """Every parameter with its dotted name; a tied one is listed once."""
        seen: set[int] = set()
        for prefix, module in self.named_modules():
            for name, value in vars(module).items():
                if isinstance(value, Parameter) and id(value) not in seen:
                    seen.add(id(value))
                    yield (f"{prefix}.{name}" if prefix else name), value

    def parameters(self) -> Iterator[Parameter]:
        """Every parameter once."""
        return (parameter for _, parameter in self.named_parameters())

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget the gradients of all parameters."""
        for parameter in self.parameters():
            if set_to_none:
                parameter.grad = None
            elif parameter.grad is not None:
                parameter.grad.zero_()

    def train(self, mode: bool = True) -> Module:
        """Set training mode here and in all modules inside."""
        for _, module in self.named_modules():
            module.training = mode
        return self

    def eval(self) -> Module:
        """Set evaluation mode."""
        return self.train(False)

    def extra_repr(self) -> str:
        """What stands in the parentheses of the module's text."""
        return ""

    def __repr__(self) -> str:
        inner = [(k, v) for k, v in vars(self).items() if isinstance(v, Module)]
        if not inner:
            return f"{type(self).__name__}({self.extra_repr()})"
        lines = [f"  ({name}): {module!r}".replace("\n", "\n  ") for name, module in inner]
        return "\n".join([f"{type(self).__name__}(", *lines, ")"])
