"""150 small parameters: what the host does for one step.

python -m benchmarks.devices.small separates gradwalk's time from JAX's.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.devices.adam import adam_step

LAYERS, WIDTH, BATCH, RATE = 75, 16, 32, 1e-3
CALLS = 300


def batch() -> np.ndarray[Any, Any]:
    return np.random.default_rng(0).standard_normal((BATCH, WIDTH), np.float32)


def gradwalk_step(keeps_gradients: bool = False) -> Callable[[], Any]:
    import gradwalk as gw

    device = "cuda" if gw.cuda.is_available() else "xla"
    gw.manual_seed(0)
    model = gw.nn.Sequential(*(gw.nn.Linear(WIDTH, WIDTH) for _ in range(LAYERS))).to(device)
    optimizer = gw.optim.Adam(model.parameters(), RATE)
    x = gw.tensor(batch(), device=device)

    @gw.compile
    def step(x: Any) -> Any:
        if keeps_gradients:
            optimizer.zero_grad()
        loss = (model(x) ** 2).mean()
        loss.backward()
        optimizer.step()
        if not keeps_gradients:
            optimizer.zero_grad()
        return loss

    def call() -> Any:
        return step(x)

    call.compiled = step  # type: ignore[attr-defined]
    return call


def jax_step() -> Callable[[], Any]:
    import jax.numpy as jnp

    rng = np.random.default_rng(1)

    def linear() -> Any:
        weight = rng.standard_normal((WIDTH, WIDTH), np.float32) * WIDTH**-0.5
        return jnp.asarray(weight), jnp.zeros(WIDTH)

    def loss_of(layers: Any, x: Any) -> Any:
        for weight, bias in layers:
            x = x @ weight + bias
        return (x * x).mean()

    return adam_step(loss_of, [linear() for _ in range(LAYERS)], (jnp.asarray(batch()),), RATE, 0)


def bare_step(compiled: Any) -> Callable[[], Any]:
    """The function that a compiled step gives to XLA, called by itself, with a state of its own."""
    import jax

    executable = compiled.newest.executable
    ((machine, *_), jitted), *_ = executable.jitted.items()

    def zeros(like: Any) -> Any:
        array = np.zeros(like.shape, like.dtype)
        return array if like.sharding is None else jax.device_put(array, machine.place)

    state, *others = jax.tree.map(zeros, executable.shapes)
    results: Any = None  # the last ones, as gradwalk keeps them
    loss = next(i for i, term in enumerate(executable.program.results) if not term.shape)

    def call() -> Any:
        nonlocal state, results
        state, results, _ = jitted(state, *others)
        return results[loss]

    return call


def main() -> None:
    for keeps in (False, True):
        whole = gradwalk_step(keeps)
        for _ in range(10):
            whole().item()
        contestants = {"all": whole, "bare": bare_step(whole.compiled), "hand": jax_step()}  # type: ignore[attr-defined]
        taken: dict[str, list[float]] = {name: [] for name in contestants}
        for _ in range(CALLS):
            for name, step in contestants.items():
                began = time.perf_counter()
                loss = step()
                taken[name].append((time.perf_counter() - began) * 1e3)
                loss.item()
        when = "kept" if keeps else "not kept"
        for word, statistic in (("shortest", min), ("median", np.median)):
            everything, bare, hand = (float(statistic(times)) for times in taken.values())
            print(
                f"gradients {when:9} {word:9} {everything:.3f} ms a call: "
                f"JAX {bare:.3f}, gradwalk {everything - bare:.3f}; JAX by hand {hand:.3f}"
            )


if __name__ == "__main__":
    main()
