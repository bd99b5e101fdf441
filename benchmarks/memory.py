"""Peak memory of one training step of a 20-layer tanh network, and what checkpointing saves.

Both sides count everything alive at the peak: parameters, AdamW's moments, the batch, activations
and gradients. For gradwalk we use tracemalloc, which counts Python's objects as well as NumPy's
buffers; for PyTorch, the report of its own allocator to its profiler, which counts tensors only.
The second row subtracts what both must hold anyway, so that it cannot hide waste.
"""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from functools import partial
from importlib import import_module
from typing import Any

import numpy as np
from harness import Bar, Contestant, Measurement, Round, play, race, ratio_cells, size, table

LAYERS, WIDTH, BATCH = 20, 256, 1024
SEGMENT = 4  # layers between one checkpoint and the next
FLOAT = 4  # bytes
ACTIVATION = BATCH * WIDTH * FLOAT
PARAMETERS = LAYERS * (WIDTH * WIDTH + WIDTH) * FLOAT
STANDING = 3 * PARAMETERS + ACTIVATION  # parameters, two moments of each, and the batch
PEAK_BAR = Bar(highest=1.1)
PREDICTION_BAR = Bar(0.95, 1.05)


def tanh_network(library: Any) -> tuple[list[Any], Any]:
    """The layers and a batch for them."""
    layers = []
    for _ in range(LAYERS):
        layers.append(library.nn.Sequential(library.nn.Linear(WIDTH, WIDTH), library.nn.Tanh()))
    source = np.random.default_rng(7)
    return layers, library.tensor(source.standard_normal((BATCH, WIDTH)).astype(np.float32))


def run_through(layers: list[Any], activations: Any) -> Any:
    for layer in layers:
        activations = layer(activations)
    return activations


def loss_of(library: Any, layers: list[Any], batch: Any, checkpointed: bool) -> Any:
    outputs = batch
    for first in range(0, LAYERS, SEGMENT):
        segment = partial(run_through, layers[first : first + SEGMENT])
        outputs = library.checkpoint(segment, outputs) if checkpointed else segment(outputs)
    return (outputs * outputs).mean()


def train(library: Any, checkpointed: bool = False) -> None:
    """Run two steps: only in the second does the optimizer's state exist from the beginning."""
    layers, batch = tanh_network(library)
    parameters = [parameter for layer in layers for parameter in layer.parameters()]
    optimizer = library.optim.AdamW(parameters, lr=1e-3)
    for _ in range(2):
        optimizer.zero_grad()
        loss_of(library, layers, batch, checkpointed).backward()
        optimizer.step()


def traced_peak(work: Callable[[], None]) -> float:
    tracemalloc.start()
    work()
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return peak


def gradwalk_peak(checkpointed: bool) -> Round:
    gradwalk = import_module("gradwalk")
    # Modules that are imported on first use are not part of the step.
    train(gradwalk, checkpointed)
    return lambda: {"bytes": traced_peak(lambda: train(gradwalk, checkpointed))}


def torch_peak() -> Round:
    torch = import_module("torch")
    profiler = import_module("torch.profiler")

    def one_round() -> Measurement:
        with profiler.profile(
            activities=[profiler.ProfilerActivity.CPU], profile_memory=True
        ) as profile:
            train(torch)
        events = [
            event
            for event in profile.profiler.kineto_results.events()
            if event.name() == "[memory]"
        ]
        # Each event is one allocation, or one release with its bytes negative.
        changes = [event.nbytes() for event in sorted(events, key=lambda event: event.start_ns())]
        return {"bytes": float(np.cumsum(changes).max())}

    return one_round


def saved(checkpointed: bool) -> Round:
    """The bytes that forward keeps alive besides parameters and batch: measured and reported."""
    gradwalk = import_module("gradwalk")
    layers, batch = tanh_network(gradwalk)
    loss_of(gradwalk, layers, batch, checkpointed)

    def one_round() -> Measurement:
        tracemalloc.start()
        loss = loss_of(gradwalk, layers, batch, checkpointed)
        alive, _ = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        return {"bytes": alive, "reported": gradwalk.saved_bytes(loss)}

    return one_round


CONTESTANTS: dict[str, Contestant] = {
    "gradwalk": partial(gradwalk_peak, False),
    "gradwalk, checkpointed": partial(gradwalk_peak, True),
    "torch": torch_peak,
    "saved": partial(saved, False),
    "saved, checkpointed": partial(saved, True),
}


def report() -> None:
    result = race(list(CONTESTANTS), 1)
    report_peaks(
        result["gradwalk"]["bytes"],
        result["gradwalk, checkpointed"]["bytes"],
        result["torch"]["bytes"],
    )
    report_saved(result["saved"], result["saved, checkpointed"])


def report_peaks(ours: float, ours_checkpointed: float, theirs: float) -> None:
    rows = []
    for what, left, right, bar in (
        ("everything", ours, theirs, PEAK_BAR),
        ("less parameters, moments, batch", ours - STANDING, theirs - STANDING, PEAK_BAR),
        ("everything, ours checkpointed", ours_checkpointed, theirs, None),
    ):
        rows.append([what, size(left), size(right), *ratio_cells(left / right, bar)])
    table(
        f"Memory: peak of one AdamW step, {LAYERS} tanh layers of {WIDTH}, batch {BATCH}",
        ["", "gradwalk", "PyTorch", "ratio", "bar", ""],
        rows,
    )


def report_saved(plain: Measurement, checkpointed: Measurement) -> None:
    rows = []
    for what, measured, kept in (
        ("no checkpoint", plain, LAYERS),  # the output of each tanh, which feeds the next layer
        (f"every {SEGMENT} layers", checkpointed, LAYERS // SEGMENT),  # of each segment's last
    ):
        predicted = kept * ACTIVATION
        rows.append(
            [
                what,
                size(measured["reported"]),
                size(measured["bytes"]),
                size(predicted),
                *ratio_cells(measured["bytes"] / predicted, PREDICTION_BAR),
            ]
        )
    table(
        "Memory: kept for backward (saved_bytes reports, tracemalloc measures)",
        ["", "reported", "measured", "predicted", "ratio", "bar", ""],
        rows,
    )


if __name__ == "__main__":
    play(CONTESTANTS, report)
