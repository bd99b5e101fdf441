"""Sample calls with arguments by name, in PyTorch's spelling and NumPy's, and of odd shapes.

Many of these came from PyTorch's own samples (test_pytorch_samples.py), where they once failed.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.ops.samples.table import Structural, floats, given, integers

table = Structural()
add = table.add

# -- operands by name ------------------------------------------------------------------------------

pair = floats(3, 4), floats(4)
near = floats(2, 3, low=0.3, high=2.0), floats(2, 3, low=0.5, high=2.0)
add("add", lambda m, x, y: m.add(input=x, other=y), *pair)
add("add", lambda m, x, y: m.add(x, other=y, alpha=2), *pair)
add("add", lambda m, x, y: m.add(x1=x, x2=y), *pair)
add("add", lambda m, x, y: x.clone().add_(other=y), *pair)
add("sub", lambda m, x, y: m.sub(input=x, other=y, alpha=-3), *pair)
add("mul", lambda m, x, y: m.mul(input=x, other=y) + x.mul(other=y), *pair)
add("mul", lambda m, x, y: x.clone().mul_(other=y), *pair)
add("div", lambda m, x, y: m.div(input=x, other=y), *near)
add("div_floor", lambda m, x, y: m.div(input=x, other=y, rounding_mode="floor"), *near)
add("div_trunc", lambda m, x, y: m.div(x, other=y, rounding_mode="trunc"), *near)
add("exp", lambda m, x: m.exp(input=x), floats(3))
add("round", lambda m, x: m.round(input=x, decimals=1), floats(3))
add("logit", lambda m, x: m.logit(input=x, eps=0.1), floats(3, low=0.2, high=0.8))
add("atan2", lambda m, x, y: m.atan2(input=x, other=y) + x.atan2(other=y), *near)
add("maximum", lambda m, x, y: m.maximum(input=x, other=y) + m.max(input=x, other=y), *pair)
add("minimum", lambda m, x, y: x.minimum(other=y) + x.min(other=y), *pair)
add("equal", lambda m, x, y: m.eq(input=x, other=y), integers(3, 4), integers(4))
add("lerp", lambda m, x, y, z: m.lerp(input=x, end=y, weight=z), *[floats(3, low=0.1)] * 3)
add("heaviside", lambda m, x, y: m.heaviside(input=x, values=y), integers(5, low=-1), integers(5))
add("clamp_min", lambda m, x, y: m.clamp_min(input=x, min=y) + x.clamp_min(min=y), *pair)
add("clamp_max", lambda m, x, y: m.clamp_max(input=x, max=y) + x.clamp_max(max=y), *pair)
add("clip", lambda m, x: m.clamp(input=x, min=-0.5, max=0.5), floats(3, 4))
add("pow", lambda m, x, y: m.pow(input=x, exponent=y), *near)
add("mul", lambda m, x, y: x.outer(vec2=y) + m.outer(input=x, vec2=y), floats(3), floats(2))
add("matmul", lambda m, x, y: x.dot(tensor=y), floats(3), floats(3))

# -- dimensions by name ----------------------------------------------------------------------------

for name in ("sum", "mean", "prod", "amax", "amin", "logsumexp", "var", "std"):

    def by_name(m: Any, x: Any, name: str = name) -> Any:
        found = getattr(m, name)(input=x, dim=1) + getattr(m, name)(x, axis=1)
        return found + getattr(x, name)(axis=1, keepdims=True)[:, 0]

    add(name, by_name, floats(3, 4))
add("argmax", lambda m, x: m.argmax(input=x, axis=0, keepdims=True), integers(3, 4))
add("max", lambda m, x: m.max(input=x, dim=1)[0] + x.max(axis=1)[0], floats(3, 4))
add("cumsum", lambda m, x: m.cumsum(input=x, axis=0) + x.cumsum(axis=0), floats(3, 4))
add("cumprod", lambda m, x: m.cumprod(input=x, axis=0) + x.cumprod(axis=0), floats(3, 4))
add("cummax", lambda m, x: m.cummax(x, axis=0)[0] + x.cummax(axis=0)[0], floats(3, 4))
add("logcumsumexp", lambda m, x: m.logcumsumexp(input=x, axis=1), floats(3, 4))
add("softmax", lambda m, x: m.softmax(input=x, dim=1) + m.softmax(x, axis=1), floats(3, 4))
add(
    "softmax",
    lambda m, x: x.softmax(1, m.float64) + x.softmax(dim=1, dtype=m.float64),
    floats(3, 4),
)
add("log_softmax", lambda m, x: x.log_softmax(1, dtype=m.float64), floats(3, 4))
add("log_softmax", lambda m, x: m.log_softmax(x, 1, m.float64), floats(3, 4))
add("sort", lambda m, x: x.sort(axis=0, stable=True, descending=True)[0], floats(3, 4))
add("sort", lambda m, x: m.sort(input=x, dim=0)[0] + x.sort(stable=True)[0], floats(3, 4))
add("sort", lambda m, x: m.argsort(input=x, dim=0, stable=True), integers(3, 4))
add("topk", lambda m, x: m.topk(input=x, k=2, dim=1)[0], floats(3, 4))
add("kthvalue", lambda m, x: m.kthvalue(input=x, k=2, dim=1)[0], floats(3, 4))
add("median", lambda m, x: m.median(input=x), floats(3, 4))
add("median_along", lambda m, x: m.median(input=x, dim=1)[0] + x.median(axis=1)[0], floats(3, 4))
add("sum", lambda m, x: m.nansum(input=x, axis=1) + x.nanmean(axis=1), floats(3, 4))
add("sum", lambda m, x: m.count_nonzero(input=x, axis=1), integers(3, 4))
add("reshape", lambda m, x: m.unsqueeze(x, axis=0) + x.unsqueeze(axis=0).squeeze(axis=0), floats(3))
add("split", lambda m, x: m.chunk(x, 2, axis=1)[1] + x.chunk(chunks=2, axis=1)[0], floats(3, 4))
add("getitem", lambda m, x: m.select(x, axis=1, index=2) + x.select(axis=1, index=0), floats(3, 4))
add("getitem", lambda m, x: m.narrow(x, axis=1, start=1, length=2), floats(3, 4))
add("split", lambda m, x: m.unbind(x, axis=1)[1] + x.unbind(axis=1)[0], floats(3, 4))
add("getitem", lambda m, x, i: m.index_select(x, axis=1, index=i), floats(3, 4), integers(2))
add("getitem", lambda m, x, i: m.gather(x, axis=1, index=i), floats(3, 4), integers(3, 2))

# -- sizes by name ---------------------------------------------------------------------------------

add("reshape", lambda m, x: x.reshape(shape=(2, 6)) + x.clone().view(size=(2, 6)), floats(3, 4))
add("permute", lambda m, x: x.permute(dims=(1, 0)), floats(3, 4))
add("expand", lambda m, x: x.expand(size=(2, -1)) + x.broadcast_to(size=(2, 3)), floats(1, 3))
add("flip", lambda m, x: x.flip(dims=[0, 1]), floats(3, 4))
add("expand", lambda m, x: x.repeat(repeats=(2, 1)) + x.tile(dims=(2, 1)), floats(1, 3))
add("getitem", lambda m, x: m.tensor_split(x, indices=[1, 3], dim=1)[1], floats(3, 4))
add("split", lambda m, x: x.tensor_split(sections=2)[0] + m.vsplit(x, sections=2)[1], floats(4, 2))
add("getitem", lambda m, x: m.hsplit(x, indices=[1])[1], floats(3, 4))
add(
    "split",
    lambda m, x: (
        x.split_with_sizes(split_sizes=[1, 2], dim=1)[1]
        + m.split_with_sizes(x, split_sizes=[2, 1], dim=1)[0]
    ),
    floats(2, 3),
)

# -- a result in another dtype ---------------------------------------------------------------------

for name in ("sum", "prod"):
    for kind in ("int32", "uint8", "bool", "float64"):
        call = lambda m, x, name=name, kind=kind: getattr(m, name)(x, 0, dtype=getattr(m, kind))
        add(name, call, integers(3, 4))
add("cumsum", lambda m, x: m.cumsum(x, 0, dtype=m.int32), integers(3, 4))
add("cumsum", lambda m, x: m.cumsum(x, 0, dtype=m.float64) * 1.5, floats(3, 4))
add("cumprod", lambda m, x: m.cumprod(x, 1, dtype=m.uint8), integers(3, 4))

# -- numbers and nothing in place of vectors -------------------------------------------------------

one = given([0], np.int64)
add("getitem", lambda m, x, i: m.gather(x, 0, i), floats(), one)
add("getitem", lambda m, x: m.gather(x, 0, m.tensor(2)), floats(4))
add("getitem", lambda m, x: m.gather(x, 0, m.zeros(2, 0, dtype=m.int64)), floats(4))
add("put", lambda m, x, i, y: m.index_add(x, 0, i, y, alpha=2), floats(), one, floats())
add("setitem", lambda m, x, i, y: m.index_copy(x, 0, i, y), floats(), one, floats())
add("setitem", lambda m, x, i: m.index_fill(x, 0, i, 2.5), floats(), one)
add("setitem", lambda m, x, i: x.clone().index_fill_(0, i, 2.5), floats(), one)
add("getitem", lambda m, x: x.unfold(0, 1, 1), floats())
add("concatenate", lambda m, x: m.cat([m.zeros(0), x, x], 1), floats(2, 3))
add("where", lambda m, x, w: m.nn.functional.prelu(x, w), floats(), floats(1))
add("vector_norm", lambda m, x: m.linalg.matrix_norm(x, "fro"), floats(0, 3))
add("sum", lambda m, x: m.linalg.matrix_norm(x.detach(), float("inf")), floats(0, 3))
add("sum", lambda m, x: m.linalg.matrix_norm(x.detach(), 1, keepdim=True), floats(2, 3, 0))
add("sum", lambda m, x: m.linalg.matrix_norm(x.detach(), 2), floats(3, 0))
add("clone", lambda m, x: m.nn.functional.batch_norm(x, None, None, training=True), floats(0, 3, 2))
for name in ("cos", "log10", "square", "erfc"):  # of no elements, in place
    add(name, lambda m, x, name=name: getattr(x.clone(), f"{name}_")(), floats(1, 0, 3))

# -- what was missing ------------------------------------------------------------------------------

rows = given([[1, 2], [0, 3], [1, 2], [0, 1]], np.int64)
add("getitem", lambda m, x: m.unique(x, dim=0), rows)
for dim in (0, 1, -1):

    def everything(m: Any, x: Any, dim: int = dim) -> Any:
        return m.unique(x, return_inverse=True, return_counts=True, dim=dim)

    add("getitem", everything, rows)
places = given([[0, 2, 2], [0, 0, 1]], np.int64)


def multiplied_in_torch(m: Any, x: Any, i: Any, y: Any) -> Any:
    """PyTorch's own has no gradient: multiply by one factor after the other."""
    for column in range(3):
        factor = m.ones_like(x).scatter(1, i[:, column : column + 1], y[:, column : column + 1])
        x = x * factor
    return x


add(
    "setitem",
    lambda m, x, i, y: m.scatter(x, 1, i, y, reduce="multiply"),
    floats(2, 4),
    places,
    floats(2, 3),
    torch=multiplied_in_torch,
)
add("matmul", lambda m, x, y: m.tensordot(x, y, ([0, 1], [2, 0])), floats(1, 1, 3), floats(2, 4, 3))
edges = [(-4, 5), (3, -4), (-2, 3), (1, -3)]
for widths in edges:
    call = lambda m, x, w=widths: m.nn.functional.pad(x, w, mode="replicate")
    add("getitem", call, floats(1, 2, 4))
for widths in [(-3, 2), (2, -3), (-1, -2)]:
    add(
        "getitem", lambda m, x, w=widths: m.nn.functional.pad(x, w, mode="reflect"), floats(1, 2, 4)
    )
symmetric = lambda x: x + x.mT
add("pinv", lambda m, x: m.linalg.pinv(symmetric(x), hermitian=True), floats(3, 3))
add("pinv", lambda m, x: m.linalg.pinv(x, 0.1), floats(3, 3))

ARGUMENTS = table.samples
