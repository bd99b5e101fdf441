"""The cost of `gradwalk.torch.watch` for a healthy PyTorch program.

On and off share a process and take turns, because two processes differ by more than this cost. The
network is the GPT of the other benchmarks with batch 8; "its own" is the time that `watch` itself
measures, without its effect on caches.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from importlib import import_module

from harness import (
    Bar,
    Contestant,
    Measurement,
    Round,
    duration,
    play,
    race,
    ratio_cells,
    table,
)
from models import NETWORKS, TIME, start

ROUNDS, TURNS, STEPS = 3, 8, 4
BATCH = 8
SMALL = Bar(highest=1.03)


def watching() -> Round:
    torch = import_module("torch")
    watch = import_module("gradwalk.torch").watch
    network = NETWORKS["gpt"]
    model, inputs, labels = start(torch, network, "float32")
    x, y = torch.tensor(inputs[:BATCH]), torch.tensor(labels[: BATCH * TIME])
    optimizer = network.optimizer(torch, model.parameters(), 1e-4)

    def step() -> None:
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()

    def one_round() -> Measurement:
        off, on, own = [], [], []
        for _ in range(TURNS):
            off.append(seconds(step))
            with watch(model, optimizer) as watched:
                step()  # the first step reads the program's source, once
                before = watched.overhead * watched.steps
                on.append(seconds(step))
                own.append((watched.overhead * watched.steps - before) / STEPS)
        # Differences of neighbours: other load on the machine affects both alike.
        more = statistics.median(b - a for a, b in zip(off, on, strict=True))
        return {"off": statistics.median(off), "more": more, "own": statistics.median(own)}

    step()
    return one_round


def seconds(step: Callable[[], None]) -> float:
    begin = time.perf_counter()
    for _ in range(STEPS):
        step()
    return (time.perf_counter() - begin) / STEPS


CONTESTANTS: dict[str, Contestant] = {"watching": watching}


def report() -> None:
    (found,) = race(["watching"], ROUNDS).values()
    off = found["off"]
    rows = [
        [what, duration(off), duration(cost), *ratio_cells(1 + cost / off, SMALL)]
        for what, cost in (("measured", found["more"]), ("its own", found["own"]))
    ]
    heads = ["", "alone", "watching adds", "ratio", "bar", ""]
    table(
        f"watch: a training step of GPT, 4 layers, 128 wide, {BATCH} × {TIME} tokens", heads, rows
    )


if __name__ == "__main__":
    play(CONTESTANTS, report)
