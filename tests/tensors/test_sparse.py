"""Sparse tensors: PyTorch's numbers and gradients, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import gradwalk as gw
from tests.batches import batched

RNG = np.random.default_rng(0)
ROWS, COLUMNS, STORED = 5, 7, 12
INDICES = np.stack([RNG.integers(0, ROWS, STORED), RNG.integers(0, COLUMNS, STORED)])
INDICES[:, -1] = INDICES[:, 0]  # one element is stored twice
VALUES = RNG.normal(size=STORED)
DENSE = RNG.normal(size=(COLUMNS, 3))

# By name: the same computation with gradwalk and with PyTorch, of (library, sparse, dense).
PRODUCTS: dict[str, Any] = {
    "sparse.mm": lambda lib, s, x: lib.sparse.mm(s, x),
    "spmm": lambda lib, s, x: lib.spmm(s, x),
    "mm": lambda lib, s, x: lib.mm(s, x),
    "matmul": lambda lib, s, x: lib.matmul(s, x),
    "@": lambda lib, s, x: s @ x,
    "dense by sparse": lambda lib, s, x: lib.mm(x.T, s.t()),
    "vector by sparse": lambda lib, s, x: x[:, 0] @ s.t(),
    "dense.mm": lambda lib, s, x: x.T.mm(s.t()),
    "dense.matmul": lambda lib, s, x: lib.matmul(x.T, s.t()),
    "@ of a vector": lambda lib, s, x: s @ x[:, 0],
    "coalesced": lambda lib, s, x: s.coalesce() @ x,
    "transposed": lambda lib, s, x: s.t() @ (s @ x),
    "twice transposed": lambda lib, s, x: s.transpose(0, 1).transpose(0, 1) @ x,
    "multiple": lambda lib, s, x: (2 * s / 3) @ x,
    "negative": lambda lib, s, x: -s @ x,
    "sum of two": lambda lib, s, x: (s + s.coalesce()) @ x,
    "difference": lambda lib, s, x: (3 * s - s) @ x,
    "to_dense": lambda lib, s, x: s.to_dense() @ x,
    "sparse again": lambda lib, s, x: s.to_dense().to_sparse() @ x,
    "addmm": lambda lib, s, x: lib.sparse.addmm(x[:5], s, x, beta=2.0, alpha=0.5),
    "total": lambda lib, s, x: s.sum() * x,
    "sum of all": lambda lib, s, x: lib.sparse.sum(s) * x,
    "sum of rows": lambda lib, s, x: lib.sparse.sum(s, dim=1).to_dense() * x[:5, 0],
    "sum of columns": lambda lib, s, x: lib.sparse.sum(s, dim=-2).to_dense() * x[:, 0],
    "values": lambda lib, s, x: s.coalesce().values() * x[0, 0],
    "times dense": lambda lib, s, x: (s * lib.tensor(FULL)).to_dense() * x[:5, :1],
    "dense plus": lambda lib, s, x: lib.add(lib.tensor(FULL), s, alpha=2) * x[:5, :1],
    "mul of dense": lambda lib, s, x: lib.mul(lib.tensor(FULL), s).to_dense() * x[:5, :1],
    "dense times": lambda lib, s, x: (lib.tensor(FULL) * s).to_dense() * x[:5, :1],
    "times sparse": lambda lib, s, x: (s * s.t().t().coalesce()).to_dense() * x[:5, :1],
    "relu": lambda lib, s, x: lib.relu(s).to_dense() * x[:5, :1],
    "power": lambda lib, s, x: (s**3).to_dense() * x[:5, :1],
    "mv": lambda lib, s, x: lib.mv(s, x[:, 1]),
    "softmax of rows": lambda lib, s, x: lib.sparse.softmax(s, 1).to_dense() * x[:5, :1],
    "softmax of columns": lambda lib, s, x: lib.sparse.softmax(s, 0).to_dense() * x[:5, :1],
    "log_softmax": lambda lib, s, x: lib.sparse.log_softmax(s, 1).to_dense() * x[:5, :1],
}
FULL = RNG.normal(size=(ROWS, COLUMNS))


def sparse(lib: Any, values: Any, *dense: int) -> Any:
    """PyTorch warns unless it is told whether to check."""
    size = (ROWS, COLUMNS, *dense)
    return lib.sparse_coo_tensor(lib.tensor(INDICES), values, size, check_invariants=True)


def run(lib: Any, label: str) -> tuple[Any, Any, Any]:
    values = lib.tensor(VALUES, requires_grad=True)
    dense = lib.tensor(DENSE, requires_grad=True)
    made = lib.sparse_coo_tensor(
        lib.tensor(INDICES), values, (ROWS, COLUMNS), check_invariants=True
    )
    out = PRODUCTS[label](lib, made, dense)
    weights = np.linspace(1, 2, out.numel()).reshape(tuple(out.shape))
    (out * lib.tensor(weights)).sum().backward()
    zeros = np.zeros(DENSE.shape)
    return (
        out.detach().numpy(),
        values.grad.numpy(),
        zeros if dense.grad is None else dense.grad.numpy(),
    )


@batched("label", PRODUCTS)
def test_values_and_gradients(label: str) -> None:
    for found, expected in zip(run(gw, label), run(torch, label), strict=True):
        np.testing.assert_allclose(found, expected, 1e-12, 1e-12)


def test_what_a_sparse_tensor_tells() -> None:
    for lib in (gw, torch):
        s = sparse(lib, lib.tensor(VALUES))
        assert (s.is_sparse, s.is_coalesced(), s._nnz()) == (True, False, STORED)
        assert (tuple(s.shape), tuple(s.size()), s.size(1)) == ((5, 7), (5, 7), 7)
        assert (s.ndim, s.dim(), s.numel(), s.sparse_dim(), s.dense_dim()) == (2, 2, 35, 2, 0)
        assert (s.dtype, s.float().dtype) == (lib.float64, lib.float32)
        assert s.to(lib.float32).double().dtype == lib.float64
        assert s.coalesce().coalesce().is_coalesced()
        assert not s.requires_grad
    mine = gw.sparse_coo_tensor(INDICES, VALUES).coalesce()  # of the smallest size
    other = sparse(torch, torch.tensor(VALUES)).coalesce()
    assert mine.shape == tuple(INDICES.max(1) + 1)
    np.testing.assert_array_equal(mine.indices().numpy(), other.indices().numpy())
    np.testing.assert_allclose(mine.values().numpy(), other.values().numpy())
    assert repr(gw.eye(1).to_sparse()) == (
        "sparse_coo_tensor(indices=tensor([[0],\n        [0]]),\n  values=tensor([1.]),\n"
        "  size=(1, 1), nnz=1)"
    )


def test_values_may_be_vectors() -> None:
    values = RNG.normal(size=(STORED, 2))
    mine = sparse(gw, gw.tensor(values), 2)
    other = sparse(torch, torch.tensor(values), 2)
    assert (mine.sparse_dim(), mine.dense_dim()) == (2, 1)
    np.testing.assert_allclose(mine.to_dense().numpy(), other.to_dense().numpy())
    for dim in ((0,), (0, 1), (0, 2)):
        found, expected = gw.sparse.sum(mine, dim), torch.sparse.sum(other, dim)
        found, expected = (x.to_dense() if x.is_sparse else x for x in (found, expected))
        np.testing.assert_allclose(found.numpy(), expected.numpy(), 1e-12)
    rows, others = (lib.tensor(values).to_sparse(1) for lib in (gw, torch))
    np.testing.assert_array_equal(rows.indices().numpy(), others.indices().numpy())


def test_ops_of_the_stored_elements() -> None:
    names = "abs asin asinh atan atanh ceil erf expm1 floor log1p relu round sgn sign sin sinh"
    names = [*names.split(), "sqrt", "square", "tan", "tanh", "trunc"]
    for name in names:
        found, expected = (
            getattr(lib, name)(sparse(lib, lib.tensor(abs(VALUES) / 4))) for lib in (gw, torch)
        )
        np.testing.assert_allclose(found.to_dense().numpy(), expected.to_dense().numpy(), 1e-12)
    mask = np.eye(ROWS, COLUMNS)
    found, expected = (
        sparse(lib, lib.tensor(VALUES)) * lib.tensor(mask).to_sparse() for lib in (gw, torch)
    )
    np.testing.assert_allclose(found.to_dense().numpy(), expected.to_dense().numpy(), 1e-12)


def test_softmax_beside_values_that_are_vectors() -> None:
    values = RNG.normal(size=(STORED, 2))
    for dim in (0, 1, 2):
        found, expected = (
            lib.sparse.softmax(sparse(lib, lib.tensor(values), 2), dim).to_dense()
            for lib in (gw, torch)
        )
        np.testing.assert_allclose(found.numpy(), expected.numpy(), 1e-12)


def test_a_size_alone_stores_nothing() -> None:
    for lib in (gw, torch):
        empty = lib.sparse_coo_tensor((2, 3), dtype=lib.float64, check_invariants=True)
        assert (empty._nnz(), empty.dtype, empty.is_coalesced()) == (0, lib.float64, True)
        assert empty.to_dense().tolist() == [[0, 0, 0]] * 2
        assert empty.layout == lib.sparse_coo and lib.ones(1).layout == lib.strided


def test_old_constructors() -> None:
    made = gw.sparse.FloatTensor(
        gw.LongTensor([[0, 1], [1, 0]]), gw.FloatTensor([2, 3]), gw.Size((2, 2))
    )
    assert made.to_dense().tolist() == [[0, 2], [3, 0]]
    assert gw.sparse.DoubleTensor([[0]], [1.0]).dtype == gw.float64


def test_a_leaf_has_a_gradient() -> None:
    leaf = gw.sparse_coo_tensor([[0, 1], [1, 0]], [2.0, 3.0], (2, 2), requires_grad=True)
    (leaf @ gw.ones(2, 1)).sum().backward()
    assert leaf.requires_grad
    assert leaf.grad.to_dense().tolist() == [[0, 1], [1, 0]]
    assert leaf.detach().grad is None
    assert leaf.clone().requires_grad


def test_compiled() -> None:
    """A layer of a graph network, with a sparse tensor from outside and one made inside."""
    adjacency = gw.sparse_coo_tensor(INDICES, VALUES.astype(np.float32), (ROWS, COLUMNS))
    index = adjacency._indices()

    def layer(x: Any, weights: Any) -> Any:
        inside = gw.sparse_coo_tensor(index, weights, (ROWS, COLUMNS))
        return (adjacency @ x).relu().sum() + (inside @ x).square().sum()

    x, weights = gw.tensor(DENSE).float(), gw.tensor(VALUES).float()
    expected, slopes = gw.value_and_grad(layer, argnums=(0, 1))(x, weights)
    found, compiled = gw.compile(gw.value_and_grad(layer, argnums=(0, 1)))(x, weights)
    np.testing.assert_allclose(found.numpy(), expected.numpy(), 1e-5)
    for mine, other in zip(compiled, slopes, strict=True):
        np.testing.assert_allclose(mine.numpy(), other.numpy(), 1e-5, 1e-5)


class SpecialProduct(gw.autograd.Function):
    """As attention over the edges of a graph writes it."""

    @staticmethod
    def forward(ctx: Any, index: Any, values: Any, shape: Any, x: Any) -> Any:
        matrix = gw.sparse_coo_tensor(index, values, shape)
        ctx.save_for_backward(x)
        ctx.matrix = matrix
        return gw.matmul(matrix, x)

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        (x,) = ctx.saved_tensors
        rows, columns = ctx.matrix._indices()
        return None, (g @ x.t())[rows, columns], None, ctx.matrix.t().matmul(g)


def test_inside_a_function() -> None:
    values, x = gw.tensor(VALUES, requires_grad=True), gw.tensor(DENSE, requires_grad=True)
    SpecialProduct.apply(gw.tensor(INDICES), values, (ROWS, COLUMNS), x).square().sum().backward()
    found, expected = values.grad.clone(), x.grad.clone()
    values.grad = x.grad = None
    (gw.sparse_coo_tensor(INDICES, values, (ROWS, COLUMNS)) @ x).square().sum().backward()
    np.testing.assert_allclose(found.numpy(), values.grad.numpy())
    np.testing.assert_allclose(expected.numpy(), x.grad.numpy())


SPARSE = gw.eye(3).to_sparse()
REFUSED: dict[str, tuple[Any, type[Exception], str]] = {
    "exp": (lambda: SPARSE.exp(), NotImplementedError, r"exp of a sparse .* Fix: call \.to_dense"),
    "cos": (lambda: gw.cos(SPARSE), NotImplementedError, "cos of a sparse tensor"),
    "index": (lambda: SPARSE[0], NotImplementedError, "getitem of a sparse tensor"),
    "number": (lambda: SPARSE + 1, NotImplementedError, "add of a sparse tensor"),
    "dense": (lambda: SPARSE * gw.ones(2, 3, 3), NotImplementedError, "mul of a sparse tensor"),
    "both": (lambda: SPARSE @ SPARSE, NotImplementedError, "matmul of a sparse tensor"),
    "quotient": (lambda: 1 / SPARSE, NotImplementedError, "div of a sparse tensor"),
    "view": (lambda: SPARSE.view(-1), AttributeError, r"no 'view'\. Fix: x\.to_dense\(\)\.view"),
    "unknown": (lambda: SPARSE.nonsense, AttributeError, "no attribute 'nonsense'"),
    "shapes": (lambda: SPARSE @ gw.ones(2, 2), ValueError, "sparse product takes"),
    "twice": (lambda: (SPARSE + SPARSE).values(), RuntimeError, r"Fix: x\.coalesce\(\)\.values"),
    "outside": (lambda: gw.sparse_coo_tensor([[3]], [1.0], (3,)), ValueError, "outside of"),
    "rows": (lambda: gw.sparse_coo_tensor([[0]], [1.0], (3, 3)), ValueError, "does not fit 1 rows"),
    "columns": (lambda: gw.sparse_coo_tensor([[0, 1]], [1.0]), ValueError, "column for each value"),
    "size": (lambda: gw.sparse_coo_tensor(gw.zeros(1, 0), gw.zeros(0)), ValueError, "pass size"),
    "dimensions": (lambda: gw.ones(2).to_sparse(3), ValueError, "sparse_dim=3"),
    "vectors": (
        lambda: gw.ones(2, 2).to_sparse(1).transpose(0, 1), NotImplementedError, "are not numbers",
    ),
}  # fmt: skip


@batched("label", REFUSED)
def test_what_is_refused_says_so(label: str) -> None:
    make, kind, words = REFUSED[label]
    with pytest.raises(kind, match=words):
        make()
