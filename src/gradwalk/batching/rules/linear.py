"""Batching rules of matrix products and decompositions, which have leading axes already."""

from __future__ import annotations

import string
from collections.abc import Sequence
from typing import Any

from gradwalk.batching.rules.elementwise import elementwise, side_by_side
from gradwalk.ops.core.op import Op
from gradwalk.ops.linear import decompositions, lu, matmul, reflections, solving, spectra


def sum_of_products(op: Op, args: Sequence[Any], attrs: dict[str, Any], size: int) -> Any:
    """einsum, with one more letter."""
    left, out = attrs["equation"].split("->")
    letter = next(c for c in string.ascii_letters if c not in attrs["equation"])
    terms = [letter + t if a.batched else t for t, a in zip(left.split(","), args, strict=True)]
    return op(*[a.inner for a in args], equation=f"{','.join(terms)}->{letter}{out}")


def affine(op: Op, args: Sequence[Any], attrs: dict[str, Any], size: int) -> Any:
    """x Wᵀ + b: one product if all samples share the weight."""
    x, weight, bias = args
    if weight.batched or bias.batched:
        return NotImplemented
    return op(x.inner, weight.inner, bias.inner)


_SIDE_BY_SIDE = (
    decompositions.inv_op, decompositions.certain_inv, decompositions.det_twice,
    decompositions.cofactor, decompositions.det_op, decompositions.slogdet_op,
    decompositions.cholesky_op, decompositions.qr_op, decompositions.qr_complete,
    decompositions.eigh_op, decompositions.svd_op, decompositions.pinv_op, lu.lu_pivots,
    lu.row_order, lu.eliminate, solving.cholesky_info, spectra.eig_op, spectra.matrix_exp_op,
    reflections.geqrf_op,
)  # fmt: skip

RULES = {
    **dict.fromkeys(_SIDE_BY_SIDE, side_by_side),
    matmul.matmul_op: elementwise,
    decompositions.solve_op: elementwise,
    matmul.einsum_op: sum_of_products,
    matmul.linear_op: affine,
}
