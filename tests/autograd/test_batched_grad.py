"""`autograd.grad` of many cotangents at once, against PyTorch."""

from typing import Any

import pytest
import torch

import gradwalk as gw


def jacobian(library: Any, **options: Any) -> tuple[Any, ...]:
    """The Jacobian of two functions, and a second derivative through it."""
    x = library.arange(1.0, 4.0, dtype=library.float64).requires_grad_()
    apart = library.ones(2, dtype=library.float64, requires_grad=True)
    y = library.stack([x.prod(), (x**3).sum()])
    seeds = library.eye(2, dtype=library.float64)
    found = library.autograd.grad(
        y, (x, apart), seeds, allow_unused=True, is_grads_batched=True, **options
    )
    again = library.autograd.grad(found[0].sum(), x)[0].tolist() if options else None
    return found[0].tolist(), found[1], again


@pytest.mark.parametrize("options", [{}, {"create_graph": True}])
def test_batched_cotangents(options: dict[str, Any]) -> None:
    assert jacobian(gw, **options) == jacobian(torch, **options)


def test_several_outputs_of_which_one_has_no_cotangents() -> None:
    found = []
    for library in (gw, torch):
        x = library.tensor([1.0, 2.0], requires_grad=True)
        (g,) = library.autograd.grad(
            [(x**2).sum(), x**3], x, [library.tensor([1.0, 10.0]), library.ones(2, 2)],
            is_grads_batched=True,
        )  # fmt: skip
        found.append(g.tolist())
    assert found[0] == found[1]


def test_cotangents_are_needed() -> None:
    x = gw.tensor([1.0], requires_grad=True)
    with pytest.raises(ValueError, match="needs grad_outputs"):
        gw.autograd.grad(x.sum(), x, is_grads_batched=True)
    with pytest.raises(gw.AutogradError, match="was not used"):
        gw.autograd.grad(
            x * 2, gw.ones(1, requires_grad=True), gw.ones(3, 1), is_grads_batched=True
        )
