"""Sample calls of rearranging, picking, products, norms and factorisations."""

from __future__ import annotations

from typing import Any

import numpy as np

from gradwalk.ops import TABLE
from tests.ops.samples.table import Call, Draw, Sample, booleans, floats, given, integers

NETWORKS_B: list[Sample] = []


def add(op: str, call: Call, *inputs: Draw, torch: Call | None = None) -> None:
    """Add one sample; give `torch` only if PyTorch spells the call differently."""
    number = 1 + sum(sample.op == op for sample in NETWORKS_B)
    NETWORKS_B.append(Sample(op, call, torch or call, inputs, f"b{number}"))


# -- the order of dimensions and elements -------------------------------------------------------

add("reshape", lambda m, x: m.ravel(x), floats(2, 3))
add("reshape", lambda m, x: x.ravel(), floats())
add("reshape", lambda m, x: m.unflatten(x, 1, (2, -1)), floats(3, 4))
add("reshape", lambda m, x: x.unflatten(-1, (2, 2, 1)), floats(3, 4))
add("reshape", lambda m, x, y: x.reshape_as(y), floats(3, 4), floats(2, 6))
add("permute", lambda m, x: m.movedim(x, 0, 2), floats(2, 3, 4))
add("permute", lambda m, x: m.moveaxis(x, (0, -1), (1, 0)), floats(2, 3, 4))
add("permute", lambda m, x: x.movedim((0, 1), (-1, -2)), floats(2, 3, 4))
add("permute", lambda m, x: x.moveaxis(1, 0), floats(2, 3, 4))
add("permute", lambda m, x: m.swapaxes(x, 0, -1), floats(2, 3, 4))
add("permute", lambda m, x: m.swapdims(x, 0, 1), floats(2, 3))
add("permute", lambda m, x: x.swapaxes(1, 2) + x.swapdims(2, 1), floats(2, 3, 4))
add("flip", lambda m, x: m.fliplr(x), floats(3, 4))
add("flip", lambda m, x: m.flipud(x), floats(3))
add("flip", lambda m, x: x.fliplr() * x.flipud(), floats(2, 3, 2))
for k in range(-1, 5):
    add("flip" if k % 4 else "clone", lambda m, x, k=k: m.rot90(x, k), floats(2, 3))
add("flip", lambda m, x: m.rot90(x, 1, (2, 0)), floats(2, 3, 4))
add("flip", lambda m, x: x.rot90(3, [0, 2]), floats(2, 3, 4))
for shifts, dims in [(1, 0), (-2, -1), ((1, 2), (0, 1)), (7, 0), ((1, 1), (0, 0)), (2, None)]:
    add("concatenate", lambda m, x, shifts=shifts, dims=dims: m.roll(x, shifts, dims), floats(3, 4))
add("concatenate", lambda m, x: x.roll(-1), floats(2, 3))
add("clone", lambda m, x: m.roll(x, 3, 0), floats(3))
add("clone", lambda m, x: m.roll(x, 1, 0), floats(0, 2))

# -- diagonals, triangles, windows --------------------------------------------------------------

for shape, arguments in [
    ((3, 4), ()), ((3, 4), (1,)), ((3, 4), (-2,)), ((3, 4), (4,)), ((2, 3, 4), (0, 1, 2)),
    ((2, 3, 4), (-1, -1, 0)), ((2, 3, 4), (1, 0, -2)), ((0, 3), ()), ((5, 2), (-5,)),
]:  # fmt: skip
    add("diagonal", lambda m, x, a=arguments: m.diagonal(x, *a), floats(*shape))
add("diagonal", lambda m, x: x.diagonal(dim1=-2, dim2=-1), floats(2, 3, 3))
add("diagonal", lambda m, x: m.diag(x), floats(3, 4))
add("diagonal", lambda m, x: x.diag(-1), floats(3, 3))
add("diagonal_put", lambda m, x: m.diag(x), floats(3))
add("diagonal_put", lambda m, x: m.diag(x, -2), floats(3))
for shape, arguments in [
    ((3,), ()), ((2, 3), (1,)), ((2, 3), (-2, 0, 2)), ((2, 3), (0, 1, 0)), ((2, 0), ()),
]:  # fmt: skip
    add("diagonal_put", lambda m, x, a=arguments: m.diag_embed(x, *a), floats(*shape))
add("diagonal_put", lambda m, x: x.diag_embed(), floats(2, 2))
for name in ("tril", "triu"):
    for k in (-1, 0, 2):
        add("where", lambda m, x, name=name, k=k: getattr(m, name)(x, k), floats(3, 4))
    add("where", lambda m, x, name=name: getattr(x, name)(diagonal=1), floats(2, 3, 3))
    add("where", lambda m, x, name=name: getattr(m, name)(x), integers(3, 3))
    add("where", lambda m, x, name=name: getattr(m, name)(x), floats(2, 0, 3))
    add("bitwise_and", lambda m, x, name=name: getattr(m, name)(x), booleans(3, 3))
for shape, arguments in [
    ((7,), (0, 3, 1)), ((7,), (0, 3, 2)), ((2, 5), (1, 2, 3)), ((5, 2), (0, 5, 1)),
    ((2, 6, 2), (-2, 2, 2)), ((4,), (-1, 1, 1)),
]:  # fmt: skip
    add("windows", lambda m, x, a=arguments: x.unfold(*a), floats(*shape))


def windows_added(m: Any, g: Any) -> Any:
    return TABLE["windows_add"](g, shape=(2, 7), axis=1, size=3, step=2)


def windows_added_there(m: Any, g: Any) -> Any:
    out = m.zeros(2, 7, dtype=g.dtype)
    for i in range(3):
        out = out + m.nn.functional.pad(g[:, i], (2 * i, 4 - 2 * i))
    return out


add("windows_add", windows_added, floats(2, 3, 3), torch=windows_added_there)


def change_the_diagonal(m: Any, x: Any, v: Any) -> Any:
    out = x * 1
    out.mT.diagonal(1).mul_(v)
    return out


add("write_view", change_the_diagonal, floats(3, 3), floats(2))

# -- repeating, joining, cutting ----------------------------------------------------------------

for shape, times in [((3,), (2,)), ((2, 3), (2, 1, 3)), ((2, 3), (0, 2)), ((), (3,))]:
    add("expand", lambda m, x, times=times: x.repeat(*times) * 1, floats(*shape))
    add("expand", lambda m, x, times=times: m.tile(x, times) * 1, floats(*shape))
add("expand", lambda m, x: x.repeat((2, 2)), floats(2, 3))
add("expand", lambda m, x: x.tile(2), floats(2, 3))
add("expand", lambda m, x: x.tile((2, 2)), floats(2, 3))
add("expand", lambda m, x: m.repeat_interleave(x, 3), floats(2, 2))
add("expand", lambda m, x: m.repeat_interleave(x, 2, dim=1), floats(2, 2))
add("expand", lambda m, x: x.repeat_interleave(2, -2), floats(2, 2, 3))
add("getitem", lambda m, x, r: m.repeat_interleave(x, r, 0), floats(3, 2), given([2, 0, 1]))
add("getitem", lambda m, x, r: x.repeat_interleave(r), floats(2, 2), given([1, 2, 3, 0]))
add("getitem", lambda m, x, r: m.repeat_interleave(x, r, dim=1), floats(2, 3), given([2]))
add("getitem", lambda m, r: m.repeat_interleave(r), given([1, 0, 2]))
for name in ("hstack", "vstack", "dstack"):
    for shape in [(), (3,), (2, 3), (2, 3, 2)]:
        add(
            "concatenate", lambda m, x, y, name=name: getattr(m, name)([x, y]),
            floats(*shape), floats(*shape),
        )  # fmt: skip
add("concatenate", lambda m, x, y: m.hstack((x, y)), floats(2, 1), floats(2, 3))
for name in ("atleast_1d", "atleast_2d", "atleast_3d"):
    add("reshape", lambda m, x, name=name: getattr(m, name)(x), floats())
    add("mul", lambda m, x, name=name: getattr(m, name)(x) * 2, floats(3))
    add("mul", lambda m, x, name=name: getattr(m, name)(x) * 2, floats(2, 3, 2))
    add("mul", lambda m, x, y, name=name: tuple(t * 2 for t in getattr(m, name)(x, y)),
        floats(2, 3), floats())  # fmt: skip
    add("mul", lambda m, x, y, name=name: tuple(t * 2 for t in getattr(m, name)([x, y])),
        floats(2, 3), floats(3))  # fmt: skip
add("split", lambda m, x: m.unbind(x), floats(3, 2))
add("split", lambda m, x: x.unbind(-1)[1], floats(2, 3))
add("split", lambda m, x: m.tensor_split(x, 3), floats(7, 2))
add("split", lambda m, x: x.tensor_split(4, dim=1), floats(2, 3))
add("getitem", lambda m, x: m.tensor_split(x, (1, 4)), floats(7))
add("getitem", lambda m, x: m.tensor_split(x, [2, -1, 9], dim=1), floats(2, 5))
add("getitem", lambda m, x: m.tensor_split(x, [4, 2]), floats(5))
add("getitem", lambda m, x: m.select(x, 1, -1), floats(2, 3))
add("getitem", lambda m, x: x.select(0, 1), floats(2, 3))
add("getitem", lambda m, x: m.narrow(x, 1, 1, 2), floats(2, 4))
add("getitem", lambda m, x: x.narrow(-1, -3, 2), floats(2, 4))
add("getitem", lambda m, x: x.narrow(0, 1, 0), floats(2, 4))
add("expand", lambda m, x, y: m.broadcast_tensors(x, y), floats(3, 1), floats(4))
for indexing in ("ij", "xy"):
    add("expand", lambda m, x, y, i=indexing: m.meshgrid(x, y, indexing=i), floats(2), floats(3))
    add(
        "expand", lambda m, *xs, i=indexing: m.meshgrid(xs, indexing=i),
        floats(2), floats(), floats(4),
    )  # fmt: skip
add("reshape", lambda m, x: m.meshgrid(x, indexing="xy"), floats())

for mode in ("reflect", "replicate", "circular"):
    for shape, widths in [
        ((1, 2, 5), (2, 1)), ((2, 4), (0, 3)), ((1, 1, 3, 4), (1, 2, 2, 0)),
        ((1, 1, 3, 4), (3, 0, 0, 1)),
        ((1, 1, 3, 3, 3), (1, 1, 2, 0, 0, 2)),
    ]:  # fmt: skip
        add(
            "concatenate",
            lambda m, x, mode=mode, widths=widths: m.nn.functional.pad(x, widths, mode=mode),
            floats(*shape),
        )
add("concatenate", lambda m, x: m.nn.functional.pad(x, (4, 6), mode="replicate"), floats(1, 2, 3))
add("concatenate", lambda m, x: m.nn.functional.pad(x, (-1, 2), "replicate"), floats(1, 2, 4))

# -- picking and placing ------------------------------------------------------------------------

add("where", lambda m, c, x, y: m.where(c, x, y), booleans(3, 1), floats(4), floats(3, 4))
for mask in (booleans(3, 4), booleans(5), given(True), given([[False], [False]])):
    add("getitem", lambda m, c: m.where(c), mask)
    add("getitem", lambda m, c: m.nonzero(c), mask)
add("getitem", lambda m, x: m.nonzero(x, as_tuple=True), integers(3, 4))
add("getitem", lambda m, x: x.nonzero(), integers(2, 3, 2))
add("getitem", lambda m, x: x.nonzero(as_tuple=True), integers(5))
add("getitem", lambda m, x: m.argwhere(x) + x.argwhere(), integers(2, 3))
add("getitem", lambda m, x, c: m.masked_select(x, c), floats(3, 4), booleans(3, 4))
add("getitem", lambda m, x, c: x.masked_select(c), floats(3, 1), booleans(4))
add("getitem", lambda m, x, c: m.masked_select(x, c), floats(), given(True))
add("where", lambda m, x, c: m.masked_fill(x, c, -1.5), floats(3, 4), booleans(3, 4))
add("where", lambda m, x, c: x.masked_fill(c, float("-inf")), floats(3, 4), booleans(4))
add("where", lambda m, x, c, v: m.masked_fill(x, c, v), floats(3, 4), booleans(3, 1), floats())
add("where", lambda m, x, c: m.masked_fill(x, c, 7), integers(4), booleans(4))
add("where", lambda m, x, c: m.masked_fill(x, c, 0), floats(4), booleans(3, 4))
once = given([[2, 0, 1], [1, 2, 0]])  # no place twice: PyTorch's gradient would be wrong
add("setitem", lambda m, x, i, y: m.scatter(x, 1, i, y), floats(2, 4), once, floats(2, 3))
add("setitem", lambda m, x, i, y: x.scatter(0, i, y), floats(3, 4), once, floats(2, 3))
add(
    "setitem", lambda m, x, i, y: m.scatter(x, 1, i, y), floats(2, 4), once, floats(3, 5),
    torch=lambda m, x, i, y: m.scatter(x, 1, i, y[:2, :3]),
)  # fmt: skip
add("setitem", lambda m, x, i: m.scatter(x, -1, i, 2.5), floats(2, 4), integers(2, 2))
add("setitem", lambda m, x, i: x.scatter(1, i, value=3), floats(2, 4), integers(1, 2))
add("setitem", lambda m, x, i: m.scatter(x, 0, i, 1.0), floats(3, 2), given(np.zeros((0, 2), int)))
add(
    "put", lambda m, x, i, y: m.scatter(x, 0, i, y, reduce="add"),
    floats(3, 2), integers(4, 2), floats(4, 2),
    torch=lambda m, x, i, y: m.scatter_add(x, 0, i, y),
)  # fmt: skip
add("put", lambda m, x, i, y: m.index_add(x, 0, i, y), floats(3, 2), integers(5), floats(5, 2))
add(
    "put", lambda m, x, i, y: x.index_add(-1, i, y, alpha=0.5),
    floats(2, 4), given([3, 0, 3]), floats(2, 3),
)  # fmt: skip
add(
    "setitem", lambda m, x, i, y: m.index_copy(x, 1, i, y) * x.index_copy(1, i, y),
    floats(2, 4), given([3, 0]), floats(2, 2),
)  # fmt: skip
add(
    "setitem", lambda m, x, i: m.index_fill(x, 1, i, 2.5) * x.index_fill(0, i, -1),
    floats(3, 4), given([2, 0]),
)  # fmt: skip
add("setitem", lambda m, x, i, v: m.index_fill(x, 1, i, v), floats(3, 4), given([2, 0]), floats())
add(
    "setitem", lambda m, x, i, j, v: m.index_put(x, (i, j), v),
    floats(3, 4), given([0, 2]), given([1, 1]), floats(2),
)  # fmt: skip
add("setitem", lambda m, x, i, v: x.index_put([i], v), floats(3, 4), given([2, 0]), floats(4))
add(
    "setitem",
    lambda m, x, c, v: x.clone().index_put((c,), v),
    floats(3, 4),
    booleans(3, 4),
    floats(),
)
add(
    "put", lambda m, x, i, v: m.index_put(x, (i,), v, accumulate=True),
    floats(3, 4), given([2, 0, 2]), floats(4),
)  # fmt: skip
add("put", lambda m, x, c, v: x.index_put((c,), v, True), floats(3, 4), booleans(3), floats())
add("equal", lambda m, x: m.nn.functional.one_hot(x), integers(5))
add("equal", lambda m, x: m.nn.functional.one_hot(x, 4), integers(2, 3))
add("equal", lambda m, x: m.nn.functional.one_hot(x, num_classes=3), integers())

# In place, on a tensor that needs a gradient.
add("setitem", lambda m, x, c: x.clone().masked_fill_(c, 2.5), floats(3, 4), booleans(4))
add(
    "setitem",
    lambda m, x, c, v: x.clone().masked_fill_(c, v),
    floats(3, 4),
    booleans(3, 1),
    floats(),
)
add("setitem", lambda m, x, i, y: x.clone().scatter_(1, i, y), floats(2, 4), once, floats(2, 3))
add("setitem", lambda m, x, i: x.clone().scatter_(1, i, 1.5), floats(2, 4), once)
add("setitem", lambda m, x, i: x.clone().scatter_(1, i, value=2), floats(2, 4), once)
add(
    "put",
    lambda m, x, i, y: x.clone().scatter_add_(0, i, y),
    floats(3, 2),
    integers(4, 2),
    floats(4, 2),
)
add(
    "put", lambda m, x, i, y: x.clone().index_add_(1, i, y), floats(2, 4), integers(5), floats(2, 5)
)
add(
    "put",
    lambda m, x, i, y: x.clone().index_add_(0, i, y, alpha=3),
    floats(3),
    integers(5),
    floats(5),
)
add(
    "setitem",
    lambda m, x, i, y: x.clone().index_copy_(1, i, y),
    floats(2, 4),
    given([3, 1]),
    floats(2, 2),
)
add("setitem", lambda m, x, i: x.clone().index_fill_(0, i, 2.5), floats(3, 4), given([2, 1]))
add(
    "setitem",
    lambda m, x, i, v: x.clone().index_put_((i,), v),
    floats(3, 4),
    given([2, 0]),
    floats(4),
)
add(
    "put", lambda m, x, i, v: x.clone().index_put_((i,), v, accumulate=True),
    floats(3, 4), given([2, 2]), floats(2, 4),
)  # fmt: skip

# -- products -----------------------------------------------------------------------------------

add("matmul", lambda m, x, y: m.mm(x, y) + x.mm(y), floats(2, 3), floats(3, 4))
add("matmul", lambda m, x, y: m.mv(x, y) + x.mv(y), floats(2, 3), floats(3))
add("matmul", lambda m, x, y: m.bmm(x, y) + x.bmm(y), floats(2, 3, 4), floats(2, 4, 2))
add("matmul", lambda m, x, y: m.vdot(x, y) + x.vdot(y), floats(3), floats(3))
for one, other in [
    ((3,), (3,)),
    ((2, 3), (3,)),
    ((2, 3), (4, 3)),
    ((2, 2, 3), (4, 3)),
    ((0,), (0,)),
]:
    add("matmul", lambda m, x, y: m.inner(x, y), floats(*one), floats(*other))
add("mul", lambda m, x, y: x.inner(y), floats(2, 3), floats())
add("matmul", lambda m, x, y, z: m.addmm(x, y, z), floats(2, 4), floats(2, 3), floats(3, 4))
add(
    "matmul", lambda m, x, y, z: x.addmm(y, z, beta=0.5, alpha=-2.0),
    floats(4), floats(2, 3), floats(3, 4),
)  # fmt: skip
add("matmul", lambda m, x, y, z: m.addmm(x, y, z, beta=0), floats(2, 4), floats(2, 3), floats(3, 4))
add(
    "matmul", lambda m, x, y, z: m.addmv(x, y, z) + x.addmv(y, z, beta=2.0, alpha=3.0),
    floats(2), floats(2, 3), floats(3),
)  # fmt: skip
add(
    "matmul", lambda m, x, y, z: m.baddbmm(x, y, z) + x.baddbmm(y, z, beta=2.0, alpha=0.5),
    floats(2, 2, 4), floats(2, 2, 3), floats(2, 3, 4),
)  # fmt: skip
for one, other in [
    ((2, 3), (2, 2)),
    ((3,), (2, 2)),
    ((2, 1, 2), (3,)),
    ((), (2,)),
    ((2, 0), (2, 2)),
]:
    add("mul", lambda m, x, y: m.kron(x, y), floats(*one), floats(*other))
add("mul", lambda m, x, y: x.kron(y), floats(2), floats(3))
for one, other, dims in [
    ((2, 3, 4), (3, 4, 5), 2), ((2, 3), (3, 4), 1), ((2, 3), (4,), 0),
    ((2, 3, 4), (4, 2), ([0], [1])),
    ((2, 3, 4), (5, 4, 2), ([2, 0], [1, 2])), ((2, 3), (2, 3), 2), ((2, 3), (2, 4), ([-2], [-2])),
]:  # fmt: skip
    if dims == 2 and one == other:
        dims = ([0, 1], [0, 1])
    add(
        "matmul",
        lambda m, x, y, dims=dims: m.tensordot(x, y, dims=dims),
        floats(*one),
        floats(*other),
    )
add("matmul", lambda m, x, y: m.tensordot(x, y), floats(2, 3, 4), floats(3, 4, 2))
add("diagonal", lambda m, x: m.trace(x) * x.trace(), floats(3, 4))
add("diagonal", lambda m, x: m.trace(x), integers(3, 3))

# -- norms --------------------------------------------------------------------------------------

INF = float("inf")
for order in (2, 1, 0, 3, 2.5, -1, 0.5, INF, -INF):
    vector_norm = lambda m, x, order=order, **o: m.linalg.vector_norm(x, order, **o)
    add("vector_norm", vector_norm, floats(4, low=0.3))
    add("vector_norm", lambda m, x, norm=vector_norm: norm(m, x, dim=1), floats(2, 3))
    add(
        "vector_norm",
        lambda m, x, norm=vector_norm: norm(m, x, dim=(0, -1), keepdim=True),
        floats(2, 3, 2),
    )
add("vector_norm", lambda m, x: m.linalg.vector_norm(x), floats())
add("vector_norm", lambda m, x: m.linalg.vector_norm(x, 3), floats())
add("vector_norm", lambda m, x: m.linalg.vector_norm(x, dtype=m.float64), floats(3))
for order in ("fro", "nuc", INF, -INF, 1, -1, 2, -2):
    op = {"fro": "vector_norm", "nuc": "svd", 2: "svd", -2: "svd"}.get(order, "sum")
    add(op, lambda m, x, order=order: m.linalg.matrix_norm(x, order), floats(3, 4))
    add(
        op, lambda m, x, order=order: m.linalg.matrix_norm(x, order, (0, 2), True),
        floats(3, 2, 4),
    )  # fmt: skip
    add(op, lambda m, x, order=order: m.linalg.norm(x, order), floats(3, 2))
    add(op, lambda m, x, order=order: m.linalg.norm(x, order, dim=(-1, 0)), floats(3, 2, 2))
add("vector_norm", lambda m, x: m.linalg.norm(x), floats(2, 3, 2))
add("vector_norm", lambda m, x: m.linalg.norm(x, dim=(0, 1)), floats(2, 3, 2))
add("vector_norm", lambda m, x: m.linalg.norm(x, 1), floats(4))
add("vector_norm", lambda m, x: m.linalg.norm(x, INF, 0, keepdim=True), floats(3, 2))


def distances(p: float) -> Call:
    """The definition of cdist; PyTorch's own has no second derivative."""
    return lambda m, x, y: m.linalg.vector_norm(x.unsqueeze(-2) - y.unsqueeze(-3), p, dim=-1)


for p in (2.0, 1.0, 3.0, INF):
    cdist = lambda m, x, y, p=p: m.cdist(x, y, p)
    add("vector_norm", cdist, floats(3, 2), floats(4, 2), torch=distances(p))
    add("vector_norm", cdist, floats(2, 1, 3, 4), floats(5, 2, 4), torch=distances(p))

# -- inverses, determinants, factorisations -----------------------------------------------------


def regular(*shape: int) -> Draw:
    """Square matrices far from singular."""
    return lambda source: source.uniform(-1, 1, shape) + 2.5 * np.eye(shape[-1])


def definite(m: Any, x: Any) -> Any:
    """Make a symmetric positive definite matrix with distinct eigenvalues from any matrix."""
    n = x.shape[-1]
    return x @ x.mT + m.diag(m.arange(1, n + 1)).to(x.dtype)


for shape in [(3, 3), (1, 1), (2, 3, 3), (0, 0), (0, 2, 2)]:
    add("inv", lambda m, x: m.linalg.inv(x), regular(*shape))
    add("det", lambda m, x: m.linalg.det(x), regular(*shape))
    add("slogdet", lambda m, x: tuple(m.linalg.slogdet(x)), regular(*shape))
add("inv", lambda m, x: m.inverse(x) + x.inverse(), regular(3, 3))
add("det", lambda m, x: m.det(x) + x.det(), floats(2, 3, 3))
add("det", lambda m, x: m.det(x), floats(4, 4))
add("cofactor", lambda m, x: TABLE["cofactor"](x), regular(2, 3, 3),
    torch=lambda m, x: m.linalg.det(x)[..., None, None] * m.linalg.inv(x).mT)  # fmt: skip


add(
    "certain_inv",
    lambda m, x: TABLE["certain_inv"](x),
    regular(3, 3),
    torch=lambda m, x: m.inverse(x),
)


def second_derivatives_of_det(m: Any, x: Any, h: Any) -> Any:
    """The second derivatives in PyTorch, for an invertible x."""
    inverse = m.linalg.inv(x).mT
    trace = (h * inverse).sum((-2, -1), keepdim=True)
    return m.linalg.det(x)[..., None, None] * (trace * inverse - inverse @ h.mT @ inverse)


for shape in [(3, 3), (2, 4, 4), (1, 1)]:
    add("det_twice", lambda m, x, h: TABLE["det_twice"](x, h), regular(*shape), floats(*shape),
        torch=second_derivatives_of_det)  # fmt: skip
add("slogdet", lambda m, x: m.slogdet(x).logabsdet, floats(3, 3))
add("slogdet", lambda m, x: x.slogdet().sign * x.slogdet()[1], floats(2, 3, 3))
add("slogdet", lambda m, x: m.logdet(x) + x.logdet(), regular(2, 3, 3))
add("slogdet", lambda m, x: m.logdet(x), given([[0.0, 1.0], [2.0, 0.5]]))
for one, other in [
    ((3, 3), (3,)), ((3, 3), (3, 2)), ((2, 3, 3), (2, 3)), ((2, 3, 3), (3, 2)),
    ((2, 3, 3), (2, 3, 1)),
    ((3, 3), (2, 3, 2)), ((3, 3), (3, 0)), ((2, 1, 3, 3), (4, 3, 2)),
]:  # fmt: skip
    add("solve", lambda m, x, y: m.linalg.solve(x, y), regular(*one), floats(*other))
add("solve", lambda m, x, y: m.linalg.solve(x, y, left=False), regular(3, 3), floats(2, 3))
for n in range(-2, 6):
    op = "where" if n == 0 else "matmul" if n > 1 else "mul" if n == 1 else "inv"
    add(op, lambda m, x, n=n: m.linalg.matrix_power(x, n) * x, regular(2, 3, 3))
add("matmul", lambda m, x: m.matrix_power(x, 3) + x.matrix_power(2), floats(2, 2))

for shape in [(3, 3), (2, 3, 3), (1, 1)]:
    add("cholesky", lambda m, x: m.linalg.cholesky(definite(m, x)), floats(*shape))
    add("eigh", lambda m, x: m.linalg.eigh(definite(m, x)).eigenvalues, floats(*shape))
    add("eigh", lambda m, x: m.linalg.eigvalsh(definite(m, x)), floats(*shape))
    # The sign of an eigenvector is arbitrary.
    add(
        "eigh", lambda m, x: (lambda e: (e[0], m.abs(e[1])))(m.linalg.eigh(definite(m, x))),
        floats(*shape),
    )  # fmt: skip
add("cholesky", lambda m, x: m.linalg.cholesky(definite(m, x), upper=True), floats(3, 3))
add("cholesky", lambda m, x: m.linalg.cholesky(x), given([[4.0, 9.0], [2.0, 3.0]]))
add("eigh", lambda m, x: m.abs(m.linalg.eigh(x, UPLO="U")[1]), given([[4.0, 1.0], [9.0, 3.0]]))
add("eigh", lambda m, x: m.linalg.eigvalsh(x), given([[4.0, 9.0], [1.0, 3.0]]))


def factors(m: Any, x: Any, **options: Any) -> Any:
    """QR with a positive diagonal, since the signs are arbitrary."""
    q, r = m.linalg.qr(x, **options)
    signs = m.sign(m.diagonal(r, dim1=-2, dim2=-1))
    n = r.shape[-2]
    return q * signs.reshape(*signs.shape[:-1], 1, n), r * signs.reshape(*signs.shape, 1)


for shape in [(3, 3), (4, 2), (2, 4, 3), (2, 4), (2, 3, 5), (1, 1)]:
    add("qr", factors, floats(*shape))
    add("svd", lambda m, x: m.linalg.svdvals(x), floats(*shape))
    add(
        "svd",
        lambda m, x: (lambda f: (m.abs(f.U), f.S, m.abs(f.Vh)))(
            m.linalg.svd(x, full_matrices=False)
        ),
        floats(*shape),
    )
    add("pinv", lambda m, x: m.linalg.pinv(x), floats(*shape))
add("qr", lambda m, x: factors(m, x, mode="complete"), floats(2, 3, 3))
add(
    "qr", lambda m, x: m.abs(m.linalg.qr(x, mode="r").R), floats(4, 3),
    torch=lambda m, x: m.abs(m.linalg.qr(x).R),
)  # fmt: skip
add("svd", lambda m, x: (lambda f: m.abs(f[0][..., :2]) * f[1])(m.linalg.svd(x)), floats(4, 2))
add("svd", lambda m, x: (lambda f: m.abs(f[2][..., :2, :]))(m.linalg.svd(x)), floats(2, 2, 4))


def _cut_off(x: Any) -> Any:
    return x.detach() if hasattr(x, "detach") else x  # a symbol has no graph


add(
    "qr_complete",
    lambda m, x: m.abs(m.linalg.qr(_cut_off(x), mode="complete").Q[..., :2]), floats(4, 2),
)  # fmt: skip
add("pinv", lambda m, x: m.linalg.pinv(x, rtol=0.1), regular(3, 3))
add("pinv", lambda m, x: m.linalg.pinv(x, atol=0.1), regular(3, 3))
add("permute", lambda m, x: m.linalg.pinv(x), floats(3, 0))
