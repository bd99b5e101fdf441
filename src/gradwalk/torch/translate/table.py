"""The table from PyTorch's operations to ours, and the helpers that its entries use."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import torch

from gradwalk.ops.core.dtypes import category
from gradwalk.ops.shape.reshaping import normal_axes, normal_axis

LEAF = ""  # the op of a creation operation: zeros, an arange, random numbers


class Made(NamedTuple):
    """An argument that is an output of the operation itself, such as a dropout mask."""

    output: int


@dataclass(slots=True)
class Known:
    """A call of a PyTorch operation as a call of one of ours."""

    op: str  # in gradwalk.ops.TABLE; LEAF for a constant
    args: tuple[Any, ...] = ()  # in our op's order: tensors, numbers, or `Made`
    attrs: dict[str, Any] = field(default_factory=dict)
    outputs: tuple[int, ...] = (0,)  # the operation's outputs in our order
    pairs: bool = False  # whether complex numbers are its operands or its results, as pairs


class AtenCall:
    """The arguments of a call under the names of its schema, defaults filled in."""

    def __init__(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        names, defaults = _schema(func)
        self.values = {**defaults, **dict(zip(names, args, strict=False)), **kwargs}

    def __getattr__(self, name: str) -> Any:
        try:
            return self.values[name]
        except KeyError:
            raise AttributeError(name) from None

    # -- what many entries ask ---------------------------------------------------------------------

    def axis(self, name: str = "dim", ndim: int | None = None) -> int:
        """A dimension counted from the front, of `self` or among `ndim` dimensions."""
        return normal_axis(self.values[name], self.self.dim() if ndim is None else ndim)

    def axes(self) -> tuple[int, ...]:
        """Dimensions of `self`; all of them for None and for an empty list."""
        dim = self.values.get("dim")
        if dim is None or dim == []:
            return tuple(range(self.self.dim()))
        return normal_axes(dim, self.self.dim())

    def keepdim(self) -> bool:
        """Whether a reduction keeps its dimensions."""
        return bool(self.values.get("keepdim", False))

    def given(self, *names: str) -> tuple[str, ...]:
        """Which of these optional arguments are present."""
        return tuple(name for name in names if self.values[name] is not None)


def has_dims(call: AtenCall) -> bool:
    """Whether `self` has a dimension to work along."""
    return bool(call.self.dim())


_schemas: dict[int, tuple[Any, tuple[tuple[str, ...], dict[str, Any]]]] = {}  # by id, which is fast


def _schema(func: Any) -> tuple[tuple[str, ...], dict[str, Any]]:
    known = _schemas.get(id(func))
    if known is None or known[0] is not func:
        arguments = func._schema.arguments
        defaults = {a.name: a.default_value for a in arguments if a.has_default_value()}
        known = _schemas[id(func)] = func, (tuple(a.name for a in arguments), defaults)
    return known[1]


Entry = Callable[[AtenCall], Known | None]
TABLE: dict[str, Entry] = {}  # "add.Tensor" -> translation
ON_PAIRS: dict[str, Entry] = {}  # the same for calls with a complex operand


def entry(*names: str) -> Callable[[Entry], Entry]:
    """Register the decorated function as the translation of these overloads."""

    def put(function: Entry) -> Entry:
        for name in names:
            TABLE[name if "." in name else f"{name}.default"] = function
        return function

    return put


def direct(
    names: str,
    op: str | Callable[[AtenCall], str],
    operands: str,
    outputs: tuple[int, ...] | Callable[[AtenCall], tuple[int, ...]] = (0,),
    /,
    *,
    when: Callable[[AtenCall], Any] | None = None,
    **attrs: Any,
) -> None:
    """Register overloads that are one of our ops: operands in our order, and attributes.

    An operand `weight?` is left out where it is None. An attribute is the name of an argument, a
    function of the call, or a constant. Calls for which `when` does not hold stay opaque.
    """
    wanted = [(name.removesuffix("?"), name.endswith("?")) for name in operands.split()]

    def attribute(call: AtenCall, source: Any) -> Any:
        if callable(source):
            return source(call)
        value = call.values[source] if isinstance(source, str) else source
        return tuple(value) if isinstance(value, list) else value

    def known(call: AtenCall) -> Known | None:
        if when is not None and not when(call):
            return None
        values = call.values
        given = [values[n] for n, optional in wanted if not optional or values.get(n) is not None]
        return Known(
            op(call) if callable(op) else op,
            tuple(given),
            {name: attribute(call, source) for name, source in attrs.items()} if attrs else {},
            outputs(call) if callable(outputs) else outputs,
        )

    entry(*names.split())(known)


def same(
    names: str, operands: str, outputs: tuple[int, ...] = (0,), attrs: str = "", **more: Any
) -> None:
    """Register overloads that are our op of the same name; `attrs` keep their names, too."""
    more |= {attr: attr for attr in attrs.split()}
    for name in names.split():
        direct(name, name.partition(".")[0], operands, outputs, **more)


# -- dtypes ----------------------------------------------------------------------------------------

_DTYPES = {
    torch.float16: np.float16,
    torch.bfloat16: np.float32,  # NumPy lacks it: kept in the next larger dtype
    torch.float32: np.float32,
    torch.float64: np.float64,
    torch.bool: np.bool_,
    torch.uint8: np.uint8,
    torch.int8: np.int8,
    torch.int16: np.int16,
    torch.int32: np.int32,
    torch.int64: np.int64,
}


COMPLEX = {torch.complex64: torch.float32, torch.complex128: torch.float64}  # dtypes of the parts


def numpy_dtype(dtype: torch.dtype) -> np.dtype[Any] | None:
    """The NumPy dtype that we keep a PyTorch dtype in; None if there is none (complex, ...)."""
    ours = _DTYPES.get(dtype)
    return None if ours is None else np.dtype(ours)


def is_plain(tensor: torch.Tensor) -> bool:
    """Whether a tensor is an ordinary array: not complex, sparse or quantized."""
    return tensor.layout is torch.strided and tensor.dtype in _DTYPES and not tensor.is_nested


def is_integer(value: Any) -> bool:
    """Whether a value is a tensor of integers or booleans."""
    return isinstance(value, torch.Tensor) and not value.is_floating_point()


def keeps_dtype(call: AtenCall) -> bool:
    """Whether a requested dtype is the one the result would have anyway."""
    wanted = call.values.get("dtype")
    if wanted is None:
        return True
    own = numpy_dtype(call.self.dtype)
    natural = torch.int64 if own is not None and category(own) < 2 else call.self.dtype
    return bool(wanted == natural)
