"""Nested containers under PyTorch's names: flatten them, rebuild them, map over their leaves.

Unlike in `engine/tree.py`, None is a leaf, as it is in PyTorch.
"""

from __future__ import annotations

from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any

__all__ = [
    "TreeSpec", "tree_all", "tree_any", "tree_flatten", "tree_leaves", "tree_map",
    "tree_map_only", "tree_structure", "tree_unflatten",
]  # fmt: skip

IsLeaf = Callable[[Any], bool] | None


class TreeSpec:
    """The containers of a tree without its leaves."""

    def __init__(self, tree: Any, is_leaf: IsLeaf = None) -> None:
        inside = None if is_leaf is not None and is_leaf(tree) else _inside(tree)
        self.type: Any = None if inside is None else type(tree)
        self.keys = list(tree) if inside is not None and isinstance(tree, dict) else None
        self.factory = getattr(tree, "default_factory", None)  # of a defaultdict
        self.parts = [TreeSpec(part, is_leaf) for part in inside or ()]

    @property
    def num_leaves(self) -> int:
        """How many leaves the tree has."""
        return 1 if self.type is None else sum(part.num_leaves for part in self.parts)

    def unflatten(self, leaves: Iterable[Any]) -> Any:
        """The containers with these leaves."""
        leaves = list(leaves)
        if len(leaves) != self.num_leaves:
            raise ValueError(f"the tree has {self.num_leaves} leaves, and {len(leaves)} were given")
        return self._filled(iter(leaves))

    def _filled(self, leaves: Iterator[Any]) -> Any:
        if self.type is None:
            return next(leaves)
        parts = [part._filled(leaves) for part in self.parts]
        if issubclass(self.type, dict):
            made = zip(self.keys or (), parts)
            with_factory = (self.factory,) if issubclass(self.type, defaultdict) else ()
            return self.type(*with_factory, made)
        if hasattr(self.type, "_fields"):
            return self.type(*parts)
        return self.type(parts)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, TreeSpec):
            return NotImplemented
        mine, theirs = (self.type, self.keys), (other.type, other.keys)
        return mine == theirs and self.parts == other.parts

    __hash__ = None  # type: ignore[assignment]


def _inside(tree: Any) -> list[Any] | None:
    """What a container holds; None for a leaf."""
    if type(tree) in (dict, OrderedDict, defaultdict):
        return list(tree.values())
    if type(tree) in (tuple, list, deque) or (isinstance(tree, tuple) and hasattr(tree, "_fields")):
        return list(tree)
    return None


def tree_leaves(tree: Any, is_leaf: IsLeaf = None) -> list[Any]:
    """What is in nested tuples, lists and dicts."""
    inside = None if is_leaf is not None and is_leaf(tree) else _inside(tree)
    if inside is None:
        return [tree]
    return [leaf for part in inside for leaf in tree_leaves(part, is_leaf)]


def tree_structure(tree: Any, is_leaf: IsLeaf = None) -> TreeSpec:
    """The containers of a tree."""
    return TreeSpec(tree, is_leaf)


def tree_flatten(tree: Any, is_leaf: IsLeaf = None) -> tuple[list[Any], TreeSpec]:
    """The leaves, and the containers they were in.

    >>> from gradwalk.utils._pytree import tree_flatten, tree_unflatten
    >>> leaves, spec = tree_flatten({"a": [1, (2, None)]})
    >>> leaves, tree_unflatten([4, 5, 6], spec)
    ([1, 2, None], {'a': [4, (5, 6)]})
    """
    return tree_leaves(tree, is_leaf), TreeSpec(tree, is_leaf)


def tree_unflatten(leaves: Iterable[Any], treespec: TreeSpec) -> Any:
    """The containers with other leaves."""
    return treespec.unflatten(leaves)


def tree_map(func: Callable[..., Any], tree: Any, *rests: Any, is_leaf: IsLeaf = None) -> Any:
    """The same containers with `func` applied to every leaf, and to those of `rests` beside it."""
    leaves, spec = tree_flatten(tree, is_leaf)
    others = [tree_leaves(rest, is_leaf) for rest in rests]
    return spec.unflatten(func(*row) for row in zip(leaves, *others, strict=True))


def tree_map_only(kind: Any, func: Any, tree: Any, is_leaf: IsLeaf = None) -> Any:
    """`tree_map` for the leaves of a type; the others stay."""
    return tree_map(lambda x: func(x) if isinstance(x, kind) else x, tree, is_leaf=is_leaf)


def tree_any(pred: Callable[[Any], bool], tree: Any, is_leaf: IsLeaf = None) -> bool:
    """Whether `pred` holds for a leaf."""
    return any(map(pred, tree_leaves(tree, is_leaf)))


def tree_all(pred: Callable[[Any], bool], tree: Any, is_leaf: IsLeaf = None) -> bool:
    """Whether `pred` holds for every leaf."""
    return all(map(pred, tree_leaves(tree, is_leaf)))
