"""The cost of inspection: recording, `why`, the order lab, health during training.

On and off share a process, because two processes differ by more than some of these costs. Networks
run on one thread. The scalar graph is a ladder: each of its 100,000 nodes is computed from the two
before it, so that the number of paths has thousands of digits.
"""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Callable
from functools import partial
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
from models import NETWORKS, start

ROUNDS = 5
NODES = 100_000
KEEPS = {"all": "all", "values": "values", "statistics": "stats"}
EVERY = 10
QUICK = Bar(highest=10.0)  # seconds: "seconds, not minutes"
SMALL = Bar(highest=1.1)  # a training step with a monitor every ten steps


def training(name: str) -> tuple[Any, Any, Callable[[], Any], Callable[[], None]]:
    """A model, its optimizer, its loss, and a training step."""
    gradwalk = import_module("gradwalk")
    network = NETWORKS[name]
    model, inputs, labels = start(gradwalk, network, "float32")
    x, y = gradwalk.tensor(inputs), gradwalk.tensor(labels)
    optimizer = network.optimizer(gradwalk, model.parameters(), 1e-4)

    def loss() -> Any:
        return gradwalk.nn.functional.cross_entropy(model(x), y)

    def step() -> None:
        optimizer.zero_grad()
        loss().backward()
        optimizer.step()

    return model, optimizer, loss, step


def seconds(action: Callable[[], Any], repeats: int) -> float:
    """The median: one interruption must not decide."""
    times = []
    for _ in range(repeats):
        begin = time.perf_counter()
        action()
        times.append(time.perf_counter() - begin)
    return statistics.median(times)


def recording(name: str) -> Round:
    gradwalk = import_module("gradwalk")
    _, _, _, step = training(name)

    def recorded(keep: str) -> None:
        with gradwalk.record(keep=keep):
            step()

    def one_round() -> Measurement:
        measured = {"off": seconds(step, 5)}
        for title, keep in KEEPS.items():
            measured[title] = seconds(partial(recorded, keep), 3)
        return measured

    one_round()
    return one_round


def monitoring(name: str) -> Round:
    """Steps with and without a monitor; examined ones are counted with the others."""
    gradwalk = import_module("gradwalk")
    model, optimizer, loss, step = training(name)

    def many() -> None:
        for _ in range(EVERY):
            step()

    def one_round() -> Measurement:
        off = seconds(many, 3) / EVERY
        with gradwalk.Monitor(model, optimizer, every=EVERY):
            on = seconds(many, 3) / EVERY
        with gradwalk.record() as trace:
            loss().backward()
        return {
            "off": off,
            "on": on,
            "health": seconds(lambda: gradwalk.health(model, trace, optimizer), 3),
        }

    one_round()
    return one_round


def ladder() -> Round:
    gradwalk = import_module("gradwalk")
    first, second = gradwalk.Value(1.0), gradwalk.Value(0.5)
    before, last = first, second
    half = gradwalk.Value(0.5)
    for _ in range(NODES // 3):
        before, last = last, half * before + half * last

    def one_round() -> Measurement:
        begin = time.perf_counter()
        trace = gradwalk.record(last)
        recorded = time.perf_counter()
        explained = gradwalk.why(first, trace)
        answered = time.perf_counter()
        order = [node.index for node in trace.nodes if not node.is_leaf][::-1]
        random.Random(7).shuffle(order)
        run = gradwalk.run_order(trace, order)
        str(run)
        ordered = time.perf_counter()
        return {
            "nodes": len(trace),
            "record": recorded - begin,
            "why": answered - recorded,
            "order": ordered - answered,
            "answer": float(explained.gradient),
        }

    return one_round


CONTESTANTS: dict[str, Contestant] = {
    **{f"recording {name}": partial(recording, name) for name in NETWORKS},
    **{f"monitor {name}": partial(monitoring, name) for name in NETWORKS},
    "ladder": ladder,
}


def report() -> None:
    rows = []
    for name, network in NETWORKS.items():
        (found,) = race([f"recording {name}"], ROUNDS).values()
        off = found["off"]
        times = [duration(off)]
        times += [f"{duration(found[title])} ({found[title] / off:.1f}×)" for title in KEEPS]
        rows.append([network.title, *times])
    table("Recording: one training step", ["", "off", *(f"keep {k}" for k in KEEPS)], rows)

    rows = []
    for name, network in NETWORKS.items():
        (found,) = race([f"monitor {name}"], ROUNDS).values()
        rows.append(
            [
                network.title,
                duration(found["off"]),
                duration(found["on"]),
                duration(found["health"]),
                *ratio_cells(found["on"] / found["off"], SMALL),
            ]
        )
    heads = ["", "alone", "monitored", "health()", "ratio", "bar", ""]
    table(f"Health: a training step, examined every {EVERY} steps", heads, rows)

    (found,) = race(["ladder"], 3).values()
    rows = [
        [what, duration(found[key]), str(QUICK), QUICK.verdict(found[key])]
        for what, key in (
            ("record", "record"),
            ("why, of the first leaf", "why"),
            ("run_order, shuffled, printed", "order"),
        )
    ]
    nodes = f"{int(found['nodes']):,}"
    table(f"A graph of {nodes} Values, each used twice", ["", "time", "bar in s", ""], rows)


if __name__ == "__main__":
    play(CONTESTANTS, report)
