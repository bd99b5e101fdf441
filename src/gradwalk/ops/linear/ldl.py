"""A = L D Lᵀ of symmetric (or Hermitian) matrices, as LAPACK packs it; without gradients.

The rows that LAPACK exchanges, and which blocks of D are 2 × 2, are in its pivots.
"""

from __future__ import annotations

from collections import namedtuple
from typing import Any

import numpy as np

from gradwalk.ops.core.dtypes import int32
from gradwalk.ops.core.op import define
from gradwalk.ops.core.public import public
from gradwalk.ops.linear.decompositions import LinAlgError
from gradwalk.ops.linear.matrices import square
from gradwalk.ops.shape.reshaping import new_result

Factors = namedtuple("Factors", "LD pivots")
FactorsInfo = namedtuple("FactorsInfo", "LD pivots info")


def _routine(name: str, hermitian: bool, *arrays: Any) -> Any:
    from scipy.linalg.lapack import get_lapack_funcs

    conjugate = hermitian and arrays[0].dtype.kind == "c"
    return get_lapack_funcs(("he" if conjugate else "sy") + name, arrays)


def _factor(x: Any, *, hermitian: bool, check: bool) -> Any:
    factors = np.empty_like(x)
    pivots = np.empty(x.shape[:-1], np.int32)
    info = np.zeros(x.shape[:-2], np.int32)
    if x.shape[-1]:
        routine = _routine("trf", hermitian, x)
        for place in np.ndindex(x.shape[:-2]):
            factors[place], pivots[place], info[place] = routine(x[place], lower=1)
    if check and (info > 0).any():
        raise LinAlgError("ldl_factor: D has a 0 on its diagonal: the matrix is singular")
    # LAPACK leaves what was above the diagonal; PyTorch clears it.
    return np.tril(factors), pivots, info


ldl_parts = define(
    "ldl_parts",
    _factor,
    vjp=[None],
    shape=lambda x, **_: (x, x[:-1], x[:-2]),
    gives=(None, int32, int32),
    outputs="factors pivots info",
    on_complex=True,
)


def _solve(factors: Any, pivots: Any, b: Any, *, hermitian: bool) -> Any:
    out = np.array(b, order="C")
    if out.size:
        routine = _routine("trs", hermitian, factors, b)
        for place in np.ndindex(b.shape[:-2]):
            out[place], _ = routine(factors[place], pivots[place], b[place], lower=1)
    return out


ldl_solved = define(
    "ldl_solved",
    _solve,
    vjp=[None] * 3,
    shape=lambda factors, pivots, b, *, hermitian: b,
    on_complex=True,
)


@public(namespaces="linalg")
def ldl_factor(A: Any, *, hermitian: bool = False) -> Any:
    """L and D of A = L D Lᵀ (L D Lᴴ if `hermitian`) packed into one matrix, and the pivots.

    >>> import gradwalk as gw
    >>> gw.linalg.ldl_factor(gw.tensor([[4.0, 2.0], [2.0, 3.0]])).LD
    tensor([[4.0000, 0.0000],
            [0.5000, 2.0000]])
    """
    return Factors(*ldl_factor_ex(A, hermitian=hermitian, check_errors=True)[:2])


@public(namespaces="linalg")
def ldl_factor_ex(A: Any, *, hermitian: bool = False, check_errors: bool = False) -> Any:
    """`ldl_factor`, and the place of the first 0 in D, counted from 1."""
    matrix = square("ldl_factor", A).detach()
    return FactorsInfo(*ldl_parts(matrix, hermitian=hermitian, check=check_errors))


@public(namespaces="linalg")
@new_result
def ldl_solve(LD: Any, pivots: Any, B: Any, *, hermitian: bool = False) -> Any:
    """X with A X = B, of A as `ldl_factor` returns it.

    >>> import gradwalk as gw
    >>> factors = gw.linalg.ldl_factor(gw.tensor([[4.0, 2.0], [2.0, 3.0]]))
    >>> gw.linalg.ldl_solve(*factors, gw.tensor([[6.0], [5.0]]))
    tensor([[1.],
            [1.]])
    """
    batch = np.broadcast_shapes(LD.shape[:-2], B.shape[:-2])
    return ldl_solved(
        LD.expand(*batch, *LD.shape[-2:]),
        pivots.expand(*batch, pivots.shape[-1]),
        B.expand(*batch, *B.shape[-2:]),
        hermitian=hermitian,
    )
