"""Counters outside of tensors: kept at a call, set back for the re-run, and put back after it."""

from __future__ import annotations

import itertools
import random
import sys
from collections import Counter, deque
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from gradwalk.torch import StepStopped, watch
from gradwalk.torch.rerun.python_state import Keeper, State
from gradwalk.torch.watch.step_report import StepReport

BAD_CALL = 20
calls = 0
box: dict[str, Any] = {}


class Plain:
    """An object of the user's own."""

    total = 0  # of the class

    def __init__(self) -> None:
        self.calls = 0
        self.inner: Any = None


class Slotted:
    """One without a dictionary."""

    __slots__ = ("calls",)

    def __init__(self) -> None:
        self.calls = 0


class Network(nn.Module):
    """Divides by zero when what it is given says so."""

    def __init__(self, is_time: Callable[[Network], bool]) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(4, 8), nn.Linear(8, 1)
        self.is_time = is_time
        self.calls = 0
        self.state = Plain()
        self.state.inner = {"deep": [Slotted()]}
        self.numbers = itertools.count(1)
        self.items = iter(range(1, 1000))
        self.history: list[float] = []
        self.array = np.zeros(2)
        self.random = random.Random(3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = self.first(x)
        if self.is_time(self):
            h = h / torch.zeros(())  # HERE
        return self.second(h)  # type: ignore[no-any-return]


def by_attribute(model: Network) -> bool:
    model.calls += 1
    return model.calls == BAD_CALL


def by_object(model: Network) -> bool:
    model.state.calls += 1
    return model.state.calls == BAD_CALL


def by_class(model: Network) -> bool:
    Plain.total += 1
    return Plain.total == BAD_CALL


def by_slot_deep_inside(model: Network) -> bool:
    found = model.state.inner["deep"][0]
    found.calls += 1
    return bool(found.calls == BAD_CALL)


def by_global(model: Network) -> bool:
    global calls
    calls += 1
    return calls == BAD_CALL


def by_global_container(model: Network) -> bool:
    box.setdefault("counter", Counter())["calls"] += 1
    return bool(box["counter"]["calls"] == BAD_CALL)


def by_count(model: Network) -> bool:
    return next(model.numbers) == BAD_CALL


def by_iterator(model: Network) -> bool:
    return next(model.items) == BAD_CALL


def by_list(model: Network) -> bool:
    model.history.append(1.0)
    return len(model.history) == BAD_CALL


def by_array(model: Network) -> bool:
    model.array[0] += 1
    return bool(model.array[0] == BAD_CALL)


def by_function(model: Network) -> bool:
    by_function.calls = getattr(by_function, "calls", 0) + 1  # type: ignore[attr-defined]
    return bool(by_function.calls == BAD_CALL)  # type: ignore[attr-defined]


def by_default(model: Network, seen: list[int] = []) -> bool:  # noqa: B006
    seen.append(1)
    return len(seen) == BAD_CALL


def by_generator_of_its_own(model: Network) -> bool:
    model.calls += 1
    return model.random.random() > 0.0 and model.calls == BAD_CALL


def closing_over_a_number() -> Callable[[Network], bool]:
    met = 0

    def is_time(model: Network) -> bool:
        nonlocal met
        met += 1
        return met == BAD_CALL

    return is_time


def partially() -> Callable[[Network], bool]:
    def is_time(waiting: deque[int], model: Network) -> bool:
        waiting.append(1)
        return len(waiting) == BAD_CALL

    return partial(is_time, deque())


WAYS: dict[str, Callable[[], Callable[[Network], bool]]] = {
    **{
        way.__name__: partial(lambda way: way, way)
        for way in (
            by_attribute,
            by_object,
            by_class,
            by_slot_deep_inside,
            by_global,
            by_global_container,
            by_count,
            by_iterator,
            by_list,
            by_array,
            by_function,
            by_default,
            by_generator_of_its_own,
        )
    },
    "closing_over_a_number": closing_over_a_number,
    "partially": partially,
}


@pytest.fixture(autouse=True)
def from_zero() -> None:
    global calls
    calls = Plain.total = 0
    box.clear()


def stopped(model: nn.Module, folder: Path) -> StepReport:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    with watch(model, optimizer, folder=folder), pytest.raises(StepStopped) as found:
        for _ in range(BAD_CALL + 3):
            optimizer.zero_grad()
            loss = model(torch.randn(6, 4)).square().mean()
            loss.backward()
            optimizer.step()
    return found.value.report


@pytest.mark.parametrize("name", WAYS)
def test_a_fault_that_waits_for_its_call_shows_again(name: str, tmp_path: Path) -> None:
    model = Network(WAYS[name]())
    report = stopped(model, tmp_path)
    assert (report.step, report.op, report.rerun) == (BAD_CALL - 1, "div", "statements")
    assert report.line is not None and report.line.text.endswith("# HERE")
    assert "bit for bit" in report.rerun_told
    assert not model.is_time(model)  # counted on from where the program was


def test_a_hook_that_counts(tmp_path: Path) -> None:
    model = nn.Sequential(nn.Linear(4, 8), nn.Linear(8, 1))
    counted = 0

    def hook(module: nn.Module, args: Any, output: torch.Tensor) -> torch.Tensor:
        nonlocal counted
        counted += 1
        return output / 0 if counted == BAD_CALL else output  # HERE

    model[0].register_forward_hook(hook)
    report = stopped(model, tmp_path)
    assert (report.op, report.rerun, counted) == ("div", "statements", BAD_CALL)
    assert report.line is not None and report.line.text.endswith("# HERE")


def test_a_name_that_the_step_itself_makes(tmp_path: Path) -> None:
    def is_time(model: Network) -> bool:
        first = not hasattr(model, "started")
        model.started = True
        return first

    report = stopped(Network(is_time), tmp_path)
    assert (report.step, report.op, report.rerun) == (0, "div", "statements")


def test_an_iterator_that_cannot_be_copied_is_told_and_not_touched(tmp_path: Path) -> None:
    def numbers() -> Iterator[int]:
        yield from range(1, 1000)

    model = Network(lambda model: next(model.given) == BAD_CALL)  # type: ignore[arg-type]
    model.given = numbers()  # type: ignore[assignment]
    report = stopped(model, tmp_path)
    assert report.rerun == ""
    assert any("the next item of a generator" in note for note in report.notes)
    assert next(model.given) == BAD_CALL + 1  # type: ignore[arg-type]


def test_what_is_set_back_and_what_is_not() -> None:
    """A snapshot does not keep a graph alive, and touches only what is different."""
    model = Network(by_attribute)
    model.cached = torch.ones(2, requires_grad=True) * 2  # type: ignore[assignment]
    module = sys.modules[__name__]
    keeper = Keeper()
    state = keeper.now([model], [vars(module)], [])
    model.history.extend([1.0, 2.0])
    model.cached = kept = torch.zeros(1)  # type: ignore[assignment]
    model.extra = 3  # type: ignore[assignment]
    model.eval()
    before = keeper.exactly([state], [])
    state.restore()
    assert model.history == [] and model.training and not hasattr(model, "extra")
    assert model.cached is kept
    before.restore()
    assert model.history == [1.0, 2.0] and not model.training and model.extra == 3


def test_of_a_long_list_what_was_appended_is_taken_off_and_put_back() -> None:
    model = Network(by_attribute)
    model.history = [0.0] * 1000
    keeper = Keeper()
    state = keeper.now([model], [], [])
    model.history.append(1.0)
    before = keeper.exactly([state], [])
    state.restore()
    assert len(model.history) == 1000
    before.restore()
    assert len(model.history) == 1001


def test_generators_of_random_numbers_are_set_back() -> None:
    generators = [
        torch.Generator(),
        random.Random(3),
        np.random.default_rng(3),
        np.random.RandomState(3),
    ]

    def draw(generator: Any) -> float:
        if isinstance(generator, torch.Generator):
            return float(torch.rand(1, generator=generator))
        return float(generator.random())

    for generator in generators:
        state = Keeper().now([], [], [{"generator": generator}])
        first = draw(generator)
        state.restore()
        assert draw(generator) == first


def _after_many_calls(keeper: Keeper, model: torch.nn.Module) -> State:
    return [keeper.now([model], [], []) for _ in range(5)][-1]


def test_settings_of_a_librarys_module_are_set_back() -> None:
    model = torch.nn.Sequential(torch.nn.Dropout(0.5))
    state = _after_many_calls(Keeper(), model)
    model[0].p = 0.1  # during the step, for the first time
    model[0].eval()
    state.restore()
    assert model[0].p == 0.5
    assert model[0].training


def test_a_setting_that_changed_for_good_is_seen_at_once() -> None:
    model, keeper = torch.nn.Sequential(torch.nn.Dropout(0.5)), Keeper()
    _after_many_calls(keeper, model)
    model[0].p = 0.1
    state = keeper.now([model], [], [])
    model[0].p = 0.2
    state.restore()
    assert model[0].p == 0.1


def test_eval_is_seen_at_once() -> None:
    model, keeper = torch.nn.Sequential(torch.nn.Dropout(0.5)), Keeper()
    _after_many_calls(keeper, model)
    model.eval()
    keeper.now([model], [], []).restore()
    assert not model[0].training


def test_a_counter_on_a_librarys_module_is_read_at_every_call() -> None:
    model, keeper = torch.nn.Sequential(torch.nn.Linear(1, 1)), Keeper()
    counted = []
    for calls in range(5):
        model[0].calls = calls
        counted.append(keeper.now([model], [], []))
    for calls, state in enumerate(counted):
        state.restore()
        assert model[0].calls == calls


def test_a_list_on_a_librarys_module_is_set_back() -> None:
    model, keeper = torch.nn.Sequential(torch.nn.Linear(1, 1)), Keeper()
    model[0].seen = [1, 2]
    state = _after_many_calls(keeper, model)
    model[0].seen.append(3)
    before = keeper.exactly([state], [])
    state.restore()
    assert model[0].seen == [1, 2]
    before.restore()
    assert model[0].seen == [1, 2, 3]
