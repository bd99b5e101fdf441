"""`segment_reduce`, compared with PyTorch."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
import torch

import gradwalk as gw
from tests.batches import batched

REDUCTIONS = ["sum", "mean", "prod", "max", "min"]
CASES: dict[str, tuple[Any, int, Any]] = {
    "a vector": ((7,), 0, [2, 0, 3, 2]),
    "rows": ((5, 3), 0, [1, 4]),
    "runs of each row": ((2, 4, 3), 1, [[1, 3, 0], [2, 0, 2]]),
}


@batched("reduce label initial", itertools.product(REDUCTIONS, CASES, (None, 2.0)))
def test_values_and_gradients(reduce: str, label: str, initial: float | None) -> None:
    shape, axis, lengths = CASES[label]
    values = torch.rand(shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64) + 1
    found = []
    for m in (gw, torch):
        x = m.tensor(values.tolist(), dtype=m.float64, requires_grad=True)
        out = m.segment_reduce(
            x, reduce, lengths=m.tensor(lengths), axis=axis, initial=initial, unsafe=False
        )
        out.sum().backward()
        found.append((out.detach().numpy(), x.grad.numpy()))
    for ours, theirs in zip(*found, strict=True):
        torch.testing.assert_close(torch.from_numpy(ours), torch.from_numpy(theirs), equal_nan=True)


def test_offsets() -> None:
    for m in (gw, torch):
        x, offsets = m.arange(5.0), m.tensor([0, 2, 2, 5])
        assert m.segment_reduce(x, "sum", offsets=offsets).tolist() == [1, 0, 9]


def test_the_largest_of_a_run_with_a_nan_gets_the_gradient() -> None:
    for m in (gw, torch):
        x = m.tensor([1.0, float("nan"), 3.0, 4.0], requires_grad=True)
        m.segment_reduce(x, "max", lengths=m.tensor([3, 1])).sum().backward()
        assert x.grad.tolist() == [0, 1, 0, 1]


@pytest.mark.parametrize(
    "arguments",
    [
        {"lengths": [1, 1]},
        {"lengths": [4, -1]},
        {},
        {"lengths": [1, 2], "offsets": [0, 1, 3]},
        {"lengths": [[1, 2]]},
    ],
)
def test_lengths_that_do_not_fit(arguments: dict[str, Any]) -> None:
    given = {name: gw.tensor(numbers) for name, numbers in arguments.items()}
    with pytest.raises(ValueError, match="segment_reduce"):
        gw.segment_reduce(gw.ones(3), "sum", **given)
