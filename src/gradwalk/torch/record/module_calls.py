"""Names of modules, module calls as groups of the trace, and optimizer steps."""

from __future__ import annotations

import gc
import sys
import threading
import warnings
import weakref
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from torch import nn
from torch.nn.modules.module import (
    register_module_forward_hook,
    register_module_forward_pre_hook,
)
from torch.optim.optimizer import (
    register_optimizer_step_post_hook,
    register_optimizer_step_pre_hook,
)


def outermost_alive() -> list[nn.Module]:
    """The live modules that are part of no other, ignoring wrappers of compiled ones."""
    modules = [thing for thing in gc.get_objects() if issubclass(type(thing), nn.Module)]
    modules = [module for module in modules if uncompiled(module) is module]
    inner = {id(part) for module in modules for part in module.children()}
    return [module for module in modules if id(module) not in inner]


def uncompiled(module: nn.Module) -> nn.Module:
    """The module that `torch.compile` wrapped; a plain module itself."""
    wraps = type(module).__name__ == "OptimizedModule"
    return getattr(module, "_orig_mod", module) if wraps else module


_wholes: weakref.WeakKeyDictionary[nn.Module, weakref.ref[nn.Module]] = weakref.WeakKeyDictionary()


def whole_of(module: nn.Module) -> nn.Module:
    """The outermost module that contains a module; often itself. It determines the name.

    Searching all live objects is slow, so the answer is cached.
    """
    known = _wholes.get(module)
    before = None if known is None else known()
    if before is not None and _has(before, module):
        return before
    outermost = next((whole for whole in outermost_alive() if _has(whole, module)), module)
    _wholes[module] = weakref.ref(outermost)
    return outermost


def _has(whole: nn.Module, module: nn.Module) -> bool:
    return any(part is module for part in whole.modules())


_NEEDLESS = "Using `torch.compile.module.` when there are global hooks"


class ModuleNames:
    """Names of modules and their parameters, without keeping them alive."""

    def __init__(self) -> None:
        self._names: dict[int, tuple[weakref.ref[Any], str]] = {}
        # modules whose parts have names
        self._wholes: weakref.WeakSet[nn.Module] = weakref.WeakSet()

    def of(self, thing: Any) -> str | None:
        """The name of a module or parameter; None if it has none."""
        known = self._names.get(id(thing))
        return known[1] if known is not None and known[0]() is thing else None

    def give(self, whole: nn.Module) -> Iterator[nn.Parameter]:
        """Name the parts of a module and return its parameters. The module itself has its class
        name.

        A part of two models keeps its first name. A part of a larger model that is assembled later
        gets its name there.
        """
        parts = dict(whole.named_modules())
        larger = any(part in self._wholes for part in parts.values())
        self._wholes.add(whole)
        for name, part in parts.items():
            if larger or self.of(part) is None:
                self._names[id(part)] = weakref.ref(part), name or type(whole).__name__
        for name, parameter in whole.named_parameters():
            # `torch.func.functional_call` may replace a parameter by another tensor.
            if parameter.is_leaf and (larger or self.of(parameter) is None):
                self._names[id(parameter)] = weakref.ref(parameter), name
            yield parameter


class ModelNames:
    """The names that the program gives its models; a parameter has it if there are several."""

    def __init__(self) -> None:
        self._called: dict[int, str] = {}

    def note(self, module: nn.Module, variables: Mapping[str, Any]) -> None:
        """Name a model that is being called: by the variable that holds it, else by its class."""
        if id(module) not in self._called:
            own = (name for name, value in variables.items() if value is module)
            self._called[id(module)] = next(own, type(module).__name__)

    def of_parameters(self, modules: Sequence[nn.Module]) -> dict[int, str]:
        """The name of each parameter of these models, by `id`."""
        inner = {id(m) for module in modules for m in module.modules() if m is not module}
        outer = [module for module in modules if id(module) not in inner]
        names: dict[int, str] = {}
        for module in outer:
            called = self._called.get(id(module), type(module).__name__)
            prefix = f"{called}." if len(outer) > 1 else ""
            for name, parameter in module.named_parameters():
                names.setdefault(id(parameter), prefix + name)
        return names


def ignore_needless_warning() -> None:
    """Compiled code never sees our hooks on all modules, so the warning does not apply."""
    if not any(
        known[1] is not None and known[1].pattern == _NEEDLESS for known in warnings.filters
    ):
        warnings.filterwarnings("ignore", _NEEDLESS)


@contextmanager
def told_of_modules(recorder: Any) -> Iterator[None]:
    """Record every module call of this thread as a group."""
    running: list[Any] = recorder.running

    added: dict[Any, Any] = {}  # our own last hook on a module that has hooks

    def enters(module: Any, args: Any) -> None:
        if threading.get_ident() == recorder.thread:
            running.append(module)
            recorder.entered_module(module)
            if module._forward_hooks and module not in added:
                added[module] = module.register_forward_hook(ends, always_call=True)

    def leaves(module: Any, args: Any, result: Any) -> None:
        # The module's own hooks run after this one, and what they compute belongs to the module.
        if module not in added:
            ends(module, args, result)

    def ends(module: Any, args: Any, result: Any) -> None:
        if module in added:
            added.pop(module).remove()
        if threading.get_ident() != recorder.thread or module not in running:
            return
        while True:  # a module whose own hook raised never reported its end
            last = running.pop()
            recorder.left()
            if last is module:
                break

    ignore_needless_warning()
    with (  # the hooks are removed at the end
        register_module_forward_pre_hook(enters),
        register_module_forward_hook(leaves, always_call=True),
    ):
        yield


def end_failed_steps(stepping: list[Any]) -> None:
    """End the steps whose frames have gone: a step that raises never reports its end."""
    while stepping:
        frame: Any = sys._getframe(1)
        while frame is not None and frame is not stepping[-1][0]:
            frame = frame.f_back
        if frame is not None:
            return
        stepping.pop()[1].__exit__(None, None, None)


@contextmanager
def told_of_steps(recorder: Any) -> Iterator[None]:
    """Keep optimizer updates out of the recording; parameters are new leaves afterwards.

    A step with a closure (LBFGS) computes the loss, so it is recorded.
    """
    silent: list[Any] = recorder.stepping

    def begins(optimizer: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if threading.get_ident() != recorder.thread:
            return
        recorder.steps(optimizer)
        if not any(callable(given) for given in (*args[1:], *kwargs.values())):
            silence = recorder.silence()
            silence.__enter__()
            silent.append((sys._getframe(1), silence))

    def ends(optimizer: Any, args: Any, kwargs: Any) -> None:
        if silent and threading.get_ident() == recorder.thread:
            silent.pop()[1].__exit__(None, None, None)

    with register_optimizer_step_pre_hook(begins), register_optimizer_step_post_hook(ends):
        yield
