"""PyTorch's `autograd.forward_ad`: the same tangents as PyTorch's."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import gradwalk as gw

pytestmark = pytest.mark.filterwarnings("ignore:`torch.jit.script`:DeprecationWarning")  # PyTorch's

BOTH = (gw, torch)


def forward_ad(library: Any) -> Any:
    return importlib.import_module(f"{library.__name__}.autograd.forward_ad")


def changed_in_place(library: Any, x: Any) -> Any:
    y = x.clone()
    y.mul_(3)
    y[0] = x[1]
    filled = library.zeros(2, dtype=x.dtype)
    filled[1] = y[0]
    return library.stack([y, filled])


PROGRAMS: dict[str, Callable[[Any, Any], Any]] = {
    "elementwise": lambda library, x: (x.tanh() * x).sum(),
    "products": lambda library, x: library.outer(x, x) @ x,
    "changed in place": changed_in_place,
    "samples": lambda library, x: library.vmap(lambda one: one * x.prod())(x),
    "a part": lambda library, x: x.detach() * x[0],
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_tangents_as_pytorch(name: str) -> None:
    found = []
    for library in BOTH:
        dual = forward_ad(library)
        x, along = (library.tensor(n, dtype=library.float64) for n in ([0.5, 2.0], [1.0, -3.0]))
        with dual.dual_level():
            out = dual.unpack_dual(PROGRAMS[name](library, dual.make_dual(x, along)))
        assert not out.primal.requires_grad and not out.tangent.requires_grad
        found.append([part.numpy() for part in out])
    np.testing.assert_allclose(found[0], found[1], rtol=1e-12)


def test_a_gradient_of_a_tangent() -> None:
    found = []
    for library in BOTH:
        dual = forward_ad(library)
        w = library.tensor([1.0, 2.0], requires_grad=True)
        with dual.dual_level():
            out = dual.unpack_dual((dual.make_dual(w, library.tensor([1.0, 10.0])) ** 3).sum())
            assert out.primal.requires_grad and out.tangent.requires_grad
            found.append(library.autograd.grad(out.tangent, w)[0].tolist())
    assert found[0] == found[1] == [6.0, 120.0]


def test_parameters_of_a_module() -> None:
    found = []
    for library in BOTH:
        dual = forward_ad(library)
        layer = library.nn.Linear(2, 1)
        with dual.dual_level():
            for name, parameter in list(layer.named_parameters()):
                delattr(layer, name)
                setattr(layer, name, dual.make_dual(parameter, library.ones_like(parameter)))
            found.append(dual.unpack_dual(layer(library.ones(1, 2))).tangent.tolist())
    assert found[0] == found[1] == [[3.0]]


def test_tangents_of_gradients_whose_graph_is_freed() -> None:
    found = []
    for library in BOTH:
        dual = forward_ad(library)
        with dual.dual_level():
            x = library.tensor([1.0, 2.0], requires_grad=True)
            moving = dual.make_dual(x, library.tensor([1.0, 10.0]))
            (gradient,) = library.autograd.grad(
                (moving**3).sum(), moving, create_graph=True, retain_graph=False
            )
            found.append(dual.unpack_dual(gradient).tangent.tolist())
    assert found[0] == found[1] == [6.0, 120.0]


def test_what_does_not_move_has_no_tangent() -> None:
    dual = forward_ad(gw)
    x = gw.ones(2)
    assert dual.unpack_dual(x).tangent is None
    with dual.dual_level():
        moving = dual.make_dual(x, x)
        assert dual.unpack_dual(x * 2).tangent is None
        assert dual.unpack_dual(moving.detach()).tangent is None
        assert dual.unpack_dual(gw.ones(2, requires_grad=True) * 2).tangent is None
    assert dual.unpack_dual(moving).tangent is None


def test_what_is_refused() -> None:
    dual = forward_ad(gw)
    x = gw.ones(2)
    with pytest.raises(RuntimeError, match="inside `with dual_level"):
        dual.make_dual(x, x)
    with pytest.raises(RuntimeError, match="no dual level"):
        dual.exit_dual_level()
    with dual.dual_level():
        with pytest.raises(RuntimeError, match="inside another one"):
            dual.enter_dual_level()
        with pytest.raises(ValueError, match="must be equal"):
            dual.make_dual(x, gw.ones(3))
        with pytest.raises(RuntimeError, match="a tangent already"):
            dual.make_dual(dual.make_dual(x, x) * 2, x)
        with gw.no_grad(), pytest.raises(RuntimeError, match="inside no_grad"):
            dual.make_dual(x, x)
        with pytest.raises(RuntimeError, match="integer"):
            dual.make_dual(gw.tensor([1]), gw.tensor([1]))


def with_jvp(library: Any) -> Any:
    class Product(library.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any, y: Any, k: float) -> Any:
            ctx.save_for_backward(x, y)
            ctx.save_for_forward(x, y)
            ctx.k = k
            return x * y * k, x.exp()

        @staticmethod
        def backward(ctx: Any, g: Any, h: Any) -> Any:
            x, y = ctx.saved_tensors
            return g * y * ctx.k + h * x.exp(), g * x * ctx.k, None

        @staticmethod
        def jvp(ctx: Any, x_moves: Any, y_moves: Any, _: None) -> Any:
            x, y = ctx.saved_tensors
            # Ten times too much, to be told from what `backward` would give.
            return (x_moves * y + x * y_moves) * ctx.k * 10, x_moves * x.exp()

    return Product


def test_a_function_says_itself_how_it_moves() -> None:
    found = []
    for library in BOTH:
        dual, product = forward_ad(library), with_jvp(library)
        x = library.tensor([1.0, 2.0])
        y = library.tensor([3.0, 4.0], requires_grad=True)
        with dual.dual_level():
            moving = dual.make_dual(x, library.tensor([1.0, 0.5]))
            first, second = map(dual.unpack_dual, product.apply(moving, y, 2.0))
            (gradient,) = library.autograd.grad(first.tangent.sum(), y)
        numbers = (first.tangent.detach(), second.tangent, gradient)
        found.append([tensor.numpy() for tensor in numbers])
    np.testing.assert_allclose(found[0], found[1], rtol=1e-6)
    np.testing.assert_allclose(found[0][0], [60, 40])


@pytest.mark.parametrize("returned", [lambda t: (t, t), lambda t: t[:1]])
def test_a_jvp_that_does_not_fit(returned: Callable[[Any], Any]) -> None:
    class Wrong(gw.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * 2

        @staticmethod
        def jvp(ctx: Any, t: Any) -> Any:
            return returned(t)

    with pytest.raises(gw.AutogradError, match=r"Wrong.jvp returned"):
        gw.func.jvp(Wrong.apply, (gw.ones(2),), (gw.ones(2),))
