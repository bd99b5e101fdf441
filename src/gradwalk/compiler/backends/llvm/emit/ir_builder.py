"""IRBuilder: an LLVM function, written as text one instruction at a time.

    f = IRBuilder("kernel", "ptr %slots, i64 %n")
    with f.loop(0, "%n") as i:
        f.do(f"call void @work(i64 {i.index})")

`set` writes an instruction and returns the name of its result; `do` writes one without a result;
`loop` and `when` write the labels and branches. A loop's phi nodes are the values it *carries* from
one iteration to the next.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, NamedTuple

I64 = str | int  # an i64 operand: the name of a value, or a constant

# Whether functions written now may fuse floating-point arithmetic.
_fast: ContextVar[bool] = ContextVar("fast", default=False)


@contextmanager
def fast_arithmetic(on: bool) -> Iterator[None]:
    """Let the functions written inside fuse a multiplication and an addition into one rounding."""
    token = _fast.set(on)
    try:
        yield
    finally:
        _fast.reset(token)


def is_fast() -> bool:
    """Whether functions written now are inside `fast_arithmetic(True)`."""
    return _fast.get()


class Declaration(NamedTuple):
    """A function that generated code calls and does not define."""

    result: str
    name: str
    types: tuple[str, ...]

    @property
    def text(self) -> str:
        """The declaration as LLVM reads it."""
        return f"declare {self.result} @{self.name}({', '.join(self.types)})"

    @property
    def is_intrinsic(self) -> bool:
        """Whether LLVM itself provides the function."""
        return self.name.startswith("llvm.")


class Loop:
    """A loop being written: its index, and the values carried from iteration to iteration.

    After the loop, `results` has their last values.
    """

    def __init__(self, name: str, carried: list[Any]) -> None:
        self.name = name
        self.index = f"%{name}.i"
        self.carried = carried
        self.following = list(carried)
        self.results: list[Any] = []

    def carry(self, *values: Any) -> None:
        """Set the carried values of the next iteration."""
        self.following = list(values)


class IRBuilder:
    """A function being written."""

    def __init__(self, name: str, parameters: str, *, private: bool = False) -> None:
        self.name = name
        self.freedom = "contract " if _fast.get() else ""
        linkage = "private " if private else ""
        self._head = (
            f'define {linkage}void @{name}({parameters}) nounwind "prefer-vector-width"="512" {{'
        )
        self._lines: list[str] = ["entry:"]
        self._count = 0
        self.block = "entry"  # the block being written: where a phi's value comes from
        self._returned = False  # whether that block has returned
        self.declarations: set[Declaration] = set()
        self.sizes: list[int] = []  # that it reads when it runs

    def fresh(self, hint: str = "t") -> str:
        """Return an unused name."""
        self._count += 1
        return f"{hint}{self._count}"

    def set(self, instruction: str, hint: str = "t") -> str:
        """Write an instruction and return the name of its result."""
        name = f"%{self.fresh(hint)}"
        self._lines.append(f"  {name} = {instruction}")
        return name

    def do(self, instruction: str) -> None:
        """Write an instruction without a result."""
        self._lines.append(f"  {instruction}")

    def call(self, result: str, name: str, *arguments: tuple[str, I64]) -> str:
        """Declare a function or intrinsic and call it with (type, value) pairs."""
        self.declarations.add(Declaration(result, name, tuple(t for t, _ in arguments)))
        return self.call_pointer(result, f"@{name}", *arguments)

    def call_pointer(self, result: str, function: str, *arguments: tuple[str, I64]) -> str:
        """Call a function by its address; return the name of the result."""
        given = ", ".join(f"{t} {v}" for t, v in arguments)
        if result == "void":
            self.do(f"call void {function}({given})")
            return ""
        return self.set(f"call {result} {function}({given})")

    # -- sizes and strides, read when the function runs -------------------------------------------

    def size(self, number: int) -> str:
        """Read the size with this number."""
        raise NotImplementedError

    def runtime(self, size: int) -> str:
        """Note a size or stride, and read it."""
        self.sizes.append(size)
        return self.size(len(self.sizes) - 1)

    def runtimes(self, *sizes: int) -> list[str]:
        """Several sizes or strides."""
        return [self.runtime(size) for size in sizes]

    # -- integers and addresses --------------------------------------------------------------------

    def add(self, *terms: I64) -> I64:
        """The sum of i64 terms; zeros are omitted."""
        given = [t for t in terms if t != 0]
        total = given[0] if given else 0
        for term in given[1:]:
            total = self.set(f"add nsw i64 {total}, {term}")
        return total

    def subtract(self, first: I64, second: I64) -> str:
        """The difference of two i64."""
        return self.set(f"sub nsw i64 {first}, {second}")

    def multiply(self, first: I64, second: I64) -> I64:
        """The product of two i64."""
        if first == 0 or second == 0:
            return 0
        if first == 1 or second == 1:
            return second if first == 1 else first
        return self.set(f"mul nsw i64 {first}, {second}")

    def multiply_all(self, sizes: Sequence[I64]) -> I64:
        """The product of i64 sizes."""
        total: I64 = 1
        for size in sizes:
            total = self.multiply(total, size)
        return total

    def dot(self, indices: Sequence[I64], strides: Sequence[I64]) -> I64:
        """The sum of products of indices and strides, as long as the shorter of the two."""
        return self.add(*(self.multiply(i, s) for i, s in zip(indices, strides, strict=False)))

    def divide(self, number: I64, size: I64) -> tuple[str, str]:
        """Quotient and remainder of two i64 that are not negative."""
        return self.set(f"udiv i64 {number}, {size}"), self.set(f"urem i64 {number}, {size}")

    def unravel(self, number: I64, sizes: Sequence[I64]) -> list[I64]:
        """The index along each of some dimensions, from the number of an element in C order."""
        indices: list[I64] = [0] * len(sizes)
        split = [d for d, size in enumerate(sizes) if size != 1]
        for d in reversed(split[1:]):
            number, indices[d] = self.divide(number, sizes[d])
        for d in split[:1]:
            indices[d] = number
        return indices

    def smaller(self, first: I64, second: I64) -> str:
        """The smaller of two i64."""
        return self.call("i64", "llvm.smin.i64", ("i64", first), ("i64", second))

    def larger(self, first: I64, second: I64) -> str:
        """The larger of two i64."""
        return self.call("i64", "llvm.smax.i64", ("i64", first), ("i64", second))

    def select(self, condition: str, kind: str, yes: I64, no: I64) -> str:
        """One of two values, by an i1."""
        return self.set(f"select i1 {condition}, {kind} {yes}, {kind} {no}")

    def compare(self, how: str, first: I64, second: I64) -> str:
        """Whether it holds of two i64, as an i1; `how` is eq, ne, slt, ult, ..."""
        return self.set(f"icmp {how} i64 {first}, {second}")

    def differ(self, first: I64, second: I64) -> str:
        """Whether two i64 differ, as an i1."""
        return self.compare("ne", first, second)

    def share(
        self, count: I64, unit: int = 1, thread: I64 = "%thread", threads: I64 = "%threads"
    ) -> tuple[I64, I64]:
        """The part of `count` that is this thread's: [first, end), cut at multiples of `unit`."""
        pieces = count
        if unit > 1:
            up = self.set(f"add i64 {count}, {unit - 1}")
            pieces = self.set(f"sdiv i64 {up}, {unit}")
        after = self.set(f"add i64 {thread}, 1")
        first, end = (
            self.set(f"sdiv i64 {self.set(f'mul i64 {pieces}, {turn}')}, {threads}")
            for turn in (thread, after)
        )
        if unit == 1:
            return first, end
        return self.multiply(first, unit), self.smaller(self.multiply(end, unit), count)

    def pointer(self, element: str, base: str, index: I64) -> str:
        """The address of an element of this LLVM type."""
        return self.set(f"getelementptr {element}, ptr {base}, i64 {index}")

    def word(self, base: str, index: I64, kind: str = "i64") -> str:
        """Load a word of 8 bytes from a list of them."""
        return self.set(f"load {kind}, ptr {self.pointer(kind, base, index)}, align 8")

    def store_word(self, word: I64, base: str, index: I64, kind: str = "i64") -> None:
        """Store a word of 8 bytes in a list of them."""
        self.do(f"store {kind} {word}, ptr {self.pointer(kind, base, index)}, align 8")

    def clear(self, start: str, size: I64) -> None:
        """Fill `size` bytes with zeros."""
        self.call(
            "void", "llvm.memset.p0.i64",
            ("ptr", start), ("i8", 0), ("i64", size), ("i1", "false"),
        )  # fmt: skip

    # -- control flow ------------------------------------------------------------------------------

    def begin(self, label: str) -> None:
        """Start a block."""
        self._lines.append(f"{label}:")
        self.block = label
        self._returned = False

    def give(self, result: str = "void") -> None:
        """Return from the function, with a typed value if it has a result."""
        self.do(f"ret {result}")
        self._returned = True

    @contextmanager
    def loop(
        self,
        first: I64,
        end: I64,
        step: I64 = 1,
        carried: Sequence[Any] = (),
        at_least_once: bool = False,
    ) -> Iterator[Loop]:
        """for index from `first`, below `end`, by `step` (i64); `carried` are the first values.

        A carried value is a `Vector`, or a pair (type, value) whose value is a name. The body sets
        the next values with `carry`. `at_least_once` omits the first test.
        """
        name = self.fresh("loop")
        head, body, done = f"{name}.head", f"{name}.body", f"{name}.done"
        before = self.block
        start = body if at_least_once else head
        self.do(f"br label %{start}")
        names = [f"%{name}.v{k}" for k in range(len(carried))]
        values = [n if isinstance(v, tuple) else v.named(n) for n, v in zip(names, carried)]
        loop = Loop(name, values)
        index, following = loop.index, f"%{name}.next"
        self.begin(start)
        phis_at = len(self._lines)  # they are written once their second value is known
        if not at_least_once:
            going = self.compare("slt", index, end)
            self.do(f"br i1 {going}, label %{body}, label %{done}")
            self.begin(body)
        yield loop
        self.do(f"{following} = add nsw i64 {index}, {step}")
        back = self.block
        if at_least_once:
            going = self.compare("slt", following, end)
            self.do(f"br i1 {going}, label %{body}, label %{done}")
        else:
            self.do(f"br label %{head}")
        phis = [f"  {index} = phi i64 [{first}, %{before}], [{following}, %{back}]"]
        self._lines[phis_at:phis_at] = phis + _phis(loop, carried, before, back)
        self.begin(done)
        loop.results = loop.following if at_least_once else values

    @contextmanager
    def repeat(self, *carried: tuple[str, I64]) -> Iterator[Loop]:
        """Repeat the body until it leaves the loop (`leave_if`); it has no index."""
        name = self.fresh("repeat")
        before = self.block
        self.do(f"br label %{name}.head")
        self.begin(f"{name}.head")
        phis_at = len(self._lines)
        loop = Loop(name, [f"%{name}.v{k}" for k in range(len(carried))])
        yield loop
        self.do(f"br label %{name}.head")
        self._lines[phis_at:phis_at] = _phis(loop, carried, before, self.block)
        self.begin(f"{name}.done")

    def leave_if(self, loop: Loop, condition: str) -> None:
        """Leave a `repeat` if the i1 is true."""
        on = self.fresh("on")
        self.do(f"br i1 {condition}, label %{loop.name}.done, label %{on}")
        self.begin(on)

    def in_groups(self, sizes: Sequence[int], count: I64) -> Iterator[tuple[int, str]]:
        """Loop over `count` items in groups of these sizes, the largest first; each is a loop."""
        done: I64 = 0
        for size in sizes:
            with self.loop(done, self.subtract(count, size - 1), size) as item:
                yield size, item.index
            done = item.index

    @contextmanager
    def when(self, condition: str) -> Iterator[None]:
        """Run the body only if the i1 is true."""
        name = self.fresh("when")
        self.do(f"br i1 {condition}, label %{name}.yes, label %{name}.after")
        self.begin(f"{name}.yes")
        yield
        if not self._returned:
            self.do(f"br label %{name}.after")
        self.begin(f"{name}.after")

    def either(self, condition: str, kind: str, usual: I64, otherwise: Callable[[], object]) -> str:
        """`usual`; but if the i1 is true, what `otherwise` writes. Both are of this LLVM type."""
        before = self.block
        with self.when(condition):
            rare = otherwise()
            last = self.block
        return self.set(f"phi {kind} [{usual}, %{before}], [{rare}, %{last}]")

    def finish(self) -> str:
        """The text of the whole function."""
        if not self._returned:
            self.give()
        return "\n".join([self._head, *self._lines, "}", ""])


def _phis(loop: Loop, carried: Sequence[Any], before: str, back: str) -> list[str]:
    """The phi nodes of what a loop carries, from the blocks before it and at its end."""
    phis = []
    for value, given, after in zip(loop.carried, carried, loop.following, strict=True):
        kind, start = given if isinstance(given, tuple) else (given.type.text, given)
        phis.append(f"  {value} = phi {kind} [{start}, %{before}], [{after}, %{back}]")
    return phis
