"""A run killed at any moment and resumed ends with the bits of a run that was left alone."""

import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

KILLS = 10
PROGRAM = """
import os, sys
os.environ["OMP_NUM_THREADS"] = "1"
import gradwalk as gw

folder, steps = sys.argv[1], int(sys.argv[2])
path = os.path.join(folder, "run.safetensors")
gw.manual_seed(0)
nn = gw.nn
model = nn.Sequential(nn.Linear(2, 32), nn.Tanh(), nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, 2))
optimizer = gw.optim.AdamW(model.parameters(), lr=1e-2)
scheduler = gw.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=steps)
loader = gw.data.DataLoader(gw.data.moons(100), batch_size=16, shuffle=True, num_workers=1)
parts = dict(model=model, optimizer=optimizer, scheduler=scheduler, loader=loader)
step = gw.load_run(path, **parts)["step"] if os.path.exists(path) else 0
print("ready", flush=True)
while step < steps:
    for points, labels in loader:
        optimizer.zero_grad()
        noisy = points + 0.1 * gw.randn(*points.shape)
        nn.functional.cross_entropy(model(noisy), labels).backward()
        optimizer.step()
        scheduler.step()
        step += 1
        gw.save_run(path, **parts, step=step)
        print(step, flush=True)
        if step == steps:
            break
gw.save(model.state_dict(), os.path.join(folder, "final.safetensors"))
"""


def start(folder: Path, steps: int) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(folder), str(steps)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def finished(process: "subprocess.Popen[str]") -> str:
    out, errors = process.communicate()
    assert process.returncode == 0, errors
    return out


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="there is no SIGKILL here")
def test_killed_ten_times_and_resumed(tmp_path: Path) -> None:
    steps = 150
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    whole.mkdir()
    broken.mkdir()
    began = time.monotonic()
    finished(start(whole, steps))
    pace = (time.monotonic() - began) / steps

    source = random.Random(began)  # other moments every time
    for _ in range(KILLS):
        process = start(broken, steps)
        assert process.stdout is not None
        for _ in range(source.randint(1, 10)):  # the first line comes before the first step
            process.stdout.readline()
        time.sleep(source.uniform(0, pace))
        process.kill()  # SIGKILL
        _, errors = process.communicate()
        assert not errors, errors
        assert process.returncode == -signal.SIGKILL
    finished(start(broken, steps))
    ends = [(folder / "final.safetensors").read_bytes() for folder in (whole, broken)]
    assert ends[0] == ends[1]
    for folder in (whole, broken):
        names = sorted(path.name for path in folder.iterdir())
        assert names == ["final.safetensors", "run.safetensors", "run.safetensors.previous"]
