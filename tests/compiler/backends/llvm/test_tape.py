"""Calling a tape: which arrays it takes, and what it does with others."""

from __future__ import annotations

import gc
import pickle
import sys
import weakref
from typing import Any

import numpy as np
import pytest

from gradwalk.compiler.backends.llvm.runtime import thread_pool
from gradwalk.compiler.backends.llvm.runtime.tape import Expected, Tape, TapeEntry
from tests.compiler.abi_kernels import kernels


def scale(count: int, **options: Any) -> Tape:
    """out = 2 x + 1."""
    vector = [Expected(slot, np.float64, (count,), writable=slot == 3) for slot in (2, 3)]
    entry = TapeEntry(kernels()["scale"], [2, 0, 3, 0, count])
    return Tape([entry], 4, arrays=vector, keep=kernels(), **options)


def check_only(*expected: Expected, **options: Any) -> Tape:
    return Tape([], 2 + len(expected), arrays=expected, **options)


def test_a_call() -> None:
    tape = scale(5)
    for seed in range(3):
        x, out = np.random.default_rng(seed).standard_normal(5), np.zeros(5)
        assert tape.call(x, out) is None
        np.testing.assert_array_equal(out, 2 * x + 1)
        assert tape.slots[2:].tolist() == [x.ctypes.data, out.ctypes.data]


def test_blocks_are_changed_in_place() -> None:
    tape = scale(6)
    x, out = np.arange(6.0), np.zeros(6)
    tape.arguments[:5] = 2, 16, 3, 8, 3  # from x[2:], to out[1:], three numbers
    tape.call(x, out)
    assert out.tolist() == [0, 5, 7, 9, 0, 0]


def test_two_tapes_of_one_step_share_their_slots() -> None:
    first = scale(3)
    again = TapeEntry(kernels()["scale"], [3, 0, 3, 0, 3])
    second = Tape([again], first.slots, keep=kernels())
    x, out = np.arange(3.0), np.zeros(3)
    first.call(x, out)
    second.call()
    np.testing.assert_array_equal(out, 2 * (2 * x + 1) + 1)


X = Expected(2, np.float32, (3, 4))
TURNED = Expected(2, np.float32, (4, 3), strides=(4, 16))
OUT = Expected(2, np.float32, (3, 4), writable=True)
ONES = Expected(2, np.float32, (1, 3), strides=(100, 4))


def f32(*shape: int) -> np.ndarray:
    return np.zeros(shape, np.float32)


def read_only() -> np.ndarray:
    array = f32(3, 4)
    array.flags.writeable = False
    return array


@pytest.mark.parametrize(
    ("expected", "array"),
    [
        (X, f32(3, 4)),
        (X, read_only()),
        (X, f32(6, 4)[3:]),
        (TURNED, f32(3, 4).T),
        (OUT, f32(3, 4)),
        (ONES, f32(1, 3)),  # the stride of a dimension of one means nothing
        (Expected(2, np.float64, ()), np.zeros(())),
        (Expected(2, np.bool_, (0,)), np.zeros(0, bool)),
        (X, pickle.loads(pickle.dumps(f32(3, 4)))),  # a dtype object of its own
    ],
)
def test_arrays_that_fit(expected: Expected, array: np.ndarray) -> None:
    assert expected.misfit(array) is None
    tape = check_only(expected)
    tape.call(array)
    assert tape.slots[2] == array.ctypes.data


@pytest.mark.parametrize(
    ("expected", "array", "why"),
    [
        (X, np.zeros((3, 4)), "has dtype float64, not float32"),
        (X, np.zeros((3, 4), ">f4"), "has dtype >f4"),
        (X, f32(4, 3), r"has shape \(4, 3\), not \(3, 4\)"),
        (X, f32(12), r"has shape \(12,\)"),
        (X, f32(3, 4, 1), "has shape"),
        (X, f32(4, 3).T, "is not contiguous"),
        (X, f32(3, 8)[:, ::2], "is not contiguous"),
        (X, f32(3, 4).view(np.recarray), "is a recarray, not an array"),
        (X, [[0.0]], "is a list, not an array"),
        (X, None, "is a NoneType"),
        (TURNED, f32(4, 3), r"has strides \(12, 4\), not \(4, 16\)"),
        (OUT, read_only(), "is read-only"),
        (X, np.zeros(49, np.uint8)[1:].view("f4").reshape(3, 4), "is not aligned"),
    ],
)
def test_arrays_that_do_not_fit(expected: Expected, array: Any, why: str) -> None:
    tape = check_only(expected)
    with pytest.raises(ValueError, match=f"array 0 {why}"):
        tape.call(array)
    assert tape.slots[2] == 0
    with pytest.raises(ValueError, match=f"array 0 {why}"):  # it is not left taken
        tape.call(array)


def test_too_many_and_too_few() -> None:
    tape = check_only(X)
    for arrays in ((), (f32(3, 4), f32(3, 4))):
        with pytest.raises(ValueError, match=f"1 arrays are expected, not {len(arrays)}"):
            tape.call(*arrays)
    with pytest.raises(TypeError, match="keyword"):
        tape.call(x=f32(3, 4))


def test_what_does_not_fit_is_handed_on() -> None:
    seen = []

    def misfit(*arrays: np.ndarray) -> str:
        seen.append(arrays)
        return "compiled for the new shape"

    tape = check_only(X, misfit=misfit)
    other = f32(5, 4)
    assert tape.call(other) == "compiled for the new shape"
    assert len(seen) == 1
    assert seen[0][0] is other
    assert tape.call(f32(3, 4)) is None  # and it is not left taken


def test_an_error_in_there_comes_out() -> None:
    def misfit(*arrays: np.ndarray) -> None:
        raise KeyError("of my own")

    with pytest.raises(KeyError, match="of my own"):
        check_only(X, misfit=misfit).call()


def test_the_call_keeps_what_it_needs() -> None:
    keep = f32(1000).view(type("Arena", (np.ndarray,), {}))
    gone = weakref.ref(keep)
    call = check_only(X, keep=keep).call
    del keep
    gc.collect()
    call(f32(3, 4))
    assert gone() is not None
    del call
    assert gone() is None  # at once: there is no cycle


def test_no_reference_is_lost_or_kept() -> None:
    x = f32(3, 4)
    tape = check_only(X, misfit=lambda *arrays: None)
    tape.call(x)
    counts = sys.getrefcount(x), sys.getrefcount(thread_pool)
    for _ in range(1000):
        tape.call(x)
        tape.call(x, x)
        tape.call(None)
    assert (sys.getrefcount(x), sys.getrefcount(thread_pool)) == counts


def test_time_by_entry() -> None:
    entries = [TapeEntry(kernels()["wait_long"], [turns]) for turns in (10, 20_000_000)]
    tape = Tape(entries, 3, arrays=[Expected(2, np.float32, (3, 4))], keep=kernels())
    quick, slow = tape.seconds(f32(3, 4))
    assert quick >= 0
    assert slow > 0
    tape.call(f32(3, 4))  # it is as usable as before


def test_an_empty_tape() -> None:
    assert Tape([], 0).call() is None
