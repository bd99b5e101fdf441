"""Operations on complex tensors, as ops on pairs of real numbers (nn/composites/pairs.py).

A trace keeps a complex tensor as a real one with one more dimension, of length 2. Operations that
move elements, add them or multiply them by real numbers treat both parts alike: they have the entry
that real tensors have, with dimensions counted without the last one.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch

from gradwalk.torch.translate.table import (
    COMPLEX,
    ON_PAIRS,
    TABLE,
    AtenCall,
    Entry,
    Known,
    entry,
)


class Pairs:
    """A complex tensor as entries see it: real, with one more dimension."""

    def __init__(self, tensor: torch.Tensor) -> None:
        self.tensor = tensor
        self.shape = (*tensor.shape, 2)
        self.dtype = COMPLEX[tensor.dtype]

    def dim(self) -> int:
        """The number of dimensions, the last one included."""
        return len(self.shape)

    def numel(self) -> int:
        """The number of real numbers."""
        return math.prod(self.shape)


def of_pairs(op: str, *args: Any, **attrs: Any) -> Known:
    """A call of our op that gives or takes pairs."""
    return Known(op, args, attrs, pairs=True)


def on_pairs(*names: str) -> Callable[[Entry], Entry]:
    """Register the decorated function for these overloads, when an operand is complex."""

    def put(function: Entry) -> Entry:
        for name in names:
            ON_PAIRS[name if "." in name else f"{name}.default"] = function
        return function

    return put


# -- both parts alike ------------------------------------------------------------------------------

_SEVERAL = (list, tuple)


def _is_list(value: Any) -> bool:
    return isinstance(value, _SEVERAL)


def _is_complex(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.dtype in COMPLEX


def _alike(name: str, added: int = 0, whole: str = "") -> None:
    """Use the entry of real tensors.

    A dimension is counted among `added` more than the tensor has; `whole` is the argument that
    lists a size, or an axis, for every dimension.
    """

    def known(c: AtenCall) -> Known | None:
        if "other" in c.values and not (_is_complex(c.self) and _is_complex(c.other)):
            return None  # a real number is added to the real part alone
        first = c.values["tensors"][0] if "tensors" in c.values else c.self
        ndim, values = first.dim() + added, dict(c.values)
        for key in ("dim", "dims", "dim0", "dim1"):
            axes: Any = values.get(key)
            if _is_list(axes):
                values[key] = [axis % ndim for axis in axes] or list(range(ndim))
            elif axes is not None and ndim:
                values[key] = axes % ndim
            elif key == "dim" and key in values:
                values[key] = list(range(ndim))
        if whole:
            values[whole] = [*values[whole], ndim if whole == "dims" else 2]
        stand_ins: dict[int, Pairs] = {}  # one for each tensor

        def pairs(value: Any) -> Any:
            if _is_complex(value):
                return stand_ins.setdefault(id(value), Pairs(value))
            return [pairs(part) for part in value] if _is_list(value) else value

        c.values = {key: pairs(value) for key, value in values.items()}
        found = TABLE[name](c)
        if found is None:
            return None
        args = tuple(a.tensor if isinstance(a, Pairs) else a for a in found.args)
        return Known(found.op, args, found.attrs, found.outputs, pairs=True)

    ON_PAIRS[name] = known


BOTH_PARTS_ALIKE = """
    add.Tensor sub.Tensor neg.default clone.default alias.default detach.default select.int
    slice.Tensor transpose.int squeeze.dim cat.default flip.default sum.dim_IntList mean.dim
    split.Tensor split_with_sizes.default unbind.int index_select.default
"""
for name in BOTH_PARTS_ALIKE.split():
    _alike(name)
for name in ("unsqueeze.default", "stack.default"):
    _alike(name, added=1)
for name, whole in {
    "view.default": "size", "_unsafe_view.default": "size", "reshape.default": "shape",
    "expand.default": "size", "permute.default": "dims",
}.items():  # fmt: skip
    _alike(name, whole=whole)

# -- making complex numbers and taking them apart --------------------------------------------------

entry("view_as_complex")(lambda c: of_pairs("alias", c.self))
on_pairs("view_as_real")(lambda c: of_pairs("alias", c.self))
entry("complex")(lambda c: of_pairs("stack", c.real, c.imag, axis=c.real.dim()))
entry("polar")(lambda c: of_pairs("polar", c.values["abs"], c.angle))
on_pairs("abs")(lambda c: of_pairs("complex_abs", c.self))
on_pairs("angle")(lambda c: of_pairs("complex_angle", c.self))
on_pairs("_conj", "_conj_physical", "conj_physical")(lambda c: of_pairs("complex_conj", c.self))
on_pairs("_to_copy")(
    lambda c: of_pairs("clone", c.self) if c.dtype in (None, c.self.dtype) else None
)

# -- products --------------------------------------------------------------------------------------


def _product(c: AtenCall, both: str, with_real: str, with_number: str) -> Known | None:
    """A product of a complex tensor with a complex one, a real one, or a real number."""
    if _is_complex(c.other):
        return of_pairs(both, c.self, c.other)
    if isinstance(c.other, torch.Tensor):
        return of_pairs(with_real, c.self, c.other)
    return None if isinstance(c.other, complex) else of_pairs(with_number, c.self, c.other)


@on_pairs("mul.Tensor", "mul.Scalar")
def _mul(c: AtenCall) -> Known | None:
    if not _is_complex(c.self):
        return of_pairs("complex_scaled", c.other, c.self)
    return _product(c, "complex_mul", "complex_scaled", "mul")


@on_pairs("div.Tensor", "div.Scalar")
def _div(c: AtenCall) -> Known | None:
    return _product(c, "complex_div", "complex_divided", "div") if _is_complex(c.self) else None


on_pairs("mm", "bmm")(lambda c: of_pairs("complex_matmul", c.self, c.mat2))

# -- Fourier transforms ----------------------------------------------------------------------------


def _scaled(c: AtenCall, sizes: list[int]) -> dict[str, Any]:
    """The axes, and the factor for none, by the root of the number of elements, or by it."""
    factor = math.prod(sizes) ** -(0.0, 0.5, 1.0)[c.normalization]
    return {"axes": tuple(axis % c.self.dim() for axis in c.dim), "scale": factor}


@on_pairs("_fft_c2c")
def _fft(c: AtenCall) -> Known:
    sizes = [c.self.shape[axis] for axis in c.dim]
    return of_pairs("fft", c.self, sign=-1 if c.forward else 1, **_scaled(c, sizes))


@entry("_fft_r2c")
def _fft_of_real(c: AtenCall) -> Known:
    sizes = [c.self.shape[axis] for axis in c.dim]
    return of_pairs("fft_of_real", c.self, onesided=c.onesided, **_scaled(c, sizes))


@on_pairs("_fft_c2r")
def _fft_to_real(c: AtenCall) -> Known:
    sizes = [c.self.shape[axis] for axis in c.dim[:-1]] + [c.last_dim_size]
    return of_pairs("fft_to_real", c.self, n=c.last_dim_size, **_scaled(c, sizes))
