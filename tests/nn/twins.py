"""The same module in gradwalk and in PyTorch, with the same numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

import gradwalk as gw

DOUBLE = dict(rtol=1e-9, atol=1e-9)
SINGLE = dict(rtol=1e-4, atol=1e-4)


def arrays(state: Any) -> dict[str, np.ndarray]:
    """A state dict of either library as arrays."""
    return {name: np.array(value.detach().numpy()) for name, value in state.items()}


def twins(
    make: Callable[[Any], Any],
    dtype: str = "float64",
    seed: int = 0,
    move: Callable[[Any], Any] = lambda theirs: arrays(theirs.state_dict()),
) -> tuple[Any, Any]:
    """A module made of each library's `nn`; ours gets PyTorch's state by `load_state_dict`.

    `move` makes gradwalk's state dict from PyTorch's module.
    """
    torch.manual_seed(seed)
    theirs = make(torch.nn).to(getattr(torch, dtype))
    source = np.random.default_rng(seed)
    with torch.no_grad():  # a norm initialized with ones and zeros would hide mistakes
        for name, value in theirs.state_dict().items():
            if value.is_floating_point() and value.ndim == 1:
                low, high = (0.5, 1.5) if name.endswith(("weight", "running_var")) else (-0.5, 0.5)
                value.copy_(torch.from_numpy(source.uniform(low, high, tuple(value.shape))))
    ours = make(gw.nn).to(getattr(gw, dtype))
    ours.load_state_dict(move(theirs))
    return ours, theirs


def flat(result: Any) -> list[Any]:
    """The tensors of a result: itself, or those in its tuples."""
    if isinstance(result, (tuple, list)):
        return [tensor for part in result for tensor in flat(part)]
    return [] if result is None else [result]


def tensors(library: Any, inputs: Sequence[np.ndarray]) -> list[Any]:
    """Leaf tensors of a library; float tensors require gradients."""
    found = [library.from_numpy(np.array(x)) for x in inputs]
    return [x.requires_grad_() if x.is_floating_point() else x for x in found]


def backward(outputs: list[Any], library: Any) -> None:
    """Backward from Σ output × fixed weights."""
    source = np.random.default_rng(1)
    total: Any = 0
    for output in outputs:
        if output.is_floating_point():
            weights = np.asarray(source.uniform(0.5, 1.5, tuple(output.shape)))
            total = total + (output * library.from_numpy(weights).to(output.dtype)).sum()
    if getattr(total, "requires_grad", False):
        total.backward()


def assert_equal(ours: Any, theirs: Any, what: str, tolerance: dict[str, float]) -> None:
    """Equal numbers, or None on both sides."""
    if ours is None or theirs is None:
        assert ours is None and theirs is None, what
        return
    mine, other = ours.detach().numpy(), theirs.detach().numpy()
    assert mine.shape == other.shape, what
    assert mine.dtype == other.dtype, what
    np.testing.assert_allclose(mine, other, err_msg=what, **tolerance)


def compare(
    ours: Any, theirs: Any, inputs: Sequence[np.ndarray], tolerance: dict[str, float] | None = None
) -> None:
    """Outputs, gradients of inputs and of parameters, and the state afterwards."""
    tolerance = tolerance or DOUBLE
    mine, other = tensors(gw, inputs), tensors(torch, inputs)
    out, expected = flat(ours(*mine)), flat(theirs(*other))
    assert len(out) == len(expected)
    for i, (one, two) in enumerate(zip(out, expected)):
        assert_equal(one, two, f"output {i}", tolerance)
        assert one.requires_grad == two.requires_grad, f"output {i}"
    backward(out, gw)
    backward(expected, torch)
    for i, (one, two) in enumerate(zip(mine, other)):
        assert_equal(one.grad, two.grad, f"gradient of input {i}", tolerance)
    compare_parameters(ours, theirs, tolerance)


def compare_parameters(ours: Any, theirs: Any, tolerance: dict[str, float]) -> None:
    """Assert equal gradients of all parameters, and equal state."""
    mine, other = list(ours.named_parameters()), list(theirs.named_parameters())
    assert [name for name, _ in mine] == [name for name, _ in other]
    for (name, one), (_, two) in zip(mine, other):
        assert_equal(one.grad, two.grad, f"gradient of {name}", tolerance)
    state, expected = ours.state_dict(), theirs.state_dict()
    assert list(state) == list(expected)
    for name, value in state.items():
        assert_equal(value, expected[name], name, tolerance)
