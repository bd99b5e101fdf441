"""Modes do not leak between tasks, contexts and threads, and threads may share leaves."""

from __future__ import annotations

import asyncio
import contextvars
import itertools
import os
import random
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any

import numpy as np
import pytest
import torch

import gradwalk as gw

MODES: dict[str, tuple[Callable[[], Any], bool]] = {  # a mode, and whether it records
    "no_grad": (gw.no_grad, False),
    "enable_grad": (gw.enable_grad, True),
    "inference_mode": (gw.inference_mode, False),
    "inference_mode(False)": (lambda: gw.inference_mode(False), True),
    "set_grad_enabled(False)": (lambda: gw.set_grad_enabled(False), False),
    "set_grad_enabled(True)": (lambda: gw.set_grad_enabled(True), True),
}


def records() -> bool:
    """Whether an operation is recorded, asked in three ways."""
    x = gw.ones(2, requires_grad=True)
    found = {(x * 2).requires_grad, x.sum().requires_grad, gw.is_grad_enabled()}
    assert len(found) == 1
    return found.pop()


async def nest(source: random.Random, expected: bool, depth: int = 0) -> None:
    """Enter modes at random, give way to the other tasks, and look whether the mode is still on."""
    for _ in range(source.randrange(1, 4)):
        make, inside = MODES[source.choice(list(MODES))]
        with make():
            for _ in range(source.randrange(3)):
                await asyncio.sleep(0)
                assert records() is inside
            if depth < 2:
                tasks = source.choice([1, 1, 1, 2])
                await asyncio.gather(*(nest(source, inside, depth + 1) for _ in range(tasks)))
        assert records() is expected
        await asyncio.sleep(0)
        assert records() is expected


@pytest.mark.parametrize("seed", range(5))
def test_interleaved_tasks(seed: int) -> None:
    async def main() -> None:
        sources = [random.Random(f"{seed} {i}") for i in range(20)]
        await asyncio.gather(*(nest(source, True) for source in sources))

    asyncio.run(main())
    assert records()


def test_one_mode_object_in_several_tasks() -> None:
    shared = gw.no_grad()

    async def task(before: bool, waits: int) -> None:
        with gw.set_grad_enabled(before):
            with shared:
                for _ in range(waits):
                    await asyncio.sleep(0)
                    assert not records()
            assert records() is before

    async def main() -> None:
        await asyncio.gather(*(task(i % 2 == 0, 1 + i * 7 % 5) for i in range(10)))

    asyncio.run(main())
    assert records()


def test_a_task_starts_with_the_mode_in_which_it_was_made() -> None:
    async def inner() -> bool:
        await asyncio.sleep(0)
        return records()

    async def main() -> list[bool]:
        with gw.no_grad():
            made = asyncio.create_task(inner())
            thread = asyncio.create_task(asyncio.to_thread(records))
        return [await made, await thread, await inner(), await asyncio.to_thread(records)]

    assert asyncio.run(main()) == [False, False, True, True]


@pytest.mark.parametrize("name", MODES)
def test_a_context_run_by_hand(name: str) -> None:
    make, inside = MODES[name]
    apart = contextvars.copy_context()
    mode = apart.run(lambda: make().__enter__())
    assert records() and apart.run(records) is inside
    apart.run(mode.__exit__, None, None, None)
    assert records() and apart.run(records)


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
def test_modes_left_in_another_order(order: tuple[int, ...]) -> None:
    """As in PyTorch, each gives back what it found."""
    found = []
    for library in (gw, torch):
        modes = [library.no_grad(), library.enable_grad(), library.no_grad()]
        for mode in modes:
            mode.__enter__()
        seen = []
        for i in order:
            modes[i].__exit__(None, None, None)
            seen.append(library.is_grad_enabled())
        found.append(seen)
        library.set_grad_enabled(True)
    assert found[0] == found[1]


def test_a_mode_entered_elsewhere_changes_nothing_here() -> None:
    mode = gw.no_grad()
    with ThreadPoolExecutor(1) as pool:
        pool.submit(mode.__enter__).result()
        mode.__exit__()
        assert records() and not pool.submit(records).result()
        pool.submit(mode.__exit__).result()
        assert pool.submit(records).result()


# -- generators and coroutines ---------------------------------------------------------------------


def decorated_generator(library: Any) -> list[Any]:
    """What a generator and its consumer see, and what `send`, `throw` and `close` do."""
    seen: list[Any] = []

    @library.no_grad()
    def numbers() -> Iterator[Any]:
        try:
            while True:
                try:
                    given = yield library.is_grad_enabled()
                    seen.append((given, library.is_grad_enabled()))
                    if given == "end":
                        return "ended"
                except KeyError:
                    seen.append(("thrown", library.is_grad_enabled()))
        finally:
            seen.append(("closed", library.is_grad_enabled()))

    one, other = numbers(), numbers()
    for generator in (one, other):
        seen += [next(generator), library.is_grad_enabled()]
        seen += [generator.send(3), generator.throw(KeyError()), library.is_grad_enabled()]
    one.close()
    seen.append(library.is_grad_enabled())
    try:
        other.send("end")
    except StopIteration as end:
        seen.append(end.value)
    return [*seen, library.is_grad_enabled(), list(zip(range(2), numbers(), strict=False))]


def test_a_decorated_generator_as_in_pytorch() -> None:
    assert decorated_generator(gw) == decorated_generator(torch)


def test_a_block_around_a_yield_reaches_the_consumer_as_in_pytorch() -> None:
    found = []
    for library in (gw, torch):

        def numbers(library: Any = library) -> Iterator[int]:
            with library.no_grad():
                yield 1

        generator = numbers()
        next(generator)
        inside = library.is_grad_enabled()
        generator.close()
        found.append([inside, library.is_grad_enabled()])
    assert found == [[False, True]] * 2


def test_a_decorated_coroutine_is_in_the_mode_while_it_runs() -> None:
    @gw.no_grad()
    async def inside() -> list[bool]:
        before = records()
        await asyncio.sleep(0)
        return [before, records()]

    async def main() -> Any:
        return await asyncio.gather(inside(), asyncio.sleep(0, records()), inside())

    assert asyncio.run(main()) == [[False, False], True, [False, False]]


# -- the other modes -------------------------------------------------------------------------------


def test_recordings_in_interleaved_tasks() -> None:
    """A recording sees the operations of its own task."""

    async def task(name: str) -> list[str]:
        with gw.record() as trace:
            x = gw.ones(2, requires_grad=True)
            for _ in range(3):
                x = getattr(x, name)()
                await asyncio.sleep(0)
            x.sum().backward()
        return [node.op for node in trace.nodes if node.op in ("tanh", "exp", "sin", "sum")]

    async def main() -> Any:
        return await asyncio.gather(task("tanh"), task("exp"), task("sin"))

    for name, found in zip(("tanh", "exp", "sin"), asyncio.run(main()), strict=True):
        assert set(found) == {name, "sum"} and len(found) == 4


def test_checkpoints_and_gradients_in_interleaved_tasks() -> None:
    async def task(scale: float) -> Any:
        x = gw.tensor([0.5, 1.0], dtype=gw.float64, requires_grad=True)
        y = gw.checkpoint(lambda t: (t * scale).tanh(), x)
        await asyncio.sleep(0)
        with gw.no_grad():
            await asyncio.sleep(0)
            z = y * 2
        await asyncio.sleep(0)
        (y * z).sum().backward()
        return x.grad

    async def main() -> Any:
        return await asyncio.gather(*(task(float(i)) for i in range(8)))

    for scale, found in enumerate(asyncio.run(main())):
        x = np.array([0.5, 1.0])
        out = np.tanh(scale * x)
        np.testing.assert_allclose(found.numpy(), 2 * out * scale * (1 - out**2), atol=1e-15)


def test_copied_contexts_in_many_threads_stay_silent() -> None:
    """Threads that share modes compute at the same time, without NumPy's warnings."""
    x = gw.zeros(4000)

    def work() -> bool:
        return all(bool((x / x).isnan().all()) and not records() for _ in range(200))

    with gw.no_grad(), ThreadPoolExecutor(8) as pool:
        contexts = [contextvars.copy_context() for _ in range(8)]
        assert all(pool.map(lambda c: c.run(work), contexts))


# -- threads ---------------------------------------------------------------------------------------


@pytest.fixture
def impatient() -> Iterator[None]:
    """Let threads take turns as often as they can."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def together(work: Callable[[int], None], threads: int) -> None:
    """Run `work` in many threads that start at once; raise what one of them raised."""
    start = threading.Barrier(threads)

    def begin(number: int) -> None:
        start.wait()
        work(number)

    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(begin, range(threads)))


@pytest.mark.parametrize("size", [1, 50_000])
@pytest.mark.parametrize("create_graph", [False, True])
@pytest.mark.filterwarnings("ignore:.*create_graph=True.*:UserWarning")
def test_threads_add_to_one_leaf(impatient: None, size: int, create_graph: bool) -> None:
    repeats, threads = (4 if create_graph else 30 if size > 1 else 100), 8
    for _ in range(3):
        leaf = gw.zeros(size, dtype=gw.float64, requires_grad=True)
        other = gw.ones(size, dtype=gw.float64, requires_grad=True)

        def work(number: int, leaf: Any = leaf, other: Any = other) -> None:
            for _ in range(repeats):
                loss = (leaf * float(number + 1) + other * 2.0).sum()
                loss.backward(create_graph=create_graph)

        together(work, threads)
        assert set(leaf.grad.detach().numpy()) == {repeats * sum(range(1, threads + 1))}
        assert set(other.grad.detach().numpy()) == {repeats * threads * 2.0}


def test_threads_retain_and_read_one_graph(impatient: None) -> None:
    leaf = gw.tensor(np.linspace(-1, 1, 20_000), requires_grad=True)
    inner = leaf.tanh()
    loss = (inner * inner).sum()

    def work(number: int) -> None:
        for _ in range(20):
            loss.backward(retain_graph=True)

    together(work, 6)
    out = np.tanh(np.linspace(-1, 1, 20_000))
    np.testing.assert_allclose(leaf.grad.numpy(), 120 * 2 * out * (1 - out**2), rtol=1e-10)


def test_threads_add_to_one_value(impatient: None) -> None:
    leaf = gw.Value(0.5)

    def work(number: int) -> None:
        for _ in range(200):
            (leaf * (number + 1) + leaf.exp() * 0).backward()

    together(work, 8)
    assert leaf.grad == 200 * 36


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork.*:DeprecationWarning")
def test_a_child_forked_while_threads_add_does_not_hang(impatient: None) -> None:
    leaf = gw.zeros(20_000, dtype=gw.float64, requires_grad=True)
    stop = threading.Event()

    def work() -> None:
        while not stop.is_set():
            (leaf * 2.0).sum().backward()

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(10):
            child = os.fork()
            if child == 0:
                signal.alarm(20)  # ends a child that hangs
                (leaf * 3.0).sum().backward()
                leaf.detach().mul_(1.0)
                os._exit(0)
            assert os.waitpid(child, 0)[1] == 0
    finally:
        stop.set()
        for thread in threads:
            thread.join()


@pytest.mark.parametrize("name", MODES)
def test_a_thread_starts_with_the_default(name: str) -> None:
    make, inside = MODES[name]
    with ExitStack() as stack:
        stack.enter_context(make())
        with ThreadPoolExecutor(1) as pool:
            assert pool.submit(records).result()
        assert records() is inside
