"""Reductions, scans and sorting."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from gradwalk.ops import TABLE as OPS
from gradwalk.torch.translate.table import (
    AtenCall,
    Known,
    Made,
    direct,
    entry,
    has_dims,
    keeps_dtype,
    numpy_dtype,
    same,
)

BOTH = (0, 1)


def _reducing(theirs: str, ours: str, **attrs: Callable[[AtenCall], Any]) -> None:
    """Register overloads that may convert to another dtype before they reduce."""

    @entry(*theirs.split())
    def known(c: AtenCall) -> Known | None:
        own = {name: of(c) for name, of in attrs.items()}
        if keeps_dtype(c):
            return Known(ours, (c.self,), own)
        dtype, converting = numpy_dtype(c.dtype), f"{ours}_in_dtype"
        if dtype is None or converting not in OPS:
            return None
        return Known(converting, (c.self,), own | {"dtype": dtype})


for ours, theirs in {
    "sum": "sum sum.dim_IntList",
    "mean": "mean mean.dim",
    "prod": "prod prod.dim_int",
    "amax": "amax max",
    "amin": "amin min",
    "all": "all all.dim all.dims",
    "any": "any any.dim any.dims",
    "argmax": "argmax",
    "argmin": "argmin",
    "logsumexp": "logsumexp",
    "nansum": "nansum",
}.items():
    _reducing(theirs, ours, axis=AtenCall.axes, keepdim=AtenCall.keepdim)


def _correction(c: AtenCall) -> float:
    if "unbiased" in c.values:
        return float(c.unbiased)
    return 1.0 if c.correction is None else float(c.correction)


for names, outputs in {
    "var var.dim var.correction std std.dim std.correction": (0,),
    "var_mean.correction std_mean.correction": BOTH,
}.items():
    same(
        names, "self", outputs, axis=AtenCall.axes, correction=_correction,
        keepdim=AtenCall.keepdim,
    )  # fmt: skip


def _order(c: AtenCall) -> float:
    if "ord" in c.values:
        return float(c.ord)
    return 2.0 if c.p is None else float(c.p)


direct(
    "linalg_vector_norm norm.Scalar norm.ScalarOpt_dim norm.ScalarOpt_dtype "
    "norm.ScalarOpt_dim_dtype",
    "vector_norm",
    "self",
    when=lambda c: keeps_dtype(c) and c.self.is_floating_point() and not math.isnan(_order(c)),
    p=_order,
    axis=AtenCall.axes,
    keepdim=AtenCall.keepdim,
)

# -- a value and its place -------------------------------------------------------------------------


def _one_axis(c: AtenCall) -> tuple[int]:
    return (c.axis(),)


for theirs, ours in {"max.dim": "max", "min.dim": "min", "median.dim": "median_along"}.items():
    direct(theirs, ours, "self", BOTH, when=has_dims, axis=_one_axis, keepdim=AtenCall.keepdim)
same("kthvalue", "self", BOTH, "k", when=has_dims, axis=_one_axis, keepdim=AtenCall.keepdim)
same("median", "self", axis=AtenCall.axes)
same("aminmax", "self", BOTH, axis=AtenCall.axes, keepdim=AtenCall.keepdim)
same("sort sort.stable", "self", BOTH, "descending", when=has_dims, axis=AtenCall.axis)


@entry("topk")
def _topk(c: AtenCall) -> Known | None:
    if not has_dims(c):
        return None
    if c.sorted:
        return Known("topk", (c.self,), {"k": c.k, "axis": c.axis(), "largest": c.largest}, BOTH)
    return Known("gather", (c.self, Made(1)), {"axis": c.axis()})  # PyTorch chooses the order


direct(
    "histc", "histc", "self", when=lambda c: c.min < c.max and c.self.is_floating_point(),
    bins="bins", low="min", high="max",
)  # fmt: skip

# -- running ---------------------------------------------------------------------------------------


def _runs(c: AtenCall) -> bool:
    return has_dims(c) and keeps_dtype(c)


for scan in ("cumsum", "cumprod"):
    _reducing(scan, scan, axis=AtenCall.axis)
same("logcumsumexp", "self", when=_runs, axis=AtenCall.axis)
same("cummax cummin", "self", BOTH, when=_runs, axis=AtenCall.axis)
