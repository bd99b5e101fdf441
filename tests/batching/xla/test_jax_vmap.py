"""vmap has JAX's semantics: the same functions, `in_dims` and `out_dims` under `jax.vmap`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import gradwalk as gw

Shapes = tuple[tuple[int, ...], ...]
# Name, function in gradwalk, function in JAX, shapes with the samples, in_dims, out_dims.
Case = tuple[str, Callable[..., Any], Callable[..., Any], Shapes, tuple[Any, ...], int]

CASES: list[Case] = [
    ("tanh", gw.tanh, jnp.tanh, ((4, 3),), (1,), 0),
    ("add", gw.add, jnp.add, ((4, 3), (3,)), (0, None), 1),
    ("ranks differ", gw.mul, jnp.multiply, ((4, 3), (4, 2, 3)), (0, 0), 0),
    ("negative dimensions", gw.sub, jnp.subtract, ((3, 4), (3, 4)), (-1, 1), -1),
    ("matmul", gw.matmul, jnp.matmul, ((4, 2, 3), (3, 5)), (0, None), 0),
    ("vectors", gw.matmul, jnp.matmul, ((4, 3), (3, 4)), (0, 1), 0),
    ("sum", lambda x: x.sum(0), lambda x: x.sum(0), ((4, 3, 2),), (0,), 0),
    ("max", lambda x: x.amax(-1), lambda x: x.max(-1), ((4, 3, 2),), (2,), 1),
    ("cumsum", lambda x: x.cumsum(0), lambda x: jnp.cumsum(x, 0), ((4, 3),), (0,), 0),
    ("sort", lambda x: x.sort(0)[0], lambda x: jnp.sort(x, 0), ((4, 5),), (1,), 0),
    ("softmax", lambda x: x.softmax(0), lambda x: jax.nn.softmax(x, 0), ((4, 3),), (0,), 0),
    ("transpose", lambda x: x.mT, lambda x: x.mT, ((2, 4, 3),), (1,), 2),
    ("reshape", lambda x: x.reshape(6), lambda x: x.reshape(6), ((2, 4, 3),), (1,), 0),
    ("index", lambda x: x[1:, 0], lambda x: x[1:, 0], ((4, 3, 2),), (0,), 0),
    ("where", lambda x, y: gw.where(x > 0, x, y), lambda x, y: jnp.where(x > 0, x, y),
     ((4, 3), (3,)), (0, None), 0),
    ("cat", lambda x, y: gw.cat([x, y]), lambda x, y: jnp.concatenate([x, y]),
     ((4, 3), (2,)), (0, None), 0),
    ("einsum", lambda x, y: gw.einsum("ij,j->i", x, y), lambda x, y: jnp.einsum("ij,j->i", x, y),
     ((4, 2, 3), (3, 4)), (0, 1), 0),
    ("solve", lambda x, y: gw.linalg.solve(x @ x.mT + gw.eye(3, dtype=gw.float64), y),
     lambda x, y: jnp.linalg.solve(x @ x.mT + jnp.eye(3), y), ((4, 3, 3), (3, 2)), (0, None), 0),
    ("gradient", gw.grad(lambda w, x: (w @ x).tanh().sum()),
     jax.grad(lambda w, x: jnp.tanh(w @ x).sum()), ((2, 3), (4, 3)), (None, 0), 0),
    ("nested", lambda x, y: gw.vmap(gw.mul, (None, 0))(x, y),
     lambda x, y: jax.vmap(jnp.multiply, (None, 0))(x, y), ((4, 3), (4, 2, 3)), (0, 0), 0),
    ("hessian", gw.hessian(lambda x: (x**3).sum() * x.sum()),
     jax.hessian(lambda x: (x**3).sum() * x.sum()), ((4, 3),), (0,), 0),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=[case[0] for case in CASES])
def test_vmap_gives_what_jax_gives(case: Case) -> None:
    _, ours, theirs, shapes, in_dims, out_dims = case
    rng = np.random.default_rng(0)
    arrays = [rng.normal(size=shape) for shape in shapes]
    found = gw.vmap(ours, in_dims, out_dims)(*map(gw.tensor, arrays)).numpy()
    with jax.enable_x64(True):
        given = [jnp.asarray(array) for array in arrays]
        wanted = np.asarray(jax.vmap(theirs, in_dims, out_dims)(*given))
    assert (found.shape, found.dtype) == (wanted.shape, wanted.dtype)
    np.testing.assert_allclose(found, wanted, 1e-10, 1e-12)
