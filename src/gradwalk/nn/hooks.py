"""Hooks of modules: registering them, and calling a module that has some."""

from __future__ import annotations

import copy
import warnings
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from gradwalk.engine.function import Function
from gradwalk.engine.hooks import Hookable, RemovableHandle, checked_arguments
from gradwalk.engine.modes import state
from gradwalk.tensors.tensor import Tensor

Hook = Callable[..., Any]


class ForwardHook(NamedTuple):
    """A hook of forward and the options it was registered with."""

    hook: Hook
    keywords: bool  # whether it takes the keyword arguments too
    always: bool  # whether it runs also when forward failed


class OlderHook:
    """A hook of `register_backward_hook`, which sees the outputs in a dictionary too."""

    def __init__(self, hook: Hook) -> None:
        self.hook = hook

    def __call__(self, *args: Any) -> Any:
        return self.hook(*args)


class ModuleHooks(Hookable):
    """The methods of a Module that register hooks; `handle.remove()` removes one again."""

    def _run_hooks(self, kind: str, *args: Any) -> None:
        """Call the hooks of a kind that replaces nothing."""
        for hook in self._hooks_of(kind):
            hook(*args)

    def register_forward_pre_hook(
        self, hook: Hook, *, prepend: bool = False, with_kwargs: bool = False
    ) -> RemovableHandle:
        """Call `hook(module, args)` before forward; its result replaces the arguments."""
        return self._add_hook("before", ForwardHook(hook, with_kwargs, False), prepend)

    @property
    def _forward_pre_hooks(self) -> OrderedDict[int, Hook]:
        """PyTorch's register of these hooks: a copy, to look at."""
        return self._hooks_by_number("before")

    @property
    def _forward_hooks(self) -> OrderedDict[int, Hook]:
        """Likewise."""
        return self._hooks_by_number("after")

    @property
    def _backward_hooks(self) -> OrderedDict[int, Hook]:
        """Likewise."""
        return OrderedDict((self._hooks or {}).get("backward", {}))

    def _hooks_by_number(self, kind: str) -> OrderedDict[int, Hook]:
        entries: dict[int, ForwardHook] = (self._hooks or {}).get(kind, {})
        return OrderedDict((number, entry.hook) for number, entry in entries.items())

    def register_forward_hook(
        self,
        hook: Hook,
        *,
        prepend: bool = False,
        with_kwargs: bool = False,
        always_call: bool = False,
    ) -> RemovableHandle:
        """Call `hook(module, args, output)` after forward; its result replaces the output.

        With `always_call` it is called also when forward raises, with None as the output.

        >>> import gradwalk as gw
        >>> layer = gw.nn.Linear(2, 3)
        >>> handle = layer.register_forward_hook(lambda module, args, out: print(out.shape))
        >>> _ = layer(gw.zeros(4, 2))
        (4, 3)
        >>> handle.remove()
        """
        entry = ForwardHook(hook, with_kwargs, always_call)
        return self._add_hook("after", entry, prepend)

    def register_full_backward_pre_hook(self, hook: Hook, prepend: bool = False) -> RemovableHandle:
        """Call `hook(module, grad_output)` when backward arrives at the module.

        Its result replaces the gradients of the outputs.
        """
        return self._add_hook("before_backward", hook, prepend)

    def register_full_backward_hook(self, hook: Hook, prepend: bool = False) -> RemovableHandle:
        """Call `hook(module, grad_input, grad_output)` when backward has passed the module.

        Its result replaces the gradients of the inputs.
        """
        return self._add_hook("backward", hook, prepend)

    def register_backward_hook(self, hook: Hook) -> RemovableHandle:
        """PyTorch's older hook, here `register_full_backward_hook`, also of outputs by name."""
        return self._add_hook("backward", OlderHook(hook))

    def register_state_dict_pre_hook(self, hook: Hook) -> RemovableHandle:
        """Call `hook(module, prefix, keep_vars)` before `state_dict` reads the module."""
        return self._add_hook("before_state", hook)

    def register_state_dict_post_hook(self, hook: Hook) -> RemovableHandle:
        """Call `hook(module, state_dict, prefix, {})` when `state_dict` has read the module.

        It may change the state dict.
        """
        return self._add_hook("after_state", hook)

    def register_load_state_dict_pre_hook(self, hook: Hook) -> RemovableHandle:
        """Call a hook before `load_state_dict` reads anything.

        Its arguments are PyTorch's: `hook(module, state_dict, prefix, {}, strict, missing_keys,
        unexpected_keys, error_msgs)`. It may change the state dict, a copy, and rename old keys.
        """
        return self._add_hook("before_load", hook)

    def _register_load_state_dict_pre_hook(
        self, hook: Hook, with_module: bool = False
    ) -> RemovableHandle:
        """The older form, which many models call: the hook gets no module unless `with_module`."""
        if with_module:
            return self.register_load_state_dict_pre_hook(hook)
        return self.register_load_state_dict_pre_hook(lambda module, *args: hook(*args))

    def _register_state_dict_hook(self, hook: Hook) -> RemovableHandle:
        """The older name of `register_state_dict_post_hook`."""
        return self.register_state_dict_post_hook(hook)

    def register_load_state_dict_post_hook(self, hook: Hook) -> RemovableHandle:
        """Call `hook(module, incompatible_keys)` when `load_state_dict` has loaded the module.

        It may change the lists of missing and unexpected keys; only the remaining ones are errors.
        """
        return self._add_hook("after_load", hook)


def call(module: Any, args: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
    """Run a module's forward with its hooks around it."""
    after = module._hooks.get("after", {})
    due = {number: entry for number, entry in after.items() if entry.always}
    try:
        for hook, takes_keywords, _ in module._hooks_of("before"):
            result = hook(module, args, keywords) if takes_keywords else hook(module, args)
            if result is not None and takes_keywords:
                args, keywords = checked_arguments(result, "a forward pre-hook with keywords")
            elif result is not None:
                args = _as_tuple(result)
        watched = module._hooks_of("backward") or module._hooks_of("before_backward")
        gates = _Gates(module) if watched else None
        if gates is not None:
            args = gates.enter(args)
        out = module.forward(*args, **keywords)
        for number, (hook, takes_keywords, _) in list(module._hooks.get("after", {}).items()):
            due.pop(number, None)
            given = (args, keywords) if takes_keywords else (args,)
            result = hook(module, *given, out)
            out = out if result is None else result
        return out if gates is None else gates.leave(out)
    except Exception:
        for hook, takes_keywords, _ in due.values():
            try:
                hook(module, args, *([keywords] if takes_keywords else []), None)
            except Exception as error:
                warnings.warn(
                    "a forward hook with always_call=True raised an exception that was silenced, "
                    f"as another was raised in forward: {error}",
                    stacklevel=2,
                )
        raise


def _as_tuple(result: Any) -> tuple[Any, ...]:
    return result if isinstance(result, tuple) else (result,)


def _placed(count: int, positions: list[int], values: Iterable[Any]) -> tuple[Any, ...]:
    """Values at their positions, None elsewhere."""
    listed: list[Any] = [None] * count
    for position, value in zip(positions, values):
        listed[position] = value
    return tuple(listed)


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


class _Gates:
    """One call of a module with backward hooks.

    One gate stands before the module and one behind it. The hooks run when the gradients of the
    inputs are complete; where no input needs one, when those of the outputs are.
    """

    def __init__(self, module: Any) -> None:
        self.module = module
        self.positions: list[int] | None = None  # of the tensors among the inputs
        self.count = 0
        self.grad_output: tuple[Any, ...] | None = None

    def enter(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        """The inputs, behind a gate."""
        self.count = len(args)
        self.positions = _needing(args)
        if self.positions is None:
            return args
        return tuple(_behind(args, self.positions, self._inputs_done, True))

    def leave(self, out: Any) -> Any:
        """The outputs, behind a gate; for older hooks also the values of a dictionary."""
        several = isinstance(out, (tuple, list))
        older = any(isinstance(hook, OlderHook) for hook in self.module._hooks_of("backward"))
        named = older and isinstance(out, dict)
        outputs = out if several else list(out.values()) if named else (out,)
        positions = _needing(outputs)
        if positions is None:
            return out
        count = len(outputs)  # `done` must not refer to the outputs, which keep its graph alive

        def done(grads: tuple[Any, ...]) -> tuple[Any, ...]:
            self.grad_output = arrived = self._before_backward(_placed(count, positions, grads))
            if self.positions is None:
                self._run((None,) * self.count)
            return tuple(arrived[i] for i in positions)

        listed = _behind(outputs, positions, done, False)
        if named:
            gated = copy.copy(out)
            gated.update(zip(out, listed, strict=True))
            return gated
        if not several:
            return listed[0]
        return type(out)(*listed) if hasattr(out, "_fields") else type(out)(listed)

    def _inputs_done(self, grads: tuple[Any, ...]) -> tuple[Any, ...]:
        if self.grad_output is None:  # no gradient came through the module
            return grads
        assert self.positions is not None
        gradients = self._run(_placed(self.count, self.positions, grads))
        return tuple(gradients[i] for i in self.positions)

    def _before_backward(self, grad_output: tuple[Any, ...]) -> tuple[Any, ...]:
        for hook in self.module._hooks_of("before_backward"):
            result = hook(self.module, grad_output)
            grad_output = self._replaced(grad_output, result, "backward pre-hook", "output")
        return grad_output

    def _run(self, grad_input: tuple[Any, ...]) -> tuple[Any, ...]:
        grad_output, self.grad_output = self.grad_output, None
        for hook in self.module._hooks_of("backward"):
            result = hook(self.module, grad_input, grad_output)
            listed = result if isinstance(result, (tuple, list)) else (result,)
            if self.positions is None and any(one is not None for one in listed):
                raise RuntimeError(
                    f"a backward hook of {type(self.module).__name__} returned a gradient, but "
                    "no input of the module needs one"
                )
            grad_input = self._replaced(grad_input, result, "backward hook", "input")
        return grad_input

    def _replaced(self, before: tuple[Any, ...], result: Any, what: str, of: str) -> Any:
        """The gradients that a hook returned, or those from before it."""
        if result is None:
            return before
        gradients = _as_tuple(result)
        if len(gradients) != len(before):
            raise RuntimeError(
                f"a {what} of {type(self.module).__name__} returned {len(gradients)} gradient(s) "
                f"for {len(before)} {of}(s)"
            )
        return gradients


def _needing(values: Sequence[Any]) -> list[int] | None:
    """The positions of the tensors; None if no gradient will come."""
    positions = [i for i, value in enumerate(values) if isinstance(value, Tensor)]
    if state.here.grad_enabled and any(values[i].requires_grad for i in positions):
        return positions
    return None


def _behind(values: Sequence[Any], positions: list[int], done: Hook, unused: bool) -> list[Any]:
    """The values with the tensors at these positions behind a gate."""
    listed = list(values)
    for i, tensor in zip(positions, _Gate.apply(done, unused, *(values[i] for i in positions))):
        listed[i] = tensor
    return listed
