"""Forward derivatives of every op: `jvp` against the double backward, which PyTorch has checked."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gradwalk as gw
from gradwalk.ops import TABLE
from tests.ops.oracle import TIGHT_SECOND
from tests.ops.samples.table import Sample, all_samples, each_sample

pytestmark = pytest.mark.slow  # thorough rather than quick: left out of `make quick`

SAMPLES = [s for s in all_samples() if TABLE[s.op].differentiable]


@each_sample(SAMPLES)
def test_jvp_is_the_transpose_of_backward(sample: Sample) -> None:
    arrays = sample.arrays()
    source = np.random.default_rng(sample.seed)
    primals = [gw.from_numpy(a) for a in arrays if a.dtype.kind == "f"]
    tangents = [gw.from_numpy(np.asarray(source.normal(size=p.shape))) for p in primals]
    if not primals:
        return

    def call(*floats: Any) -> Any:
        """The float outputs, from the float inputs."""
        rest = iter(floats)
        inputs = [next(rest) if a.dtype.kind == "f" else gw.from_numpy(a) for a in arrays]
        found = sample.ours(gw, *inputs)
        outputs = found if isinstance(found, tuple) else (found,)
        return tuple(o for o in outputs if o.is_floating_point())

    leaves = [p.detach().clone().requires_grad_() for p in primals]
    outputs = [o for o in call(*leaves) if o.requires_grad]
    if not outputs:
        return
    seeds = [gw.ones_like(o, requires_grad=True) for o in outputs]
    first = gw.autograd.grad(outputs, leaves, seeds, create_graph=True, materialize_grads=True)
    pairs = [(g, t) for g, t in zip(first, tangents) if g.requires_grad]
    expected = (
        gw.autograd.grad(
            [g for g, _ in pairs], seeds, [t for _, t in pairs], materialize_grads=True
        )
        if pairs
        else [gw.zeros_like(o) for o in outputs]
    )
    values, moved = gw.jvp(call, tuple(primals), tuple(tangents))
    assert len(values) == len(moved) == len(expected)
    for value, output, one, other in zip(values, outputs, moved, expected):
        np.testing.assert_array_equal(value.numpy(), output.detach().numpy())
        assert one.dtype == value.dtype
        known = ~np.isnan(value.numpy())  # the mean of nothing is NaN, and so is how it moves
        np.testing.assert_allclose(one.numpy()[known], other.numpy()[known], **TIGHT_SECOND)
