"""Hooks of optimizers: around a step, and around saving and loading."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

from gradwalk.engine.hooks import Hookable, RemovableHandle, checked_arguments

Hook = Callable[..., Any]
Step = TypeVar("Step", bound=Callable[..., Any])


class OptimizerHooks(Hookable):
    """The methods of an Optimizer that register hooks; `handle.remove()` removes one again."""

    _opt_called = False  # whether a step was made: a schedule should not come before the first

    def _run_hooks(self, kind: str, value: Any = None) -> Any:
        """Call hooks with a value, if there is one, which each may replace; return it."""
        for hook in self._hooks_of(kind):
            result = hook(self) if value is None else hook(self, value)
            value = value if result is None else result
        return value

    def register_step_pre_hook(self, hook: Hook) -> RemovableHandle:
        """Call `hook(optimizer, args, kwargs)` before every step.

        It may return other arguments for `step`, as a pair (args, kwargs) whose `args` begin with
        the optimizer.
        """
        return self._add_hook("before_step", hook)

    def register_step_post_hook(self, hook: Hook) -> RemovableHandle:
        """Call `hook(optimizer, args, kwargs)` after every step.

        >>> import gradwalk as gw
        >>> optimizer = gw.optim.SGD([gw.zeros(1, requires_grad=True)])
        >>> handle = optimizer.register_step_post_hook(lambda *_: print("stepped"))
        >>> optimizer.step()
        stepped
        >>> handle.remove()
        """
        return self._add_hook("after_step", hook)

    def register_state_dict_pre_hook(self, hook: Hook, prepend: bool = False) -> RemovableHandle:
        """Call `hook(optimizer)` before `state_dict` reads the state."""
        return self._add_hook("before_state", hook, prepend)

    def register_state_dict_post_hook(self, hook: Hook, prepend: bool = False) -> RemovableHandle:
        """Call `hook(optimizer, state_dict)`, which may return another state dict."""
        return self._add_hook("after_state", hook, prepend)

    def register_load_state_dict_pre_hook(
        self, hook: Hook, prepend: bool = False
    ) -> RemovableHandle:
        """Call `hook(optimizer, state_dict)` before loading; it may return another state dict."""
        return self._add_hook("before_load", hook, prepend)

    def register_load_state_dict_post_hook(
        self, hook: Hook, prepend: bool = False
    ) -> RemovableHandle:
        """Call `hook(optimizer)` after a state dict was loaded."""
        return self._add_hook("after_load", hook, prepend)


def watched(step: Step) -> Step:
    """Wrap `step` of an optimizer: run its hooks, and note that a step was made."""

    @wraps(step)
    def stepped(self: Any, *args: Any, **keywords: Any) -> Any:
        self._opt_called = True
        if self._hooks is None:
            return step(self, *args, **keywords)
        args = (self, *args)  # as PyTorch's hooks see them
        for hook in self._hooks_of("before_step"):
            changed = hook(self, args, keywords)
            if changed is not None:
                args, keywords = checked_arguments(changed, "a step pre-hook")
        result = step(*args, **keywords)
        for hook in self._hooks_of("after_step"):
            hook(self, args, keywords)
        return result

    return stepped  # type: ignore[return-value]
