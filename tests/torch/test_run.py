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
from gradwalk.inspect.files import load_trace

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
    assert result.exit_code == 3 and "update of step 0 made it" in result.stderr
    assert (tmp_path / "out" / "report.json").exists()


def test_a_program_that_fails_fails_as_it_would_alone(tmp_path: Path) -> None:
    script = tmp_path / "fails.py"
    script.write_text("import sys\n\ndef f():\n    raise KeyError('lost')\n\nf()\n")
    result = invoke("--watch", script)
    assert result.exit_code == 1
    shown = result.stderr
    assert "KeyError: 'lost'" in shown and "fails.py" in shown
    assert "gradwalk" not in shown and "runpy" not in shown
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
