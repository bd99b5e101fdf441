"""Every op of the table in half precision on a device against the CPU.

A result or gradient of the device is within one unit in the last place of the CPU's, or no further
from that of float64 than the CPU's worst element is. Products may differ by a unit of their largest
element: of operands that broadcast, the device rounds each product before it adds them. Ops of
several products may differ by more: what is between those is rounded too, and the gradients of
gates that are nearly shut magnify it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gradwalk as gw
from gradwalk.ops.core.halves import PRODUCTS
from tests.batches import check_each
from tests.compiler.backends.xla.one_program import results
from tests.ops.half_units import unit_of, wrong
from tests.ops.samples.table import Sample, all_samples

pytestmark = pytest.mark.slow

HALVES = (gw.bfloat16, gw.float16)
IN_UNITS = dict.fromkeys(PRODUCTS, 1) | {"attention": 4, "gru": 2, "lstm": 6, "rnn": 16}
MOST = 3  # samples of one op and dtype, evenly spread
Case = tuple[Sample, Any]


def cases() -> dict[str, list[Case]]:
    """Some samples of each op that have floats, in each dtype others."""
    by_op: dict[str, list[Sample]] = {}
    for sample in all_samples():
        if any(a.size and a.dtype.kind == "f" for a in sample.arrays()):
            by_op.setdefault(sample.op, []).append(sample)
    found: dict[str, list[Case]] = {}
    for name, samples in by_op.items():
        step = -(-len(samples) // MOST)
        starts = (0, step // 2)
        found[name] = [(s, h) for h, at in zip(HALVES, starts) for s in samples[at::step]]
    return found


CASES = cases()


def with_gradients(sample: Sample, *tensors: gw.Tensor) -> list[Any]:
    """The results of a sample, and the gradients of sums of them with weights that halves hold."""
    leaves = [t.requires_grad_() if t.is_floating_point() else t for t in tensors]
    found = sample.ours(gw, *leaves)
    outputs = list(found) if isinstance(found, (tuple, list)) else [found]
    roots = [o for o in outputs if getattr(o, "requires_grad", False)]
    if not roots:
        return outputs
    weights = [(np.arange(o.numel()) % 5 + 2).reshape(o.shape) / 4 for o in roots]
    seeds = [gw.tensor(w, dtype=o.dtype, device=o.device) for w, o in zip(weights, roots)]
    needing = [x for x in leaves if x.requires_grad]
    return [*outputs, *gw.autograd.grad(roots, needing, seeds, allow_unused=True)]


def on_cpu(sample: Sample, arrays: list[Any]) -> list[Any]:
    found = with_gradients(sample, *(gw.tensor(a) for a in arrays))
    return [t.detach().numpy() if isinstance(t, gw.Tensor) else t for t in found]


def compare(case: Case, found: list[Any]) -> None:
    """Found on the device, against the CPU."""
    sample, half = case
    arrays = sample.arrays(half)
    expected = on_cpu(sample, arrays)
    exact = on_cpu(sample, [a.astype(np.float64) if a.dtype == half else a for a in arrays])
    for got, want, true in zip(found, expected, exact, strict=True):
        assert (want is None) == (got is None)
        if not isinstance(want, np.ndarray):
            assert got == want
            continue
        got = np.asarray(got)
        assert (got.dtype, got.shape) == (want.dtype, want.shape)
        if want.dtype != half:
            tolerance = 1e-5 if want.dtype.kind == "f" else 0
            np.testing.assert_allclose(got, want, tolerance, tolerance)
            continue
        ours, cpu = (x.astype(np.float64) for x in (got, want))
        apart = wrong(ours, cpu, true, half)
        if sample.op in PRODUCTS:
            unit = unit_of(np.max(np.abs(cpu), initial=0), half)
            apart &= np.abs(ours - cpu) > IN_UNITS[sample.op] * unit
        assert not apart.any(), f"{got[apart]} on the device, {want[apart]}, exactly {true[apart]}"


@pytest.mark.parametrize("name", CASES)
def test_every_op_in_half_precision(name: str) -> None:
    samples = CASES[name]
    jobs = [lambda *t, sample=sample: with_gradients(sample, *t) for sample, _ in samples]
    found = results(jobs, [sample.arrays(half) for sample, half in samples], alone=0)
    by_case = dict(zip(samples, found, strict=True))
    check_each(samples, lambda case: compare(case, by_case[case]))
