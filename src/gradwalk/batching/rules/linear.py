"""Batching rules of matrix products, decompositions and Fourier transforms: leading axes."""

from __future__ import annotations

import string
from collections.abc import Sequence
from typing import Any

from gradwalk.batching.lanes import aligned, spread
from gradwalk.batching.rules.elementwise import elementwise, side_by_side
from gradwalk.ops.core.op import Op
from gradwalk.ops.elementwise import complex_numbers
from gradwalk.ops.linear import (
    decompositions,
    fourier,
    ldl,
    lu,
    matmul,
    reflections,
    solving,
    spectra,
)


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


def pseudo_inverse(op: Op, args: Sequence[Any], attrs: dict[str, Any], size: int) -> Any:
    """pinv: a matrix for each sample, also where only the tolerances differ."""
    x, *tolerances = args
    return op(spread(x, size), *[aligned(t, x.ndim) for t in tolerances], **attrs)


def transform(op: Op, args: Sequence[Any], attrs: dict[str, Any], size: int) -> Any:
    """A Fourier transform, whose axes are counted from the first one."""
    axes = tuple(axis + 1 for axis in attrs["axes"])
    return op(args[0].inner, **{**attrs, "axes": axes})


_COMPLEX = (
    complex_numbers.compose, complex_numbers.real_part, complex_numbers.imaginary_part,
    complex_numbers.conjugate, complex_numbers.modulus, complex_numbers.direction,
    complex_numbers.argument,
)  # fmt: skip
_SIDE_BY_SIDE = (
    complex_numbers.view_as_real_op, complex_numbers.view_as_complex_op,
    decompositions.inv_op, decompositions.certain_inv, decompositions.det_twice,
    decompositions.cofactor, decompositions.det_op, decompositions.slogdet_op,
    decompositions.cholesky_op, decompositions.qr_op, decompositions.qr_complete,
    decompositions.eigh_op, decompositions.svd_op, lu.lu_pivots, lu.row_order, lu.eliminate,
    solving.cholesky_info, spectra.eig_op, spectra.matrix_exp_op,
    reflections.geqrf_op, ldl.ldl_parts, ldl.ldl_solved,
)  # fmt: skip

RULES = {
    **dict.fromkeys(_SIDE_BY_SIDE, side_by_side),
    **dict.fromkeys(_COMPLEX, elementwise),
    **dict.fromkeys((fourier.fourier, fourier.fourier_of_real, fourier.fourier_to_real), transform),
    matmul.matmul_op: elementwise,
    decompositions.solve_op: elementwise,
    decompositions.pinv_op: pseudo_inverse,
    matmul.einsum_op: sum_of_products,
    matmul.linear_op: affine,
}
