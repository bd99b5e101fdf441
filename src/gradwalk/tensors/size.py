"""`Size`: the shape of a tensor, a tuple that programs can tell from elements."""

from __future__ import annotations

import math
from typing import Any


class Size(tuple[int, ...]):
    """What `Tensor.shape` is: the length of each dimension.

    It is a tuple, equal to the plain one. A type of its own tells the legacy constructors that
    `Tensor(x.shape)` has that shape, not those elements.

    >>> import gradwalk as gw
    >>> gw.ones(2, 3).shape.numel(), gw.Tensor(gw.ones(2, 3).shape).shape
    (6, (2, 3))
    """

    __slots__ = ()

    def numel(self) -> int:
        """The number of elements of a tensor of this shape."""
        return math.prod(self)

    def __getitem__(self, key: Any) -> Any:
        part = tuple.__getitem__(self, key)
        return Size(part) if type(key) is slice else part

    def __add__(self, other: Any) -> Any:
        return Size(tuple.__add__(self, other))

    def __radd__(self, other: tuple[int, ...]) -> Size:
        return Size(tuple.__add__(other, self))

    def __mul__(self, count: Any) -> Any:
        return Size(tuple.__mul__(self, count))

    __rmul__ = __mul__
