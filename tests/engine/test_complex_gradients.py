"""Gradients of complex numbers are PyTorch's wherever a user sees them."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import gradwalk as gw
from tests.ops.complex_oracle import COMPLEX, close


def seen(t: Any) -> list[Any]:
    """What hooks, retained gradients, a Function and leaves get."""

    class Square(t.autograd.Function):  # type: ignore[misc, name-defined]
        @staticmethod
        def forward(ctx: Any, z: Any) -> Any:
            ctx.save_for_backward(z)
            return z * z

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            found.append(g.clone())
            return g * 2 * ctx.saved_tensors[0].conj()

    found: list[Any] = []
    z = t.from_numpy(COMPLEX.copy()).requires_grad_()
    inner = z * (2 + 1j)
    inner.retain_grad()
    inner.register_hook(lambda g: found.append(g.clone()))
    inner.register_hook(lambda g: g * 1j)
    abs(Square.apply(inner)).sum().backward()
    abs(z * 3).sum().backward(inputs=[z])  # adds to what is there
    return [*found, inner.grad, z.grad]


def test_hooks_functions_and_leaves() -> None:
    for one, other in zip(seen(gw), seen(torch), strict=True):
        close(one, other)


def test_seeds() -> None:
    results = []
    for t in (gw, torch):
        z = t.from_numpy(COMPLEX.copy()).requires_grad_()
        weight = t.from_numpy(COMPLEX[::-1].copy())
        (z * z).backward(weight)
        results.append(z.grad)
    close(*results)


@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")  # PyTorch's own
def test_transforms() -> None:
    def loss(z: Any) -> Any:
        return (abs(z) ** 3).sum()

    z, w = (gw.from_numpy(a.copy()) for a in (COMPLEX, COMPLEX[::-1]))
    other, weight = (torch.from_numpy(a.copy()) for a in (COMPLEX, COMPLEX[::-1]))
    close(gw.grad(loss)(z), torch.func.grad(loss)(other))
    ours, theirs = gw.vjp(lambda z: z.exp(), z)[1], torch.func.vjp(lambda z: z.exp(), other)[1]
    close(ours(w)[0], theirs(weight)[0])
    for function in (lambda z: abs(z), lambda z: z.conj() * z.sgn(), lambda z: z.angle() + z.real):
        close(gw.jvp(function, (z,), (w,))[1], torch.func.jvp(function, (other,), (weight,))[1])


def test_a_complex_loss_has_no_gradient() -> None:
    z = gw.tensor([1j], requires_grad=True)
    with pytest.raises(gw.AutogradError, match="complex number"):
        (z * z).sum().backward()
    with pytest.raises(gw.AutogradError, match="a real one"):
        gw.grad(lambda z: (z * z).sum())(z)


def test_complex_numbers_beside_real_tensors() -> None:
    results = []
    for t in (gw, torch):
        x = t.tensor([1.0, 2.0], dtype=t.float64, requires_grad=True)
        y = (1 + 2j) ** x + x ** (1 + 2j)
        (abs(y) ** 2).sum().backward()
        results.append((y, x.grad, t.func.jvp(lambda x: x + (1 + 2j), (x.detach(),), (x.grad,))[1]))
    for one, other in zip(*results, strict=True):
        assert str(one.dtype) == str(other.dtype).removeprefix("torch.")
        close(one, other)
    tangent = gw.func.jvp(lambda x: (1 + 2j) ** x, (gw.ones(1),), (gw.ones(1),))[1]
    # torch.func.jvp gives its real part
    close(tangent, (1 + 2j) * torch.log(torch.tensor([1 + 2j])))


def test_powers_below_the_cut() -> None:
    results = []
    for t in (gw, torch):
        z = t.tensor([complex(-1.5, -0.0), complex(-1.5, 0.0)], requires_grad=True)
        (z**z).real.sum().backward()
        results.append(z.grad)
    close(*results)
