"""Matrices as in PyTorch's own tests (`tools/pytorch_tests`): singular ones, tolerances, lists."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import gradwalk as gw


def _batch(m: Any) -> Any:
    return m.stack([m.tensor([[1.0, 2.0], [2.0, 4.0]]), m.tensor([[2.0, 1.0], [0.0, 1.0]])])


def _pair(m: Any) -> tuple[Any, Any]:
    return m.arange(6.0).reshape(2, 3), m.arange(12.0).reshape(3, 4)


CALLS: dict[str, Callable[[Any], Any]] = {
    "cond of a singular matrix": lambda m: m.linalg.cond(_batch(m)[0], 1),
    "cond of a batch": lambda m: m.linalg.cond(_batch(m), "fro"),
    "a tolerance for each matrix": lambda m: m.linalg.pinv(_batch(m), rtol=m.tensor([0.9, 0.5])),
    "an absolute one": lambda m: m.linalg.pinv(_batch(m), atol=m.tensor([0.1, 1.5])),
    "a driver": lambda m: m.linalg.svdvals(_batch(m), driver=None),
    "addbmm_": lambda m: m.zeros(2, 2).addbmm_(_batch(m), _batch(m), beta=2, alpha=3),
    "a product of lists": lambda m: m.einsum(_pair(m)[0], [0, 1], _pair(m)[1], [1, 2], [0, 2]),
    "without a result": lambda m: m.einsum(_pair(m)[0], [1, 0]),
    "without a result, of large numbers": lambda m: m.einsum(_pair(m)[0], [51, 25]),
    "with an ellipsis": lambda m: m.einsum(_pair(m)[0], [..., 1], [...]),
}


@pytest.mark.parametrize("label", CALLS)
def test_matrices(label: str) -> None:
    ours, theirs = (CALLS[label](m) for m in (gw, torch))
    torch.testing.assert_close(torch.from_numpy(ours.numpy()), theirs, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("m", [gw, torch], ids=["gradwalk", "torch"])
def test_a_list_of_einsum_holds_dimensions(m: Any) -> None:
    with pytest.raises((ValueError, RuntimeError)):
        m.einsum(m.ones(2), [52])
    with pytest.raises((TypeError, ValueError, RuntimeError)):
        m.einsum(m.ones(2), "i")


def test_an_empty_out_has_memory_of_its_own() -> None:
    for m in (gw, torch):
        x, out = m.ones(2, 3), m.empty(0)
        m.abs(x, out=out)
        out += 1
        assert x.tolist() == [[1.0] * 3] * 2
        assert out.is_contiguous()
