"""A forked child computes right results and never hangs, whatever other threads are doing."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gradwalk as gw
from gradwalk.graph import fork_locks

pytestmark = [
    pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork"),
    pytest.mark.filterwarnings("ignore:This process:DeprecationWarning"),
]


def in_child(work: Callable[[], Any], seconds: float = 40) -> str:
    """How a forked child fares that does this: "right", "wrong", "failed" or "hangs"."""
    process = os.fork()
    if process == 0:
        status = 2
        try:
            status = 0 if work() else 1
        finally:
            os._exit(status)
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        found, status = os.waitpid(process, os.WNOHANG)
        if found:
            return {0: "right", 1: "wrong"}.get(os.waitstatus_to_exitcode(status), "failed")
        time.sleep(0.002)
    os.kill(process, signal.SIGKILL)
    os.waitpid(process, 0)
    return "hangs"


def training_step(width: int = 32) -> tuple[Any, Any, Callable[[Any], np.ndarray[Any, Any]]]:
    """A compiled step, its batch, and the first weight after some steps from the start."""
    gw.manual_seed(0)
    model = gw.nn.Sequential(gw.nn.Linear(8, width), gw.nn.Tanh(), gw.nn.Linear(width, 1))
    start = {name: value.clone() for name, value in model.state_dict().items()}
    x = gw.randn(512, 8)

    def new_step() -> Any:
        optimizer = gw.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)

        def train(x: Any) -> Any:
            optimizer.zero_grad()
            loss = (model(x) ** 2).mean()
            loss.backward()
            optimizer.step()
            return loss

        return gw.compile(train)

    def after_three_steps(step: Any) -> np.ndarray[Any, Any]:
        model.load_state_dict(start)
        for _ in range(3):
            step(x)
        return model[0].weight.detach().numpy().copy()

    return new_step, x, after_three_steps


@contextmanager
def busy(work: Callable[[], None]) -> Iterator[None]:
    """Another thread that does this over and over."""
    done = threading.Event()
    begun = threading.Event()

    def go() -> None:
        while not done.is_set():
            begun.set()
            work()

    thread = threading.Thread(target=go)
    thread.start()
    begun.wait()
    try:
        yield
    finally:
        done.set()
        thread.join(60)
    assert not thread.is_alive()


def forks(count: int, work: Callable[[], Any], between: float = 0.003) -> list[str]:
    """How children fare that are forked at different moments."""
    results = []
    for turn in range(count):
        time.sleep(between * (turn % 5))
        results.append(in_child(work))
    return results


def test_after_compiling() -> None:
    new_step, _, steps = training_step()
    step = new_step()
    expected = steps(step)
    for _ in range(3):
        assert in_child(lambda: np.array_equal(steps(new_step()), expected)) == "right"
    step = new_step()
    step(gw.randn(512, 8))

    def grandchild() -> bool:
        return in_child(lambda: np.array_equal(steps(new_step()), expected)) == "right"

    assert in_child(grandchild) == "right"
    assert np.array_equal(steps(new_step()), expected)


def test_while_another_thread_is_in_a_compiled_call() -> None:
    """Its own step runs in the child too: the fork comes between two calls."""
    new_step, x, steps = training_step()
    expected = steps(new_step())
    mine, _, my_steps = training_step(64)
    my_expected = my_steps(mine())
    step = new_step()

    def check() -> bool:
        return np.array_equal(my_steps(mine()), my_expected) and bool(np.isfinite(step(x).item()))

    with busy(lambda: step(x)):
        assert forks(15, check) == ["right"] * 15
    assert np.array_equal(steps(new_step()), expected)


def test_while_another_thread_compiles() -> None:
    new_step, _, steps = training_step()
    expected = steps(new_step())
    widths = iter(range(1000))

    def compile_another() -> None:
        size = 3 + next(widths)
        scale = gw.randn(size, requires_grad=True)
        gw.compile(lambda x: ((x * scale).tanh() + float(size)).sum())(gw.ones(2, size))

    with busy(compile_another):
        assert forks(15, lambda: np.array_equal(steps(new_step()), expected)) == ["right"] * 15


def test_locks_that_are_never_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """A thread may hold them for longer than a fork waits: the child frees them."""
    monkeypatch.setattr(fork_locks, "PATIENCE", 0.05)
    new_step, _, steps = training_step()
    step = new_step()
    expected = steps(step)
    held, done = threading.Event(), threading.Event()

    def hold() -> None:
        taken = [lock for lock in fork_locks._locks() if lock.acquire(timeout=5)]
        held.set()
        done.wait()
        for lock in taken:
            lock.release()

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait()
    try:
        results = [in_child(lambda: np.array_equal(steps(new_step()), expected)) for _ in range(3)]
    finally:
        done.set()
        thread.join()
    assert results == ["right"] * 3
    assert np.array_equal(steps(new_step()), expected)  # and the parent's locks work as before


def test_every_lock_is_free_afterwards() -> None:
    new_step, x, _ = training_step()
    new_step()(x)

    def all_free() -> bool:
        free = [lock.acquire(blocking=False) for lock in fork_locks._locks()]
        return all(free) and len(free) > 5

    assert in_child(all_free) == "right"
    taken = threading.Thread(target=lambda: free_here.append(all_free()))
    free_here: list[bool] = []
    taken.start()
    taken.join()
    assert free_here == [True]
    for lock in fork_locks._locks():  # by the thread that is gone
        lock._at_fork_reinit()


TOGETHER = """
import sys, threading
import numpy as np
import gradwalk as gw

threads, seed = int(sys.argv[1]), int(sys.argv[2])
failures = []
gate = threading.Barrier(threads)


def work(number):
    gate.wait()
    for size in range(3, 9):
        x = gw.tensor(np.arange(60 * size, dtype=np.float32).reshape(60, size) / 100)
        w = gw.tensor(np.full(size, 0.5, np.float32), requires_grad=True)

        @gw.compile
        def loss(x):
            value = ((x * w).tanh() * float(size)).sum()
            value.backward()
            return value

        eager = gw.tensor(w.detach().numpy().copy(), requires_grad=True)
        expected = ((x * eager).tanh() * float(size)).sum()
        expected.backward()
        found = loss(x)
        if not np.allclose(found.item(), expected.item(), rtol=1e-5):
            failures.append((number, size, "value"))
        if not np.allclose(w.grad.numpy(), eager.grad.numpy(), rtol=1e-4):
            failures.append((number, size, "gradient"))


workers = [threading.Thread(target=work, args=(number,)) for number in range(threads)]
for worker in workers:
    worker.start()
for worker in workers:
    worker.join()
assert not failures, failures
"""


@pytest.mark.parametrize("cached", [True, False])
def test_threads_and_processes_compile_at_once(cached: bool, tmp_path: Path) -> None:
    """They share one cache of object code, empty at first."""
    environment = os.environ | {"GRADWALK_CACHE": str(tmp_path / "cache") if cached else ""}
    processes = [
        subprocess.Popen([sys.executable, "-c", TOGETHER, "3", str(seed)], env=environment)
        for seed in range(3)
    ]
    try:
        assert [process.wait(60) for process in processes] == [0, 0, 0]
    finally:
        for process in processes:
            process.kill()


def test_where_python_starts_the_workers() -> None:
    script = "from tests.attack.test_fork import *\n"
    script += "test_after_compiling()\ntest_while_another_thread_is_in_a_compiled_call()\n"
    environment = os.environ | {"GRADWALK_POOL": "python"}
    subprocess.run([sys.executable, "-c", script], check=True, timeout=120, env=environment)
