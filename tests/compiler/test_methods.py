"""Compiled methods and modules, copies of them, hooks that come and go, and odd arguments."""

from __future__ import annotations

import copy
import dataclasses
import os
import pickle
import signal
import threading
from collections import OrderedDict
from typing import Any

import numpy as np
import pytest

import gradwalk as gw
from gradwalk import nn
from tests.compiler.models import programs

F = nn.functional
BACKENDS = pytest.mark.parametrize("backend", ["numpy", "llvm"])
X = gw.tensor([[1.0, 2.0], [3.0, -4.0]])


def numbers(tensors: Any) -> list[Any]:
    return [t.detach().numpy().copy() for t in tensors]


# -- methods ---------------------------------------------------------------------------------------


class Trainer:
    def __init__(self, seed: int) -> None:
        gw.manual_seed(seed)
        self.model, self.factor = nn.Linear(2, 1), 1.0
        self.optimizer = gw.optim.Adam(self.model.parameters(), lr=0.1)

    @gw.compile(static="power")
    def step(self, x: Any, power: int = 2) -> Any:
        self.optimizer.zero_grad()
        loss = (self.model(x) ** power).sum() * self.factor
        loss.backward()
        self.optimizer.step()
        return loss


def test_a_method_has_a_program_for_each_object() -> None:
    plain = Trainer.step.function
    first, second, eager = Trainer(0), Trainer(1), Trainer(0)
    for n in range(3):
        first.factor = eager.factor = float(n)
        np.testing.assert_allclose(first.step(X).item(), plain(eager, X).item(), 1e-6)
        second.step(X, power=4)
    assert first.step is first.step is not second.step
    np.testing.assert_allclose(numbers(first.model.parameters())[0],
                               numbers(eager.model.parameters())[0], 1e-6)  # fmt: skip
    assert "Trainer.step" in str(first.step.explain())


def test_a_copy_of_an_object_has_a_method_of_its_own() -> None:
    first = Trainer(0)
    first.step(X)
    for other in (copy.deepcopy(first), pickle.loads(pickle.dumps(first))):
        before = numbers(first.model.parameters())
        other.step(X)
        assert other.step is not first.step
        assert other.step.function.__self__ is other
        np.testing.assert_array_equal(numbers(first.model.parameters())[0], before[0])
        assert (numbers(other.model.parameters())[0] != before[0]).any()


def test_methods_of_classes_and_of_objects_without_a_dictionary() -> None:
    class Slotted:
        __slots__ = ("rate",)
        shared = 2.0

        def __init__(self) -> None:
            self.rate = 2.0

        @gw.compile(backend="numpy")
        def scaled(self, x: Any) -> Any:
            return x * self.rate

        @staticmethod
        @gw.compile(backend="numpy")
        def doubled(x: Any) -> Any:
            return x * 2

        @classmethod
        @gw.compile(backend="numpy")
        def shared_by_all(cls, x: Any) -> Any:
            return x * cls.shared

    thing, one = Slotted(), gw.ones(1)
    assert thing.scaled(one).item() == 2
    thing.rate = 3.0
    assert thing.scaled(one).item() == 3
    assert Slotted.doubled(one).item() == thing.doubled(one).item() == 2
    assert thing.shared_by_all(one).item() == 2
    Slotted.shared = 5.0
    assert Slotted.shared_by_all(one).item() == 5


# -- modules ---------------------------------------------------------------------------------------


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer, self.dropout, self.factor = nn.Linear(2, 2), nn.Dropout(0.5), 1.0

    def forward(self, x: Any) -> Any:
        return self.dropout(self.layer(x)) * self.factor

    def chosen(self, x: Any) -> Any:
        return self(x).argmax(1)


@gw.compile
def doubled(x: Any) -> Any:
    return x * 2


def test_a_compiled_module_is_a_module() -> None:
    net = Net()
    model = gw.compile(net)
    assert isinstance(model, nn.Module)
    assert list(model.state_dict()) == ["layer.weight", "layer.bias"]
    assert [p is q for p, q in zip(model.parameters(), net.parameters(), strict=True)] == [True] * 2
    assert model.eval() is model
    assert not net.dropout.training
    np.testing.assert_allclose(model(X).detach().numpy(), net(X).detach().numpy(), 1e-6)
    model.factor = 3.0
    assert net.factor == 3
    np.testing.assert_allclose(model(X).detach().numpy(), net(X).detach().numpy(), 1e-6)
    assert model.chosen(X).shape == (2,)
    assert [argument.name for argument in model.explain().arguments] == ["x"]
    model.register_forward_hook(lambda module, args, out: out * 0)
    assert not model(X).detach().numpy().any()
    other = Net()
    other.load_state_dict(model.state_dict())
    with pytest.raises(AttributeError, match="no_such"):
        model.no_such


def test_a_compiled_module_inside_another_learns() -> None:
    found = []
    for wrap in (lambda module: module, gw.compile):
        gw.manual_seed(0)
        model = nn.Sequential(wrap(nn.Sequential(nn.Linear(2, 3), nn.Tanh())), nn.Linear(3, 1))
        assert len(list(model.parameters())) == 4
        assert len(model[0]) == 2
        optimizer = gw.optim.SGD(model.parameters(), lr=0.1)
        for _ in range(3):
            optimizer.zero_grad()
            model(X).sum().backward()
            optimizer.step()
        model.eval()
        assert not model[0].training
        found.append(numbers(model.parameters()))
    for eager, native in zip(*found, strict=True):
        np.testing.assert_allclose(native, eager, 1e-6)


def test_copies_of_compiled_functions() -> None:
    model = gw.compile(nn.Linear(2, 2))
    expected = model(X).detach().numpy()
    for other in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        np.testing.assert_array_equal(other(X).detach().numpy(), expected)
        assert other.weight is not model.weight
    assert pickle.loads(pickle.dumps(doubled)) is doubled
    assert copy.deepcopy(doubled)(X).tolist() == (X * 2).tolist()


# -- hooks -----------------------------------------------------------------------------------------


@BACKENDS
@pytest.mark.parametrize("kind", ["forward", "before", "backward", "tensor"])
def test_hooks_that_come_and_go(kind: str, backend: str) -> None:
    def run(wrap: Any) -> list[Any]:
        gw.manual_seed(0)
        model = nn.Sequential(nn.Linear(2, 3), nn.Tanh(), nn.Linear(3, 1))

        def step(x: Any) -> Any:
            model.zero_grad()
            loss = model(x).square().sum()
            loss.backward()
            return loss

        step, found = wrap(step), []
        for hooked in (False, True, False):
            if hooked:
                handle = {
                    "forward": lambda: model[0].register_forward_hook(lambda m, i, o: o * 2),
                    "before": lambda: model[2].register_forward_pre_hook(lambda m, i: (i[0] * 2,)),
                    "backward": lambda: model[2].register_full_backward_hook(
                        lambda m, i, o: (i[0] * 2,)
                    ),
                    "tensor": lambda: model[0].weight.register_hook(lambda g: g * 2),
                }[kind]()
            found += [step(X).item(), *numbers(p.grad for p in model.parameters())]
            if hooked:
                handle.remove()
        return found

    eager, native = run(lambda f: f), run(lambda f: gw.compile(f, backend=backend))
    for expected, found in zip(eager, native, strict=True):
        np.testing.assert_allclose(found, expected, 1e-5)
    assert not np.allclose(native[1], native[6])


def test_the_hook_of_an_optimizer_is_seen() -> None:
    weight = nn.Parameter(gw.ones(1))
    optimizer = gw.optim.SGD([weight], lr=0.5)

    def function(x: Any) -> None:
        optimizer.zero_grad()
        (weight * x).sum().backward()
        optimizer.step()

    def stay(*_: Any) -> None:
        weight.grad.mul_(0)

    step = gw.compile(function, backend="numpy")
    step(gw.ones(1))
    with optimizer.register_step_pre_hook(stay):
        step(gw.ones(1))
    assert weight.tolist() == [0.5]
    step(gw.ones(1))
    assert weight.tolist() == [0]


def test_the_hook_of_a_parameter_is_called_once_outside() -> None:
    layer = nn.Linear(2, 1, bias=False)
    layer.weight.register_hook(lambda g: g * 2)
    gw.compile(layer, backend="numpy")(X).sum().backward()
    assert layer.weight.grad.tolist() == [[8, -4]]


def test_the_hook_of_an_argument_that_backward_reaches_is_refused() -> None:
    def function(x: Any) -> Any:
        (x * x).sum().backward()
        return x.grad

    run = gw.compile(function, backend="numpy")
    x = gw.ones(2, requires_grad=True)
    assert run(x).tolist() == [2, 2]
    x = gw.ones(2, requires_grad=True)
    x.register_hook(lambda g: g * 5)
    with pytest.raises(gw.TraceError, match="has a hook"):
        run(x)


# -- arguments and results -------------------------------------------------------------------------


@BACKENDS
def test_arguments_that_the_function_knows_by_itself(backend: str) -> None:
    def run(wrap: Any) -> list[Any]:
        gw.manual_seed(0)
        model = nn.Linear(2, 2)

        def step(x: Any, parameters: Any, rate: float) -> Any:
            loss = model(x).square().sum()
            with gw.no_grad():
                for p, g in zip(parameters, gw.autograd.grad(loss, parameters), strict=True):
                    p.sub_(g * rate)
            return loss, parameters[0]

        step = wrap(step)
        found = [step(X, list(model.parameters()), 0.01) for _ in range(3)]
        assert found[-1][1] is model.weight
        return [loss.item() for loss, _ in found] + numbers(model.parameters())

    eager, native = run(lambda f: f), run(lambda f: gw.compile(f, backend=backend))
    for expected, found in zip(eager, native, strict=True):
        np.testing.assert_allclose(found, expected, 1e-5)


def test_the_same_function_for_one_that_it_knows_and_others() -> None:
    known = nn.Parameter(gw.ones(2))
    run = gw.compile(lambda x: (known * x).sum(), backend="numpy")
    assert run(known).item() == 2
    assert run(gw.ones(2) * 3).item() == 6
    run(known).backward()
    assert known.grad.tolist() == [2, 2]
    assert programs(run) == 2


def unaligned(*numbers: float) -> gw.Tensor:
    array = np.zeros(4 * len(numbers) + 1, np.uint8)[1:].view(np.float32)
    array[:] = numbers
    assert not array.flags.aligned
    return gw.from_numpy(array)


@BACKENDS
def test_arguments_that_are_not_aligned(backend: str) -> None:
    def change(x: Any, y: Any) -> Any:
        x.mul_(2)
        x[0] = y[1]
        return (x * y).sum(), x, x[1:]

    run = gw.compile(change, backend=backend)
    for y in (unaligned(1, 5), gw.tensor([1.0, 5.0])):
        x = unaligned(3, 4)
        total, same, part = run(x, y)
        assert total.item() == 45
        assert same is x
        part.add_(1)  # it is a part of x, not of a copy
        assert x.tolist() == [5, 9]
    squares = gw.compile(lambda x: (x * x).sum(), backend=backend)
    x = unaligned(3, 4).requires_grad_(True)
    squares(x).backward()
    assert x.grad.tolist() == [6, 8]  # type: ignore[union-attr]
    known = unaligned(1, 2)
    with pytest.raises(gw.TraceError, match="aligned"):
        gw.compile(lambda x: x * known, backend=backend)(gw.ones(2))


@dataclasses.dataclass
class Batch:
    x: Any
    scale: float = 1.0
    more: Any = None


@dataclasses.dataclass(frozen=True, slots=True)
class Frozen:
    total: Any


class Plain:
    def __init__(self, x: Any) -> None:
        self.x = x


class Slotted:
    __slots__ = ("x",)

    def __init__(self, x: Any) -> None:
        self.x = x


@BACKENDS
def test_objects_with_tensors(backend: str) -> None:
    def function(batch: Batch) -> Any:
        x = batch.x * batch.scale
        inner = {"a": [Frozen(x.sum())], "b": (Plain(x), Slotted(x + 1))}
        return OrderedDict(batch=Batch(x + 1, batch.scale * 2, inner))

    run = gw.compile(function, backend=backend)
    for n in range(1, 4):
        found = run(Batch(gw.ones(2) * n, n / 2))
        assert type(found) is OrderedDict
        batch = found["batch"]
        assert type(batch) is Batch
        assert batch.x.tolist() == [n * n / 2 + 1] * 2
        assert batch.scale == n
        assert batch.more["a"][0].total.item() == n * n
        plain, slotted = batch.more["b"]
        assert plain.x.tolist() == [n * n / 2] * 2
        assert slotted.x.tolist() == [n * n / 2 + 1] * 2
    assert programs(run) == 1


@BACKENDS
def test_one_hot_with_the_number_of_classes(backend: str) -> None:
    run = gw.compile(lambda i: F.one_hot(i, 3), backend=backend)
    assert run(gw.tensor([[2], [0]])).tolist() == [[[0, 0, 1]], [[1, 0, 0]]]
    for wrong in (3, -1):
        with pytest.raises(IndexError, match="out of"):
            run(gw.tensor([[wrong], [0]]))


# -- errors and interrupts -------------------------------------------------------------------------


def test_an_error_after_changes_puts_them_back() -> None:
    gw.manual_seed(0)
    model = nn.Sequential(nn.Linear(2, 4), nn.BatchNorm1d(4), nn.Linear(4, 3))
    optimizer = gw.optim.Adam(model.parameters(), lr=0.1)
    table = gw.arange(5.0)

    @gw.compile
    def step(x: Any, y: Any, i: Any) -> Any:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss, table[i].cumsum(0), table.unsqueeze(0).repeat(2, 1)[:, i]

    good = gw.tensor([0, 2])
    step(X, good, good)
    before = numbers(model.state_dict().values())
    for y, i in ((gw.tensor([0, 3]), good), (good, gw.tensor([0, 9]))):
        with pytest.raises(IndexError):
            step(X, y, i)
        for now, then in zip(numbers(model.state_dict().values()), before, strict=True):
            np.testing.assert_array_equal(now, then)
    step(X, good, good)
    assert optimizer.state[model[0].weight]["step"] == 2


@pytest.mark.skipif(os.name == "nt", reason="sends a signal to itself")
def test_an_interrupt_leaves_no_half_step() -> None:
    # A suite that runs in the background ignores Ctrl+C.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    gw.manual_seed(0)
    model = nn.Sequential(nn.Linear(200, 800), nn.Tanh(), nn.Linear(800, 200))
    optimizer = gw.optim.Adam(model.parameters(), lr=0.1)

    @gw.compile
    def step(x: Any) -> Any:
        optimizer.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        return loss

    x = gw.randn(128, 200)
    step(x)
    kept, weight = optimizer.state[model[0].weight], model[0].weight.detach().numpy()
    for delay in (0.01, 0.013):
        timer = threading.Timer(delay, signal.raise_signal, (signal.SIGINT,))
        timer.start()
        with pytest.raises(KeyboardInterrupt):
            while True:
                count, before = kept["step"], weight[0].copy()
                step(x)
        timer.join()
        assert (kept["step"] != count) == (weight[0] != before).any()
