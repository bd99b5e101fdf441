"""The runtime in LLVM: run a tape with the threads of the pool, meetings, waiting, adapting.

thread_pool.py and tape.py are its Python side.

**A call** is a row of *segments*, the entries between two meetings, and every segment has as many
*shares* as the call has threads. Shares are claimed, not assigned: a thread begins with the share
of its own number, which its caches know, and if others have not begun theirs after a short wait it
claims those too. So a call never waits for a thread that sleeps, was not started or lost its core,
unless that thread holds a share; and results do not depend on who computes a share.

**Numbers.** Segments are numbered from the start of the process and no number comes twice. `@word`
is the one word that everyone looks at: (threads of the call, shares of the segment, its number).
`@claims` holds the last number each share was claimed for; a claim is one compare-and-swap from an
older number to that of the segment. The thread that finishes the last share of a segment publishes
the next word; after the last segment that is a word without threads, the end of the call. A late
thread that holds an old word finds all its shares claimed. Only the holder of a share reads the
program: it cannot end meanwhile. A caller that finds the pool taken runs its tape alone.

**Waiting.** For the others in a call: spin, look once for shares to take over, then let other
threads run (sched_yield) at each look, so that more threads than cores get on. Between calls: spin
a while (a training loop comes back within microseconds) and yield now and then, then park on a
futex (`@calls`, the number of the call), with a bit in `@parked` for the caller to see. `@parked`
and `@calls` are both written before the other is read, so a wake-up cannot be lost.

**Adapting.** On a busy machine a thread may lose its core while it holds a share, for milliseconds.
So the caller keeps a balance of what its threads gain and lose: the time of each call, less what
the program takes with one thread less. That is measured in its 2nd, 3rd, 5th, 9th, ... call. Once
more is lost than gained, calls use one thread less, for 4 times as long as was lost; where the
threads lose again after coming back, for 16, 64 and 128 times as long: then trying costs a percent.
"""

from __future__ import annotations

from gradwalk.compiler.backends.llvm.emit.ir_builder import I64
from gradwalk.compiler.backends.llvm.runtime.runtime_function import (
    Definition,
    RuntimeFunction,
    define,
)

MOST_THREADS = 64  # one bit each in @parked

# A tape entry is {kernel, args, flags}.
BARRIER = 1  # all threads meet before this entry
ALONE = 2  # only share 0 runs it, as the only one
STOP = 4  # with BARRIER: the tape ends here if status[0] says that a kernel before failed

# A segment is {first entry, end, flags}: ALONE if there is only share 0, STOP as above.

# What a program is to the runtime: words of 8 bytes, in this order. tape.py fills them in.
PROGRAM = (
    "entries", "count", "segments", "segment_count", "slots", "most_threads",
    "running", "ran", "calls", "usual", "arrays", "expected", "ndarray", "none", "refused",
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
        "own", "disown", "hire", "alive", "limits", "dismiss", "forget", "pause",
    )
)  # fmt: skip

# Each on cache lines of its own. @call is the program, the number of its first segment and the
# caller's core; @paces is till when fewer threads are used, how many, how often in a row threads
# lost (the level), and the balance.
STATE = f"""
@word = internal global i64 0, align 64
@call = internal global [3 x i64] zeroinitializer, align 64
@done = internal global i64 0, align 64
@claims = internal global [{MOST_THREADS} x [8 x i64]] zeroinitializer, align 64
@calls = internal global i64 0, align 64
@parked = internal global i64 0, align 64
@owner = internal global i32 0, align 64
@paces = internal global [4 x i64] zeroinitializer, align 64
@alive = internal global i64 0, align 64
@keep = internal global i64 {MOST_THREADS}, align 64
@threads = internal global i64 1
@idle = internal global i64 0
@spins = internal global i64 0
@late = internal global i64 0
"""
POOL: list[Definition] = []

THREADS_AT, SHARES_AT = 56, 48  # bits of @word
NUMBERS = 2**48 - 1
PYTHON = 2  # what @owner is if it is no call, but thread_pool.py
UNTIL, FEWER, LEVEL, BALANCE = range(4)  # of @paces
HIGHEST = 7  # level: fewer threads for 128 times as long as was lost,
LONGEST = 500_000_000  # but for no more nanoseconds than these
CREDIT = 10_000_000  # nanoseconds gained that may be lost again


def _number(f: RuntimeFunction, word: str) -> str:
    return f.bits("and", word, NUMBERS)


def _threads(f: RuntimeFunction, word: str) -> str:
    return f.bits("lshr", word, THREADS_AT)


def _shares(f: RuntimeFunction, word: str) -> str:
    return f.bits("and", f.bits("lshr", word, SHARES_AT), 255)


# -- running ---------------------------------------------------------------------------------------


@define("internal void @run_alone(ptr %program)", POOL)
def _run_alone(f: RuntimeFunction) -> None:
    """All of a tape on this thread."""
    entries, slots = (f.word("%program", FIELD[name], "ptr") for name in ("entries", "slots"))
    with f.loop(0, f.word("%program", FIELD["count"])) as loop:
        entry = f.set(f"getelementptr [3 x i64], ptr {entries}, i64 {loop.index}")
        with f.when(f.differ(f.bits("and", f.word(entry, 2), STOP), 0)):
            _give_if_failed(f, slots)
        _call_kernel(f, entry, slots, 0, 1)


def _give_if_failed(f: RuntimeFunction, slots: str, result: str = "void") -> None:
    with f.when(f.differ(f.word(f.word(slots, 1, "ptr"), 0), 0)):
        f.give(result)


def _call_kernel(f: RuntimeFunction, entry: str, slots: str, share: I64, shares: I64) -> None:
    kernel, args = f.word(entry, 0, "ptr"), f.word(entry, 1, "ptr")
    given = ("ptr", slots), ("ptr", args), ("i64", share), ("i64", shares)
    f.call_pointer("void", kernel, *given)


@define("internal void @run_share(ptr %program, i64 %segment, i64 %share, i64 %shares)", POOL)
def _run_share(f: RuntimeFunction) -> None:
    """One share of a segment."""
    entries, slots = (f.word("%program", FIELD[name], "ptr") for name in ("entries", "slots"))
    segment = _segment(f, "%program", "%segment")
    first = f.compare("eq", "%share", 0)
    with f.loop(f.word(segment, 0), f.word(segment, 1)) as loop:
        entry = f.set(f"getelementptr [3 x i64], ptr {entries}, i64 {loop.index}")
        for_all = f.compare("eq", f.bits("and", f.word(entry, 2), ALONE), 0)
        with f.when(f.set(f"or i1 {for_all}, {first}")):
            _call_kernel(f, entry, slots, "%share", f.select(for_all, "i64", "%shares", 1))


def _segment(f: RuntimeFunction, program: str, number: I64) -> str:
    segments = f.word(program, FIELD["segments"], "ptr")
    return f.set(f"getelementptr [3 x i64], ptr {segments}, i64 {number}")


@define("internal i64 @opening(ptr %program, i64 %segment, i64 %threads)", POOL)
def _opening(f: RuntimeFunction) -> None:
    """The word of a segment without its number; 0 if the tape ends before it."""
    with f.when(f.compare("eq", "%segment", f.word("%program", FIELD["segment_count"]))):
        f.give("i64 0")
    flags = f.word(_segment(f, "%program", "%segment"), 2)
    with f.when(f.differ(f.bits("and", flags, STOP), 0)):
        _give_if_failed(f, f.word("%program", FIELD["slots"], "ptr"), "i64 0")
    alone = f.differ(f.bits("and", flags, ALONE), 0)
    shares = f.select(alone, "i64", 1, "%threads")
    both = f.bits("shl", "%threads", THREADS_AT), f.bits("shl", shares, SHARES_AT)
    f.give(f"i64 {f.bits('or', *both)}")


@define("internal i1 @claim(i64 %share, i64 %number)", POOL)
def _claim(f: RuntimeFunction) -> None:
    """Whether this thread, and no other, is to compute this share of this segment."""
    place = f.pointer("[8 x i64]", "@claims", "%share")
    last = f.atomic(place, "monotonic")
    with f.when(f.compare("uge", last, "%number")):
        f.give("i1 false")
    pair = f.set(f"cmpxchg ptr {place}, i64 {last}, i64 %number acq_rel monotonic")
    f.give(f"i1 {f.set(f'extractvalue {{ i64, i1 }} {pair}, 1')}")


@define("internal void @work(i64 %share, i64 %word)", POOL)
def _work(f: RuntimeFunction) -> None:
    """Compute a share that was claimed; the last of a segment opens the next one."""
    number, threads, shares = (part(f, "%word") for part in (_number, _threads, _shares))
    program = f.word("@call", 0, "ptr")
    segment = f.subtract(number, f.word("@call", 1))
    given = ("i64", segment), ("i64", "%share"), ("i64", threads)
    f.ours("void", "run_share", ("ptr", program), *given)
    with f.when(f.differ(shares, 1)):
        before = f.set("atomicrmw add ptr @done, i64 1 acq_rel")
        with f.when(f.differ(f.add(before, 1), shares)):
            f.give()
        f.do("store atomic i64 0, ptr @done monotonic, align 8")
    numbers = ("i64", f.add(segment, 1)), ("i64", threads)
    opening = f.ours("i64", "opening", ("ptr", program), *numbers)
    word = f.bits("or", opening, f.add(number, 1))
    f.do(f"store atomic i64 {word}, ptr @word release, align 8")


@define("internal void @take_part(i64 %thread, i64 %word)", POOL)
def _take_part(f: RuntimeFunction) -> None:
    """A thread's way through one segment of a call: its own share, then those nobody has begun,
    then waiting for the others."""
    number, shares = _number(f, "%word"), _shares(f, "%word")

    def compute(share: I64) -> None:
        with f.when(f.ours("i1", "claim", ("i64", share), ("i64", number))):
            f.ours("void", "work", ("i64", share), ("i64", "%word"))

    def give_if_over() -> None:
        with f.when(f.differ(f.atomic("@word", "acquire"), "%word")):
            f.give()

    with f.when(f.compare("ult", "%thread", shares)):
        compute("%thread")
    with f.loop(0, f.set("load i64, ptr @spins"), at_least_once=True):
        give_if_over()
        f.pause()
    with f.loop(0, shares) as share:
        compute(share.index)
    give_if_over()
    with f.repeat() as look:
        f.pause()
        f.leave_if(look, f.differ(f.atomic("@word", "acquire"), "%word"))
        f.call("i32", "sched_yield")


@define("i64 @gradwalk_perform(ptr %program)", POOL)
def _perform(f: RuntimeFunction) -> None:
    """Run a program that is ours: with the pool, or alone where that is taken or not wanted."""
    most = f.word("%program", FIELD["most_threads"])
    with (
        f.when(f.differ(most, 1)),
        f.when(f.differ(f.set("load i64, ptr @threads"), 1)),
        f.when(f.take("@owner")),
    ):
        all_threads = f.set("load i64, ptr @threads")
        fewer = f.call("i64", "llvm.umin.i64", ("i64", most), ("i64", all_threads))
        wanted = f.select(f.compare("eq", most, 0), "i64", all_threads, fewer)
        with f.when(f.compare("ult", f.atomic("@alive", "acquire"), f.subtract(wanted, 1))):
            f.release("@owner")
            f.give(f"i64 {NO_WORKERS}")
        begin = f.ours("i64", "now")
        threads = f.ours("i64", "pace", ("ptr", "%program"), ("i64", wanted), ("i64", begin))
        with f.when(f.differ(threads, 1)):
            f.ours("void", "run_together", ("ptr", "%program"), ("i64", threads))
            numbers = (("i64", n) for n in (wanted, threads, begin))
            f.ours("void", "adapt", ("ptr", "%program"), *numbers)
            f.release("@owner")
            f.give("i64 0")
        f.release("@owner")
        f.ours("void", "run_alone", ("ptr", "%program"))
        f.ours("void", "learn", ("ptr", "%program"), ("i64", begin))
        f.give("i64 0")
    f.ours("void", "run_alone", ("ptr", "%program"))
    f.give("i64 0")


@define("internal void @run_together(ptr %program, i64 %threads)", POOL)
def _run_together(f: RuntimeFunction) -> None:
    """A call with the pool, which the caller owns."""
    number = f.add(_number(f, f.atomic("@word", "monotonic")), 1)
    f.store_word("%program", "@call", 0, "ptr")
    f.store_word(number, "@call", 1)
    core, place = f.ours("i64", "core"), f.pointer("i64", "@call", 2)
    f.do(f"store atomic i64 {core}, ptr {place} monotonic, align 8")
    opening = f.ours("i64", "opening", ("ptr", "%program"), ("i64", 0), ("i64", "%threads"))
    f.do(f"store atomic i64 {f.bits('or', opening, number)}, ptr @word release, align 8")
    below = f.bits("xor", f.bits("shl", -2, f.subtract("%threads", 1)), -2)
    f.ours("void", "wake", ("i64", below))
    with f.repeat() as segment:
        word = f.atomic("@word", "acquire")
        f.leave_if(segment, f.compare("eq", _threads(f, word), 0))
        f.ours("void", "take_part", ("i64", 0), ("i64", word))


# -- adapting --------------------------------------------------------------------------------------


@define("internal i64 @pace(ptr %program, i64 %wanted, i64 %now)", POOL)
def _pace(f: RuntimeFunction) -> None:
    """How many threads a call uses of those it wants."""
    with f.when(f.compare("eq", f.set("load i64, ptr @late"), 0)):
        f.give("i64 %wanted")
    with f.when(f.compare("slt", "%now", f.word("@paces", UNTIL))):
        fewer = f.smaller(f.word("@paces", FEWER), "%wanted")
        f.give(f"i64 {fewer}")
    calls = f.word("%program", FIELD["calls"])
    f.store_word(f.add(calls, 1), "%program", FIELD["calls"])
    later = f.differ(calls, 0)
    power = f.compare("eq", f.bits("and", calls, f.subtract(calls, 1)), 0)
    measured = f.set(f"and i1 {later}, {power}")
    f.give(f"i64 {f.select(measured, 'i64', f.subtract('%wanted', 1), '%wanted')}")


@define("internal void @learn(ptr %program, i64 %begin)", POOL)
def _learn(f: RuntimeFunction) -> None:
    """Note what a call with fewer threads took: the least, forgotten by and by."""
    spent = f.subtract(f.ours("i64", "now"), "%begin")
    usual = f.word("%program", FIELD["usual"])
    more = f.add(usual, f.bits("lshr", usual, 4))
    known = f.select(f.compare("eq", usual, 0), "i64", spent, more)
    f.store_word(f.smaller(spent, known), "%program", FIELD["usual"])


@define("internal void @adapt(ptr %program, i64 %wanted, i64 %threads, i64 %begin)", POOL)
def _adapt(f: RuntimeFunction) -> None:
    """Use one thread less for a while, if threads lose more than they gain. Where fewer are used
    already, a call may take twice as long as usual."""
    late = f.set("load i64, ptr @late")
    usual = f.word("%program", FIELD["usual"])
    unknown = f.compare("eq", usual, 0)
    fewer = f.compare("ult", "%threads", "%wanted")
    with f.when(fewer):
        f.ours("void", "learn", ("ptr", "%program"), ("i64", "%begin"))
    with f.when(f.set(f"or i1 {unknown}, {f.compare('eq', late, 0)}")):
        f.give()
    now = f.ours("i64", "now")
    allowed = f.bits("shl", usual, f.select(fewer, "i64", 1, 0))
    change = f.subtract(f.subtract(now, "%begin"), allowed)
    balance = f.larger(f.add(f.word("@paces", BALANCE), change), -CREDIT)
    f.store_word(balance, "@paces", BALANCE)
    with f.when(f.compare("sle", balance, -CREDIT)):
        f.store_word(0, "@paces", LEVEL)
    with f.when(f.compare("sle", balance, late)):
        f.give()
    level = f.smaller(f.add(f.word("@paces", LEVEL), 2), HIGHEST)
    pause = f.smaller(f.bits("shl", balance, level), LONGEST)
    one_less = f.subtract("%threads", 1)
    new = {UNTIL: f.add(now, pause), FEWER: one_less, LEVEL: level, BALANCE: 0}
    for place, value in new.items():
        f.store_word(value, "@paces", place)


# -- one at a time ---------------------------------------------------------------------------------


@define("i64 @gradwalk_take(ptr %program)", POOL)
def _take(f: RuntimeFunction) -> None:
    """A program is run by one thread at a time: its slots and its arena are one."""
    taken = f.take(f.pointer("i64", "%program", FIELD["running"]))
    f.give(f"i64 {f.select(taken, 'i64', 0, BUSY)}")


@define("void @gradwalk_leave(ptr %program)", POOL)
def _leave(f: RuntimeFunction) -> None:
    f.release(f.pointer("i64", "%program", FIELD["running"]))


# -- workers ---------------------------------------------------------------------------------------


@define("ptr @gradwalk_worker(ptr %given)", POOL)
def _worker(f: RuntimeFunction) -> None:
    """A worker's life: calls that ask for it, until it is dismissed."""
    thread = f.set("ptrtoint ptr %given to i64")
    with f.repeat() as rest:
        f.leave_if(rest, f.ours("i1", "dismissed", ("i64", thread)))
        caller = f.atomic(f.pointer("i64", "@call", 2), "monotonic")
        with f.when(f.compare("eq", caller, f.ours("i64", "core"))):
            f.ours("void", "leave_core", ("i64", caller))
        with f.repeat() as segment:
            word = f.atomic("@word", "acquire")
            f.leave_if(segment, f.compare("uge", thread, _threads(f, word)))
            f.ours("void", "take_part", ("i64", thread), ("i64", word))
    f.update("sub", "@alive", 1, "release")
    f.give("ptr null")


@define("internal i1 @dismissed(i64 %thread)", POOL)
def _dismissed(f: RuntimeFunction) -> None:
    """Wait for a call that asks for this worker, or till it may go home (which is returned).

    It spins for so long, then parks. Every 64 pauses it lets others have the core: on a busy
    machine that may be the caller, waiting to go on. Then it parks as soon as it has the core
    again: a thread that waits for one counts as load, and the system moves others because of it.
    """

    def give_if_asked() -> None:
        word = f.atomic("@word", "acquire")
        with f.when(f.compare("ult", "%thread", _threads(f, word))):
            f.give("i1 false")

    end = f.add(f.ours("i64", "now"), f.set("load i64, ptr @idle"))
    with f.repeat() as turn:
        f.leave_if(turn, f.compare("sge", f.ours("i64", "now"), end))
        with f.loop(0, 64, at_least_once=True):
            give_if_asked()
            f.pause()
        f.call("i32", "sched_yield")
    bit = f.bits("shl", 1, "%thread")
    f.update("or", "@parked", bit, "seq_cst")
    with f.repeat() as sleep:
        last = f.atomic("@calls", "seq_cst")
        home = f.compare("uge", "%thread", f.atomic("@keep", "acquire"))
        asked = f.compare("ult", "%thread", _threads(f, f.atomic("@word", "acquire")))
        f.leave_if(sleep, f.set(f"or i1 {home}, {asked}"))
        f.ours("void", "park", ("i64", last), ("i64", bit))
    f.update("and", "@parked", f.bits("xor", bit, -1), "seq_cst")
    f.give(f"i1 {home}")


@define("internal void @wake(i64 %mask)", POOL)
def _wake(f: RuntimeFunction) -> None:
    """Wake the workers in `mask` that are parked, for what was published before."""
    f.update("add", "@calls", 1, "seq_cst")
    asked = f.bits("and", f.atomic("@parked", "seq_cst"), "%mask")
    with f.when(f.differ(asked, 0)):
        f.ours("void", "unpark", ("i64", "%mask"))


# -- for thread_pool.py, which holds a lock: only the owner of the pool changes its workers --------

POOL += [
    Definition(
        "i64 @gradwalk_own()",
        lambda f: f.give(f"i64 {f.select(f.take('@owner', PYTHON), 'i64', 1, 0)}"),
    ),
    Definition(
        "void @gradwalk_disown()",
        lambda f: f.set(f"cmpxchg ptr @owner, i32 {PYTHON}, i32 0 release monotonic"),
    ),
    Definition("i64 @gradwalk_alive()", lambda f: f.give(f"i64 {f.atomic('@alive', 'acquire')}")),
]


@define("void @gradwalk_hire()", POOL)
def _hire(f: RuntimeFunction) -> None:
    """Count one more worker; from now on none goes home."""
    f.do(f"store atomic i64 {MOST_THREADS}, ptr @keep release, align 8")
    f.update("add", "@alive", 1, "seq_cst")


@define("void @gradwalk_dismiss(i64 %keep)", POOL)
def _dismiss(f: RuntimeFunction) -> None:
    """Send the workers from this number on home."""
    f.do("store atomic i64 %keep, ptr @keep seq_cst, align 8")
    f.ours("void", "wake", ("i64", -1))


@define("void @gradwalk_limits(i64 %threads, i64 %idle, i64 %spins, i64 %late)", POOL)
def _limits(f: RuntimeFunction) -> None:
    for name in ("threads", "idle", "spins", "late"):
        f.do(f"store i64 %{name}, ptr @{name}")
    f.store_word(0, "@paces", UNTIL)


@define("void @gradwalk_forget()", POOL)
def _forget(f: RuntimeFunction) -> None:
    """In a forked process there are no workers, and the state may be that of a call under way: end
    it, so that its shares count as claimed."""
    for name in ("alive", "parked", "done"):
        f.do(f"store i64 0, ptr @{name}")
    f.do("store i32 0, ptr @owner")
    after = f.add(_number(f, f.atomic("@word", "monotonic")), 1)
    f.do(f"store i64 {after}, ptr @word")


@define("void @gradwalk_pause(i64 %times)", POOL)
def _pause(f: RuntimeFunction) -> None:
    with f.loop(0, "%times", at_least_once=True):
        f.pause()
