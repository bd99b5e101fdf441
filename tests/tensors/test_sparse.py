"""Sparse tensors: PyTorch's numbers and gradients, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import gradwalk as gw
from tests.batches import batched

# Of PyTorch's products of two sparse tensors.
pytestmark = pytest.mark.filterwarnings("ignore:Sparse CSR tensor support")
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
    "product of two": lambda lib, s, x: (s @ s.t()).to_dense() * x[:5, :1],
    "sparse.mm of two": lambda lib, s, x: lib.sparse.mm(s.t(), s.coalesce()).to_dense() @ x,
    "rows": lambda lib, s, x: s.index_select(0, lib.tensor([3, 0, 3])).to_dense() * x[:3, :1],
    "columns": lambda lib, s, x: s.index_select(1, lib.tensor([6, 1])).to_dense() * x[:5, :1],
    "a row": lambda lib, s, x: s[2].to_dense() * x[:, 0],
    "a column": lambda lib, s, x: s.select(1, 4).to_dense() * x[:5, 0],
    "an element": lambda lib, s, x: s[int(INDICES[0, 0]), int(INDICES[1, 0])] * x,
    "some rows": lambda lib, s, x: s.narrow_copy(0, 1, 3).to_dense() * x[:3, :1],
    "stack": lambda lib, s, x: lib.stack([s, 2 * s], 1).to_dense()[:, 1] * x[:5, :1],
    "cat": lambda lib, s, x: lib.cat([s, s.coalesce()], 1) @ lib.cat([x, 2 * x]),
    "batch": lambda lib, s, x: lib.bmm(lib.stack([s, 3 * s]), lib.stack([x, x])),
    "permuted": lambda lib, s, x: s.permute(1, 0).to_dense() * x[:, :1],
    "unsqueeze": lambda lib, s, x: s.unsqueeze(1).to_dense()[:, 0] * x[:5, :1],
    "linear": lambda lib, s, x: lib.nn.functional.linear(s, x.t(), x[0]),
    "dense and": lambda lib, s, x: lib.add(lib.tensor(FULL), s, alpha=2.0) * x[:5, :1],
    "in a dense one": lambda lib, s, x: (lib.tensor(FULL) * 1).add_(s) * x[:5, :1],
    "sparse number": lambda lib, s, x: (s * lib.tensor(2.0).double().to_sparse()) @ x,
    "log_softmax": lambda lib, s, x: lib.sparse.log_softmax(s, 1).to_dense() * x[:5, :1],
}
# PyTorch has no gradient of these; what is computed with the dense tensor has.
ONLY_OURS = {"product of two", "rows", "columns", "a row", "a column", "some rows", "unsqueeze"}
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
    if lib is torch and label in ONLY_OURS:
        made = made.to_dense()
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


def _state(s: Any) -> tuple[Any, ...]:
    """What two libraries can be compared by."""
    stored = s._indices().tolist(), s._values().tolist()
    return (tuple(s.shape), s.is_coalesced(), str(s.dtype).removeprefix("torch."), *stored)


MADE: dict[str, Any] = {
    "a number": lambda lib: lib.tensor(3.0).to_sparse(),
    "the number 0": lambda lib: lib.tensor(0.0).to_sparse(),
    "coalesced without dimensions": lambda lib: (
        lib.tensor(3.0).to_sparse()._coalesced_(False).coalesce()
    ),
    "one value": lambda lib: lib.sparse_coo_tensor(([1],), 2.0, check_invariants=True),
    "no element": lambda lib: lib.sparse_coo_tensor(
        lib.zeros(2, 0, dtype=lib.int64), lib.zeros(0), check_invariants=True
    ),
    "sum of coalesced": lambda lib: lib.eye(2).to_sparse() + lib.ones(2, 2).to_sparse(),
    "product": lambda lib: lib.eye(2).to_sparse() @ lib.ones(2, 2).to_sparse(),
    "slice": lambda lib: lib.eye(4).to_sparse().narrow_copy(0, 1, 2),
    "integers": lambda lib: lib.eye(2, dtype=lib.uint8).to_sparse().int(),
    "quotient": lambda lib: lib.full((2,), 7.0).to_sparse() // 2,
    "third": lambda lib: lib.full((2,), 0.7).to_sparse() / 3,
    "isnan": lambda lib: lib.tensor([float("nan"), 1.0, 0.0]).to_sparse().isnan(),
    "mask": lambda lib: lib.arange(4.0).sparse_mask(lib.tensor([0.0, 1.0, 0.0, 1.0]).to_sparse()),
    "vectors": lambda lib: (
        lib.ones(2, 3).to_sparse(1)[1:2] if lib is gw else lib.ones(1, 3).to_sparse(1)
    ),
    "unsqueezed": lambda lib: lib.eye(2).to_sparse().unsqueeze(1),
    "zeros like": lambda lib: lib.zeros_like(lib.eye(2).to_sparse()),
    "empty like": lambda lib: lib.empty_like(lib.eye(2).to_sparse(), dtype=lib.float64),
    "a vector transposed": lambda lib: lib.ones(2).to_sparse().t(),
    "zeroed": lambda lib: lib.eye(2).to_sparse().zero_(),
    "relu_": lambda lib: lib.tensor([-1.0, 2.0]).to_sparse().relu_(),
    "copied": lambda lib: lib.zeros(2).to_sparse().copy_(lib.ones(2).to_sparse()),
}


@batched("label", MADE)
def test_what_is_made(label: str) -> None:
    found, expected = _state(MADE[label](gw)), _state(MADE[label](torch))
    np.testing.assert_equal(found, expected)


def test_an_element_keeps_its_dtype() -> None:
    for lib in (gw, torch):
        assert lib.eye(2, dtype=lib.uint8).to_sparse()[1, 1].dtype == lib.uint8
        with pytest.raises(IndexError):
            lib.eye(2).to_sparse()[5, 1]


def test_changed_in_place() -> None:
    for lib in (gw, torch):
        values = lib.tensor([1.0, 2.0])
        changed = lib.sparse_coo_tensor(
            lib.tensor([[0, 1], [1, 0]]), values, (2, 2), check_invariants=True
        )
        same = changed
        same *= 3
        changed.div_(2)
        assert same is changed and values.tolist() == [1, 2]  # has memory of its own
        same += changed
        assert changed.to_dense().tolist() == [[0, 3], [6, 0]]
        assert bool(lib.ones(1).to_sparse()) and not bool(lib.zeros(1).to_sparse())
        assert lib.is_tensor(changed) and changed.type() == "torch.sparse.FloatTensor"
        assert lib.eye(2).to_sparse().any() and lib.full((2,), 3.0).to_sparse().norm(1) == 6
        with pytest.raises(RuntimeError, match=r"in[- ]place"):
            lib.eye(2).to_sparse().requires_grad_().mul_(2)


class Graph(gw.nn.Module):
    """A network that keeps its graph as a buffer."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.linear = gw.nn.Linear(2, 2)
        self.register_buffer("adjacency", (size * gw.eye(3)).to_sparse())

    def forward(self, x: Any) -> Any:
        return self.linear(self.adjacency @ x)


def test_written_into_one() -> None:
    for lib in (gw, torch):
        out = lib.zeros(2).to_sparse()
        assert lib.neg(lib.ones(2).to_sparse(), out=out) is out
        assert out.to_dense().tolist() == [-1, -1]
        assert (
            lib.as_tensor(out) is out and lib.as_tensor(out, dtype=lib.float64).layout == out.layout
        )


def test_as_a_buffer() -> None:
    first, second = Graph(1).double(), Graph(2).double()
    assert first.adjacency.dtype == gw.float64
    state = first.state_dict()
    assert [*state] == ["adjacency", "linear.weight", "linear.bias"]
    second.load_state_dict(state)
    x = gw.ones(3, 2, dtype=gw.float64)
    np.testing.assert_array_equal(second(x).detach().numpy(), first(x).detach().numpy())
    first.adjacency = gw.zeros(3, 3).to_sparse()
    assert dict(first.named_buffers())["adjacency"]._nnz() == 0
    assert second.adjacency._nnz() == 3
    with pytest.raises(RuntimeError, match="adjacency: not a sparse tensor of shape"):
        second.load_state_dict(state | {"adjacency": gw.eye(3)})
    with pytest.raises(RuntimeError, match=r'Missing key.*"adjacency"'):
        second.load_state_dict({"linear.weight": x[:2], "linear.bias": x[0]})


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
    "index": (lambda: SPARSE[None], NotImplementedError, "getitem of a sparse tensor"),
    "outside index": (lambda: SPARSE[3], IndexError, "index 3 is outside of a dimension of 3"),
    "outside list": (lambda: SPARSE[gw.tensor([3])], IndexError, "outside of a dimension of 3"),
    "number": (lambda: SPARSE + 1, NotImplementedError, "add of a sparse tensor"),
    "dense": (lambda: SPARSE * gw.ones(2, 3, 3), NotImplementedError, "mul of a sparse tensor"),
    "both": (lambda: SPARSE @ SPARSE[:2], ValueError, r"\(m, n\) and \(n, k\), not shapes"),
    "joined": (lambda: gw.cat([SPARSE, SPARSE[:, :2]]), ValueError, "cannot be joined along"),
    "layout": (lambda: gw.ones(2).to_sparse(layout="csr"), NotImplementedError, "layout csr"),
    "quotient": (lambda: 1 / SPARSE, NotImplementedError, "div of a sparse tensor"),
    "view": (lambda: SPARSE.view(-1), AttributeError, r"no 'view'\. Fix: x\.to_dense\(\)\.view"),
    "unknown": (lambda: SPARSE.nonsense, AttributeError, "no attribute 'nonsense'"),
    "shapes": (lambda: SPARSE @ gw.ones(2, 2), ValueError, "sparse product takes"),
    "twice": (lambda: (SPARSE.t() + SPARSE).values(), RuntimeError, r"x\.coalesce\(\)\.values"),
    "outside": (lambda: gw.sparse_coo_tensor([[3]], [1.0], (3,)), ValueError, "outside of"),
    "rows": (lambda: gw.sparse_coo_tensor([[0]], [1.0], (3, 3)), ValueError, "does not fit 1 rows"),
    "columns": (lambda: gw.sparse_coo_tensor([[0, 1]], [1.0]), ValueError, "column for each value"),
    "dimensions": (lambda: gw.ones(2).to_sparse(3), ValueError, "sparse_dim=3"),
    "vectors": (
        lambda: gw.ones(2, 2).to_sparse(1).transpose(0, 1), NotImplementedError, "are not numbers",
    ),
}  # fmt: skip


REFUSED |= {
    "dense out": (lambda: gw.zeros(2, out=gw.eye(2).to_sparse()), TypeError, "does not fit an out"),
    "dense result": (lambda: gw.add(gw.ones(2), 1, out=gw.ones(2).to_sparse()), TypeError, "fit"),
    "sparse result": (lambda: gw.abs(SPARSE, out=gw.zeros(3, 3)), TypeError, "fit an out"),
    "copied dense": (lambda: SPARSE.clone().copy_(gw.eye(3)), TypeError, r"Fix: \.to_sparse"),

    "rows fall": (lambda: gw.sparse_csr_tensor([0, 2, 1], [0], [1.0]), ValueError, "never fall"),
    "few columns": (lambda: gw.sparse_csr_tensor([0, 2], [0], [1.0]), ValueError, "2 columns, not"),
    "columns fall": (
        lambda: gw.sparse_csr_tensor([0, 2], [1, 1], [1.0, 2.0]), ValueError, "none comes twice",
    ),
    "other rows": (
        lambda: gw.sparse_csr_tensor([0, 1], [0], [1.0], (2, 2)), ValueError, "1 rows in crow",
    ),
    "no matrix": (lambda: gw.ones(2).to_sparse_csr(), ValueError, "it is for matrices"),
    "coordinates": (lambda: gw.eye(2).to_sparse_csr().indices(), RuntimeError, "compressed rows"),
}  # fmt: skip


@batched("label", REFUSED)
def test_what_is_refused_says_so(label: str) -> None:
    make, kind, words = REFUSED[label]
    with pytest.raises(kind, match=words):
        make()


def test_sparse_tensors_of_pytorch_are_no_operands() -> None:
    theirs = torch.eye(2).to_sparse()
    assert not gw.is_tensor(theirs)
    for call in (lambda: gw.add(gw.ones(2, 2), theirs), lambda: gw.ones(2, 2).add_(theirs)):
        with pytest.raises(TypeError, match="expected a Tensor"):
            call()


def rows(lib: Any, values: Any) -> Any:
    starts, columns = lib.tensor([0, 1, 3, 3]), lib.tensor([1, 0, 2])
    return lib.sparse_csr_tensor(starts, columns, values, (3, 3), check_invariants=True)


# By name: the same computation with gradwalk and with PyTorch, of (library, matrix, dense).
OF_ROWS: dict[str, Any] = {
    "dense": lambda lib, m, x: m.to_dense(),
    "parts": lambda lib, m, x: lib.stack([m.crow_indices()[:3], m.col_indices()]),
    "values": lambda lib, m, x: m.values(),
    "product": lambda lib, m, x: lib.sparse.mm(m, x),
    "with a vector": lambda lib, m, x: m @ x[:, 0],
    "behind": lambda lib, m, x: x.t() @ m,
    "addmm": lambda lib, m, x: lib.sparse.addmm(x, m, x),
    "of two": lambda lib, m, x: m @ m,
    "sum": lambda lib, m, x: m + m,
    "multiple": lambda lib, m, x: 2 * m,
    "by element": lambda lib, m, x: m * m.to_dense(),
    "relu": lambda lib, m, x: lib.relu(m),
    "a row": lambda lib, m, x: m[1].to_dense(),
    "transposed": lambda lib, m, x: m.t().to_dense(),
    "coordinates": lambda lib, m, x: m.to_sparse(),
    "and back": lambda lib, m, x: m.to_sparse().to_sparse_csr(),
    "of a dense one": lambda lib, m, x: lib.eye(3)[:2].to_sparse_csr(),
    "by its layout": lambda lib, m, x: lib.eye(3).to_sparse(layout=lib.sparse_csr),
    "double": lambda lib, m, x: m.double(),
    "clone": lambda lib, m, x: m.clone(),
    "total": lambda lib, m, x: m.sum(),
    "inferred": lambda lib, m, x: lib.sparse_csr_tensor(
        [0, 1, 3], [2, 0, 1], [3.0, 4.0, 5.0], check_invariants=True
    ),
}


@batched("label", OF_ROWS)
def test_compressed_rows(label: str) -> None:
    found, expected = (
        OF_ROWS[label](lib, rows(lib, lib.tensor([1.0, 2.0, 3.0])), lib.arange(6.0).reshape(3, 2))
        for lib in (gw, torch)
    )
    assert str(found.layout) == str(expected.layout)
    assert str(found.dtype) == str(expected.dtype).removeprefix("torch.")
    assert found.is_sparse == expected.is_sparse and found.is_sparse_csr == expected.is_sparse_csr
    np.testing.assert_array_equal(found.to_dense().numpy(), expected.to_dense().numpy())


@batched("reduce", ["sum", "mean", "amax", "amin"])
def test_what_a_row_contributes_is_reduced_as_in_pytorch(reduce: str) -> None:
    results = []
    for lib in (gw, torch):
        starts, columns = lib.tensor([0, 2, 2, 5, 5]), lib.tensor([1, 2, 0, 1, 2])
        values = lib.tensor([1.0, -2, 3, 3, 0.5]).requires_grad_()
        x = lib.tensor([[1.0, 2], [1, -1], [0, 3]]).requires_grad_()  # 3 × 1 is there twice
        made = lib.sparse_csr_tensor(starts, columns, values, (4, 3), check_invariants=True)
        made = lib.sparse.mm(made, x, reduce)
        (made * lib.arange(1.0, 9.0).reshape(4, 2)).sum().backward()
        results.append([made.detach(), values.grad, x.grad])
    for mine, theirs in zip(*results):
        np.testing.assert_allclose(mine.numpy(), theirs.numpy(), rtol=1e-6)
    with pytest.raises(ValueError, match="sum, mean, amax or amin, not 'prod'"):
        gw.sparse.mm(gw.eye(2).to_sparse(), gw.eye(2), "prod")


def test_gradients_of_compressed_rows() -> None:
    values, x = gw.tensor([1.0, 2.0, 3.0], requires_grad=True), gw.ones(3, 2, requires_grad=True)
    (rows(gw, values) @ x).square().sum().backward()
    dense = torch.tensor([[0, 1.0, 0], [2, 0, 3], [0, 0, 0]], requires_grad=True)
    other = torch.ones(3, 2, requires_grad=True)
    (dense @ other).square().sum().backward()
    assert values.grad is not None and x.grad is not None
    assert dense.grad is not None and other.grad is not None
    assert values.grad.tolist() == [dense.grad[i, j].item() for i, j in ((0, 1), (1, 0), (1, 2))]
    assert x.grad.tolist() == other.grad.tolist()
    assert repr(rows(gw, values.detach())) == (
        "sparse_csr_tensor(crow_indices=tensor([0, 1, 3, 3]),\n"
        "  col_indices=tensor([1, 0, 2]),\n  values=tensor([1., 2., 3.]),\n"
        "  size=(3, 3), nnz=3)"
    )
