"""Writing LLVM functions as text.

    f = Function("kernel", "ptr %slots, i64 %n")
    with f.loop("0", "%n") as i:
        f.do(f"call void @work(i64 {i.index})")

`set` writes an instruction and returns the name of its result; `do` writes one without a result;
`loop` and `when` write the labels and branches. Values that change from turn to turn of a loop are
`carried`: the loop's phi nodes.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar

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


class Loop:
    """One loop being written: its index, the values carried from turn to turn, and at the end
    their last values (`results`)."""

    def __init__(self, index: str, carried: list[str]) -> None:
        self.index = index
        self.carried = carried
        self.following = list(carried)  # set by the body: what the next turn starts from
        self.results: list[str] = []

    def carry(self, *values: str) -> None:
        """What the carried values are in the next turn."""
        self.following = list(values)


class Function:
    """A function being written, one instruction at a time."""

    def __init__(
        self, name: str, parameters: str, result: str = "void", attributes: str = ""
    ) -> None:
        self.name = name
        self.freedom = "contract " if _fast.get() else ""
        self._head = f"define {result} @{name}({parameters}) {attributes}".rstrip() + " {"
        self._lines: list[str] = ["entry:"]
        self._count = 0
        self._block = "entry"
        self.declarations: set[str] = set()  # of what it calls; one line each

    def fresh(self, hint: str = "t") -> str:
        """A name that is not taken."""
        self._count += 1
        return f"{hint}{self._count}"

    def set(self, instruction: str, hint: str = "t") -> str:
        """Write an instruction; returns the name of its result."""
        name = f"%{self.fresh(hint)}"
        self._lines.append(f"  {name} = {instruction}")
        return name

    def do(self, instruction: str) -> None:
        """Write an instruction without a result."""
        self._lines.append(f"  {instruction}")

    def call(self, result: str, name: str, *arguments: tuple[str, str]) -> str:
        """Call a declared function or intrinsic with (type, value) pairs; returns the result."""
        types = ", ".join(t for t, _ in arguments)
        self.declarations.add(f"declare {result} @{name}({types})")
        given = ", ".join(f"{t} {v}" for t, v in arguments)
        if result == "void":
            self.do(f"call void @{name}({given})")
            return ""
        return self.set(f"call {result} @{name}({given})")

    def add(self, *terms: str) -> str:
        """The sum of some i64, leaving out what is the text 0."""
        given = [t for t in terms if t != "0"]
        total = given[0] if given else "0"
        for term in given[1:]:
            total = self.set(f"add nsw i64 {total}, {term}")
        return total

    def multiply(self, first: str, second: str) -> str:
        """The product of two i64."""
        if "0" in (first, second):
            return "0"
        if first == "1" or second == "1":
            return second if first == "1" else first
        return self.set(f"mul nsw i64 {first}, {second}")

    def smaller(self, first: str, second: str) -> str:
        """The smaller of two i64."""
        return self.call("i64", "llvm.smin.i64", ("i64", first), ("i64", second))

    def larger(self, first: str, second: str) -> str:
        """The larger of two i64."""
        return self.call("i64", "llvm.smax.i64", ("i64", first), ("i64", second))

    def begin(self, label: str) -> None:
        """Start a block."""
        self._lines.append(f"{label}:")
        self._block = label

    @property
    def block(self) -> str:
        """The block being written (where a phi's value comes from)."""
        return self._block

    @contextmanager
    def loop(
        self,
        first: str,
        end: str,
        step: str = "1",
        carried: Sequence[tuple[str, str]] = (),
        at_least_once: bool = False,
    ) -> Iterator[Loop]:
        """for index from `first`, below `end`, by `step` (i64); `carried` are (type, first value).

        The body says with `carry` what they are in the next turn; after the loop `results` has
        their last values. `at_least_once` saves the first test.
        """
        name = self.fresh("loop")
        head, body, done = f"{name}.head", f"{name}.body", f"{name}.done"
        before = self._block
        if at_least_once:
            self.do(f"br label %{body}")
        else:
            self.do(f"br label %{head}")
        index, following = f"%{name}.i", f"%{name}.next"
        values = [f"%{name}.v{k}" for k in range(len(carried))]
        start = body if at_least_once else head
        self.begin(start)
        place = len(self._lines)  # the phis are written once their second value is known
        if not at_least_once:
            going = self.set(f"icmp slt i64 {index}, {end}")
            self.do(f"br i1 {going}, label %{body}, label %{done}")
            self.begin(body)
        loop = Loop(index, values)
        yield loop
        self.do(f"{following} = add nsw i64 {index}, {step}")
        back = self._block
        if at_least_once:
            going = self.set(f"icmp slt i64 {following}, {end}")
            self.do(f"br i1 {going}, label %{body}, label %{done}")
        else:
            self.do(f"br label %{head}")
        phis = [f"  {index} = phi i64 [{first}, %{before}], [{following}, %{back}]"]
        for value, (kind, given), after in zip(values, carried, loop.following, strict=True):
            phis.append(f"  {value} = phi {kind} [{given}, %{before}], [{after}, %{back}]")
        self._lines[place:place] = phis
        self.begin(done)
        loop.results = loop.following if at_least_once else values

    @contextmanager
    def when(self, condition: str) -> Iterator[None]:
        """The body runs only if the i1 is true."""
        name = self.fresh("when")
        self.do(f"br i1 {condition}, label %{name}.yes, label %{name}.after")
        self.begin(f"{name}.yes")
        yield
        self.do(f"br label %{name}.after")
        self.begin(f"{name}.after")

    def finish(self, result: str = "void") -> str:
        """The text of the whole function."""
        return "\n".join([self._head, *self._lines, f"  ret {result}", "}", ""])


def float_text(value: float, bits: int = 32) -> str:
    """A constant as LLVM writes it: the bits of a double, also for a float."""
    exact = ctypes.c_float(value).value if bits == 32 else float(value)
    return f"0x{struct.unpack('<Q', struct.pack('<d', exact))[0]:016X}"
