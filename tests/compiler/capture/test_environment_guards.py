"""What a compiled function sees besides its arguments is never frozen: it is as in eager code."""

from __future__ import annotations

import os
import random
import time
import types
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import gradwalk as gw
from gradwalk import nn
from gradwalk.compiler.capture.user_code import Link, chains
from tests.compiler.models import programs

Wrap = Callable[..., Any]
F = nn.functional


def compiled(function: Any) -> Any:
    return gw.compile(function, backend="numpy")


class Settings:
    factor = 2.0  # of the class, until the object has one of its own

    def __init__(self) -> None:
        self.rate = 2.0
        self.nested = {"rates": [1.0, 2.0]}

    @property
    def doubled(self) -> float:
        return self.rate * 2


class Slotted:
    __slots__ = ("rate",)

    def __init__(self) -> None:
        self.rate = 2.0


X = gw.ones(2)
Calls = Iterator[Any]  # results, with a change before each but the first


def a_namespace(wrap: Wrap) -> Calls:
    settings = types.SimpleNamespace(rate=2.0)
    run = wrap(lambda x: x * settings.rate)
    yield run(X)
    settings.rate = 3.0
    yield run(X)


def dictionaries_and_lists(wrap: Wrap) -> Calls:
    settings = {"rate": 2.0, "more": {"rates": [1.0, 5.0]}}
    run = wrap(lambda x: x * settings["rate"] * settings["more"]["rates"][1])  # type: ignore[index]
    yield run(X)
    settings["rate"] = 3.0
    yield run(X)
    settings["more"]["rates"][1] = 7.0  # type: ignore[index]
    yield run(X)


def all_of_a_list(wrap: Wrap) -> Calls:
    rates = [1.0, 2.0]
    run = wrap(lambda x: sum(x * rate for rate in rates))
    yield run(X)
    rates.append(3.0)
    yield run(X)
    rates[0] = 5.0
    yield run(X)


def objects(wrap: Wrap) -> Calls:
    settings = Settings()

    def function(x: Any) -> Any:
        same = settings
        rates = same.nested["rates"]
        return x * same.rate * rates[1] * settings.factor + settings.doubled

    run = wrap(function)
    yield run(X)
    settings.rate = 3.0
    yield run(X)
    settings.nested["rates"][1] = 5.0
    yield run(X)
    settings.factor = 4.0
    yield run(X)


def slots(wrap: Wrap) -> Calls:
    settings = Slotted()
    run = wrap(lambda x: x * settings.rate)
    yield run(X)
    settings.rate = 3.0
    yield run(X)


def passed_on(wrap: Wrap) -> Calls:
    settings, name = Settings(), "factor"

    def helper(x: Any, given: Any) -> Any:
        return x * given.rate * getattr(given, name)

    run = wrap(lambda x: helper(x, settings))
    yield run(X)
    settings.rate = 3.0
    yield run(X)
    settings.__dict__["factor"] = 7.0
    yield run(X)


def an_object_as_argument(wrap: Wrap) -> Calls:
    settings = Settings()
    run = wrap(lambda x, given: x * given.rate)
    yield run(X, settings)
    settings.rate = 3.0
    yield run(X, settings)


def methods(wrap: Wrap) -> Calls:
    class Base:
        def __init__(self) -> None:
            self.rate = 2.0

        def scaled(self, x: Any) -> Any:
            return x * self.rate

    class Derived(Base):
        def scaled(self, x: Any) -> Any:
            return super().scaled(x) + 1

        def __call__(self, x: Any) -> Any:
            return self.scaled(x)

    thing = Derived()
    for run in (wrap(thing.scaled), wrap(thing), wrap(lambda x: thing.scaled(x))):
        thing.rate = 2.0
        yield run(X)
        thing.rate = 3.0
        yield run(X)


def tensors_in_variables(wrap: Wrap) -> Calls:
    held, weight = {"w": gw.ones(2)}, gw.ones(2)
    run = wrap(lambda x: x * weight + held["w"])
    for n in range(12):
        yield run(X)
        weight, held["w"] = weight + n, held["w"] * 2
    weight = gw.ones(3, 2)
    yield run(X)


def parts_of_one_memory(wrap: Wrap) -> Calls:
    whole = gw.zeros(4)
    part = whole[:2]

    def function(x: Any) -> Any:
        whole.add_(1)
        return x * part

    run = wrap(function)
    yield run(X)
    yield run(X)
    part = gw.ones(2)
    yield run(X)


def modules_and_functions(wrap: Wrap) -> Calls:
    gw.manual_seed(0)
    model, activation = nn.Linear(2, 2), gw.tanh
    run = wrap(lambda x: activation(model(x)))
    yield run(X)
    model = nn.Linear(2, 2)
    yield run(X)
    activation = gw.exp
    yield run(X)


def inside_modules(wrap: Wrap) -> Calls:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = nn.ModuleList([nn.Linear(2, 2), nn.Linear(2, 2)])
            self.extra = nn.ParameterList([nn.Parameter(gw.ones(2))])
            self.settings, self.options = Settings(), {"rate": 2.0}
            self.given = [gw.ones(2)]

        def forward(self, x: Any) -> Any:
            for layer in self.layers:
                x = layer(x)
            return self.scaled(x) * self.extra[0] + self.given[0]

        def scaled(self, x: Any) -> Any:
            return x * self.settings.rate * self.options["rate"]

    gw.manual_seed(0)
    net = Net()
    run = wrap(net)
    yield run(X)
    net.layers[0] = nn.Linear(2, 2)
    yield run(X)
    net.extra[0] = nn.Parameter(gw.ones(2) * 5)
    yield run(X)
    net.settings.rate = 3.0
    yield run(X)
    net.options["rate"] = 4.0
    yield run(X)
    net.given[0] = gw.ones(2) * 7
    yield run(X)


def a_count_in_a_module(wrap: Wrap) -> Calls:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.calls = 0

        def forward(self, x: Any) -> Any:
            self.calls += 1
            return x * self.calls

    run = wrap(Net())
    for _ in range(3):
        yield run(X)


def arrays(wrap: Wrap) -> Calls:
    array, i = np.ones(2, np.float32), 1
    for run in (
        wrap(lambda x: x * array),
        wrap(lambda x: x * float(array.mean())),
        wrap(lambda x: x * np.mean(array)),
        wrap(lambda x: x * array[i] + array[0]),
        wrap(lambda x: x * gw.tensor(array * 2)),
    ):
        array[:] = 1
        yield run(X)
        array[:] = 5
        yield run(X)


def optimizers(wrap: Wrap) -> Calls:
    weight = nn.Parameter(gw.ones(2))
    optimizer: Any = gw.optim.SGD([weight], lr=0.5)

    def step(x: Any) -> Any:
        optimizer.zero_grad()
        loss = ((weight - x) ** 2 * 3).sum()
        loss.backward()
        optimizer.step()
        return loss

    run = wrap(step)
    yield run(X)
    optimizer = gw.optim.Adam([weight], lr=0.25)
    yield run(X * 3)
    yield weight.detach().clone()


def the_process(wrap: Wrap) -> Calls:
    os.environ["GRADWALK_TEST_RATE"] = "2"
    run = wrap(lambda x: x * float(os.environ["GRADWALK_TEST_RATE"]))
    yield run(X)
    os.environ["GRADWALK_TEST_RATE"] = "3"
    yield run(X)


def results_in_attributes(wrap: Wrap) -> Calls:
    class Trainer:
        def __init__(self) -> None:
            self.weight = nn.Parameter(gw.ones(2))
            self.x, self.loss, self.log = X, None, {}

        def step(self) -> None:
            self.loss = (self.weight * self.x).sum()
            self.loss.backward()
            self.log["loss"] = self.loss.detach()

    trainer: Any = Trainer()
    run = wrap(trainer.step)
    for n in range(12):
        trainer.x = X * n
        run()
        yield trainer.loss.detach()
        yield trainer.log["loss"]
        yield trainer.weight.grad.clone()


def averages_of_weights(wrap: Wrap) -> Calls:
    model = nn.Linear(2, 2)
    with gw.no_grad():
        model.weight.fill_(1.0)
    shadow = {name: gw.zeros_like(p) for name, p in model.named_parameters()}

    def average() -> None:
        with gw.no_grad():
            for name, parameter in model.named_parameters():
                shadow[name] = shadow[name] * 0.5 + parameter * 0.5

    run = wrap(average)
    for _ in range(4):
        run()
        yield shadow["weight"]


CASES = (
    a_namespace, dictionaries_and_lists, all_of_a_list, objects, slots, passed_on,
    an_object_as_argument, methods, tensors_in_variables, parts_of_one_memory,
    modules_and_functions, inside_modules, a_count_in_a_module, arrays, optimizers, the_process,
    results_in_attributes, averages_of_weights,
)  # fmt: skip


@pytest.mark.parametrize("backend", ["numpy", "llvm"])
@pytest.mark.parametrize("case", CASES, ids=[case.__name__ for case in CASES])
def test_what_is_outside_is_seen_as_it_is(case: Callable[[Wrap], Calls], backend: str) -> None:
    def now(found: Any) -> Any:
        return found.detach().numpy().copy()

    eager = [now(found) for found in case(lambda function: function)]
    native = [now(found) for found in case(lambda f: gw.compile(f, backend=backend))]
    assert len(eager) == len(native) > 1
    for expected, found in zip(eager, native, strict=True):
        np.testing.assert_allclose(found, expected, 1e-6)


def test_another_tensor_in_a_variable_needs_no_new_program() -> None:
    x, log = X, {}

    def function() -> Any:
        log["loss"] = (x * 2).sum()
        return log["loss"]

    run = compiled(function)
    for n in range(5):
        x = X * n
        assert run().item() == log["loss"].item() == 4 * n
    assert programs(run) == 1
    x = gw.ones(2, requires_grad=True)
    run().backward()
    assert x.grad.tolist() == [2, 2]  # type: ignore[union-attr]
    assert programs(run) == 2


step = 0  # of the loop below: has the name of a method that the function calls


def test_a_variable_with_the_name_of_an_attribute_is_no_condition() -> None:
    global step
    weight = nn.Parameter(gw.ones(2))
    optimizer = gw.optim.SGD([weight], lr=0.5)

    def train(x: Any) -> None:
        optimizer.zero_grad()
        (weight * x).sum().backward()
        optimizer.step()

    run = compiled(train)
    for step in range(4):  # noqa: B007
        run(X)
    assert programs(run) == 1


NUMBERS, DRAW, NUMPY_DRAW = iter(range(10)), random.Random(0), np.random.default_rng(0)
ASKED: dict[str, Any] = {
    "time": lambda x: x * time.perf_counter(),
    "an iterator": lambda x: x * next(NUMBERS),
    "random.Random": lambda x: x * DRAW.random(),
    "NumPy generator": lambda x: x * NUMPY_DRAW.random(),
}


@pytest.mark.parametrize("what", ASKED)
def test_what_gives_another_value_every_time_warns(what: str) -> None:
    with pytest.warns(UserWarning, match=rf"used .*{what}.*test_environment_guards\.py"):
        compiled(ASKED[what])(X)


def test_what_is_put_into_a_list_is_refused_and_taken_out() -> None:
    history: list[Any] = []

    def function(x: Any) -> Any:
        history.append(x.sum())
        return x

    run = compiled(function)
    with pytest.raises(gw.TraceError, match="outside itself, in a list") as error:
        run(X)
    assert "history.append(x.sum())" in str(error.value)
    assert history == []


def test_a_failed_trace_leaves_nothing_outside() -> None:
    thing = types.SimpleNamespace(kept=None)

    def function(x: Any) -> Any:
        thing.kept, thing.new = x * 2, x * 3
        raise KeyError("no")

    with pytest.raises(KeyError):
        compiled(function)(X)
    assert vars(thing) == {"kept": None}


def test_native_programs_of_plain_functions_have_no_more_conditions() -> None:
    def function(x: Any) -> Any:
        return F.relu(x).sum() + np.pi

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        run = compiled(function)
        run(X)
    environment = run.newest.trace.environment
    assert [v.name for v in environment.variables] == ["__code__"]
    assert not environment.containers


def test_chains_of_code() -> None:
    outside: Any = Settings()

    def function(x: Any, given: Any) -> Any:
        rates = outside.nested["rates"]
        return [rates[0] * y * given.rate for y in x]

    found = set(chains(function.__code__))
    start = (Link("free", "outside"), Link("attribute", "nested"), Link("item", "rates"))
    assert (*start, Link("item", 0)) in found
    assert (Link("local", "given"), Link("attribute", "rate")) in found
    assert all(chain[0].name != "y" for chain in found)


def test_a_change_without_influence_compiles_nothing() -> None:
    class Data:
        def __init__(self) -> None:
            self.items, self.reads = [1.0, 2.0], 0

        def __len__(self) -> int:
            return len(self.items)

        def __getitem__(self, i: int) -> float:
            self.reads += 1
            return self.items[i]

    data = Data()
    run = compiled(lambda x: x * len(data))
    run(X)
    executable = run.newest.executable
    with pytest.warns(UserWarning, match=r"traced 64 times because of 'reads', now \d+"):
        for n in range(70):
            data[0]
            assert run(X).tolist() == [2, 2], n
    assert run.newest.executable is executable
    assert programs(run) == 1
    assert run.newest.count == 71
    data.items.append(3.0)
    assert run(X).tolist() == [3, 3]
    assert programs(run) == 2
