"""`nn.modules.utils`: a number as the same number for each dimension; state dicts of wrappers."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

__all__ = [
    "_ntuple", "_pair", "_quadruple", "_single", "_triple",
    "consume_prefix_in_state_dict_if_present",
]  # fmt: skip


def _ntuple(n: int, name: str = "parse") -> Callable[[Any], tuple[Any, ...]]:
    """The function that makes n of one number, and keeps what is several already."""

    def parse(x: Any) -> tuple[Any, ...]:
        return tuple(x) if isinstance(x, Iterable) else (x,) * n

    parse.__name__ = name
    return parse


def consume_prefix_in_state_dict_if_present(state_dict: dict[str, Any], prefix: str) -> None:
    """Take `prefix` off the names that begin with it, in place: "module." of a DataParallel.

    >>> state = {"module.weight": 1, "step": 2}
    >>> consume_prefix_in_state_dict_if_present(state, "module.")
    >>> state
    {'weight': 1, 'step': 2}
    """
    for table in (state_dict, getattr(state_dict, "_metadata", {})):
        # The names keep their order. Those of modules (in the metadata) have no dot at their end.
        items = list(table.items())
        table.clear()
        for name, value in items:
            alone = name == prefix.rstrip(".") and table is not state_dict
            table["" if alone else name.removeprefix(prefix)] = value


_single, _pair, _triple, _quadruple = _ntuple(1), _ntuple(2), _ntuple(3), _ntuple(4)
