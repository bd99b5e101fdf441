"""Hooks: functions that see a tensor's gradient on its way and may replace it."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np

from gradwalk.engine.errors import AutogradError, made_at, name_of
from gradwalk.graph.abstract import is_array
from gradwalk.graph.versions import Clock

Wrap = Callable[..., Any]
# How often a hook came or went, or an attribute of any module was set: compiled functions look at
# theirs again only if it has moved.
changes = Clock()


class RemovableHandle:
    """What `register_hook` returns: `remove()`, or the end of a `with`, takes the hook off."""

    _numbers = itertools.count()

    def __init__(self, hooks: dict[Any, Any]) -> None:
        self.id = next(RemovableHandle._numbers)
        self._hooks = hooks
        changes.now += 1

    def remove(self) -> None:
        """Take the hook off; a second call does nothing."""
        self._hooks.pop(self.id, None)
        changes.now += 1

    def __enter__(self) -> RemovableHandle:
        return self

    def __exit__(self, *_: object) -> None:
        self.remove()


def run_hooks(node: Any, g: Any, wrap: Wrap, graph: bool) -> Any:
    """Each hook sees the complete gradient as a tensor and may return another in its place.

    What it sees is read-only: others may receive the same memory.
    """
    found = list(g) if node.many else [g]
    for index, hooks in node.hooks.items():
        # `retain_grad` has the key None: it keeps what the hooks have made of the gradient.
        for _, hook in sorted(hooks.items(), key=lambda item: item[0] is None):
            if found[index] is not None:
                result = hook(read_only(found[index], wrap))
                if result is not None:
                    _check_result(node, hook, result, found[index])
                    found[index] = result if graph else result._array
    return found if node.many else found[0]


def read_only(g: Any, wrap: Wrap) -> Any:
    """A gradient (array or tensor) as a tensor that cannot be changed in place."""
    array = g._array if hasattr(g, "_array") else g
    shown = (array if is_array(array) else np.asarray(array)).view()
    shown.flags.writeable = False
    if not hasattr(g, "_array"):
        return wrap(shown)
    return wrap(shown, g._node or (g if g.requires_grad else None), g._index)


def _check_result(node: Any, hook: Any, result: Any, g: Any) -> None:
    """Raise unless what a hook returned can take the place of the gradient it was given."""
    if hasattr(result, "_array") and (result.shape, result.dtype) == (g.shape, g.dtype):
        return
    what = type(result).__name__
    if hasattr(result, "_array"):
        what = f"a {result.dtype} tensor of shape {tuple(result.shape)}"
    raise AutogradError(
        f"a hook on {name_of(node)} ({getattr(hook, '__name__', hook)}) returned {what} in "
        f"place of a {g.dtype} gradient of shape {tuple(g.shape)}; they must be alike.\n"
        f"  made at:   {made_at(node)}\n"
        "Fix: return a tensor like the gradient, or None to leave it as it is."
    )
