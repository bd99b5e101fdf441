"""`autograd.graph`: what operations keep for backward, packed and unpacked by hooks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import gradwalk as gw

hooks = gw.autograd.graph.saved_tensors_hooks
X = np.array([0.5, -1.5, 2.0])


@pytest.mark.parametrize("library", [gw, torch])
def test_backward_computes_with_what_is_unpacked(library: Any) -> None:
    x = library.tensor(X, requires_grad=True)
    with library.autograd.graph.saved_tensors_hooks(lambda t: t.tolist(), library.tensor):
        x.sin().sum().backward()
    np.testing.assert_allclose(x.grad, np.cos(X), rtol=1e-6)
    x.grad = None
    with library.autograd.graph.saved_tensors_hooks(lambda t: t * 2, lambda t: t):
        out = x.sin().sum()
    out.backward()
    np.testing.assert_allclose(x.grad, np.cos(2 * X))


def test_the_innermost_hooks_pack_and_none_pack_themselves() -> None:
    seen: list[str] = []

    def noting(name: str) -> Any:
        def pack(tensor: Any) -> Any:
            seen.append(name)
            return tensor.requires_grad_(False) * 1  # an operation of the hook itself

        return hooks(pack, lambda tensor: tensor)

    x = gw.tensor(X, requires_grad=True)
    outer = noting("outer")
    with outer:
        x.exp()
        with noting("inner"):
            x.exp()
        with outer:
            x.exp()
        x.exp()
    x.exp()
    assert seen == ["outer", "inner", "outer", "outer"]


def test_a_custom_function_lets_its_tensors_go() -> None:
    class Cube(gw.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.save_for_backward(x, None, x * x)
            return x**3

        @staticmethod
        def backward(ctx: Any, *grads: Any) -> Any:
            x, nothing, square = ctx.saved_tensors
            assert nothing is None
            return grads[0] * 3 * square + 0 * x

    x = gw.tensor(X, requires_grad=True)
    with hooks(lambda t: (t * 10).tolist(), lambda kept: gw.tensor(kept, dtype=gw.float64) / 10):
        out = Cube.apply(x).sum()
    kept = out.grad_fn.next_functions[0][0].saved
    assert not isinstance(kept, dict)
    out.backward()
    np.testing.assert_allclose(x.grad, 3 * X**2)


def test_second_derivatives_and_checkpoints() -> None:
    x = gw.tensor(X, requires_grad=True)
    with hooks(lambda t: t.numpy().copy(), gw.tensor):
        out = gw.checkpoint(lambda t: (t**3).sum(), x) + (x**3).sum()
        (slope,) = gw.autograd.grad(out, x, create_graph=True)
        slope.sum().backward()
    np.testing.assert_allclose(x.grad, 12 * X)


def test_errors_of_hooks() -> None:
    x = gw.tensor(X, requires_grad=True)
    for unpack, error, text in (
        (lambda kept: 3.0, TypeError, "returns the tensor that was packed"),
        (lambda kept: kept[:1], gw.AutogradError, "in place of one of"),
    ):
        with hooks(lambda t: t, unpack):
            out = x.exp().sum()
        with pytest.raises(error, match=text):
            out.backward()
    with hooks(lambda t: t.add_(1), lambda t: t), pytest.raises(RuntimeError, match="in place"):
        x.exp()
    with (
        gw.autograd.graph.disable_saved_tensors_hooks("not here"),
        pytest.raises(RuntimeError, match="not here"),
        hooks(lambda t: t, lambda t: t),
    ):
        pass
    compiled = gw.compile(lambda x: hooks(lambda t: t, lambda t: t).__enter__() and x)
    with pytest.raises(NotImplementedError, match="inside compile"):
        compiled(x)


def test_saved_on_the_cpu() -> None:
    x = gw.tensor(X, requires_grad=True)
    with gw.autograd.graph.save_on_cpu(pin_memory=True):
        (x * x).sum().backward()
    np.testing.assert_allclose(x.grad, 2 * X)
