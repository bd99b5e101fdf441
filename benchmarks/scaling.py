"""Backward against forward, and how time and memory grow with the graph."""

from __future__ import annotations

import time
import tracemalloc
from collections.abc import Callable
from functools import partial
from importlib import import_module

import numpy as np
from harness import (
    Bar,
    Contestant,
    Measurement,
    Round,
    duration,
    play,
    race,
    ratio_cells,
    seconds_per_step,
    table,
)

LAYERS, WIDTH, BATCH = 5, 256, 128
NODES = (1_000, 10_000, 100_000, 1_000_000)
RATIO_BAR = Bar(1.5, 2.5)
LINEAR = Bar(0.9, 1.1)


def dense_network(library_name: str) -> Round:
    """Time the two directions of one step separately, on the same graph."""
    library = import_module(library_name)
    layers = []
    for _ in range(LAYERS):
        layers += [library.nn.Linear(WIDTH, WIDTH), library.nn.ReLU()]
    model = library.nn.Sequential(*layers)
    parameters = list(model.parameters())
    source = np.random.default_rng(7)
    inputs = library.tensor(source.standard_normal((BATCH, WIDTH)).astype(np.float32))

    def one_round(repeats: int = 20) -> Measurement:
        forward = backward = 0.0
        for _ in range(repeats):
            for parameter in parameters:
                parameter.grad = None
            start = time.perf_counter()
            outputs = model(inputs)
            loss = (outputs * outputs).mean()
            middle = time.perf_counter()
            loss.backward()
            backward += time.perf_counter() - middle
            forward += middle - start
        return {"forward": forward / repeats, "backward": backward / repeats}

    one_round()
    return one_round


def chain(kind: str, nodes: int) -> Callable[[], float]:
    """A graph of that many ops, each on the one before it."""
    gradwalk = import_module("gradwalk")

    tensor_leaf = partial(gradwalk.tensor, requires_grad=True)
    leaf = gradwalk.Value if kind == "Value" else tensor_leaf
    start, factor, shift = leaf(1.0), leaf(0.5), leaf(0.25)

    def step() -> float:
        y = start
        for _ in range(nodes // 2):
            y = y * factor
            y = y + shift
        y.backward()
        return float(y.data)

    return step


def chain_seconds(kind: str, nodes: int) -> Round:
    return partial(seconds_per_step, chain(kind, nodes), max(1, 100_000 // nodes))


def chain_bytes(kind: str, nodes: int) -> Round:
    step = chain(kind, nodes)

    def one_round() -> Measurement:
        tracemalloc.start()
        step()
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        return {"bytes": peak}

    return one_round


CONTESTANTS: dict[str, Contestant] = {
    **{library: partial(dense_network, library) for library in ("gradwalk", "torch")},
    **{
        f"{kind} {nodes} {quantity}": partial(measure, kind, nodes)
        for quantity, measure in (("seconds", chain_seconds), ("bytes", chain_bytes))
        for kind in ("Value", "Tensor")
        for nodes in NODES
    },
}


def report_directions() -> None:
    rows = []
    for name, result in race(["gradwalk", "torch"], 15).items():
        rows.append(
            [
                name,
                duration(result["forward"]),
                duration(result["backward"]),
                *ratio_cells(
                    result["backward"] / result["forward"],
                    RATIO_BAR if name == "gradwalk" else None,
                ),
            ]
        )
    table(
        f"Scaling: dense {LAYERS}-layer ReLU network, width {WIDTH}, batch {BATCH}, one thread",
        ["", "forward", "backward", "ratio", "bar", ""],
        rows,
    )


def measure_chains(kind: str, quantity: str, rounds: int) -> list[float]:
    results = race([f"{kind} {nodes} {quantity}" for nodes in NODES], rounds)
    return [result[quantity] for result in results.values()]


def exponent(measured: list[float]) -> float:
    """The k of `measured ~ nodes**k`, by least squares on logarithms: 1 is linear."""
    slope, _ = np.polyfit(np.log(NODES), np.log(measured), 1)
    return float(slope)


def report_chains() -> None:
    rows, fits = [], []
    for kind in ("Value", "Tensor"):
        seconds = measure_chains(kind, "seconds", 5)
        peaks = measure_chains(kind, "bytes", 1)  # the same in every round
        for nodes, each_seconds, each_peak in zip(NODES, seconds, peaks, strict=True):
            rows.append(
                [
                    f"{kind}, {nodes:,} nodes",
                    duration(each_seconds),
                    duration(each_seconds / nodes),
                    f"{each_peak / nodes:.0f}",
                ]
            )
        for quantity, measured in (("time", seconds), ("memory", peaks)):
            fits.append([f"{kind}, {quantity}", *ratio_cells(exponent(measured), LINEAR)])
    table(
        "Scaling: a chain of scalar ops, forward + backward",
        ["", "time", "per node", "bytes per node"],
        rows,
    )
    table("Scaling: exponent over all four sizes", ["", "exponent", "bar", ""], fits)


def report() -> None:
    report_directions()
    report_chains()


if __name__ == "__main__":
    play(CONTESTANTS, report)
