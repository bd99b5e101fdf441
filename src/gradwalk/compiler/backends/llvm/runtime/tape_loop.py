"""The runtime, as LLVM text: run a tape on every thread of the pool, barriers, waiting.

It is LLVM text because everything it needs (threads, futexes, Python's C API) is in the process
already: no C compiler, and nothing to install. thread_pool.py and tape.py are its Python side.

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

import re
from string import Template

from gradwalk.compiler.backends.llvm.runtime.cores import leaving_text
from gradwalk.compiler.backends.llvm.runtime.parking import parking_text
from gradwalk.compiler.backends.llvm.target import Host

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
        "perform", "take", "leave", "run", "worker",
        "own", "disown", "alive", "limits", "dismiss", "forget", "pause",
    )
)  # fmt: skip

# How a spinning thread tells its core so, as (declaration, instruction).
_PAUSE = {
    "x86_64": ("declare void @llvm.x86.sse2.pause()", "call void @llvm.x86.sse2.pause()"),
    "aarch64": ("declare void @llvm.aarch64.isb(i32)", "call void @llvm.aarch64.isb(i32 15)"),
}


def filled_in(text: str, **values: str | int) -> str:
    """Fill in a text: its $names, $at_field of a program, and two short forms of loads.

    `%x = word ptr %list, 3` loads the third word of a list, `%x = field i32 %object, 16` what lies
    16 bytes into an object.
    """
    for form, element in (("word", r"\2"), ("field", "i8")):
        load = rf"\1.at = getelementptr {element}, ptr \3, i64 \4\n  \1 = load \2, ptr \1.at"
        text = re.sub(rf"(%[\w.]+) = {form} (\w+) ([%@][\w.]+), (\S+)", load, text)
    fields = {f"at_{name}": place for name, place in FIELD.items()}
    return Template(text).substitute(fields, **values)


def pool_text(host: Host, futex: bool) -> str:
    """The text of the pool."""
    declaration, pause = _PAUSE.get(host.architecture, ("", ""))
    parts = (
        declaration,
        _STATE,
        _WAITING,
        parking_text(host, futex),
        leaving_text(host),
        _RUNNING,
        _MANAGING,
    )
    return filled_in(
        "".join(parts),
        pause=pause,
        most=MOST_THREADS,
        rounds=ROUNDS,
        signal_bytes=MOST_THREADS * ROUNDS * 64,
        busy=BUSY,
        no_workers=NO_WORKERS,
    )


# @call holds what a worker reads at the start of a call on one cache line: the word, the program,
# the number of the last barrier and the caller's core. What workers write lies elsewhere.
_STATE = """
@call = internal global [4 x i64] zeroinitializer, align 64
@remaining = internal global i64 0, align 64
@parked = internal global i64 0, align 64
@owner = internal global i32 0, align 64
@alive = internal global i64 0, align 64
@threads = internal global i64 1, align 64
@idle_spins = internal global i64 0
@spins = internal global i64 0
@signals = internal global [$most x [$rounds x [8 x i64]]] zeroinitializer, align 64
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)
"""

_WAITING = """
declare i32 @sched_yield()

; One look in vain: pause, and past so many looks let other threads have the core.
define internal i64 @patience(i64 %looks) {
  $pause
  %more = add i64 %looks, 1
  %most = load i64, ptr @spins
  %enough = icmp ugt i64 %more, %most
  br i1 %enough, label %yield, label %done
yield:
  %ignored = call i32 @sched_yield()
  br label %done
done:
  ret i64 %more
}

; All threads of the call are here once this returns.
define internal void @barrier(i64 %thread, i64 %threads, i64 %number) {
entry:
  br label %round
round:
  %r = phi i64 [0, %entry], [%r.next, %told]
  %distance = phi i64 [1, %entry], [%distance.next, %told]
  %more = icmp ult i64 %distance, %threads
  br i1 %more, label %tell, label %done
tell:
  %sum = add i64 %thread, %distance
  %past = icmp uge i64 %sum, %threads
  %wrapped = sub i64 %sum, %threads
  %other = select i1 %past, i64 %wrapped, i64 %sum
  %theirs = getelementptr [$rounds x [8 x i64]], ptr @signals, i64 %other, i64 %r
  store atomic i64 %number, ptr %theirs release, align 8
  %mine = getelementptr [$rounds x [8 x i64]], ptr @signals, i64 %thread, i64 %r
  br label %look
look:
  %looks = phi i64 [0, %tell], [%looks.next, %wait]
  %heard = load atomic i64, ptr %mine acquire, align 8
  %enough = icmp uge i64 %heard, %number
  br i1 %enough, label %told, label %wait
wait:
  %looks.next = call i64 @patience(i64 %looks)
  br label %look
told:
  %r.next = add i64 %r, 1
  %distance.next = shl i64 %distance, 1
  br label %round
done:
  ret void
}

; A worker's wait for a word other than the last one: spin so often, then park. Every 64 pauses it
; lets others have the core: on a busy machine that may be the caller, waiting to go on.
define internal i64 @next_word(i64 %thread, i64 %last, i64 %spins) {
entry:
  br label %look
look:
  %looks = phi i64 [0, %entry], [%looks.next, %wait], [%looks.next, %yield]
  %word = load atomic i64, ptr @call acquire, align 8
  %new = icmp ne i64 %word, %last
  br i1 %new, label %found, label %count
count:
  %looks.next = add i64 %looks, 1
  %enough = icmp ugt i64 %looks.next, %spins
  br i1 %enough, label %bed, label %wait
wait:
  $pause
  %phase = and i64 %looks, 63
  %its.time = icmp eq i64 %phase, 63
  br i1 %its.time, label %yield, label %look
yield:
  %unused.yield = call i32 @sched_yield()
  br label %look
bed:
  %bit = shl i64 1, %thread
  %unused = atomicrmw or ptr @parked, i64 %bit seq_cst
  br label %asleep
asleep:
  %word.now = load atomic i64, ptr @call seq_cst, align 8
  %new.now = icmp ne i64 %word.now, %last
  br i1 %new.now, label %up, label %sleep
sleep:
  call void @park(i64 %last, i64 %bit)
  br label %asleep
up:
  %others = xor i64 %bit, -1
  %unused.too = atomicrmw and ptr @parked, i64 %others seq_cst
  ret i64 %word.now
found:
  ret i64 %word
}

; Change the word, and wake those of the workers in `mask` that are parked.
define internal void @publish(i64 %threads, i64 %mask) {
  %old = load i64, ptr @call
  %one.more = add i64 %old, 1
  %number = and i64 %one.more, 4294967295
  %high = shl i64 %threads, 32
  %word = or i64 %high, %number
  %unused = atomicrmw xchg ptr @call, i64 %word seq_cst
  %parked = load atomic i64, ptr @parked seq_cst, align 8
  %asked = and i64 %parked, %mask
  %any = icmp ne i64 %asked, 0
  br i1 %any, label %wake, label %done
wake:
  call void @unpark(i64 %mask)
  br label %done
done:
  ret void
}
"""

_RUNNING = """
; One thread's way along the tape; returns the number of the last barrier.
define internal i64 @execute(ptr %program, i64 %thread, i64 %threads, i64 %barriers) {
entry:
  %entries = word ptr %program, $at_entries
  %count = word i64 %program, $at_count
  %slots = word ptr %program, $at_slots
  %several = icmp ne i64 %threads, 1
  %first = icmp eq i64 %thread, 0
  br label %head
head:
  %i = phi i64 [0, %entry], [%i.next, %next]
  %number = phi i64 [%barriers, %entry], [%number.after, %next]
  %more = icmp ult i64 %i, %count
  br i1 %more, label %body, label %done
body:
  %e = getelementptr [3 x i64], ptr %entries, i64 %i
  %flags = word i64 %e, 2
  %barrier.flag = and i64 %flags, 1
  %asked = icmp ne i64 %barrier.flag, 0
  %waits = and i1 %asked, %several
  br i1 %waits, label %barrier, label %met
barrier:
  %number.next = add i64 %number, 1
  call void @barrier(i64 %thread, i64 %threads, i64 %number.next)
  br label %met
met:
  %number.met = phi i64 [%number, %body], [%number.next, %barrier]
  %stop.flag = and i64 %flags, 4
  %may.stop = icmp ne i64 %stop.flag, 0
  br i1 %may.stop, label %status, label %go
status:
  %status.block = word ptr %slots, 1
  %failure = load i64, ptr %status.block
  %failed = icmp ne i64 %failure, 0
  br i1 %several, label %agree, label %agreed
agree: ; no thread goes on, and perhaps fails, before all have looked
  %number.more = add i64 %number.met, 1
  call void @barrier(i64 %thread, i64 %threads, i64 %number.more)
  br label %agreed
agreed:
  %number.agreed = phi i64 [%number.met, %status], [%number.more, %agree]
  br i1 %failed, label %done, label %go
go:
  %number.after = phi i64 [%number.met, %met], [%number.agreed, %agreed]
  %alone.flag = and i64 %flags, 2
  %for.all = icmp eq i64 %alone.flag, 0
  %runs = or i1 %for.all, %first
  br i1 %runs, label %run, label %next
run:
  %kernel = word ptr %e, 0
  %args = word ptr %e, 1
  %sharing = select i1 %for.all, i64 %threads, i64 1
  call void %kernel(ptr %slots, ptr %args, i64 %thread, i64 %sharing)
  br label %next
next:
  %i.next = add i64 %i, 1
  br label %head
done:
  %number.last = phi i64 [%number, %head], [%number.agreed, %agreed]
  ret i64 %number.last
}

; Run a program that is ours: with the pool, or alone where that is taken or not wanted.
define i32 @gradwalk_perform(ptr %program) {
entry:
  %most = word i64 %program, $at_most_threads
  %single = icmp eq i64 %most, 1
  br i1 %single, label %alone, label %ask
ask:
  %all.now = load i64, ptr @threads
  %no.workers = icmp eq i64 %all.now, 1
  br i1 %no.workers, label %alone, label %take
take:
  %pair = cmpxchg ptr @owner, i32 0, i32 1 acquire monotonic
  %taken = extractvalue { i32, i1 } %pair, 1
  br i1 %taken, label %own, label %alone
own:
  %all = load i64, ptr @threads
  %unlimited = icmp eq i64 %most, 0
  %fewer = call i64 @llvm.umin.i64(i64 %most, i64 %all)
  %threads = select i1 %unlimited, i64 %all, i64 %fewer
  %helpers = sub i64 %threads, 1
  %alive = load atomic i64, ptr @alive acquire, align 8
  %enough = icmp uge i64 %alive, %helpers
  br i1 %enough, label %together, label %lacking
lacking:
  store atomic i32 0, ptr @owner release, align 4
  ret i32 $no_workers
together:
  %program.at = getelementptr i64, ptr @call, i64 1
  store ptr %program, ptr %program.at
  store atomic i64 %helpers, ptr @remaining monotonic, align 8
  %beyond = shl i64 -1, %helpers
  %below = xor i64 %beyond, -1
  %mask = shl i64 %below, 1
  %barriers.at = getelementptr i64, ptr @call, i64 2
  %barriers = load i64, ptr %barriers.at
  %core.at = getelementptr i64, ptr @call, i64 3
  %core = call i64 @core()
  store i64 %core, ptr %core.at
  call void @publish(i64 %threads, i64 %mask)
  %after = call i64 @execute(ptr %program, i64 0, i64 %threads, i64 %barriers)
  br label %look
look:
  %looks = phi i64 [0, %together], [%looks.next, %wait]
  %left = load atomic i64, ptr @remaining acquire, align 8
  %all.done = icmp eq i64 %left, 0
  br i1 %all.done, label %done, label %wait
wait:
  %looks.next = call i64 @patience(i64 %looks)
  br label %look
done:
  store i64 %after, ptr %barriers.at
  store atomic i32 0, ptr @owner release, align 4
  ret i32 0
alone:
  %unused = call i64 @execute(ptr %program, i64 0, i64 1, i64 0)
  ret i32 0
}
declare i64 @llvm.umin.i64(i64, i64)

; A program is run by one thread at a time: its slots and its arena are one.
define i32 @gradwalk_take(ptr %program) {
  %running = getelementptr i64, ptr %program, i64 $at_running
  %pair = cmpxchg ptr %running, i32 0, i32 1 acquire monotonic
  %taken = extractvalue { i32, i1 } %pair, 1
  %refusal = select i1 %taken, i32 0, i32 $busy
  ret i32 %refusal
}
define void @gradwalk_leave(ptr %program) {
  %running = getelementptr i64, ptr %program, i64 $at_running
  store atomic i32 0, ptr %running release, align 4
  ret void
}
define i32 @gradwalk_run(ptr %program) {
  %refusal = call i32 @gradwalk_take(ptr %program)
  %ours = icmp eq i32 %refusal, 0
  br i1 %ours, label %run, label %refuse
run:
  %result = call i32 @gradwalk_perform(ptr %program)
  call void @gradwalk_leave(ptr %program)
  ret i32 %result
refuse:
  ret i32 %refusal
}

; A worker's life. The word it is born with is not for it; a word with the sign bit set sends the
; workers from its number of threads on home.
define ptr @gradwalk_worker(ptr %given) {
entry:
  %thread = ptrtoint ptr %given to i64
  %word.first = load atomic i64, ptr @call acquire, align 8
  %unused = atomicrmw add ptr @alive, i64 1 seq_cst
  br label %rest
rest:
  %word.last = phi i64 [%word.first, %entry], [%word, %idle], [%word, %run]
  %busy.lately = phi i1 [true, %entry], [false, %idle], [true, %run]
  %most.spins = load i64, ptr @idle_spins
  %spins = select i1 %busy.lately, i64 %most.spins, i64 0
  %word = call i64 @next_word(i64 %thread, i64 %word.last, i64 %spins)
  %high = lshr i64 %word, 32
  %threads = and i64 %high, 2147483647
  %asked = icmp ult i64 %thread, %threads
  %go.home = icmp slt i64 %word, 0
  br i1 %go.home, label %home, label %stay
stay:
  br i1 %asked, label %work, label %idle
idle:
  br label %rest
work:
  %program = word ptr @call, 1
  %barriers = word i64 @call, 2
  %caller = word i64 @call, 3
  %here = call i64 @core()
  %crowded = icmp eq i64 %caller, %here
  br i1 %crowded, label %move, label %run
move:
  call void @leave_core(i64 %caller)
  br label %run
run:
  %unused.too = call i64 @execute(ptr %program, i64 %thread, i64 %threads, i64 %barriers)
  %unused.left = atomicrmw sub ptr @remaining, i64 1 release
  br label %rest
home:
  br i1 %asked, label %idle, label %end
end:
  %unused.gone = atomicrmw sub ptr @alive, i64 1 release
  ret ptr null
}
"""

# For thread_pool.py, which holds its own lock. Only the owner of the pool changes its workers.
_MANAGING = """
define i32 @gradwalk_own() {
  %pair = cmpxchg ptr @owner, i32 0, i32 1 acquire monotonic
  %taken = extractvalue { i32, i1 } %pair, 1
  %result = zext i1 %taken to i32
  ret i32 %result
}
define void @gradwalk_disown() {
  store atomic i32 0, ptr @owner release, align 4
  ret void
}
define i64 @gradwalk_alive() {
  %alive = load atomic i64, ptr @alive acquire, align 8
  ret i64 %alive
}
define void @gradwalk_limits(i64 %threads, i64 %idle, i64 %spins) {
  store i64 %threads, ptr @threads
  store i64 %idle, ptr @idle_spins
  store i64 %spins, ptr @spins
  ret void
}
define void @gradwalk_dismiss(i64 %keep) {
  %flagged = or i64 %keep, 2147483648
  call void @publish(i64 %flagged, i64 -1)
  ret void
}
; In a forked process there are no workers, and the state may be that of the middle of a call.
define void @gradwalk_forget() {
  store i64 0, ptr @alive
  store i64 0, ptr @parked
  store i64 0, ptr @remaining
  store i32 0, ptr @owner
  call void @llvm.memset.p0.i64(ptr @call, i8 0, i64 32, i1 false)
  call void @llvm.memset.p0.i64(ptr @signals, i8 0, i64 $signal_bytes, i1 false)
  ret void
}
define void @gradwalk_pause(i64 %times) {
entry:
  br label %loop
loop:
  %i = phi i64 [0, %entry], [%i.next, %loop]
  $pause
  %i.next = add i64 %i, 1
  %more = icmp ult i64 %i.next, %times
  br i1 %more, label %loop, label %done
done:
  ret void
}
"""
