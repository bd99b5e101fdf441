"""Custom Functions inside vmap that transforms around it differentiate, as in PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import gradwalk as gw

RNG = np.random.default_rng(0)
X, W = RNG.normal(size=(4, 3)), RNG.normal(size=3)


def made_with(m: Any) -> Any:
    class Gated(m.autograd.Function):
        generate_vmap_rule = True

        @staticmethod
        def forward(x: Any, w: Any, k: float) -> Any:
            y = x.tanh()
            return (y * w).sum() * k, y * k

        @staticmethod
        def setup_context(ctx: Any, inputs: Any, outputs: Any) -> None:
            x, w, ctx.k = inputs
            ctx.save_for_backward(x, None, w, outputs[1])

        @staticmethod
        def backward(ctx: Any, g: Any, h: Any) -> Any:
            x, _, w, y = ctx.saved_tensors
            moved = g * w * ctx.k + h * ctx.k
            return moved * (1 - (y / ctx.k) ** 2), g * x.tanh() * ctx.k, None

    return Gated


def each(m: Any, function: Any, x: Any, w: Any) -> Any:
    def one(x: Any, w: Any) -> Any:
        return function.apply(x, w, 2.0)[0] + function.apply(x, w, 3.0)[1].sum()

    return m.vmap(one, in_dims=(0, None))(x, w)


# By name: of the library, the Function, and two tensors.
AROUND: dict[str, Callable[[Any, Any, Any, Any], Any]] = {
    "what is shared": lambda m, f, x, w: m.func.grad(lambda w: (each(m, f, x, w) ** 2).sum())(w),
    "what differs": lambda m, f, x, w: m.func.grad(lambda x: (each(m, f, x, w) ** 2).sum())(x),
    "Jacobian": lambda m, f, x, w: m.func.jacrev(lambda w: each(m, f, x, w))(w),
    "second derivative": lambda m, f, x, w: m.func.jacrev(
        m.func.jacrev(lambda x: (each(m, f, x, w) ** 2).sum())
    )(x),
    "vmap in vmap": lambda m, f, x, w: m.func.grad(
        lambda w: m.vmap(lambda x: each(m, f, x, w).sum())(m.stack([x, 2 * x])).sum()
    )(w),
    "other dimensions": lambda m, f, x, w: m.func.grad(
        lambda w: (
            m.vmap(lambda a: f.apply(a, w, 2.0), in_dims=1, out_dims=(0, 1))(x.T)[1].sum()
            + m.vmap(lambda a: f.apply(a, w, 2.0)[0], in_dims=1)(x.T).sum()
        )
    )(w),
    "nothing that differs": lambda m, f, x, w: m.func.grad(
        lambda w: m.vmap(lambda a: a.sum() * f.apply(w, w, 2.0)[0])(x).sum()
    )(w),
}


@pytest.mark.parametrize("name", AROUND)
def test_transforms_around_as_pytorch(name: str) -> None:
    found = [AROUND[name](m, made_with(m), m.tensor(X), m.tensor(W)) for m in (gw, torch)]
    np.testing.assert_allclose(found[0].numpy(), found[1].numpy(), rtol=1e-10, atol=1e-12)


def test_backward_around() -> None:
    found = []
    for m in (gw, torch):
        w = m.tensor(W, requires_grad=True)
        (each(m, made_with(m), m.tensor(X), w) ** 2).sum().backward()
        found.append(w.grad.numpy())
    np.testing.assert_allclose(found[0], found[1], rtol=1e-10)


def test_forward_mode_around() -> None:
    x, w = gw.tensor(X), gw.tensor(W)
    function = made_with(gw)
    moved = gw.jvp(lambda w: each(gw, function, x, w), (w,), (w,))[1]
    expected = gw.func.jacrev(lambda w: each(gw, function, x, w))(w) @ w
    np.testing.assert_allclose(moved.numpy(), expected.numpy())


def test_transforms_inside_and_around_at_once_are_refused() -> None:
    function = made_with(gw)

    def loss(w: Any) -> Any:
        inner = gw.grad(lambda x: function.apply(x, w, 2.0)[0])
        return gw.vmap(inner)(gw.tensor(X)).sum()

    with pytest.raises(gw.VmapError, match="inside the vmap or around it differentiate it, not"):
        gw.grad(loss)(gw.tensor(W))
