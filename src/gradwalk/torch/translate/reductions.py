"""Reductions, scans and sorting."""

from __future__ import annotations

import math

from gradwalk.torch.translate.table import AtenCall, Known, direct, entry, keeps_dtype

BOTH = (0, 1)


def _reduce(name: str, op: str) -> None:
    """Register a reduction over `dim`, or over all elements."""

    def known(c: AtenCall) -> Known | None:
        if not keeps_dtype(c):
            return None
        keepdim = bool(c.values.get("keepdim", False))
        return Known(op, (c.self,), {"axis": c.axes(), "keepdim": keepdim})

    entry(*name.split())(known)


_reduce("sum sum.dim_IntList", "sum")
_reduce("mean mean.dim", "mean")
_reduce("prod prod.dim_int", "prod")
_reduce("amax max", "amax")
_reduce("amin min", "amin")
_reduce("all all.dim all.dims", "all")
_reduce("any any.dim any.dims", "any")
_reduce("argmax", "argmax")
_reduce("argmin", "argmin")
_reduce("logsumexp", "logsumexp")


@entry("nansum")
def _nansum(c: AtenCall) -> Known | None:
    if not keeps_dtype(c):
        return None
    return Known("nansum", (c.self,), {"axis": c.axes(), "keepdim": c.keepdim})


def _correction(c: AtenCall) -> float:
    if "unbiased" in c.values:
        return float(c.unbiased)
    return 1.0 if c.correction is None else float(c.correction)


for name in ("var", "std"):
    direct(
        f"{name}.correction {name}.dim", name, "self", axis=lambda c: c.axes(),
        correction=_correction, keepdim="keepdim",
    )  # fmt: skip
    direct(
        f"{name}", name, "self", axis=lambda c: c.axes(), correction=_correction,
        keepdim=lambda c: False,
    )  # fmt: skip
    direct(
        f"{name}_mean.correction", f"{name}_mean", "self", BOTH, axis=lambda c: c.axes(),
        correction=_correction, keepdim="keepdim",
    )  # fmt: skip


@entry("linalg_vector_norm")
def _vector_norm(c: AtenCall) -> Known | None:
    return _norm(c, float(c.ord))


@entry("norm.Scalar", "norm.ScalarOpt_dim", "norm.ScalarOpt_dtype", "norm.ScalarOpt_dim_dtype")
def _old_norm(c: AtenCall) -> Known | None:
    return _norm(c, 2.0 if c.p is None else float(c.p))


def _norm(c: AtenCall, p: float) -> Known | None:
    if not keeps_dtype(c) or not c.self.is_floating_point() or math.isnan(p):
        return None
    keepdim = bool(c.values.get("keepdim", False))
    return Known("vector_norm", (c.self,), {"p": p, "axis": c.axes(), "keepdim": keepdim})


# -- a value and its place -------------------------------------------------------------------------


def _chosen(name: str, op: str) -> None:
    """Register an overload that returns values and indices along one dimension."""

    def known(c: AtenCall) -> Known | None:
        if not c.self.dim():
            return None
        attrs = {"axis": (c.axis(),), "keepdim": c.keepdim}
        return Known(op, (c.self,), attrs if op != "kthvalue" else {"k": c.k, **attrs}, BOTH)

    entry(name)(known)


_chosen("max.dim", "max")
_chosen("min.dim", "min")
_chosen("median.dim", "median_along")
_chosen("kthvalue", "kthvalue")


@entry("median")
def _median(c: AtenCall) -> Known:
    return Known("median", (c.self,), {"axis": c.axes()})


@entry("aminmax")
def _aminmax(c: AtenCall) -> Known:
    return Known("aminmax", (c.self,), {"axis": c.axes(), "keepdim": c.keepdim}, BOTH)


@entry("sort", "sort.stable")
def _sort(c: AtenCall) -> Known | None:
    if not c.self.dim():
        return None
    return Known("sort", (c.self,), {"axis": c.axis(), "descending": c.descending}, BOTH)


@entry("topk")
def _topk(c: AtenCall) -> Known | None:
    if not c.sorted or not c.self.dim():
        return None
    return Known("topk", (c.self,), {"k": c.k, "axis": c.axis(), "largest": c.largest}, BOTH)


# -- running ---------------------------------------------------------------------------------------


def _running(name: str, outputs: tuple[int, ...] = (0,)) -> None:
    def known(c: AtenCall) -> Known | None:
        if not c.self.dim() or not keeps_dtype(c):
            return None
        return Known(name, (c.self,), {"axis": c.axis()}, outputs)

    entry(name)(known)


_running("cumsum")
_running("cumprod")
_running("logcumsumexp")
_running("cummax", BOTH)
_running("cummin", BOTH)
