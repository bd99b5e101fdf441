"""Products and factorisations of matrices in JAX.

On a CPU both libraries call LAPACK, so signs of vectors agree. Compiled code cannot raise: where
NumPy reports a matrix without an inverse or a factorisation, the result has NaN or infinity.
"""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
from jax import lax
from jax.numpy import linalg

from gradwalk.compiler.backends.xla.platform import traced_for
from gradwalk.ops.core.dtypes import float32, get_float32_matmul_precision, is_half


def _certain_inv(x: Any) -> Any:
    """The inverse; NaN of a matrix that is singular but for rounding, where NumPy's raises."""
    s = linalg.svd(x, compute_uv=False)
    certain = s[..., -1] > s[..., 0] * (s.shape[-1] * jnp.finfo(s.dtype).eps)
    return jnp.where(certain[..., None, None], linalg.inv(x), jnp.nan)


def _product_of_others(s: Any) -> Any:
    """For each element along the last axis the product of all others; nothing is divided."""
    one = jnp.ones_like(s[..., :1])
    before = jnp.cumprod(jnp.concatenate([one, s[..., :-1]], -1), -1)
    after = jnp.cumprod(jnp.concatenate([one, s[..., :0:-1]], -1), -1)
    return before * after[..., ::-1]


def _signed_svd(x: Any) -> tuple[Any, Any, Any, Any]:
    """The determinant of u times that of vh, and u, s and vh."""
    u, s, vh = linalg.svd(x)
    sign = jnp.round(linalg.det(u) * linalg.det(vh))  # 1 or -1 but for rounding
    return sign[..., None, None], u, s, vh


def _cofactor(x: Any) -> Any:
    sign, u, s, vh = _signed_svd(x)
    return jnp.matmul(sign * (u * _product_of_others(s)[..., None, :]), vh)


def _det_twice(x: Any, h: Any) -> Any:
    sign, u, s, vh = _signed_svd(x)
    one = jnp.eye(s.shape[-1], dtype=bool)
    others = _product_of_others(jnp.where(one, 1, s[..., None, :]))  # of all but i and j
    others = jnp.where(one, 0, others)
    inner = u.mT @ h @ vh.mT
    on_diagonal = (others @ jnp.diagonal(inner, axis1=-2, axis2=-1)[..., None]) * one
    return sign * u @ (on_diagonal - others * inner.mT) @ vh


def _pinv(x: Any, atol: Any, rtol: Any) -> Any:
    u, s, vh = linalg.svd(x, full_matrices=False)
    largest = jnp.max(s, axis=-1, initial=0, keepdims=True)
    kept = s > jnp.maximum(atol[..., 0], rtol[..., 0] * largest)
    scale = jnp.where(kept, 1 / jnp.where(kept, s, 1), 0)
    return vh.mT @ (scale[..., None] * u.mT)


def factors(*operands: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The operands of a product as a device multiplies them, and how: sums of halves are in
    float32, and so are those of float32, which `set_float32_matmul_precision` may shorten."""
    dtype = jnp.result_type(*operands)
    precision = get_float32_matmul_precision()
    if dtype == float32 and precision == "medium":
        operands, dtype = tuple(x.astype(jnp.bfloat16) for x in operands), jnp.dtype(jnp.bfloat16)
    if is_half(dtype):
        return operands, {"preferred_element_type": float32, "precision": lax.Precision.DEFAULT}
    exact = dtype != float32 or precision == "highest"
    chosen = lax.Precision.HIGHEST if exact else lax.Precision.HIGH  # which is TF32 on a GPU
    return operands, {"preferred_element_type": dtype, "precision": chosen}


def wide_matmul(x: Any, y: Any) -> Any:
    """A matrix product; that of halves in float32."""
    operands, options = factors(x, y)
    return jnp.matmul(*operands, **options)


def matmul(x: Any, y: Any) -> Any:
    """A matrix product, rounded once. A GPU adds halves in float32 and writes halves."""
    dtype = jnp.result_type(x, y)
    if is_half(dtype) and traced_for.get() == "cuda":
        return jnp.matmul(x, y, preferred_element_type=dtype)
    return wide_matmul(x, y).astype(dtype)


def _linear(x: Any, weight: Any, bias: Any) -> Any:
    dtype = jnp.result_type(x, weight)
    if is_half(dtype) and traced_for.get() == "cuda":
        return matmul(x, weight.mT) + bias
    total = wide_matmul(x, weight.mT)
    return (total + bias.astype(total.dtype)).astype(dtype)


def _einsum(*xs: Any, equation: str) -> Any:
    operands, options = factors(*xs)
    return jnp.einsum(equation, *operands, **options).astype(jnp.result_type(*xs))


FORWARDS: dict[str, Any] = {
    "matmul": matmul,
    "linear": _linear,
    "einsum": _einsum,
    "inv": linalg.inv,
    "solve": linalg.solve,
    "certain_inv": _certain_inv,
    "det_twice": _det_twice,
    "cofactor": _cofactor,
    "det": linalg.det,
    "slogdet": lambda x: tuple(linalg.slogdet(x)),
    # Only the triangle that NumPy reads, not the mean of both.
    "cholesky": lambda x: linalg.cholesky(x, symmetrize_input=False),
    "qr": lambda x: tuple(linalg.qr(x)),
    "qr_complete": lambda x: tuple(linalg.qr(x, mode="complete")),
    "eigh": lambda x, *, uplo: tuple(linalg.eigh(x, UPLO=uplo, symmetrize_input=False)),
    "svd": lambda x, *, full_matrices: tuple(linalg.svd(x, full_matrices=full_matrices)),
    "pinv": _pinv,
}
