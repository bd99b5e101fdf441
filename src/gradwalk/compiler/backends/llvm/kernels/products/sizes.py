"""What a matrix product is: its structure, which a kernel is written for, and its sizes, which the
kernel reads when it runs.

    out[batch..., m, n] = Σ_k a[batch..., m, k] · b[batch..., k, n]

then the epilogue on every finished vector. `product_of` finds the structure and the sizes of given
arrays, joins dimensions of the batch and exchanges m and n where that is faster.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from gradwalk.compiler.backends.llvm.target import Host

Strides = tuple[int, ...]

# Depth of a stretch of k that is summed in registers; longer sums are sums of stretches. It keeps
# panels in the cache, and errors small: those of a sum grow with its length.
DEPTH = 256
BLOCK_BYTES = 1 << 19  # of a, that are used with one panel of b after the other: half of that cache


class Tiling(NamedTuple):
    """The register tile of a machine: `rows` × (`vectors` × `lanes`) numbers. Rows that are left
    over are done by tiles of fewer rows."""

    lanes: int
    rows: tuple[int, ...]
    vectors: int = 2

    @property
    def width(self) -> int:
        """Columns of a tile, and of a panel of b."""
        return self.lanes * self.vectors


def tiling(dtype: Any, host: Host) -> Tiling:
    """The tile that fills this machine's vector registers: sums, two vectors of b, numbers of a."""
    rows = (12, 4, 1) if host.has_many_registers else (6, 2, 1)
    return Tiling(host.lanes(np.dtype(dtype).itemsize), rows)


class EpilogueArray(NamedTuple):
    """An output or a further operand of the epilogue, over (batch..., m, n). Its stride along n is
    part of the structure if it is 1 or 0; None means that it is read when the kernel runs."""

    dtype: np.dtype[Any]
    along_n: int | None = 1


def epilogue_array(dtype: np.dtype[Any], strides: Sequence[int]) -> EpilogueArray:
    """An output or extra of these strides, the last of which is that along n."""
    return EpilogueArray(dtype, strides[-1] if strides[-1] in (0, 1) else None)


class Product(NamedTuple):
    """The structure of a product: all that a kernel's text depends on, but for its epilogue."""

    dtype: np.dtype[Any]
    outputs: tuple[EpilogueArray, ...]
    extras: tuple[EpilogueArray, ...] = ()


class Sizes(NamedTuple):
    """The sizes of a product, and the strides in elements of its arrays: a over (batch..., m, k),
    b over (batch..., k, n), outputs and extras over (batch..., m, n). The batch has 3 dimensions,
    the first ones of size 1 if it needs fewer."""

    batch: tuple[int, ...]
    m: int
    n: int
    k: int
    a: Strides
    b: Strides
    outputs: tuple[Strides, ...]
    extras: tuple[Strides, ...] = ()
    exchanged: bool = False  # what is called a here is the block's second array, and b its first


# Bits of `form`, which says how b is read: where it is, by tiles of whole vectors, or else packed,
# by the function for stride 1 along n, along k or along neither; and whether it comes first.
DIRECT = 1
PACKING = {"n": 2, "k": 4, None: 0}
EXCHANGED = 8


class Schedule(NamedTuple):
    """How a product is cut up. A *panel* is `width` columns of b, a *block* so many tiles of rows
    of a; a panel is packed, or read where it is, and used with all tiles of a block."""

    panels: int
    blocks: int
    tiles: int  # in a block
    form: int
    scratch: int  # bytes for each thread

    @classmethod
    def of(cls, product: Product, sizes: Sizes, host: Host) -> Schedule:
        """The schedule for these sizes; it does not depend on the number of threads."""
        size = product.dtype.itemsize
        tile = tiling(product.dtype, host)
        rows = tile.rows[0]
        tiles = -(-sizes.m // rows)
        most = max(8, BLOCK_BYTES // max(rows * sizes.k * size, 1))
        blocks = -(-tiles // most)  # 0 if there are no rows
        in_block = -(-tiles // max(blocks, 1)) or 1
        # Where b is contiguous; a dimension of size 1 is, whatever its stride.
        along_k, along_n = (
            stride == 1 or size_of == 1
            for stride, size_of in zip(sizes.b[-2:], (sizes.k, sizes.n), strict=True)
        )
        b_unit = "n" if along_n else "k" if along_k else None
        # Reading b where it is costs nothing if its vectors do not straddle cache lines; rows that
        # do are worth packing when many tiles use them.
        straddles = sizes.b[-2] * size % host.vector_bytes != 0
        direct = b_unit == "n" and (in_block <= 4 or not straddles)
        form = DIRECT * direct | PACKING[b_unit] | EXCHANGED * sizes.exchanged
        depth = min(sizes.k, DEPTH)
        panel = 0 if direct and not sizes.n % tile.lanes else depth * tile.width
        held = in_block if sizes.k > DEPTH else 1  # tiles whose sums are in memory at a time
        scratch = (panel + held * rows * tile.width) * size
        return cls(-(-sizes.n // tile.width), blocks, in_block, form, -(-scratch // 64) * 64)


DIMENSIONS = 5  # of every array: three of the batch, rows, columns
# The numbers in a kernel's block, after its arrays. The strides of every further output and of
# every extra follow.
SIZES = (
    "batch 0", "batch 1", "batch 2", "m", "n", "k",
    "panels", "blocks", "tiles", "form", "scratch",
    "a 0", "a 1", "a 2", "a m", "a k",
    "b 0", "b 1", "b 2", "b k", "b n",
    "out 0", "out 1", "out 2", "out m", "out n",
)  # fmt: skip


def first_stride(array: int) -> int:
    """Where in these numbers the strides of an output or extra begin; extras follow outputs."""
    return len(SIZES) + DIMENSIONS * (array - 1)


def block_sizes(product: Product, sizes: Sizes, host: Host) -> tuple[int, ...]:
    """The numbers for a product of these sizes, as `SIZES` names them."""
    out, *others = (*sizes.outputs, *sizes.extras)
    numbers = Schedule.of(product, sizes, host)._asdict()
    numbers |= {"m": sizes.m, "n": sizes.n, "k": sizes.k}
    numbers |= {f"batch {d}": n for d, n in enumerate(sizes.batch)}
    for array, strides, matrix in (("a", sizes.a, "mk"), ("b", sizes.b, "kn"), ("out", out, "mn")):
        numbers |= {f"{array} {d}": s for d, s in zip((*"012", *matrix), strides, strict=True)}
    return (*(numbers[name] for name in SIZES), *(s for strides in others for s in strides))


def product_of(
    dtype: Any,
    batch: Sequence[int],
    m: int,
    n: int,
    k: int,
    a: Sequence[int],
    b: Sequence[int],
    outputs: Sequence[tuple[Any, Sequence[int]]],
    extras: Sequence[tuple[Any, Sequence[int]]] = (),
) -> tuple[Product, Sizes]:
    """Structure and sizes of a product of arrays with these strides (in elements): a over
    (batch..., m, k), b over (batch..., k, n), outputs and extras (dtype, strides) over
    (batch..., m, n). Its m and n may be exchanged, or its batch be part of m."""
    given = [a, b, *(s for _, s in (*outputs, *extras))]
    sizes, strides = _joined(list(batch), [list(s) for s in given])
    if sizes and not strides[1][len(sizes) - 1]:
        m = _rows_of_batch(m, sizes, strides)
    # Transposed outputs, or single columns: outᵀ = bᵀ aᵀ has contiguous rows.
    exchanged = m > 1 and all(
        s[-2] == 1 and (n == 1 or s[-1] != 1) for s in strides[2 : 2 + len(outputs)]
    )
    if exchanged:
        m, n = n, m
        strides[:2] = strides[1], strides[0]
        for s in strides:
            s[-2:] = s[-1], s[-2]
    if len(sizes) > 3:
        raise ValueError(f"a product has at most 3 batch dimensions, not {tuple(batch)}")
    missing = 3 - len(sizes)
    fixed = [(0,) * missing + tuple(s) for s in strides]
    arrays = [
        epilogue_array(np.dtype(kind), s)
        for (kind, _), s in zip((*outputs, *extras), fixed[2:], strict=True)
    ]
    count = len(outputs)
    sizes_of_all = Sizes(
        (1,) * missing + tuple(sizes), m, n, k, fixed[0], fixed[1],
        tuple(fixed[2 : 2 + count]), tuple(fixed[2 + count :]), exchanged,
    )  # fmt: skip
    product = Product(np.dtype(dtype), tuple(arrays[:count]), tuple(arrays[count:]))
    return product, sizes_of_all


def _rows_of_batch(m: int, sizes: list[int], strides: list[list[int]]) -> int:
    """All of the last batch dimension has the same b: make its rows further rows of a, if they
    follow each other in every array. Returns how many rows there are then."""
    last = len(sizes) - 1
    over_m = [s for number, s in enumerate(strides) if number != 1]
    if m > 1 and any(s[last] != m * s[last + 1] for s in over_m):
        return m
    for s in over_m:
        if m == 1:
            s[last + 1] = s[last]
        del s[last]
    del strides[1][last]
    return m * sizes.pop()


def _joined(sizes: list[int], strides: list[list[int]]) -> tuple[list[int], list[list[int]]]:
    """Omit batch dimensions of size 1, and join neighbours where every array's strides allow."""
    for d in range(len(sizes) - 1, -1, -1):
        joins = d + 1 < len(sizes) and all(s[d] == s[d + 1] * sizes[d + 1] for s in strides)
        if sizes[d] == 1 or joins:
            if joins:
                sizes[d + 1] *= sizes[d]
            del sizes[d]
            for s in strides:
                del s[d]
    return sizes, strides
