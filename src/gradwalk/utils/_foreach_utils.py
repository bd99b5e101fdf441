"""PyTorch's `_foreach_` functions, one operation on every tensor of a list, and their helpers.

Optimizers that third parties write for PyTorch call them by these private names. Each is the
operation of the same name in a loop: `gradwalk._foreach_add_` is `add_` of every tensor.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from typing import Any

from gradwalk.ops import names
from gradwalk.ops.reduce.norms import vector_norm
from gradwalk.tensors.tensor import Tensor

__all__: list[str] = []

Lists = list[list[Tensor | None]]
PREFIX = "_foreach_"
_BOTH = frozenset(  # with and without an underscore
    re.findall(
        r"\w+",
        """abs acos add addcdiv addcmul asin atan ceil clamp_max clamp_min cos cosh div erf erfc exp
        expm1 floor frac lerp lgamma log log10 log1p log2 maximum minimum mul neg pow reciprocal
        round rsqrt sigmoid sign sin sinh sqrt sub tan tanh trunc""",
    )
)
_ONE_FORM = frozenset({"copy_", "max", "norm", "zero_"})
_OF_NUMBERS = {"maximum": "clamp_min", "minimum": "clamp_max"}  # where the other is no tensor


def find(name: str) -> Callable[..., Any] | None:
    """The function of a name that begins with `_foreach_`, or None.

    >>> import gradwalk as gw
    >>> gw._foreach_mul([gw.ones(1), gw.ones(2)], [2, 3])
    (tensor([2.]), tensor([3., 3.]))
    """
    base = name.removeprefix(PREFIX)
    if base == name or not (base in _ONE_FORM or base.removesuffix("_") in _BOTH):
        return None
    return partial(_run, base)


def _run(base: str, *lists: Any, **options: Any) -> tuple[Any, ...]:
    """One operation on the first, second, ... entries of the lists, and what is no list in each."""
    lengths = {len(given) for given in lists if isinstance(given, (list, tuple))}
    if len(lengths) != 1:
        raise RuntimeError(f"{PREFIX}{base} takes lists of one length, not of {sorted(lengths)}")
    results = [
        _one(base, i, *[x[i] if isinstance(x, (list, tuple)) else x for x in lists], **options)
        for i in range(lengths.pop())
    ]
    return tuple(results)


def _one(base: str, i: int, first: Any, *others: Any, **options: Any) -> Any:
    plain = base.removesuffix("_")
    if plain in ("addcmul", "addcdiv") and len(others) == 3:  # the last is a factor, or all factors
        *others, options["scalars"] = others  # type: ignore[assignment]
    if "scalars" in options:
        factor = options.pop("scalars")
        factor = factor[i] if isinstance(factor, (list, tuple)) else factor
        options["value"] = factor[i] if isinstance(factor, Tensor) and factor.ndim else factor
    if plain in _OF_NUMBERS and not isinstance(others[0], Tensor):
        plain = _OF_NUMBERS[plain]
    if plain == "norm":
        order = others[0] if others else options.pop("ord", 2)
        return vector_norm(first, order, **options)
    if not base.endswith("_"):
        return getattr(names, plain)(first, *others, **options)
    if hasattr(Tensor, f"{plain}_"):
        return getattr(first, f"{plain}_")(*others, **options)
    return first.copy_(getattr(names, plain)(first, *others, **options))


def _group_tensors_by_device_and_dtype(
    tensorlistlist: Lists, with_indices: bool = False
) -> dict[tuple[Any, Any], tuple[Lists, list[int]]]:
    """Entries of parallel lists, sorted by the device and dtype of the first list's tensors."""
    groups: dict[tuple[Any, Any], tuple[Lists, list[int]]] = {}
    for i, first in enumerate(tensorlistlist[0]):
        if first is None:
            raise ValueError("the first list names the device and dtype: it may not have None")
        lists, positions = groups.setdefault(
            (first.device, first.dtype), ([[] for _ in tensorlistlist], [])
        )
        for grouped, given in zip(lists, tensorlistlist):
            grouped.extend(given[i : i + 1])  # nothing of an empty list
        if with_indices:
            positions.append(i)
    return groups


def _get_foreach_kernels_supported_devices() -> list[str]:
    return ["cpu", "cuda"]
