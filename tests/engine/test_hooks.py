"""Hooks that run after a gradient was added to `.grad`, against PyTorch's."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import gradwalk as gw


@pytest.mark.parametrize("engine", [gw, torch], ids=["gradwalk", "torch"])
def test_a_step_inside_the_backward_pass(engine: Any) -> None:
    x = engine.ones(2, requires_grad=True)
    optimizer, seen = engine.optim.SGD([x], lr=0.1), []

    def step(leaf: Any) -> None:
        seen.append((leaf is x, leaf.grad.tolist()))
        optimizer.step()
        optimizer.zero_grad()

    handle = x.register_post_accumulate_grad_hook(step)
    x.register_hook(lambda g: 2 * g)  # replaces the gradient before it is added
    (x * x).sum().backward()
    assert seen == [(True, [4.0, 4.0])] and x.grad is None
    assert x.tolist() == pytest.approx([0.6, 0.6])
    engine.autograd.grad((x * x).sum(), x)  # adds to no .grad
    handle.remove()
    (x * x).sum().backward()
    assert len(seen) == 1 and x.grad.tolist() == pytest.approx([2.4, 2.4])


def test_only_leaves_that_need_a_gradient() -> None:
    x = gw.ones(2, requires_grad=True)
    for wrong, why in ((x * 2, "no leaf"), (gw.ones(2), "needs no gradient")):
        with pytest.raises(RuntimeError, match=why):
            wrong.register_post_accumulate_grad_hook(print)


def test_compiled_functions_call_them() -> None:
    x = gw.ones(2, requires_grad=True)

    @gw.compile
    def step(y: gw.Tensor) -> None:
        (x * y).sum().backward()

    step(gw.ones(2))
    assert x.grad.tolist() == [1.0, 1.0]

    def halve(leaf: gw.Tensor) -> None:
        leaf.grad.mul_(0.5)

    x.register_post_accumulate_grad_hook(halve)
    for _ in range(2):
        x.grad = None
        step(gw.ones(2))
        assert x.grad.tolist() == [0.5, 0.5]
    x.grad = None
    gw.compile(lambda y: (x * y).sum())(gw.ones(2)).backward()
    assert x.grad.tolist() == [0.5, 0.5]


# -- hooks of nodes --------------------------------------------------------------------------------


def hooked(m: Any, where: str, after: Any = None, before: Any = None) -> Any:
    """What hooks on a node see, and the gradients of a product's factors."""
    seen: list[Any] = []

    def numbers(given: Any) -> Any:
        return tuple(None if g is None else g.tolist() for g in given)

    def post(grad_inputs: Any, grad_outputs: Any) -> Any:
        seen.append(("after", numbers(grad_inputs), numbers(grad_outputs)))
        return after and after(grad_inputs)

    def pre(grad_outputs: Any) -> Any:
        seen.append(("before", numbers(grad_outputs)))
        return before and before(grad_outputs)

    x = m.tensor([1.0, 2.0, 3.0], requires_grad=True)
    y = m.tensor([4.0, 5.0, 6.0], requires_grad=True)
    product = x * y
    total = product.sum()
    node = {
        "product": product.grad_fn,
        "sum": total.grad_fn,
        "leaf": product.grad_fn.next_functions[0][0],
    }[where]
    handles = [node.register_hook(post), node.register_prehook(pre)]
    total.backward(retain_graph=True)
    for handle in handles:
        handle.remove()
    total.backward()
    return seen, numbers([x.grad, y.grad])


@pytest.mark.parametrize(
    "where, after, before",
    [
        ("product", None, None),
        ("sum", None, None),
        ("leaf", None, None),
        ("product", lambda g: (g[0] * 10, g[1]), None),
        ("product", lambda g: (g[0], None), None),
        ("product", None, lambda g: (g[0] * 2,)),
        ("leaf", None, lambda g: (g[0] * 2,)),
    ],
)
def test_hooks_of_nodes_see_and_replace_what_pytorchs_do(
    where: str, after: Any, before: Any
) -> None:
    assert hooked(gw, where, after, before) == hooked(torch, where, after, before)


def test_a_hook_where_a_leaf_is_added_to_sees_the_sum() -> None:
    found = []
    for m in (gw, torch):
        x = m.tensor([1.0, 2.0], requires_grad=True)
        order: list[Any] = []
        place = x.expand_as(x).grad_fn.next_functions[0][0]  # how programs find it
        place.register_hook(lambda *_, x=x, order=order: order.append(x.grad.tolist()))
        x.register_post_accumulate_grad_hook(lambda _, order=order: order.append("added"))
        place.register_prehook(lambda _, order=order: order.append("before"))
        x.register_hook(lambda _, order=order: order.append("tensor"))
        (x * 2).sum().backward()
        (x * 3).sum().backward()
        m.autograd.grad((x * 3).sum(), x)
        found.append(order)
    assert found[0] == found[1]


def test_what_hooks_of_nodes_may_not_return() -> None:
    with pytest.raises(TypeError, match="None or a tuple"):
        hooked(gw, "product", lambda g: g[0])
    with pytest.raises(RuntimeError, match="1 gradients in place of 2"):
        hooked(gw, "product", lambda g: g[:1])
    with pytest.raises(gw.AutogradError, match="they must be alike"):
        hooked(gw, "product", lambda g: (g[0].sum(), g[1]))
    x = gw.ones(2, requires_grad=True)
    x.register_post_accumulate_grad_hook(lambda leaf: leaf.grad * 2)
    with pytest.raises(TypeError, match="Fix: change tensor"):
        (x * 2).sum().backward()


def test_a_step_in_a_hook_may_return_its_parameter() -> None:
    w = gw.zeros(3, requires_grad=True)
    w.register_post_accumulate_grad_hook(lambda leaf: leaf.add_(leaf.grad, alpha=-0.5))
    (w * gw.tensor([1.0, 2.0, 3.0])).sum().backward()
    assert w.tolist() == [-0.5, -1.0, -1.5]
