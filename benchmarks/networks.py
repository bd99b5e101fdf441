"""Training steps of four small networks: hand-written NumPy, gradwalk, PyTorch; two threads each.

The hand-written step (`floor/`) is the cost of a network without an engine, so its ratio shows what
gradwalk adds. The fastest round counts, not the median: if all cores are in use, threads wait for
one another as soon as any other process runs, often for longer than the step takes.

`python benchmarks/networks.py --check` compares the losses and every gradient instead.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from importlib import import_module

import numpy as np
from floor import FLOORS
from floor.shared import Arrays
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
from models import NETWORKS, start, training_step

THREADS = 2
ROUNDS = 21
REST = 0.1  # seconds
WARM_UP = 2
REPEATS = {"cnn": 10, "gpt": 2, "lstm": 8, "mlp": 8}
FLOOR_BAR = Bar(highest=1.25)
RATE = 1e-9  # too small to change the work or the answer over the rounds


def floor_step(name: str) -> Callable[[], float]:
    parameters, inputs, labels = floor_start(name)
    floor = FLOORS[name](parameters, RATE)
    return partial(floor.step, inputs, labels)


def floor_start(name: str) -> tuple[Arrays, np.ndarray, np.ndarray]:
    """The weights and the batch that the libraries start from, as arrays.

    gradwalk then tells the C library to keep freed memory, from which the floor profits as well.
    """
    model, inputs, labels = start(import_module("gradwalk"), NETWORKS[name], "float32")
    parameters = {key: each.detach().numpy().copy() for key, each in model.named_parameters()}
    return parameters, inputs, labels


def library_step(library: str, name: str) -> Callable[[], float]:
    module = import_module(library)
    if library == "torch":
        module.set_num_threads(THREADS)
    return training_step(module, NETWORKS[name], RATE)[1]


def contestant(make_step: Callable[[], Callable[[], float]], repeats: int) -> Round:
    step = make_step()

    def one_round() -> Measurement:
        # The threads of the previous contestant spin for a while, in case there is more work.
        time.sleep(REST)
        for _ in range(WARM_UP):
            step()
        return seconds_per_step(step, repeats)

    return one_round


CONTESTANTS: dict[str, Contestant] = {
    f"{name} {who}": partial(contestant, partial(*make, name), REPEATS[name])
    for name in NETWORKS
    for who, make in {
        "floor": (floor_step,),
        "gradwalk": (library_step, "gradwalk"),
        "torch": (library_step, "torch"),
    }.items()
}


def report() -> None:
    rows, agreements = [], []
    for name, network in NETWORKS.items():
        names = [f"{name} {who}" for who in ("floor", "gradwalk", "torch")]
        floor, ours, theirs = race(names, ROUNDS, threads=THREADS, pick=min).values()
        over_floor, over_torch = (ours["seconds"] / other["seconds"] for other in (floor, theirs))
        times = [duration(each["seconds"]) for each in (floor, ours, theirs)]
        rows.append(
            [network.title, *times, f"{over_torch:.2f}", *ratio_cells(over_floor, FLOOR_BAR)]
        )
        agreements.append(agreement(floor, ours, theirs))
    table(
        f"Networks: one training step in float32, {THREADS} threads",
        ["", "NumPy", "gradwalk", "PyTorch", "/ PyTorch", "/ NumPy", "bar", ""],
        rows,
    )
    print("\n".join(agreements))


def check() -> None:
    """Compare the hand-written gradients with those of both libraries."""
    rows = []
    for name, network in NETWORKS.items():
        parameters, inputs, labels = floor_start(name)
        loss, gradients = FLOORS[name](parameters, RATE).gradients(inputs, labels)
        for library in ("gradwalk", "torch"):
            model, step = training_step(import_module(library), network, RATE)
            found = step()
            theirs = {key: each.grad.numpy() for key, each in model.named_parameters()}
            assert theirs.keys() == gradients.keys()
            apart = max(
                float(np.abs(gradients[key] - each).max() / np.abs(theirs[key]).max())
                for key, each in theirs.items()
            )
            rows.append([f"{name}, {library}", f"{loss:.7g}", f"{found:.7g}", f"{apart:.1e}"])
    table(
        "Networks: loss, and the largest difference of a gradient by its largest element",
        ["", "NumPy", "library", "gradients"],
        rows,
    )


if __name__ == "__main__":
    play(CONTESTANTS, report, check)
