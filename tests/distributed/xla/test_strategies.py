"""Runs on a mesh have the losses of the run on one device."""

from __future__ import annotations

import functools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

import gradwalk as gw
from tests.distributed.xla.jobs import LoopbackJob
from tests.distributed.xla.models import MODELS
from tests.distributed.xla.strategies import (
    PROCESS_RUNS,
    STEPS,
    STRATEGIES,
    losses,
    strategy_losses,
)
from tests.project.checkout import ROOT

TOLERANCES = {"float32": 1e-5, "float64": 1e-11}
PROCESSES = """
import json
from pathlib import Path
from tests.distributed.xla.strategies import process_losses
Path(sys.argv[1], f"{rank}.json").write_text(json.dumps(process_losses()))
"""


@pytest.fixture(scope="module", autouse=True)
def quickly_compiled() -> Iterator[None]:
    """A program runs twenty times: compiling it takes most of the time."""
    option = "jax_disable_most_optimizations"
    before = jax.config.read(option)
    jax.config.update(option, True)
    yield
    jax.config.update(option, before)


@functools.cache
def alone(name: str, dtype: str) -> list[float]:
    return losses(name, np.dtype(dtype).type)


def check(found: list[float], name: str, dtype: str) -> None:
    assert len(found) == STEPS and found[-1] < found[0]
    np.testing.assert_allclose(found, alone(name, dtype), TOLERANCES[dtype])


@pytest.mark.parametrize("dtype", TOLERANCES)
@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("name", MODELS)
def test_losses_are_those_of_one_device(name: str, strategy: str, dtype: str) -> None:
    check(strategy_losses(name, strategy, dtype), name, dtype)


def test_losses_of_two_processes_are_those_of_one_device(tmp_path: Path) -> None:
    """Two processes × four devices; one job for all runs, because JAX is slow to start."""
    LoopbackJob(PROCESSES, 2, 4, (tmp_path,), folder=ROOT).succeed()
    first, second = (json.loads((tmp_path / f"{rank}.json").read_text()) for rank in range(2))
    assert first == second, "the ranks have losses of other bits"
    for (name, _, dtype), found in zip(PROCESS_RUNS, first, strict=True):
        check(found, name, dtype)


@pytest.mark.parametrize("compiled", [False, True])
def test_masks_and_statistics_are_those_of_one_device(compiled: bool) -> None:
    """Of a dropout, element by element, and of a batch norm, over the whole batch."""
    inputs = np.random.default_rng(0).standard_normal((16, 8)).astype(np.float32)

    def both(where: Any) -> tuple[Any, Any]:
        gw.manual_seed(5)
        norm = gw.nn.BatchNorm1d(8).to(where)
        x = gw.tensor(inputs)
        if isinstance(where, gw.Mesh):
            x = gw.distribute(x, where, ("data", "model"))

        def run(x: Any) -> Any:
            return gw.nn.functional.dropout(gw.ones_like(x), 0.4) * norm(x).exp()

        out = (gw.compile(run) if compiled else run)(x)
        return out.detach().cpu().numpy(), norm.running_var.cpu().numpy()

    (out, variance), (found, found_variance) = both("cpu"), both(gw.Mesh(data=4, model=2))
    assert ((out == 0) == (found == 0)).all() and 20 < (found == 0).sum() < 80
    np.testing.assert_allclose(found, out, 1e-5)
    np.testing.assert_allclose(found_variance, variance, 1e-6)
