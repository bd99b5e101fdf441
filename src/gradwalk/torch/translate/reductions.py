"""Reductions, scans and sorting."""

from __future__ import annotations

import math

from gradwalk.torch.translate.table import AtenCall, direct, has_dims, keeps_dtype

BOTH = (0, 1)

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
    direct(theirs, ours, "self", when=keeps_dtype, axis=AtenCall.axes, keepdim=AtenCall.keepdim)


def _correction(c: AtenCall) -> float:
    if "unbiased" in c.values:
        return float(c.unbiased)
    return 1.0 if c.correction is None else float(c.correction)


for name in ("var", "std"):
    for theirs, ours, outputs in (
        (f"{name} {name}.dim {name}.correction", name, (0,)),
        (f"{name}_mean.correction", f"{name}_mean", BOTH),
    ):
        direct(
            theirs, ours, "self", outputs, axis=AtenCall.axes, correction=_correction,
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
direct(
    "kthvalue", "kthvalue", "self", BOTH, when=has_dims, k="k", axis=_one_axis,
    keepdim=AtenCall.keepdim,
)  # fmt: skip
direct("median", "median", "self", axis=AtenCall.axes)
direct("aminmax", "aminmax", "self", BOTH, axis=AtenCall.axes, keepdim=AtenCall.keepdim)
direct(
    "sort sort.stable", "sort", "self", BOTH, when=has_dims, axis=AtenCall.axis,
    descending="descending",
)  # fmt: skip
direct(
    "topk", "topk", "self", BOTH, when=lambda c: c.sorted and has_dims(c), k="k",
    axis=AtenCall.axis, largest="largest",
)  # fmt: skip

# -- running ---------------------------------------------------------------------------------------


def _runs(c: AtenCall) -> bool:
    return has_dims(c) and keeps_dtype(c)


for name in ("cumsum", "cumprod", "logcumsumexp"):
    direct(name, name, "self", when=_runs, axis=AtenCall.axis)
for name in ("cummax", "cummin"):
    direct(name, name, "self", BOTH, when=_runs, axis=AtenCall.axis)
