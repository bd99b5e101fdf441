"""Complex numbers: their parts, size, direction and angle, and tensors of pairs as complex ones.

For a real loss L and z = a + bi, a user gets the gradient ∂L/∂a + i·∂L/∂b, as in PyTorch: the
direction of steepest ascent. The walk carries its conjugate, ∂L/∂a − i·∂L/∂b. With it the chain
rule is `g × local derivative`, so the rules of real numbers hold for every holomorphic function.
`turned` conjugates a gradient where it enters or leaves the walk: seeds, leaves, hooks, custom
Functions. The functions here are not holomorphic, so they have rules of their own.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from gradwalk.ops.core.dtypes import complex_of, is_complex_dtype, is_floating, part_of
from gradwalk.ops.core.op import Op, OpError, define
from gradwalk.ops.core.public import public
from gradwalk.ops.elementwise.choice import where


def _compose_forward(real: Any, imaginary: Any) -> Any:
    shape = np.broadcast_shapes(np.shape(real), np.shape(imaginary))
    out = np.empty(shape, complex_of(np.result_type(real, imaginary)))
    out.real, out.imag = real, imaginary
    return out


compose: Op = define(
    "compose",
    _compose_forward,
    vjp=[lambda g: real_part(g), lambda g: -imaginary_part(g)],
    shape=lambda real, imaginary: np.broadcast_shapes(real, imaginary),
    linear=True,
    broadcasts=True,
    promotes=True,
    to_float=True,
    gives=complex_of,
)
real_part: Op = define(
    "real_part",
    lambda z: z.real,
    vjp=[1],  # the engine makes it complex
    shape=lambda z: z,
    linear=True,
    view=True,
    gives=part_of,
)
imaginary_part: Op = define(
    "imaginary_part",
    lambda z: z.imag,
    vjp=[lambda g: compose(0.0, -g)],
    shape=lambda z: z,
    linear=True,
    view=True,
    gives=part_of,
)
conjugate: Op = define(
    "conjugate", np.conjugate, vjp=[lambda g: conjugate(g)], shape=lambda x: x, linear=True
)


def _size_or_one(z: Any) -> Any:
    """|z|, and 1 at zero: divisors."""
    size = modulus(z)
    return where(size == 0, 1, size)


modulus: Op = define(
    "modulus",
    np.absolute,
    inputs=("z",),
    vjp=[lambda g, z: g * conjugate(z) / _size_or_one(z)],
    shape=lambda z: z,
    gives=part_of,
    on_complex=True,
)


def _direction_rule(g: Any, z: Any, out: Any) -> Any:
    # Across the direction it turns by g / |z|; along the direction nothing changes.
    across = g - real_part(g * out) * conjugate(out)
    return where(z == 0, 0, across / _size_or_one(z))


direction: Op = define(
    "direction",
    np.sign,  # z / |z|, and 0 at zero
    inputs=("z",),
    vjp=[_direction_rule],
    shape=lambda z: z,
    on_complex=True,
)
argument: Op = define(
    "argument",
    np.angle,
    inputs=("z",),
    vjp=[lambda g, z: where(z == 0, 0, compose(0.0, -g) / where(z == 0, 1, z))],
    shape=lambda z: z,
    gives=part_of,
    on_complex=True,
)


def as_pairs(array: Any) -> Any:
    """The memory of a complex array as pairs of real numbers; a real array itself."""
    if not is_complex_dtype(array.dtype):
        return array
    return array[..., None].view(part_of(array.dtype))


def _from_pairs_forward(x: Any) -> Any:
    return x.view(complex_of(x.dtype))[..., 0]


view_as_real_op: Op = define(
    "view_as_real",
    as_pairs,
    inputs=("z",),
    vjp=[lambda g: compose(g[..., 0], -g[..., 1])],
    shape=lambda z: (*z, 2),
    linear=True,
    view=True,
    gives=part_of,
)
view_as_complex_op = define(
    "view_as_complex",
    _from_pairs_forward,
    vjp=[lambda g: view_as_real_op(conjugate(g))],
    shape=lambda x: x[:-1],
    linear=True,
    view=True,
    gives=complex_of,
)


def _is_complex(x: Any) -> bool:
    return is_complex_dtype(x.dtype)


@public(out=False)
def view_as_real(input: Any) -> Any:
    """The same memory as pairs of real numbers, along a new last dimension.

    >>> import gradwalk as gw
    >>> gw.view_as_real(gw.tensor([1 + 2j]))
    tensor([[1., 2.]])
    """
    if not _is_complex(input):
        raise TypeError(f"view_as_real takes a complex tensor, not {input.dtype}")
    return view_as_real_op(input)


@public(out=False)
def view_as_complex(input: Any) -> Any:
    """The same memory as complex numbers: the last dimension holds their two parts.

    >>> import gradwalk as gw
    >>> gw.view_as_complex(gw.tensor([[1.0, 2.0]]))
    tensor([1.+2.j])
    """
    complex_of(input.dtype)
    if not is_floating(input.dtype) or input.shape[-1:] != (2,):
        raise TypeError(
            "view_as_complex takes a floating-point tensor whose last dimension has length 2, not "
            f"{input.dtype} of shape {tuple(input.shape)}"
        )
    if input.stride(-1) != 1:
        raise OpError(
            "view_as_complex: the two parts of a number do not lie side by side in memory.\n"
            "Fix: .contiguous() first."
        )
    return view_as_complex_op(input)


@public()
def complex(real: Any, imag: Any) -> Any:
    """Complex numbers of their parts.

    >>> import gradwalk as gw
    >>> gw.complex(gw.tensor([1.0]), gw.tensor([2.0]))
    tensor([1.+2.j])
    """
    if real.dtype != imag.dtype or not is_floating(real.dtype):
        raise TypeError(
            f"complex takes two floating-point tensors of one dtype, not {real.dtype} and "
            f"{imag.dtype}"
        )
    return compose(real, imag)


@public(out=False)
def real(input: Any) -> Any:
    """The real part, a view; a real tensor itself."""
    return real_part(input) if _is_complex(input) else input


@public(out=False)
def imag(input: Any) -> Any:
    """The imaginary part, a view."""
    if not _is_complex(input):
        raise TypeError(f"imag takes a complex tensor; {input.dtype} has no imaginary part")
    return imaginary_part(input)


@public(method=True)
def angle(input: Any) -> Any:
    """The angle in the complex plane, between −π and π; of a real number 0 or π.

    >>> import gradwalk as gw
    >>> gw.angle(gw.tensor([1j, -1.0]))
    tensor([1.5708, 3.1416])
    """
    from gradwalk.ops.elementwise.arithmetic import sign

    if _is_complex(input):
        return argument(input)
    # The sign of a NaN is NaN, with the slope 0 that the angle has everywhere.
    return where(input < 0, math.pi, where(input != input, sign(input), 0.0))


@public(method=True, out=False)
def conj(input: Any) -> Any:
    """The complex conjugate; a real tensor itself.

    >>> import gradwalk as gw
    >>> gw.tensor([1 + 2j]).conj()
    tensor([1.-2.j])
    """
    return conjugate(input) if _is_complex(input) else input


@public(method=True, inplace=True)
def conj_physical(input: Any) -> Any:
    """`conj`: here it always computes."""
    return conj(input)


@public(method=True, out=False)
def adjoint(input: Any) -> Any:
    """The conjugate transpose of matrices: `x.mH`."""
    return conj(input.mT)


@public(names="resolve_conj resolve_neg", method=True, out=False)
def resolve_conj(input: Any) -> Any:
    """Itself: conjugates and negatives are computed at once here."""
    return input


@public(method=True, out=False)
def is_conj(input: Any) -> bool:
    """False: a conjugate is computed at once."""
    return False


def turned(g: Any) -> Any:
    """A gradient (array, tensor, None, a list of them) on the other side of the
    walk: conjugated if it is complex."""
    if g is None:
        return None
    if isinstance(g, list):
        return [turned(part) for part in g]
    return conjugate(g) if is_complex_dtype(g.dtype) else g
