"""gradwalk.compile: whole training steps, compiled and eager, leave the same behind."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import gradwalk as gw
from gradwalk import nn
from tests.compiler import models
from tests.compiler.models import Batch, Make, classes, compiled, numbers, programs

optim = gw.optim
F = nn.functional
Change = Callable[[int, nn.Module, Any], None]


@pytest.fixture(autouse=True)
def _double() -> Iterator[None]:
    """float64: what is compared is the program, not the roundings that Adam blows up."""
    gw.set_default_dtype(gw.float64)
    yield
    gw.set_default_dtype(gw.float32)


def compare(
    make: Make,
    batches: list[Batch],
    steps: int = 4,
    change: Change | None = None,
    tolerance: float = 1e-9,
) -> int:
    """Train two copies; everything is equal after each step. Returns how often it was traced."""
    found = []
    for use in (lambda step: step, compiled):
        gw.manual_seed(1)
        model, optimizer, step = make()
        run = use(step)
        log = []
        for i in range(steps):
            if change is not None:
                change(i, model, optimizer)
            loss = run(*batches[i % len(batches)])
            log.append(models.after(loss, model, optimizer))
        found.append(log)
    for expected, got in zip(*found, strict=True):
        models.assert_same(expected, got, tolerance)
    return programs(run)


def vectors() -> list[Batch]:
    return [(numbers(10, 4, seed=i), classes(3, 10, seed=i)) for i in range(3)]


def images() -> list[Batch]:
    return [(numbers(5, 1, 14, 14, seed=i), classes(3, 5, seed=i)) for i in range(2)]


def sequences() -> list[Batch]:
    return [(numbers(3, 6, 4, seed=i), classes(3, 3, seed=i)) for i in range(2)]


def texts() -> list[Batch]:
    return [(classes(11, 2, 5, seed=i), classes(11, 10, seed=i + 9)) for i in range(2)]


# -- optimizers ----------------------------------------------------------------------------------

OPTIMIZERS: dict[str, Any] = {
    name: functools.partial(getattr(optim, name), lr=0.01)
    for name in ("SGD", "Adam", "AdamW", "NAdam", "RAdam", "RMSprop", "Adagrad", "Adadelta")
}
OPTIMIZERS |= {
    f"{k} decayed": functools.partial(v, weight_decay=0.1) for k, v in OPTIMIZERS.items()
}
OPTIMIZERS |= {
    "momentum": functools.partial(optim.SGD, lr=0.1, momentum=0.9, dampening=0.1),
    "nesterov": functools.partial(optim.SGD, lr=0.1, momentum=0.9, nesterov=True),
    "maximize": functools.partial(optim.SGD, lr=0.1, maximize=True),
    "amsgrad": functools.partial(optim.Adam, lr=0.1, amsgrad=True, maximize=True),
    "centered": functools.partial(optim.RMSprop, lr=0.01, centered=True, momentum=0.5),
    "adagrad": functools.partial(
        optim.Adagrad, lr=0.1, lr_decay=0.1, initial_accumulator_value=0.5
    ),
    "nadam decoupled": functools.partial(
        optim.NAdam, weight_decay=0.1, decoupled_weight_decay=True
    ),
    "radam decoupled": functools.partial(
        optim.RAdam, weight_decay=0.1, decoupled_weight_decay=True
    ),
}
# How many programs: momentum is made by the first step, RAdam changes its mind after some.
SEVERAL = {"momentum": 2, "nesterov": 2, "RAdam": 2, "RAdam decayed": 2, "radam decoupled": 2}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_optimizers(name: str) -> None:
    make = models.training(models.mlp, OPTIMIZERS[name])
    assert compare(make, vectors(), steps=8) == SEVERAL.get(name, 1)


def test_rates_change_without_a_new_program() -> None:
    def halve(i: int, model: nn.Module, optimizer: Any) -> None:
        optimizer.param_groups[0]["lr"] = 0.1 * 0.5**i
        optimizer.param_groups[0]["betas"] = (0.9 - 0.1 * i, 0.999)
        optimizer.param_groups[0]["eps"] = 10.0 ** -(i + 1)

    make = models.training(models.mlp, functools.partial(optim.AdamW, lr=0.1))
    assert compare(make, vectors(), change=halve) == 1


def test_a_schedule_around_the_step() -> None:
    def scheduled(i: int, model: nn.Module, optimizer: Any) -> None:
        if i == 0:
            optimizer.schedule = optim.lr_scheduler.CosineAnnealingLR(optimizer, 4)
        else:
            optimizer.schedule.step()

    make = models.training(models.mlp, functools.partial(optim.Adam, lr=0.1))
    assert compare(make, vectors(), change=scheduled) == 1


def test_the_rate_as_an_argument() -> None:
    def make() -> tuple[nn.Module, Any, Any]:
        model = models.mlp()
        optimizer = optim.SGD(model.parameters(), lr=9.0)

        def step(x: Any, y: Any, rate: float) -> Any:
            optimizer.param_groups[0]["lr"] = rate
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
            return loss

        return model, optimizer, step

    batches = [(*batch, 0.5**i) for i, batch in enumerate(vectors())]
    assert compare(make, batches) == 1


def test_an_option_that_switches_makes_a_new_program() -> None:
    def switch(i: int, model: nn.Module, optimizer: Any) -> None:
        optimizer.param_groups[0]["weight_decay"] = 0.1 * (i % 2)
        optimizer.param_groups[0]["maximize"] = i >= 2

    make = models.training(models.mlp, functools.partial(optim.Adam, lr=0.1))
    assert compare(make, vectors(), change=switch, steps=6) == 4


def test_loading_an_optimizers_state() -> None:
    def reload(i: int, model: nn.Module, optimizer: Any) -> None:
        if i == 2:
            optimizer.load_state_dict(optimizer.state_dict())
            model.load_state_dict({k: v + 0.1 for k, v in model.state_dict().items()})
        if i == 3:
            optimizer.state.clear()

    make = models.training(models.mlp, functools.partial(optim.Adam, lr=0.1))
    assert compare(make, vectors(), change=reload, steps=6) == 2  # state is made anew


def test_freezing_and_thawing() -> None:
    def freeze(i: int, model: nn.Module, optimizer: Any) -> None:
        model[0].weight.requires_grad = i % 2 == 0

    make = models.training(models.mlp, functools.partial(optim.Adam, lr=0.1))
    assert compare(make, vectors(), change=freeze, steps=6) == 3


# -- models --------------------------------------------------------------------------------------

ADAM = functools.partial(optim.Adam, lr=0.01)
MODELS: dict[str, tuple[Make, Callable[[], list[Batch]]]] = {
    "cnn with batch norm": (models.training(models.cnn, ADAM), images),
    "lstm": (models.training(lambda: models.Recurrent(nn.LSTM), ADAM), sequences),
    "gru": (models.training(lambda: models.Recurrent(nn.GRU), ADAM), sequences),
    "rnn": (models.training(lambda: models.Recurrent(nn.RNN), ADAM), sequences),
    "transformer with dropout and tied weights": (models.training(models.Block, ADAM), texts),
    "clipped": (models.clipped(0.1), vectors),
    "clipped by nothing": (models.clipped(100.0), vectors),
    "clipped by the largest": (models.clipped(0.01, float("inf")), vectors),
    "clipped by a sum": (models.clipped(0.1, 1.0), vectors),
    "accumulating": (models.accumulating, vectors),
    "second derivatives": (models.second_derivatives, lambda: [(numbers(20, 1),)]),
    "transforms": (models.transforms, vectors),
    "checkpointed": (models.checkpointed, vectors),
    "groups": (models.groups, vectors),
    "by hand": (models.by_hand, vectors),
    "custom function": (models.custom_function, vectors),
    "stateful": (models.training(models.Stateful, ADAM), vectors),
}


@pytest.mark.parametrize("name", MODELS)
def test_models(name: str) -> None:
    make, batches = MODELS[name]
    assert compare(make, batches(), tolerance=1e-7) == 1


def test_hooks() -> None:
    assert compare(models.hooked, vectors()) == 2  # with and without gradients before


def test_gradients_that_grow_from_call_to_call() -> None:
    def sometimes(i: int, model: nn.Module, optimizer: Any) -> None:
        if i and i % 3 == 0:
            optimizer.step()
            optimizer.zero_grad()

    assert compare(models.only_backward, vectors(), steps=8, change=sometimes) == 2


def test_training_and_evaluating() -> None:
    def modes(i: int, model: nn.Module, optimizer: Any) -> None:
        model.train(i % 2 == 0)

    make = models.training(models.cnn, functools.partial(optim.SGD, lr=0.1))
    assert compare(make, images(), steps=6, change=modes) == 2


def test_float32_is_as_exact_as_float32() -> None:
    gw.set_default_dtype(gw.float32)
    make = models.training(models.mlp, functools.partial(optim.SGD, lr=0.1))
    assert compare(make, vectors(), steps=6, tolerance=1e-6) == 1


# -- what is a condition -------------------------------------------------------------------------


def test_shapes_dtypes_and_nesting() -> None:
    run = compiled(lambda pair, scale=1: pair["x"] * pair["y"][0] * scale)
    for _ in range(2):
        for n in (0, 1, 7, 17):
            x = gw.ones(n)
            assert run({"x": x, "y": [x]}, scale=3).tolist() == [3.0] * n
    assert programs(run) == 4
    assert run({"x": gw.ones(7), "y": [gw.ones(7, dtype=gw.float32)]}).dtype == gw.float64
    assert programs(run) == 5


def test_grad_mode_and_default_dtype() -> None:
    w = gw.ones(2, requires_grad=True)
    run = compiled(lambda: (w * 2, gw.zeros(1)))
    assert run()[0].requires_grad
    with gw.no_grad():
        assert not run()[0].requires_grad
    gw.set_default_dtype(gw.float32)
    assert run()[1].dtype == gw.float32
    assert programs(run) == 3


def test_attributes_of_modules() -> None:
    class Scaled(nn.Module):
        scale = 2.0

        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(gw.ones(2))
            self.factor = 3.0

        def forward(self, x: Any) -> Any:
            return x * self.weight * self.factor

    model = Scaled()
    run = compiled(lambda x: model(x).detach())
    assert run(gw.ones(2)).tolist() == [3, 3]
    model.factor = 4.0
    assert run(gw.ones(2)).tolist() == [4, 4]
    model.weight = nn.Parameter(gw.full((2,), 5.0))
    assert run(gw.ones(2)).tolist() == [20, 20]
    model.factor = 4  # equal, but a whole number
    assert run(gw.ones(2)).tolist() == [20, 20]
    assert programs(run) == 4


FACTOR = 2.0


def test_plain_values_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    count, kinds = 3, ["a list is not looked into"]

    def function(x: Any) -> Any:
        return x * FACTOR + count + len(kinds)

    run = compiled(function)
    assert run(gw.zeros(1)).item() == 4
    monkeypatch.setitem(globals(), "FACTOR", 5.0)
    assert run(gw.ones(1)).item() == 9
    count = 4
    assert run(gw.ones(1)).item() == 10
    assert programs(run) == 3


def test_methods_see_their_object() -> None:
    class Trainer:
        def __init__(self) -> None:
            self.weight, self.rate, self.seen = gw.ones(1), 0.5, 0

        def step(self, x: Any) -> Any:
            self.weight.add_(x, alpha=self.rate)
            return self.weight.sum()

    trainer = Trainer()
    run = compiled(trainer.step)
    assert run(gw.ones(1)).item() == 1.5
    trainer.rate, trainer.seen = 2.0, 7  # what the method does not name is no condition
    assert run(gw.ones(1)).item() == 3.5
    assert programs(run) == 2


def test_an_effect_that_happens_once_warns() -> None:
    count = 0

    def function(x: Any) -> Any:
        nonlocal count
        count += 1
        return x

    with pytest.warns(UserWarning, match=r"changed 'count' from 0 to 1.*test_function\.py"):
        compiled(function)(gw.ones(1))


def test_many_programs_warn_once_and_the_oldest_go() -> None:
    run = compiled(lambda x: x * 2)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for n in range(8):
            run(gw.ones(n))
    with pytest.warns(UserWarning, match="compiled 8 times"):
        run(gw.ones(8))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for n in range(12):
            assert run(gw.ones(n)).tolist() == [2] * n
    assert programs(run) == 8
