"""Parameter and Buffer: tensors that a Module registers on assignment."""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from gradwalk.graph.source import caller
from gradwalk.ops.core.dtypes import category, get_default_dtype
from gradwalk.sparse import SparseTensor
from gradwalk.tensors import creation
from gradwalk.tensors.tensor import Tensor

BUFFERS = (Tensor, SparseTensor)  # what a module keeps as a buffer


class Parameter(Tensor):
    """A leaf tensor that becomes part of a Module when it is assigned to one.

    >>> import gradwalk as gw
    >>> gw.nn.Parameter(gw.zeros(2))
    Parameter containing:
    tensor([0., 0.], requires_grad=True)
    """

    __slots__ = ()

    def __new__(cls, data: Any = None, requires_grad: bool = True) -> Self:
        self = object.__new__(cls)
        self._set(_array(data), None, 0)
        self.code, self.position = caller()
        self.requires_grad = requires_grad
        return self

    def _give_attributes(self, copied: Tensor, memo: dict[Any, Any]) -> None:
        """Nothing: as in PyTorch, a deep copy of a parameter has no attributes of the program."""

    def __repr__(self) -> str:
        return "Parameter containing:\n" + super().__repr__()

    def __format__(self, spec: str) -> str:
        return super().__format__(spec) if spec else str(self)  # as PyTorch's, with its first line


class Buffer(Tensor):
    """A tensor that becomes a buffer of a Module when it is assigned to one: part of its state,
    but not learned.

    >>> import gradwalk as gw
    >>> module = gw.nn.Module()
    >>> module.mean = gw.nn.Buffer(gw.zeros(2))
    >>> dict(module.state_dict())
    {'mean': tensor([0., 0.])}
    """

    __slots__ = ()
    persistent: bool  # whether it is in `state_dict`

    def __new__(cls, data: Any = None, *, persistent: bool = True) -> Self:
        self = object.__new__(cls)
        self._set(_array(data), None, 0)
        self.code, self.position = caller()
        self.persistent = persistent
        return self


class UninitializedParameter(Parameter):
    """A parameter whose shape is not known yet; an optimizer may have it already."""

    __slots__ = ()

    def materialize(self, like: Any) -> None:
        """Become a parameter with the elements of another."""
        self._array = like._array
        self.__class__ = Parameter  # type: ignore[assignment]


class UninitializedBuffer(Buffer):
    """A buffer whose shape is not known yet."""

    __slots__ = ()


def empty_parameter(shape: Any, dtype: Any, wanted: bool = True) -> Parameter | None:
    """A parameter whose elements are not set yet; None unless `wanted`."""
    return Parameter(creation.empty(shape, dtype=dtype)) if wanted else None


def _array(data: Any) -> np.ndarray[Any, Any]:
    """The elements; shares the memory of a tensor or array, as in PyTorch."""
    if isinstance(data, Tensor):
        return data._shared("Parameter(...)")
    if not isinstance(data, np.ndarray):
        data = np.asarray(() if data is None else data, get_default_dtype())
    category(data.dtype)
    return data
