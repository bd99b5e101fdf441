"""One number for all dimensions, or one for each."""

from __future__ import annotations

from typing import Any


def several(value: Any, count: int, name: str) -> tuple[Any, ...]:
    """`value` as a tuple of `count`: a single one stands for all of them."""
    if not isinstance(value, (tuple, list)):
        return (value,) * count
    if len(value) != count:
        raise ValueError(f"{name} is one number or {count}, not {len(value)}: {value!r}")
    return tuple(value)
