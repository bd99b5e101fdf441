"""`gradwalk run`: a program as it is; with --watch status 3, a trace and a report on a finding."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from gradwalk.cli import app
from gradwalk.inspect.trace.file import load_trace

SETTINGS = "RATE = 0.01\n"
TRAIN = """
import argparse, sys
import torch
from settings import RATE

parser = argparse.ArgumentParser()
parser.add_argument("--lr", type=float, default=RATE)
parser.add_argument("--plant", type=int, default=-1)
parser.add_argument("--status", type=int)
parser.add_argument("--watch", action="store_true")
arguments = parser.parse_args()


class Classifier(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = torch.nn.Linear(4, 8)
        self.head = torch.nn.Linear(8, 3)

    def forward(self, x):
        hidden = self.encoder(x).sigmoid()
        return self.head(hidden.log())  # HERE


def main():
    torch.manual_seed(0)
    model = Classifier()
    optimizer = torch.optim.SGD(model.parameters(), lr=arguments.lr)
    for step in range(12):
        x, labels = torch.randn(16, 4), torch.randint(0, 3, (16,))
        if step == arguments.plant:
            x[5] = 1e4
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(x), labels)
        loss.backward()
        optimizer.step()
    print("trained", arguments.lr, arguments.watch, sys.argv[0])
    return arguments.status


if __name__ == "__main__":
    sys.exit(main())
"""


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "settings.py").write_text(SETTINGS)
    (folder / "train.py").write_text(TRAIN)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(sys.modules, "settings", raising=False)
    return folder / "train.py"


def invoke(*arguments: Any) -> Any:
    before = list(sys.path), list(sys.argv)
    result = CliRunner().invoke(app, ["run", *map(str, arguments)])
    assert (sys.path, sys.argv) == before
    sys.modules.pop("settings", None)
    return result


def test_a_finding_leaves_a_trace_and_a_report_and_status_3(program: Path, tmp_path: Path) -> None:
    result = invoke("--watch", program, "--plant", "6", "--lr", "3e-4")
    assert result.exit_code == 3
    assert "trained" not in result.stdout
    folder = tmp_path / "gradwalk-report"
    assert f"report:    {folder}" in result.stderr
    names = sorted(path.name for path in folder.iterdir())
    assert names == ["gradwalk-step-6.trace", "report.json", "report.txt"]
    report = json.loads((folder / "report.json").read_text())
    assert (report["step"], report["op"], report["row"]) == (6, "log", 5)
    assert report["line"]["text"] == "return self.head(hidden.log())  # HERE"
    assert report["rerun"] == "statements"
    assert (folder / "report.txt").read_text() in result.stderr.replace("gradwalk: ", "")
    assert load_trace(folder / "gradwalk-step-6.trace").sweeps
    assert invoke("--watch", program, "--plant", "3").exit_code == 3
    assert (tmp_path / "gradwalk-report-2" / "gradwalk-step-3.trace").exists()


def test_a_healthy_program_is_left_alone(program: Path, tmp_path: Path) -> None:
    result = invoke("--watch", program, "--lr", "3e-4", "--watch")
    assert result.exit_code == 0
    assert result.stdout == f"trained 0.0003 True {program}\n"
    assert [path.name for path in tmp_path.iterdir()] == ["project"]


def test_the_status_is_the_programs_own(program: Path) -> None:
    assert invoke("--watch", program, "--status", "7").exit_code == 7
    assert invoke(program, "--status", "7").exit_code == 7
    assert invoke(program, "--plant", "6").exit_code == 0  # nobody watches
    assert invoke("--watch", program, "--nonsense").exit_code == 2  # argparse's


def test_where_the_report_goes(program: Path, tmp_path: Path) -> None:
    out = tmp_path / "some" / "where"
    assert invoke("--watch", "--out", out, program, "--plant", "2").exit_code == 3
    assert (out / "report.txt").exists()
    refused = invoke("--out", out, program)
    assert refused.exit_code == 2 and "add --watch" in refused.stderr


def test_an_update_of_the_last_step_is_found_at_the_end(tmp_path: Path) -> None:
    script = tmp_path / "last.py"
    script.write_text(
        "import torch\n"
        "model = torch.nn.Linear(2, 1)\n"
        "optimizer = torch.optim.SGD(model.parameters(), lr=float('inf'))\n"
        "model(torch.ones(1, 2)).sum().backward()\n"
        "optimizer.step()\n"
    )
    result = invoke("--watch", "--out", tmp_path / "out", script)
    assert result.exit_code == 3 and "update of step 0 wrote it" in result.stderr
    assert (tmp_path / "out" / "report.json").exists()


def test_a_program_that_fails_fails_as_it_would_alone(tmp_path: Path) -> None:
    script = tmp_path / "fails.py"
    script.write_text("import sys\n\ndef f():\n    raise KeyError('lost')\n\nf()\n")
    result = invoke("--watch", script)
    assert result.exit_code == 1
    shown = result.stderr
    assert "KeyError: 'lost'" in shown and "fails.py" in shown
    assert "/gradwalk/" not in shown and "runpy" not in shown
    script.write_text("import sys\nsys.exit('no data')\n")
    left = invoke(script)
    assert (left.exit_code, left.stderr) == (1, "no data\n")


def test_what_cannot_be_run_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    result = invoke("--watch", tmp_path / "nothing.py")
    assert result.exit_code == 2 and "there is no file" in result.stderr
    (tmp_path / "empty.py").write_text("")
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    result = invoke("--watch", tmp_path / "empty.py")
    assert result.exit_code == 2 and "gradwalk[torch]" in result.stderr


def test_from_the_command_line(program: Path) -> None:
    command = [sys.executable, "-m", "gradwalk", "run", "--watch", str(program), "--plant", "1"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 3
    assert "HERE" in done.stderr and "Traceback" not in done.stderr


def test_the_limits_are_options(program: Path) -> None:
    assert invoke("--watch", "--explosion", "1", program).exit_code == 2
    for option in ("--explosion", "--warmup", "--record-from"):
        refused = invoke(option, "3", program)
        assert refused.exit_code == 2 and "add --watch" in refused.stderr
    assert invoke("--watch", "--explosion", "inf", "--warmup", "0", program).exit_code == 0


@pytest.mark.parametrize(("factor", "status"), [("10", 3), ("1e6", 0)])
def test_what_an_explosion_is_can_be_said(factor: str, status: int, tmp_path: Path) -> None:
    script = tmp_path / "explodes.py"
    script.write_text(
        "import torch\n"
        "model = torch.nn.Linear(2, 1)\n"
        "optimizer = torch.optim.SGD(model.parameters(), lr=1e-6)\n"
        "for step in range(8):\n"
        "    optimizer.zero_grad()\n"
        "    model(torch.full((1, 2), 100.0 if step == 6 else 1.0)).sum().backward()\n"
        "    optimizer.step()\n"
    )
    limits = ("--explosion", factor, "--warmup", "3")
    assert invoke("--watch", *limits, "--out", tmp_path / "out", script).exit_code == status


def test_steps_are_recorded_as_they_run(program: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    command = ("--watch", "--record-from", "4", "--out", out, program, "--plant", "6")
    result = invoke(*command)
    assert result.exit_code == 3 and "recorded as it ran" in result.stderr
    assert "HERE" in result.stderr and (out / "gradwalk-step-6.trace").exists()


PROGRAMS = {
    "syntax": ("def f(:\n", 1, "SyntaxError"),
    "raises": ("raise KeyError('lost')\n", 1, "KeyError: 'lost'"),
    "leaves": ("import sys\nsys.exit(5)\n", 5, ""),
    "no Python": ("\0", 1, "null bytes"),
    "reads": ("import sys\nsys.exit(len(sys.stdin.read()))\n", 4, ""),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_statuses_are_those_of_python(name: str, tmp_path: Path) -> None:
    text, status, told = PROGRAMS[name]
    script = tmp_path / "program.py"
    script.write_text(text)
    result = CliRunner().invoke(app, ["run", "--watch", str(script)], input="four")
    assert result.exit_code == status and told in result.stderr


WORKERS = """
import sys
import torch
from torch.utils.data import DataLoader, Dataset

class Numbers(Dataset):
    def __len__(self):
        return 4

    def __getitem__(self, index):
        return torch.full((4,), float(index))

if __name__ == "__main__":
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.001)
    for x in DataLoader(Numbers(), 2, num_workers=1, multiprocessing_context=sys.argv[1]):
        optimizer.zero_grad()
        model(x).mean().backward()
        optimizer.step()
    print("trained")
"""


@pytest.mark.parametrize("context", ["fork", "spawn"])
def test_workers_of_a_loader(context: str, tmp_path: Path) -> None:
    script = tmp_path / "workers.py"
    script.write_text(WORKERS)
    command = [sys.executable, "-m", "gradwalk", "run", "--watch", str(script), context]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, "trained\n"), done.stderr


def test_the_help_fits_a_narrow_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    shown = invoke("--help").stdout
    for option in ("--watch", "--out", "--explosion", "--warmup", "--record-from"):
        assert option in shown
    assert max(map(len, shown.splitlines())) <= 80


OUT_OF_MEMORY = """
import torch
from torch import nn

def block():
    return nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 4), nn.Tanh())


model = nn.Sequential(block(), block(), block(), nn.Linear(4, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for rows in (4, 1 << 44):
    x = torch.ones(1, 4).expand(rows, 4)
    optimizer.zero_grad()
    model(x).mean().backward()
    optimizer.step()
"""


def test_an_out_of_memory_error_is_explained(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(OUT_OF_MEMORY, encoding="utf-8")
    done = CliRunner().invoke(
        app, ["run", "--watch", "--out", str(tmp_path / "out"), str(tmp_path / "train.py")]
    )
    assert done.exit_code == 3
    assert "gradwalk: out of memory, at train.py:14: model(x).mean().backward()" in done.output
    assert "torch.utils.checkpoint.checkpoint around" in done.output
    assert (tmp_path / "out" / "report.txt").is_file()
