"""A compiled step on a device uses the tensors in `.grad` again; nobody else may notice."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

import pytest

import gradwalk as gw
from gradwalk.compiler.backends.xla.backend import XlaExecutable


class Steps:
    """Steps of two parameters; the gradient of each is its factor times the number given."""

    def __init__(self, returned: bool = False) -> None:
        self.first = gw.ones(2, device="xla", requires_grad=True)
        self.second = gw.ones(3, device="xla", requires_grad=True)
        optimizer = gw.optim.SGD([self.first, self.second], 0.5)

        def step(x: Any) -> Any:
            optimizer.zero_grad()
            (self.first.sum() * x + (2 * self.second).sum() * x).backward()
            optimizer.step()
            return self.second.grad if returned else None

        self.compiled = gw.compile(step)

    def run(self, number: float) -> Any:
        return self.compiled(gw.tensor(number, device="xla"))

    def gradients(self) -> list[Any]:
        return [*self.first.grad.tolist(), *self.second.grad.tolist()]


def of(number: float) -> list[float]:
    return [number] * 2 + [2 * number] * 3


def keep_node(steps: Steps) -> Any:
    factor = gw.ones(2, device="xla", requires_grad=True)
    made = steps.first.grad * factor

    def use() -> list[float]:
        made.sum().backward()
        return factor.grad.tolist()

    return use


HOLD: dict[str, Callable[[Steps], Any]] = {
    "the tensor": lambda s: s.first.grad.tolist,
    "its clone": lambda s: s.first.grad.clone().tolist,
    "its detached twin": lambda s: s.first.grad.detach().tolist,
    "a view": lambda s: s.first.grad[:].tolist,
    "a graph": keep_node,
}


@pytest.mark.parametrize("how", HOLD)
def test_a_gradient_that_somebody_has_stays_as_it_is(how: str) -> None:
    steps = Steps()
    steps.run(1.0)
    steps.run(2.0)
    read = HOLD[how](steps)
    steps.run(3.0)
    assert steps.gradients() == of(3.0)
    assert read() == [2.0, 2.0]
    steps.run(4.0)
    assert steps.gradients() == of(4.0)


def other_data(steps: Steps) -> None:
    own = steps.first.grad._array
    steps.first.grad.data = gw.zeros(2, device="xla")
    steps.second.kept = own  # type: ignore[attr-defined]


def swap(steps: Steps) -> None:
    one, two = steps.first.grad, gw.zeros(2, device="xla")
    steps.first.grad = two
    steps.second.other = one  # type: ignore[attr-defined]


CHANGE: dict[str, Callable[[Steps], Any]] = {
    "set to None": lambda s: setattr(s.first, "grad", None),
    "labelled": lambda s: setattr(s.first.grad, "label", "mine"),
    "changed in place": lambda s: s.first.grad.zero_(),
    "of other data": other_data,
    "replaced": swap,
    "differentiable": lambda s: s.first.grad.requires_grad_(),
    "computed": lambda s: s.first.grad.mul_(gw.ones(2, device="xla", requires_grad=True)),
}


@pytest.mark.parametrize("how", CHANGE)
def test_a_changed_gradient_is_not_used_again(how: str) -> None:
    steps = Steps()
    steps.run(1.0)
    steps.run(2.0)
    CHANGE[how](steps)
    steps.run(3.0)
    grad = steps.first.grad
    assert steps.gradients() == of(3.0)
    assert grad.label == "" and grad.is_leaf and not grad.requires_grad


def test_a_returned_gradient_is_the_callers() -> None:
    steps = Steps(returned=True)
    made = [steps.run(float(n)) for n in range(1, 4)]
    assert [m.tolist() for m in made] == [of(n)[2:] for n in range(1, 4)]
    assert steps.second.grad is made[-1]


def test_there_is_never_memory_for_old_and_new_gradients(monkeypatch: pytest.MonkeyPatch) -> None:
    steps = Steps()
    steps.run(1.0)
    values = [weakref.ref(w.grad._array._term) for w in (steps.first, steps.second)]
    tensor = weakref.ref(steps.first.grad)
    jitted, gone = XlaExecutable._jitted, []

    def seen(self: Any, *args: Any) -> Any:
        run = jitted(self, *args)

        def call(*operands: Any) -> Any:
            gone.append([value() is None for value in values])
            return run(*operands)

        return call

    monkeypatch.setattr(XlaExecutable, "_jitted", seen)
    steps.run(2.0)
    assert gone == [[True, True]] and steps.gradients() == of(2.0)
    assert tensor() is steps.first.grad
