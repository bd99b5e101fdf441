"""150 small parameters: what the host does for one step."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

LAYERS, WIDTH, BATCH, RATE = 75, 16, 32, 1e-3


def gradwalk_step() -> Callable[[], Any]:
    import gradwalk as gw

    device = "cuda" if gw.cuda.is_available() else "xla"
    gw.manual_seed(0)
    model = gw.nn.Sequential(*(gw.nn.Linear(WIDTH, WIDTH) for _ in range(LAYERS))).to(device)
    optimizer = gw.optim.SGD(model.parameters(), RATE)
    rng = np.random.default_rng(0)
    x = gw.tensor(rng.standard_normal((BATCH, WIDTH)), dtype=gw.float32, device=device)

    @gw.compile
    def step(x: Any) -> Any:
        optimizer.zero_grad()
        loss = (model(x) ** 2).mean()
        loss.backward()
        optimizer.step()
        return loss

    return lambda: step(x)
