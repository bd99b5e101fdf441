"""Small eager steps against PyTorch, one thread each: the cost of the engine itself per op.

gradwalk has PyTorch's names, so each contestant runs the same lines with another library.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from importlib import import_module
from typing import Any

import numpy as np
from harness import (
    Bar,
    Contestant,
    Measurement,
    Round,
    agreement,
    duration,
    play,
    race,
    ratio_cells,
    seconds_per_step,
    table,
)

BATCH = 100
LINKS = 200
ELEMENTS = (16, 100, 1000)
ROUNDS = 21
STEP_BAR = Bar(highest=0.8)
CHAIN_BAR = Bar(highest=0.9)


def training_step(library: Any, **optimizer_options: bool) -> Callable[[], float]:
    """Forward, cross-entropy, backward and AdamW of a 2-16-16-2 network."""
    source = np.random.default_rng(7)
    nn = library.nn
    model = nn.Sequential(
        nn.Linear(2, 16), nn.ReLU(), nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 2)
    )
    with library.no_grad():
        for parameter in model.parameters():
            drawn = source.uniform(-0.5, 0.5, tuple(parameter.shape))
            parameter.copy_(library.tensor(drawn.astype(np.float32)))
    points = source.standard_normal((BATCH, 2)).astype(np.float32)
    inputs = library.tensor(points)
    labels = library.tensor((points[:, 0] * points[:, 1] > 0).astype(np.int64))
    # The rate is too small to change the work or the answer over the rounds.
    optimizer = library.optim.AdamW(model.parameters(), lr=1e-9, **optimizer_options)

    def step() -> float:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(inputs), labels)
        loss.backward()
        optimizer.step()
        return float(loss.item())

    return step


def elementwise_chain(library: Any, elements: int) -> Callable[[], float]:
    """200 elementwise ops in a row, forward and backward."""
    source = np.random.default_rng(7)
    start, weight, shift = (
        library.tensor(source.standard_normal(elements).astype(np.float32)) for _ in range(3)
    )
    start.requires_grad_()

    def step() -> float:
        start.grad = None
        y = start
        for _ in range(LINKS // 5):
            y = y * weight
            y = y + shift
            y = y.tanh()
            y = y.sigmoid()
            y = y.sin()
        total = y.sum()
        total.backward()
        return float(total.item())

    return step


def contestant(
    make_step: Callable[..., Callable[[], float]],
    library: str,
    repeats: int,
    *arguments: int,
    **options: bool,
) -> Round:
    module = import_module(library)
    if library == "torch":
        module.set_num_threads(1)
    step = make_step(module, *arguments, **options)
    for _ in range(20):
        step()
    return partial(seconds_per_step, step, repeats)


CONTESTANTS: dict[str, Contestant] = {
    "step gradwalk": partial(contestant, training_step, "gradwalk", 100),
    "step torch": partial(contestant, training_step, "torch", 100),
    "step torch, fused AdamW": partial(contestant, training_step, "torch", 100, fused=True),
    **{
        f"chain {library} {elements}": partial(contestant, elementwise_chain, library, 40, elements)
        for elements in ELEMENTS
        for library in ("gradwalk", "torch")
    },
}


def row(what: str, ours: Measurement, theirs: Measurement, bar: Bar | None) -> list[str]:
    ratio = ours["seconds"] / theirs["seconds"]
    return [
        what,
        duration(ours["seconds"]),
        duration(theirs["seconds"]),
        *ratio_cells(ratio, bar),
    ]


def report() -> None:
    heads = ["", "gradwalk", "PyTorch", "ratio", "bar", ""]
    ours, theirs, fused = race([name for name in CONTESTANTS if "step" in name], ROUNDS).values()
    table(
        f"Eager: one training step, 2-16-16-2 network, batch {BATCH}, one thread",
        heads,
        [
            row("AdamW as it comes", ours, theirs, STEP_BAR),
            row("AdamW(fused=True) in PyTorch", ours, fused, None),
        ],
    )
    print(agreement(ours, theirs, fused))

    rows, agreements = [], []
    for elements in ELEMENTS:
        names = [f"chain {library} {elements}" for library in ("gradwalk", "torch")]
        ours, theirs = race(names, ROUNDS).values()
        rows.append(row(f"{elements} elements", ours, theirs, CHAIN_BAR))
        agreements.append(agreement(ours, theirs))
    table(f"Eager: chain of {LINKS} elementwise ops, forward + backward", heads, rows)
    print("\n".join(agreements))


if __name__ == "__main__":
    play(CONTESTANTS, report)
