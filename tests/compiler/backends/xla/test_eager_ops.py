"""Every op of the table on a device against the CPU: values, gradients, shapes and dtypes.

All samples of an op are one program for XLA, which takes a tenth of the time of compiling each of
their operations: the arrays of the device hold JAX's tracers while that program is made. Samples
that read numbers, such as masks, run operation by operation, and so does the first of each op.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np
import pytest

import gradwalk as gw
from gradwalk.compiler.backends.xla import machine
from gradwalk.compiler.backends.xla.device_array import DeviceArray
from gradwalk.ops import TABLE
from gradwalk.tensors.apply import wrap
from gradwalk.tensors.devices import numbered
from tests.batches import check_each
from tests.ops.samples.table import IN_FLOAT32, Sample, all_samples

pytestmark = pytest.mark.slow

XLA = machine.machine(numbered("xla"))
TOLERANCE = {np.float32: 1e-5, np.float64: 1e-12}
Case = tuple[Sample, Any]
NEEDS_NUMBERS = (
    jax.errors.ConcretizationTypeError,
    jax.errors.NonConcreteBooleanIndexError,
    jax.errors.TracerArrayConversionError,
)


def cases() -> dict[str, list[Case]]:
    """The samples of each op in float64, and the first few in float32 too."""
    found: dict[str, list[Case]] = {}
    for sample in all_samples():
        own = found.setdefault(sample.op, [])
        both = (np.float32, np.float64) if len(own) < 2 * IN_FLOAT32 else (np.float64,)
        own += [(sample, dtype) for dtype in both]
    return found


CASES = cases()


def with_gradients(sample: Sample, tensors: list[gw.Tensor]) -> tuple[list[Any], list[Any]]:
    """The results of a sample, and the gradients of a weighted sum of them."""
    tensors = [t.requires_grad_() if t.dtype.kind == "f" else t for t in tensors]
    found = sample.ours(gw, *tensors)
    outputs = list(found) if isinstance(found, (tuple, list)) else [found]
    total: Any = 0
    for o in outputs:
        if getattr(o, "requires_grad", False):
            weights = gw.linspace(0.5, 1.5, o.numel(), dtype=o.dtype, device=o.device)
            total = total + (o * weights.reshape(o.shape)).sum()
    if not getattr(total, "requires_grad", False):
        return outputs, []
    needing = [x for x in tensors if x.requires_grad]
    return outputs, list(gw.autograd.grad(total, needing, allow_unused=True))


def on_device(sample: Sample, arrays: Sequence[Any]) -> list[Any]:
    """Results and gradients of a sample as jax arrays; what is no tensor as it is."""
    with gw.device("xla"):  # for the tensors that a sample makes itself
        tensors = [wrap(DeviceArray(XLA, a)) for a in arrays]
        results, gradients = with_gradients(sample, tensors)
    return [_term(part) for part in results + gradients]


def _term(result: Any) -> Any:
    if not isinstance(result, gw.Tensor):
        return result
    assert isinstance(result._array, DeviceArray), f"a result is on {result.device}"
    return result._array.term


def compare(case: Case, found: list[Any]) -> None:
    """Found on the device, against the CPU."""
    sample, dtype = case
    results, gradients = with_gradients(sample, [gw.tensor(a) for a in sample.arrays(dtype)])
    for got, want in zip(found, results + gradients, strict=True):
        want = want.detach().numpy() if isinstance(want, gw.Tensor) else want
        got = np.asarray(got) if isinstance(want, np.ndarray) else got
        assert (want is None) == (got is None)
        if isinstance(want, np.ndarray):
            assert (got.dtype, got.shape) == (want.dtype, want.shape)
        if want is not None:
            exact = np.asarray(want).dtype.kind != "f"
            tolerance = 0 if exact else TOLERANCE[dtype]
            np.testing.assert_allclose(got, want, tolerance, tolerance)


def at_once(samples: list[Case]) -> tuple[Callable[..., Any], list[int]]:
    """A function for JAX that runs samples, and a list of those that need numbers."""
    skipped: list[int] = []

    def run(arrays: list[list[Any]]) -> list[list[Any]]:
        found = []
        for number, ((sample, _), given) in enumerate(zip(samples, arrays, strict=True)):
            try:
                terms = on_device(sample, given)
            except NEEDS_NUMBERS:
                skipped.append(number)
                terms = []
            found.append([t if isinstance(t, jax.Array) else None for t in terms])
        return found

    return run, skipped


@pytest.mark.parametrize("name", CASES)
def test_every_op(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    samples = CASES[name]
    run, skipped = at_once(samples)
    with monkeypatch.context() as patch:
        patch.setattr(machine, "bounds", lambda *call: [])  # which reads the numbers of indices
        found = jax.jit(run)([sample.arrays(dtype) for sample, dtype in samples])
    for number in {0, *skipped}:
        sample, dtype = samples[number]
        arrays = [jax.numpy.asarray(a) for a in sample.arrays(dtype)]
        found[number] = on_device(sample, arrays)
    results = dict(zip(samples, found, strict=True))
    check_each(samples, lambda case: compare(case, results[case]))


def test_no_op_is_without_a_sample() -> None:
    assert set(TABLE) <= set(CASES) | {"alias"}
