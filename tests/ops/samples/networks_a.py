"""Sample calls of functions made of elementwise ops, and of the further reductions."""

from __future__ import annotations

import math

import numpy as np

from tests.ops.samples.table import Structural, booleans, floats, given, integers

table = Structural()
add = table.add

# -- elementwise --------------------------------------------------------------------------------

add("sign", lambda m, x: m.sgn(x), floats(3, 4))
add("div", lambda m, x, y: m.true_divide(x, y), floats(3), floats(3, low=0.5))
add("add", lambda m, x, y: m.add(x, y, alpha=2.5), floats(3, 4), floats(4))
add("add", lambda m, x: m.add(x, 3, alpha=2), floats(3, 4))
add("sub", lambda m, x, y: m.sub(x, y, alpha=0.5), floats(3, 1), floats(4))
add("sub", lambda m, x, y: x.sub(y, alpha=0.5), floats(3, 1), floats(4))
for mode in (None, "trunc", "floor"):
    name = f"div_{mode}" if mode else "div"
    add(
        name, lambda m, x, y, mode=mode: m.div(x, y, rounding_mode=mode),
        floats(9, low=-9.0, high=9.0), floats(9, low=0.5),
    )  # fmt: skip
add("floor_divide", lambda m, x: m.floor_divide(x, 2), integers(3, 4, low=-9, high=9))
add("floor_divide", lambda m, x: x // 2, integers(3, 4, low=-9, high=9))
add("floor_divide", lambda m, x: 17 // x, integers(3, 4, low=1, high=9))
add("remainder", lambda m, x: x % 0.75, floats(3, 4, low=-9.0, high=9.0))
add(
    "remainder", lambda m, x: 2.5 % x, floats(3, 4, low=0.3),
    torch=lambda m, x: m.remainder(m.full_like(x, 2.5), x),
)  # fmt: skip
add("fmod", lambda m, x: m.fmod(x, 0.7), floats(3, 4, low=-9.0, high=9.0))
for call in (
    lambda m, x, y, z: m.addcmul(x, y, z),
    lambda m, x, y, z: m.addcmul(x, y, z, value=-0.5),
    lambda m, x, y, z: x.addcmul(y, z, value=2),
):
    add("mul", call, floats(3, 4), floats(3, 1), floats(4))
for call in (
    lambda m, x, y, z: m.addcdiv(x, y, z),
    lambda m, x, y, z: m.addcdiv(x, y, z, value=-0.5),
):
    add("div", call, floats(3, 4), floats(3, 1), floats(4, low=0.5))
add("lerp", lambda m, x, y: m.lerp(x, y, 0.3), floats(3, 4), floats(4))
add("lerp", lambda m, x, y: m.lerp(x, y, 0.8), floats(3, 4), floats(4))
add("power", lambda m, x: m.float_power(x, 2.5), floats(3, 4, low=0.3))
add("power", lambda m, x: m.float_power(x, 3), integers(3, 4, low=1))
add("pow", lambda m, x, y: m.float_power(x, y), floats(3, 4, low=0.3), floats(4))
add("pow", lambda m, x: m.float_power(2, x), floats(3, 4))
add("polygamma", lambda m, x: m.polygamma(2, x), floats(3, 4, low=0.3))
add("logit", lambda m, x: m.logit(x, 1e-3), floats(3, 4, low=-0.5, high=1.5))
add("nan_to_num", lambda m, x: m.nan_to_num(x, 2.0), given([1.0, math.nan, math.inf, -math.inf]))
add("nan_to_num", lambda m, x: m.nan_to_num(x, posinf=2.0), given([1.0, math.nan, math.inf]))
add("nan_to_num", lambda m, x: m.nan_to_num(x), integers(3))
for name in ("isnan", "isinf", "isfinite"):
    add(
        name, lambda m, x, name=name: getattr(m, name)(x), given([1.0, math.nan, math.inf, -np.inf])
    )

# Bounds that are tensors.
bounds = floats(3, 4), floats(4, low=-1.0, high=0.0), floats(3, 4, low=0.0, high=1.0)
same = lambda m, x, low, high: m.clamp(*m.broadcast_tensors(x, low, high))
add("clip_between", lambda m, x, low, high: m.clamp(x, low, high), *bounds, torch=same)
add("clip_between", lambda m, x, low, high: x.clip(low, high), *bounds, torch=same)
add("clip_between", lambda m, x, low, high: m.clip(x, min=high, max=low), *bounds,
    torch=lambda m, x, low, high: same(m, x, high, low))  # fmt: skip
add("clamp_min", lambda m, x, low, high: m.clamp(x, low), *bounds)
add("clamp_min", lambda m, x, low, high: x.clamp_min(low), *bounds)
add("clamp_max", lambda m, x, low, high: m.clamp(x, max=high), *bounds)
add("clamp_min", lambda m, x: m.clamp_min(x, 0.25), floats(3, 4))

# -- reductions ---------------------------------------------------------------------------------

NAN = math.nan
for name in ("var", "std"):
    for call in (
        lambda m, x, name=name: getattr(m, name)(x, False),
        lambda m, x, name=name: getattr(m, name)(x, True),
        lambda m, x, name=name: getattr(m, name)(x, 1, False),
        lambda m, x, name=name: getattr(m, name)(x, (0, 1), True, True),
        lambda m, x, name=name: getattr(m, name)(x, unbiased=False),
        lambda m, x, name=name: getattr(x, name)(-1, False, True),
    ):
        add(name, call, floats(3, 4))
for name in ("all", "any"):
    add(name, lambda m, x, name=name: getattr(m, name)(x, (0, -1)), booleans(2, 3, 2))
add("cumsum", lambda m, x: m.cumsum(x, 0, dtype=m.float64), integers(4))

for p in (0, 0.5, 1, 1.5, 2, 2.5, 3, math.inf, -math.inf):
    add("vector_norm", lambda m, x, p=p: m.norm(x, p), floats(3, 4))
    add("vector_norm", lambda m, x, p=p: m.norm(x, p, dim=1), floats(3, 4))
    add("vector_norm", lambda m, x, p=p: m.norm(x, p, (0, -1), keepdim=True), floats(2, 3, 4))
    add("vector_norm", lambda m, x, p=p: m.norm(x, p), floats())
add("vector_norm", lambda m, x: m.norm(x), floats(3, 4))
add("vector_norm", lambda m, x: m.norm(x, dim=-1), floats(2, 0))
add("vector_norm", lambda m, x: x.norm(dim=0, keepdim=True), floats(3, 4))
add("vector_norm", lambda m, x: m.norm(x, 2, dtype=m.float64), floats(3, 4))
add("vector_norm", lambda m, x: m.norm(x, "fro", dim=(0, 1)), floats(3, 4))
some = given([[1.0, NAN, 3.0], [NAN, NAN, 1.5], [0.0, -2.0, 0.5]])
for name in ("nansum", "nanmean"):
    for call in (
        lambda m, x, name=name: getattr(m, name)(x),
        lambda m, x, name=name: getattr(m, name)(x, 0),
        lambda m, x, name=name: getattr(m, name)(x, (0, 1), keepdim=True),
        lambda m, x, name=name: getattr(m, name)(x, dim=-1, dtype=m.float64),
    ):
        add("sum", call, some)
        add("sum", call, floats(3, 4))
add("sum", lambda m, x: m.nansum(x, 1), integers(3, 4))
add("sum", lambda m, x: m.count_nonzero(x), integers(3, 4))
add("sum", lambda m, x: m.count_nonzero(x, 0), integers(3, 4))
add("sum", lambda m, x: m.count_nonzero(x, dim=(0, 1)), booleans(3, 4, 2))
add("sum", lambda m, x: m.count_nonzero(x), given([0.0, NAN, -0.0, 1.0]))

# -- running reductions -------------------------------------------------------------------------

for name in ("cumprod", "logcumsumexp", "cummax", "cummin"):
    both = (lambda found: tuple(found)) if name.startswith("cumm") else (lambda found: found)
    for dim, shape in [(0, (5,)), (-1, (2, 3, 4)), (1, (2, 3, 4)), (0, (1,)), (1, (2, 0)), (0, ())]:
        add(
            name, lambda m, x, name=name, dim=dim, both=both: both(getattr(m, name)(x, dim)),
            floats(*shape),
        )  # fmt: skip
add("cumprod", lambda m, x: m.cumprod(x, 0), given([2.0, 0.0, 3.0, 0.0, 5.0]))
add("cumprod", lambda m, x: m.cumprod(x, 0), given([0.0, 2.0, 3.0]))
add("cumprod", lambda m, x: m.cumprod(x, 1), given([[1.0, 2.0, 0.0], [0.0, 0.0, 0.0]]))
add("cumprod", lambda m, x: m.cumprod(x, 0), integers(5, low=1))
add("cumprod", lambda m, x: m.cumprod(x, 0, dtype=m.float64), integers(5, low=1))
add("logcumsumexp", lambda m, x: m.logcumsumexp(x, 0), floats(5, low=40.0, high=50.0))
add("logcumsumexp", lambda m, x: m.logcumsumexp(x, 0), given([1e3, -1e3, 0.0, 2e3]))
for name in ("cummax", "cummin"):
    add(name, lambda m, x, name=name: getattr(m, name)(x, 0).indices, given([2, 1, 2, 3, 1, 1, 3]))
    add(name, lambda m, x, name=name: tuple(getattr(m, name)(x, 0)), given([2.0, 2.0, NAN, 3.0]))
    add(name, lambda m, x, name=name: tuple(getattr(m, name)(x, 0)), given([2.0, 2.0, 1.0, 3.0]))

# -- order --------------------------------------------------------------------------------------

add("sort", lambda m, x: m.argsort(x), floats(3, 4))
add("sort", lambda m, x: m.argsort(x, 0, True), floats(3, 4))
add("sort", lambda m, x: x.argsort(dim=0, stable=True), integers(9))
for k in (1, 3):
    add("kthvalue", lambda m, x, k=k: tuple(m.kthvalue(x, k)), floats(2, 4))
    add("kthvalue", lambda m, x, k=k: tuple(m.kthvalue(x, k, 0, keepdim=True)), floats(3, 2))
add("kthvalue", lambda m, x: m.kthvalue(x, 2, dim=1).values, integers(2, 4, high=100))
add("clone", lambda m, x: tuple(m.kthvalue(x, 1)), floats())
for call in (
    lambda m, x: m.unique(x),
    lambda m, x: m.unique(x, return_inverse=True),
    lambda m, x: m.unique(x, return_counts=True),
    lambda m, x: m.unique(x, True, True, True),
):
    add("sort", call, integers(3, 4))
    add("sort", call, given(2))
    add("sort", call, given([5, 5, 5]))
add("sort", lambda m, x: m.unique(x), given([], np.int64))
edges = given([-1.0, 0.0, 0.0, 1.5])
for right in (False, True):
    add("searchsorted", lambda m, s, x, r=right: m.searchsorted(s, x, right=r), edges, floats(2, 3))
    add("searchsorted", lambda m, x, s, r=right: m.bucketize(x, s, right=r), floats(2, 3), edges)
    add(
        "searchsorted", lambda m, s, x, r=right: m.searchsorted(s, x, right=r),
        given([0, 1, 1, 2, 2, 5]), integers(7, low=-1, high=7),
    )  # fmt: skip
add(
    "searchsorted", lambda m, s, x: m.searchsorted(m.sort(s).values, x, side="right"),
    integers(2, 3, 5, high=9), integers(2, 3, 4, high=9),
)  # fmt: skip
add(
    "searchsorted", lambda m, s, x: m.searchsorted(s, x, sorter=m.argsort(s), out_int32=True),
    floats(6), floats(4),
)  # fmt: skip
add("searchsorted", lambda m, s: m.searchsorted(s, 0.0), edges)
add("searchsorted", lambda m, s: m.bucketize(m.tensor(0.25), s.float(), out_int32=True), edges)
add("searchsorted", lambda m, s, x: m.searchsorted(s, x), edges, given([NAN, math.inf, -math.inf]))

NETWORKS_A = table.samples
