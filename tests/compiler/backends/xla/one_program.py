"""Many small computations on a device as one program for XLA.

Compiled one by one, operations of samples take ten times as long. So the arrays of the device hold
JAX's tracers while the program is made; everything above them is the eager engine.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import pytest

import gradwalk as gw
from gradwalk.compiler.backends.xla import machine
from gradwalk.compiler.backends.xla.backend import OPTIONS
from gradwalk.compiler.backends.xla.device_array import DeviceArray
from gradwalk.tensors.apply import wrap
from gradwalk.tensors.devices import numbered

XLA = machine.machine(numbered("xla"))
_NEEDS_NUMBERS = (
    jax.errors.ConcretizationTypeError,
    jax.errors.NonConcreteBooleanIndexError,
    jax.errors.TracerArrayConversionError,
)
Job = Callable[..., Sequence[Any]]  # of tensors on a device, to tensors and other things


def results(jobs: Sequence[Job], arrays: Sequence[Sequence[Any]], alone: int = 1) -> list[Any]:
    """What each job makes of its arrays, with jax arrays for tensors.

    Jobs that read numbers, such as masks, run operation by operation, and the first `alone` too.
    """
    skipped = set(range(alone))

    def program(given: Sequence[Sequence[Any]]) -> list[list[Any]]:
        found = []
        for number, (job, own) in enumerate(zip(jobs, given, strict=True)):
            try:
                made = _run(job, own)
            except _NEEDS_NUMBERS:
                skipped.add(number)
                made = []
            found.append([part if isinstance(part, jax.Array) else None for part in made])
        return found

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(machine, "bounds", lambda *call: [])  # which reads the numbers of indices
        found: list[Any] = jax.jit(program, compiler_options=OPTIONS)(arrays)
    for number in skipped:
        found[number] = _run(jobs[number], [jax.numpy.asarray(a) for a in arrays[number]])
    return found


def _run(job: Job, arrays: Sequence[Any]) -> list[Any]:
    with gw.device("xla"):  # for the tensors that a job makes itself
        return [_term(part) for part in job(*(wrap(DeviceArray(XLA, a)) for a in arrays))]


def _term(result: Any) -> Any:
    if not isinstance(result, gw.Tensor):
        return result
    assert isinstance(result._array, DeviceArray), f"a result is on {result.device}"
    return result._array.term
