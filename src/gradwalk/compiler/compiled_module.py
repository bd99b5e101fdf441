"""CompiledModule: a compiled module, which is a module itself."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator
from typing import Any, TypeVar, cast

from gradwalk.compiler.function import Compiled
from gradwalk.compiler.introspect.methods import Introspection
from gradwalk.nn.module import Module

Method = TypeVar("Method", bound=Callable[..., Any])


def _returning_self(method: Method) -> Method:
    """The method of the module, called on the function and returning the compiled module."""

    @functools.wraps(method)
    def call(self: Any, *args: Any, **keywords: Any) -> Any:
        getattr(self.function, method.__name__)(*args, **keywords)
        return self

    return cast(Method, call)


class CompiledModule(Compiled, Module):
    """A module whose call is compiled; its parameters, buffers, names and mode are the module's.

    It can be part of other modules, and be trained, saved and loaded like the module itself, which
    is its `function`. Only the attributes of `Compiled` (`explain`, `graph`, ...) are its own.

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
    train = _returning_self(Module.train)
    eval = _returning_self(Module.eval)
    requires_grad_ = _returning_self(Module.requires_grad_)
    to = _returning_self(Module.to)
    float = _returning_self(Module.float)
    double = _returning_self(Module.double)
    type = _returning_self(Module.type)
    cpu = _returning_self(Module.cpu)
    apply = _returning_self(Module.apply)


_OWN = frozenset(
    name
    for kind in (CompiledModule, Compiled, Introspection)
    for name in (*vars(kind), *inspect.get_annotations(kind))
)
