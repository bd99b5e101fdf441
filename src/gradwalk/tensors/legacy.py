"""The constructors of PyTorch's first years: `FloatTensor(2, 3)`, `LongTensor([1, 2])`, `Variable`.

They are types, because programs ask `isinstance(x, FloatTensor)`.
"""

from __future__ import annotations

from typing import Any

from gradwalk.ops.core.dtypes import dtype_named, set_default_dtype
from gradwalk.ops.shape.reshaping import alias
from gradwalk.tensors.conversions import TYPE_NAMES, are_sizes
from gradwalk.tensors.creation import as_tensor, empty
from gradwalk.tensors.devices import set_default_device
from gradwalk.tensors.tensor import Tensor

__all__ = [
    "BFloat16Tensor", "BoolTensor", "ByteTensor", "CharTensor", "DoubleTensor", "FloatTensor",
    "HalfTensor", "IntTensor", "LongTensor", "ShortTensor", "set_default_tensor_type", "typename",
]  # fmt: skip


class TensorType(type):
    """The type of `FloatTensor` and its relatives.

    Calling one makes a tensor of its dtype. A tensor is an instance of the type that has its dtype
    and device.
    """

    type_name: str  # "torch.cuda.FloatTensor"

    @property
    def dtype(cls) -> Any:
        """The dtype of its tensors."""
        return dtype_named(TYPE_NAMES[cls.__name__])

    def __call__(cls, *data: Any, device: Any = None) -> Tensor:
        """Sizes give a tensor of that shape, anything else is the data."""
        dtype = cls.dtype
        where = device or cls.type_name.split(".")[-2].replace("torch", "cpu")
        if are_sizes(data):
            return empty(*data, dtype=dtype, device=where)
        given = data[0] if data else []
        made = as_tensor(given, dtype=dtype, device=where)
        return alias(made) if made is given else made  # on the same memory, as in PyTorch

    def __instancecheck__(cls, thing: Any) -> bool:
        return isinstance(thing, Tensor) and thing.type() == cls.type_name


def tensor_type(name: str, place: str = "torch") -> TensorType:
    """A legacy type; its place is "torch" or "torch.cuda"."""
    facts = {"type_name": f"{place}.{name}", "__doc__": f"Tensors of {TYPE_NAMES[name]}."}
    return TensorType(name, (), facts)


BFloat16Tensor = tensor_type("BFloat16Tensor")
BoolTensor = tensor_type("BoolTensor")
ByteTensor = tensor_type("ByteTensor")
CharTensor = tensor_type("CharTensor")
DoubleTensor = tensor_type("DoubleTensor")
FloatTensor = tensor_type("FloatTensor")
HalfTensor = tensor_type("HalfTensor")
IntTensor = tensor_type("IntTensor")
LongTensor = tensor_type("LongTensor")
ShortTensor = tensor_type("ShortTensor")


def set_default_tensor_type(t: Any) -> None:
    """The legacy form of `set_default_dtype` and `set_default_device`: a type or its name.

    >>> import gradwalk as gw
    >>> gw.set_default_tensor_type("torch.FloatTensor")
    """
    place, _, name = str(getattr(t, "type_name", t)).rpartition(".")
    if name not in TYPE_NAMES:
        raise TypeError(f"set_default_tensor_type takes one of {', '.join(TYPE_NAMES)}, not {t!r}")
    set_default_dtype(dtype_named(TYPE_NAMES[name]))
    set_default_device("cuda" if place.endswith("cuda") else "cpu")


def typename(obj: Any) -> str:
    """The legacy name of a tensor's type, or the full name of another object's class.

    >>> import gradwalk as gw
    >>> gw.typename(gw.ones(2))
    'torch.FloatTensor'
    """
    if isinstance(obj, Tensor):
        return str(obj.type())
    kind = obj if isinstance(obj, type) else type(obj)
    return (
        kind.__qualname__
        if kind.__module__ == "builtins"
        else f"{kind.__module__}.{kind.__qualname__}"
    )


class _VariableType(type):
    """Every tensor is a Variable."""

    def __instancecheck__(cls, thing: Any) -> bool:
        return isinstance(thing, Tensor)

    def __call__(cls, data: Any, requires_grad: bool = False, volatile: Any = None) -> Tensor:
        """A tensor on the same memory, cut off from its history."""
        if not isinstance(data, Tensor):
            raise TypeError(f"Variable takes a tensor, not {type(data).__name__}")
        return data.detach().requires_grad_(requires_grad)


class Variable(metaclass=_VariableType):
    """`Variable(tensor, requires_grad=False)`: what tensors with gradients were called.

    >>> import gradwalk as gw
    >>> gw.autograd.Variable(gw.ones(2), requires_grad=True)
    tensor([1., 1.], requires_grad=True)
    """
