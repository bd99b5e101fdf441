"""Autograd as in PyTorch: leaves, .grad, backward, grad, hooks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.engine.both import ENGINES, assert_same, leaf, listed

# -- leaves, requires_grad, accumulation ---------------------------------------------------------


def flags(m: Any) -> Any:
    x, plain = leaf(m), m.ones(3, dtype=m.float64)
    y, z = x * plain, plain * 2
    detached = y.detach()
    return [
        (t.requires_grad, t.is_leaf, t.grad_fn is None)
        for t in (x, plain, y, z, detached, x[0], plain[0], y.clone(), x.data, (x > 0))
    ]


def accumulation(m: Any) -> Any:
    x = leaf(m)
    found = []
    for _ in range(3):
        (x * x).sum().backward()
        found.append(x.grad.tolist())
    x.grad = None
    x.sum().backward()
    x.grad.zero_()
    (x * 2).sum().backward()
    return [*found, x.grad]


def grad_is_one_object(m: Any) -> Any:
    x = leaf(m)
    x.sum().backward()
    first = x.grad
    x.sum().backward()
    return [first is x.grad, first, first.requires_grad, first.is_leaf]


def assigned_grad(m: Any) -> Any:
    x = leaf(m)
    x.grad = m.full((3,), 10.0, dtype=m.float64)
    (x * 2).sum().backward()
    return x.grad


def wrong_grad_shape(m: Any) -> Any:
    leaf(m).grad = m.ones(2, dtype=m.float64)


def wrong_grad_dtype(m: Any) -> Any:
    leaf(m).grad = m.ones(3, dtype=m.float32)


def switched_on_later(m: Any) -> Any:
    x = m.ones(2)
    y = x * 2
    x.requires_grad_()
    (x * 3).sum().backward()
    return [x.grad, y.requires_grad, x.requires_grad_(False).requires_grad]


def switched_off_on_a_result(m: Any) -> Any:
    (leaf(m) * 2).requires_grad = False


def used_twice(m: Any) -> Any:
    x, y = leaf(m), leaf(m, 1.0, 2.0, 3.0)
    z = x * y
    (z * z + z.sin() * 0 + x).sum().backward()
    return [x.grad, y.grad]


def broadcast(m: Any) -> Any:
    x, y, z = leaf(m), leaf(m, 2.0), m.tensor([[1.0], [2.0]], dtype=m.float64, requires_grad=True)
    (x * y + z).sum().backward()
    return [x.grad, y.grad, z.grad]


def detached_path(m: Any) -> Any:
    x = leaf(m)
    (x * x.detach() + (x * 2).detach()).sum().backward()
    return x.grad


def other_dtype(m: Any) -> Any:
    x = m.ones(3, requires_grad=True)
    y = leaf(m)
    (x * y).sum().backward()
    return [str(x.grad.dtype).split(".")[-1], str(y.grad.dtype).split(".")[-1], x.grad]


def one_element(m: Any) -> Any:
    x = m.tensor([[[3.0]]], requires_grad=True)
    (x * x).backward()
    return x.grad


def backward_of_a_leaf(m: Any) -> Any:
    x = leaf(m, 2.0)
    x.backward()
    x.backward()
    return x.grad


# -- backward(...) ---------------------------------------------------------------------------------


def with_gradient(m: Any) -> Any:
    x = leaf(m)
    y = x * x
    y.backward(gradient=m.tensor([1.0, 10.0, 100.0], dtype=m.float64), retain_graph=True)
    y.backward(m.tensor([1.0, 0.0, 0.0]))  # another dtype is cast
    return x.grad


def with_gradient_of_wrong_shape(m: Any) -> Any:
    (leaf(m) * 2).backward(m.ones(2, dtype=m.float64))


def without_gradient(m: Any) -> Any:
    (leaf(m) * 2).backward()


def of_nothing(m: Any) -> Any:
    m.ones(1).backward()


def retained(m: Any) -> Any:
    x = leaf(m)
    y = (x * x).sum()
    y.backward(retain_graph=True)
    y.backward(retain_graph=True)
    y.backward()
    return x.grad


def not_retained(m: Any) -> Any:
    y = (leaf(m) ** 2).sum()
    y.backward()
    y.backward()


def nothing_was_saved(m: Any) -> Any:
    x, y = leaf(m), leaf(m)
    out = (x + y).reshape(3, 1).sum()
    out.backward()
    out.backward()
    return [x.grad, y.grad]


def shared_part_not_retained(m: Any) -> Any:
    x = leaf(m)
    h = x.exp()
    h.sum().backward()
    (h * 2).sum().backward()


def only_some_inputs(m: Any) -> Any:
    x, y = leaf(m), leaf(m)
    z = x * y
    (z * z).sum().backward(inputs=[x, z])
    return [x.grad, y.grad is None, z.grad]


def one_input(m: Any) -> Any:
    x, y = leaf(m), leaf(m)
    (x * y).sum().backward(inputs=y)
    return [x.grad is None, y.grad]


def pieces_as_inputs(m: Any) -> Any:
    x = leaf(m, 1.0, 2.0, 3.0, 4.0)
    one, other = (x * 1).split(2)
    (one * one * other).sum().backward(inputs=[other, one])
    return [one.grad, other.grad, x.grad is None]


def no_inputs(m: Any) -> Any:
    (leaf(m) * 2).sum().backward(inputs=[])


def several_roots(m: Any) -> Any:
    x = leaf(m)
    y = x * x
    m.autograd.backward([y.sum(), (y * x).sum()], [None, m.tensor(2.0, dtype=m.float64)])
    return x.grad


def created_graph(m: Any) -> Any:
    x, y = leaf(m), leaf(m)
    (x**3 + y).sum().backward(create_graph=True)
    first = [x.grad.tolist(), y.grad.tolist(), x.grad.requires_grad]
    (x.grad * x.grad).sum().backward()
    found = [*first, x.grad]
    x.grad = y.grad = None  # breaks the cycle the warning is about
    return found


# -- autograd.grad ---------------------------------------------------------------------------------


def plain_grad(m: Any) -> Any:
    x, y = leaf(m), leaf(m)
    found = m.autograd.grad((x * y).sum(), [x, y])
    return [found, x.grad is None, type(m.autograd.grad(x.sum(), x)) is tuple]


def grad_of_several_outputs(m: Any) -> Any:
    x = leaf(m)
    weights = m.tensor([1.0, 2.0, 3.0], dtype=m.float64)
    return m.autograd.grad([x * x, x.sum(), x.sin().sum()], x, [weights, None, None])


def unused_refused(m: Any) -> Any:
    return m.autograd.grad(leaf(m).sum(), [leaf(m)])


def unused_allowed(m: Any) -> Any:
    x, y = leaf(m), leaf(m)
    return m.autograd.grad(x.sum(), [y, x], allow_unused=True)


def unused_as_zeros(m: Any) -> Any:
    x, y = leaf(m), leaf(m)
    return m.autograd.grad(x.sum(), [y, x], allow_unused=True, materialize_grads=True)


def grad_by_something_flat(m: Any) -> Any:
    return m.autograd.grad(leaf(m).sum(), m.ones(3))


def grad_by_inner_tensors(m: Any) -> Any:
    x = leaf(m)
    y = x * 2
    z = y * y
    return [m.autograd.grad(z.sum(), [y, z, x], retain_graph=True), z.grad_fn is not None]


def grad_of_itself(m: Any) -> Any:
    x = leaf(m, 3.0)
    return m.autograd.grad(x, x)


def grad_third_order(m: Any) -> Any:
    x = leaf(m)
    out = (x**4).sum()
    found = []
    for _ in range(3):
        (g,) = m.autograd.grad(out, x, create_graph=True)
        found.append(g.tolist())
        out = g.sum()
    return found


def grad_by_grad_outputs(m: Any) -> Any:
    """The transpose trick: differentiate a VJP by its cotangent."""
    x = leaf(m)
    v = m.ones(3, dtype=m.float64, requires_grad=True)
    (pulled,) = m.autograd.grad(x**3, x, v, create_graph=True)
    return m.autograd.grad(pulled, v, m.tensor([1.0, 2.0, 3.0], dtype=m.float64))


def too_few_grad_outputs(m: Any) -> Any:
    x = leaf(m)
    return m.autograd.grad([x.sum(), x.sum()], x, [None])


# -- hooks -----------------------------------------------------------------------------------------


def hooks_in_order(m: Any) -> Any:
    x, seen = leaf(m, 1.0), []
    y = x * 2
    y.register_hook(lambda g: seen.append(("first", g.item())))
    y.register_hook(lambda g: g * 10)
    y.register_hook(lambda g: seen.append(("third", g.item())))
    x.register_hook(lambda g: seen.append(("leaf", g.item())))
    x.register_hook(lambda g: g + 1)
    (y * 3).backward()
    return [*seen, x.grad]


def hook_sees_the_sum(m: Any) -> Any:
    x, seen = leaf(m, 1.0), []
    y = x * 2
    y.register_hook(lambda g: seen.append(g.item()))
    (y * 3 + y * 4).backward()
    return seen


def hook_removed(m: Any) -> Any:
    x, seen = leaf(m, 1.0), []
    handle = x.register_hook(seen.append)
    (x * 2).backward()
    handle.remove()
    handle.remove()
    (x * 2).backward()
    return [len(seen), x.grad]


def hook_removes_itself(m: Any) -> Any:
    x, seen = leaf(m, 1.0), []
    handle = x.register_hook(lambda g: (seen.append(g.item()), handle.remove())[2:] or None)
    other = x.register_hook(lambda g: seen.append("other"))
    (x * 2).backward()
    (x * 2).backward()
    other.remove()
    return seen


def hook_on_a_piece(m: Any) -> Any:
    x = leaf(m, 1.0, 2.0, 3.0, 4.0)
    one, other = x.split(2)
    other.register_hook(lambda g: g * 100)
    (one + other * 2).sum().backward()
    return x.grad


def hook_changes_what_grad_returns(m: Any) -> Any:
    x = leaf(m, 1.0)
    y = x * 2
    y.register_hook(lambda g: g * 5)
    return [m.autograd.grad(y * 3, x, retain_graph=True), m.autograd.grad(y * 3, y)]


def hook_in_a_created_graph(m: Any) -> Any:
    x = leaf(m, 2.0)
    y = x * x
    y.register_hook(lambda g: g * g)
    (first,) = m.autograd.grad(y * y, x, create_graph=True)
    return [first, m.autograd.grad(first, x)]


def hook_of_other_shape(m: Any) -> Any:
    x = leaf(m)
    x.register_hook(lambda g: g.sum())
    x.sum().backward()


def hook_returns_a_number(m: Any) -> Any:
    x = leaf(m)
    x.register_hook(lambda g: 3.0)
    x.sum().backward()


def hook_on_something_flat(m: Any) -> Any:
    m.ones(2).register_hook(print)


def retain_grad(m: Any) -> Any:
    x = leaf(m)
    y = x * 2
    y.retain_grad()
    y.retain_grad()
    y.register_hook(lambda g: g * 2)
    flags = [x.retains_grad, y.retains_grad, (x * 1).retains_grad]
    (y * y).sum().backward(retain_graph=True)
    first = y.grad.tolist()
    (y * y).sum().backward()
    x.retain_grad()
    return [flags, first, y.grad, x.grad]


def retain_grad_on_something_flat(m: Any) -> Any:
    m.ones(2).retain_grad()


PROGRAMS = [
    flags, accumulation, grad_is_one_object, assigned_grad, wrong_grad_shape, wrong_grad_dtype,
    switched_on_later, switched_off_on_a_result, used_twice, broadcast, detached_path, other_dtype,
    one_element, backward_of_a_leaf, with_gradient, with_gradient_of_wrong_shape, without_gradient,
    of_nothing, retained, not_retained, nothing_was_saved, shared_part_not_retained,
    only_some_inputs, one_input,
    pieces_as_inputs, no_inputs, several_roots, plain_grad, grad_of_several_outputs,
    unused_refused, unused_allowed, unused_as_zeros, grad_by_something_flat, grad_by_inner_tensors,
    grad_of_itself, grad_third_order, grad_by_grad_outputs, too_few_grad_outputs, hooks_in_order,
    hook_sees_the_sum, hook_removed, hook_removes_itself, hook_on_a_piece,
    hook_changes_what_grad_returns, hook_in_a_created_graph, hook_of_other_shape,
    hook_returns_a_number, hook_on_something_flat, retain_grad, retain_grad_on_something_flat,
]  # fmt: skip


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
def test_as_in_pytorch(program: Callable[[Any], Any]) -> None:
    assert_same(program)


def test_backward_with_create_graph_warns_of_the_cycle_as_pytorch_does() -> None:
    results = []
    for m in ENGINES:
        with pytest.warns(UserWarning, match=r"create_graph=True"):
            results.append(listed(created_graph(m)))
    assert results[0] == results[1]
