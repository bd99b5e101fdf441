"""Sample calls of the ops on whole arrays: reductions, shapes, indexing, products, losses."""

from __future__ import annotations

from typing import Any

import numpy as np

from gradwalk.ops import TABLE
from tests.ops.samples.table import Structural, booleans, floats, given, integers

table = Structural()
add = table.add

# -- reductions ---------------------------------------------------------------------------------

for name in ("sum", "mean", "amax", "amin", "prod", "var", "std"):
    add(name, lambda m, x, name=name: getattr(m, name)(x), floats(3, 4))
    add(name, lambda m, x, name=name: getattr(m, name)(x), floats(7))
    add(name, lambda m, x, name=name: getattr(m, name)(x, 1), floats(3, 4))
    add(name, lambda m, x, name=name: getattr(m, name)(x, dim=-1, keepdim=True), floats(2, 3, 4))
    add(name, lambda m, x, name=name: getattr(m, name)(x, 0), floats(3, 0, 2))
    if name not in ("var", "std"):
        add(name, lambda m, x, name=name: getattr(m, name)(x), floats())
        add(name, lambda m, x, name=name: getattr(m, name)(x, 0), floats())
        add(name, lambda m, x, name=name: getattr(m, name)(x, 0, True), floats(1, 2))
    if name != "prod":  # PyTorch's prod takes one dimension
        add(name, lambda m, x, name=name: getattr(m, name)(x, dim=(0, -1)), floats(2, 3, 4))
        add(
            name, lambda m, x, name=name: getattr(m, name)(x, (2, 0), keepdim=True), floats(2, 3, 4)
        )
    if name not in ("amax", "amin"):  # undefined for zero elements
        add(name, lambda m, x, name=name: getattr(m, name)(x), floats(0))
        add(name, lambda m, x, name=name: getattr(m, name)(x, 1), floats(3, 0, 2))

add("sum", lambda m, x: m.sum(x, dtype=m.float64), integers(3, 4))
add("sum", lambda m, x: m.sum(x), integers(3, 4))
add("sum", lambda m, x: m.sum(x, 0), booleans(3, 4))
add("prod", lambda m, x: m.prod(x, 1), integers(3, 4))
add("prod", lambda m, x: m.prod(x, 0), given([[0.0, 2.0, 0.0], [3.0, -1.0, 0.0], [4.0, 5.0, 2.0]]))
add("mean", lambda m, x: m.mean(x, dtype=m.float64), integers(3, 4))
add("var", lambda m, x: m.var(x, correction=0), floats(5))
add("var", lambda m, x: m.var(x, 1, correction=2), floats(2, 5))
add("var", lambda m, x: m.var(x, 0, unbiased=False), floats(4, 2))
add("std", lambda m, x: m.std(x, 1), floats(3, 4))
add("std", lambda m, x: m.std(x, dim=(0, 1), correction=0, keepdim=True), floats(3, 4))

for name in ("max", "min"):
    add(name, lambda m, x, name=name: tuple(getattr(m, name)(x, 1)), floats(3, 4))
    add(name, lambda m, x, name=name: tuple(getattr(m, name)(x, -2, keepdim=True)), floats(2, 3, 4))
    add(name, lambda m, x, name=name: getattr(m, name)(x, 0).values, floats(3, 4))
    add(name, lambda m, x, name=name: getattr(m, name)(x, 0).indices, floats(3, 4))
    add(name, lambda m, x, name=name: tuple(getattr(m, name)(x, 0)), floats())
    add(name, lambda m, x, name=name: tuple(getattr(m, name)(x, 1)), floats(0, 3))
    add("a" + name, lambda m, x, name=name: getattr(m, name)(x), floats(3, 4))
    add(name + "imum", lambda m, x, y, name=name: getattr(m, name)(x, y), floats(3), floats(3))
for name in ("argmax", "argmin"):
    add(name, lambda m, x, name=name: getattr(m, name)(x), floats(3, 4))
    add(name, lambda m, x, name=name: getattr(m, name)(x, 0), floats(3, 4))
    add(name, lambda m, x, name=name: getattr(m, name)(x, -1, keepdim=True), floats(3, 4))
    add(name, lambda m, x, name=name: getattr(m, name)(x), floats())
for name in ("all", "any"):
    add(name, lambda m, x, name=name: getattr(m, name)(x), booleans(3, 4))
    add(name, lambda m, x, name=name: getattr(m, name)(x, 1), booleans(3, 2))
    add(name, lambda m, x, name=name: getattr(m, name)(x, 0, True), integers(3, 4))
    add(name, lambda m, x, name=name: getattr(m, name)(x), floats(0))
    add(name, lambda m, x, name=name: getattr(m, name)(x), floats())

add("cumsum", lambda m, x: m.cumsum(x, 0), floats(5))
add("cumsum", lambda m, x: m.cumsum(x, -1), floats(2, 3, 4))
add("cumsum", lambda m, x: m.cumsum(x, 1), floats(2, 0))
add("cumsum", lambda m, x: m.cumsum(x, 0), integers(4))
add("sum", lambda m, x: m.cumsum(x, 0), floats())
add("logsumexp", lambda m, x: m.logsumexp(x, 1), floats(3, 4))
add("logsumexp", lambda m, x: m.logsumexp(x, (0, 2), keepdim=True), floats(3, 2, 4))
add("logsumexp", lambda m, x: m.logsumexp(x, 0), floats())
add("logsumexp", lambda m, x: m.logsumexp(x, 1), floats(2, 0))
add("logsumexp", lambda m, x: m.logsumexp(x, 0), floats(2, 0))
add("logsumexp", lambda m, x: m.logsumexp(x, 0), floats(4, low=990.0, high=1000.0))

add("sort", lambda m, x: tuple(m.sort(x)), floats(3, 4))
add("sort", lambda m, x: tuple(m.sort(x, 0, descending=True)), floats(3, 2, 2))
add("sort", lambda m, x: m.sort(x, -1).values, floats(2, 0))
add("sort", lambda m, x: tuple(x.sort(descending=True)), integers(6, high=100))
add("clone", lambda m, x: tuple(m.sort(x)), floats())
add("topk", lambda m, x: tuple(m.topk(x, 2)), floats(3, 4))
add("topk", lambda m, x: tuple(m.topk(x, 2, dim=0, largest=False)), floats(3, 4))
add("topk", lambda m, x: m.topk(x, 0).values, floats(3))
add("clone", lambda m, x: tuple(m.topk(x, 1)), floats())
add("median", lambda m, x: m.median(x), floats(3, 4))
add("median", lambda m, x: m.median(x), floats(5))
add("median", lambda m, x: m.median(x), floats())
add("median", lambda m, x: m.median(x), floats(0))
add("median_along", lambda m, x: tuple(m.median(x, 1)), floats(3, 4))
add("median_along", lambda m, x: tuple(m.median(x, 0, keepdim=True)), floats(3, 4))
add("median_along", lambda m, x: tuple(m.median(x, 0)), floats())

# -- shapes -------------------------------------------------------------------------------------

for shape, sizes in [
    ((3, 4), (2, 6)), ((3, 4), (-1,)), ((2, 3, 4), (4, -1)), ((), (1, 1)), ((1,), ()),
    ((0, 3), (3, 0)), ((2, 0), (0,)),
]:  # fmt: skip
    add("reshape", lambda m, x, sizes=sizes: m.reshape(x, sizes), floats(*shape))
add("reshape", lambda m, x: x.reshape(6, 2), floats(3, 4))
add("reshape", lambda m, x: x.contiguous().view(6, 2), floats(3, 4))
add("reshape", lambda m, x: m.flatten(x), floats(2, 3, 4))
add("reshape", lambda m, x: m.flatten(x, 1), floats(2, 3, 4))
add("reshape", lambda m, x: m.flatten(x, 0, -2), floats(2, 3, 4))
add("reshape", lambda m, x: m.flatten(x), floats())
add("reshape", lambda m, x: m.squeeze(x), floats(1, 3, 1))
add("reshape", lambda m, x: m.squeeze(x, -1), floats(1, 3, 1))
add("reshape", lambda m, x: m.squeeze(x, 1), floats(1, 3, 1))
add("reshape", lambda m, x: m.squeeze(x, (0, 1)), floats(1, 3, 1))
add("reshape", lambda m, x: m.unsqueeze(x, 0), floats(3))
add("reshape", lambda m, x: m.unsqueeze(x, -1), floats(2, 3))
add("reshape", lambda m, x: m.unsqueeze(x, 0), floats())
add("permute", lambda m, x: m.permute(x, (2, 0, 1)), floats(2, 3, 4))
add("permute", lambda m, x: x.permute(-1, 0, 1), floats(2, 3, 4))
add("permute", lambda m, x: m.transpose(x, 0, 2), floats(2, 3, 4))
add("permute", lambda m, x: m.transpose(x, -1, -2), floats(2, 0))
add("permute", lambda m, x: m.transpose(x, 0, -1), floats())
add("permute", lambda m, x: x.mT, floats(2, 3, 4))
add("expand", lambda m, x: x.expand(2, 3, 4), floats(3, 1))
add("expand", lambda m, x: x.expand(-1, 4), floats(3, 1))
add(
    "expand", lambda m, x: m.expand(x, 2, -1, -1), floats(3, 2),
    torch=lambda m, x: x.expand(2, -1, -1),
)  # fmt: skip
add("expand", lambda m, x: m.broadcast_to(x, (2, 3)), floats())
add("expand", lambda m, x: m.broadcast_to(x, (0, 3)), floats(1, 3))
add("expand", lambda m, x, y: x.expand_as(y), floats(3), integers(2, 3))
add("flip", lambda m, x: m.flip(x, (0,)), floats(3, 4))
add("flip", lambda m, x: m.flip(x, (0, -1)), floats(2, 3, 4))
add("flip", lambda m, x: x.flip(1), floats(2, 0))
add("clone", lambda m, x: m.clone(x), floats(3, 4))
add("clone", lambda m, x: x.clone(), floats())
add("alias", lambda m, x: TABLE["alias"](x), floats(3, 4), torch=lambda m, x: x.view_as(x))
add("cast", lambda m, x: x.to(m.float64) * 1, integers(3, 4))
add("cast", lambda m, x: x.float(), floats(3, 4))
add("cast", lambda m, x: x.long(), floats(3, 4))
add(
    "cast", lambda m, x: TABLE["cast"](x, dtype=np.dtype("float32")), floats(3, 4),
    torch=lambda m, x: x.float(),
)  # fmt: skip
add("cast", lambda m, x: x.bool(), floats(3, 4))
add("cast", lambda m, x: x.float().double(), floats(3))
add("concatenate", lambda m, x, y: m.cat([x, y]), floats(2, 3), floats(1, 3))
add("concatenate", lambda m, x, y: m.cat((x, y, x), dim=-1), floats(2, 3), floats(2, 1))
add("concatenate", lambda m, x, y: m.cat([x, y], 1), floats(2, 0), floats(2, 3))
add("concatenate", lambda m, x, y: m.cat([x, y]), floats(2), integers(3))
add("concatenate", lambda m, x: m.cat([x]), floats(2, 3))
add("concatenate", lambda m, x, y: m.concatenate([x, y]), floats(2), floats(3))
add("concatenate", lambda m, x, y: m.concat([x, y]), floats(2), floats(3))
add("concatenate", lambda m, x, y: m.stack([x, y]), floats(2, 3), floats(2, 3))
add("concatenate", lambda m, x, y: m.stack([x, y, x], -1), floats(2, 3), floats(2, 3))
add("concatenate", lambda m, x, y: m.stack([x, y]), floats(), floats())
add("split", lambda m, x: m.split(x, 2), floats(5, 2))
add("split", lambda m, x: m.split(x, [1, 0, 3], dim=1), floats(2, 4))
add("split", lambda m, x: m.split(x, 2, -1)[1], floats(2, 4))
add("split", lambda m, x: m.chunk(x, 3), floats(7))
add("split", lambda m, x: m.chunk(x, 2, dim=1), floats(2, 4))
add("split", lambda m, x: m.split(x, 2), floats(0, 2))
add("pad", lambda m, x: m.nn.functional.pad(x, (1, 2)), floats(2, 3))
add("pad", lambda m, x: m.nn.functional.pad(x, (0, 1, 2, 0), value=3.5), floats(2, 3))
add("pad", lambda m, x: m.nn.functional.pad(x, (-1, 1)), floats(2, 3))
add("pad", lambda m, x: m.nn.functional.pad(x, (-1, -1, 1, -1)), floats(2, 3))
add("pad", lambda m, x: m.nn.functional.pad(x, (1, 1)), floats(2, 0))

# -- indexing -----------------------------------------------------------------------------------

# Subscripts that mean the same in both; i and j are index tensors.
for subscript in (
    0, -1, slice(None), slice(1, 3), slice(None, None, 2), slice(2, 2), slice(-2, None), ...,
    None, (0, 1), (0, 1, 2), (..., 0), (slice(1, None), 2), (None, slice(None), 0), (0, ..., None),
    (..., None, slice(0, 2)), [0, 2, 0], ([0, 1], [1, 2]), (slice(None), [2, 0, 2]),
    ([0, 2], slice(None), [1, 1]), (0, [1, 1]), ([0, 1], None, [2, 2]), ([[0], [1]], [0, 2]),
    (..., [0, 3]), ([], slice(None)), True, False, (0, True), (slice(1, 2), ..., [1, 0]),
):  # fmt: skip
    add("getitem", lambda m, x, subscript=subscript: x[subscript], floats(3, 3, 4))
i, j = integers(2, low=-3), integers(2)
add("getitem", lambda m, x, i: x[i], floats(3, 4), integers(5))
add("getitem", lambda m, x, i: x[i], floats(3, 4), integers(2, 2, low=-3))
add("getitem", lambda m, x, i, j: x[i, j], floats(3, 4), i, j)
add("getitem", lambda m, x, i, j: x[i, :, j], floats(3, 2, 4), i, j)
add("getitem", lambda m, x, i, j: x[:, i, j], floats(2, 3, 4), i, j)
add("getitem", lambda m, x, i, j: x[i[:, None], j], floats(3, 4), i, j)
add("getitem", lambda m, x, i: x[i], floats(3, 4), given(1))
add("getitem", lambda m, x, i: x[i, 1:], floats(3, 4), given(2))
add("getitem", lambda m, x, i: x[i], floats(3, 4), given([], np.int64))
add("getitem", lambda m, x, mask: x[mask], floats(3, 4), booleans(3, 4))
add("getitem", lambda m, x, mask: x[mask], floats(3, 4), booleans(3))
add("getitem", lambda m, x, mask: x[:, mask], floats(3, 4), booleans(4))
add("getitem", lambda m, x, mask, i: x[mask, i], floats(3, 4), given([True, False, True]), j)
add("getitem", lambda m, x, mask: x[mask], floats(2, 2), given([[False, False], [False, False]]))
add("getitem", lambda m, x, mask: x[mask], floats(), given(True))
add("getitem", lambda m, x, mask: x[mask, 1], floats(3, 4), given([True, False, True]))
add("getitem", lambda m, x, mask: x[0, :, mask], floats(2, 3, 4), booleans(4))
add("getitem", lambda m, x, mask: x[mask, None, 0], floats(3, 4, 2), booleans(3, 4))
add("getitem", lambda m, x: x[[True, False, True]], floats(3, 4))
add("getitem", lambda m, x: x[x > 0], floats(3, 4))
add("getitem", lambda m, x: x[...], floats())
add("getitem", lambda m, x: x[None], floats())
add("getitem", lambda m, x: x[0], floats(1))
add("getitem", lambda m, x: x[1:][0][::2], floats(3, 4))
add("split", lambda m, x: tuple(x), floats(3, 2))
# NumPy's index kinds that PyTorch does not accept.
for subscript, same in [
    (slice(None, None, -1), lambda x: x.flip(0)),
    ((slice(None), slice(None, 0, -2)), lambda x: x.flip(1)[:, 0:2:2]),
    (np.array([0, 2]), lambda x: x[[0, 2]]),
    (np.int32(1), lambda x: x[1]),
    (range(2), lambda x: x[[0, 1]]),
    (np.array([True, False, True]), lambda x: x[[0, 2]]),
    (np.array([0, 1], np.uint8), lambda x: x[[0, 1]]),
]:
    add(
        "getitem", lambda m, x, subscript=subscript: x[subscript], floats(3, 3),
        torch=lambda m, x, same=same: same(x),
    )  # fmt: skip
add("getitem", lambda m, x, i: m.gather(x, 1, i), floats(3, 4), integers(3, 2))
add("getitem", lambda m, x, i: m.gather(x, 0, i), floats(3, 4), integers(2, 3))
add("getitem", lambda m, x, i: m.gather(x, -1, i), floats(2, 3, 4), integers(2, 1, 5))
add("getitem", lambda m, x, i: m.gather(x, 0, i), floats(), given(0))
add("getitem", lambda m, x, i: m.take(x, i), floats(3, 4), integers(2, 3, low=-12, high=12))
add("getitem", lambda m, x, i: m.index_select(x, 1, i), floats(2, 3, 2), integers(4))
add("getitem", lambda m, x, i: m.index_select(x, 0, i), floats(3), given([], np.int64))
add("getitem", lambda m, x, i: m.take_along_dim(x, i, 1), floats(3, 4), integers(3, 2))
add("getitem", lambda m, x, i: m.take_along_dim(x, i, 0), floats(3, 4), integers(2, 1))
add("getitem", lambda m, x, i: m.take_along_dim(x, i), floats(3, 4), integers(5, high=12))


def assign(subscript: Any) -> Any:
    """x with `value` assigned to a subscript."""

    def call(m: Any, x: Any, value: Any) -> Any:
        out = x.clone()
        out[subscript] = value
        return out

    return call


for subscript, shape in [
    (0, (3, 4)), (0, ()), (..., (3, 3, 4)), (slice(1, None), (2, 1, 4)), ((..., 0), (3, 3)),
    ((0, slice(None), [1, 3]), (3, 2)), ([2, 0], (2, 3, 4)), ([2, 0], (4,)), (([0, 1], [1, 1]), ()),
    ((None, 1), (3, 4)), (slice(2, 2), (1, 4)), ((..., 1, [[0], [1]]), (3, 2, 1)),
    (True, (3, 3, 4)), (False, ()), ((0, 1, 2), ()),
]:  # fmt: skip
    add("setitem", assign(subscript), floats(3, 3, 4), floats(*shape))


def assign_at(m: Any, x: Any, value: Any, i: Any) -> Any:
    out = x.clone()
    out[i] = value
    return out


add("setitem", assign_at, floats(3, 4), floats(4), booleans(3))
add("setitem", assign_at, floats(3, 4), floats(), booleans(3, 4))
add("setitem", assign_at, floats(3, 4), floats(2, 4), given([2, 0]))
add("setitem", assign_at, floats(3, 4), floats(3), given(np.eye(3, 4, 1) > 0))
add("setitem", assign_at, floats(), floats(), given(True))
add("setitem", lambda m, x, v: x.clone().copy_(v), floats(3, 4), floats(4))
add("setitem", lambda m, x: x.clone().fill_(2.5), floats(3, 4))
add("setitem", lambda m, x: x.clone().zero_(), floats(3, 4))

# The op itself, as graphs and symbols use it.
for index, subscript, shape in [
    ((("slice", 1, None, None),), slice(1, None), (2, 4)),
    ((1, "...", 0), (1, ..., 0), ()),
]:
    add(
        "setitem", lambda m, x, v, index=index: TABLE["setitem"](x, v, index=index),
        floats(3, 4), floats(*shape), torch=assign(subscript),
    )  # fmt: skip
add(
    "setitem", lambda m, x, v, i: TABLE["setitem"](x, v, i, index=(("array", 0),)),
    floats(3, 4), floats(4), given([2, 0]), torch=assign_at,
)  # fmt: skip


def put_call(m: Any, g: Any, i: Any) -> Any:
    return TABLE["put"](g, i, index=(("array", 0),), shape=(4, 2))


add(
    "put", put_call, floats(3, 2), given([0, 2, 0]),
    torch=lambda m, g, i: m.zeros(4, 2, dtype=g.dtype).index_add(0, i, g),
)  # fmt: skip
add("put", lambda m, x, i, y: m.scatter_add(x, 0, i, y), floats(3, 2), integers(4, 2), floats(4, 2))
add(
    "put", lambda m, x, i, y: m.scatter_add(x, 1, i, y), floats(2, 3), integers(1, 2), floats(2, 4),
    # PyTorch uses the corner of a larger source too, but cannot differentiate that.
    torch=lambda m, x, i, y: m.scatter_add(x, 1, i, y[:1, :2]),
)  # fmt: skip
add("put", lambda m, x, i, y: x.scatter_add(-1, i, y), floats(3), integers(6), floats(6))
add("put", lambda m, x, i, y: m.scatter_add(x, 0, i, y), floats(), given(0), floats())
add(
    "winners",
    lambda m, x, i: TABLE["winners"](x, i, index=(("array", 0),)), floats(3), given([0, 2, 0, 1]),
    torch=lambda m, x, i: m.tensor([False, True, True, True]),
)  # fmt: skip


def change_through_view(m: Any, x: Any, y: Any) -> Any:
    out = x * 1
    out[1:].mul_(y)
    out.mT[0].add_(y[0])
    return out


def change_by_itself(m: Any, x: Any, y: Any) -> Any:
    """In-place ops that need what they overwrite."""
    out = x * 1
    out.mul_(y).pow_(2).div_(y).log_().abs_().sqrt_()
    return out


def change_a_piece(m: Any, x: Any, y: Any) -> Any:
    out = (x * 1).contiguous()
    out.view(2, 6)[:, 1:3].copy_(y)
    return out


add("write_view", change_through_view, floats(3, 3), floats(2, 3))
add(
    "write_view",
    lambda m, x, v: TABLE["write_view"](x, v, chain=((TABLE["getitem"], {"index": (1,)}, 0),)),
    floats(3, 4), floats(4), torch=assign(1),
)  # fmt: skip
add("mul", change_by_itself, floats(3, 4), floats(4, low=1.0))
add("write_view", change_a_piece, floats(3, 4), floats(2, 1))

# -- spellings of elementwise ops ---------------------------------------------------------------

positive = dict(low=0.3, high=3.0)
add("pow", lambda m, x, y: m.pow(x, y), floats(3, 1, **positive), floats(4))
add("pow", lambda m, y: m.pow(2.0, y), floats(4))
add("power", lambda m, x: m.pow(x, 3), floats(4))
add("power", lambda m, x: m.pow(x, -0.5), floats(4, **positive))
add("clip", lambda m, x: m.clip(x, -1.0, 1.0), floats(9))
add("clip", lambda m, x: m.clamp(x, max=0), floats(9))
add("clip", lambda m, x: m.clamp(x, 1, 2), integers(9, high=5))
for number in (0, 1.5):
    add("where", lambda m, c, x, n=number: m.where(c, x, n), booleans(4), floats(4))
    add("where", lambda m, c, x, n=number: m.where(c, n, x), booleans(4), floats(3, 4))
    add("where", lambda m, c, n=number: m.where(c, n, n), booleans(4))

# -- products -----------------------------------------------------------------------------------

for one, other in [
    ((3, 4), (4, 2)), ((4,), (4,)), ((3, 4), (4,)), ((4,), (4, 2)), ((2, 3, 4), (4, 2)),
    ((2, 3, 4), (2, 4, 2)), ((5, 1, 3, 4), (2, 4, 2)), ((2, 3, 4), (4,)), ((4,), (2, 4, 3)),
    ((3, 0), (0, 2)), ((0, 4), (4, 2)), ((0, 3, 4), (4, 2)), ((0,), (0,)), ((1, 3, 4), (5, 4, 1)),
]:  # fmt: skip
    add("matmul", lambda m, x, y: m.matmul(x, y), floats(*one), floats(*other))
add("matmul", lambda m, x, y: x @ y, integers(2, 3), integers(3, 2))
add("matmul", lambda m, x: x @ x, floats(3, 3))
add("matmul", lambda m, x, y: m.dot(x, y), floats(4), floats(4))
add("mul", lambda m, x, y: m.outer(x, y), floats(3), floats(2))
for equation, *shapes in [
    ("ij,jk->ik", (2, 3), (3, 4)), ("ij,jk", (2, 3), (3, 4)), ("ij->ji", (2, 3)), ("ij->", (2, 3)),
    ("ij->j", (2, 3)), ("i,j->ij", (2,), (3,)), ("i,i", (3,), (3,)), ("ba", (2, 3)),
    ("bij,bjk->bik", (2, 3, 4), (2, 4, 2)), ("...ij,...jk->...ik", (5, 2, 3), (3, 4)),
    ("...i,i", (2, 4, 3), (3,)), ("ii->i", (3, 3)), ("ii", (3, 3)), ("iij->j", (3, 3, 2)),
    ("ij,ij,i->j", (2, 3), (2, 3), (2,)), ("ij,k->", (2, 3), (4,)),
    ("a,b,c->abc", (2,), (3,), (2,)),
    ("i...->...", (3, 2)), ("ijk,l->jl", (2, 3, 2), (4,)), (" i j , j -> i ", (2, 3), (3,)),
    ("ij,j->i", (2, 1), (3,)), ("ij,jk->ik", (2, 0), (0, 3)), (",i->i", (), (3,)), ("->", ()),
    ("ii,i->i", (3, 3), (3,)), ("iii->i", (2, 2, 2)), ("...,...->...", (2, 1), (3,)),
]:  # fmt: skip
    add(
        "einsum",
        lambda m, *xs, equation=equation: m.einsum(equation, *xs),
        *(floats(*s) for s in shapes),
    )
add("einsum", lambda m, x: m.einsum("ij,kj->ik", x, x), floats(2, 3))

linear = lambda m, *xs: m.nn.functional.linear(*xs)
add("linear", linear, floats(5, 3), floats(2, 3), floats(2))
add("linear", linear, floats(4, 5, 3), floats(2, 3), floats(2))
add("linear", linear, floats(3), floats(2, 3), floats(2))
add("linear", linear, floats(0, 3), floats(2, 3), floats(2))
add("linear", linear, floats(2, 0, 3), floats(2, 3), floats(2))
add("matmul", linear, floats(5, 3), floats(2, 3))
add("matmul", linear, floats(3), floats(2, 3))

# -- softmax and its family ---------------------------------------------------------------------

for name in ("softmax", "log_softmax"):
    add(name, lambda m, x, name=name: getattr(m, name)(x, 1), floats(3, 4))
    add(name, lambda m, x, name=name: getattr(m, name)(x, dim=0), floats(3, 2, 2))
    add(name, lambda m, x, name=name: getattr(m, name)(x, -1), floats(2, 3, low=-400.0, high=400.0))
    add(name, lambda m, x, name=name: getattr(m, name)(x, 0), floats(1))
    add(name, lambda m, x, name=name: getattr(m, name)(x, 1), floats(0, 3))
    add(name, lambda m, x, name=name: getattr(m, name)(x, 1), floats(2, 0))
    add(name, lambda m, x, name=name: getattr(m, name)(x, 0, dtype=m.float64), integers(3))
    scalar = "exp" if name == "softmax" else "sub"
    add(scalar, lambda m, x, name=name: getattr(m, name)(x, 0), floats())


def cross_entropy(**options: Any) -> Any:
    return lambda m, x, t: m.nn.functional.cross_entropy(x, t, **options)


for reduction in ("mean", "sum", "none"):
    add("cross_entropy", cross_entropy(reduction=reduction), floats(4, 3), integers(4))
    add("cross_entropy", cross_entropy(reduction=reduction), floats(2, 3, 4), integers(2, 4))
    ignoring = cross_entropy(reduction=reduction, ignore_index=1)
    add("cross_entropy", ignoring, floats(5, 3), given([0, 1, 2, 1, 2]))
    add("cross_entropy", ignoring, floats(2, 3), given([1, 1]))
add("cross_entropy", cross_entropy(), floats(3), integers())
add("cross_entropy", cross_entropy(), floats(5, 3), given([0, -100, 2, 1, -100]))
add("cross_entropy", cross_entropy(reduction="sum"), floats(0, 3), given([], np.int64))
add("cross_entropy", cross_entropy(), floats(0, 3), given([], np.int64))
add("cross_entropy", cross_entropy(), floats(2, 3, 2, 2), integers(2, 2, 2))

STRUCTURAL = table.samples
