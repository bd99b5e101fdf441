"""Every op of the table on a device against the CPU: values and gradients, in both precisions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gradwalk as gw
from tests.ops.samples.table import Sample, all_samples, in_both_precisions

pytestmark = pytest.mark.slow

TOLERANCE = {np.float32: 1e-5, np.float64: 1e-12}


def inputs(sample: Sample, dtype: Any, device: str) -> list[gw.Tensor]:
    found = [gw.tensor(a, device=device) for a in sample.arrays(dtype)]
    return [t.requires_grad_() if t.dtype.kind == "f" else t for t in found]


def with_gradients(sample: Sample, tensors: list[gw.Tensor]) -> tuple[list[Any], Any]:
    """The results of a sample, and the gradients of a weighted sum of them."""
    found = sample.ours(gw, *tensors)
    outputs = list(found) if isinstance(found, (tuple, list)) else [found]
    total: Any = 0
    for o in outputs:
        if getattr(o, "requires_grad", False):
            weights = gw.linspace(0.5, 1.5, o.numel(), dtype=o.dtype, device=o.device)
            total = total + (o * weights.reshape(o.shape)).sum()
    needing = [x for x in tensors if x.requires_grad]
    if not getattr(total, "requires_grad", False):
        return outputs, ()
    return outputs, gw.autograd.grad(total, needing, allow_unused=True)


def numbers(tensor: Any, device: str) -> Any:
    if not isinstance(tensor, gw.Tensor):
        return tensor
    assert tensor.device.type == device
    return tensor.detach().cpu().numpy()


@in_both_precisions(all_samples())
def test_every_op_on_a_device(sample: Sample, dtype: Any) -> None:
    expected = with_gradients(sample, inputs(sample, dtype, "cpu"))
    found = with_gradients(sample, inputs(sample, dtype, "xla"))
    for outs, others in zip(expected, found, strict=True):
        for want, got in zip(outs, others, strict=True):
            want, got = numbers(want, "cpu"), numbers(got, "xla")
            assert np.asarray(want).dtype == np.asarray(got).dtype
            np.testing.assert_allclose(got, want, TOLERANCE[dtype], TOLERANCE[dtype])
