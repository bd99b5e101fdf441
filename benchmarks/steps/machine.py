"""The machine's limits: the speed of BLAS and the bandwidth of memory."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import torch
from harness import Measurement
from models import start

from .problems import PROBLEMS

WIDTH = 1024
LEAST_BYTES = 3 * 2**20  # fewer would measure the call and not the memory
REPEATS = 10


def measure(names: Iterable[str]) -> Measurement:
    """Operations per second, and for each problem its bytes, and bytes per second at that size."""
    torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
    measured = {"flops": product_speed()}
    for name in names:
        count = bytes_of(name)
        measured |= {f"{name} bytes": count, f"{name} bandwidth": triad_speed(count)}
    return measured


def bytes_of(name: str) -> float:
    """The least bytes a step can move: state read and written once, the batch read once.

    Parameters and the optimizer's moments are the state. Activations and gradients could stay in
    registers and caches, or be recomputed.
    """
    network = PROBLEMS[name].network
    model, *batch = start(torch, network, "float32")
    optimizer = network.optimizer(torch, model.parameters(), 0.0)
    copies = 2 if isinstance(optimizer, torch.optim.SGD) else 3
    numbers = sum(parameter.numel() for parameter in model.parameters())
    return 2.0 * 4 * copies * numbers + sum(each.nbytes for each in batch)


def product_speed() -> float:
    """The speed of the faster BLAS, NumPy's or PyTorch's."""
    a, b, c = (np.ones((WIDTH, WIDTH), np.float32) for _ in range(3))
    x, y, z = (torch.from_numpy(each) for each in (a, b, c))
    work = 2 * WIDTH**3
    return work / min(
        quickest(lambda: np.matmul(a, b, out=c)), quickest(lambda: torch.mm(x, y, out=z))
    )


def triad_speed(count: float) -> float:
    """The speed of a = b + 3 c, repeated, on three arrays with this many bytes in all."""
    length = int(max(count, LEAST_BYTES)) // 12
    a, b, c = (torch.ones(length) for _ in range(3))
    return 12 * length / quickest(lambda: torch.add(b, c, alpha=3, out=a), 50)


def quickest(action: Callable[[], Any], repeats: int = REPEATS) -> float:
    action()
    times = []
    for _ in range(repeats):
        begin = time.perf_counter()
        action()
        times.append(time.perf_counter() - begin)
    return min(times)
