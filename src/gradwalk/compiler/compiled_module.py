"""CompiledModule: what gradwalk.compile makes of a module. It is a module itself."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any, Self

from gradwalk.compiler.function import Compiled
from gradwalk.compiler.introspect.methods import Introspection
from gradwalk.nn.module import Module


class CompiledModule(Compiled, Module):
    """A module whose call is compiled: its parameters, buffers, names and mode are the module's.

    It can be part of other modules, and be trained, saved and loaded like the module itself, which
    is its `function`; only what `Compiled` has (`explain`, `source`, `graph`, ...) is its own.

    >>> import gradwalk as gw
    >>> model = gw.compile(gw.nn.Linear(2, 1))
    >>> [name for name, _ in model.named_parameters()]
    ['weight', 'bias']
    >>> model.eval().function.training
    False
    """

    def __getattribute__(self, name: str) -> Any:
        if name in _OWN or name.startswith("__"):
            return object.__getattribute__(self, name)
        return getattr(object.__getattribute__(self, "function"), name)

    def __setattr__(self, name: str, value: Any) -> None:
        if name in _OWN:
            object.__setattr__(self, name, value)
        else:
            setattr(self.function, name, value)

    def __delattr__(self, name: str) -> None:
        delattr(self.function, name)

    def __getitem__(self, key: Any) -> Any:
        return self.function[key]

    def __iter__(self) -> Iterator[Any]:
        return iter(self.function)

    def __len__(self) -> int:
        return len(self.function)

    def __bool__(self) -> bool:
        return bool(self.function)

    # What returns the module itself returns the compiled one.

    def train(self, mode: bool = True) -> Self:
        """Set training mode here and in all modules inside."""
        self.function.train(mode)
        return self

    def eval(self) -> Self:
        """Set evaluation mode."""
        self.function.eval()
        return self

    def requires_grad_(self, requires_grad: bool = True) -> Self:
        """Whether gradients flow to the parameters; off freezes the module."""
        self.function.requires_grad_(requires_grad)
        return self

    def to(self, *args: Any, **keywords: Any) -> Self:
        """Change the dtype of all floating-point parameters and buffers, in place."""
        self.function.to(*args, **keywords)
        return self

    def float(self) -> Self:
        """All floating-point parameters and buffers as float32."""
        self.function.float()
        return self

    def double(self) -> Self:
        """All floating-point parameters and buffers as float64."""
        self.function.double()
        return self

    def type(self, dst_type: Any) -> Self:
        """The same as `to(dtype)`."""
        self.function.type(dst_type)
        return self

    def cpu(self) -> Self:
        """Itself."""
        return self

    def apply(self, fn: Any) -> Self:
        """Call `fn` with every module inside, then with this one."""
        self.function.apply(fn)
        return self


_OWN = frozenset(
    name
    for kind in (CompiledModule, Compiled, Introspection)
    for name in (*vars(kind), *inspect.get_annotations(kind))
)
