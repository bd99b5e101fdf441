"""Inverses, determinants and factorisations of (batches of) matrices.

Every rule is matrix products of inputs and outputs, so second derivatives follow from it. `conj`
and `adjoint` are for complex matrices; of real ones they are nothing and `.mT`. The functions of
`gradwalk.linalg` are in matrices.py.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gradwalk.ops.core.dtypes import is_complex_dtype, part_of
from gradwalk.ops.core.op import Op, Shape, define
from gradwalk.ops.elementwise import complex_numbers
from gradwalk.ops.elementwise.choice import where
from gradwalk.ops.elementwise.complex_numbers import adjoint, conj
from gradwalk.ops.reduce.reduction import sum
from gradwalk.ops.shape.rearranging import diagonal_put, tril, triu
from gradwalk.ops.shape.reshaping import getitem_slice, reshape, unsqueeze


class LinAlgError(RuntimeError):
    """A matrix has no inverse, or no factorisation of the requested kind."""


def lapack(function: Any, *arrays: Any, **options: Any) -> Any:
    """Call a function of np.linalg; its errors must not be taken for shape errors."""
    try:
        return function(*arrays, **options)
    except np.linalg.LinAlgError as error:
        raise LinAlgError(f"linalg.{function.__name__}: {error}") from None


def _column(x: Any) -> Any:
    """Two dimensions of length 1 behind: one number per matrix."""
    return reshape(x, shape=(*x.shape, 1, 1))


def _row(x: Any) -> Any:
    """One number per column, over all rows."""
    return unsqueeze(x, -2)


def on_diagonal(x: Any) -> Any:
    """(..., n) as diagonal matrices."""
    n, ndim = x.shape[-1], len(x.shape)
    return diagonal_put(x, shape=(*x.shape, n), offset=0, axes=(ndim - 1, ndim))


def off_diagonal(x: Any) -> Any:
    """Square matrices with zeros on the diagonal."""
    return where(np.eye(x.shape[-1], dtype=bool), 0, x)


# -- inverse and determinant ---------------------------------------------------------------------

inv_op: Op = define(
    "inv",
    lambda x: lapack(np.linalg.inv, x),
    vjp=[lambda g, out: -(out.mT @ g @ out.mT)],
    shape=lambda x: x,
    on_complex=True,
)


solve_op: Op = define(
    "solve",
    lambda a, b: lapack(np.linalg.solve, a, b),
    vjp=[
        lambda g, a, out: -(solve_op(a.mT, g) @ out.mT),
        lambda g, a: solve_op(a.mT, g),
    ],
    shape=lambda a, b: (*np.broadcast_shapes(a[:-2], b[:-2]), *b[-2:]),
    broadcasts=True,
    promotes=True,
    on_complex=True,
)


def _product_of_others(s: Any) -> Any:
    """For each element along the last axis the product of all others; nothing is divided."""
    before, after = np.ones_like(s), np.ones_like(s)
    np.cumprod(s[..., :-1], axis=-1, out=before[..., 1:])
    if s.shape[-1] > 1:
        np.cumprod(s[..., :0:-1], axis=-1, out=after[..., -2::-1])
    return before * after


def _signed_svd(x: Any) -> tuple[Any, Any, Any, Any]:
    """The determinant of u times that of vh, and u, s and vh."""
    u, s, vh = lapack(np.linalg.svd, x)
    sign = np.linalg.det(u) * np.linalg.det(vh)
    sign = sign if is_complex_dtype(x.dtype) else np.round(sign)  # 1 or -1 but for rounding
    return sign[..., None, None], u, s, vh


def _cofactor_forward(x: Any) -> Any:
    """det(x) × x⁻ᵀ, by singular values: right also where x has no inverse."""
    sign, u, s, vh = _signed_svd(x)
    return sign * (u.conj() * _product_of_others(s)[..., None, :]) @ vh.conj()


def _det_twice_forward(x: Any, h: Any) -> Any:
    """The second derivatives of det(x), applied to h; right also where x has no inverse.

    For a diagonal x the only ones that are not 0 are those by two diagonal elements (the product
    of all others) and by two elements across the diagonal (minus that). Any x is diagonal between
    its singular vectors.
    """
    sign, u, s, vh = _signed_svd(x)
    one = np.eye(s.shape[-1], dtype=bool)
    others = _product_of_others(np.where(one, 1, s[..., None, :]))  # of all but i and j
    others = np.where(one, 0, others)
    inner = u.conj().mT @ h @ vh.conj().mT
    on_diagonal = (others @ np.diagonal(inner, axis1=-2, axis2=-1)[..., None]) * one
    return sign * u.conj() @ (on_diagonal - others * inner.mT) @ vh.conj()


def _certain_inv(x: Any) -> Any:
    s = lapack(np.linalg.svd, x, compute_uv=False)
    if (s[..., -1] <= s[..., 0] * s.shape[-1] * np.finfo(s.dtype).eps).any():
        raise LinAlgError("the third derivative of det is not implemented for singular matrices")
    return np.linalg.inv(x)


certain_inv: Op = define(
    "certain_inv",
    _certain_inv,
    vjp=[lambda g, out: -(out.mT @ g @ out.mT)],
    shape=lambda x: x,
    on_complex=True,
)


def _det_thrice(g: Any, x: Any, h: Any) -> Any:
    """The third derivatives of det(x), applied to g and h; these need the inverse."""
    inverse = certain_inv(x)
    a, b = inverse @ g, inverse @ h
    trace_a, trace_b = (_column(sum(t * np.eye(t.shape[-1], dtype=bool), (-2, -1))) for t in (a, b))
    both = a @ b
    crossed = _column(sum(a * b.mT, (-2, -1)))  # the trace of a b
    inner = (both + b @ a - trace_b * a - trace_a * b) @ inverse
    total = inner + (trace_a * trace_b - crossed) * inverse
    return _column(det_op(x)) * total.mT


det_twice: Op = define(
    "det_twice",
    _det_twice_forward,
    vjp=[_det_thrice, lambda g, x: det_twice(x, g)],  # second derivatives are symmetric
    shape=lambda x, h: x,
    on_complex=True,
)
cofactor: Op = define(
    "cofactor",
    _cofactor_forward,
    vjp=[lambda g, x: det_twice(x, g)],
    shape=lambda x: x,
    on_complex=True,
)
det_op = define(
    "det",
    lambda x: np.linalg.det(x),
    vjp=[lambda g, x: _column(g) * cofactor(x)],
    shape=lambda x: x[:-2],
    on_complex=True,
)


def _turn(g: Any, sign: Any) -> Any:
    """The gradient of log det(x): of its size, and of its angle, by which the sign turns."""
    along = complex_numbers.imaginary_part(g[0] * sign)
    return _column(complex_numbers.compose(g[1], along))


complex_slogdet = define(
    "complex_slogdet",
    lambda x: tuple(np.linalg.slogdet(x)),
    vjp=[lambda g, x, sign: _turn(g, sign) * inv_op(x).mT],
    outputs=("sign", "logabsdet"),
    shape=lambda x: (x[:-2], x[:-2]),
    gives=(None, part_of),
    on_complex=True,
)
slogdet_op = define(
    "slogdet",
    lambda x: tuple(np.linalg.slogdet(x)),
    vjp=[lambda g, x: _column(g[1]) * inv_op(x).mT],  # the sign is flat
    outputs=("sign", "logabsdet"),
    shape=lambda x: (x[:-2], x[:-2]),
    on_complex=complex_slogdet,
)

# -- factorisations ------------------------------------------------------------------------------


def _cholesky_rule(g: Any, out: Any) -> Any:
    inverse = inv_op(out)
    inner = tril(out.mT @ g)
    symmetric = (inner + adjoint(tril(inner, -1))) * 0.5
    return inverse.mT @ symmetric @ conj(inverse)


cholesky_op = define(
    "cholesky",
    lambda x: lapack(np.linalg.cholesky, x),
    vjp=[_cholesky_rule],
    shape=lambda x: x,
    on_complex=True,
)


def _mirrored(upper: Any) -> Any:
    """An upper triangle and its mirror image; the diagonal is real."""
    whole = upper + adjoint(triu(upper, 1))
    if not is_complex_dtype(upper.dtype):
        return whole
    return where(np.eye(upper.shape[-1], dtype=bool), complex_numbers.real(whole), whole)


def _qr_rule(g: Any, q: Any, r: Any) -> Any:
    inner = triu(g[1] @ r.mT - q.mT @ g[0])
    return solve_op(r, (g[0] + conj(q) @ _mirrored(inner)).mT).mT


# For at least as many rows as columns; the function `qr` composes wide matrices from it.
qr_op = define(
    "qr",
    lambda x: tuple(lapack(np.linalg.qr, x)),
    vjp=[_qr_rule],
    outputs=("q", "r"),
    shape=lambda x: (x, (*x[:-2], x[-1], x[-1])),
    on_complex=True,
)
# The last columns are arbitrary completions of the first: no gradient, as in PyTorch.
qr_complete = define(
    "qr_complete",
    lambda x: tuple(lapack(np.linalg.qr, x, mode="complete")),
    vjp=[None],
    outputs=("q", "r"),
    shape=lambda x: ((*x[:-2], x[-2], x[-2]), x),
    on_complex=True,
)


def ratio(x: Any, y: Any) -> Any:
    """x / y, with 0 / 0 = 0: equal values are harmless where the gradient is zero."""
    neither = (x == 0) & (y == 0)
    return where(neither, 0, x / where(neither, 1, y))


def gaps(values: Any) -> Any:
    """values[j] − values[i], with 1 on the diagonal to allow division."""
    return _row(values) - unsqueeze(values, -1) + np.eye(values.shape[-1], dtype=bool)


def _eigh_rule(g: Any, values: Any, vectors: Any) -> Any:
    inner = off_diagonal(ratio(vectors.mT @ g[1], gaps(values)))
    # Only one triangle is read, because the matrix is symmetric; so is its gradient.
    return conj(vectors) @ ((inner + adjoint(inner)) * 0.5 + on_diagonal(g[0])) @ vectors.mT


eigh_op = define(
    "eigh",
    lambda x, *, uplo: tuple(lapack(np.linalg.eigh, x, UPLO=uplo)),
    vjp=[_eigh_rule],
    outputs=("values", "vectors"),
    shape=lambda x, *, uplo: (x[:-1], x),
    gives=(part_of, None),
    on_complex=True,
)


def _svd_rule(g: Any, u: Any, s: Any, vh: Any) -> Any:
    count = s.shape[-1]
    last = len(u.shape) - 1
    # With full matrices the further columns are arbitrary completions: they have no gradient.
    u, gu = (getitem_slice(t, last, 0, count) for t in (conj(u), g[0]))
    v, gv = (getitem_slice(t, last - 1, 0, count).mT for t in (vh, conj(g[2])))
    apart = gaps(s * s)
    left, right = adjoint(u) @ gu, adjoint(v) @ gv
    inner = off_diagonal(ratio(left - adjoint(left), apart)) * _row(s)
    inner = inner + unsqueeze(s, -1) * off_diagonal(ratio(right - adjoint(right), apart))
    if is_complex_dtype(u.dtype):  # a pair of vectors may turn together
        turns = where(np.eye(count, dtype=bool), left - adjoint(left), 0)
        inner = inner + ratio(turns, 2 * _row(s))
    out = u @ (inner + on_diagonal(g[1])) @ adjoint(v)
    if u.shape[-2] > count:
        out = out + ratio(gu - u @ left, _row(s)) @ adjoint(v)
    if v.shape[-2] > count:
        out = out + u @ adjoint(ratio(gv - v @ right, _row(s)))
    return out


def _svd_shape(x: Shape, *, full_matrices: bool) -> tuple[Shape, Shape, Shape]:
    *lead, m, n = x
    k = min(m, n)
    rows, columns = (m, n) if full_matrices else (k, k)
    return (*lead, m, rows), (*lead, k), (*lead, columns, n)


svd_op = define(
    "svd",
    lambda x, *, full_matrices: tuple(lapack(np.linalg.svd, x, full_matrices=full_matrices)),
    vjp=[_svd_rule],
    outputs=("u", "s", "vh"),
    shape=_svd_shape,
    gives=(None, part_of, None),
    on_complex=True,
)


def _pinv_forward(x: Any, atol: Any, rtol: Any) -> Any:
    u, s, vh = lapack(np.linalg.svd, x, full_matrices=False)
    atol, rtol = (np.asarray(each)[..., 0] for each in (atol, rtol))
    cut = np.maximum(atol, rtol * np.max(s, axis=-1, initial=0, keepdims=True))
    kept = s > cut
    scale = np.where(kept, 1 / np.where(kept, s, 1), 0).astype(x.dtype)
    return vh.conj().mT @ (scale[..., None] * u.conj().mT)


def _pinv_rule(g: Any, x: Any, out: Any) -> Any:
    gt, x, out = adjoint(g), conj(x), conj(out)
    adj = adjoint(out)
    if x.shape[-2] <= x.shape[-1]:
        k = gt @ out
        kp = k @ adj
        return kp - adjoint(out @ k) - (x @ out) @ kp + (adj @ out) @ (gt - k @ x)
    k = out @ gt
    pk = adj @ k
    return pk - adjoint(k @ out) - (pk @ out) @ x + (gt - x @ k) @ (out @ adj)


# Of x and two tolerances, each of shape (..., 1, 1).
pinv_op = define(
    "pinv",
    _pinv_forward,
    vjp=[_pinv_rule, None, None],
    shape=lambda x, atol, rtol: (*x[:-2], x[-1], x[-2]),
    on_complex=True,
)
