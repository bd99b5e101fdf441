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

from gradwalk.compiler.backends.llvm.emit.kernel_builder import Kernel
from gradwalk.compiler.backends.llvm.errors import NoKernel
from gradwalk.compiler.backends.llvm.target import Host
from gradwalk.compiler.plan.buffers import Slice

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


# Bits of `form`, which says how b is read: where it is, by tiles of whole vectors, or else packed,
# by the function for stride 1 along n, along k or along neither; and whether it comes first.
DIRECT = 1
PACKING = {"any": 0, "n": 2, "k": 4}
EXCHANGED = 8  # what is called a here is the block's second array, and b its first

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


def sized(kernel: Kernel, numbers: tuple[int, ...]) -> Kernel:
    """The kernel of a product with the numbers of its block."""
    return kernel._replace(sizes=numbers, scratch=numbers[SIZES.index("scratch")])


def first_stride(array: int) -> int:
    """Where in these numbers the strides of an output or extra begin; extras follow outputs."""
    return len(SIZES) + DIMENSIONS * (array - 1)


def product_of(
    left: Slice, right: Slice, outputs: Sequence[Slice], extras: Sequence[Slice], host: Host
) -> tuple[Product, tuple[int, ...]]:
    """The structure of a product of arrays, and the numbers of its block, as `SIZES` names them.

    Arrays are a (batch..., m, k), b (batch..., k, n), outputs and extras (batch..., m, n). The
    batch gets 3 dimensions, the first ones of size 1 if it needs fewer. Its m and n may be
    exchanged, or its batch be part of m.
    """
    shape = outputs[0].shape
    *batch, m, n = shape
    k = left.shape[-1]
    sizes = list(batch)
    strides = [
        *(_matrix_strides(place, shape) for place in (left, right)),
        *(_result_strides(place) for place in outputs),
        *(list(place.broadcast(shape)) for place in extras),
    ]
    _join(sizes, strides)
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
        raise NoKernel(f"a product of {len(sizes)} batch dimensions that cannot be joined")
    missing = 3 - len(sizes)
    a, b, out, *others = ([0] * missing + s for s in strides)
    numbers = {f"batch {d}": n for d, n in enumerate([1] * missing + sizes)}
    numbers |= {"m": m, "n": n, "k": k, **_schedule(left.dtype, m, n, k, b, exchanged, host)}
    for name, each, matrix in (("a", a, "mk"), ("b", b, "kn"), ("out", out, "mn")):
        numbers |= {f"{name} {d}": s for d, s in zip((*"012", *matrix), each, strict=True)}
    arrays = [
        epilogue_array(place.dtype, each)
        for place, each in zip((*outputs, *extras), (out, *others), strict=True)
    ]
    product = Product(left.dtype, tuple(arrays[: len(outputs)]), tuple(arrays[len(outputs) :]))
    return product, (*(numbers[name] for name in SIZES), *(s for each in others for s in each))


def _schedule(
    dtype: np.dtype[Any], m: int, n: int, k: int, b: Sequence[int], exchanged: bool, host: Host
) -> dict[str, int]:
    """How a product is cut up; it does not depend on the number of threads.

    A *panel* is `width` columns of b, a *block* so many tiles of rows of a; a panel is packed, or
    read where it is, and used with all tiles of a block. Scratch memory is bytes for each thread.
    """
    size = dtype.itemsize
    tile = tiling(dtype, host)
    rows = tile.rows[0]
    tiles = -(-m // rows)
    most = max(8, BLOCK_BYTES // max(rows * k * size, 1))
    blocks = -(-tiles // most)  # 0 if there are no rows
    in_block = -(-tiles // max(blocks, 1)) or 1
    # Where b is contiguous; a dimension of size 1 is, whatever its stride.
    along_k, along_n = (
        stride == 1 or length == 1 for stride, length in zip(b[-2:], (k, n), strict=True)
    )
    b_unit = "n" if along_n else "k" if along_k else "any"
    # Reading b where it is costs nothing if its vectors do not straddle cache lines; rows that
    # do are worth packing when many tiles use them.
    straddles = b[-2] * size % host.vector_bytes != 0
    direct = b_unit == "n" and (in_block <= 4 or not straddles)
    form = DIRECT * direct | PACKING[b_unit] | EXCHANGED * exchanged
    panel = 0 if direct and not n % tile.lanes else min(k, DEPTH) * tile.width
    held = in_block if k > DEPTH else 1  # tiles whose sums are in memory at a time
    scratch = (panel + held * rows * tile.width) * size
    return {
        "panels": -(-n // tile.width), "blocks": blocks, "tiles": in_block, "form": form,
        "scratch": -(-scratch // 64) * 64,
    }  # fmt: skip


def _matrix_strides(place: Slice, shape: tuple[int, ...]) -> list[int]:
    """Strides over (batch..., rows, columns), the batch broadcast to that of the result."""
    lead = len(shape) - len(place.shape)
    batch = [0 if n == 1 else s for n, s in zip(place.shape[:-2], place.strides, strict=False)]
    return [*(0,) * lead, *batch, *place.strides[-2:]]


def _result_strides(place: Slice) -> list[int]:
    """Strides of a result; a single column is contiguous, not the same number everywhere."""
    return [*place.strides[:-1], 1 if place.shape[-1] == 1 else place.strides[-1]]


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


def _join(sizes: list[int], strides: list[list[int]]) -> None:
    """Omit batch dimensions of size 1, and join neighbours where every array's strides allow."""
    for d in range(len(sizes) - 1, -1, -1):
        joins = d + 1 < len(sizes) and all(s[d] == s[d + 1] * sizes[d + 1] for s in strides)
        if sizes[d] == 1 or joins:
            if joins:
                sizes[d + 1] *= sizes[d]
            del sizes[d]
            for s in strides:
                del s[d]
