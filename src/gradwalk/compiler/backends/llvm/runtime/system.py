"""What the runtime asks of the system: to park a worker and wake it, to change its core, the time.

A worker that finds itself on the caller's core goes to another: the system's own balancing leaves
two threads that wait for one another where they are, sometimes for good, and then they take turns
instead of working side by side. The mask of allowed cores is changed for a moment only, and only
then.
"""

from __future__ import annotations

from gradwalk.compiler.backends.llvm.emit.ir_builder import Declaration
from gradwalk.compiler.backends.llvm.runtime.runtime_function import (
    Definition,
    RuntimeFunction,
    define,
)
from gradwalk.compiler.backends.llvm.target import Host

START = "gradwalk_start"  # a worker that is a native thread
_FUTEX = {"x86_64": 202, "aarch64": 98}  # the number of the system call
FUTEX_PARKING: list[Definition] = []
PYTHON_PARKING = [
    Definition(
        "internal void @park(i64 %last, i64 %bit)",
        lambda f: f.call("void", "gradwalk_park", ("ptr", "@calls"), ("i64", "%last")),
    ),
    Definition("internal void @unpark(i64 %mask)", lambda f: f.call("void", "gradwalk_unpark")),
]
LINUX_CORES: list[Definition] = []
OTHER_CORES = [
    Definition("internal i64 @core()", lambda f: f.give("i64 -1")),
    Definition("internal void @leave_core(i64 %core)", lambda f: f.give()),
]


def has_futex(host: Host) -> bool:
    """Whether workers can be native threads that park on a futex; else Python starts and parks."""
    return host.is_linux and host.architecture in _FUTEX


def system_functions(host: Host, futex: bool) -> list[Definition]:
    """`@park` and `@unpark`, by the system's futex or by two Python functions; `@core`, where this
    thread runs (−1: not known), and `@leave_core`; `@now`, a time in nanoseconds."""
    parking = FUTEX_PARKING if futex else PYTHON_PARKING
    return [*parking, *(LINUX_CORES if host.is_linux else OTHER_CORES), CLOCK]


# -- parking ---------------------------------------------------------------------------------------
# The futex is the low half of @calls, the number of the call; each waiter has a bit of 32.


def _system_call(f: RuntimeFunction, operation: int, number: str | int, bits: str) -> None:
    both = f.bits("or", bits, f.bits("lshr", bits, 32))
    low = f.bits("and", both, 2**32 - 1)
    given = (
        f"i64 {_FUTEX[f.host.architecture]}, ptr @calls, i64 {operation}, i64 {number}, ptr null, "
        f"ptr null, i64 {low}"
    )
    f.declarations.add(Declaration("i64", "syscall", ("i64", "...")))
    f.set(f"call i64 (i64, ...) @syscall({given})")


@define("internal void @park(i64 %last, i64 %bit) noinline", FUTEX_PARKING)
def _park(f: RuntimeFunction) -> None:
    low = f.bits("and", "%last", 2**32 - 1)
    _system_call(f, 137, low, "%bit")  # FUTEX_WAIT_BITSET, private


@define("internal void @unpark(i64 %mask) noinline", FUTEX_PARKING)
def _unpark(f: RuntimeFunction) -> None:
    _system_call(f, 138, 2**31 - 1, "%mask")  # FUTEX_WAKE_BITSET, private


@define(f"i64 @{START}(i64 %thread)", FUTEX_PARKING)
def _start(f: RuntimeFunction) -> None:
    """Start a native worker; 0, or the error. It counts at once: no call waits for it, and what
    ends it waits until it is gone."""
    handle = f.set("alloca i64, align 8")
    number = f.set("inttoptr i64 %thread to ptr")
    f.ours("void", "gradwalk_hire")
    begin = ("ptr", handle), ("ptr", "null"), ("ptr", "@gradwalk_worker"), ("ptr", number)
    error = f.set(f"zext i32 {f.call('i32', 'pthread_create', *begin)} to i64")
    with f.when(f.differ(error, 0)):
        f.update("sub", "@alive", 1, "release")
        f.give(f"i64 {error}")
    f.call("i32", "pthread_detach", ("i64", f.word(handle, 0)))
    f.give("i64 0")


# -- time ------------------------------------------------------------------------------------------


def _now(f: RuntimeFunction) -> None:
    place = f.set("alloca [2 x i64], align 8")
    if "windows" in f.host.triple:
        f.call("i32", "QueryPerformanceCounter", ("ptr", place))
        f.give(f"i64 {f.multiply(f.word(place, 0), 100)}")  # it counts at 10 MHz
        return
    monotonic = 1 if f.host.is_linux else 6  # of macOS
    f.call("i32", "clock_gettime", ("i32", monotonic), ("ptr", place))
    f.give(f"i64 {f.add(f.multiply(f.word(place, 0), 10**9), f.word(place, 1))}")


CLOCK = Definition("internal i64 @now()", _now)

# -- cores -----------------------------------------------------------------------------------------


@define("internal i64 @core()", LINUX_CORES)
def _core(f: RuntimeFunction) -> None:
    core = f.call("i32", "sched_getcpu")
    f.give(f"i64 {f.set(f'sext i32 {core} to i64')}")


@define("internal void @leave_core(i64 %core) noinline", LINUX_CORES)
def _leave_core(f: RuntimeFunction) -> None:
    allowed, others = (f.set("alloca [16 x i64], align 8") for _ in range(2))

    def call(name: str, mask: str) -> str:
        return f.call("i32", name, ("i32", 0), ("i64", 128), ("ptr", mask))

    with f.when(f.compare("ult", "%core", 1024)):
        f.clear(allowed, 128)
        f.clear(others, 128)
        size = call("sched_getaffinity", allowed)
        with f.when(f.set(f"icmp sge i32 {size}, 0")):
            call("sched_getaffinity", others)
            number = f.bits("lshr", "%core", 6)
            bit = f.bits("shl", 1, f.bits("and", "%core", 63))
            left = f.bits("and", f.word(others, number), f.bits("xor", bit, -1))
            f.store_word(left, others, number)
            call("sched_setaffinity", others)  # fails, and changes nothing, if no core is left
            call("sched_setaffinity", allowed)
