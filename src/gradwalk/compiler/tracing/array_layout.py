"""How an array lies in the memory of its owner, said as a chain of view ops."""

from __future__ import annotations

from typing import Any

import numpy as np

from gradwalk.ops.core.op import Op
from gradwalk.ops.index.indexing import getitem
from gradwalk.ops.shape.reshaping import permute, reshape

Link = tuple[Op, dict[str, Any], int]


def way_to(owner: np.ndarray[Any, Any], array: np.ndarray[Any, Any]) -> list[Link] | None:
    """The view ops that lead from an owner to an array on its memory; None if there are none.

    Found are whole blocks of it, in any shape and order of dimensions: what reshape, transpose
    and slices of leading dimensions make. Columns of a matrix are not.
    """
    if owner.dtype != array.dtype or not owner.flags.c_contiguous or not array.size:
        return None
    order = sorted(range(array.ndim), key=lambda i: (-abs(array.strides[i]), i))
    block = array.transpose(order)
    if not block.flags.c_contiguous:
        return None
    start, rest = divmod(_address(array) - _address(owner), owner.itemsize)
    if rest or not 0 <= start <= owner.size - array.size:
        return None
    way: list[Link] = []
    if array.size != owner.size:
        if owner.ndim != 1:
            way.append((reshape, {"shape": (owner.size,)}, 0))
        way.append((getitem, {"index": (("slice", start, start + array.size, None),)}, 0))
    if block.shape != (owner.shape if not way else (array.size,)):
        way.append((reshape, {"shape": block.shape}, 0))
    if order != list(range(array.ndim)):
        axes = tuple(sorted(range(array.ndim), key=order.__getitem__))
        way.append((permute, {"axes": axes}, 0))
    return way


def _address(array: np.ndarray[Any, Any]) -> int:
    return int(array.__array_interface__["data"][0])
