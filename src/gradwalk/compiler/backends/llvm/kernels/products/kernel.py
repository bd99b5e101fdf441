"""The kernel of a product: a call of the shared driver, and the epilogue it calls back.

Arrays of the block: a, b, scratch memory (`Schedule.scratch` bytes for each thread), the outputs,
the extras. After them the numbers of `block_sizes`.

    product, sizes = product_of(dtype, batch, m, n, k, ...)
    kernel = product_kernel(product, sizes, host, epilogue)
    name, text, declarations = driver(product.dtype, host)
    shared = compile_text({name: text}, declarations)  # must live as long as the kernel
    compile_text({kernel.name: kernel.text}, kernel.declarations, {name: shared[name]})
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable

from gradwalk.compiler.backends.llvm.emit.function_text import Function
from gradwalk.compiler.backends.llvm.emit.kernel import (
    Kernel,
    KernelWriter,
    element_pointer,
    first_lanes,
    load,
    load_apart,
    store,
    store_apart,
)
from gradwalk.compiler.backends.llvm.emit.vector_values import Kind, Value
from gradwalk.compiler.backends.llvm.kernels.products.driver import FINISH, TYPES, driver_name
from gradwalk.compiler.backends.llvm.kernels.products.layout import (
    Place,
    Product,
    Sizes,
    block_sizes,
    first_stride,
    tiling,
)
from gradwalk.compiler.backends.llvm.target import Host

Load = Callable[[int], Value]
Epilogue = Callable[[Function, Value, Load], list[tuple[int, Value]]]


def product_kernel(
    product: Product, sizes: Sizes, host: Host, epilogue: Epilogue | None = None
) -> Kernel:
    """The kernel of a product, and the sizes its block needs.

    `epilogue(function, value, load)` is given one vector of the finished product; `load(j)` reads
    extra j at the same place; it returns (output number, value) pairs to be stored. Without one
    the product itself is the only output.
    """
    finish = Finish(product, tiling(product.dtype, host).lanes, epilogue)
    entry = _Entry(product, epilogue is None, driver_name(product.dtype, host))
    text = finish.finish() + "\n" + entry.finish()
    name = "k" + hashlib.sha256(text.encode()).hexdigest()[:20]
    declarations = frozenset(finish.declarations | entry.declarations)
    return Kernel(
        name, text.replace("@NAME", f"@{name}"), declarations, block_sizes(product, sizes, host)
    )


class _Entry(KernelWriter):
    """The kernel itself."""

    def __init__(self, product: Product, plain: bool, driver: str) -> None:
        super().__init__(3 + len(product.outputs) + len(product.extras))
        count = len(self.bases)
        bases = self.set(f"alloca [{count} x ptr], align 8", "bases")
        for number, base in enumerate(self.bases):
            place = self.set(f"getelementptr ptr, ptr {bases}, i64 {number}")
            self.do(f"store ptr {base}, ptr {place}, align 8")
        sizes = self.set(f"getelementptr i64, ptr %args, i64 {2 * count}")
        plain = plain and product.outputs == (Place(product.dtype, 1),)
        given = (
            bases, sizes, "%thread", "%threads", "@NAME.finish",
            str(plain).lower(), str(product.accumulate).lower(),
        )  # fmt: skip
        self.call("void", driver, *zip(TYPES, given, strict=True))


class Finish(Function):
    """The epilogue on every vector of a finished tile, and the stores."""

    def __init__(self, product: Product, lanes: int, epilogue: Epilogue | None) -> None:
        super().__init__(
            "NAME.finish", FINISH, "private void", 'nounwind "prefer-vector-width"="512"'
        )
        self.product, self.lanes, self.epilogue = product, lanes, epilogue
        self.places = (*product.outputs, *product.extras)
        starts, row_steps = [], []
        self.column_steps: list[str] = []
        indices = [self._number("%indices", d) for d in range(3)]
        for number, place in enumerate(self.places):
            strides = [self._number("%sizes", first_stride(number) + d) for d in range(5)]
            row_steps.append(strides[3])
            step = strides[4] if place.along_n is None else str(place.along_n)
            self.column_steps.append(step)
            terms = zip((*indices, "%i", "%j"), (*strides[:4], step))
            offset = self.add(*(self.multiply(index, stride) for index, stride in terms))
            base = self.set(f"getelementptr ptr, ptr %bases, i64 {3 + number}")
            base = self.set(f"load ptr, ptr {base}, align 8")
            starts.append(element_pointer(self, base, place.dtype, offset))
        full = self.set(f"and i64 %columns, {-lanes}")
        left = self.set(f"sub i64 %columns, {full}")
        with self.loop("0", full, str(lanes)) as column:
            self._vectors(starts, row_steps, column.index, None)
        with self.when(self.set(f"icmp ne i64 {left}, 0")):
            self._vectors(starts, row_steps, full, first_lanes(self, left, lanes))

    def _number(self, base: str, number: int) -> str:
        place = self.set(f"getelementptr i64, ptr {base}, i64 {number}")
        return self.set(f"load i64, ptr {place}, align 8")

    def _vectors(
        self, starts: list[str], row_steps: list[str], column: str, mask: str | None
    ) -> None:
        """The vectors of all rows at one column: what becomes of them is stored."""
        tops = []
        for start, place, step in zip(starts, self.places, self.column_steps):
            offset = self.multiply(column, step)
            tops.append(element_pointer(self, start, place.dtype, offset))
        sums = element_pointer(self, "%sums", self.product.dtype, column)
        with self.loop("0", "%rows", at_least_once=True) as row:
            pointers = [
                element_pointer(self, top, place.dtype, self.multiply(row.index, step))
                for top, place, step in zip(tops, self.places, row_steps)
            ]
            offset = self.multiply(row.index, "%sums_row")
            found = element_pointer(self, sums, self.product.dtype, offset)
            value = load(self, found, Kind(self.product.dtype, self.lanes))
            self._vector(value, pointers, mask)

    def _vector(self, value: Value, pointers: list[str], mask: str | None) -> None:
        """One vector of the product; `pointers` say where it is in every output and extra."""

        def read(number: int) -> Value:
            place = self.places[number]
            kind = Kind(place.dtype, self.lanes)
            if place.along_n == 1:
                return load(self, pointers[number], kind, mask)
            if place.along_n == 0:
                return load(self, pointers[number], Kind(place.dtype)).spread(self.lanes)
            return load_apart(self, pointers[number], self.column_steps[number], kind, mask)

        if self.product.accumulate:
            value = read(0) + value
        results = [(0, value)]
        if self.epilogue is not None:
            first_extra = len(self.product.outputs)
            results = self.epilogue(self, value, lambda extra: read(first_extra + extra))
        for number, result in results:
            if self.places[number].along_n == 1:
                store(self, result, pointers[number], mask)
            else:
                store_apart(self, result, pointers[number], self.column_steps[number], mask)
