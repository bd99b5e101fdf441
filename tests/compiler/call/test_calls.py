"""Calls of compiled functions: differentiated outside, beside eager code, and their errors."""

from __future__ import annotations

import threading
import warnings
import weakref
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import gradwalk as gw
from gradwalk import nn
from gradwalk.compiler import compiled_function as function_module
from gradwalk.compiler.backends import BACKENDS
from tests.compiler import models
from tests.compiler.models import classes, compiled, numbers, programs

optim = gw.optim
F = nn.functional


@pytest.fixture(autouse=True)
def _double() -> Iterator[None]:
    gw.set_default_dtype(gw.float64)
    yield
    gw.set_default_dtype(gw.float32)


def vectors() -> list[Any]:
    return [(numbers(10, 4, seed=i), classes(3, 10, seed=i)) for i in range(3)]


def images() -> list[Any]:
    return [(numbers(5, 1, 14, 14, seed=i), classes(3, 5, seed=i)) for i in range(2)]


# -- differentiated outside ----------------------------------------------------------------------


def test_a_compiled_model_is_differentiated_outside() -> None:
    found = []
    for use in (lambda m: m, compiled):
        gw.manual_seed(0)
        model = models.cnn()
        optimizer = optim.SGD(model.parameters(), lr=0.1)
        run = use(model)
        for x, y in images():
            x.requires_grad = True
            optimizer.zero_grad()
            loss = F.cross_entropy(run(x * 1), y)
            loss.backward()
            optimizer.step()
        found.append([*model.state_dict().values(), x.grad, *[p.grad for p in model.parameters()]])
    for a, b in zip(*found, strict=True):
        np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), 1e-9, 1e-9)


def test_several_results_and_a_part_of_them() -> None:
    w = gw.tensor([2.0, 3.0], requires_grad=True)
    run = compiled(lambda x: (w * x, (w.exp() * x).sum(), x.detach()))
    x = gw.tensor([1.0, 2.0], requires_grad=True)
    first, second, third = run(x)
    assert (first.requires_grad, second.requires_grad, third.requires_grad) == (True, True, False)
    first.sum().backward()
    assert w.grad.tolist() == [1, 2]
    assert x.grad.tolist() == [2, 3]
    with pytest.raises(gw.AutogradError, match="second time"):
        second.backward()
    _, second, _ = run(x)
    second.backward()
    np.testing.assert_allclose(w.grad.numpy() - [1, 2], np.exp([2, 3]) * [1, 2])


def test_what_backward_needs_may_not_change() -> None:
    w = gw.tensor([2.0], requires_grad=True)
    run = compiled(lambda x: (w * w * x).sum())
    loss = run(gw.ones(1))
    with gw.no_grad():
        w.add_(1)
    with pytest.raises(gw.AutogradError, match="modified in place"):
        loss.backward()


def test_a_second_derivative_outside_is_refused() -> None:
    x = gw.tensor([2.0], requires_grad=True)
    y = compiled(lambda x: x**3)(x)
    with pytest.raises(gw.AutogradError, match="inside the compiled function"):
        gw.autograd.grad(y.sum(), x, create_graph=True)


def test_a_result_whose_backward_was_done_inside_needs_no_gradient() -> None:
    w = gw.ones(1, requires_grad=True)

    def step() -> Any:
        loss = (w * 2).sum()
        loss.backward()
        return loss

    assert not compiled(step)().requires_grad


# -- around the call -----------------------------------------------------------------------------


def test_a_change_is_noticed_by_eager_code() -> None:
    w = gw.ones(2, requires_grad=True)
    optimizer = optim.SGD([w], lr=0.5)

    def step() -> Any:
        optimizer.zero_grad()
        (w * w).sum().backward()
        optimizer.step()

    waiting = (w * w).sum()
    compiled(step)()
    with pytest.raises(gw.AutogradError, match="modified in place"):
        waiting.backward()


def test_inside_another_trace_and_inside_a_recording_it_is_the_function() -> None:
    inner = compiled(lambda x: x * 2)
    outer = compiled(lambda x: inner(x) + 1)
    assert outer(gw.ones(1)).item() == 3
    assert programs(inner) == 0
    with gw.record() as trace:
        inner(gw.ones(1, requires_grad=True)).sum().backward()
    assert "mul" in [node.op for node in trace.nodes]
    assert programs(inner) == 0


def test_decorators_and_errors_in_their_use() -> None:
    @gw.compile(backend="numpy", static="n")
    def power(x: Any, n: float) -> Any:
        """What it does."""
        return x ** int(n)

    assert power(gw.full((1,), 3.0), 2.0).item() == 9
    assert power.__doc__ == "What it does."
    assert power.__name__ == "power"
    with pytest.raises(ValueError, match="backend"):
        gw.compile(lambda x: x, backend="magic")
    with pytest.raises(TypeError):
        gw.compile(3)


def test_an_error_in_a_call_changes_nothing() -> None:
    w = gw.ones(3)

    def step(i: Any) -> Any:
        w.mul_(2)
        return gw.arange(3)[i]

    run = compiled(step)
    assert run(gw.tensor([2])).tolist() == [2]
    with pytest.raises(IndexError):
        run(gw.tensor([7]))
    assert w.tolist() == [2, 2, 2]


def test_arguments_with_gradients() -> None:
    def function(x: Any) -> Any:
        (x**3).sum().backward()
        return x.grad * 2

    run = compiled(function)
    for _ in range(2):
        x = gw.tensor([2.0], requires_grad=True)
        for grown in (12.0, 24.0):
            assert run(x).item() == 2 * grown
            assert x.grad.item() == grown


def test_what_is_not_used_any_more_is_let_go() -> None:
    model = models.mlp()
    optimizer = optim.Adam(model.parameters())

    def step(x: Any, y: Any) -> Any:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    run = compiled(step)
    x, y = vectors()[0]
    loss = run(x, y)
    waiting = [weakref.ref(t._array) for t in (x, loss)]
    del x, loss
    assert [ref() is None for ref in waiting] == [True, True]


def test_arrays_in_any_order_of_memory() -> None:
    weights = gw.from_numpy(np.arange(12.0).reshape(3, 4).T)
    column = gw.from_numpy(np.arange(8.0).reshape(4, 2)[:, 1])

    def function(x: Any) -> Any:
        column.add_(1)
        return (x * weights).sum(0) + column[:3], x

    turned, spread = np.arange(12.0).reshape(3, 4).T, np.arange(24.0).reshape(4, 6)[:, ::2]
    run, before = compiled(function), column.clone()
    for array in (np.ones((4, 3)), turned, spread, turned):
        column.copy_(before)
        expected, _ = function(gw.from_numpy(array))
        column.copy_(before)
        found, given = run(gw.from_numpy(array))
        np.testing.assert_array_equal(found.numpy(), expected.numpy())
        assert given.numpy() is array
    assert programs(run) == 3  # the strides are part of what a program is made for


def test_without_the_backend_it_runs_as_numpy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(BACKENDS, "llvm", "gradwalk.compiler.nowhere")
    monkeypatch.setattr(function_module, "_warned_of_fallback", False)
    run = gw.compile(lambda x: x * 2)
    with pytest.warns(UserWarning, match="runs in NumPy"):
        assert run(gw.ones(1)).item() == 2
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert run(gw.ones(2)).tolist() == [2, 2]
        assert gw.compile(lambda x: x * 3)(gw.ones(1)).item() == 3  # nor is it said again


def test_one_function_in_several_threads() -> None:
    weight = gw.zeros(3)

    def step(x: Any) -> Any:
        weight.add_(x)
        return x * 2

    run = compiled(step)
    found: list[Any] = []

    def work(number: int) -> None:
        for _ in range(20):
            found.append((number, run(gw.full((3,), float(number))).tolist()))

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(values == [2.0 * number] * 3 for number, values in found)
    assert weight.tolist() == [20.0 * (1 + 2 + 3)] * 3
