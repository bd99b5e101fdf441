"""A job of two processes × four devices that loses a process at random moments while it saves.

    python -m tests.distributed.xla.killed_runs 20

It prints what happened at each kill, and raises if a run is lost, if the process that is left does
not end by itself and name the dead one, or if the end differs from that of a job left alone.
"""

from __future__ import annotations

import random
import sys
import tempfile
import time
from pathlib import Path

from tests.distributed.xla.jobs import LoopbackJob

PROGRAM = Path(__file__).with_name("sharded_training.py")
STEPS_PER_KILL = 6


def start(folder: Path, steps: int) -> LoopbackJob:
    return LoopbackJob(PROGRAM, 2, 4, (folder, steps))


def last_step(text: str) -> int:
    """The last step that a process printed as saved."""
    return max((int(line) for line in text.split("\n") if line.isdecimal()), default=0)


def experiment(folder: Path, kills: int, seed: float) -> list[str]:
    """Kill a job so many times, resume it, and compare its end; returns a line for each kill."""
    steps = kills * STEPS_PER_KILL + 4
    whole, broken = folder / "whole", folder / "broken"
    whole.mkdir()
    broken.mkdir()
    job = start(whole, steps)
    job.wait_for_line(0, lambda line: line.strip() == "4")
    began = time.monotonic()
    job.wait_for_line(0, lambda line: line.strip() == str(steps))
    pace = (time.monotonic() - began) / (steps - 4)
    job.succeed()
    source = random.Random(seed)
    saved, lines = 0, []
    for number in range(kills):
        job = start(broken, steps)
        victim = source.randrange(2)
        seen = int(job.wait_for_line(victim, lambda line: line.startswith("ready")).split()[1])
        assert seen >= saved, f"step {saved} was saved, and step {seen} was found"
        for _ in range(source.randint(0, STEPS_PER_KILL - 1)):
            seen = int(job.wait_for_line(victim, lambda line: line.strip().isdecimal()))
        time.sleep(source.uniform(0, pace))
        job.processes[victim].kill()
        killed = time.monotonic()
        statuses = job.wait()
        ended = time.monotonic() - killed
        assert statuses[victim] == -9 and statuses[1 - victim] == 1, (statuses, job.err)
        assert f"because rank {victim} (" in job.err[1 - victim], job.err[1 - victim]
        saved = max(seen, *map(last_step, job.out))
        text = f"rank {victim} after step {saved}; the other ended {ended:.1f} s later"
        lines.append(f"kill {number + 1}: {text}")
    start(broken, steps).succeed()
    ends = [(place / "final.safetensors").read_bytes() for place in (whole, broken)]
    assert ends[0] == ends[1], "the resumed run differs from the one that was left alone"
    for place in (whole, broken):
        names = sorted(path.name for path in place.iterdir())
        files = ["run.safetensors", "run.safetensors.previous", "run.safetensors.shards"]
        assert names == ["final.safetensors", *files], names
        pieces = list((place / "run.safetensors.shards").iterdir())
        assert len(pieces) == 4, pieces  # of the last save and the one before it
    return lines


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as made:
        began = time.monotonic()
        print(*experiment(Path(made), int(sys.argv[1]), time.time()), sep="\n")
        print(f"the same bits at the end; {time.monotonic() - began:.0f} s in all")
