"""Nested state (of an optimizer, a loader, a generator) as arrays and JSON, and back."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from gradwalk.io.errors import FileError
from gradwalk.io.safetensors_files import Array, array_of
from gradwalk.tensors.apply import wrap
from gradwalk.tensors.tensor import Tensor

# JSON has one type of key and one of list. Other types become {MARK: kind, ...}.
_MARK = "$"


def pack(
    value: Any, name: str, arrays: dict[str, Any], keep: Callable[[Any, str], Any] = array_of
) -> Any:
    """Convert a value to JSON; its arrays go to `arrays`, under names that begin with `name`, as
    `keep` returns them."""
    if value is None or isinstance(value, (bool, int, float, str)):
        return value if not isinstance(value, np.generic) else value.item()
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, (Tensor, np.ndarray)):
        arrays[name] = keep(value, name)
        return {_MARK: "tensor" if isinstance(value, Tensor) else "array", "name": name}
    if isinstance(value, (list, tuple)):
        packed = [pack(v, f"{name}.{i}", arrays, keep) for i, v in enumerate(value)]
        return {_MARK: "tuple", "items": packed} if isinstance(value, tuple) else packed
    if isinstance(value, Mapping):
        if all(isinstance(key, str) and key != _MARK for key in value):
            return {k: pack(v, f"{name}.{k}", arrays, keep) for k, v in value.items()}
        if all(isinstance(key, (str, int, float, bool)) for key in value):
            items = [[k, pack(v, f"{name}.{k}", arrays, keep)] for k, v in value.items()]
            return {_MARK: "dict", "items": items}
    raise TypeError(
        f"{name} holds {type(value).__name__}, which a checkpoint cannot: it takes numbers, text, "
        "lists, dicts and tensors, because loading must not execute code"
    )


def converted(value: Any, leaf: Callable[[Any], Any]) -> Any:
    """Nested dicts, lists and tuples with `leaf` applied to everything inside."""
    if isinstance(value, Mapping):
        return {key: converted(inner, leaf) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(converted(inner, leaf) for inner in value)
    return leaf(value)


def unpack(value: Any, arrays: Mapping[str, Array]) -> Any:
    """The inverse of `pack`; anything that `pack` does not write raises FileError."""
    if isinstance(value, list):
        return [unpack(v, arrays) for v in value]
    if not isinstance(value, dict):
        return value
    if _MARK not in value:
        return {k: unpack(v, arrays) for k, v in value.items()}
    match value:
        case {"$": "tensor" | "array" as kind, "name": str(name)} if name in arrays:
            return wrap(arrays[name]) if kind == "tensor" else arrays[name]
        case {"$": "tuple", "items": list(items)}:
            return tuple(unpack(v, arrays) for v in items)
        case {"$": "dict", "items": list(items)} if all(_is_item(pair) for pair in items):
            return {k: unpack(v, arrays) for k, v in items}
    raise FileError(f"its description is damaged near {str(value)[:80]}")


def _is_item(pair: Any) -> bool:
    return (
        isinstance(pair, list) and len(pair) == 2 and isinstance(pair[0], (str, int, float, bool))
    )
