"""watch on two real processes: each rank reports, one summary names the first, nothing hangs."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from gradwalk.torch.ranks.summary import AFTER, BEFORE, RanksSummary
from tests.torch.ranks import scenarios

LIMIT = 120  # seconds: far above what a run takes, so that only a hang reaches it
# In the last scenario rank 1 never ends by itself.
ENDS = [name for name in scenarios.SCENARIOS if name != "ddp-unused-on-one"]
STOPPED = scenarios.BAD


@contextmanager
def processes(*commands: list[str], folder: Path) -> Iterator[list[subprocess.Popen[str]]]:
    """Processes of one group each, which are killed at the end."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    started = [
        subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=environment,
            cwd=folder,
            start_new_session=True,
        )
        for command in commands
    ]
    try:
        yield started
    finally:
        for process in started:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
            process.communicate()


def run(folder: Path, *names: str) -> list[str]:
    """Run scenarios on two ranks; return what each printed."""
    program = str(Path(scenarios.__file__))
    both = [[sys.executable, program, str(rank), str(folder), *names] for rank in (0, 1)]
    with processes(*both, folder=folder) as started:
        return [process.communicate(timeout=LIMIT)[0] for process in started]


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, int], Any]:
    """What each rank found, by scenario and rank: all of them run in one pair of processes."""
    folder = tmp_path_factory.mktemp("ranks")
    printed = run(folder, *ENDS, "ddp-unused-on-one")
    last = folder / "ddp-unused-on-one-0.json"
    results = {("ddp-unused-on-one", 0): json.loads(last.read_text())} if last.exists() else {}
    for name in ENDS:
        for rank in (0, 1):
            path = folder / f"{name}-{rank}.json"
            assert path.exists(), f"{name} did not end on rank {rank}:\n" + "\n".join(printed)
            results[name, rank] = json.loads(path.read_text())
    return results


HEALTHY = [
    "ddp-healthy",
    "ddp-late-healthy",
    "ddp-unused-allowed",
    "fsdp-healthy",
    "fsdp-watched-on-one",
]


@pytest.mark.parametrize("name", HEALTHY)
def test_healthy_ranks_are_left_alone(found: dict[tuple[str, int], Any], name: str) -> None:
    for rank in (0, 1):
        assert found[name, rank]["reports"] == []
        assert found[name, rank]["done"] == scenarios.STEPS


GUILTY = ["ddp-nan", "ddp-warn", "ddp-late", "ddp-late-warn", "fsdp-nan", "fsdp-warn", "fsdp-half"]


@pytest.mark.parametrize("name", GUILTY)
def test_the_bad_rank_is_named_on_every_rank(found: dict[tuple[str, int], Any], name: str) -> None:
    (innocent,), (guilty,) = found[name, 0]["reports"], found[name, 1]["reports"]
    assert (guilty["step"], guilty["op"], guilty["row"]) == (STOPPED, "div", 7)
    assert guilty["line"].endswith("# HERE") and guilty["rerun"] == "statements"
    assert (guilty["side"], innocent["side"]) == (BEFORE, AFTER)
    assert innocent["op"] == "" and "healthy" in innocent["text"]
    for report in (innocent, guilty):
        assert (report["first"], report["summary_side"]) == (1, BEFORE)
        assert "The first bad rank is 1" in report["summary"]
    goes_on = name.endswith("warn")
    for rank, report in enumerate((innocent, guilty)):
        made = STOPPED + ("late" in name)
        assert found[name, rank]["done"] == (scenarios.STEPS if goes_on else made)
        assert found[name, rank]["finite"] != goes_on
        own = Path(report["path"]).parent
        assert own.name == f"rank-{rank}" and (own / "report.json").exists()
    together = own.parent / "summary.json"
    assert json.loads(together.read_text())["op"] == "div"


def test_a_part_that_another_rank_holds_stops_all(found: dict[tuple[str, int], Any]) -> None:
    (maker,), (holder,) = (found["fsdp-one-part", rank]["reports"] for rank in (0, 1))
    assert (maker["side"], holder["side"]) == (BEFORE, AFTER)
    assert maker["op"] == "sqrt" and maker["line"].endswith("# ROOT")
    assert maker["gradients"] == [] and holder["gradients"] == ["words.weight"]
    assert "that another rank holds" in maker["text"]


def test_a_reduction_that_overflows_is_no_ranks_fault(found: dict[tuple[str, int], Any]) -> None:
    for rank in (0, 1):
        (report,) = found["ddp-reduction", rank]["reports"]
        assert report["side"] == report["summary_side"] == AFTER
        assert "reduction itself" in report["summary"] and "float32" in report["text"]


@pytest.mark.parametrize("name", ["ddp-unused-everywhere", "ddp-unused-zeros"])
def test_unused_parameters_are_named(found: dict[tuple[str, int], Any], name: str) -> None:
    for rank in (0, 1):
        (report,) = found[name, rank]["reports"]
        assert (report["kind"], report["step"]) == ("unused", STOPPED)
        assert report["gradients"] == ["module.extra.weight", "module.extra.bias"]
        assert "find_unused_parameters=True" in report["text"]


def test_a_rank_that_waits_for_ever_does_not_hold_up_the_report(
    found: dict[tuple[str, int], Any],
) -> None:
    (report,) = found["ddp-unused-on-one", 0]["reports"]
    assert report["gradients"] == ["module.extra.weight", "module.extra.bias"]
    assert (report["first"], "rank 1:  no report" in report["summary"]) == (0, True)


PROGRAM = """
import torch, torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(0)
model = DistributedDataParallel(torch.nn.Linear(4, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for step in range(4):
    x = torch.full((3, 4), -1.0 if (step, rank) == (2, 1) else 1.0)
    optimizer.zero_grad()
    loss = model(x).square().mean() * x.mean().log()  # HERE
    loss.backward()
    optimizer.step()
"""


def test_run_watch_under_torchrun(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(PROGRAM)
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    launcher += ["--nproc-per-node", "2", "-m", "gradwalk", "run", "--watch", "train.py"]
    with processes(launcher, folder=tmp_path) as (job,):
        printed, _ = job.communicate(timeout=LIMIT)
    assert job.returncode == 1  # torchrun's; the ranks leave with 3
    assert printed.count("gradwalk: ") == 1, printed
    assert "The first bad rank is 1, before the" in printed and "exitcode  : 3" in printed
    folder = tmp_path / "gradwalk-report"
    names = {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}
    assert {"summary.txt", "summary.json"} <= names
    assert {f"rank-{rank}/report.{kind}" for rank in (0, 1) for kind in ("txt", "json")} <= names
    told = json.loads((folder / "summary.json").read_text())
    assert (told["rank"], told["step"], told["op"], told["side"]) == (1, 2, "log", BEFORE)
    assert told["line"]["text"].endswith("# HERE")


def told(**changes: Any) -> dict[str, Any]:
    blank = dict.fromkeys(("op", "module", "seen", "path", "side"), "")
    return {**blank, "kind": "NaN", "line": None, "row": None, "norm": 1.0, **changes}


def test_a_summary_claims_no_more_than_the_reports() -> None:
    after = told(side=AFTER)
    assert RanksSummary.of(3, 3, {0: after, 1: told(side=BEFORE), 2: after}).rank == 1
    both = RanksSummary.of(3, 2, {0: told(side=BEFORE), 1: told(side=BEFORE)})
    assert both.rank == 0 and "(rank 1 too)" in str(both)
    unknown = RanksSummary.of(3, 2, {0: told(), 1: told()})
    assert unknown.rank is None and "is not known" in str(unknown)
    left = RanksSummary.of(3, 2, {0: after, 1: told()})  # the only one that can have made it
    assert (left.rank, left.side) == (1, "")
    silent = RanksSummary.of(3, 3, {0: after, 1: after})  # the third may have made it
    assert (silent.rank, silent.side, silent.silent) == (None, "", [2])
    assert RanksSummary.of(3, 2, {0: after, 1: after}).side == AFTER
