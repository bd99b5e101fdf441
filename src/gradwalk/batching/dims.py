"""Dimensions of samples, in containers that match those of tensors."""

from __future__ import annotations

from typing import Any

from gradwalk.ops.shape.reshaping import permute

Dims = Any  # an int, None, or containers of them that match those of tensors


def flat_dims(what: str, where: str, dims: Dims, tree: Any) -> list[int | None]:
    """The dimension for each of `leaves(tree)`; one for a container holds for all in it."""
    if not isinstance(tree, (tuple, list, dict)):
        if dims is not None and (not isinstance(dims, int) or isinstance(dims, bool)):
            raise ValueError(
                f"{what} has {dims!r} for {where}, which is a {type(tree).__name__}.\n"
                "Fix: an integer or None for each tensor."
            )
        return [] if tree is None else [dims]
    keys = list(tree) if isinstance(tree, dict) else list(range(len(tree)))
    if dims is None or isinstance(dims, int):
        given = dict.fromkeys(keys, dims)
    elif isinstance(dims, dict) and isinstance(tree, dict) and dims.keys() == tree.keys():
        given = dims
    elif _is_sequence(dims) and _is_sequence(tree) and len(dims) == len(tree):
        given = dict(enumerate(dims))
    else:
        raise ValueError(
            f"{what} has {dims!r} for {where}, which has another structure: {_structure(tree)}.\n"
            "Fix: the same containers, with an integer or None for each tensor; or one for all."
        )
    return [d for k in keys for d in flat_dims(what, f"{where}[{k!r}]", given[k], tree[k])]


def flat_out_dims(what: str, dims: Dims, result: Any) -> list[int | None]:
    """The dimension for each tensor of a result; one tensor may have a tuple of one for it."""
    if isinstance(dims, tuple) and len(dims) == 1 and hasattr(result, "_array"):
        (dims,) = dims
    return flat_dims(what, "the result", dims, result)


def _is_sequence(thing: Any) -> bool:
    return isinstance(thing, (tuple, list))


def _structure(tree: Any) -> str:
    if isinstance(tree, dict):
        return f"a dict with {', '.join(map(repr, tree))}"
    return f"a {type(tree).__name__} of {len(tree)}"


def to_front(tensor: Any, dim: int) -> Any:
    """A tensor with one dimension moved to the front; itself if it is there."""
    dim %= tensor.ndim
    if dim == 0:
        return tensor
    return permute(tensor, axes=(dim, *(i for i in range(tensor.ndim) if i != dim)))


def from_front(tensor: Any, dim: int) -> Any:
    """A tensor with its first dimension moved to `dim`; itself if it is there."""
    dim %= tensor.ndim
    if dim == 0:
        return tensor
    rest = range(dim + 1, tensor.ndim)
    return permute(tensor, axes=(*range(1, dim + 1), 0, *rest))
