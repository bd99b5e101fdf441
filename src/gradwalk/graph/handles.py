"""Hooks in the graph: their kinds, and the handle that removes one."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

from gradwalk.graph.versions import Clock

# Counts hooks added and removed and attributes set on modules: compiled functions check theirs
# again only if it has changed.
changes = Clock()
# Keys of a node's hooks. Those that see the gradient of an output have its index. The others run
# after a leaf's `.grad` was added to, and before and after the visit of a node.
ACCUMULATED, BEFORE, AFTER = -1, -2, -3


class RemovableHandle:
    """What `register_hook` returns: `remove()`, or leaving a `with` block, removes the hook."""

    _numbers = itertools.count()

    def __init__(self, hooks: dict[Any, Any]) -> None:
        self.id = next(RemovableHandle._numbers)
        self._hooks = hooks
        changes.now += 1

    def remove(self) -> None:
        """Remove the hook; a second call does nothing."""
        self._hooks.pop(self.id, None)
        changes.now += 1

    def __enter__(self) -> RemovableHandle:
        return self

    def __exit__(self, *_: object) -> None:
        self.remove()


def registered(owner: Any, key: int, hook: Callable[..., Any]) -> RemovableHandle:
    """Add a hook of one kind to a node or a leaf."""
    if owner.hooks is None:
        owner.hooks = {}
    hooks: dict[Any, Any] = owner.hooks.setdefault(key, {})
    handle = RemovableHandle(hooks)
    hooks[handle.id] = hook
    return handle
