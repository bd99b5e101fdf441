"""Products of Householder reflections: the Q of a QR factorisation as LAPACK stores it."""

from __future__ import annotations

from collections import namedtuple
from typing import Any

import numpy as np

from gradwalk.ops.core.op import Shape, define
from gradwalk.ops.core.public import public
from gradwalk.ops.elementwise.complex_numbers import adjoint, conj
from gradwalk.ops.linear.decompositions import lapack
from gradwalk.ops.linear.matrices import of_matrices
from gradwalk.ops.shape.rearranging import tril
from gradwalk.ops.shape.reshaping import getitem_slice, new_result, unsqueeze

Reflections = namedtuple("Reflections", "a tau")


def _geqrf_forward(x: Any) -> tuple[Any, Any]:
    packed, tau = lapack(np.linalg.qr, x, mode="raw")
    return np.ascontiguousarray(packed.mT), tau


def _geqrf_shape(x: Shape) -> tuple[Shape, Shape]:
    return x, (*x[:-2], min(x[-2:]))


geqrf_op = define(
    "geqrf", _geqrf_forward, vjp=[None], outputs=("a", "tau"), shape=_geqrf_shape, on_complex=True
)


@public(method=True)
def geqrf(input: Any) -> Reflections:
    """R, with the reflections below its diagonal, and their factors; `linalg.qr` has a gradient."""
    return Reflections(*geqrf_op(of_matrices("geqrf", input)))


def _reflect(A: Any, tau: Any, x: Any, inverse: bool) -> Any:
    """Q x, or Qᴴ x, one reflection x − tau v (vᴴ x) after the other."""
    count, last = tau.shape[-1], A.ndim - 1
    vectors = tril(getitem_slice(A, last, 0, count), -1)
    vectors = vectors + np.eye(A.shape[-2], count, dtype=A.dtype)
    factors = unsqueeze(conj(tau) if inverse else tau, -2)
    for number in range(count) if inverse else reversed(range(count)):
        v = getitem_slice(vectors, last, number, number + 1)
        factor = getitem_slice(factors, last, number, number + 1)
        x = x - factor * v @ (adjoint(v) @ x)
    return x


def _check(name: str, A: Any, tau: Any) -> None:
    columns = of_matrices(name, A).shape[-1]
    fits = tau.ndim == A.ndim - 1 and tuple(tau.shape[:-1]) == tuple(A.shape[:-2])
    if not fits or tau.shape[-1] > columns:
        raise ValueError(
            f"{name}: tau has shape {tuple(tau.shape)}; for A of shape {tuple(A.shape)} it has at "
            f"most {columns} factors per matrix"
        )
    if tau.dtype != A.dtype:
        raise TypeError(f"{name}: A has dtype {A.dtype}, tau {tau.dtype}")


@public(namespaces="linalg gradwalk.orgqr")
def householder_product(A: Any, tau: Any) -> Any:
    """The first columns of the product of reflections: Q of what `geqrf` returns."""
    _check("householder_product", A, tau)
    rows, columns = A.shape[-2:]
    if columns > rows:
        raise ValueError(f"householder_product: shape {tuple(A.shape)} has more columns than rows")
    start = np.eye(rows, columns, dtype=A.dtype)
    return _reflect(A, tau, start, inverse=False) + A * 0


@public(method=True)
@new_result
def ormqr(input: Any, tau: Any, other: Any, left: bool = True, transpose: bool = False) -> Any:
    """Q other, Qᴴ other with `transpose`; other Q, other Qᴴ if not `left`."""
    _check("ormqr", input, tau)
    of_matrices("ormqr", other)
    if input.shape[-2] != other.shape[-2 if left else -1]:
        raise ValueError(
            f"ormqr: reflections of length {input.shape[-2]} do not fit shape {tuple(other.shape)}"
        )
    if left:
        return _reflect(input, tau, other, inverse=transpose)
    return adjoint(_reflect(input, tau, adjoint(other), inverse=not transpose))
