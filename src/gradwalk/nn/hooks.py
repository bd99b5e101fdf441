"""Hooks of modules: registering them, and calling a module that has some."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

from gradwalk.engine.function import Function
from gradwalk.engine.hooks import RemovableHandle
from gradwalk.engine.modes import state
from gradwalk.tensors.tensor import Tensor

Hook = Callable[..., Any]


class _Entry(NamedTuple):
    hook: Hook
    keywords: bool  # whether it wants the keyword arguments too
    always: bool  # whether it runs also when forward failed


class Hooks:
    """The hooks of one module, by kind."""

    def __init__(self) -> None:
        self.before: dict[int, _Entry] = {}
        self.after: dict[int, _Entry] = {}
        self.before_backward: dict[int, _Entry] = {}
        self.backward: dict[int, _Entry] = {}
        self.before_state: dict[int, _Entry] = {}
        self.after_state: dict[int, _Entry] = {}
        self.before_load: dict[int, _Entry] = {}
        self.after_load: dict[int, _Entry] = {}

    def run(self, kind: str, *args: Any) -> None:
        """Call the hooks of one kind, none of which replaces anything."""
        for entry in list(getattr(self, kind).values()):
            entry.hook(*args)


class Hooked:
    """The methods of a Module that register hooks.

    Each returns a handle; `handle.remove()` takes the hook off again.
    """

    _hooks: Hooks | None = None  # made when the first hook is registered

    def _hook(
        self,
        kind: str,
        hook: Hook,
        prepend: bool = False,
        keywords: bool = False,
        always: bool = False,
    ) -> RemovableHandle:
        if self._hooks is None:
            self._hooks = Hooks()
        hooks = getattr(self._hooks, kind)
        handle = RemovableHandle(hooks)
        before = list(hooks.items()) if prepend else []
        if prepend:
            hooks.clear()  # the handles hold this very dictionary
        hooks[handle.id] = _Entry(hook, keywords, always)
        hooks.update(before)
        return handle

    def register_forward_pre_hook(
        self, hook: Hook, *, prepend: bool = False, with_kwargs: bool = False
    ) -> RemovableHandle:
        """Call `hook(module, args)` before forward; what it returns takes the arguments' place."""
        return self._hook("before", hook, prepend, with_kwargs)

    def register_forward_hook(
        self,
        hook: Hook,
        *,
        prepend: bool = False,
        with_kwargs: bool = False,
        always_call: bool = False,
    ) -> RemovableHandle:
        """Call `hook(module, args, output)` after forward; what it returns replaces the output.

        With `always_call` it is called also when forward raises, with None as the output.

        >>> import gradwalk as gw
        >>> layer = gw.nn.Linear(2, 3)
        >>> handle = layer.register_forward_hook(lambda module, args, out: print(out.shape))
        >>> _ = layer(gw.zeros(4, 2))
        (4, 3)
        >>> handle.remove()
        """
        return self._hook("after", hook, prepend, with_kwargs, always_call)

    def register_full_backward_pre_hook(self, hook: Hook, prepend: bool = False) -> RemovableHandle:
        """Call `hook(module, grad_output)` when backward arrives at the module.

        What it returns takes the place of the gradients of the outputs.
        """
        return self._hook("before_backward", hook, prepend)

    def register_full_backward_hook(self, hook: Hook, prepend: bool = False) -> RemovableHandle:
        """Call `hook(module, grad_input, grad_output)` when backward has passed the module.

        What it returns takes the place of the gradients of the inputs.
        """
        return self._hook("backward", hook, prepend)

    def register_state_dict_pre_hook(self, hook: Hook) -> RemovableHandle:
        """Call `hook(module, prefix, keep_vars)` before `state_dict` reads the module."""
        return self._hook("before_state", hook)

    def register_state_dict_post_hook(self, hook: Hook) -> RemovableHandle:
        """Call `hook(module, state_dict, prefix, {})` when `state_dict` has read the module.

        It may change the state dict.
        """
        return self._hook("after_state", hook)

    def register_load_state_dict_pre_hook(self, hook: Hook) -> RemovableHandle:
        """Call a hook before `load_state_dict` looks at anything.

        Its arguments are PyTorch's: `hook(module, state_dict, prefix, {}, strict, missing_keys,
        unexpected_keys, error_msgs)`. It may change the state dict, a copy, and rename old keys.
        """
        return self._hook("before_load", hook)

    def register_load_state_dict_post_hook(self, hook: Hook) -> RemovableHandle:
        """Call `hook(module, incompatible_keys)` when `load_state_dict` has loaded the module.

        It may change the lists of missing and unexpected keys; only what is left is an error.
        """
        return self._hook("after_load", hook)


def call(module: Any, hooks: Hooks, args: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
    """Run a module's forward with its hooks around it."""
    due = {number for number, entry in hooks.after.items() if entry.always}
    if not due:
        return _call(module, hooks, args, keywords, due)
    try:
        return _call(module, hooks, args, keywords, due)
    except Exception:
        for number in sorted(due):
            hook, wants_keywords, _ = hooks.after[number]
            try:
                hook(module, args, *([keywords] if wants_keywords else []), None)
            except Exception as error:
                warnings.warn(
                    "a forward hook with always_call=True raised an exception that was silenced, "
                    f"as another was raised in forward: {error}",
                    stacklevel=2,
                )
        raise


def _call(
    module: Any, hooks: Hooks, args: tuple[Any, ...], keywords: dict[str, Any], due: set[int]
) -> Any:
    """As `call`; takes the hooks that it has called out of `due`."""
    for hook, wants_keywords, _ in list(hooks.before.values()):
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
    watch = _Watch(module, hooks) if hooks.backward or hooks.before_backward else None
    if watch is not None:
        args = watch.enter(args)
    out = module.forward(*args, **keywords)
    for number, (hook, wants_keywords, _) in list(hooks.after.items()):
        due.discard(number)
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
            self.grad_output = arrived = self._arrive(tuple(found))
            if self.places is None:
                self._run((None,) * self.count)
            return tuple(arrived[i] for i in places)

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

    def _arrive(self, grad_output: tuple[Any, ...]) -> tuple[Any, ...]:
        for entry in list(self.hooks.before_backward.values()):
            found = entry.hook(self.module, grad_output)
            if found is None:
                continue
            found = found if isinstance(found, tuple) else (found,)
            if len(found) != len(grad_output):
                raise RuntimeError(
                    f"a backward pre-hook of {type(self.module).__name__} returned {len(found)} "
                    f"gradient(s) for {len(grad_output)} output(s)"
                )
            grad_output = found
        return grad_output

    def _run(self, grad_input: tuple[Any, ...]) -> tuple[Any, ...]:
        grad_output, self.grad_output = self.grad_output, None
        for entry in list(self.hooks.backward.values()):
            found = entry.hook(self.module, grad_input, grad_output)
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
