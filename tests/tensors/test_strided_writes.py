"""In-place ufuncs on parts of an array: NumPy's fast loops are not right for every stride."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import gradwalk as gw
from gradwalk.ops import TABLE
from gradwalk.ops.core.op import Op
from tests.batches import batched, check_each

UFUNCS = [
    op
    for op in TABLE.values()
    if isinstance(op.forward, np.ufunc) and hasattr(gw.Tensor, f"{op.name}_")
]


@pytest.mark.parametrize("dtype", [gw.float32, gw.float64, gw.int32, gw.int64])
def test_a_part_is_changed_as_a_whole_would_be(dtype: Any) -> None:
    def check(op: Op) -> None:
        for stride in range(1, 10):
            for count in (1, 2, 5, 17, 33):
                whole = gw.linspace(1, 60, count * stride + 1).to(dtype)
                before, part = whole.clone(), whole[: count * stride : stride]
                others = [part.clone() % 3 + 1] * (len(op.inputs) - 1)
                fresh = part.clone()
                try:
                    getattr(fresh, f"{op.name}_")(*others)
                except TypeError:  # the op makes floats of integers
                    return
                getattr(part, f"{op.name}_")(*others)
                before[: count * stride : stride] = fresh
                assert np.array_equal(whole.numpy(), before.numpy(), equal_nan=True), (
                    stride,
                    count,
                )

    assert len(UFUNCS) > 30
    check_each(UFUNCS, check)


ONE_OF_MANY: dict[str, Any] = {
    "an element of a row": lambda m, x: x.expand(3, 20)[1].mul_(3),
    "by index": lambda m, x: x.expand(3, 20).__setitem__((1, slice(2, 6)), m.ones(4)),
    "a window": lambda m, x: x.unfold(0, 4, 2)[1].add_(m.ones(4)),
    "windows one by one": lambda m, x: [part.add_(1) for part in x.unfold(0, 4, 2)],
    "a column of windows": lambda m, x: x.unfold(0, 4, 2).__setitem__((slice(None), 0), 5),
    "a row of strides": lambda m, x: x.as_strided((3, 4), (2, 1))[1].zero_(),
    "halves": lambda m, x: x.bfloat16().expand(3, 20)[1].mul_(3),
}


@batched("name", ONE_OF_MANY)
def test_a_part_without_overlap_of_a_tensor_with_some_is_written(name: str) -> None:
    ours, theirs = gw.arange(20.0), torch.arange(20.0)
    made = [ONE_OF_MANY[name](m, x) for m, x in ((gw, ours), (torch, theirs))]
    assert ours.tolist() == theirs.tolist()
    if isinstance(made[1], torch.Tensor):
        assert made[0].tolist() == made[1].tolist()


def test_what_overlaps_or_needs_a_gradient_is_not_written() -> None:
    x = gw.arange(6.0)
    for write in (
        lambda: x.expand(2, 6)[:, 0].fill_(1),
        lambda: x.unfold(0, 4, 2)[0:2].add_(1),
        lambda: (x.clone().requires_grad_() * 1).expand(2, 6)[0].mul_(2),
    ):
        with pytest.raises(RuntimeError, match="share one place in memory"):
            write()
    held = gw.arange(6.0).requires_grad_()
    needed = (held * x).sum()
    x.expand(2, 6)[1, 0] = 5
    with pytest.raises(gw.AutogradError, match="modified in place"):
        needed.backward()
