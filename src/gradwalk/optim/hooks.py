"""Hooks of optimizers: around a step, and around saving and loading."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

from gradwalk.engine.hooks import RemovableHandle

Hook = Callable[..., Any]
Step = TypeVar("Step", bound=Callable[..., Any])


class Hooked:
    """The methods of an Optimizer that register hooks.

    Each returns a handle; `handle.remove()` takes the hook off again.
    """

    _hooks: dict[str, dict[int, Hook]] | None = None  # by kind; made when the first comes
    _opt_called = False  # whether a step was made: a schedule should not come before the first

    def _hook(self, kind: str, hook: Hook, prepend: bool = False) -> RemovableHandle:
        if self._hooks is None:
            self._hooks = {}
        hooks = self._hooks.setdefault(kind, {})
        handle = RemovableHandle(hooks)
        later = list(hooks.items()) if prepend else []
        if prepend:
            hooks.clear()  # the handles hold this very dictionary
        hooks[handle.id] = hook
        hooks.update(later)
        return handle

    def _run_hooks(self, kind: str, value: Any = None) -> Any:
        """Call hooks with a value, if there is one, which each may replace; returns it."""
        for hook in list((self._hooks or {}).get(kind, {}).values()):
            found = hook(self) if value is None else hook(self, value)
            value = value if found is None else found
        return value

    def register_step_pre_hook(self, hook: Hook) -> RemovableHandle:
        """Call `hook(optimizer, args, kwargs)` before every step.

        It may return other arguments for `step`, as a pair (args, kwargs); the first of `args` is
        the optimizer.
        """
        return self._hook("before_step", hook)

    def register_step_post_hook(self, hook: Hook) -> RemovableHandle:
        """Call `hook(optimizer, args, kwargs)` after every step.

        >>> import gradwalk as gw
        >>> optimizer = gw.optim.SGD([gw.zeros(1, requires_grad=True)])
        >>> handle = optimizer.register_step_post_hook(lambda *_: print("stepped"))
        >>> optimizer.step()
        stepped
        >>> handle.remove()
        """
        return self._hook("after_step", hook)

    def register_state_dict_pre_hook(self, hook: Hook, prepend: bool = False) -> RemovableHandle:
        """Call `hook(optimizer)` before `state_dict` is made."""
        return self._hook("before_state", hook, prepend)

    def register_state_dict_post_hook(self, hook: Hook, prepend: bool = False) -> RemovableHandle:
        """Call `hook(optimizer, state_dict)`, which may return another state dict."""
        return self._hook("after_state", hook, prepend)

    def register_load_state_dict_pre_hook(
        self, hook: Hook, prepend: bool = False
    ) -> RemovableHandle:
        """Call `hook(optimizer, state_dict)` before loading; it may return another state dict."""
        return self._hook("before_load", hook, prepend)

    def register_load_state_dict_post_hook(
        self, hook: Hook, prepend: bool = False
    ) -> RemovableHandle:
        """Call `hook(optimizer)` when a state dict was loaded."""
        return self._hook("after_load", hook, prepend)


def watched(step: Step) -> Step:
    """`step` of an optimizer with its hooks around it; notes that a step was made."""

    @wraps(step)
    def stepped(self: Any, *args: Any, **keywords: Any) -> Any:
        self._opt_called = True
        if self._hooks is None:
            return step(self, *args, **keywords)
        args = (self, *args)  # as PyTorch's hooks see them
        for hook in list(self._hooks.get("before_step", {}).values()):
            found = hook(self, args, keywords)
            if found is not None:
                if not (isinstance(found, tuple) and len(found) == 2):
                    raise RuntimeError(
                        "a step pre-hook returns None or (args, kwargs), not "
                        f"{type(found).__name__}"
                    )
                args, keywords = found
        result = step(*args, **keywords)
        for hook in list(self._hooks.get("after_step", {}).values()):
            hook(self, args, keywords)
        return result

    return stepped  # type: ignore[return-value]
