"""How a worker sleeps and is woken, as LLVM text: `@park` and `@unpark`."""

from __future__ import annotations

from string import Template

from gradwalk.compiler.backends.llvm.target import Host

_FUTEX = {"x86_64": 202, "aarch64": 98}  # the number of the system call


def has_futex(host: Host) -> bool:
    """Whether workers can be native threads that park on a futex; else Python starts and parks."""
    return host.is_linux and host.architecture in _FUTEX


def parking_text(host: Host, futex: bool) -> str:
    """By the system's futex, or by two Python functions."""
    if not futex:
        return _PYTHON_PARKING
    return Template(_FUTEX_PARKING).substitute(futex_call=_FUTEX[host.architecture])


# The futex is the low half of @call, the number of the call; each waiter has a bit of 32.
_FUTEX_PARKING = """
declare i64 @syscall(i64, ...)

define internal i64 @futex_bits(i64 %bits) {
  %high = lshr i64 %bits, 32
  %both = or i64 %bits, %high
  %low = and i64 %both, 4294967295
  ret i64 %low
}
define internal void @park(i64 %last, i64 %bit) noinline {
  %low = and i64 %last, 4294967295
  %bits = call i64 @futex_bits(i64 %bit)
  %unused = call i64 (i64, ...) @syscall(i64 $futex_call, ptr @call, i64 137, i64 %low,
                                    ptr null, ptr null, i64 %bits) ; FUTEX_WAIT_BITSET, private
  ret void
}
define internal void @unpark(i64 %mask) noinline {
  %bits = call i64 @futex_bits(i64 %mask)
  %unused = call i64 (i64, ...) @syscall(i64 $futex_call, ptr @call, i64 138, i64 2147483647,
                                    ptr null, ptr null, i64 %bits) ; FUTEX_WAKE_BITSET, private
  ret void
}
"""

# Elsewhere two Python functions wait and wake.
_PYTHON_PARKING = """
declare void @gradwalk_park(ptr, i64)
declare void @gradwalk_unpark()

define internal void @park(i64 %last, i64 %bit) {
  call void @gradwalk_park(ptr @call, i64 %last)
  ret void
}
define internal void @unpark(i64 %mask) {
  call void @gradwalk_unpark()
  ret void
}
"""
