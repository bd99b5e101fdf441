"""einsum as products, sums and permutations: values and gradients, of every form."""

from __future__ import annotations

import numpy as np
import pytest

import gradwalk as gw
from tests.compiler.native import agrees, drawn, gradients_agree

CASES = [
    ("ij->ji", [(3, 4)]),
    ("ij->", [(3, 4)]),
    ("ij->j", [(1, 17)]),
    ("i,j->ij", [(3,), (4,)]),
    ("i,i->", [(7,), (7,)]),
    ("ij,jk->ik", [(4, 5), (5, 6)]),
    ("ij,kj->ki", [(4, 5), (6, 5)]),
    ("ij,jk->ik", [(4, 1), (5, 6)]),  # one of length 1 goes with every other
    ("ij,jk", [(2, 0), (0, 3)]),
    ("bhid,bhjd->bhij", [(2, 3, 7, 5), (2, 3, 6, 5)]),
    ("bqhd,bkhd->bhqk", [(2, 5, 3, 8), (2, 6, 3, 8)]),
    ("nol,nclk->ock", [(2, 3, 4), (2, 5, 4, 3)]),
    ("bij,bjk,k->bi", [(2, 3, 4), (2, 4, 5), (5,)]),
    ("a,b,c,ab->c", [(2,), (3,), (4,), (2, 3)]),
    ("...i,...i->...", [(2, 3, 4), (2, 3, 4)]),
    ("...i,i", [(2, 3, 4), (4,)]),
    ("ii->i", [(4, 4)]),
    ("iij,jk->ik", [(4, 4, 3), (3, 5)]),
    ("ij,ij,ij->i", [(3, 4)] * 3),
]


@pytest.mark.parametrize(("equation", "shapes"), CASES, ids=lambda case: str(case))
def test_as_in_numpy(equation: str, shapes: list[tuple[int, ...]]) -> None:
    xs = [drawn(*shape, seed=i) / 10 for i, shape in enumerate(shapes)]

    def function(*xs: gw.Tensor) -> gw.Tensor:
        return gw.einsum(equation, *xs)

    agrees(function, *xs, tolerance=1e-12)
    agrees(function, *(x.astype(np.float32) for x in xs), tolerance=1e-5)
    agrees(function, *((x * 10).astype(np.int64) for x in xs))
    gradients_agree(function, *xs)


def test_a_product_is_one_kernel_in_its_order() -> None:
    compiled = gw.compile(lambda x, y: gw.einsum("ij,kj->ki", x, y))
    compiled(gw.ones(40, 50), gw.ones(60, 50))
    (specialization,) = next(iter(compiled.specializations.values()))
    assert [[c.op.name for c in e.calls] for e in specialization.executable.plan.entries] == [
        ["matmul"]
    ]
