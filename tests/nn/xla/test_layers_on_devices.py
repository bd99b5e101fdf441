"""Every layer on a device against the CPU: outputs, gradients and the state afterwards."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gradwalk as gw
from tests.batches import check_each
from tests.compiler.backends.xla.one_program import results
from tests.nn.test_modules import TABLE, drawn
from tests.nn.twins import flat

pytestmark = pytest.mark.slow

TOGETHER = 25
ROWS: list[tuple[Any, Any]] = [tuple(getattr(row, "values", row))[:2] for row in TABLE]


def with_state(make: Any, *inputs: gw.Tensor) -> list[Any]:
    """The outputs of a new layer, all gradients, and its state."""
    gw.manual_seed(0)
    layer = make(gw.nn).to(gw.float64)
    tensors = [x.requires_grad_() if x.is_floating_point() else x for x in inputs]
    if inputs:
        layer.to(inputs[0].device)
    outputs = flat(layer(*tensors))
    total: Any = 0
    for out in outputs:
        if out.is_floating_point():
            weights = gw.linspace(0.5, 1.5, out.numel(), dtype=out.dtype, device=out.device)
            total = total + (out * weights.reshape(out.shape)).sum()
    if getattr(total, "requires_grad", False):
        total.backward()
    kept = [x.grad for x in tensors] + [p.grad for p in layer.parameters()]
    return [*outputs, *kept, *layer.state_dict().values()]


def compare(make: Any, arrays: list[Any], found: list[Any]) -> None:
    expected = with_state(make, *map(gw.tensor, arrays))
    for got, want in zip(found, expected, strict=True):
        assert (got is None) == (want is None)
        if want is not None:
            want, got = want.detach().numpy(), np.asarray(got)
            assert (got.dtype, got.shape) == (want.dtype, want.shape)
            np.testing.assert_allclose(got, want, 1e-10, 1e-10)


@pytest.mark.parametrize("start", range(0, len(ROWS), TOGETHER))
def test_every_layer(start: int) -> None:
    rows = ROWS[start : start + TOGETHER]
    source = np.random.default_rng(start)
    given = [[drawn(kind, source) for kind in inputs] for _, inputs in rows]
    jobs = [lambda *t, make=make: with_state(make, *t) for make, _ in rows]
    found = results(jobs, given, alone=0)
    check_each(list(range(len(rows))), lambda i: compare(rows[i][0], given[i], found[i]))
