"""Shape, index and linear algebra beside the table: zeros, singular matrices, views, errors."""

from __future__ import annotations

import inspect
import itertools
import math
from typing import Any

import numpy as np
import pytest
import torch

import gradwalk as gw
from gradwalk.ops.core.op import UnknownShapeError
from gradwalk.ops.core.symbol import Symbol
from tests.ops import test_methods, test_pytorch_samples
from tests.ops.oracle import OURS, SINGLE, THEIRS, TIGHT, assert_same, run
from tests.ops.samples import networks_b, structural

FIRST_ORDER: dict[str, tuple[Any, list[Any]]] = {
    "norm at zero": (lambda m, x: m.linalg.vector_norm(x, dim=1), [[[3.0, 4.0], [0.0, 0.0]]]),
    "norm 3 at zero": (lambda m, x: m.linalg.vector_norm(x, 3, dim=1), [[[0.5, 0.0], [0.0, 0.0]]]),
    "norm 1 at zero": (lambda m, x: m.linalg.norm(x, 1), [[0.0, 2.0, -1.0]]),
    "cdist of itself": (lambda m, x: m.cdist(x, x), [[[1.0, 2.0], [3.0, 5.0], [0.0, 1.0]]]),
    **{
        f"cdist {p}": (
            lambda m, x, y, p=p: m.cdist(x, y, p),
            [[[1.0, 2.5], [3.0, 4.0]], [[0.5, 1.0], [3.5, 2.0], [0.1, 0.2]]],
        )
        for p in (1.0, 2.0, 3.5, float("inf"))
    },
    "det of zeros": (lambda m, x: m.det(x), [np.zeros((2, 2))]),
    "equal eigenvalues": (lambda m, x: m.linalg.eigvalsh(x) ** 2, [np.eye(3)]),
    "equal singular values": (lambda m, x: m.linalg.svdvals(x).sum(), [2 * np.eye(3)]),
    "the largest of equal singular values": (lambda m, x: m.linalg.norm(x, 2), [np.eye(2)]),
    "nuc of zeros": (lambda m, x: m.linalg.norm(x, "nuc"), [np.zeros((2, 2))]),
    "nuc by norm": (lambda m, x: m.norm(x, "nuc"), [[[1.0, 2.0], [3.0, 4.0], [0.5, 0.1]]]),
    "nuc by norm over dims": (
        lambda m, x: m.norm(x, "nuc", dim=(0, 2), keepdim=True),
        [np.arange(12.0).reshape(3, 2, 2) ** 1.5],
    ),
}


@pytest.mark.parametrize("name", FIRST_ORDER)
def test_value_and_gradient(name: str) -> None:
    call, arrays = FIRST_ORDER[name]
    given = [np.array(a) for a in arrays]
    assert_same(run(OURS, call, given), run(THEIRS, call, given), TIGHT)
    single = [a.astype(np.float32) for a in given]
    assert_same(run(OURS, call, single), run(THEIRS, call, single), SINGLE)


@pytest.mark.parametrize("name", ["norm at zero", "cdist of itself"])
def test_second_derivatives_at_zero_are_finite(name: str) -> None:
    call, arrays = FIRST_ORDER[name]
    found = run(OURS, call, [np.array(a) for a in arrays], order=2)
    assert all(np.isfinite(array).all() for array in found.second)


@pytest.mark.parametrize(
    "rows",
    [
        [[1.0, 2.0, 0.5], [2.0, 4.0, 1.0], [0.3, 0.1, 2.0]],
        [[2.0, 0.0, 0.0], [0.0, 0.0, 0.0], [0.0, 0.0, 3.0]],
        [[1.0, 2.0, 3.0], [2.0, 4.0, 6.0], [3.0, 6.0, 9.0]],
    ],
)
def test_the_gradient_of_a_singular_determinant(rows: Any) -> None:
    """The cofactors, as everywhere else; PyTorch says 0 here."""
    x = gw.tensor(rows, dtype=gw.float64, requires_grad=True)
    gw.det(x).backward()
    minors = [
        [(-1) ** (i + j) * np.linalg.det(np.delete(np.delete(rows, i, 0), j, 1)) for j in range(3)]
        for i in range(3)
    ]
    assert x.grad is not None
    np.testing.assert_allclose(x.grad.numpy(), minors, atol=1e-13)


@pytest.mark.parametrize("rank", range(5))
@pytest.mark.parametrize("size", [1, 2, 3, pytest.param(4, marks=pytest.mark.slow)])
def test_the_second_derivative_of_a_singular_determinant(size: int, rank: int) -> None:
    """As of the polynomial that it is: Σ over permutations."""

    def leibniz(x: Any) -> Any:
        total = 0.0
        for order in itertools.permutations(range(size)):
            swaps = sum(a > b for a, b in itertools.combinations(order, 2))
            total = total + (-1) ** swaps * math.prod(x[i, j] for i, j in enumerate(order))
        return total

    random = np.random.default_rng(size + 10 * rank)
    x = random.normal(size=(size, rank)) @ random.normal(size=(rank, size))
    there = gw.tensor(x)
    expected = gw.hessian(leibniz)(there)
    np.testing.assert_allclose(gw.hessian(gw.det)(there).numpy(), expected.numpy(), atol=1e-12)
    (first,) = gw.autograd.grad(gw.det(there.requires_grad_()), there, create_graph=True)
    weights = random.normal(size=x.shape)
    (second,) = gw.autograd.grad((first * gw.tensor(weights)).sum(), there)
    pulled = (expected.numpy() * weights[..., None, None]).sum((0, 1))
    np.testing.assert_allclose(second.numpy(), pulled, atol=1e-12)
    if rank < size:
        with pytest.raises(gw.linalg.LinAlgError, match="third derivative of det"):
            gw.jacrev(gw.hessian(gw.det))(there.detach())


@pytest.mark.parametrize("name", ["tril_indices", "triu_indices"])
@pytest.mark.parametrize("arguments", [(3, 3), (3, 4), (4, 2, 1), (3, 3, -1), (2, 3, 5), (0, 3)])
def test_indices_of_triangles(name: str, arguments: Any) -> None:
    found, expected = getattr(gw, name)(*arguments), getattr(torch, name)(*arguments)
    assert found.dtype == gw.int64
    assert found.tolist() == expected.tolist()


@pytest.mark.parametrize("shape", [(3, 3), (4, 2), (2, 5), (2, 4, 3)])
def test_factors_multiply_to_the_matrix(shape: tuple[int, ...]) -> None:
    x = gw.from_numpy(np.random.default_rng(0).normal(size=shape))
    for mode in ("reduced", "complete"):
        q, r = gw.linalg.qr(x, mode)
        np.testing.assert_allclose((q @ r).numpy(), x.numpy(), atol=1e-12)
        assert q.shape == tuple(torch.linalg.qr(torch.zeros(shape), mode)[0].shape)
    assert gw.linalg.qr(x, "r").Q.shape == (0,)
    for full in (False, True):
        u, s, vh = gw.linalg.svd(x, full_matrices=full)
        k = s.shape[-1]
        product = (u[..., :k] * s[..., None, :]) @ vh[..., :k, :]
        np.testing.assert_allclose(product.numpy(), x.numpy(), atol=1e-12)
        expected = torch.linalg.svd(torch.zeros(shape), full_matrices=full)
        assert [u.shape, s.shape, vh.shape] == [tuple(e.shape) for e in expected]


def test_only_the_last_of_several_writes_receives_a_gradient() -> None:
    source = gw.tensor([1.0, 2.0, 3.0], requires_grad=True)
    out = gw.scatter(gw.zeros(2), 0, gw.tensor([1, 0, 1]), source)
    assert out.tolist() == [2.0, 3.0]
    out.sum().backward()
    assert source.grad is not None and source.grad.tolist() == [0.0, 1.0, 1.0]


@pytest.mark.parametrize(
    "part",
    [
        lambda x: x.diagonal(),
        lambda x: x.mT.diagonal(1),
        lambda x: x.select(1, 0),
        lambda x: x.narrow(0, 1, 2),
        lambda x: x.unbind(1)[2],
        lambda x: x.tensor_split(2)[1],
        lambda x: x.movedim(0, 1)[0],
        lambda x: x.unflatten(1, (3, 1))[0],
    ],
)
def test_a_view_writes_through(part: Any) -> None:
    ours, theirs = gw.zeros(3, 3), torch.zeros(3, 3)
    part(ours).fill_(2.0)
    part(theirs).fill_(2.0)
    assert ours.tolist() == theirs.tolist()
    assert 2.0 in ours


def test_overlapping_windows_cannot_be_written_to() -> None:
    with pytest.raises(RuntimeError, match="share one place in memory"):
        gw.zeros(5).unfold(0, 3, 1).fill_(1.0)


def test_in_place_without_a_graph() -> None:
    x = gw.zeros(3)
    assert x.masked_fill_(gw.tensor([True, False, True]), 4) is x
    assert x.index_add_(0, gw.tensor([1, 1]), gw.ones(2)) is x
    assert x.scatter_(0, gw.tensor([0]), 9.0) is x
    assert x.scatter_(0, gw.tensor([0]), gw.ones(1), reduce="add") is x
    assert x.tolist() == [10.0, 2.0, 4.0]


def test_a_leaf_that_needs_a_gradient_is_not_changed_in_place() -> None:
    x = gw.zeros(3, requires_grad=True)
    for change in (
        lambda: x.masked_fill_(gw.tensor([True] * 3), 1.0),
        lambda: x.index_add_(0, gw.tensor([0]), gw.ones(1)),
        lambda: x.scatter_add_(0, gw.tensor([0]), gw.ones(1)),
    ):
        with pytest.raises(RuntimeError, match="is a leaf that requires a gradient"):
            change()


def test_what_depends_on_numbers_is_refused_for_symbols() -> None:
    symbol = Symbol("x", (3,), np.dtype(np.int64))
    for call in (
        lambda: gw.where(symbol),
        lambda: gw.nonzero(symbol),
        lambda: gw.repeat_interleave(gw.ones(3), symbol),
        lambda: gw.nn.functional.one_hot(symbol),
    ):
        with pytest.raises(UnknownShapeError):
            call()
    assert gw.nn.functional.one_hot(symbol, 5).shape == (3, 5)


def test_every_method_is_called_in_the_table() -> None:
    text = "".join(map(inspect.getsource, (networks_b, structural, test_methods)))
    left_out = {
        name
        for name, member in test_methods.members(about_shape=True).items()
        if callable(member) and not name.startswith("_") and f".{name}(" not in text
    }
    compared = {name.rpartition(".")[2] for name in test_pytorch_samples.NAMES}  # as methods, too
    assert left_out <= compared


KEYWORDS: dict[str, Any] = {
    "reshape": dict(shape=(4, 1)), "permute": dict(dims=(1, 0)), "flip": dict(dims=(0,)),
    "broadcast_to": dict(size=(3, 2, 2)), "transpose": dict(dim0=0, dim1=1), "squeeze": dict(dim=0),
    "unsqueeze": dict(dim=1), "flatten": dict(start_dim=0, end_dim=1),
    "chunk": dict(chunks=2, dim=1),
    "unflatten": dict(dim=0, sizes=(1, 2)), "movedim": dict(source=0, destination=1),
    "moveaxis": dict(source=0, destination=1), "swapaxes": dict(axis0=0, axis1=1),
    "swapdims": dict(dim0=0, dim1=1), "roll": dict(shifts=1, dims=0),
    "rot90": dict(k=1, dims=(0, 1)),
    "tile": dict(dims=(2,)), "repeat_interleave": dict(repeats=2, dim=0),
    "tril": dict(diagonal=1), "triu": dict(diagonal=1), "diag": dict(diagonal=1),
    "diagonal": dict(offset=1, dim1=0, dim2=1), "diag_embed": dict(offset=1, dim1=0, dim2=1),
    "unbind": dict(dim=0), "narrow": dict(dim=0, start=0, length=1), "select": dict(dim=0, index=1),
    "nonzero": dict(as_tuple=True),
    "ravel": {}, "fliplr": {}, "flipud": {}, "trace": {}, "det": {}, "inverse": {}, "argwhere": {},
    "matrix_power": dict(n=2), "logdet": {}, "slogdet": {},
}  # fmt: skip


@pytest.mark.parametrize("name", KEYWORDS)
def test_arguments_have_the_names_of_pytorch(name: str) -> None:
    data = [[2.0, 1.0], [0.5, 3.0]]
    found = getattr(gw, name)(input=gw.tensor(data), **KEYWORDS[name])
    expected = getattr(torch, name)(input=torch.tensor(data), **KEYWORDS[name])
    if not isinstance(found, tuple):
        found, expected = [found], [expected]
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one.numpy(), other.numpy(), rtol=1e-6)


def test_more_arguments_have_the_names_of_pytorch() -> None:
    def calls(m: Any) -> list[Any]:
        x, i, mask = m.arange(4.0).reshape(2, 2), m.tensor([[0, 1]]), m.tensor([True, False])
        row = m.tensor([1, 0])
        return [
            m.split(tensor=x, split_size_or_sections=1, dim=0)[1],
            m.gather(input=x, dim=0, index=i),
            m.scatter(input=x, dim=0, index=i, src=x),
            m.scatter(input=x, dim=0, index=i, value=7.0),
            m.scatter_add(input=x, dim=0, index=i, src=x),
            m.index_select(input=x, dim=0, index=row),
            m.index_add(input=x, dim=0, index=row, source=x, alpha=2),
            m.index_copy(input=x, dim=0, index=row, source=x),
            m.index_fill(input=x, dim=0, index=row, value=1.0),
            m.index_put(input=x, indices=(row,), values=x, accumulate=True),
            m.masked_fill(input=x, mask=mask, value=5.0),
            m.masked_select(input=x, mask=mask),
            m.take(input=x, index=row),
            m.take_along_dim(input=x, indices=i, dim=0),
            m.where(condition=mask, input=x, other=-x),
            m.nn.functional.pad(input=x, pad=(1, 0), mode="constant", value=2.0),
            m.nn.functional.one_hot(input=row, num_classes=3),
            m.matmul(input=x, other=x),
            m.mm(input=x, mat2=x),
            m.mv(input=x, vec=x[0]),
            m.bmm(input=x[None], mat2=x[None]),
            m.dot(input=x[0], tensor=x[1]),
            m.outer(input=x[0], vec2=x[1]),
            m.inner(input=x, other=x),
            m.kron(input=x, other=x),
            m.tensordot(a=x, b=x, dims=1),
            m.cdist(x1=x, x2=-x, p=2.0),
            m.addmm(input=x, mat1=x, mat2=x, beta=2, alpha=3),
            m.baddbmm(input=x[None], batch1=x[None], batch2=x[None]),
            m.stack(tensors=[x, x], dim=1),
            m.cat(tensors=[x, x], dim=1),
            m.linalg.norm(input=x, ord=1, dim=0, keepdim=True),
            m.linalg.vector_norm(input=x, ord=1, dim=0, keepdim=True),
            m.linalg.matrix_norm(input=x, ord="fro", dim=(0, 1), keepdim=True),
            m.linalg.inv(A=x),
            m.linalg.solve(A=x, B=x, left=False),
            m.linalg.pinv(input=x, rtol=1e-3),
            m.linalg.matrix_power(input=x, n=2),
            m.linalg.cholesky(input=x @ x.mT, upper=True),
            m.linalg.eigh(input=x @ x.mT, UPLO="U").eigenvalues,
            m.linalg.eigvalsh(input=x @ x.mT, UPLO="L"),
            m.linalg.svd(A=x, full_matrices=False).S,
            m.linalg.svdvals(A=x),
            abs(m.linalg.qr(A=x, mode="reduced").R),
            m.linalg.det(A=x),
            m.linalg.slogdet(A=x).logabsdet,
        ]

    for ours, theirs in zip(calls(gw), calls(torch), strict=True):
        np.testing.assert_allclose(ours.numpy(), theirs.numpy(), rtol=1e-5, atol=1e-5)


matrix, vector, cube = gw.ones(2, 3), gw.ones(3), gw.ones(2, 2, 2)
ERRORS: dict[str, tuple[Any, type[Exception], str]] = {
    "inv": (lambda: gw.linalg.inv(gw.zeros(2, 2)), gw.linalg.LinAlgError, "linalg.inv: Singular"),
    "cholesky": (
        lambda: gw.linalg.cholesky(-gw.eye(2)), gw.linalg.LinAlgError, "not positive definite",
    ),
    "not square": (lambda: gw.det(matrix), ValueError, "square matrices, not shape"),
    "a vector": (lambda: gw.linalg.svd(vector), ValueError, "svd takes matrices"),
    "integers": (lambda: gw.linalg.inv(gw.ones(2, 2).long()), TypeError, "floats, not int64"),
    "mm": (lambda: gw.mm(matrix, vector), ValueError, "mm takes a 2-d and a 2-d"),
    "bmm": (lambda: gw.bmm(cube, gw.ones(1, 2, 2)), ValueError, "batches of one length"),
    "tensordot": (lambda: gw.tensordot(matrix, cube, 1), ValueError, "do not fit"),
    "trace": (lambda: gw.trace(cube), ValueError, "trace takes a matrix"),
    "cdist": (lambda: gw.cdist(matrix, gw.ones(2, 2)), ValueError, "rows of one length"),
    "matrix_norm": (lambda: gw.linalg.matrix_norm(matrix, 3), ValueError, "ord 3 is not"),
    "norm": (lambda: gw.linalg.norm(cube, 2), ValueError, "without dim"),
    "norm of a vector": (lambda: gw.linalg.norm(vector, "fro"), ValueError, "for matrices"),
    "qr": (lambda: gw.linalg.qr(matrix, "full"), ValueError, "mode must be"),
    "diagonal": (lambda: gw.diagonal(matrix, 0, 1, -1), ValueError, "two different dimensions"),
    "diag": (lambda: gw.diag(cube), ValueError, "a vector or a matrix"),
    "tril": (lambda: gw.tril(vector), ValueError, "at least 2 dimensions"),
    "unfold": (lambda: vector.unfold(0, 4, 1), ValueError, "do not fit dimension 0"),
    "unflatten": (lambda: gw.unflatten(vector, 0, (2, -1)), ValueError, "do not fit"),
    "movedim": (lambda: gw.movedim(cube, (0, 1), 0), ValueError, "differ in length"),
    "roll": (lambda: gw.roll(matrix, (1, 2), 0), ValueError, "one shift per dimension"),
    "repeat": (lambda: matrix.repeat(2), ValueError, "for each of 2"),
    "narrow": (lambda: gw.narrow(vector, 0, 2, 2), ValueError, "do not fit a dimension of 3"),
    "tensor_split": (lambda: gw.tensor_split(vector, 0), ValueError, "must be positive"),
    "meshgrid": (lambda: gw.meshgrid(matrix), ValueError, "takes vectors"),
    "masked_fill": (
        lambda: gw.masked_fill(vector, vector > 0, vector), ValueError, "a number or a 0-d tensor",
    ),
    "scatter": (lambda: gw.scatter(vector, 0, gw.tensor([[0]]), 1.0), ValueError, "dimensions"),
    "scatter reduce": (
        lambda: gw.scatter(vector, 0, gw.tensor([0]), 1.0, reduce="mean"),
        ValueError, "'add' or 'multiply'",
    ),
    "one_hot": (
        lambda: gw.nn.functional.one_hot(gw.tensor([3]), 3), ValueError, r"must be in \[0, 3\)",
    ),
    "one_hot of floats": (lambda: gw.nn.functional.one_hot(vector), TypeError, "takes integers"),
    "reflect": (
        lambda: gw.nn.functional.pad(matrix, (3, 0), mode="reflect"), ValueError, "at most 2",
    ),
    "circular": (
        lambda: gw.nn.functional.pad(matrix, (4, 0), mode="circular"), ValueError, "at most 3",
    ),
    "pad value": (
        lambda: gw.nn.functional.pad(matrix, (1, 0), "reflect", 1.0), ValueError, "takes no value",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", ERRORS)
def test_errors_say_what_is_wrong(name: str) -> None:
    call, kind, words = ERRORS[name]
    with pytest.raises(kind, match=words):
        call()


def test_complete_qr_of_a_tall_matrix_refuses_a_gradient() -> None:
    """Rather than dropping it silently."""
    with pytest.raises(NotImplementedError, match="no derivative"):
        gw.linalg.qr(gw.ones(4, 2, requires_grad=True), mode="complete")
