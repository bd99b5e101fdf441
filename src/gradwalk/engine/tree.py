"""Nested containers (tuples, lists, dicts) of tensors: flatten and rebuild."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import Any


def leaves(tree: Any) -> list[Any]:
    """The leaves of nested containers; None is skipped."""
    return list(_walk(tree))


def _walk(tree: Any) -> Iterator[Any]:
    if isinstance(tree, dict):
        for key in tree:
            yield from _walk(tree[key])
    elif isinstance(tree, (tuple, list)):
        for part in tree:
            yield from _walk(part)
    elif tree is not None:
        yield tree


def rebuild(tree: Any, replacements: Iterator[Any]) -> Any:
    """The same containers with the leaves replaced in order."""
    if isinstance(tree, dict):
        made = {key: rebuild(part, replacements) for key, part in tree.items()}
        return OrderedDict(made) if isinstance(tree, OrderedDict) else made
    if isinstance(tree, tuple) and hasattr(tree, "_fields"):  # a named tuple
        return type(tree)(*(rebuild(part, replacements) for part in tree))
    if isinstance(tree, (tuple, list)):
        return type(tree)([rebuild(part, replacements) for part in tree])
    return None if tree is None else next(replacements)


def mapped(function: Callable[[Any], Any], tree: Any) -> Any:
    """The same containers with `function` applied to every leaf."""
    return rebuild(tree, iter([function(leaf) for leaf in leaves(tree)]))
