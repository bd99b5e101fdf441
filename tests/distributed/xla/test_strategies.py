"""Runs on a mesh have the losses of the run on one device."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest

import gradwalk as gw
from gradwalk.distributed import sharding_of
from tests.distributed.xla.models import MODELS, SHARDED, TENSOR, batches

STEPS = 20
STRATEGIES: dict[str, tuple[dict[str, int], Any]] = {
    "data": ({"data": 8}, {}),
    "tensor": ({"data": 4, "model": 2}, TENSOR),
    "sharded": ({"data": 8}, SHARDED),
}


def losses(name: str, dtype: Any, mesh: Any = None, patterns: Any = None) -> list[float]:
    gw.manual_seed(0)
    model = MODELS[name]().to(dtype)
    if mesh is None:
        model.to("xla")
    else:
        gw.distribute(model, mesh, patterns)
    optimizer = gw.optim.AdamW(model.parameters(), lr=1e-2)

    def step(x: Any, y: Any) -> Any:
        optimizer.zero_grad()
        loss = gw.nn.functional.cross_entropy(model(x), y.flatten())
        loss.backward()
        optimizer.step()
        return loss

    run = gw.compile(step)
    loader = gw.data.DataLoader(batches(name, dtype, STEPS), 16, shuffle=True, mesh=mesh)
    found = []
    for x, y in loader:
        given = (x, y) if mesh is not None else (x.to("xla"), y.to("xla"))
        found.append(run(*given))
    if mesh is not None:
        divided = {n: sharding_of(p) for n, p in model.named_parameters()}
        assert any(any(s) for s in divided.values()) == bool(patterns)
        for parameter, entries in optimizer.state.items():
            assert sharding_of(entries["exp_avg"]) == sharding_of(parameter)
        (jitted,) = run._newest().executable.jitted.values()
        assert jitted._cache_size() == 1  # nothing moved, so it was compiled once
    return [loss.item() for loss in found]


@functools.cache
def alone(name: str, dtype: str) -> list[float]:
    return losses(name, np.dtype(dtype).type)


@pytest.mark.parametrize("dtype, tolerance", [("float32", 1e-5), ("float64", 1e-11)])
@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("name", MODELS)
def test_losses_are_those_of_one_device(
    name: str, strategy: str, dtype: str, tolerance: float
) -> None:
    axes, patterns = STRATEGIES[strategy]
    found = losses(name, np.dtype(dtype).type, gw.Mesh(**axes), patterns.get(name, {}))
    assert len(found) == STEPS and found[-1] < found[0]
    np.testing.assert_allclose(found, alone(name, dtype), tolerance)


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
