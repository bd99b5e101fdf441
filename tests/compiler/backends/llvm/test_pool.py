"""The thread pool: threads claim shares of a tape, meet, adapt to a busy machine, and sleep."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import gradwalk as gw
from gradwalk.compiler.backends.llvm import target
from gradwalk.compiler.backends.llvm.runtime import tape_loop, thread_pool
from gradwalk.compiler.backends.llvm.runtime.tape import ALONE, BARRIER, Expected, Tape, TapeEntry
from tests.compiler.abi_kernels import kernels

needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")


@pytest.fixture(autouse=True)
def as_before(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Calls use all their threads, however busy the machine is: tests count them."""
    before = thread_pool._wanted
    monkeypatch.setattr(thread_pool, "LATE_SECONDS", 0)
    thread_pool.set_num_threads(thread_pool.get_num_threads())
    yield
    monkeypatch.undo()
    thread_pool.set_num_threads(target.usable_cores())
    thread_pool._wanted = before


def scale_tape(count: int, threads: int = 0) -> Tape:
    vector = [Expected(slot, np.float64, (count,), writable=slot == 3) for slot in (2, 3)]
    entry = TapeEntry(kernels()["scale"], [2, 0, 3, 0, count])
    return Tape([entry], 4, arrays=vector, threads=threads, keep=kernels())


def turning_tape(count: int, turns: int) -> tuple[Tape, np.ndarray, np.ndarray]:
    """x and y are turned round into each other, with a meeting before each turn: one thread that
    goes on too early reads what is not there yet."""
    x, y = np.arange(count), np.zeros(count, np.int64)
    to_y = TapeEntry(kernels()["turn_round"], [2, 0, 3, 0, count], BARRIER)
    to_x = TapeEntry(kernels()["turn_round"], [3, 0, 2, 0, count], BARRIER)
    tape = Tape([to_y, to_x] * (turns // 2), 4, keep=(kernels(), x, y))
    tape.slots[2:] = x.ctypes.data, y.ctypes.data
    return tape, x, y


def counting_tape(entries: list[int], threads: int = 0) -> tuple[Tape, np.ndarray]:
    """Entries with these flags, each adding 1 to counts[thread]; counts[63] is how many ran."""
    counts = np.zeros(64, np.int64)
    kernel = kernels()["count_up"]
    made = [TapeEntry(kernel, [2, 0], flags) for flags in entries]
    tape = Tape(made, 3, threads=threads, keep=(kernels(), counts))
    tape.slots[2] = counts.ctypes.data
    return tape, counts


def long_tape(seconds: float, threads: int = 0) -> Tape:
    """A tape that runs for about so long."""
    kernel = kernels()["wait_long"]
    begin = time.perf_counter()
    Tape([TapeEntry(kernel, [1_000_000])], 2, threads=1, keep=kernels()).call()
    turns = int(1_000_000 * seconds / (time.perf_counter() - begin))
    return Tape([TapeEntry(kernel, [turns])], 2, threads=threads, keep=kernels())


@pytest.mark.parametrize("threads", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("count", [0, 1, 7, 17, 100_003])
def test_results_do_not_depend_on_the_threads(threads: int, count: int) -> None:
    thread_pool.set_num_threads(threads)
    x, out = np.random.default_rng(0).standard_normal(count), np.zeros(count)
    scale_tape(count).call(x, out)
    np.testing.assert_array_equal(out, 2 * x + 1)


@pytest.mark.parametrize("threads", [1, 2, 3, 5, 8])
def test_everybody_runs_every_entry(threads: int) -> None:
    thread_pool.set_num_threads(threads)
    tape, counts = counting_tape([0, BARRIER, BARRIER, 0])
    for _ in range(10):
        tape.call()
    assert counts[:threads].tolist() == [40] * threads
    assert not counts[threads:63].any()
    assert counts[63] == threads


@pytest.mark.parametrize("threads", [1, 2, 3, 4, 5, 6])
def test_nobody_passes_a_meeting_early(threads: int) -> None:
    thread_pool.set_num_threads(threads)
    count, turns, calls = 997, 40, 30
    tape, x, _ = turning_tape(count, turns)
    for _ in range(calls):
        tape.call()
    np.testing.assert_array_equal(x, np.arange(count) + turns * calls)


def test_an_entry_for_one_thread() -> None:
    thread_pool.set_num_threads(3)
    tape, counts = counting_tape([ALONE, BARRIER | ALONE, BARRIER])
    tape.call()
    assert counts[:4].tolist() == [3, 1, 1, 0]


def test_a_tape_may_want_fewer_threads() -> None:
    thread_pool.set_num_threads(4)
    few, few_counts = counting_tape([0, BARRIER], threads=2)
    many, many_counts = counting_tape([0, BARRIER])
    for _ in range(20):  # in turn, so that those not asked for one call are asked for the next
        few.call()
        many.call()
    assert few_counts[:5].tolist() == [40, 40, 0, 0, 0]
    assert many_counts[:5].tolist() == [40, 40, 40, 40, 0]


def test_the_number_of_threads_changes() -> None:
    tape, counts = counting_tape([BARRIER])
    for threads in (1, 4, 2, 5, 1, 3):
        thread_pool.set_num_threads(threads)
        assert thread_pool.get_num_threads() == threads
        counts[:] = 0
        tape.call()
        assert counts[63] == threads
        assert thread_pool.native().alive() == threads - 1
    thread_pool.stop()
    assert thread_pool.native().alive() == 0
    tape.call()
    assert counts[63] == 3


def test_it_is_the_number_of_gradwalk() -> None:
    before = gw.get_num_threads()
    try:
        gw.set_num_threads(3)
        assert thread_pool.get_num_threads() == 3
    finally:
        gw.set_num_threads(before)


def test_many_threads_on_few_cores() -> None:
    threads = min(16, tape_loop.MOST_THREADS)
    thread_pool.set_num_threads(threads)
    tape, x, _ = turning_tape(501, 20)
    for _ in range(5):
        tape.call()
    np.testing.assert_array_equal(x, np.arange(501) + 100)


def test_more_threads_than_there_can_be() -> None:
    thread_pool.set_num_threads(1000)
    assert thread_pool.get_num_threads() == tape_loop.MOST_THREADS


def test_calls_after_sleeping() -> None:
    thread_pool.set_num_threads(3)
    tape, counts = counting_tape([0, BARRIER])
    for pause in (0, 1e-4, 3e-4, 1e-3, 2e-2, 3e-4, 0):  # around the moment at which they park
        time.sleep(pause)
        tape.call()
    assert counts[:3].tolist() == [14] * 3


@pytest.mark.parametrize("seed", range(3))
def test_thousands_of_short_calls(seed: int) -> None:
    """Of different tapes on different numbers of threads, some of which sleep or are missing."""
    source = random.Random(seed)
    tapes = [turning_tape(source.choice([1, 7, 301]), source.choice([2, 6, 20])) for _ in range(4)]
    calls = [0] * len(tapes)
    for turn in range(1500):
        if turn % 150 == 0:
            thread_pool.set_num_threads(source.randint(1, 6))
        if turn % 400 == 0:
            thread_pool.stop()
        if turn % 97 == 0:
            time.sleep(source.choice([0, 2e-4, 1e-3]))
        number = source.randrange(len(tapes))
        tapes[number][0].call()
        calls[number] += 1
    for (tape, x, _), count in zip(tapes, calls):
        turns = len(tape._entries)
        np.testing.assert_array_equal(x, np.arange(len(x)) + turns * count)


def test_a_worker_that_never_starts() -> None:
    """A call does not wait for it: others take its shares over."""
    thread_pool.set_num_threads(3)
    thread_pool.stop()
    pool = thread_pool.native()
    pool._hire()
    pool._hire()
    tape, x, _ = turning_tape(301, 10)
    counting, counts = counting_tape([0, BARRIER, ALONE | BARRIER, BARRIER])
    for _ in range(20):
        tape.call()
        counting.call()
    np.testing.assert_array_equal(x, np.arange(301) + 200)
    assert counts[:4].tolist() == [80, 60, 60, 0]
    for thread in (1, 2):  # now they start
        threading.Thread(target=pool._worker, args=(thread,), daemon=True).start()
    tape.call()
    thread_pool.stop()
    assert pool.alive() == 0


def test_slow_workers() -> None:
    """Whoever is slow, and whoever takes over: each share is computed once."""
    thread_pool.set_num_threads(4)
    counts = np.zeros(64, np.int64)
    slow = TapeEntry(kernels()["wait_unless_first"], [30_000])
    count = TapeEntry(kernels()["count_up"], [2, 0], BARRIER)
    alone = TapeEntry(kernels()["count_up"], [2, 0], BARRIER | ALONE)
    tape = Tape([slow, count, slow, count, alone, slow], 3, keep=(kernels(), counts))
    tape.slots[2] = counts.ctypes.data
    for _ in range(100):
        tape.call()
    assert counts[:5].tolist() == [300, 200, 200, 200, 0]


def test_late_calls_use_fewer_threads_and_come_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(thread_pool, "LATE_SECONDS", 1e-5)
    thread_pool.set_num_threads(2)
    counts = np.zeros(64, np.int64)
    turns = int(long_tape(0.005).arguments[0])
    entries = [
        TapeEntry(kernels()["wait_unless_first"], [turns]),
        TapeEntry(kernels()["count_up"], [2, 0], BARRIER),
    ]
    tape = Tape(entries, 3, keep=(kernels(), counts))
    tape.slots[2] = counts.ctypes.data
    deadline = time.monotonic() + 60
    for threads in (2, 1, 2, 1):  # in turn: the caller waits for the other one, which is slow
        while counts[63] != threads:
            assert time.monotonic() < deadline
            tape.call()


def test_tapes_of_two_python_threads() -> None:
    """One has the pool, the other runs alone; each gets its own results."""
    thread_pool.set_num_threads(2)
    failures: list[str] = []

    def work(seed: int) -> None:
        count, turns = 301, 10
        tape, x, _ = turning_tape(count, turns)
        x += seed
        for call in range(1, 200):
            tape.call()
            if not np.array_equal(x, np.arange(count) + seed + call * turns):
                failures.append(f"{seed} at {call}")
                return

    workers = [threading.Thread(target=work, args=(1000 * k,)) for k in range(3)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(60)
    assert failures == []


def test_one_tape_of_several_python_threads() -> None:
    """They take turns: no call is lost and none is mixed with another."""
    thread_pool.set_num_threads(2)
    tape, x, _ = turning_tape(301, 10)
    calls = 100

    def work() -> None:
        for _ in range(calls):
            tape.call()

    workers = [threading.Thread(target=work) for _ in range(3)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(60)
    np.testing.assert_array_equal(x, np.arange(301) + 3 * calls * 10)


@pytest.mark.slow
def test_threads_are_changed_while_others_call() -> None:
    tape, x, _ = turning_tape(301, 10)
    calls = 0
    done = threading.Event()

    def work() -> None:
        nonlocal calls
        while not done.is_set():
            tape.call()
            calls += 1

    worker = threading.Thread(target=work)
    worker.start()
    for threads in (1, 3, 2, 4, 1, 2) * 3:
        thread_pool.set_num_threads(threads)
        time.sleep(0.002)
    done.set()
    worker.join(60)
    assert calls > 0
    np.testing.assert_array_equal(x, np.arange(301) + calls * 10)


def test_other_python_threads_run_meanwhile() -> None:
    tape = long_tape(1.0)
    worker = threading.Thread(target=tape.call)
    worker.start()
    turns = 0
    while worker.is_alive():
        turns += 1
        time.sleep(0.001)
    worker.join()
    assert turns > 3


@pytest.mark.skipif(not hasattr(signal, "SIGUSR1"), reason="no such signal")
def test_a_signal_is_handled_after_the_call() -> None:
    thread_pool.set_num_threads(2)
    thread_pool.start()
    counts = np.zeros(64, np.int64)
    wait = int(long_tape(0.1).arguments[0])
    entries = [TapeEntry(kernels()["wait_long"], [wait]), TapeEntry(kernels()["count_up"], [2, 0])]
    tape = Tape(entries, 3, keep=(kernels(), counts))
    tape.slots[2] = counts.ctypes.data

    def disturb() -> None:
        while not tape._program[tape_loop.FIELD["running"]]:
            time.sleep(0.001)
        os.kill(os.getpid(), signal.SIGUSR1)

    heard: list[int] = []
    before = signal.signal(signal.SIGUSR1, lambda *_: heard.append(int(counts[0])))
    other = threading.Thread(target=disturb)
    other.start()
    try:
        tape.call()
    finally:
        other.join()
        signal.signal(signal.SIGUSR1, before)
    assert heard == [1]  # by then the last entry had run


def child_does(work: object) -> int:
    """The exit status of a forked child that does this."""
    process = os.fork()
    if process == 0:
        status = 1
        try:
            status = 0 if work() else 2  # type: ignore[operator]
        finally:
            os._exit(status)
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        found, status = os.waitpid(process, os.WNOHANG)
        if found:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.005)
    os.kill(process, signal.SIGKILL)
    os.waitpid(process, 0)
    pytest.fail("the child hangs")


@needs_fork
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_the_child_of_a_fork_has_a_pool_of_its_own() -> None:
    thread_pool.set_num_threads(3)
    tape, counts = counting_tape([0, BARRIER])
    tape.call()

    def in_child() -> bool:
        if thread_pool.native().alive() != 0:
            return False
        tape.call()
        return counts[:4].tolist() == [4, 4, 4, 0] and thread_pool.native().alive() == 2

    assert child_does(in_child) == 0
    tape.call()  # and the parent goes on
    assert counts[:4].tolist() == [4, 4, 4, 0]


@needs_fork
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_a_fork_in_the_middle_of_a_call() -> None:
    """Another thread is running a tape, with the pool: the child can run it all the same."""
    thread_pool.set_num_threads(2)
    tape, x, _ = turning_tape(301, 400)
    done = threading.Event()

    def work() -> None:
        while not done.is_set():
            tape.call()

    worker = threading.Thread(target=work)
    worker.start()
    try:
        for _ in range(5):
            time.sleep(0.002)

            def in_child() -> bool:
                x[:] = np.arange(301)
                tape.call()
                return bool(np.array_equal(x, np.arange(301) + 400))

            assert child_does(in_child) == 0
    finally:
        done.set()
        worker.join()


SCRIPT = """
import time
import numpy as np
from gradwalk.compiler.backends.llvm.runtime import thread_pool as pool
from tests.compiler.backends.llvm import test_pool

pool.set_num_threads(3)
for threads in (3, 5, 2):
    pool.set_num_threads(threads)
    tape, x, _ = test_pool.turning_tape(301, 10)
    for _ in range(20):
        tape.call()
    assert np.array_equal(x, np.arange(301) + 200), threads
time.sleep({pause})
tape.call()
time.sleep({pause})
"""


@pytest.mark.parametrize("how", ["native", "python"])
@pytest.mark.parametrize("pause", [0, 0.02])
def test_a_process_ends_with_its_workers(how: str, pause: float) -> None:
    """Asleep or still spinning, started natively or, as on other systems, by Python."""
    environment = os.environ | {"GRADWALK_POOL": how}
    script = SCRIPT.format(pause=pause)
    subprocess.run([sys.executable, "-c", script], check=True, timeout=60, env=environment)


@needs_fork
def test_a_fork_where_python_starts_the_workers() -> None:
    script = "from tests.compiler.backends.llvm.test_pool import *\n"
    script += "thread_pool.LATE_SECONDS = 0\n"
    script += "test_the_child_of_a_fork_has_a_pool_of_its_own()\n"
    script += "test_a_fork_in_the_middle_of_a_call()\n"
    environment = os.environ | {"GRADWALK_POOL": "python"}
    subprocess.run([sys.executable, "-c", script], check=True, timeout=60, env=environment)


def test_cores() -> None:
    assert 1 <= target.usable_cores() <= (os.cpu_count() or 1)


FIRST_USE = """
import threading
import numpy as np
from tests.compiler.backends.llvm import test_pool

failures = []
gate = threading.Barrier(4)


def work():
    gate.wait()
    for _ in range(5):
        tape, x, _ = test_pool.turning_tape(101, 4)
        for call in range(1, 20):
            tape.call()
            if not np.array_equal(x, np.arange(101) + 4 * call):
                failures.append(call)


threads = [threading.Thread(target=work) for _ in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
assert not failures, failures
"""


@pytest.mark.parametrize("cached", [True, False])
def test_several_python_threads_are_the_first_to_use_it(cached: bool, tmp_path: Path) -> None:
    environment = os.environ | {"GRADWALK_CACHE": str(tmp_path / "cache") if cached else ""}
    subprocess.run([sys.executable, "-c", FIRST_USE], check=True, timeout=60, env=environment)
