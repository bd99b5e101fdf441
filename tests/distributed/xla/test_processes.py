"""Jobs of two processes: joining, agreeing on programs, and ending when one of them fails."""

from __future__ import annotations

import os
import re
import signal
from pathlib import Path

import pytest

import gradwalk as gw
from tests.distributed.xla.jobs import LoopbackJob
from tests.project.checkout import ROOT

STEP = """
mesh = gw.Mesh(data=-1)
x = gw.distribute(gw.ones(4), mesh, ("data",))
@gw.compile
def step(x):
    return (x * x.sum()) * 0.1
def run(n):
    for i in range(n):
        gw.distribute(step(x), mesh).tolist()
    print("ran", n, flush=True)
"""


def test_init_after_the_first_use_of_a_device_names_its_line() -> None:
    assert gw.ones(2, device="xla").device.type == "xla"
    with pytest.raises(RuntimeError, match=r"came too late: .*at \S+\.py:\d+(.|\n)*Fix: move init"):
        gw.distributed.init("127.0.0.1:1", world_size=2, rank=0)
    assert not gw.distributed.is_initialized()
    gw.distributed.init("127.0.0.1:1", world_size=1, rank=0)  # alone, it may come at any time
    try:
        with pytest.raises(
            RuntimeError, match=r"was called before: this is rank 0 of 1(.|\n)*once"
        ):
            gw.distributed.init()
    finally:
        gw.distributed.destroy_process_group()


def test_init_after_the_first_call_of_jax_ends_the_job() -> None:
    program = """
import gradwalk as gw
import jax, os
if os.environ["RANK"] == "1":
    jax.devices()
gw.distributed.init(timeout=60)
"""
    job = LoopbackJob(program, preamble="")
    assert job.wait() == [1, 1]
    assert "Fix: move init() before that, to the start of the program" in job.err[1]
    assert "because rank 1 (" in job.err[0], job.err[0]


def test_two_processes_are_one_job() -> None:
    job = LoopbackJob(
        STEP
        + """
try:
    gw.distributed.init()
except RuntimeError as error:
    print(error)
gw.distributed.barrier()
print(gw.distributed.is_initialized(), gw.distributed.get_world_size(), mesh.size)
print(gw.distribute(step(x), mesh).tolist()[0])
""",
        devices=2,
    )
    for rank, text in enumerate(job.succeed()):
        first, *rest = text.splitlines()
        assert first == f"gw.distributed.init() was called before: this is rank {rank} of 2."
        # XLA's collectives write lines of their own in between, on a busy machine in pieces.
        printed = ["True 2 4", "0.4000000059604645"]
        assert [line for line in rest if line in printed] == printed, text


def test_a_program_that_differs_is_named_in_every_process() -> None:
    job = LoopbackJob(
        STEP
        + """
run(1)
@gw.compile
def other(x):
    y = x + 1
    return y * (2.0 if rank == 0 else 3.0)
other(x)
"""
    )
    assert job.wait() == [1, 1]
    for text in job.err:
        assert "the processes compiled different programs: rank 0 alone; rank 1 alone" in text
        assert "rank 0: t1 = mul(t0, 2.0)" in text and "rank 1: t1 = mul(t0, 3.0)" in text, text


FAILURES = {
    "raises": ('raise ValueError("boom")', r"failed: ValueError: boom\n  at <string>:\d+"),
    "is killed": ("os.kill(os.getpid(), 9)", "died without a message: was it killed?"),
    "is stopped": ("os.kill(os.getpid(), 19)", "has (sent no heartbeat|been silent) for "),
    "sleeps": ("time.sleep(1000)", r"has not advanced for \d+ s: step 2"),
    "leaves": ("sys.exit(3)", "has ended its program, and others wait for it"),
}


@pytest.mark.skipif(not hasattr(signal, "SIGSTOP"), reason="there are no such signals here")
@pytest.mark.parametrize("victim", [0, 1])
@pytest.mark.parametrize("what", FAILURES)
def test_a_rank_that_fails_is_named_by_the_other(what: str, victim: int) -> None:
    action, said = FAILURES[what]
    job = LoopbackJob(
        STEP + f"run(2)\nif rank == {victim}:\n    {action}\nrun(1000000)",
        environ={"JOB_TIMEOUT": "4"},
    )
    other = job.processes[1 - victim]
    _, text = other.communicate(timeout=100)
    if what == "is stopped":
        os.kill(job.processes[victim].pid, signal.SIGKILL)
    statuses = job.wait()
    assert all(statuses), statuses
    assert other.returncode == 1, text
    assert re.search(said, text) and f"rank {victim} (" in text, text
    assert f"gradwalk.distributed: rank {1 - victim} of 2 ends, because rank {victim} (" in text
    if what == "raises":
        assert "Traceback" in job.err[victim] and "Traceback" not in text


def test_the_program_of_the_page_prints_what_the_page_shows(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "devices" / "processes.md").read_text(encoding="utf-8")
    program = tmp_path / "train.py"
    program.write_text(page.split("```py\n")[1].split("```")[0], encoding="utf-8")
    for steps in (16, 32):  # the second job resumes the first
        job = LoopbackJob(program, 2, 2, (steps,), folder=tmp_path)
        first, second = job.succeed()
        assert len(first.splitlines()) == 2 and first in page and not second
