"""Errors that explain themselves: the tensor, the source lines, and a fix."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gradwalk as gw

# Each function below makes one mistake. Its docstring lists what the error must say: on each line
# a piece of text, or in `backquotes` a source line that must be quoted with its file and number.


def not_one_number() -> None:
    """
    the result of mul of shape (3,)
    `y = x * 2`
    .sum()
    shape (3,)
    """
    x = gw.ones(3, requires_grad=True)
    y = x * 2
    y.backward()


def not_one_number_but_a_name() -> None:
    """
    tensor 'logits' of shape (2, 3)
    `logits = x @ x.T @ x`
    Fix: reduce it first
    """
    x = gw.ones(2, 3, requires_grad=True)
    logits = x @ x.T @ x
    logits.label = "logits"
    logits.backward()


def needs_no_gradient() -> None:
    """
    the tensor of shape ()
    `y = x.sum()`
    requires_grad=True
    no_grad()
    """
    x = gw.ones(3)
    y = x.sum()
    y.backward()


def needs_no_gradient_and_has_a_name() -> None:
    """
    tensor 'loss' of shape ()
    `loss = x.detach().sum()`
    detach()
    """
    x = gw.ones(3, requires_grad=True)
    loss = x.detach().sum()
    loss.label = "loss"
    loss.backward()


def a_second_time() -> None:
    """
    the result of exp of shape (3,)
    `h = x.exp()`
    `first = h.sum().backward()`
    retain_graph=True
    """
    x = gw.ones(3, requires_grad=True)
    h = x.exp()
    first = h.sum().backward()
    assert first is None
    (h * 2).sum().backward()


def a_second_time_by_grad() -> None:
    """
    tensor 'hidden' of shape (3,)
    `h = x.tanh()`
    `first = gw.autograd.grad(h.sum(), x)`
    Fix:
    """
    x = gw.ones(3, requires_grad=True)
    h = x.tanh()
    h.label = "hidden"
    first = gw.autograd.grad(h.sum(), x)
    gw.autograd.grad(h, x, first)


def a_saved_input_was_modified() -> None:
    """
    input 'y' of mul (tensor 'h' of shape (3,))
    `out = x * h`
    `h += 1`
    .clone()
    x = x + y instead of x += y
    """
    x = gw.ones(3, requires_grad=True)
    h = x * 2
    h.label = "h"
    out = x * h
    h += 1
    out.sum().backward()


def a_saved_output_was_modified() -> None:
    """
    the result of tanh of shape (3,)
    `h = x.tanh()`
    `h[0] = 5.0`
    Fix:
    """
    x = gw.ones(3, requires_grad=True)
    h = x.tanh()
    h[0] = 5.0
    h.sum().backward()


def a_saved_parameter_was_updated() -> None:
    """
    of mul (tensor 'w' of shape (2,))
    `loss = (w * w).sum()`
    `optimizer.step()`
    Fix:
    """
    w = gw.ones(2, requires_grad=True)
    w.label = "w"
    optimizer = gw.optim.SGD([w], lr=0.1)
    w.sum().backward()
    loss = (w * w).sum()
    optimizer.step()
    loss.backward()


def a_saved_constant_was_modified() -> None:
    """
    input 'y' of mul of shape (2,)
    `out = x * scale`
    `scale.mul_(3)`
    Fix:
    """
    x = gw.ones(2, requires_grad=True)
    scale = gw.ones(2)
    out = x * scale
    scale.mul_(3)
    out.sum().backward()


def a_saved_index_was_modified() -> None:
    """
    'indices' of getitem, of shape (2,)
    `out = x[index]`
    `index.add_(1)`
    Fix:
    """
    x = gw.ones(4, requires_grad=True)
    index = gw.tensor([0, 1])
    out = x[index]
    index.add_(1)
    out.sum().backward()


def a_tensor_saved_by_a_function_was_modified() -> None:
    """
    'saved_tensors' of Doubled, of shape (2,)
    `out = Doubled.apply(h)`
    `h.zero_()`
    Fix:
    """
    h = gw.ones(2, requires_grad=True) * 1
    out = Doubled.apply(h)
    h.zero_()
    out.sum().backward()


class Doubled(gw.autograd.Function):
    """Twice its input, with a backward that may be wrong."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return x * 2

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        (x,) = ctx.saved_tensors
        return (g * 2 * x / x).sum(0, keepdim=True)


def a_gradient_of_wrong_shape_from_a_function() -> None:
    """
    Doubled returned a gradient of shape (1, 3)
    of shape (2, 3)
    `out = Doubled.apply(x)`
    Fix: check the rule
    """
    x = gw.ones(2, 3, requires_grad=True)
    out = Doubled.apply(x)
    out.sum().backward()


def a_gradient_of_wrong_shape_from_an_op() -> None:
    """
    total returned a gradient of shape ()
    for its input x of shape (3,)
    `out = total(x)`
    Fix: check the rule
    """
    total = gw.define("total", lambda x: np.sum(x), vjp=[lambda g: g * 1])
    x = gw.ones(3, requires_grad=True)
    out = total(x)
    out.backward()


def shapes_that_do_not_add() -> None:
    """
    add
    operand 1: 'weights' shape (2, 3)
    `weights = gw.ones(2, 3, requires_grad=True)`
    operand 2: shape (4,)
    `bias = gw.zeros(4) * 2`
    Fix: sizes must be equal or 1
    """
    weights = gw.ones(2, 3, requires_grad=True)
    weights.label = "weights"
    bias = gw.zeros(4) * 2
    weights + bias


def shapes_that_do_not_multiply() -> None:
    """
    matmul
    shape (2, 3)
    `x = gw.ones(2, 3)`
    shape (4, 3)
    `w = gw.ones(4, 3).tanh()`
    transpose one: x @ y.mT
    """
    x = gw.ones(2, 3)
    w = gw.ones(4, 3).tanh()
    x @ w


def shapes_that_do_not_fit_in_place() -> None:
    """
    add in place on the result of mul of shape (3,)
    shape (4,)
    """
    h = gw.ones(3, requires_grad=True) * 2
    h += gw.ones(4)


def integers_that_want_a_gradient() -> None:
    """
    tensor of shape (2,) holds int64
    `gw.tensor([1, 2], requires_grad=True)`
    decimal point
    dtype=gradwalk.float32
    """
    gw.tensor([1, 2], requires_grad=True)


def integers_that_want_a_gradient_later() -> None:
    """
    tensor 'labels' of shape (3,) holds int64
    `labels = gw.arange(3)`
    Fix:
    """
    labels = gw.arange(3)
    labels.label = "labels"
    labels.requires_grad_()


def to_numpy() -> None:
    """
    the result of exp of shape (2,)
    `y = gw.ones(2, requires_grad=True).exp()`
    Fix: x.detach().numpy()
    """
    y = gw.ones(2, requires_grad=True).exp()
    y.numpy()


def to_numpy_behind_the_scenes() -> None:
    """
    tensor 'w' of shape (2,)
    `w = gw.ones(2, requires_grad=True)`
    detach()
    """
    w = gw.ones(2, requires_grad=True)
    w.label = "w"
    np.mean(np.asarray(w))


def a_value_and_a_tensor() -> None:
    """
    the Value 'v' (2.0)
    the tensor of shape (2,)
    `v = gw.Value(2.0, label="v")`
    `t = gw.ones(2)`
    Fix: use value.data or tensor.item()
    """
    v = gw.Value(2.0, label="v")
    t = gw.ones(2)
    v * t


def a_tensor_and_a_value() -> None:
    """
    the Value (4.0)
    tensor 't' of shape (2,)
    `v = gw.Value(2.0) * 2`
    `t = gw.ones(2, requires_grad=True).exp()`
    Fix: use value.data or tensor.item()
    """
    v = gw.Value(2.0) * 2
    t = gw.ones(2, requires_grad=True).exp()
    t.label = "t"
    t * v


def a_gradient_that_does_not_fit() -> None:
    """
    gradient of shape (2,) for the result of mul of shape (3,)
    `y = gw.ones(3, requires_grad=True) * 2`
    Fix: pass gradient=
    """
    y = gw.ones(3, requires_grad=True) * 2
    y.backward(gw.ones(2))


def something_that_was_not_used() -> None:
    """
    tensor 'unused' of shape (2,) was not used
    `unused = gw.zeros(2, requires_grad=True)`
    allow_unused=True
    """
    x, unused = gw.ones(2, requires_grad=True), None
    unused = gw.zeros(2, requires_grad=True)
    unused.label = "unused"
    gw.autograd.grad(x.sum(), unused)


def grad_by_something_flat() -> None:
    """
    grad: the tensor of shape (2,) does not require a gradient
    `x = gw.ones(2)`
    requires_grad=True
    """
    x = gw.ones(2)
    gw.autograd.grad((x * gw.ones(2, requires_grad=True)).sum(), x)


def a_leaf_changed_in_place() -> None:
    """
    tensor 'w' of shape (2,) is a leaf
    `w = gw.ones(2, requires_grad=True)`
    `w -= 0.1`
    gradwalk.no_grad()
    """
    w = gw.ones(2, requires_grad=True)
    w.label = "w"
    w -= 0.1


def a_leaf_changed_through_a_view() -> None:
    """
    the tensor of shape (2,), changed through a view, is a leaf
    `w = gw.ones(2, requires_grad=True)`
    `w[0].zero_()`
    Fix:
    """
    w = gw.ones(2, requires_grad=True)
    w[0].zero_()


def a_view_from_no_grad_changed() -> None:
    """
    the tensor of shape () shares memory
    made inside no_grad()
    `v = h[0]`
    `v.mul_(2)`
    .clone()
    """
    h = gw.ones(2, requires_grad=True) * 1
    with gw.no_grad():
        v = h[0]
    v.mul_(2)


def a_view_from_no_grad_used_late() -> None:
    """
    the tensor of shape () shares memory with the result of mul of shape (2,)
    `v = h[0]`
    `h.mul_(2)`
    .clone()
    """
    h = gw.ones(2, requires_grad=True) * 1
    with gw.no_grad():
        v = h[0]
    h.mul_(2)
    v * 3


def an_expanded_tensor_changed() -> None:
    """
    the result of expand of shape (3, 2)
    .clone()
    """
    (gw.ones(2, requires_grad=True) * 1).expand(3, 2).add_(1)


def a_hook_of_other_shape() -> None:
    """
    a hook on the result of mul of shape (2,) (total)
    tensor of shape ()
    gradient of shape (2,)
    `y = gw.ones(2, requires_grad=True) * 2`
    Fix:
    """

    def total(g: Any) -> Any:
        return g.sum()

    y = gw.ones(2, requires_grad=True) * 2
    y.register_hook(total)
    y.sum().backward()


def too_few_gradients_from_a_function() -> None:
    """
    Both.backward returned 1 gradient(s) for 2 input(s)
    `out = Both.apply(x, x)`
    None where there is none
    """

    class Both(gw.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any, y: Any) -> Any:
            return x * y

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return g

    x = gw.ones(2, requires_grad=True)
    out = Both.apply(x, x)
    out.sum().backward()


def truth_of_several() -> None:
    """
    tensor 'mask' of shape (2,) has 2 elements
    .any() or .all()
    """
    mask = gw.ones(2) > 0
    mask.label = "mask"
    bool(mask)


MISTAKES = [
    not_one_number, not_one_number_but_a_name, needs_no_gradient, needs_no_gradient_and_has_a_name,
    a_second_time, a_second_time_by_grad, a_saved_input_was_modified, a_saved_output_was_modified,
    a_saved_parameter_was_updated, a_saved_constant_was_modified, a_saved_index_was_modified,
    a_tensor_saved_by_a_function_was_modified, a_gradient_of_wrong_shape_from_a_function,
    a_gradient_of_wrong_shape_from_an_op, shapes_that_do_not_add, shapes_that_do_not_multiply,
    shapes_that_do_not_fit_in_place, integers_that_want_a_gradient,
    integers_that_want_a_gradient_later, to_numpy, to_numpy_behind_the_scenes,
    a_value_and_a_tensor, a_tensor_and_a_value, a_gradient_that_does_not_fit,
    something_that_was_not_used, grad_by_something_flat, a_leaf_changed_in_place,
    a_leaf_changed_through_a_view, a_view_from_no_grad_changed, a_view_from_no_grad_used_late,
    an_expanded_tensor_changed, a_hook_of_other_shape, too_few_gradients_from_a_function,
    truth_of_several,
]  # fmt: skip


def quoted(function: Callable[..., Any], text: str) -> str:
    """How an error quotes a line of this file: with its name and number."""
    lines, first = inspect.getsourcelines(function)
    numbers = [first + i for i, line in enumerate(lines) if line.strip() == text]
    assert len(numbers) == 1, f"{text!r} is in {numbers} of {function.__name__}"
    return f"{Path(__file__).name}:{numbers[0]}: {text}"


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda m: m.__name__)
def test_the_error_explains_itself(mistake: Callable[[], None]) -> None:
    with pytest.raises((RuntimeError, ValueError, TypeError)) as caught:
        mistake()
    said = str(caught.value)
    for expected in inspect.cleandoc(mistake.__doc__ or "").splitlines():
        if expected.startswith("`"):
            expected = quoted(mistake, expected.strip("`"))
        assert expected in said
    assert "the the" not in said and "  at" not in said.replace("made at", "")
