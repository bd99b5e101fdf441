"""Composites of arithmetic: scaled sums, products of matrices, statistics."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from gradwalk.nn.composites.composite import composed, composite
from gradwalk.nn.functional import activation
from gradwalk.ops.core.op import Op
from gradwalk.ops.elementwise import comparison, remainders
from gradwalk.ops.elementwise.arithmetic import add, mul
from gradwalk.ops.elementwise.choice import where
from gradwalk.ops.linear import matmul, matrices
from gradwalk.ops.network.softmax import softmax_op
from gradwalk.ops.reduce.reduction import (
    amax_op,
    amin_op,
    in_dtype,
    mean_op,
    prod_op,
    std_op,
    sum_op,
    var_op,
)
from gradwalk.ops.reduce.scan import cumprod_op, cumsum_op
from gradwalk.ops.reduce.statistics import nansum
from gradwalk.ops.shape import joining, rearranging

Axes = tuple[int, ...]

# -- sums and products -----------------------------------------------------------------------------

composite("add_scaled", lambda x, y, *, alpha: add(x, y, alpha=alpha), x="g", y="alpha × g")
composite(
    "addcmul",
    remainders.addcmul,
    input="g",
    tensor1="value × g × {tensor2}",
    tensor2="value × g × {tensor1}",
)
composite(
    "addcdiv",
    remainders.addcdiv,
    input="g",
    tensor1="value × g / {tensor2}",
    tensor2="−value × g × {tensor1} / {tensor2}²",
)
composite("fmax", comparison.fmax, input="g where larger", other="g where larger")
composite("fmin", comparison.fmin, input="g where smaller", other="g where smaller")
composite(
    "prelu",
    lambda x, weight: where(x > 0, x, mul(x, weight)),
    x="g if {x} > 0 else g × {weight}",
    weight="0 if {x} > 0 else g × {x}",
)
composite("glu", lambda x, *, axis: activation.glu(x, axis))

composite(
    "addmm",
    matmul.addmm,
    input="beta × g",
    mat1="alpha × g @ {mat2}ᵀ",
    mat2="alpha × {mat1}ᵀ @ g",
)
composite(
    "baddbmm",
    matmul.baddbmm,
    input="beta × g",
    batch1="alpha × g @ {batch2}ᵀ",
    batch2="alpha × {batch1}ᵀ @ g",
)
composite(
    "addmv", matmul.addmv, input="beta × g", mat="alpha × g ⊗ {vec}", vec="alpha × {mat}ᵀ @ g"
)
composite("addr", joining.addr)
composite("mv", matmul.mv, input="g ⊗ {vec}", vec="{input}ᵀ @ g")
composite("dot", matmul.dot, input="g × {tensor}", tensor="g × {input}")
composite("outer", matmul.outer, input="g @ {vec2}", vec2="gᵀ @ {input}")
composite("matmul_of_any", lambda x, y: matmul.matmul(x, y))
composite("cross", lambda x, y, *, dim: joining.cross(x, y, dim))
composite("trace", matmul.trace, input="g on the diagonal")


@composed()
def addbmm(input: Any, batch1: Any, batch2: Any, *, beta: float, alpha: float) -> Any:
    product = sum_op(matmul.matmul(batch1, batch2), axis=(0,), keepdim=False)
    return matmul._added(input, product, beta, alpha)


@composed()
def solve_triangular(a: Any, b: Any, *, upper: bool, left: bool, unitriangular: bool) -> Any:
    """X with A X = B (X A = B if not `left`), of the triangle of A that `upper` names."""
    if unitriangular:
        eye = np.eye(a.shape[-1], dtype=a.dtype)
        a = (rearranging.triu(a, 1) if upper else rearranging.tril(a, -1)) + eye
    else:
        a = rearranging.triu(a) if upper else rearranging.tril(a)
    return matrices.solve(a, b, left=left)


# -- statistics ------------------------------------------------------------------------------------


def _converted(op: Op) -> None:
    """Register an op together with a cast before it."""

    def reduction(x: Any, *, axis: Axes, keepdim: bool, dtype: Any) -> Any:
        return in_dtype(dtype, lambda y: op(y, axis=axis, keepdim=keepdim), x)

    def scan(x: Any, *, axis: int, dtype: Any) -> Any:
        return in_dtype(dtype, lambda y: op(y, axis=axis), x)

    composite(f"{op.name}_in_dtype", reduction if "keepdim" in op.attributes else scan)


for _reduces in (sum_op, mean_op, prod_op, cumsum_op, cumprod_op):
    _converted(_reduces)

composite("nansum", lambda x, *, axis, keepdim: nansum(x, axis, keepdim))


def _with_mean(name: str, op: Op) -> None:
    def both(x: Any, *, axis: Axes, correction: float, keepdim: bool) -> tuple[Any, Any]:
        spread = op(x, axis=axis, correction=correction, keepdim=keepdim)
        return spread, mean_op(x, axis=axis, keepdim=keepdim)

    composite(name, both, outputs=(op.name, "mean"))


_with_mean("var_mean", var_op)
_with_mean("std_mean", std_op)


@composed(outputs=("min", "max"))
def aminmax(x: Any, *, axis: Axes, keepdim: bool) -> tuple[Any, Any]:
    return amin_op(x, axis=axis, keepdim=keepdim), amax_op(x, axis=axis, keepdim=keepdim)


@composed(x="{out} × (g − Σ g × {out})")
def safe_softmax(x: Any, *, axis: int) -> Any:
    """softmax, and zeros where all of a row is −inf."""
    top = amax_op(x, axis=(axis,), keepdim=True)
    blind = top == -math.inf
    return where(blind, 0, softmax_op(where(blind, 0, x), axis=axis))


# -- order -----------------------------------------------------------------------------------------

composite(
    "tril", lambda x, *, diagonal: rearranging.tril(x, diagonal), x="g in the triangle, else 0"
)
composite(
    "triu", lambda x, *, diagonal: rearranging.triu(x, diagonal), x="g in the triangle, else 0"
)
