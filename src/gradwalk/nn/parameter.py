"""Parameter: a tensor that a Module finds by itself."""

from __future__ import annotations

from typing import Any

import numpy as np

from gradwalk.graph.source import caller
from gradwalk.ops.dtypes import category, get_default_dtype
from gradwalk.tensor import Tensor


class Parameter(Tensor):
    """A leaf tensor that becomes part of a Module when it is assigned to one.

    >>> import gradwalk as gw
    >>> gw.nn.Parameter(gw.zeros(2))
    Parameter containing:
    tensor([0., 0.], requires_grad=True)
    """

    __slots__ = ()

    def __init__(self, data: Any = (), requires_grad: bool = True) -> None:
        if isinstance(data, Tensor):
            array = data._array  # the same memory, as in PyTorch
        elif isinstance(data, np.ndarray):
            array = data
        else:
            array = np.asarray(data, get_default_dtype())
        category(array.dtype)
        self._set(array, None, 0)
        self.code, self.position = caller()
        self.requires_grad = requires_grad

    def __repr__(self) -> str:
        return "Parameter containing:\n" + super().__repr__()
