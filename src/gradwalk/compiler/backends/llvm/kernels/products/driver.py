"""The function that all product kernels of a dtype share: threads, panels, packing, tiles.

    void product.v16f32(ptr bases, ptr sizes, i64 thread, i64 threads,
                        ptr finish, i1 plain, i1 adds)

Work is numbered tile by tile: (batch, block of rows, panel of columns, tile). A thread takes an
equal stretch of these numbers, and packs a panel when it comes to its first tile there. No sum is
ever divided between threads, so results do not depend on their number.

A finished tile lies in scratch memory; `finish`, written for each kernel, does its epilogue:

    void finish(ptr bases, ptr sizes, ptr indices of the batch, i64 i, i64 j,
                i64 rows, i64 columns, ptr sums, i64 sums_row)

`plain` products have none to do: whole vectors are stored by the tile function where they belong
(`adds`: added to what is there), and only the rest of a row goes through `finish`.

This function depends on the machine alone. It is compiled once, kept on disk like any other text,
and given to the kernels as a symbol.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gradwalk.compiler.backends.llvm.emit.function_text import Function
from gradwalk.compiler.backends.llvm.emit.vector_values import Kind
from gradwalk.compiler.backends.llvm.kernels.products.layout import (
    DEPTH,
    DIRECT,
    EXCHANGED,
    PACKING,
    SIZES,
    Tiling,
    tiling,
)
from gradwalk.compiler.backends.llvm.kernels.products.packing import pack_function
from gradwalk.compiler.backends.llvm.kernels.products.tile import tile_function
from gradwalk.compiler.backends.llvm.target import Host

TYPES = ("ptr", "ptr", "i64", "i64", "ptr", "i1", "i1")
PARAMETERS = (
    "ptr noalias %bases, ptr noalias %sizes, i64 %thread, i64 %threads, ptr %finish, i1 %plain, "
    "i1 %adds"
)
FINISH = (
    "ptr noalias %bases, ptr noalias %sizes, ptr noalias %indices, i64 %i, i64 %j, "
    "i64 %rows, i64 %columns, ptr %sums, i64 %sums_row"
)


def driver_name(dtype: Any, host: Host) -> str:
    """The name of the shared function for this dtype."""
    return f"product.{Kind(np.dtype(dtype), tiling(dtype, host).lanes).suffix}"


def driver(dtype: Any, host: Host) -> tuple[str, str, frozenset[str]]:
    """The shared function: its name, its text (with its tiles and packing), its declarations."""
    writer = _Driver(driver_name(dtype, host), np.dtype(dtype), tiling(dtype, host))
    parts = [*writer.helpers, writer]
    declarations = frozenset().union(*(part.declarations for part in parts))
    return writer.name, "\n".join(part.finish() for part in parts), declarations


class _Driver(Function):
    def __init__(self, name: str, dtype: np.dtype[Any], tile: Tiling) -> None:
        super().__init__(name, PARAMETERS, attributes="nounwind")
        self.tile = tile
        self.vector = Kind(dtype, tile.lanes)
        self.helpers: list[Function] = []
        for rows in tile.rows:
            for vectors in (1, 2):
                helper = self._tile_name(rows, vectors)
                self.helpers.append(tile_function(helper, self.vector, rows, vectors))
        for unit in PACKING:
            self.helpers.append(pack_function(self._pack_name(unit), self.vector, unit))

        self.indices = self.set("alloca [3 x i64], align 8", "indices")
        self.size = {name: self._size(number) for number, name in enumerate(SIZES)}
        first, second, self.scratch, self.out = (self._base(number) for number in range(4))
        exchanged = self._has(EXCHANGED)
        self.a = self._select(exchanged, "ptr", second, first)
        self.b = self._select(exchanged, "ptr", first, second)
        mine = self.multiply("%thread", self.size["scratch"])
        self.scratch = self.set(f"getelementptr i8, ptr {self.scratch}, i64 {mine}")
        self.pack = self.packing()
        self.columns_of_tiles()

    def _tile_name(self, rows: int, vectors: int) -> str:
        return f"{self.name}.tile.{rows}x{vectors}"

    def _pack_name(self, unit: str | None) -> str:
        return f"{self.name}.pack.{unit or 'any'}"

    def _size(self, number: int) -> str:
        place = self.set(f"getelementptr i64, ptr %sizes, i64 {number}")
        return self.set(f"load i64, ptr {place}, align 8")

    def _base(self, number: int) -> str:
        place = self.set(f"getelementptr ptr, ptr %bases, i64 {number}")
        return self.set(f"load ptr, ptr {place}, align 8")

    def _element(self, base: str, *indices: str) -> str:
        return self.set(
            f"getelementptr {self.vector.element}, ptr {base}, i64 {self.add(*indices)}"
        )

    def _select(self, condition: str, kind: str, yes: str, no: str) -> str:
        return self.set(f"select i1 {condition}, {kind} {yes}, {kind} {no}")

    def _has(self, bit: int) -> str:
        found = self.set(f"and i64 {self.size['form']}, {bit}")
        return self.set(f"icmp ne i64 {found}, 0")

    def packing(self) -> str:
        """The function that packs b, by where it has stride 1."""
        found = f"@{self._pack_name(None)}"
        for unit, bit in PACKING.items():
            if unit is not None:
                found = self._select(self._has(bit), "ptr", f"@{self._pack_name(unit)}", found)
        return found

    # -- which tiles are this thread's -------------------------------------------------------------

    def columns_of_tiles(self) -> None:
        """For each (batch, block, panel) of which this thread has tiles: these tiles."""
        tiles = self.size["tiles"]
        count = tiles
        for name in ("panels", "blocks", "batch 0", "batch 1", "batch 2"):
            count = self.multiply(count, self.size[name])
        after = self.set("add i64 %thread, 1")
        first, end = (
            self.set(f"udiv i64 {self.multiply(count, turn)}, %threads")
            for turn in ("%thread", after)
        )
        first_column = self.set(f"udiv i64 {first}, {tiles}")
        before_end = self.set(f"sub i64 {end}, 1")
        last_column = self.set(f"sdiv i64 {before_end}, {tiles}")
        nothing = self.set(f"icmp eq i64 {first}, {end}")
        past = self.set(f"add i64 {last_column}, 1")
        end_column = self._select(nothing, "i64", first_column, past)
        with self.loop(first_column, end_column) as column:
            start = self.multiply(column.index, tiles)
            first_tile = self.larger(self.set(f"sub i64 {first}, {start}"), "0")
            end_tile = self.smaller(self.set(f"sub i64 {end}, {start}"), tiles)
            self.column(column.index, first_tile, end_tile)

    def _divided(self, number: str, size: str) -> tuple[str, str]:
        quotient = self.set(f"udiv i64 {number}, {size}")
        return quotient, self.set(f"sub i64 {number}, {self.multiply(quotient, size)}")

    # -- one panel ---------------------------------------------------------------------------------

    def column(self, column: str, first_tile: str, end_tile: str) -> None:
        """The tiles [first, end) of one block with one panel of b."""
        size, tile = self.size, self.tile
        rest, panel = self._divided(column, size["panels"])
        rest, block = self._divided(rest, size["blocks"])
        rest, third = self._divided(rest, size["batch 2"])
        first, second = self._divided(rest, size["batch 1"])
        indices = (first, second, third)
        for number, index in enumerate(indices):
            place = self.set(f"getelementptr i64, ptr {self.indices}, i64 {number}")
            self.do(f"store i64 {index}, ptr {place}, align 8")
        a, b, out = (
            self._element(
                base, *(self.multiply(x, size[f"{name} {d}"]) for d, x in enumerate(indices))
            )
            for name, base in (("a", self.a), ("b", self.b), ("out", self.out))
        )
        j = self.multiply(panel, str(tile.width))
        columns = self.smaller(self.set(f"sub i64 {size['n']}, {j}"), str(tile.width))
        wide = self.set(f"icmp sgt i64 {columns}, {tile.lanes}")
        width = self._select(wide, "i64", str(tile.width), str(tile.lanes))
        whole = self.set(f"icmp eq i64 {columns}, {width}")
        functions = {
            rows: self._select(
                wide, "ptr", f"@{self._tile_name(rows, 2)}", f"@{self._tile_name(rows, 1)}"
            )
            for rows in tile.rows
        }
        first_row = self.multiply(self.multiply(block, size["tiles"]), str(tile.rows[0]))
        rows_left = self.set(f"sub i64 {size['m']}, {first_row}")
        rounded = self.set(f"add i64 {rows_left}, {tile.rows[0] - 1}")
        end_tile = self.smaller(end_tile, self.set(f"sdiv i64 {rounded}, {tile.rows[0]}"))
        b = self._element(b, self.multiply(j, size["b n"]))

        in_place = self.set(f"and i1 {self._has(DIRECT)}, {whole}")
        packs = self.set(f"xor i1 {in_place}, true")
        b_k = self._select(in_place, "i64", size["b k"], width)
        # Scratch memory: the sums of one tile, or of all tiles if k is cut; after it the panel.
        deep = self.set(f"icmp sgt i64 {size['k']}, {DEPTH}")
        tile_numbers = str(tile.rows[0] * tile.width)
        held = self._select(deep, "i64", size["tiles"], "1")
        packed = self._element(self.scratch, self.multiply(held, tile_numbers))
        stored = self.set(f"and i1 %plain, {whole}")
        sums_row = self._select(stored, "i64", size["out m"], width)
        always_adds = self.set(f"and i1 %adds, {stored}")

        # k = 0 is one stretch of depth 0: sums that stay zero.
        with self.loop("0", self.larger(size["k"], "1"), str(DEPTH), at_least_once=True) as stretch:
            k = stretch.index
            depth = self.smaller(self.set(f"sub i64 {size['k']}, {k}"), str(DEPTH))
            source = self._element(b, self.multiply(k, size["b k"]))
            with self.when(packs):
                self.do(
                    f"call void {self.pack}(ptr {source}, i64 {size['b k']}, i64 {size['b n']}, "
                    f"i64 {depth}, i64 {columns}, ptr {packed}, i64 {width})"
                )
            used = self._select(in_place, "ptr", source, packed)
            later = self.set(f"icmp sgt i64 {k}, 0")
            adds = self.set(f"or i1 {later}, {always_adds}")
            next_k = self.set(f"add i64 {k}, {DEPTH}")
            last = self.set(f"icmp sge i64 {next_k}, {size['k']}")
            goes_on = self.set(f"xor i1 {stored}, true")
            finishes = self.set(f"and i1 {last}, {goes_on}")
            with self.loop(first_tile, end_tile) as turn:
                i = self.add(first_row, self.multiply(turn.index, str(tile.rows[0])))
                left = self.set(f"sub i64 {size['m']}, {i}")
                rows = self.smaller(left, str(tile.rows[0]))
                kept = self._select(deep, "i64", turn.index, "0")
                sums = self._element(self.scratch, self.multiply(kept, tile_numbers))
                target = self._element(out, self.multiply(i, size["out m"]), j)
                sums = self._select(stored, "ptr", target, sums)
                mine = self._element(
                    a, self.multiply(i, size["a m"]), self.multiply(k, size["a k"])
                )
                self.rows(functions, rows, mine, used, b_k, depth, sums, sums_row, adds)
                with self.when(finishes):
                    self.do(
                        f"call void %finish(ptr %bases, ptr %sizes, ptr {self.indices}, i64 {i}, "
                        f"i64 {j}, i64 {rows}, i64 {columns}, ptr {sums}, i64 {sums_row})"
                    )

    def rows(
        self, functions: dict[int, str], rows: str, a: str, b: str, b_k: str, depth: str,
        sums: str, sums_row: str, adds: str,
    ) -> None:  # fmt: skip
        """The sums of `rows` rows: by the largest tile, then by smaller ones."""
        a_m, a_k = self.size["a m"], self.size["a k"]
        done = "0"
        for step in self.tile.rows:
            end = self.set(f"sub i64 {rows}, {step - 1}")
            with self.loop(done, end, str(step)) as row:
                mine = self._element(a, self.multiply(row.index, a_m))
                target = self._element(sums, self.multiply(row.index, sums_row))
                self.do(
                    f"call void {functions[step]}(ptr {mine}, i64 {a_m}, i64 {a_k}, ptr {b}, "
                    f"i64 {b_k}, i64 {depth}, ptr {target}, i64 {sums_row}, i1 {adds})"
                )
            done = row.index
