"""Keeping workers off the caller's core, as LLVM text.

A worker that finds itself there goes to another core: the system's own balancing leaves two threads
that wait for one another where they are, sometimes for good, and then they take turns instead of
working side by side. The mask of allowed cores is changed for a moment only, and only then.
"""

from __future__ import annotations

from gradwalk.compiler.backends.llvm.target import Host


def leaving_text(host: Host) -> str:
    """`@core`, where this thread runs (−1: not known), and `@leave_core`."""
    return _LINUX if host.is_linux else _ELSEWHERE


_LINUX = """
declare i32 @sched_getcpu()
declare i32 @sched_getaffinity(i32, i64, ptr)
declare i32 @sched_setaffinity(i32, i64, ptr)

define internal i64 @core() {
  %core = call i32 @sched_getcpu()
  %wide = sext i32 %core to i64
  ret i64 %wide
}
define internal void @leave_core(i64 %core) noinline {
entry:
  %allowed = alloca [16 x i64], align 8
  %others = alloca [16 x i64], align 8
  %known = icmp ult i64 %core, 1024
  br i1 %known, label %ask, label %done
ask:
  call void @llvm.memset.p0.i64(ptr %allowed, i8 0, i64 128, i1 false)
  call void @llvm.memset.p0.i64(ptr %others, i8 0, i64 128, i1 false)
  %size = call i32 @sched_getaffinity(i32 0, i64 128, ptr %allowed)
  %failed = icmp slt i32 %size, 0
  br i1 %failed, label %done, label %clear
clear:
  %again = call i32 @sched_getaffinity(i32 0, i64 128, ptr %others)
  %place = lshr i64 %core, 6
  %within = and i64 %core, 63
  %bit = shl i64 1, %within
  %kept = xor i64 %bit, -1
  %at = getelementptr i64, ptr %others, i64 %place
  %word = load i64, ptr %at
  %word.left = and i64 %word, %kept
  store i64 %word.left, ptr %at
  ; fails, and changes nothing, if no core is left
  %moved = call i32 @sched_setaffinity(i32 0, i64 128, ptr %others)
  %back = call i32 @sched_setaffinity(i32 0, i64 128, ptr %allowed)
  br label %done
done:
  ret void
}
"""

_ELSEWHERE = """
define internal i64 @core() {
  ret i64 -1
}
define internal void @leave_core(i64 %core) {
  ret void
}
"""
