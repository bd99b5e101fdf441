"""Calling a module that has hooks; one without never comes here."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gradwalk.engine.function import Function
from gradwalk.engine.hooks import RemovableHandle
from gradwalk.engine.modes import state
from gradwalk.tensor import Tensor

Hook = Callable[..., Any]


class Hooks:
    """The hooks of one module, by kind; each is kept with whether it wants keyword arguments."""

    def __init__(self) -> None:
        self.before: dict[int, tuple[Hook, bool]] = {}
        self.after: dict[int, tuple[Hook, bool]] = {}
        self.backward: dict[int, tuple[Hook, bool]] = {}

    def add(self, kind: str, hook: Hook, prepend: bool, keywords: bool = False) -> RemovableHandle:
        """Keep a hook, and return what takes it off again."""
        hooks = getattr(self, kind)
        handle = RemovableHandle(hooks)
        before = list(hooks.items()) if prepend else []
        if prepend:
            hooks.clear()  # the handles hold this very dictionary
        hooks[handle.id] = (hook, keywords)
        hooks.update(before)
        return handle


def call(module: Any, hooks: Hooks, args: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
    """Run a module's forward with its hooks around it."""
    for hook, wants_keywords in list(hooks.before.values()):
        if wants_keywords:
            found = hook(module, args, keywords)
            if found is not None:
                if not (isinstance(found, tuple) and len(found) == 2):
                    raise RuntimeError(
                        "a forward pre-hook with keywords returns None or (args, kwargs), "
                        f"not {type(found).__name__}"
                    )
                args, keywords = found
        else:
            found = hook(module, args)
            if found is not None:
                args = found if isinstance(found, tuple) else (found,)
    watch = _Watch(module, hooks) if hooks.backward else None
    if watch is not None:
        args = watch.enter(args)
    out = module.forward(*args, **keywords)
    for hook, wants_keywords in list(hooks.after.values()):
        found = hook(module, args, keywords, out) if wants_keywords else hook(module, args, out)
        if found is not None:
            out = found
    return out if watch is None else watch.leave(out)


class _Gate(Function):
    """Passes tensors on, and shows their gradients to `watch` on the way back."""

    @staticmethod
    def forward(ctx: Any, watch: Callable[..., Any], unused: bool, *tensors: Any) -> Any:
        ctx.watch = watch
        ctx.set_materialize_grads(unused)  # whether `watch` sees zeros or None for unused ones
        ctx.mark_non_differentiable(*[t for t in tensors if not t.requires_grad])
        return tensors

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        return (None, None, *ctx.watch(grads))


class _Watch:
    """One call of a module whose gradients somebody wants to see.

    A gate stands before the module and one behind it. The hooks run when the gradients of the
    inputs are complete; where no input needs one, when those of the outputs are.
    """

    def __init__(self, module: Any, hooks: Hooks) -> None:
        self.module = module
        self.hooks = hooks
        self.places: list[int] | None = None  # of the tensors among the inputs
        self.count = 0
        self.grad_output: tuple[Any, ...] | None = None

    def enter(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        """The inputs, behind a gate."""
        self.count = len(args)
        places = [i for i, a in enumerate(args) if isinstance(a, Tensor)]
        if not state.here.grad_enabled or not any(args[i].requires_grad for i in places):
            return args
        self.places = places
        listed = list(args)
        behind = _Gate.apply(self._inputs_done, True, *(args[i] for i in places))
        for i, tensor in zip(places, behind):
            listed[i] = tensor
        return tuple(listed)

    def leave(self, out: Any) -> Any:
        """The outputs, behind a gate."""
        several = isinstance(out, (tuple, list))
        listed = list(out) if several else [out]
        places = [i for i, o in enumerate(listed) if isinstance(o, Tensor)]
        if not state.here.grad_enabled or not any(listed[i].requires_grad for i in places):
            return out
        count = len(listed)  # `done` must not hold the outputs, which hold the graph it is in

        def done(grads: tuple[Any, ...]) -> tuple[Any, ...]:
            found = [None] * count
            for i, g in zip(places, grads):
                found[i] = g
            self.grad_output = tuple(found)
            if self.places is None:
                self._run((None,) * self.count)
            return grads

        behind = _Gate.apply(done, False, *(listed[i] for i in places))
        for i, tensor in zip(places, behind):
            listed[i] = tensor
        if not several:
            return listed[0]
        if hasattr(out, "_fields"):  # a named tuple
            return type(out)(*listed)
        return type(out)(listed)

    def _inputs_done(self, grads: tuple[Any, ...]) -> tuple[Any, ...]:
        if self.grad_output is None:  # no gradient came through the module
            return grads
        assert self.places is not None
        listed: list[Any] = [None] * self.count
        for i, g in zip(self.places, grads):
            listed[i] = g
        found = self._run(tuple(listed))
        return tuple(found[i] for i in self.places)

    def _run(self, grad_input: tuple[Any, ...]) -> tuple[Any, ...]:
        grad_output, self.grad_output = self.grad_output, None
        for hook, _ in list(self.hooks.backward.values()):
            found = hook(self.module, grad_input, grad_output)
            if found is None:
                continue
            found = found if isinstance(found, tuple) else (found,)
            if self.places is None:
                raise RuntimeError(
                    f"a backward hook of {type(self.module).__name__} returned a gradient, but "
                    "no input of the module needs one"
                )
            if len(found) != len(grad_input):
                raise RuntimeError(
                    f"a backward hook of {type(self.module).__name__} returned {len(found)} "
                    f"gradient(s) for {len(grad_input)} input(s)"
                )
            grad_input = found
        return grad_input
