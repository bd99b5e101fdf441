"""Nested containers (tuples, lists, dicts) of tensors: flatten and rebuild."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import Any


def leaves(tree: Any) -> list[Any]:
    """The leaves of nested containers; None is skipped."""
    if isinstance(tree, dict):
        tree = tuple(tree.values())
    if isinstance(tree, (tuple, list)):
        return [leaf for part in tree for leaf in leaves(part)]
    return [] if tree is None else [tree]


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
