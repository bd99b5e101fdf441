"""The kernel of a product, and the function that all of a dtype share: threads, panels, tiles.

Arrays of a kernel's block: a, b, scratch memory (`Kernel.scratch` bytes for each thread), the
outputs, the extras. After them the numbers of `product_of`. All it does is to call

    void product.v16f32(ptr bases, ptr sizes, i64 thread, i64 threads, ptr finish, i1 plain)

Work is numbered tile by tile: (batch, block of rows, panel of columns, tile). A thread takes an
equal stretch of these numbers, and packs a panel when it comes to its first tile there. No sum is
ever divided between threads, so results do not depend on their number.

A finished tile lies in scratch memory; `finish`, written for each kernel, is its epilogue.

`plain` products have none: the tile function stores whole vectors where they belong, and only the
rest of a row goes through `finish`.

This function depends on the machine alone. It is compiled once, kept on disk like any other text,
and given to the kernels as a symbol.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from gradwalk.compiler.backends.llvm.emit.ir_builder import I64, Declaration, fast_arithmetic
from gradwalk.compiler.backends.llvm.emit.kernel_builder import Kernel
from gradwalk.compiler.backends.llvm.emit.vector import Type, VectorBuilder
from gradwalk.compiler.backends.llvm.kernels.products.epilogue import Epilogue, driver_kernel
from gradwalk.compiler.backends.llvm.kernels.products.sizes import (
    DEPTH,
    DIRECT,
    EXCHANGED,
    PACKING,
    SIZES,
    EpilogueArray,
    Product,
    Tiling,
    tiling,
)
from gradwalk.compiler.backends.llvm.kernels.products.tile import (
    PACK_PARAMETERS,
    tile_function,
    write_pack,
)
from gradwalk.compiler.backends.llvm.runtime.object_code import Library, compile_text
from gradwalk.compiler.backends.llvm.target import Host

PARAMETERS = (
    "ptr noalias %bases, ptr noalias %sizes, i64 %thread, i64 %threads, ptr %finish, i1 %plain"
)


@functools.cache
def driver(dtype: np.dtype[Any], host: Host) -> Library:
    """The shared function for this dtype, in memory, with its tiles and packing."""
    name, text, declarations = driver_text(dtype, host)
    return compile_text({name: text}, declarations)


def driver_text(dtype: np.dtype[Any], host: Host) -> tuple[str, str, frozenset[Declaration]]:
    """Its name, its text, and what the text calls."""
    name = f"product.{Type(dtype, tiling(dtype, host).lanes).suffix}"
    with fast_arithmetic(False):  # it is the same for all programs
        f = _ProductDriver(name, dtype, tiling(dtype, host))
    parts = [*f.helpers, f]
    declarations = frozenset().union(*(part.declarations for part in parts))
    return name, "\n".join(part.finish() for part in parts), declarations


def product_kernel(product: Product, host: Host, epilogue: Epilogue | None = None) -> Kernel:
    """The kernel of products of this structure, without its sizes (`sized` adds them); without an
    epilogue the product itself is the only output."""
    plain = epilogue is None and product.outputs == (EpilogueArray(product.dtype, 1),)
    shared = driver(product.dtype, host).addresses
    (name,) = shared
    lanes, last = tiling(product.dtype, host).lanes, ("i1", "true" if plain else "false")
    return driver_kernel(name, product, lanes, epilogue, 0, last, symbols=shared)


class _ProductDriver(VectorBuilder):
    def __init__(self, name: str, dtype: np.dtype[Any], tile: Tiling) -> None:
        super().__init__(name, PARAMETERS)
        self.tile = tile
        self.vector = Type(dtype, tile.lanes)
        # Tiles by rows and vectors, packing functions by where b has stride 1.
        self.tiles = {
            (rows, vectors): tile_function(
                f"{name}.tile.{rows}x{vectors}", self.vector, rows, vectors
            )
            for rows in tile.rows
            for vectors in (1, 2)
        }
        self.helpers = [*self.tiles.values()]
        for unit in PACKING:
            self.helpers.append(VectorBuilder(f"{name}.pack.{unit}", PACK_PARAMETERS, private=True))
            write_pack(self.helpers[-1], self.vector, unit)

        self.indices = self.set("alloca [3 x i64], align 8", "indices")
        self.named = {name: self.word("%sizes", number) for number, name in enumerate(SIZES)}
        first, second, scratch, self.out = (self.word("%bases", n, "ptr") for n in range(4))
        exchanged = self._has(EXCHANGED)
        self.a = self.select(exchanged, "ptr", second, first)
        self.b = self.select(exchanged, "ptr", first, second)
        mine = self.multiply("%thread", self.named["scratch"])
        self.scratch = self.pointer("i8", scratch, mine)
        self.pack = f"@{name}.pack.any"
        for unit, bit in PACKING.items():
            if bit:
                self.pack = self.select(self._has(bit), "ptr", f"@{name}.pack.{unit}", self.pack)
        self.columns_of_tiles()

    def _has(self, bit: int) -> str:
        return self.differ(self.set(f"and i64 {self.named['form']}, {bit}"), 0)

    def _element(self, base: str, *indices: I64) -> str:
        return self.element(base, self.vector.dtype, *indices)

    # -- which tiles are this thread's -------------------------------------------------------------

    def columns_of_tiles(self) -> None:
        """For each (batch, block, panel) of which this thread has tiles: these tiles."""
        tiles = self.named["tiles"]
        count: I64 = tiles
        for name in ("panels", "blocks", "batch 0", "batch 1", "batch 2"):
            count = self.multiply(count, self.named[name])
        first, end = self.share(count)
        first_column = self.set(f"udiv i64 {first}, {tiles}")
        last_column = self.set(f"sdiv i64 {self.subtract(end, 1)}, {tiles}")
        nothing = self.compare("eq", first, end)
        end_column = self.select(nothing, "i64", first_column, self.add(last_column, 1))
        with self.loop(first_column, end_column) as column:
            start = self.multiply(column.index, tiles)
            first_tile = self.larger(self.subtract(first, start), 0)
            end_tile = self.smaller(self.subtract(end, start), tiles)
            self.column(column.index, first_tile, end_tile)

    # -- one panel ---------------------------------------------------------------------------------

    def column(self, column: I64, first_tile: I64, end_tile: I64) -> None:
        """The tiles [first, end) of one block with one panel of b."""
        size, tile = self.named, self.tile
        counts = [size[name] for name in ("batch 0", "batch 1", "batch 2", "blocks", "panels")]
        *indices, block, panel = self.unravel(column, counts)
        for number, index in enumerate(indices):
            self.store_word(index, self.indices, number)
        a, b, out = (
            self._element(base, self.dot(indices, [size[f"{name} {d}"] for d in range(3)]))
            for name, base in (("a", self.a), ("b", self.b), ("out", self.out))
        )
        j = self.multiply(panel, tile.width)
        columns = self.smaller(self.subtract(size["n"], j), tile.width)
        wide = self.compare("sgt", columns, tile.lanes)
        width = self.select(wide, "i64", tile.width, tile.lanes)
        whole = self.compare("eq", columns, width)
        functions = {
            rows: self.select(
                wide, "ptr", *(f"@{self.tiles[rows, vectors].name}" for vectors in (2, 1))
            )
            for rows in tile.rows
        }
        first_row = self.multiply(self.multiply(block, size["tiles"]), tile.rows[0])
        rounded = self.add(self.subtract(size["m"], first_row), tile.rows[0] - 1)
        end_tile = self.smaller(end_tile, self.set(f"sdiv i64 {rounded}, {tile.rows[0]}"))
        b = self._element(b, self.multiply(j, size["b n"]))

        in_place = self.set(f"and i1 {self._has(DIRECT)}, {whole}")
        packs = self.set(f"xor i1 {in_place}, true")
        b_k = self.select(in_place, "i64", size["b k"], width)
        # Scratch memory: the sums of one tile, or of all tiles if k is cut; after it the panel.
        deep = self.compare("sgt", size["k"], DEPTH)
        tile_numbers = tile.rows[0] * tile.width
        held = self.select(deep, "i64", size["tiles"], 1)
        packed = self._element(self.scratch, self.multiply(held, tile_numbers))
        stored = self.set(f"and i1 %plain, {whole}")
        sums_row = self.select(stored, "i64", size["out m"], width)

        # k = 0 is one stretch of depth 0: sums that stay zero.
        with self.loop(0, self.larger(size["k"], 1), DEPTH, at_least_once=True) as stretch:
            k = stretch.index
            depth = self.smaller(self.subtract(size["k"], k), DEPTH)
            source = self._element(b, self.multiply(k, size["b k"]))
            with self.when(packs):
                self.do(
                    f"call void {self.pack}(ptr {source}, i64 {size['b k']}, i64 {size['b n']}, "
                    f"i64 {depth}, i64 {columns}, ptr {packed}, i64 {width})"
                )
            used = self.select(in_place, "ptr", source, packed)
            adds = self.compare("sgt", k, 0)
            next_k = self.add(k, DEPTH)
            last = self.compare("sge", next_k, size["k"])
            goes_on = self.set(f"xor i1 {stored}, true")
            finishes = self.set(f"and i1 {last}, {goes_on}")
            with self.loop(first_tile, end_tile) as turn:
                i = self.add(first_row, self.multiply(turn.index, tile.rows[0]))
                rows = self.smaller(self.subtract(size["m"], i), tile.rows[0])
                kept = self.select(deep, "i64", turn.index, 0)
                sums = self._element(self.scratch, self.multiply(kept, tile_numbers))
                target = self._element(out, self.multiply(i, size["out m"]), j)
                sums = self.select(stored, "ptr", target, sums)
                mine = self._element(
                    a, self.multiply(i, size["a m"]), self.multiply(k, size["a k"])
                )
                a_m, a_k = size["a m"], size["a k"]
                # By the largest tile, then by smaller ones.
                for step, row in self.in_groups(tile.rows, rows):
                    line = self._element(mine, self.multiply(row, a_m))
                    to = self._element(sums, self.multiply(row, sums_row))
                    self.do(
                        f"call void {functions[step]}(ptr {line}, i64 {a_m}, i64 {a_k}, "
                        f"ptr {used}, i64 {b_k}, i64 {depth}, ptr {to}, i64 {sums_row}, i1 {adds})"
                    )
                with self.when(finishes):
                    self.do(
                        f"call void %finish(ptr %bases, ptr %sizes, ptr {self.indices}, i64 {i}, "
                        f"i64 {j}, i64 {rows}, i64 {columns}, ptr {sums}, i64 {sums_row})"
                    )
