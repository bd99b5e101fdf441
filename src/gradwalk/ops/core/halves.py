"""Half precision: float16 and bfloat16 are stored, float32 is computed with, and rounded once."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np

from gradwalk.ops.core.dtypes import float32, has_gradients, is_floating, is_half

# Sums of products. Their gradients are such sums too, of the halves as they are: a device has units
# that multiply halves and add in float32. The rules of all other ops are computed in float32.
PRODUCTS = frozenset(
    {
        *("matmul", "linear", "einsum", "attention", "lstm", "gru", "rnn"),
        *("conv", "conv_bias", "conv_input", "conv_weight"),
    }
)

# Which operands of recurrent layers are multiplied: x and the weights.
FACTORS = {"lstm": (0, 3, 4), "gru": (0, 2, 3), "rnn": (0, 2, 3)}

# They move elements and compute nothing; so do all views. A neighbour is one of its own dtype.
MOVES = frozenset(
    {
        *("cast", "clone", "alias", "getitem", "setitem", "write_view", "embedding", "gather_last"),
        *("concatenate", "split", "reshape", "permute", "expand", "flip", "diagonal", "windows"),
        *("nextafter", "nan_to_num"),
    }
)


# Functions with matrix products inside
_OF_PRODUCTS = frozenset(
    {
        *("addmm", "addmv", "baddbmm", "bilinear", "multi_dot", "scaled_dot_product_attention"),
        *("conv_transpose1d", "conv_transpose2d", "conv_transpose3d"),
    }
)
# A number beside halves stays as wide as it is when it multiplies or divides. As in PyTorch it is a
# half before these: half(0.1) equals 0.1.
_BY_HALVES = frozenset(
    {
        *("add", "sub", "pow", "fmod", "remainder"),
        *("less", "less_equal", "greater", "greater_equal", "equal", "not_equal"),
    }
)
F = TypeVar("F", bound=Callable[..., Any])


def moves(op: Any) -> bool:
    """Whether an op only moves elements, so that halves need not become float32."""
    return op.view or op.name in MOVES


def half_of(operands: Sequence[Any]) -> np.dtype[Any] | None:
    """The half dtype that operands compute to; None beside a wider float or a complex number, or
    without halves."""
    found = {x.dtype for x in operands if hasattr(x, "dtype") and has_gradients(x.dtype)}
    if len(found) != 1:
        return None
    (dtype,) = found
    return dtype if is_half(dtype) else None


def beside_halves(name: str, operands: Sequence[Any], half: np.dtype[Any] | None) -> Sequence[Any]:
    """The operands of an op, numbers among them as halves if the op wants that."""
    if half is None or name not in _BY_HALVES:
        return operands
    return [as_half(a, half) for a in operands]


def as_half(number: Any, dtype: np.dtype[Any] | None) -> Any:
    """A number as a half, if the dtype is one; anything else as it is."""
    if dtype is None or not is_half(dtype) or not isinstance(number, float):
        return number
    return float(dtype.type(number))


def computed(op: Any, arrays: Sequence[Any], attrs: dict[str, Any]) -> Any:
    """What the forward of an op gives for NumPy arrays, some of which are halves; residuals, which
    only backward reads, stay wide."""
    if moves(op):
        return op.forward(*arrays, **attrs)
    half = half_of(arrays)
    result = op.forward(*map(widened, beside_halves(op.name, arrays, half)), **attrs)
    if half is None:
        return result
    if not (op.multiple or op.residuals):
        return narrowed(result, half)
    outputs = len(result) - len(op.residuals)
    return (*(narrowed(r, half) for r in result[:outputs]), *result[outputs:])


def widened(x: Any) -> Any:
    """An array of halves in float32; anything else as it is."""
    if isinstance(x, (np.ndarray, np.generic)) and is_half(x.dtype):
        return x.astype(float32)
    return x


def narrowed(x: Any, half: np.dtype[Any]) -> Any:
    """An array of floats, rounded; anything else as it is."""
    return x.astype(half) if is_floating(x.dtype) else x


def rounds_once(function: F) -> F:
    """A function of several ops that PyTorch has as one: of halves computed in float32, rounded
    once. Products of matrices on a device stay products of halves."""
    products = function.__name__ in _OF_PRODUCTS
    # Running statistics are changed in place, so they stay what they are.
    statistics = (1, 2) if function.__name__ in ("batch_norm", "instance_norm") else ()

    @functools.wraps(function)
    def rounding(*args: Any, **keywords: Any) -> Any:
        for argument in args:
            array = getattr(argument, "_array", None)
            if array is not None and array.dtype.itemsize == 2:
                break
        else:
            return function(*args, **keywords)
        named = {f"{i}": a for i, a in enumerate(args) if i not in statistics} | {
            name: value for name, value in keywords.items() if not name.startswith("running")
        }
        tensors = [t for t in named.values() if hasattr(t, "_array")]
        half = half_of(tensors)
        if half is None or (products and tensors[0]._array.__class__ is not np.ndarray):
            return function(*args, **keywords)
        wide = [a if i in statistics else _wide(a) for i, a in enumerate(args)]
        options = {name: _wide(v) if name in named else v for name, v in keywords.items()}
        result = function(*wide, **options)
        if isinstance(result, tuple):
            return tuple(r.to(half) if is_floating(r.dtype) else r for r in result)
        return result.to(half)

    return rounding  # type: ignore[return-value]


def _wide(thing: Any) -> Any:
    """A tensor of halves in float32; anything else as it is."""
    return thing.to(float32) if hasattr(thing, "_array") and is_half(thing.dtype) else thing


# Calls a function as autocast chooses for it (tensors/autocast.py sets it).
within_autocast: Callable[[Any, Any, Any], Any] = lambda function, args, keywords: function(
    *args, **keywords
)


def autocast_as_one(function: F) -> F:
    """A function of several ops whose dtype autocast chooses as a whole."""

    @functools.wraps(function)
    def chosen(*args: Any, **keywords: Any) -> Any:
        return within_autocast(function, args, keywords)

    return chosen  # type: ignore[return-value]
