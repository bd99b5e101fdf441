"""The runtime in LLVM: run a tape on every thread of the pool, barriers, waiting.

thread_pool.py and tape.py are its Python side.

**A call.** The caller takes the pool (`@owner`), writes down the program, and changes `@word`, the
one word every worker looks at: (threads << 32 | number of the call). Workers below `threads` run
the same tape as the caller; each counts `@remaining` down as its last act, and the caller returns
when that is zero. Workers not asked see a number only. A caller that finds the pool taken runs its
tape alone: the results are the same, and no thread waits for another.

**The barrier** before an entry with flag 1 is by dissemination: in round r every thread
tells the one 2^r further on, and waits to be told by the one 2^r before it; after log2(threads)
rounds every thread has heard of every other. With two threads that is one store and one load each,
on cache lines of their own: half of what a shared counter costs. What is told is the number of the
barrier, which only grows, so nothing has to be reset.

**Waiting.** At a barrier and for the end of a call: spin, then let others run (sched_yield) at each
look, so that more threads than cores get on. Between calls: spin a while (a training loop comes
back within microseconds) and yield now and then, then park on a futex, with a bit in `@parked` for
the caller to see.
`@parked` and `@word` are both written before the other is read, so a wake-up cannot be lost.
"""

from __future__ import annotations

from collections.abc import Callable

from gradwalk.compiler.backends.llvm.emit.ir_builder import I64
from gradwalk.compiler.backends.llvm.runtime.runtime_function import (
    Definition,
    RuntimeFunction,
    define,
)

MOST_THREADS = 64  # one bit each in @parked; six rounds of a barrier
ROUNDS = 6

# A tape entry is {kernel, args, flags}.
BARRIER = 1  # all threads meet before this entry
ALONE = 2  # only thread 0 runs it, as the only one
STOP = 4  # with BARRIER: the tape ends here if status[0] says that a kernel before failed

# What a program is to the runtime: words of 8 bytes, in this order. tape.py fills them in.
PROGRAM = (
    "entries", "count", "slots", "most_threads", "running",
    "arrays", "expected", "ndarray", "none", "refused",
)  # fmt: skip
FIELD = {name: place for place, name in enumerate(PROGRAM)}

# Why a program was not run.
BUSY = 1  # another thread is running it
NO_WORKERS = 2  # the pool has fewer workers than it should
ARRAYS = 3  # not the arrays that are expected

# The functions of the pool that Python and the builtin call.
FUNCTIONS = tuple(
    f"gradwalk_{name}"
    for name in (
        "perform", "take", "leave", "worker",
        "own", "disown", "alive", "limits", "dismiss", "forget", "pause",
    )
)  # fmt: skip

# @call holds what a worker reads at the start of a call on one cache line: the word, the program,
# the number of the last barrier and the caller's core. What workers write lies elsewhere.
STATE = f"""
@call = internal global [4 x i64] zeroinitializer, align 64
@remaining = internal global i64 0, align 64
@parked = internal global i64 0, align 64
@owner = internal global i32 0, align 64
@alive = internal global i64 0, align 64
@threads = internal global i64 1, align 64
@idle_spins = internal global i64 0
@spins = internal global i64 0
@signals = internal global [{MOST_THREADS} x [{ROUNDS} x [8 x i64]]] zeroinitializer, align 64
"""
POOL: list[Definition] = []


# -- waiting ---------------------------------------------------------------------------------------


@define("internal i64 @patience(i64 %looks)", POOL)
def _patience(f: RuntimeFunction) -> None:
    """One look in vain: pause, and past so many looks let other threads have the core."""
    f.pause()
    more = f.add("%looks", 1)
    with f.when(f.compare("ugt", more, f.set("load i64, ptr @spins"))):
        f.call("i32", "sched_yield")
    f.give(f"i64 {more}")


def _wait_until(f: RuntimeFunction, arrived: Callable[[], str]) -> None:
    """Look until what `arrived` writes is true."""
    with f.repeat(("i64", 0)) as loop:
        f.leave_if(loop, arrived())
        loop.carry(f.ours("i64", "patience", ("i64", loop.carried[0])))


@define("internal void @barrier(i64 %thread, i64 %threads, i64 %number)", POOL)
def _barrier(f: RuntimeFunction) -> None:
    """All threads of the call are here once this returns."""
    with f.repeat(("i64", 0), ("i64", 1)) as turn:
        number, distance = turn.carried
        f.leave_if(turn, f.compare("uge", distance, "%threads"))
        further = f.add("%thread", distance)
        wrapped = f.subtract(further, "%threads")
        other = f.select(f.compare("uge", further, "%threads"), "i64", wrapped, further)
        theirs, mine = (
            f.set(f"getelementptr [{ROUNDS} x [8 x i64]], ptr @signals, i64 {t}, i64 {number}")
            for t in (other, "%thread")
        )
        f.do(f"store atomic i64 %number, ptr {theirs} release, align 8")
        _wait_until(f, lambda: f.compare("uge", f.atomic(mine, "acquire"), "%number"))
        turn.carry(f.add(number, 1), f.bits("shl", distance, 1))


@define("internal i64 @next_word(i64 %thread, i64 %last, i64 %spins)", POOL)
def _next_word(f: RuntimeFunction) -> None:
    """A worker's wait for a word other than the last one: spin so often, then park.

    Every 64 pauses it lets others have the core: on a busy machine that may be the caller, waiting
    to go on.
    """
    with f.repeat(("i64", 0)) as look:
        (looks,) = look.carried
        word = f.atomic("@call", "acquire")
        with f.when(f.differ(word, "%last")):
            f.give(f"i64 {word}")
        more = f.add(looks, 1)
        f.leave_if(look, f.compare("ugt", more, "%spins"))
        f.pause()
        with f.when(f.compare("eq", f.bits("and", looks, 63), 63)):
            f.call("i32", "sched_yield")
        look.carry(more)
    bit = f.bits("shl", 1, "%thread")
    f.update("or", "@parked", bit, "seq_cst")
    with f.repeat() as sleep:
        word = f.atomic("@call", "seq_cst")
        f.leave_if(sleep, f.differ(word, "%last"))
        f.ours("void", "park", ("i64", "%last"), ("i64", bit))
    f.update("and", "@parked", f.bits("xor", bit, -1), "seq_cst")
    f.give(f"i64 {word}")


@define("internal void @publish(i64 %threads, i64 %mask)", POOL)
def _publish(f: RuntimeFunction) -> None:
    """Change the word, and wake the workers in `mask` that are parked."""
    one_more = f.set(f"add i64 {f.set('load i64, ptr @call')}, 1")
    number = f.bits("and", one_more, 2**32 - 1)
    word = f.bits("or", f.bits("shl", "%threads", 32), number)
    f.update("xchg", "@call", word, "seq_cst")
    asked = f.bits("and", f.atomic("@parked", "seq_cst"), "%mask")
    with f.when(f.differ(asked, 0)):
        f.ours("void", "unpark", ("i64", "%mask"))


# -- running ---------------------------------------------------------------------------------------


@define("internal i64 @execute(ptr %program, i64 %thread, i64 %threads, i64 %barriers)", POOL)
def _execute(f: RuntimeFunction) -> None:
    """One thread's way along the tape; returns the number of the last barrier."""
    entries, slots = (f.word("%program", FIELD[name], "ptr") for name in ("entries", "slots"))
    count = f.word("%program", FIELD["count"])
    several, first = f.differ("%threads", 1), f.compare("eq", "%thread", 0)

    def meet(condition: str, number: I64) -> str:
        """The number of the last barrier, after one more if the condition holds."""

        def barrier() -> I64:
            following = f.add(number, 1)
            given = ("i64", "%thread"), ("i64", "%threads"), ("i64", following)
            f.ours("void", "barrier", *given)
            return following

        return f.either(condition, "i64", number, barrier)

    with f.loop(0, count, carried=[("i64", "%barriers")]) as loop:
        entry = f.set(f"getelementptr [3 x i64], ptr {entries}, i64 {loop.index}")
        flags = f.word(entry, 2)
        waits, may_stop = (f.differ(f.bits("and", flags, flag), 0) for flag in (BARRIER, STOP))
        number = meet(f.set(f"and i1 {waits}, {several}"), loop.carried[0])

        def stop_if_failed(number: str = number) -> str:
            failure = f.word(f.word(slots, 1, "ptr"), 0)
            # No thread goes on, and perhaps fails, before all have looked.
            after = meet(several, number)
            with f.when(f.differ(failure, 0)):
                f.give(f"i64 {after}")
            return after

        loop.carry(f.either(may_stop, "i64", number, stop_if_failed))
        for_all = f.compare("eq", f.bits("and", flags, ALONE), 0)
        with f.when(f.set(f"or i1 {for_all}, {first}")):
            kernel, args = f.word(entry, 0, "ptr"), f.word(entry, 1, "ptr")
            sharing = f.select(for_all, "i64", "%threads", 1)
            given = ("ptr", slots), ("ptr", args), ("i64", "%thread"), ("i64", sharing)
            f.call_pointer("void", kernel, *given)
    f.give(f"i64 {loop.results[0]}")


@define("i64 @gradwalk_perform(ptr %program)", POOL)
def _perform(f: RuntimeFunction) -> None:
    """Run a program that is ours: with the pool, or alone where that is taken or not wanted."""

    def execute(threads: I64, barriers: I64) -> str:
        numbers = (("i64", n) for n in (0, threads, barriers))
        return f.ours("i64", "execute", ("ptr", "%program"), *numbers)

    most = f.word("%program", FIELD["most_threads"])
    with (
        f.when(f.differ(most, 1)),
        f.when(f.differ(f.set("load i64, ptr @threads"), 1)),
        f.when(f.take("@owner")),
    ):
        all_threads = f.set("load i64, ptr @threads")
        fewer = f.call("i64", "llvm.umin.i64", ("i64", most), ("i64", all_threads))
        threads = f.select(f.compare("eq", most, 0), "i64", all_threads, fewer)
        helpers = f.subtract(threads, 1)
        with f.when(f.compare("ult", f.atomic("@alive", "acquire"), helpers)):
            f.release("@owner")
            f.give(f"i64 {NO_WORKERS}")
        f.store_word("%program", "@call", 1, "ptr")
        f.do(f"store atomic i64 {helpers}, ptr @remaining monotonic, align 8")
        below = f.bits("xor", f.bits("shl", -1, helpers), -1)
        barriers = f.word("@call", 2)
        f.store_word(f.ours("i64", "core"), "@call", 3)
        f.ours("void", "publish", ("i64", threads), ("i64", f.bits("shl", below, 1)))
        after = execute(threads, barriers)
        _wait_until(f, lambda: f.compare("eq", f.atomic("@remaining", "acquire"), 0))
        f.store_word(after, "@call", 2)
        f.release("@owner")
        f.give("i64 0")
    execute(1, 0)
    f.give("i64 0")


@define("i64 @gradwalk_take(ptr %program)", POOL)
def _take(f: RuntimeFunction) -> None:
    """A program is run by one thread at a time: its slots and its arena are one."""
    taken = f.take(f.pointer("i64", "%program", FIELD["running"]))
    f.give(f"i64 {f.select(taken, 'i64', 0, BUSY)}")


@define("void @gradwalk_leave(ptr %program)", POOL)
def _leave(f: RuntimeFunction) -> None:
    f.release(f.pointer("i64", "%program", FIELD["running"]))


@define("ptr @gradwalk_worker(ptr %given)", POOL)
def _worker(f: RuntimeFunction) -> None:
    """A worker's life. The word it is born with is not for it; a word with the sign bit set sends
    the workers from its number of threads on home."""
    thread = f.set("ptrtoint ptr %given to i64")
    word = f.atomic("@call", "acquire")
    f.update("add", "@alive", 1, "seq_cst")
    with f.repeat(("i64", word), ("i1", "true")) as rest:
        last, busy_lately = rest.carried
        spins = f.select(busy_lately, "i64", f.set("load i64, ptr @idle_spins"), 0)
        numbers = (("i64", n) for n in (thread, last, spins))
        word = f.ours("i64", "next_word", *numbers)
        threads = f.bits("and", f.bits("lshr", word, 32), 2**31 - 1)
        asked, dismissed = f.compare("ult", thread, threads), f.compare("slt", word, 0)
        f.leave_if(rest, f.set(f"select i1 {asked}, i1 false, i1 {dismissed}"))
        works = f.set(f"select i1 {dismissed}, i1 false, i1 {asked}")
        with f.when(works):
            program, barriers = f.word("@call", 1, "ptr"), f.word("@call", 2)
            caller = f.word("@call", 3)
            with f.when(f.compare("eq", caller, f.ours("i64", "core"))):
                f.ours("void", "leave_core", ("i64", caller))
            numbers = (("i64", n) for n in (thread, threads, barriers))
            f.ours("i64", "execute", ("ptr", program), *numbers)
            f.update("sub", "@remaining", 1, "release")
        rest.carry(word, works)
    f.update("sub", "@alive", 1, "release")
    f.give("ptr null")


# -- for thread_pool.py, which holds a lock: only the owner of the pool changes its workers --------

POOL += [
    Definition("void @gradwalk_disown()", lambda f: f.release("@owner")),
    Definition(
        "i64 @gradwalk_own()", lambda f: f.give(f"i64 {f.select(f.take('@owner'), 'i64', 1, 0)}")
    ),
    Definition("i64 @gradwalk_alive()", lambda f: f.give(f"i64 {f.atomic('@alive', 'acquire')}")),
    Definition(
        "void @gradwalk_dismiss(i64 %keep)",
        lambda f: f.ours("void", "publish", ("i64", f.bits("or", "%keep", 2**31)), ("i64", -1)),
    ),
]


@define("void @gradwalk_limits(i64 %threads, i64 %idle_spins, i64 %spins)", POOL)
def _limits(f: RuntimeFunction) -> None:
    for name in ("threads", "idle_spins", "spins"):
        f.do(f"store i64 %{name}, ptr @{name}")


@define("void @gradwalk_forget()", POOL)
def _forget(f: RuntimeFunction) -> None:
    """In a forked process there are no workers, and the state may be that of a call under way."""
    for name in ("alive", "parked", "remaining"):
        f.do(f"store i64 0, ptr @{name}")
    f.do("store i32 0, ptr @owner")
    f.clear("@call", 32)
    f.clear("@signals", MOST_THREADS * ROUNDS * 64)


@define("void @gradwalk_pause(i64 %times)", POOL)
def _pause(f: RuntimeFunction) -> None:
    with f.loop(0, "%times", at_least_once=True):
        f.pause()
