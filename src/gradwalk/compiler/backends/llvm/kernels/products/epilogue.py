"""The epilogue of products and convolutions: what is done to every vector of finished sums.

A driver calls it back for every tile of sums in scratch memory:

    void finish(ptr bases, ptr sizes, ptr indices of the batch, i64 i, i64 j,
                i64 rows, i64 columns, ptr sums, i64 sums_row)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gradwalk.compiler.backends.llvm.emit.elementwise_table import emit
from gradwalk.compiler.backends.llvm.emit.ir_builder import I64
from gradwalk.compiler.backends.llvm.emit.kernel_builder import Kernel, KernelBuilder, helper_name
from gradwalk.compiler.backends.llvm.emit.vector import Type, Vector, VectorBuilder
from gradwalk.compiler.backends.llvm.kernels.products.sizes import DIMENSIONS, Product, first_stride
from gradwalk.compiler.plan.loop_nest import Apply, Given, Load, Loops, Number, Store
from gradwalk.compiler.plan.lowering import ProductSteps

FINISH = helper_name("finish")
PARAMETERS = (
    "ptr noalias %bases, ptr noalias %sizes, ptr noalias %indices, i64 %i, i64 %j, "
    "i64 %rows, i64 %columns, ptr %sums, i64 %sums_row"
)
# `epilogue(function, value, load)` is given one vector of finished sums; `load(j)` reads extra j at
# the same place; it returns (output number, value) pairs to be stored.
Epilogue = Callable[[VectorBuilder, Vector, Callable[[int], Vector]], list[tuple[int, Vector]]]


def epilogue_of(work: ProductSteps) -> Epilogue | None:
    """The epilogue of a product or convolution; None if its sums are only stored."""
    loops = work.loops
    if len(loops.steps) == 2:  # the element, and its store
        return None
    return lambda f, value, load: _steps(loops, f, value, load)


def _steps(
    loops: Loops, f: VectorBuilder, value: Vector, load: Callable[[int], Vector]
) -> list[tuple[int, Vector]]:
    extras = sum(not a.written for a in loops.accesses)
    values: dict[int, Vector] = {}
    stored = []
    for k, step in enumerate(loops.steps):
        match step:
            case Given():
                values[k] = value
            case Load(access):
                values[k] = load(access)
            case Apply(op, args, attrs, dtype):
                given: list[Any] = [
                    a.value if isinstance(a := loops.steps[i], Number) else values[i] for i in args
                ]
                values[k] = emit(op, given, dict(attrs), dtype, f, value.type.lanes)
            case Store(access, arg):
                stored.append((access - extras, values[arg].to(loops.accesses[access].dtype)))
    return stored


class EpilogueBuilder(VectorBuilder):
    """The epilogue on every vector of a finished tile, and the stores."""

    def __init__(self, product: Product, lanes: int, epilogue: Epilogue | None) -> None:
        super().__init__(FINISH, PARAMETERS, private=True)
        self.product, self.lanes, self.epilogue = product, lanes, epilogue
        self.arrays = (*product.outputs, *product.extras)
        starts, row_steps = [], []
        self.column_steps: list[I64] = []
        indices = [self.word("%indices", d) for d in range(3)]
        for number, array in enumerate(self.arrays):
            strides = [self.word("%sizes", first_stride(number) + d) for d in range(DIMENSIONS)]
            row_steps.append(strides[3])
            step = strides[4] if array.along_n is None else array.along_n
            self.column_steps.append(step)
            offset = self.dot((*indices, "%i", "%j"), (*strides[:4], step))
            base = self.word("%bases", 3 + number, "ptr")
            starts.append(self.element(base, array.dtype, offset))
        full = self.set(f"and i64 %columns, {-lanes}")
        left = self.subtract("%columns", full)
        with self.loop(0, full, lanes) as column:
            self._vectors(starts, row_steps, column.index, None)
        with self.when(self.differ(left, 0)):
            self._vectors(starts, row_steps, full, self.first_lanes(left, lanes))

    def _vectors(
        self, starts: list[str], row_steps: list[str], column: str, mask: str | None
    ) -> None:
        """Finish and store the vectors of all rows at one column."""
        tops = [
            self.element(start, array.dtype, self.multiply(column, step))
            for start, array, step in zip(starts, self.arrays, self.column_steps, strict=True)
        ]
        sums = self.element("%sums", self.product.dtype, column)
        with self.loop(0, "%rows", at_least_once=True) as row:
            pointers = [
                self.element(top, array.dtype, self.multiply(row.index, step))
                for top, array, step in zip(tops, self.arrays, row_steps, strict=True)
            ]
            offset = self.multiply(row.index, "%sums_row")
            place = self.element(sums, self.product.dtype, offset)
            value = self.load(place, Type(self.product.dtype, self.lanes))
            self._vector(value, pointers, mask)

    def _vector(self, value: Vector, pointers: list[str], mask: str | None) -> None:
        """One vector of the product; `pointers` say where it is in every output and extra."""

        def read(number: int) -> Vector:
            kind = Type(self.arrays[number].dtype, self.lanes)
            return self.load_along(pointers[number], self.column_steps[number], kind, mask)

        results = [(0, value)]
        if self.epilogue is not None:
            first_extra = len(self.product.outputs)
            results = self.epilogue(self, value, lambda extra: read(first_extra + extra))
        for number, result in results:
            self.store_along(result, pointers[number], self.column_steps[number], mask)


def driver_kernel(
    driver: str, product: Product, lanes: int, epilogue: Epilogue | None, start: int,
    last: tuple[str, str | int], **facts: Any,
) -> Kernel:  # fmt: skip
    """A kernel that calls a shared driver with a list of its arrays, and with the epilogue.

    The numbers that the driver reads begin with number `start` of the block; its last argument is
    (type, value), or a pointer to one of these numbers.
    """
    f = KernelBuilder(3 + len(product.outputs) + len(product.extras))
    listed = f.set(f"alloca [{len(f.bases)} x ptr], align 8", "bases")
    for number, base in enumerate(f.bases):
        f.store_word(base, listed, number, "ptr")
    numbers = 2 * len(f.bases)
    given = ("ptr", listed), ("ptr", f.pointer("i64", "%args", numbers + start))
    if isinstance(last[1], int):
        last = last[0], f.pointer("i64", "%args", numbers + last[1])
    threads = ("i64", "%thread"), ("i64", "%threads")
    f.call("void", driver, *given, *threads, ("ptr", f"@{FINISH}"), last)
    return f.kernel(EpilogueBuilder(product, lanes, epilogue), **facts)
