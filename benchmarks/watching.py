"""The cost of `gradwalk.torch.watch` and `record` for a healthy PyTorch program.

On and off share a process and take turns, because two processes differ by more than this cost. The
large network is the GPT of the other benchmarks with batch 8; the small one is a transformer of two
layers, 64 wide. Times are CPU time, on one thread. The noise is the median difference of two turns
without watching.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from importlib import import_module
from typing import Any

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
WARM = 45  # steps: watch measures more often in its first 40
BATCH, SMALL_BATCH, SMALL_TIME = 8, 4, 32
OPERATIONS = 300  # small operations in a row
BARS = {"large": Bar(highest=1.02), "small": Bar(highest=1.05), "tiny": Bar(highest=8)}
SLOWEST = 60e-6  # seconds for a small operation


def large() -> Round:
    torch = import_module("torch")
    network = NETWORKS["gpt"]
    model, inputs, labels = start(torch, network, "float32")
    x, y = torch.tensor(inputs[:BATCH]), torch.tensor(labels[: BATCH * TIME])
    return watching(torch, model, network.optimizer(torch, model.parameters(), 1e-4), x, y)


def small() -> Round:
    torch = import_module("torch")
    model, x, y = transformer(torch, 64, 4, SMALL_BATCH, SMALL_TIME)
    return watching(torch, model, torch.optim.AdamW(model.parameters(), 1e-4), x, y)


def transformer(torch: Any, width: int, heads: int, batch: int, time: int) -> tuple[Any, Any, Any]:
    """A transformer of two layers, inputs and labels."""
    nn = torch.nn
    torch.manual_seed(0)
    layers = [
        nn.TransformerEncoderLayer(width, heads, 4 * width, batch_first=True, norm_first=True)
        for _ in range(2)
    ]
    model = nn.Sequential(
        nn.Embedding(65, width),
        *layers,
        nn.LayerNorm(width),
        nn.Linear(width, 65),
        nn.Flatten(0, 1),
    )
    x, y = torch.randint(0, 65, (batch, time)), torch.randint(0, 65, (batch * time,))
    return model, x, y


def step_of(torch: Any, model: Any, optimizer: Any, x: Any, y: Any) -> Callable[[], None]:
    def step() -> None:
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()

    return step


def watching(torch: Any, model: Any, optimizer: Any, x: Any, y: Any) -> Round:
    watch = import_module("gradwalk.torch").watch
    aside = import_module("gradwalk.torch.watch.watch").aside
    step = step_of(torch, model, optimizer, x, y)
    watch(model, optimizer)  # for as long as the process lives
    for _ in range(WARM):
        step()

    def one_round() -> Measurement:
        off, on, again = [], [], []
        for _ in range(TURNS):
            with aside():
                off.append(seconds(step))
            on.append(seconds(step))
            with aside():
                again.append(seconds(step))
        # Differences of neighbours: other load on the machine affects both alike.
        more = statistics.median(b - (a + c) / 2 for a, b, c in zip(off, on, again, strict=True))
        noise = statistics.median(abs(c - a) for a, c in zip(off, again, strict=True))
        return {"off": statistics.median(off + again), "more": more, "noise": noise}

    return one_round


def recording() -> Round:
    torch = import_module("torch")
    record = import_module("gradwalk.torch").record
    model, x, y = transformer(torch, 32, 2, 2, 16)
    step = step_of(torch, model, torch.optim.SGD(model.parameters(), 1e-3), x, y)
    leaf = torch.randn(8, 8, requires_grad=True)

    def recorded() -> None:
        with record():
            step()

    def operations() -> None:
        y = leaf
        with record():
            for _ in range(OPERATIONS):
                y = y * 1.01

    def one_round() -> Measurement:
        off, on, alone = [], [], []
        for _ in range(TURNS):
            off.append(seconds(step))
            on.append(seconds(recorded))
            alone.append(seconds(operations) / OPERATIONS)
        ratios = [b / a for a, b in zip(off, on, strict=True)]
        found = {"off": off, "on": on, "ratio": ratios, "operation": alone}
        return {name: statistics.median(values) for name, values in found.items()}

    recorded()
    operations()
    return one_round


def seconds(step: Callable[[], None]) -> float:
    begin = time.process_time()
    for _ in range(STEPS):
        step()
    return (time.process_time() - begin) / STEPS


CONTESTANTS: dict[str, Contestant] = {"large": large, "small": small, "recording": recording}


def report() -> None:
    rows = []
    found = race(list(CONTESTANTS), ROUNDS)
    for name, title in (("large", "GPT"), ("small", "small transformer")):
        off, more, noise = (found[name][key] for key in ("off", "more", "noise"))
        cells = [duration(off), duration(more), f"{noise / off:.1%}", f"{1 + more / off:.3f}"]
        rows.append([title, *cells, *ratio_cells(1 + more / off, BARS[name])[1:]])
    heads = ["watch: a step", "alone", "watching adds", "noise", "ratio", "bar", ""]
    table(
        f"watch: GPT of 4 layers, 128 wide, {BATCH} × {TIME} tokens, and a small one", heads, rows
    )
    told = found["recording"]
    each = told["operation"]
    verdict = "pass" if each <= SLOWEST else "MISS"
    step = [duration(told["off"]), duration(told["on"]), *ratio_cells(told["ratio"], BARS["tiny"])]
    heads = ["record", "alone", "recorded", "ratio", "bar", ""]
    operation = ["a small operation", "", duration(each), "", f"<= {duration(SLOWEST)}", verdict]
    table(
        "record: a transformer of 2 layers, 32 wide, 2 × 16 tokens, and an operation on 8 × 8",
        heads,
        [["a step", *step], operation],
    )


if __name__ == "__main__":
    play(CONTESTANTS, report)
