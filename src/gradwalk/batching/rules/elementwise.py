"""Batching rules of elementwise ops, and of others whose leading axes broadcast."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gradwalk.batching.lanes import Lanes, aligned, spread
from gradwalk.ops.core.op import Op


def elementwise(op: Op, args: Sequence[Any], attrs: dict[str, Any], size: int) -> Any:
    """Operands broadcast from the last axis, so batched ones get axes between."""
    ranks = {len(a.shape) for a in args if a.__class__ is Lanes}
    if len(ranks) == 1:
        return op(*[a.inner if a.__class__ is Lanes else a for a in args], **attrs)
    return op(*[aligned(a, max(ranks)) for a in args], **attrs)


def side_by_side(op: Op, args: Sequence[Any], attrs: dict[str, Any], size: int) -> Any:
    """An op that works along any leading axes, which all operands must have."""
    return op(*[spread(a, size) if a.__class__ is Lanes else a for a in args], **attrs)
