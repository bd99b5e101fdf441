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
    x.register_post_accumulate_grad_hook(lambda leaf: leaf.grad.mul_(0.5))
    for _ in range(2):
        x.grad = None
        step(gw.ones(2))
        assert x.grad.tolist() == [0.5, 0.5]
    x.grad = None
    gw.compile(lambda y: (x * y).sum())(gw.ones(2)).backward()
    assert x.grad.tolist() == [0.5, 0.5]
