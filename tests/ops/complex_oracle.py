"""The same function of complex or real arrays in both libraries: values and two gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

import gradwalk as gw

random = np.random.default_rng(0)
REAL = random.normal(size=(3, 4))
COMPLEX = REAL + 1j * random.normal(size=(3, 4))


def of(tensor: Any) -> Any:
    """The numbers of a tensor, ours or PyTorch's."""
    kept = tensor.detach()
    return (kept.resolve_conj() if isinstance(kept, torch.Tensor) else kept).numpy()


def close(one: Any, other: Any, tolerance: float = 1e-9) -> None:
    """Both tensors have the same dtype and numbers."""
    assert of(one).dtype == of(other).dtype
    np.testing.assert_allclose(of(one), of(other), rtol=tolerance, atol=tolerance)


def _size(gradients: Any) -> Any:
    """A real number that depends on all gradients."""
    return sum((g * g.conj()).real.sum() + g.real.sum() for g in gradients)


def as_pytorch(function: Callable[..., Any], *arrays: Any) -> None:
    """Compare `function(library, *leaves)`: its value, its gradients and theirs."""
    results = []
    for library, make in ((gw, gw.from_numpy), (torch, torch.from_numpy)):
        leaves = [make(a.copy()).requires_grad_() for a in arrays]
        out = function(library, *leaves)
        out = out * out  # so that a linear function has a second derivative
        weight = np.linspace(0.5, 1.5, of(out).size).reshape(out.shape)
        weight = weight + 1j * weight**2 if of(out).dtype.kind == "c" else weight
        seed = make(np.asarray(weight, of(out).dtype))
        options: Any = {"create_graph": True, "allow_unused": True, "materialize_grads": True}
        first = library.autograd.grad(out, leaves, seed, **options)
        options["create_graph"] = False
        second = library.autograd.grad(_size(first), leaves, **options)
        results.append([out, *first, *second])
    for one, other in zip(*results, strict=True):
        close(one, other)
