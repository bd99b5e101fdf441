"""Python state changes between two calls of a compiled function: the second is as in eager code."""

from __future__ import annotations

import functools
import inspect
import logging
import pickle
import random
import sys
import types
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import gradwalk as gw
from gradwalk.compiler.call import staleness
from gradwalk.compiler.call.writer import MISS
from gradwalk.engine.modes import state
from tests.attack.python_state import ARGUMENTS, Program, programs
from tests.batches import batched

F = gw.nn.functional


def called(program: Program, names: dict[str, Any]) -> Any:
    return eval(program.call, names)


@pytest.mark.filterwarnings("ignore")  # of what happens once
@batched("program", programs(), key=lambda program: program.name.partition(":")[0], quick=2)
def test_a_change_is_seen_by_the_next_call(program: Program) -> None:
    names = program.names()
    names["x"] = gw.ones(2)
    eager = names["run"]
    compiled = gw.compile(eager, backend="numpy")
    before = called(program, names).tolist()
    names["run"] = compiled
    holder, _, way = program.name.partition(": ")
    if holder in ("ndarray", "ndarray sum", "ndarray of objects") and way in ARGUMENTS:
        with pytest.raises(gw.TraceError, match="called with an ndarray"):
            called(program, names)
        return
    assert called(program, names).tolist() == before
    assert called(program, names).tolist() == before
    exec(program.change, names)
    names["run"] = eager
    after = called(program, names).tolist()
    assert after != before  # or the change is none
    names["run"] = compiled
    assert called(program, names).tolist() == after


# -- what no guard sees ----------------------------------------------------------------------------

X = gw.ones(2)
STATE = types.SimpleNamespace(rate=2.0)
NAMES: dict[str, Any] = {"state": STATE, "__builtins__": {}}


def _forgotten(text: str) -> Any:
    """A function of the user's whose code hides what it reads."""
    return lambda: eval(text, NAMES)


HIDDEN: dict[str, Any] = {
    "eval": _forgotten("state.rate"),
    "attributes": lambda: next(v for k, v in inspect.getmembers(STATE) if k == "ra" + "te"),
    "frame": lambda: sys.modules[__name__].__dict__["STA" + "TE"].rate,
    "pickle": lambda: pickle.loads(_pickled()),
}


def _pickled() -> Any:
    return eval("pickle.dumps(state.rate)", NAMES | {"pickle": pickle})


FUNCTIONS: dict[str, Any] = {
    "operand": lambda x, read: x * read(),
    "constant": lambda x, read: x * gw.tensor([read(), 1.0]),
    "attribute": lambda x, read: F.leaky_relu(-x, read() / 10),
    "power": lambda x, read: x ** read(),
    "shape": lambda x, read: x.repeat(int(read())),
    "branch": lambda x, read: x.exp() if read() > 2 else x,
    "order": lambda x, read: (x.exp() + 1).log() if read() > 2 else (x + 1).log().exp(),
    "result": lambda x, read: (x, read()),
    "nested result": lambda x, read: {"a": [x * 2, read()]},
    "gradient": lambda x, read: gw.grad(lambda z: (z ** read()).sum())(x),
}
CASES = [(how, what) for how in HIDDEN for what in FUNCTIONS]


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    STATE.rate = 2.0
    yield
    STATE.rate = 2.0


@batched("how, what", CASES, key=lambda case: case[1])
def test_what_no_guard_sees_is_found_by_a_check(how: str, what: str) -> None:
    STATE.rate = 2.0
    read, function = HIDDEN[how], FUNCTIONS[what]
    run = gw.compile(lambda x: function(x, read), backend="numpy")
    for _ in range(8):
        run(X)
    assert run.check() == 1
    STATE.rate = 3.0
    if run.newest.call((X,), {}, state.here, look=True) is MISS:
        return  # a guard saw it
    with pytest.raises(gw.TraceError, match="reads a value that has changed") as error:
        run.check()
    assert "Fix: pass the value as an argument" in str(error.value)
    if what in ("operand", "power"):
        assert "2.0 is now 3.0" in str(error.value)
        assert "test_stale.py" in str(error.value)
    expected = function(X, read)
    found = run(X)  # compiled anew
    assert repr(found) == repr(expected)


@pytest.mark.parametrize("call", [2, 8, 64, 512])
def test_calls_check_by_themselves(call: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(staleness, "QUICK", np.inf)  # on a busy machine a trace may take longer
    run = gw.compile(lambda x: x * HIDDEN["eval"](), backend="numpy")
    for _ in range(call - 1):
        run(X)
    STATE.rate = 3.0
    with pytest.raises(gw.TraceError, match=r"2\.0 is now 3\.0, in mul"):
        run(X)
    assert run(X).tolist() == [3, 3]


def test_checks_can_be_switched_off() -> None:
    run = gw.compile(lambda x: x * HIDDEN["eval"](), backend="numpy", check=False)
    run(X)
    STATE.rate = 3.0
    assert [run(X).tolist() for _ in range(8)] == [[2, 2]] * 8
    assert run.check() == 0
    assert "check=False" in str(run.explain())


def test_a_slow_trace_is_not_repeated_before_calls_have_taken_100_times_as_long(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run = gw.compile(lambda x: x * 2, backend="numpy")
    traces, now = [], [0.0]
    monkeypatch.setattr(staleness.time, "perf_counter", lambda: now[0])
    monkeypatch.setattr(staleness, "_cpu_time", lambda: now[0])
    run(X)
    again = run.newest.staleness.again

    def slow(*call: Any) -> Any:
        traces.append(run.newest.count + 1)
        now[0] += 1.0  # a second, where a call takes a hundredth
        return again(*call)

    run.newest.staleness.again = slow
    for _ in range(40_000):
        now[0] += 0.01
        run(X)
    assert traces[0] == 2
    assert 10_000 <= traces[1] <= 10_100
    assert len(traces) == 3


def test_a_second_trace_is_not_noticed(
    capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    class Counter:
        __slots__ = ("calls",)

    counter, box, log = Counter(), types.SimpleNamespace(calls=0), {"calls": 0}
    listed, array, seen = [0], np.zeros(2), set()
    counter.calls = 0
    weight = gw.nn.Parameter(gw.ones(2))
    optimizer = gw.optim.Adam([weight], lr=0.1)
    gw.manual_seed(0)
    random.seed(0)
    np.random.seed(0)

    def step(x: Any) -> Any:
        print("out")
        print("err", file=sys.stderr)
        logging.getLogger("stale").warning("logged")
        counter.calls += 1
        box.calls += 1
        box.new = 1
        log["calls"] += 1
        listed.append(1)
        array[0] += 1
        seen.add(len(seen))
        optimizer.zero_grad()
        loss = (weight * F.dropout(x, 0.5)).sum() * random.random() * np.random.rand()
        loss.backward()
        optimizer.step()
        return loss

    def now() -> Any:
        return (
            counter.calls, dict(vars(box)), dict(log), list(listed), array.tolist(), set(seen),
            weight.tolist(), repr(optimizer.state_dict()), random.getstate(),
            np.random.get_state()[1].tolist(), repr(gw.get_rng_state()), capsys.readouterr(),
            len(caplog.records), type(weight._array), sys.stdout, sys.stderr,
        )  # fmt: skip

    run = gw.compile(step, backend="numpy")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        run(X)
    assert capsys.readouterr() == ("out\n", "err\n")
    before = now()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert run.check() == 1
        assert now() == before
        for _ in range(10):
            run(X)
    assert (counter.calls, box.calls, listed, capsys.readouterr()) == (1, 1, [0, 1], ("", ""))


def test_what_cannot_be_undone_is_not_repeated(tmp_path: Any) -> None:
    with (tmp_path / "log").open("w") as file, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        numbers = iter(range(10))

        def function(x: Any) -> Any:
            file.write("line\n")
            return x * next(numbers)

        run = gw.compile(function, backend="numpy")
        for _ in range(10):
            run(X)
        assert run.check() == 0
        assert next(numbers) == 1
    assert (tmp_path / "log").read_text() == "line\n"
    assert "not checked by tracing it again: an iterator" in str(run.explain())


def test_a_tensor_that_a_cache_kept_from_the_first_trace_turns_checks_off() -> None:
    @functools.lru_cache
    def mask(n: int) -> Any:
        return gw.ones(n) * 2

    run = gw.compile(lambda x: x * mask(2), backend="numpy")
    assert run(X).tolist() == [2, 2]
    with pytest.warns(UserWarning, match="cannot be traced again"):
        assert run(X).tolist() == [2, 2]
    assert [run(X).tolist() for _ in range(8)] == [[2, 2]] * 8
