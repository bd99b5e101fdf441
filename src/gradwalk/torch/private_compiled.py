"""PyTorch's private parts of modules that are compiled: by which backend, and when they are called.

The hooks of a module that `module.compile()` compiled in place are inside its compiled code, where
a listener cannot be. So the compiled call itself is wrapped.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch

_CALL = "_compiled_call_impl"  # the attribute of a module that was compiled in place


class _Listener(NamedTuple):
    before: Callable[[torch.nn.Module, tuple[Any, ...], dict[str, Any]], None]
    after: Callable[[torch.nn.Module, tuple[Any, ...], Any], None]


_listeners: list[_Listener] = []
_originals: weakref.WeakKeyDictionary[torch.nn.Module, Any] = weakref.WeakKeyDictionary()


def backend_of(modules: Sequence[torch.nn.Module]) -> Any:
    """The backend that compiles one of these modules; that of `torch.compile` itself if none."""
    from torch._dynamo.backends.registry import lookup_backend

    contexts = (getattr(module, "dynamo_ctx", None) or _in_place(module) for module in modules)
    callbacks = (getattr(context, "callback", None) for context in contexts)
    found: Any = next((callback for callback in callbacks if callback is not None), None)
    inner = "_torchdynamo_orig_backend", "_torchdynamo_orig_callable"  # in older versions
    while found is not None and any(hasattr(found, name) for name in inner):
        found = getattr(found, inner[0], None) or getattr(found, inner[1], None)
    return found or lookup_backend("inductor")


def _in_place(module: torch.nn.Module) -> Any:
    """The compiler's context of a module that was compiled in place."""
    call: Any = _originals.get(module) or getattr(module, _CALL, None)
    names = getattr(getattr(call, "__code__", None), "co_freevars", ())
    return call.__closure__[names.index("self")].cell_contents if "self" in names else None


@contextmanager
def told_of_calls(
    before: Callable[[torch.nn.Module, tuple[Any, ...], dict[str, Any]], None],
    after: Callable[[torch.nn.Module, tuple[Any, ...], Any], None],
) -> Iterator[None]:
    """Call these around each call of a module that is compiled in place while they listen."""
    listener = _Listener(before, after)
    torch.nn.Module.compile = _compile  # type: ignore[method-assign,assignment]
    _listeners.append(listener)
    try:
        yield
    finally:
        _listeners.remove(listener)
        if not _listeners:
            for module, original in list(_originals.items()):
                vars(module)[_CALL] = original
            _originals.clear()
            torch.nn.Module.compile = _compile_itself  # type: ignore[method-assign]


_compile_itself = torch.nn.Module.compile


@functools.wraps(_compile_itself)
def _compile(module: torch.nn.Module, *args: Any, **kwargs: Any) -> None:
    _compile_itself(module, *args, **kwargs)
    _originals.pop(module, None)
    tell_of(module)


def tell_of(module: torch.nn.Module) -> bool:
    """Let listeners know of the calls of a module, if it was compiled in place; whether it was."""
    original = vars(module).get(_CALL)
    if original is None or module in _originals:
        return original is not None
    _originals[module] = original

    def called(*args: Any, **kwargs: Any) -> Any:
        if torch.compiler.is_compiling():  # an outer module is compiled, with this one in it
            return original(*args, **kwargs)
        listening = list(_listeners)
        for listener in listening:
            listener.before(module, args, kwargs)
        output = None
        try:
            output = original(*args, **kwargs)
            return output
        finally:
            for listener in listening:
                listener.after(module, args, output)

    vars(module)[_CALL] = called
    return True
