"""Strategies whose losses are compared with those of one device."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

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


def strategy_losses(name: str, strategy: str, dtype: str) -> list[float]:
    axes, patterns = STRATEGIES[strategy]
    return losses(name, np.dtype(dtype).type, gw.Mesh(**axes), patterns.get(name, {}))


# Of two processes: every pair in float64, whose bound is the narrow one, and each model and each
# strategy once in float32: each collective of eight devices on two cores is slow.
PROCESS_RUNS = [
    *itertools.product(MODELS, STRATEGIES, ["float64"]),
    *((name, strategy, "float32") for name, strategy in zip(MODELS, STRATEGIES)),
]


def process_losses() -> list[list[float]]:
    return [strategy_losses(*run) for run in PROCESS_RUNS]
