"""What a watch says about the training loop: rates, left-over gradients, PyTorch's own errors."""

import tempfile
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

from gradwalk.cli import app
from gradwalk.inspect.doctor.rates import RateHistory
from gradwalk.torch import StepStopped, watch
from tests.inspect.doctor.programs import HEALTHY, SICK, program
from tests.torch.doctor.test_torch_doctor import CARRIED, KEPT, LOOP, OVERWRITTEN, SGD

pytestmark = pytest.mark.filterwarnings("ignore")


def run_watched(source: str, tmp_path: Path) -> tuple[int, str]:
    folder = Path(tempfile.mkdtemp(dir=tmp_path))  # the text of a file is read once
    program(source, folder, True)
    out, script = str(folder / "report"), str(folder / "train.py")
    result = CliRunner().invoke(app, ["run", "--watch", "--out", out, script])
    return result.exit_code, " ".join(result.stderr.split())


def test_run_names_what_is_surely_wrong_with_the_loop(tmp_path: Path) -> None:
    status, said = run_watched(SICK["no zero_grad"].source, tmp_path)
    assert status == 3
    assert "nothing clears the gradients of SGD between two steps: in 29 of 29 steps" in said
    assert "loss.backward()" in said
    status, said = run_watched(SICK["a replaced layer"].source, tmp_path)
    assert status == 3
    assert "2.weight, 2.bias get a gradient and are in no optimizer" in said
    status, said = run_watched(SICK["zero_grad before step"].source, tmp_path)
    assert status == 3
    assert "SGD.step() finds no gradient: it is cleared after backward" in said
    for name in ("a rate of 0", "a schedule that dies"):
        status, said = run_watched(SICK[name].source, tmp_path)
        assert status == 3
        assert "the learning rate of SGD is too small to move anything in" in said


def test_run_is_silent_about_healthy_loops(tmp_path: Path) -> None:
    names = (
        "plain",
        "a cosine",
        "a warm-up",
        "accumulating",
        "two optimizers",
        "a head that is trained alone",
        "a closure",
    )
    told = {name: run_watched(HEALTHY[name], tmp_path) for name in names}
    assert told == dict.fromkeys(names, (0, ""))


def test_run_explains_the_errors_of_pytorch(tmp_path: Path) -> None:
    status, said = run_watched(CARRIED.format("h"), tmp_path)
    assert status == 1
    assert "of shape (1, 16, 8), kept in h, is carried over from an earlier step" in said
    assert "it was made at train.py" in said
    status, said = run_watched(KEPT + SGD + LOOP, tmp_path)
    assert "kept in model.state" in said and "self.state = self.cell(x, self.state)" in said
    status, said = run_watched(SGD + OVERWRITTEN, tmp_path)
    assert (status, "overwrote it before backward ran" in said) == (1, True)


def test_a_report_has_the_learning_rates(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, gamma=3.0)
    x, y = torch.randn(16, 4), torch.randn(16, 1)
    with pytest.raises(StepStopped) as stopped, watch(model, optimizer, folder=tmp_path):
        for _ in range(300):
            optimizer.zero_grad()
            (model(x) - y).square().mean().backward()
            optimizer.step()
            schedule.step()
    report = stopped.value.report
    assert report.rates.startswith("0.1 at step 0")
    assert "the learning rate has grown from 0.1 to" in " ".join(report.notes)
    assert "rate:" in str(report)


def test_eps_is_judged_in_the_dtype_of_the_parameter(tmp_path: Path) -> None:
    model = torch.nn.Linear(8, 1).half()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    x = torch.ones(4, 8).half()
    x[:, 0] = 0
    with pytest.raises(StepStopped) as stopped, watch(model, optimizer, folder=tmp_path):
        for _ in range(3):
            optimizer.zero_grad()
            model(x).square().mean().backward()
            optimizer.step()
    assert "eps is 0 in float16" in stopped.value.report.seen


def test_the_history_of_rates() -> None:
    rates = RateHistory()
    assert str(rates) == ""
    for step in range(60):
        rates.note(step, 0.1 if step < 30 else 0.01)
    assert str(rates) == "0.1 from step 0, 0.01 from step 30"
    assert rates.grown == ""
    for step in range(60, 5000):
        rates.note(step, 0.01 + step / 1000)
    assert str(rates).startswith("0.1 at step 0") and "between 0.01 and 5.009" in str(rates)
    assert len(rates.changes) <= 512
    assert rates.grown == "from 0.1 to 5.009"
