"""What a tensor's history is after changes through views, in no_grad, of data and of leaves."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

import gradwalk as gw
from tests.tensors import inplace_programs as programs
from tests.tensors.inplace_programs import assert_as_torch, outcome

# PyTorch warns, once, of what we refuse.
pytestmark = [
    pytest.mark.slow,  # thorough rather than quick: left out of `make quick`
    pytest.mark.filterwarnings("ignore:.*on expanded tensors is deprecated:UserWarning"),
]


def detached_zero(m: Any, x: Any, y: Any) -> Any:
    a = x * 2
    a.detach().zero_()
    return a.sum()


def detached_zero_of_saved(m: Any, x: Any, y: Any) -> Any:
    a = x * 2
    b = a * y
    a.detach().zero_()
    return b.sum()


def inside_no_grad(m: Any, x: Any, y: Any) -> Any:
    a = x * 2
    with m.no_grad():
        a.mul_(5)
        x.add_(1)
    return (a * 3).sum() + (x * x).sum()


def leaf_saved_then_updated(m: Any, x: Any, y: Any) -> Any:
    a = (x * y).sum()
    with m.no_grad():
        x.sub_(0.1)
    return a


def plain_leaf_filled(m: Any, x: Any, y: Any) -> Any:
    a = m.zeros(2, 3, dtype=m.float64)
    a[0] = x[0] * 2
    a[:, 1] += y[:, 1]
    a.T[2] = x[:, 0]
    return (a * a).sum()


def views_made_before(m: Any, x: Any, y: Any) -> Any:
    base = x * 2
    row, turned, corner = base[0], base.T, base.T[1:][:, 0]
    base.mul_(y)
    row.add_(1)
    return (row * 2).sum() + (turned * turned).sum() + corner.sum() * 3


def a_view_only_in_the_layout_of_its_base(m: Any, x: Any, y: Any) -> Any:
    base = x.T * 1  # columns lie together in memory; its gradient has rows together
    flat = base.T.reshape(-1)
    flat.mul_(y.reshape(-1))
    return base.sum()


def a_base_of_one_number(m: Any, x: Any, y: Any) -> Any:
    base = x.sum() * 1
    lifted = base.unsqueeze(0)
    lifted.mul_(y[0, 0])
    base[...] += y[0, 1]
    return base * 2 + lifted.sum() * 3


def view_first_asked_for_in_no_grad(m: Any, x: Any, y: Any) -> Any:
    base = x * 2
    row = base[0]
    base.mul_(3)
    with m.no_grad():
        row + 1
    return (row * row).sum()


def chain_of_changes(m: Any, x: Any, y: Any) -> Any:
    a = x * 1
    a += y
    a *= 2
    a[0] *= a[1]
    a.tanh_()
    a[:, 0] = a[:, 1] * y[:, 2]
    return (a * a).sum()


def output_needed(m: Any, x: Any, y: Any) -> Any:
    a = x.tanh()
    a.mul_(2)
    return a.sum()


def output_not_needed(m: Any, x: Any, y: Any) -> Any:
    a = x.sin()
    a.mul_(2)
    quotient = x / y
    quotient += 1
    return (a * quotient).sum()


def input_needed(m: Any, x: Any, y: Any) -> Any:
    a = x * 1
    b = a * a
    a.add_(1)
    return b.sum()


def input_needed_through_a_view(m: Any, x: Any, y: Any) -> Any:
    a = x * 1
    b = a[1].exp() + a[0].sin()
    a[0, 2] = 0
    return b.sum()


def a_view_made_in_no_grad(m: Any, x: Any, y: Any) -> Any:
    a = x * 1
    with m.no_grad():
        v = a[0]
    v.mul_(2)
    return a.sum()


def a_view_made_in_no_grad_gets_a_history(m: Any, x: Any, y: Any) -> Any:
    a = x * 1
    with m.no_grad():
        v = a[0]
    v[0] = y[0, 0]
    return a.sum()


def a_view_made_in_no_grad_used_after_a_change(m: Any, x: Any, y: Any) -> Any:
    a = x * 1
    with m.no_grad():
        v = a[0]
    a.mul_(2)
    return (v * y[0]).sum()


def a_view_of_what_became_a_leaf(m: Any, x: Any, y: Any) -> Any:
    z = m.zeros(3, dtype=m.float64)
    v = z[0]
    z.requires_grad_()
    v.add_(1)
    return (z * x[0]).sum()


def an_alias_by_a_function(m: Any, x: Any, y: Any) -> Any:
    class Same(m.autograd.Function):
        @staticmethod
        def forward(ctx: Any, t: Any) -> Any:
            return t

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return g

    a = x * 1
    b = Same.apply(a)
    b.mul_(2)
    return a.sum()


def a_part_by_a_function(m: Any, x: Any, y: Any) -> Any:
    class First(m.autograd.Function):
        @staticmethod
        def forward(ctx: Any, t: Any) -> Any:
            return t[0]

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return m.stack([g, g * 0])

    a = x * 1
    b = First.apply(a)
    a.mul_(2)
    return (b * 3).sum()


def wider_float(m: Any, x: Any, y: Any) -> Any:
    a = m.zeros(2, 3)  # float32
    a += x
    a[0] = y[0]
    return (a * a).sum().to(m.float64)


def integers_have_no_history(m: Any, x: Any, y: Any) -> Any:
    a = m.zeros(2, 3, dtype=m.int64)
    a[0] = y[0]
    a.copy_(x)
    assert not a.requires_grad
    return (a * x).sum()


PROGRAMS = [
    detached_zero, detached_zero_of_saved, inside_no_grad, leaf_saved_then_updated,
    plain_leaf_filled, views_made_before, a_view_only_in_the_layout_of_its_base,
    a_base_of_one_number, view_first_asked_for_in_no_grad, chain_of_changes,
    output_needed, output_not_needed, input_needed, input_needed_through_a_view,
    a_view_made_in_no_grad, a_view_made_in_no_grad_gets_a_history,
    a_view_made_in_no_grad_used_after_a_change, a_view_of_what_became_a_leaf,
    an_alias_by_a_function, a_part_by_a_function, integers_have_no_history,
]  # fmt: skip


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
def test_histories_as_in_pytorch(program: Callable[..., Any]) -> None:
    assert_as_torch(program)


def test_a_wider_float_is_cast() -> None:
    ours, theirs = outcome(gw, wider_float), outcome(torch, wider_float)
    for one, other in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6)


# -- random programs ------------------------------------------------------------------------------

number = st.integers(0, 999)
steps = st.lists(st.tuples(number, number, number, number), min_size=2, max_size=10)
DIRECTIONS = [
    np.random.default_rng(1).uniform(-1, 1, shape) for shape in programs.SHAPES[: -programs.FLAT]
]


def attempt(call: Callable[..., Any], *args: Any, **options: Any) -> Any:
    try:
        return call(*args, **options)
    except (RuntimeError, ValueError, TypeError, IndexError) as error:
        return error


@settings(max_examples=400)
@given(steps, st.booleans())
@example([(9, 1, 2, 0), (578, 856, 302, 539), (665, 197, 464, 756)], False)
def test_a_random_program_has_the_right_gradient_or_raises(program: Any, data: bool) -> None:
    options = {"menu": [*programs.STEPS, *[programs.THROUGH_DATA] * 3] if data else programs.STEPS}
    ours = attempt(programs.run_on, gw, program, **options)
    if isinstance(ours, Exception):
        return
    try:
        views, value, moved = programs.run_dual(program, DIRECTIONS, **options)
    except programs.DifferentLayout:
        return
    got = sum(float((g * d).sum()) for g, d in zip(ours[2], DIRECTIONS, strict=True))
    scale = max(1 + abs(value) + abs(moved), *(np.abs(g).max() for g in ours[2]))
    assert ours[0] == views
    assert abs(ours[1] - value) <= 1e-9 * scale
    assert abs(got - moved) <= 1e-8 * scale
    theirs = attempt(programs.run_on, torch, program, **options)
    if not data and not isinstance(theirs, Exception) and theirs[0] == views:
        for one, other in zip(ours[2], theirs[2], strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-8, atol=1e-9 * scale)


def second_derivatives(m: Any, program: Any) -> list[np.ndarray]:
    """Of Σ direction × gradient, by every leaf."""
    starts = programs.tensors(m)
    total = programs.run(list(starts), program)[1]
    leaves = starts[: -programs.FLAT]
    options = {"materialize_grads": True}
    gradients = m.autograd.grad(total, leaves, create_graph=True, **options)
    moved = sum((g * m.tensor(d)).sum() for g, d in zip(gradients, DIRECTIONS, strict=True))
    if not moved.requires_grad:
        return [np.zeros(leaf.shape) for leaf in leaves]
    return [g.numpy() for g in m.autograd.grad(moved, leaves, **options)]


@settings(max_examples=150)
@given(steps)
def test_its_second_derivatives_are_right_too(program: Any) -> None:
    ours = attempt(second_derivatives, gw, program)
    theirs = attempt(second_derivatives, torch, program)
    same_views = attempt(programs.run_on, gw, program), attempt(programs.run_on, torch, program)
    if any(isinstance(found, Exception) for found in (ours, theirs, *same_views)):
        return
    if same_views[0][0] == same_views[1][0]:
        for one, other in zip(ours, theirs, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-8, atol=1e-8 * (1 + np.abs(other).max()))


@settings(max_examples=150)
@given(steps)
def test_forward_mode_follows_changes_too(program: Any) -> None:
    still = programs.leaves()[-programs.FLAT :]
    moving = tuple(map(gw.tensor, programs.leaves()[: -programs.FLAT]))

    def function(*starts: Any) -> Any:
        return programs.run([*starts, *map(gw.tensor, still)], program)[1]

    ours = attempt(gw.jvp, function, moving, tuple(map(gw.tensor, DIRECTIONS)))
    if isinstance(ours, Exception):
        return
    try:
        _, value, moved = programs.run_dual(program, DIRECTIONS)
    except programs.DifferentLayout:
        return
    scale = 1 + abs(value) + abs(moved)
    assert abs(ours[0].item() - value) <= 1e-9 * scale
    assert abs(ours[1].item() - moved) <= 1e-8 * scale
