"""Drivers whose vectors run along channels: tables, padded copies, packing and tiles."""

from __future__ import annotations

from collections.abc import Sequence

from gradwalk.compiler.backends.llvm.kernels.convolution.driver import Driver
from gradwalk.compiler.backends.llvm.kernels.convolution.layout import ROWS, Convolution
from gradwalk.compiler.backends.llvm.kernels.convolution.turn import TYPES as TURN_TYPES
from gradwalk.compiler.backends.llvm.target import Host


class WideDriver(Driver):
    """A driver being written for a convolution."""

    def __init__(self, name: str, conv: Convolution, host: Host) -> None:
        super().__init__(name, conv.dtype, host)
        self.conv = conv
        self.width = 2 * self.lanes
        self.needs_copy = self.set(f"icmp ne i64 {self.runtime(int(conv.padded))}, 0")

    def pixel_table(self, table: str, strides: Sequence[int], apart: Sequence[int]) -> None:
        """Offsets of the output's pixels in an array; neighbours are `apart` steps apart."""
        steps = [s * n for s, n in zip(strides, apart, strict=True)]
        self.fill_table(table, (1, *self.conv.out), (0, *steps))

    def patch_table(self, table: str) -> None:
        """Offsets of the numbers of a patch, in the order of the weight."""
        conv = self.conv
        channel, *spatial = conv.patch_strides
        steps = [s * n for s, n in zip(spatial, conv.dilation, strict=True)]
        self.fill_table(table, (conv.channels, *conv.kernel), (channel, *steps))

    # -- images ------------------------------------------------------------------------------------

    def prepare_copies(self, area: str) -> None:
        """The padding around the copies of x in an area is cleared once."""
        conv = self.conv
        self.clear(area, self.runtime(conv.padded_bytes))
        inside = sum(p * s for p, s in zip(conv.before, conv.patch_strides[1:], strict=True))
        self._copy_target = self.at(area, self.runtime(inside))
        self._counts = [self.runtime(n) for n in (conv.channels, *conv.size)]
        self._from = [self.runtime(s) for s in conv.x[1:]]
        self._to = [self.runtime(s) for s in conv.patch_strides]

    def copy_image(self, source: str) -> None:
        """An image of x into the area, inside the padding."""
        self.copy(source, self._copy_target, self._counts, self._from, self._to)

    # -- packing and tiles -------------------------------------------------------------------------

    def pack(
        self, source: str, along_k: str, along_n: str, depth: str, columns: str,
        panel: str, width: str,
    ) -> None:  # fmt: skip
        """panel[k, j] = source[k, j], quickly where k is contiguous."""
        kinds = ("ptr", "i64", "i64", "i64", "i64", "ptr", "i64")
        turning, any_strides = self.part("pack.k", *kinds), self.part("pack.any", *kinds)
        function = self.choose(self.differs(along_k, "1"), "ptr", any_strides, turning)
        self.do(
            f"call void {function}(ptr {source}, i64 {along_k}, i64 {along_n}, i64 {depth}, "
            f"i64 {columns}, ptr {panel}, i64 {width})"
        )

    def turn(
        self, source: str, source_row: str, rows: str, columns: str, target: str, target_row: str
    ) -> None:
        """target[c, r] = source[r, c]."""
        function = self.part("turn", *TURN_TYPES)
        self.do(
            f"call void {function}(ptr {source}, i64 {source_row}, i64 {rows}, i64 {columns}, "
            f"ptr {target}, i64 {target_row})"
        )

    def tile_functions(self, rows: str, wide: str) -> tuple[str, str]:
        """The tile of so many rows (an i64) and that of one row: of two vectors if `wide`."""
        types = ("ptr", "ptr", "ptr", "i64", "ptr", "ptr", "ptr", "i64", "i1")

        def of(count: int) -> str:
            narrow, broad = (self.part(f"tile.{count}x{vectors}", *types) for vectors in (1, 2))
            return self.choose(wide, "ptr", broad, narrow)

        single = found = of(1)
        for count in ROWS[self.many_registers]:
            same = self.set(f"icmp eq i64 {rows}, {count}")
            found = self.choose(same, "ptr", of(count), found)
        return found, single

    def tiles(
        self, functions: tuple[str, str], rows: str, count: str, a: str, row_table: str, steps: str,
        depth: str, b: str, out: str, out_row: str | None, places: str, second: str, adds: str,
    ) -> None:  # fmt: skip
        """The sums of `count` rows, `rows` at a time and then one by one.

        Row r goes to out[r · out_row + places[0]], or without `out_row` to out[places[r]].
        """
        done = "0"
        for step, function in zip((rows, "1"), functions, strict=True):
            end = self.add(self.minus(count, step), "1")
            with self.loop(done, end, step) as row:
                target, listed = out, places
                if out_row is None:
                    listed = self.entry(places, row.index)
                else:
                    target = self.at(out, self.multiply(row.index, out_row))
                mine = self.entry(row_table, row.index)
                self.do(
                    f"call void {function}(ptr {a}, ptr {mine}, ptr {steps}, i64 {depth}, "
                    f"ptr {b}, ptr {target}, ptr {listed}, i64 {second}, i1 {adds})"
                )
            done = row.index
