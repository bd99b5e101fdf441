"""Functions that are made of other ops do what PyTorch's of the same name do, gradients too."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
import torch

import gradwalk as gw
from gradwalk.ops.core.public import registered
from tests.batches import batched
from tests.ops.oracle import OURS, THEIRS, TIGHT, assert_same, run
from tests.ops.test_pytorch_samples import RARE

NAN, INF = math.nan, math.inf
SPECIAL = np.array([[NAN, INF, -INF, 1.0], [NAN, -0.0, 0.0, 2.0]])
OTHER = np.array([[1.0, INF, INF, 1.0 + 1e-9], [NAN, 3.0, NAN, 2.1]])


def drawn(*shape: int) -> np.ndarray:
    return np.random.default_rng(5).uniform(0.2, 0.9, shape)


def number(m: Any, x: Any) -> Any:
    """A Python bool or number as a tensor, to be compared."""
    return m.tensor(x)


M = drawn(3, 4)
V = drawn(4)
CUBE = drawn(2, 3, 4)
COUNTS = np.array([0, 3, 1, 3, 3])
SECOND_NAMES = """
    absolute arccos arccosh arcsin arcsinh arctan arctan2 arctanh divide fix ger multiply negative
    row_stack subtract
"""
CALLS: dict[str, list[tuple[Any, ...]]] = {
    "nansum": [(lambda m, x: m.nansum(x, 1), M)],
    "nanmean": [(lambda m, x: m.nanmean(x, 0, keepdim=True), M)],
    "count_nonzero": [(lambda m, x: m.count_nonzero(x.detach(), 1), M)],
    **{
        name: [(lambda m, x, name=name: getattr(m, name)(x), M)]
        for name in ("absolute", "negative", "positive", "fix", "arcsin", "arccos", "arctan",
                     "arcsinh", "arctanh", "isposinf", "isneginf", "isreal", "signbit", "msort",
                     "corrcoef", "cov", "diff", "trapezoid", "trapz", "cumulative_trapezoid",
                     "diagflat", "t")
    },
    **{
        name: [(lambda m, x, y, name=name: getattr(m, name)(x, y), M, M[::-1])]
        for name in ("subtract", "multiply", "divide", "arctan2", "fmax", "fmin", "isclose", "dist")
    },
    "arccosh": [(lambda m, x: m.arccosh(x + 1), M)],
    "subtract alpha": [(lambda m, x, y: m.subtract(x, y, alpha=2), M, V)],
    "ger": [(lambda m, x, y: m.ger(x, y), V, M[0])],
    "row_stack": [(lambda m, x, y: m.row_stack([x, y]), M, V)],
    "equal": [
        (lambda m, x, y: number(m, m.equal(x, y)), M, M.copy()),
        (lambda m, x, y: number(m, m.equal(x, y)), M, V),
        (lambda m, x, y: number(m, m.equal(x, y)), SPECIAL, SPECIAL),
    ],
    "isclose": [
        (lambda m, x, y: m.isclose(x, y), SPECIAL, OTHER),
        (lambda m, x, y: m.isclose(x, y, rtol=0.1, equal_nan=True), SPECIAL, OTHER),
        (lambda m, x: m.isclose(x, x + 1, atol=1), COUNTS),
        (lambda m, x: m.isclose(x > 1, x > 0), COUNTS),
    ],
    "allclose": [
        (lambda m, x: number(m, m.allclose(x, x + 1e-9)), M),
        (lambda m, x: number(m, m.allclose(x, x + 1e-2)), M),
        (lambda m, x: number(m, m.allclose(x, x, equal_nan=True)), SPECIAL),
    ],
    "isin": [
        (lambda m, x: m.isin(x, m.tensor([3, 7])), COUNTS),
        (lambda m, x: m.isin(x, m.tensor([[3], [0]]), invert=True), COUNTS.reshape(5, 1)),
        (lambda m, x: m.isin(x, 1), COUNTS),
        (lambda m, x: m.isin(3, x), COUNTS),
    ],
    "isposinf": [(lambda m, x: m.isposinf(x), SPECIAL)],
    "isneginf": [(lambda m, x: m.isneginf(x), SPECIAL)],
    "isreal": [(lambda m, x: m.isreal(x), SPECIAL), (lambda m, x: m.isreal(x), COUNTS)],
    "signbit": [
        (lambda m, x: m.signbit(x), SPECIAL[:, 1:]),
        (lambda m, x: m.signbit(x - 2), COUNTS),
    ],
    "fmax": [(lambda m, x, y: m.fmax(x, y), SPECIAL, OTHER)],
    "fmin": [(lambda m, x, y: m.fmin(x, y), SPECIAL, OTHER)],
    "numel": [(lambda m, x: number(m, m.numel(x)), M)],
    "is_floating_point": [
        (lambda m, x: number(m, m.is_floating_point(x)), M),
        (lambda m, x: number(m, m.is_floating_point(x)), COUNTS),
    ],
    "is_signed": [(lambda m, x: number(m, m.is_signed(x)), each) for each in (M, COUNTS)],
    "is_complex": [(lambda m, x: number(m, m.is_complex(x)), M)],
    "is_nonzero": [(lambda m, x: number(m, m.is_nonzero(x[0])), COUNTS)],
    "is_same_size": [(lambda m, x, y: number(m, m.is_same_size(x, y)), M, V)],
    "broadcast_shapes": [
        (lambda m: m.tensor(m.broadcast_shapes((2, 1, 4), (3, 1), 4)),),
    ],
    "aminmax": [
        (lambda m, x: tuple(m.aminmax(x)), M),
        (lambda m, x: tuple(m.aminmax(x, dim=1, keepdim=True)), M),
    ],
    "std_mean": [
        (lambda m, x: m.std_mean(x), M),
        (lambda m, x: m.std_mean(x, 1, keepdim=True), M),
        (lambda m, x: m.std_mean(x, (0, 1), correction=0), M),
        (lambda m, x: m.std_mean(x, False), M),
    ],
    "var_mean": [
        (lambda m, x: m.var_mean(x, dim=0, correction=2), M),
        (lambda m, x: m.var_mean(x, 1, False, True), M),
    ],
    "cov": [
        (lambda m, x: m.cov(x, correction=0), M),
        (lambda m, x: m.cov(x), V),
        (lambda m, x: m.cov(x, fweights=m.tensor([1, 3, 2, 0])), M),
        (lambda m, x, w: m.cov(x, aweights=w), M, V),
        (lambda m, x, w: m.cov(x, fweights=m.tensor([1, 3, 2, 1]), aweights=w), M, V),
        (lambda m, x: m.cov(x), M[:1]),
    ],
    "corrcoef": [(lambda m, x: m.corrcoef(x), V), (lambda m, x: m.corrcoef(x), M[:1])],
    "dist": [(lambda m, x, y: m.dist(x, y, 1), M, V)],
    "diff": [
        (lambda m, x: m.diff(x, 2, 0), M),
        (lambda m, x: m.diff(x, 0), M),
        (lambda m, x: m.diff(x, 9), M),
        (lambda m, x: m.diff(x, prepend=x[:, :1], append=x), M),
        (lambda m, x: m.diff(x > 1), COUNTS),
        (lambda m, x: m.diff(x, 0, 0, prepend=x, append=x), M),
        (lambda m, x: m.diff(input=x, axis=0), M),
    ],
    "trapezoid": [
        (lambda m, x: m.trapezoid(x, dx=0.3, dim=0), M),
        (lambda m, y, x: m.trapezoid(y, x), M, V.cumsum()),
        (lambda m, y, x: m.trapezoid(y, x, dim=0), M, M.cumsum(0)),
        (lambda m, y, x: m.trapezoid(y, x, dim=0), M, V[:3].cumsum()),
    ],
    "cumulative_trapezoid": [(lambda m, y, x: m.cumulative_trapezoid(y, x), M, V.cumsum())],
    "bincount": [
        (lambda m, x: m.bincount(x), COUNTS),
        (lambda m, x: m.bincount(x, minlength=7), COUNTS),
        (lambda m, x: m.bincount(x[:0], minlength=2), COUNTS),
        (lambda m, x: m.bincount(x, m.tensor([1.0, 2.0, 3.0, 4.0, 5.0])), COUNTS),
    ],
    "histc": [
        (lambda m, x: m.histc(x.detach(), 7), M),
        (lambda m, x: m.histc(x.detach(), 5, 0.3, 0.6), M),
        (lambda m, x: m.histc(x.detach() * 0 + 2, 4), M),
    ],
    "nanquantile": [(lambda m, x: m.nanquantile(m.where(x > 0.8, m.nan, x), 0.4, 1), M)],
    "addbmm": [(lambda m, x, y: m.addbmm(y, x, x.mT, beta=2, alpha=3), CUBE, M[:, :3])],
    "constant_pad_nd": [(lambda m, x: m.constant_pad_nd(x, (1, 2), 3.0), M)],
    "fill": [(lambda m, x, y: m.fill(x, y.sum()), M, V)],
    "rsub": [(lambda m, x, y: m.rsub(x, y, alpha=3), M, V)],
    "pdist": [(lambda m, x: m.pdist(x, 3), M)],
    "renorm": [(lambda m, x: m.renorm(x, 3, 1, 0.7), M)],
    "quantile": [
        (lambda m, x: m.quantile(x, 0.37), M),
        (lambda m, x: m.quantile(x, 0.9, dim=0, keepdim=True), CUBE),
        (lambda m, x: m.quantile(x, 0.9, keepdim=True), CUBE),
        (lambda m, x, q: m.quantile(x, q.detach(), dim=1), CUBE, np.array([0.0, 0.2, 1.0])),
        (lambda m, x, q: m.quantile(x, q.detach(), -1, True), CUBE, np.array([0.5, 0.25])),
        *(
            (lambda m, x, how=how: m.quantile(x, 0.4, 1, interpolation=how), M)
            for how in ("linear", "lower", "higher", "midpoint", "nearest")
        ),
        (lambda m, x: m.quantile(x, 0.5, 1), np.where(M > 0.8, NAN, M)),
        (lambda m, x, q: m.quantile(x, q, dim=1), CUBE, np.array([0.1, 0.2, 0.9])),
        (lambda m, x, q: m.quantile(x, q), V, np.array(0.3)),
        (lambda m, x: m.quantile(x[0], 0.5, dim=0, keepdim=True), V),
        *(
            (lambda m, x, how=how: m.quantile(x.float(), 0.7, interpolation=how), drawn(11))
            for how in ("lower", "higher")
        ),
    ],
    "column_stack": [(lambda m, x, y: m.column_stack([x, y[:3]]), M, V)],
    "hsplit": [
        (lambda m, x: m.hsplit(x, 2), M),
        (lambda m, x: m.hsplit(x, [1, 3]), M),
        (lambda m, x: m.hsplit(x, 2), V),
    ],
    "vsplit": [(lambda m, x: m.vsplit(x, 3), M)],
    "dsplit": [(lambda m, x: m.dsplit(x, [1]), CUBE)],
    "block_diag": [(lambda m, x, y: m.block_diag(x, y, x[0, 0], x), M, V)],
    "cartesian_prod": [
        (lambda m, x, y: m.cartesian_prod(x, y, x), V, M[0]),
        (lambda m, x: m.cartesian_prod(x), V),
    ],
    "combinations": [
        (lambda m, x: m.combinations(x), V),
        (lambda m, x: m.combinations(x, 3, with_replacement=True), V),
        (lambda m, x: m.combinations(x, 5), V),
    ],
    "diagflat": [(lambda m, x: m.diagflat(x, 1), M)],
    "t": [(lambda m, x: m.t(x), V)],
    "cross": [
        (lambda m, x, y: m.cross(x, y, dim=1), CUBE, CUBE[::-1]),
        (lambda m, x, y: m.cross(x, y), CUBE, CUBE[::-1]),
        (lambda m, x, y: m.linalg.cross(x, y), CUBE[..., :3], V[None, None, :3]),
    ],
    "broadcast_tensors": [(lambda m, x, y: m.broadcast_tensors(x, y), M, V)],
    "meshgrid": [(lambda m, x, y: m.meshgrid(x, y, indexing="xy"), V, M[:, 0])],
    "addr": [
        (lambda m, x, y, z: m.addr(x, y, z), M, M[:, 0], V),
        (lambda m, x, y, z: m.addr(x, y, z, beta=0, alpha=3), M, M[:, 0], V),
    ],
    "special": [
        *(
            (lambda m, x, name=name: getattr(m.special, name)(x), M)
            for name in gw.special.__all__
            if name not in ("log_softmax", "logsumexp", "polygamma", "softmax", "xlogy", "digamma",
                            "psi", "gammainc", "gammaincc", "multigammaln")
            and f"special.{name}" not in RARE
        ),
        (lambda m, x, y: m.special.gammainc(x.detach(), y), M, V),
        (lambda m, x, y: m.special.gammaincc(x.detach(), y), M, V),
        (lambda m, x: m.special.multigammaln(x + 2, 3), M),
        (lambda m, x: m.special.psi(x.detach()), M),  # PyTorch's slope is exact to ten digits only
        (lambda m, x: m.special.digamma(x.detach()), M),
        (lambda m, x: m.special.softmax(x, 1) + m.special.log_softmax(x, 0), M),
        (lambda m, x, y: m.special.logsumexp(m.special.xlogy(x, y), 1), M, V),
        (lambda m, x: m.special.polygamma(2, x), M),
    ],
    "chain_matmul": [(lambda m, x, y: m.chain_matmul(x, y.mT, x), M, M[::-1])],
    "linalg": [
        (lambda m, x, y: m.linalg.cross(x, y), M[:, :3], M[::-1, :3]),
        (lambda m, x: m.linalg.diagonal(x, offset=1), CUBE),
        (lambda m, x, y: m.linalg.vecdot(x, y), M, V),
        (lambda m, x, y: m.linalg.vecdot(x, y, dim=0), M, M[::-1]),
        (lambda m, x, v: m.linalg.multi_dot([v, x.mT, x, x.mT, x, v]), M, V),
    ],
}  # fmt: skip


@batched(
    "name, call, arrays",
    [
        (f"{name}-{i}", call, arrays)
        for name, several in CALLS.items()
        for i, (call, *arrays) in enumerate(several)
    ],
)
def test_as_pytorch(name: str, call: Any, arrays: list[np.ndarray]) -> None:
    assert_same(run(OURS, call, arrays), run(THEIRS, call, arrays), TIGHT)


def test_every_function_is_compared() -> None:
    compared = {name.split()[0] for name in CALLS}
    files = ("comparison", "joining", "statistics")
    assert set(SECOND_NAMES.split()) <= compared
    for registration in registered:
        module = getattr(registration.call, "__module__", "").rpartition(".")[2]
        if "gradwalk" in registration.namespaces and module in files:
            assert set(registration.names) <= compared


MISTAKES: list[tuple[Any, str]] = [
    (lambda: gw.isclose(gw.ones(1), gw.ones(1, dtype=gw.float64)), "dtype"),
    (lambda: gw.isclose(gw.ones(1), gw.ones(1), rtol=-1), "negative"),
    (lambda: gw.bincount(gw.tensor([-1])), "negative"),
    (lambda: gw.bincount(gw.ones(2)), "integers"),
    (lambda: gw.histc(gw.tensor([1, 2])), "floats"),
    (lambda: gw.histc(gw.ones(2), 3, 2, 1), "range"),
    (lambda: gw.quantile(gw.ones(2), 1.5), "from 0 to 1"),
    (lambda: gw.quantile(gw.tensor([1, 2]), 0.5), "would not be an integer"),
    (lambda: gw.diff(gw.ones(2), -1), "do not exist"),
    (lambda: gw.cov(gw.ones(2, 3), fweights=gw.ones(3)), "3 integers"),
    (lambda: gw.cov(gw.ones(2, 3), aweights=gw.ones(2)), "3 floats"),
    (lambda: gw.cov(gw.ones(2, 3), aweights=-gw.ones(3)), "must not be negative"),
    (lambda: gw.isclose(gw.ones(2), 1.0), "float32 and float"),
    (lambda: gw.cross(gw.ones(2, 3), gw.ones(3)), "differ in their number of dimensions"),
    (lambda: gw.quantile(gw.ones(0), 0.5), "no elements"),
    (lambda: gw.quantile(gw.ones(2), 0.5, interpolation="cubic"), "interpolation"),
    (lambda: gw.hsplit(gw.ones(3), 2), "equal parts"),
    (lambda: gw.vsplit(gw.ones(3), 3), "dimensions"),
    (lambda: gw.block_diag(gw.ones(1, 1, 1)), "two dimensions"),
    (lambda: gw.combinations(gw.ones(2, 2)), "vector"),
    (lambda: gw.cross(gw.ones(4), gw.ones(4)), "3 along"),
    (lambda: gw.cov(gw.ones(1, 1, 1)), "two dimensions"),
    (lambda: gw.t(gw.ones(1, 1, 1)), "matrices"),
    (lambda: gw.linalg.multi_dot([gw.ones(1, 1)]), "two matrices"),
]


@pytest.mark.parametrize(("call", "message"), MISTAKES)
def test_mistakes_are_refused(call: Any, message: str) -> None:
    with pytest.raises((TypeError, ValueError), match=message):
        call()


@pytest.mark.parametrize("kind", ["bool", "uint8", "int8", "int16", "int32", "int64"])
def test_isclose_of_numbers_whose_difference_does_not_fit(kind: str) -> None:
    ends = [0, 1]
    if kind != "bool":
        ends += [int(np.iinfo(kind).min), int(np.iinfo(kind).max), 10, 100]
    pairs = np.array(list(itertools.product(ends, ends))).astype(kind)
    for rtol, atol in itertools.product((0, 1e-5, 0.5, 1), (0, 1e-8, 0.5, 1, 100)):
        found, expected = (
            m.isclose(m.from_numpy(pairs[:, 0]), m.from_numpy(pairs[:, 1]), rtol=rtol, atol=atol)
            for m in (gw, torch)
        )
        assert found.tolist() == expected.tolist(), (rtol, atol)
