"""Small hand-written kernels for tests of the code that runs kernels."""

from __future__ import annotations

import threading

from gradwalk.compiler.backends.llvm.emit.ir_builder import I64, IRBuilder
from gradwalk.compiler.backends.llvm.runtime.object_code import Library, compile_text

SIGNATURE = "ptr %slots, ptr %args, i64 %thread, i64 %threads"


class Kernel(IRBuilder):
    """A function with the kernel's parameters, and help for reading its block."""

    def __init__(self, name: str) -> None:
        super().__init__(name, SIGNATURE)

    def argument(self, number: int) -> str:
        place = self.set(f"getelementptr i64, ptr %args, i64 {number}")
        return self.set(f"load i64, ptr {place}")

    def base(self, operand: int) -> str:
        slot, offset = self.argument(2 * operand), self.argument(2 * operand + 1)
        place = self.set(f"getelementptr ptr, ptr %slots, i64 {slot}")
        return self.set(f"getelementptr i8, ptr {self.set(f'load ptr, ptr {place}')}, i64 {offset}")

    def share(self, count: I64, unit: int = 1) -> tuple[I64, I64]:
        """This thread's part of 0..count."""
        after = self.set("add i64 %thread, 1")
        ends = [self.set(f"mul i64 {count}, {turn}") for turn in ("%thread", after)]
        first, end = (self.set(f"sdiv i64 {e}, %threads") for e in ends)
        return first, end


def scale() -> str:
    """out = 2 x + 1 on float64; args: x, out, count."""
    f = Kernel("scale")
    x, out, count = f.base(0), f.base(1), f.argument(4)
    with f.loop(*f.share(count)) as i:
        value = f.set(f"load double, ptr {f.set(f'getelementptr double, ptr {x}, i64 {i.index}')}")
        doubled = f.set(f"fmul double {value}, 2.0")
        place = f.set(f"getelementptr double, ptr {out}, i64 {i.index}")
        f.do(f"store double {f.set(f'fadd double {doubled}, 1.0')}, ptr {place}")
    return f.finish()


def turn_round() -> str:
    """out[i] = x[count − 1 − i] + 1 on int64: each thread reads what others wrote."""
    f = Kernel("turn_round")
    x, out, count = f.base(0), f.base(1), f.argument(4)
    last = f.set(f"sub i64 {count}, 1")
    with f.loop(*f.share(count)) as i:
        other = f.set(f"sub i64 {last}, {i.index}")
        value = f.set(f"load i64, ptr {f.set(f'getelementptr i64, ptr {x}, i64 {other}')}")
        place = f.set(f"getelementptr i64, ptr {out}, i64 {i.index}")
        f.do(f"store i64 {f.set(f'add i64 {value}, 1')}, ptr {place}")
    return f.finish()


def count_up() -> str:
    """Add 1 to out[thread], and write the number of threads to out[63]."""
    f = Kernel("count_up")
    out = f.base(0)
    mine = f.set(f"getelementptr i64, ptr {out}, i64 %thread")
    value = f.set(f"load i64, ptr {mine}")
    f.do(f"store i64 {f.set(f'add i64 {value}, 1')}, ptr {mine}")
    last = f.set(f"getelementptr i64, ptr {out}, i64 63")
    f.do(f"store atomic i64 %threads, ptr {last} monotonic, align 8")
    return f.finish()


def wait_long() -> str:
    """A slow kernel: loop args[0] times without doing anything."""
    f = Kernel("wait_long")
    place = f.set("alloca i64")
    with f.loop(0, f.argument(0)) as i:
        f.do(f"store volatile i64 {i.index}, ptr {place}")
    return f.finish()


def wait_unless_first() -> str:
    """All threads but the first loop args[0] times."""
    f = Kernel("wait_unless_first")
    place = f.set("alloca i64")
    with f.when(f.differ("%thread", 0)), f.loop(0, f.argument(0)) as i:
        f.do(f"store volatile i64 {i.index}, ptr {place}")
    return f.finish()


_lock = threading.Lock()
_library: list[Library] = []


def kernels() -> Library:
    """All of them, compiled once."""
    with _lock:
        if not _library:
            made = (scale, turn_round, count_up, wait_long, wait_unless_first)
            texts = {f.__name__: f() for f in made}
            _library.append(compile_text(texts))
        return _library[0]
