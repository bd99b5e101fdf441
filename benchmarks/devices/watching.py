"""The cost of `gradwalk.torch.watch` on a GPU, for GPTs with steps of about 12 ms: a narrow one,
whose step is as long as the host takes to launch it, and a wide one, which keeps the device busy.

    PYTHONPATH=src python -m benchmarks.devices.watching

It needs PyTorch, NumPy and a GPU, and takes about two minutes. On and off share a process and take
turns: two processes differ by more than this cost. Synchronizations are counted by PyTorch itself.
At the end, a planted NaN must be found one step late, and its step undone bit for bit.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch

from benchmarks.devices import gpt
from gradwalk.torch import StepStopped, watch

TURNS, STEPS, WARM = 8, 25, 45  # watch measures more often in its first 40 steps
COUNTED = 10  # steps whose synchronizations are counted
SIZES = {"narrow": gpt.Size(6, 6, 384, 256, 64, 65), "wide": gpt.Size(2, 16, 2048, 512, 8, 65)}
OPTIMIZERS: dict[str, dict[str, Any]] = {"AdamW": {}, "AdamW, fused": {"fused": True}}
LOOKS: dict[str, bool] = {"late": True, "at once": False}


class Training:
    """A GPT, its optimizer and one batch, on the device."""

    def __init__(self, device: str, size: gpt.Size, options: dict[str, Any]) -> None:
        self.device = torch.device(device)
        self.model = gpt.network(torch, size).to(device)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), 1e-4, **options)
        self.x, self.y = (torch.tensor(a, device=device) for a in gpt.batch(size))

    def step(self) -> None:
        self.optimizer.zero_grad()
        with torch.autocast(self.device.type, dtype=torch.bfloat16):
            loss = torch.nn.functional.cross_entropy(self.model(self.x), self.y)
        loss.backward()
        self.optimizer.step()

    def steps(self, count: int) -> None:
        for _ in range(count):
            self.step()

    def wait(self) -> None:
        if self.device.type != "cpu":
            torch.get_device_module(self.device).synchronize()

    def seconds(self) -> float:
        """The time of one step, when the host may run ahead of the device."""
        self.wait()
        began = time.perf_counter()
        self.steps(STEPS)
        self.wait()
        return (time.perf_counter() - began) / STEPS

    def watched(self, late: bool, work: Callable[[], Any]) -> Any:
        with (
            tempfile.TemporaryDirectory() as folder,
            watch(self.model, self.optimizer, folder=folder, late=late),
        ):
            self.steps(WARM)
            return work()


def fitting(size: gpt.Size, device: str, wanted: float) -> gpt.Size:
    """The size with the batch that makes a step take about `wanted` seconds."""
    for _ in range(4):
        training = Training(device, size, {})
        training.steps(WARM)
        found = training.seconds()
        if abs(found / wanted - 1) < 0.1:
            break
        rows = round(size.batch * min(4.0, max(0.25, wanted / found)))
        size = replace(size, batch=max(1, rows))
    return size


def synchronizations(training: Training) -> int:
    """How often PyTorch makes the host wait for the device in some steps."""
    if training.device.type != "cuda":
        return 0
    torch.cuda.set_sync_debug_mode("warn")
    try:
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            training.steps(COUNTED)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    return sum("synchroniz" in str(warning.message) for warning in seen)


def compare(training: Training, late: bool) -> str:
    """Measure watching in turns with not watching; the noise is that of not watching twice."""
    more, noise, alone = [], [], []
    training.steps(WARM)
    for _ in range(TURNS):
        before = training.seconds()
        on = training.watched(late, training.seconds)
        after = training.seconds()
        alone += [before, after]
        more.append(on / ((before + after) / 2) - 1)
        noise.append(after / before - 1)
    low, _, high = statistics.quantiles(more, n=4)
    off = synchronizations(training)
    on = training.watched(late, lambda: synchronizations(training))
    spread = statistics.median(map(abs, noise))
    return (
        f"step {statistics.median(alone) * 1e3:6.2f} ms, "
        f"watching adds {statistics.median(more):+7.2%} "
        f"(quartiles {low:+.2%} to {high:+.2%}; noise {spread:.2%}), "
        f"synchronizations per step {off / COUNTED:g} alone, {on / COUNTED:g} watched"
    )


def check(device: str) -> str:
    """Plant a NaN; it must be found one step late, and the step undone."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(
        torch.nn.Linear(64, 256), torch.nn.Dropout(0.1), torch.nn.ReLU(), torch.nn.Linear(256, 1)
    ).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
    x = torch.randn(20, 512, 64, device=device)
    x[13, 77, 5] = float("nan")
    kept: list[Any] = []
    try:
        with tempfile.TemporaryDirectory() as folder, watch(model, optimizer, folder=folder):
            for number, batch in enumerate(x):
                optimizer.zero_grad()
                loss = model(batch).square().mean()
                loss.backward()
                if number == 13:
                    states = [v for s in optimizer.state.values() for v in s.values()]
                    kept = [t.detach().clone() for t in (*model.parameters(), *states)]
                optimizer.step()
    except StepStopped as stopped:
        report = stopped.report
        states = [v for s in optimizer.state.values() for v in s.values()]
        same = all(map(torch.equal, kept, (*model.parameters(), *states)))
        found = (report.step, report.row) == (13, 77)
        return f"found: {found} (at program step {number}), undone bit for bit: {same}"
    return "found: False"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--step", type=float, default=12.0, help="milliseconds, about; default 12")
    parser.add_argument("--device", default="cuda")
    given = parser.parse_args()
    torch.set_float32_matmul_precision("high")
    is_gpu = given.device == "cuda"
    name = torch.cuda.get_device_name() if is_gpu else given.device
    print(f"PyTorch {torch.__version__}, {name}; GPT in bfloat16")
    for width, first in SIZES.items():
        size = fitting(first, given.device, given.step / 1e3)
        print(f"{width}: {size}")
        for title, options in OPTIMIZERS.items():
            training = Training(given.device, size, options)
            for look, late in LOOKS.items():
                print(f"{title:14} {look:8} {compare(training, late)}", flush=True)
    print(f"a planted NaN: {check(given.device)}")


if __name__ == "__main__":
    main()
