"""Hooks of tensors, which see a gradient and may replace it; registering hooks of any kind."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import numpy as np

from gradwalk.engine.errors import AutogradError, made_at, name_of
from gradwalk.graph.abstract import is_array
from gradwalk.graph.handles import AFTER as AFTER
from gradwalk.graph.handles import BEFORE as BEFORE
from gradwalk.graph.handles import RemovableHandle as RemovableHandle
from gradwalk.graph.handles import changes as changes
from gradwalk.ops.elementwise.complex_numbers import turned

Wrap = Callable[..., Any]


class Hookable:
    """What modules and optimizers share: hooks by kind, none until the first is registered."""

    _hooks: dict[str, OrderedDict[int, Any]] | None = None

    def _add_hook(self, kind: str, hook: Any, prepend: bool = False) -> RemovableHandle:
        if self._hooks is None:
            self._hooks = {}
        hooks = self._hooks.setdefault(kind, OrderedDict())
        handle = RemovableHandle(hooks)
        hooks[handle.id] = hook
        if prepend:
            hooks.move_to_end(handle.id, last=False)
        return handle

    def _hooks_of(self, kind: str) -> list[Any]:
        return list((self._hooks or {}).get(kind, {}).values())


def checked_arguments(result: Any, what: str) -> Any:
    """What a pre-hook returned in place of arguments: (args, kwargs)."""
    if isinstance(result, tuple) and len(result) == 2:
        return result
    raise RuntimeError(f"{what} returns None or (args, kwargs), not {type(result).__name__}")


def run_hooks(node: Any, g: Any, wrap: Wrap, graph: bool) -> Any:
    """Show each hook the complete gradient as a tensor; it may return another in its place.

    The tensor is read-only, because its memory may be shared.
    """
    gradients = list(g) if node.many else [g]
    for index, hooks in node.hooks.items():
        if index < 0:  # of another kind
            continue
        # `retain_grad` has the key None: it keeps the gradient that the hooks return.
        for _, hook in sorted(hooks.items(), key=lambda item: item[0] is None):
            if gradients[index] is not None:
                result = hook(read_only(turned(gradients[index]), wrap))
                if result is not None:
                    _check_result(node, hook, result, gradients[index])
                    gradients[index] = turned(result if graph else result._array)
    return gradients if node.many else gradients[0]


def run_before(node: Any, g: Any, wrap: Wrap) -> Any:
    """Show each pre-hook of a node the gradients of its outputs; it may return others."""
    gradients = list(g) if node.many else [g]
    for hook in list(node.hooks.get(BEFORE, {}).values()):
        gradients = _in_place_of(node, hook, gradients, hook(_shown(gradients, wrap)))
    return gradients if node.many else gradients[0]


def run_after(node: Any, g: Any, contributions: Any, wrap: Wrap) -> Any:
    """Show each hook of a node what it passes on, and what it got; it may return other such."""
    if AFTER not in node.hooks:
        return contributions
    got = _shown(list(g) if node.many else [g], wrap)
    for hook in list(node.hooks[AFTER].values()):
        result = hook(_shown(contributions, wrap), got)
        contributions = _in_place_of(node, hook, contributions, result)
    return contributions


def _shown(gradients: Any, wrap: Wrap) -> tuple[Any, ...]:
    return tuple(None if g is None else read_only(turned(g), wrap) for g in gradients)


def _in_place_of(node: Any, hook: Any, gradients: Any, result: Any) -> Any:
    """The gradients that a hook returned, checked; None leaves them as they are."""
    if result is None:
        return gradients
    if not isinstance(result, tuple):
        raise TypeError(f"a hook on a node returns None or a tuple, not {type(result).__name__}")
    if len(result) != len(gradients):
        raise RuntimeError(
            f"a hook on {name_of(node)} returned {len(result)} gradients in place of "
            f"{len(gradients)}"
        )
    new = []
    for one, g in zip(result, gradients, strict=True):
        if one is not None and g is not None:
            _check_result(node, hook, one, g)
            one = turned(one if hasattr(g, "_array") else one._array)
        new.append(None if g is None else one)
    return new


def read_only(g: Any, wrap: Wrap) -> Any:
    """A gradient (array or tensor) as a tensor that cannot be changed in place."""
    array = g._array if hasattr(g, "_array") else g
    shown = (array if is_array(array) else np.asarray(array)).view()
    shown.flags.writeable = False
    if not hasattr(g, "_array"):
        return wrap(shown)
    return wrap(shown, g._node or (g if g.requires_grad else None), g._index)


def _check_result(node: Any, hook: Any, result: Any, g: Any) -> None:
    """Raise unless the result of a hook can replace the gradient."""
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
