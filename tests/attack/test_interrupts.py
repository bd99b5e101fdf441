"""Ctrl-C at any moment of a compiled call: the step has not begun or is complete, nothing hangs,
and the next call is right."""

from __future__ import annotations

import functools
import gc
import random
import signal
import sys
import threading
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

import gradwalk as gw

STEPS = 3


class Training:
    """A compiled step with all kinds of state: weights, moments, running means, two generators."""

    def __init__(self, rows: int = 200, device: str = "cpu", backend: str = "llvm") -> None:
        gw.manual_seed(3)
        self.generator = gw.Generator()
        self.generator.manual_seed(5)
        model = gw.nn.Sequential(
            gw.nn.Linear(6, 16), gw.nn.BatchNorm1d(16), gw.nn.Dropout(0.3), gw.nn.Linear(16, 2)
        ).to(device)
        optimizer = gw.optim.Adam(model.parameters(), lr=0.1)
        self.model, self.optimizer = model, optimizer
        self.x = gw.tensor(np.random.default_rng(0).standard_normal((rows, 6)).astype(np.float32))
        self.x = self.x.to(device)

        def train(x: Any) -> Any:
            optimizer.zero_grad()
            loss = (model(x) ** 2).mean() + gw.rand(
                3, generator=self.generator, device=device
            ).sum()
            loss.backward()
            optimizer.step()
            return loss

        self.step = gw.compile(train, backend=backend)

    def state(self) -> list[Any]:
        """All numbers that a step changes. An optimizer that has not begun has zeros."""
        found = [
            t.detach().cpu().numpy().copy()
            for t in (*self.model.parameters(), *self.model.buffers())
        ]
        for parameter in self.model.parameters():
            kept = self.optimizer.state.get(parameter, {})
            for name in ("exp_avg", "exp_avg_sq"):
                zeros = np.zeros(parameter.shape, np.float32)
                found.append(kept[name].cpu().numpy().copy() if kept else zeros)
            found.append(np.array(float(kept["step"]) if kept else 0.0))
        random_states = self.generator.get_state(), gw.get_rng_state()
        return [*found, *map(repr, random_states)]


@functools.cache
def uninterrupted(make: Callable[[], Training]) -> list[list[Any]]:
    """The states after 0, 1, 2, ... steps that nobody interrupts."""
    training = make()
    states = [training.state()]
    for _ in range(STEPS):
        training.step(training.x)
        states.append(training.state())
    return states


def steps_done(state: list[Any], expected: list[list[Any]]) -> int | None:
    """How many steps lead to this state; None if it lies between two."""
    for count, other in enumerate(expected):
        if all(map(np.array_equal, state, other)):
            return count
    return None


class Interrupt:
    """Raise KeyboardInterrupt at the nth moment at which Python looks for signals: when a Python
    function begins, or a builtin returns. n = 0 only counts."""

    def __init__(self, number: int = 0) -> None:
        self.number = number
        self.seen = 0
        self.place = ""

    def __call__(self, frame: Any, event: str, argument: Any) -> None:
        name = getattr(argument, "__name__", "")
        if event not in ("call", "c_return") or name in ("__enter__", "__exit__", "setprofile"):
            return
        self.seen += 1
        waits = signal.getsignal(signal.SIGINT) is not signal.default_int_handler  # in a check
        if 0 < self.number <= self.seen and not waits:
            sys.setprofile(None)
            self.place = f"{event} {name} in {frame.f_code.co_qualname}"
            raise KeyboardInterrupt

    def during(self, work: Callable[[], object]) -> None:
        sys.setprofile(self)
        try:
            work()
        except KeyboardInterrupt:
            pass
        finally:
            sys.setprofile(None)


def problem_after(number: int, warm: bool, make: Callable[[], Training]) -> str | None:
    """What is wrong after an interrupt at this moment of the first or second call."""
    expected = uninterrupted(make)
    training = make()
    if warm:
        training.step(training.x)
    interrupt = Interrupt(number)
    interrupt.during(lambda: training.step(training.x))
    done = steps_done(training.state(), expected)
    if done not in (warm, warm + 1):
        return f"{done} steps done after {interrupt.place}"
    if not gc.isenabled():
        gc.enable()
        return f"no garbage collector after {interrupt.place}"
    results: list[Any] = []
    others = threading.Thread(  # locks that are left taken show in another thread
        target=lambda: results.extend(training.step(training.x) for _ in range(done, STEPS)),
        daemon=True,
    )
    others.start()
    others.join(60)
    if len(results) != STEPS - done:
        return f"hangs or fails after {interrupt.place}"
    if steps_done(training.state(), expected) != STEPS:
        return f"wrong steps after {interrupt.place}"
    return None


def problems(warm: bool, make: Callable[[], Training]) -> dict[int, str]:
    """What is wrong after interrupts at many moments of the first or second call."""
    training = make()
    if warm:
        training.step(training.x)
    counting = Interrupt()
    counting.during(lambda: training.step(training.x))
    moments = list(range(1, counting.seen + 1))
    if len(moments) > 60:  # the last ones are the run
        moments = sorted({*random.Random(0).sample(moments, 12), *moments[-14:]})
    return {n: found for n in moments if (found := problem_after(n, warm, make))}


@pytest.mark.parametrize("warm", [False, True], ids=["first", "later"])
@pytest.mark.parametrize("backend", ["llvm", "numpy"])
def test_an_interrupt_at_any_moment(backend: str, warm: bool) -> None:
    """Trace, passes, plan, LLVM, run: the first call is all of them, a later one is a run."""
    assert problems(warm, partial(Training, backend=backend)) == {}


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="no timers")
def test_signals_while_native_code_runs() -> None:
    """Real ones, mostly inside the native part, also with a handler of the user's."""

    class Alarm(Exception):
        pass

    def ring(*_: Any) -> None:
        raise Alarm

    training = Training(rows=50_000)  # few steps: trained for long, a step changes no bit
    training.step(training.x)
    kept = next(iter(training.optimizer.state.values()))
    weight = training.model[0].weight.detach().numpy()
    count, old = kept["step"], weight.copy()
    before = signal.getsignal(signal.SIGALRM)
    try:
        for turn in range(30):
            signal.signal(signal.SIGALRM, ring if turn % 2 else signal.default_int_handler)
            with pytest.raises(Alarm if turn % 2 else KeyboardInterrupt):
                signal.setitimer(signal.ITIMER_REAL, 0.003 + 0.0007 * turn)
                while True:
                    count, old = kept["step"], weight.copy()
                    training.step(training.x)
            assert (kept["step"] != count) == (weight != old).any()
    finally:
        signal.signal(signal.SIGALRM, before)
    training.step(training.x)


def test_the_first_call_of_the_pool_is_interrupted() -> None:
    """It starts the workers in Python and runs from there: that frame may be interrupted too."""
    from gradwalk.compiler.backends.llvm.runtime import thread_pool

    for number in range(1, 40, 2):
        training = Training(rows=20_000)  # large enough to be shared
        training.step(training.x)
        thread_pool.stop()
        before = training.state()
        interrupt = Interrupt(number)
        interrupt.during(partial(training.step, training.x))
        count = float(next(iter(training.optimizer.state.values()))["step"])
        changed = any(not np.array_equal(a, b) for a, b in zip(before[:4], training.state()[:4]))
        assert changed == (count == 2), interrupt.place
        training.step(training.x)
        thread_pool.set_num_threads(thread_pool.get_num_threads())  # hangs if the pool is taken


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="no timers")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_code_generation_is_not_interrupted() -> None:
    """LLVM finishes first: an interrupt inside llvmlite would leave its lock taken.

    The timer rings again after a second: Python itself loses what is raised while a callback of a
    weak reference runs (5 of 800 times here), and says so as an unraisable exception.
    """
    before = signal.signal(signal.SIGALRM, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            signal.setitimer(signal.ITIMER_REAL, 0.02, 1.0)
            for size in range(4, 2_000):
                w = gw.ones(size, requires_grad=True)
                gw.compile(lambda x, w=w: (x * w).exp().sum() * float(w.shape[0]))(gw.ones(2, size))
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)
    results: list[float] = []
    w = gw.ones(2, requires_grad=True)
    step = gw.compile(lambda x: (x * w).sum() / 7.0)
    other = threading.Thread(target=lambda: results.append(step(gw.ones(7, 2)).item()), daemon=True)
    other.start()
    other.join(60)
    assert results == [2.0]
