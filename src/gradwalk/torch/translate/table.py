"""The table from PyTorch's operations to ours, and the few words its entries are written in."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import torch

from gradwalk.ops.core.dtypes import category
from gradwalk.ops.shape.reshaping import normal_axes, normal_axis

LEAF = ""  # the op of what is made of no tensor: zeros, an arange, random numbers


class Made(NamedTuple):
    """An argument that the operation itself made: one of its outputs, such as a dropout mask."""

    output: int


@dataclass(frozen=True)
class Known:
    """A call of a PyTorch operation as a call of one of ours."""

    op: str  # in gradwalk.ops.TABLE; LEAF for a constant
    args: tuple[Any, ...] = ()  # in our op's order: tensors, numbers, or `Made`
    attrs: dict[str, Any] = field(default_factory=dict)
    outputs: tuple[int, ...] = (0,)  # which of the operation's outputs are ours, in our order


class Call:
    """The arguments of a call under the names of its schema, defaults filled in."""

    def __init__(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        names, defaults = _schema(func)
        self.values = defaults | dict(zip(names, args, strict=False)) | kwargs

    def __getattr__(self, name: str) -> Any:
        try:
            return self.values[name]
        except KeyError:
            raise AttributeError(name) from None

    # -- what many entries ask ---------------------------------------------------------------------

    def axis(self, name: str = "dim") -> int:
        """A dimension of `self`, counted from the front."""
        return normal_axis(self.values[name], self.self.dim())

    def axes(self, name: str = "dim") -> tuple[int, ...]:
        """Dimensions of `self`; all of them for None and for an empty list."""
        dim = self.values.get(name)
        if dim is None or dim == []:
            return tuple(range(self.self.dim()))
        return normal_axes(dim, self.self.dim())

    def given(self, *names: str) -> tuple[Any, ...]:
        """Those of some optional tensors that there are."""
        return tuple(self.values[name] for name in names if self.values[name] is not None)


@functools.cache
def _schema(func: Any) -> tuple[tuple[str, ...], dict[str, Any]]:
    arguments = func._schema.arguments
    defaults = {a.name: a.default_value for a in arguments if a.has_default_value()}
    return tuple(a.name for a in arguments), defaults


Entry = Callable[[Call], Known | None]
TABLE: dict[str, Entry] = {}  # "add.Tensor" -> how to translate it


def entry(*names: str) -> Callable[[Entry], Entry]:
    """Under these names of overloads stands the decorated function."""

    def put(function: Entry) -> Entry:
        for name in names:
            TABLE[name if "." in name else f"{name}.default"] = function
        return function

    return put


def direct(
    name: str, op: str, operands: str, outputs: tuple[int, ...] = (0,), **attrs: Any
) -> None:
    """An overload that is one of our ops: its operands in our order, and our attributes.

    An attribute is the name of an argument, or a function of the call.
    """
    names = operands.split()

    def known(call: Call) -> Known:
        values = call.values
        return Known(
            op,
            tuple([values[n] for n in names]),
            {k: v(call) if callable(v) else values[v] for k, v in attrs.items()},
            outputs,
        )

    entry(*name.split())(known)


def same(names: str, operands: str) -> None:
    """Overloads that are our op of the same name."""
    for name in names.split():
        direct(name, name.partition(".")[0], operands)


# -- dtypes ----------------------------------------------------------------------------------------

_DTYPES = {
    torch.float16: np.float16,
    torch.bfloat16: np.float32,  # NumPy has none: what it holds is kept in the next larger
    torch.float32: np.float32,
    torch.float64: np.float64,
    torch.bool: np.bool_,
    torch.uint8: np.uint8,
    torch.int8: np.int8,
    torch.int16: np.int16,
    torch.int32: np.int32,
    torch.int64: np.int64,
}


def numpy_dtype(dtype: torch.dtype) -> np.dtype[Any] | None:
    """The dtype in which we hold these numbers; None if we do not (complex, float8, ...)."""
    found = _DTYPES.get(dtype)
    return None if found is None else np.dtype(found)


def is_plain(tensor: torch.Tensor) -> bool:
    """Whether it is an ordinary array of numbers that we hold: not complex, sparse or quantized."""
    return tensor.layout is torch.strided and tensor.dtype in _DTYPES and not tensor.is_nested


def is_integer(value: Any) -> bool:
    """Whether it is a tensor of integers or booleans."""
    return isinstance(value, torch.Tensor) and not value.is_floating_point()


def keeps_dtype(call: Call) -> bool:
    """Whether the result has the dtype that it would have without being asked for one."""
    wanted = call.values.get("dtype")
    if wanted is None:
        return True
    own = numpy_dtype(call.self.dtype)
    natural = torch.int64 if own is not None and category(own) < 2 else call.self.dtype
    return bool(wanted == natural)
