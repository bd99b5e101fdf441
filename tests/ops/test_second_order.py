"""Second derivatives of every op against PyTorch's double backward, and composites opened up."""

from __future__ import annotations

from typing import Any

import pytest

from gradwalk.ops import TABLE
from gradwalk.tensors.tensor import Tensor
from tests.ops.oracle import OURS, THEIRS, TIGHT_SECOND, assert_same, run
from tests.ops.samples.table import Sample, all_samples, each_sample

pytestmark = pytest.mark.slow  # thorough rather than quick: left out of `make quick`

SAMPLES = [s for s in all_samples() if TABLE[s.op].differentiable]
COMPOSITES = {op.name for op in TABLE.values() if op.expand is not None}


@each_sample(SAMPLES)
def test_second_derivatives(sample: Sample) -> None:
    arrays = sample.arrays()
    ours = run(OURS, sample.ours, arrays, order=2, seed=sample.seed)
    theirs = run(THEIRS, sample.theirs, arrays, order=2, seed=sample.seed)
    assert_same(ours, theirs, TIGHT_SECOND)


def test_there_are_composites() -> None:
    assert {"softmax", "log_softmax", "cross_entropy", "prod", "linear"} <= COMPOSITES


def can_open(sample: Sample) -> bool:
    """softmax opens into amax, which has no value for no elements."""
    return sample.op in COMPOSITES and not (
        sample.op == "softmax" and sample.arrays()[0].shape[-1] == 0
    )


@each_sample([s for s in SAMPLES if can_open(s)])
def test_the_expansion_is_the_same_function(
    sample: Sample, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Value, first and second derivative of the definition in other ops, all the way down."""
    arrays = sample.arrays()
    apply = Tensor._apply
    opened = set()

    def open_up(op: Any, args: Any, attrs: Any) -> Any:
        if op.expand is None:
            return apply(op, args, attrs)
        opened.add(op.name)
        return op.expand(*args, **attrs)

    own = run(OURS, sample.ours, arrays, order=2, seed=sample.seed)
    monkeypatch.setattr(Tensor, "_apply", staticmethod(open_up))
    expanded = run(OURS, sample.ours, arrays, order=2, seed=sample.seed)
    assert sample.op in opened
    assert_same(expanded, own, TIGHT_SECOND)
