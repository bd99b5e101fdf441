"""Every op of the table on a device against the CPU: values, gradients, shapes and dtypes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gradwalk as gw
from gradwalk.ops import TABLE
from tests.batches import check_each
from tests.compiler.backends.xla.one_program import results
from tests.ops.samples.table import IN_FLOAT32, Sample, all_samples

pytestmark = pytest.mark.slow

TOLERANCE = {np.float32: 1e-5, np.float64: 1e-12}
Case = tuple[Sample, Any]


def cases() -> dict[str, list[Case]]:
    """The samples of each op in float64, and the first few in float32 too."""
    found: dict[str, list[Case]] = {}
    for sample in all_samples():
        own = found.setdefault(sample.op, [])
        both = (np.float32, np.float64) if len(own) < 2 * IN_FLOAT32 else (np.float64,)
        own += [(sample, dtype) for dtype in both]
    return found


CASES = cases()


def with_gradients(sample: Sample, *tensors: gw.Tensor) -> list[Any]:
    """The results of a sample, and the gradients of a weighted sum of them."""
    tensors = tuple(t.requires_grad_() if t.dtype.kind == "f" else t for t in tensors)
    found = sample.ours(gw, *tensors)
    outputs = list(found) if isinstance(found, (tuple, list)) else [found]
    total: Any = 0
    for o in outputs:
        if getattr(o, "requires_grad", False):
            weights = gw.linspace(0.5, 1.5, o.numel(), dtype=o.dtype, device=o.device)
            total = total + (o * weights.reshape(o.shape)).sum()
    if not getattr(total, "requires_grad", False):
        return outputs
    needing = [x for x in tensors if x.requires_grad]
    return [*outputs, *gw.autograd.grad(total, needing, allow_unused=True)]


def compare(case: Case, found: list[Any]) -> None:
    """Found on the device, against the CPU."""
    sample, dtype = case
    expected = with_gradients(sample, *(gw.tensor(a) for a in sample.arrays(dtype)))
    for got, want in zip(found, expected, strict=True):
        want = want.detach().numpy() if isinstance(want, gw.Tensor) else want
        got = np.asarray(got) if isinstance(want, np.ndarray) else got
        assert (want is None) == (got is None)
        if isinstance(want, np.ndarray):
            assert (got.dtype, got.shape) == (want.dtype, want.shape)
        if want is not None:
            exact = np.asarray(want).dtype.kind != "f"
            tolerance = 0 if exact else TOLERANCE[dtype]
            np.testing.assert_allclose(got, want, tolerance, tolerance)


@pytest.mark.parametrize("name", CASES)
def test_every_op(name: str) -> None:
    samples = CASES[name]
    jobs = [lambda *t, sample=sample: with_gradients(sample, *t) for sample, _ in samples]
    found = results(jobs, [sample.arrays(dtype) for sample, dtype in samples])
    by_case = dict(zip(samples, found, strict=True))
    check_each(samples, lambda case: compare(case, by_case[case]))


def test_no_op_is_without_a_sample() -> None:
    assert set(TABLE) <= set(CASES) | {"alias"}
