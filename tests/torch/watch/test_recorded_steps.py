"""Steps recorded as they run, faults that do not show again, and questions after backward()."""

from __future__ import annotations

import math
import os
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import gradwalk
from gradwalk.engine.errors import AutogradError
from gradwalk.inspect.trace.array_statistics import norm_of
from gradwalk.testing import assert_healthy
from gradwalk.torch import StepStopped, watch
from gradwalk.torch.watch.active_watches import recorded_again
from gradwalk.torch.watch.step_report import StepReport
from tests.torch import training

BAD_STEP = 5


class Haunted(nn.Module):
    """Its fault hangs on something that no snapshot has: a file."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.first, self.second, self.third = nn.Linear(4, 8), nn.Linear(8, 8), nn.Linear(8, 1)
        self.file = folder / "sign"

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = self.first(x)
        if self.file.exists():
            self.file.unlink()
            h = h / torch.zeros(())  # HERE
        return self.third(self.second(h))  # type: ignore[no-any-return]


class InBackward(Haunted):
    """The same in the middle of backward."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = self.second(self.first(x))
        if self.file.exists():
            self.file.unlink()
            h.register_hook(lambda gradient: gradient * math.nan)  # type: ignore[no-untyped-call]
        return self.third(h)  # type: ignore[no-any-return]


def stopped(model: Haunted, **settings: Any) -> StepReport:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    folder = model.file.parent
    with watch(model, optimizer, folder=folder, **settings), pytest.raises(StepStopped) as found:
        for step in range(BAD_STEP + 2):
            if step == BAD_STEP:
                model.file.touch()
            optimizer.zero_grad()
            output = model(torch.randn(6, 4))
            loss = output.square().mean()
            loss.backward()
            optimizer.step()
    return found.value.report


def test_a_fault_that_does_not_show_again_is_not_blamed_on_anything(tmp_path: Path) -> None:
    report = stopped(Haunted(tmp_path))
    assert (report.step, report.rerun, report.op, report.found) == (BAD_STEP, "", "", None)
    text = " ".join(str(report).split())
    assert "the loss is NaN" in text and "did not occur again" in text
    assert "the model's output was already not finite" in text
    assert "the gradients of all parameters are not finite" in text
    assert f"record_from={BAD_STEP}" in text and f"--record-from {BAD_STEP}" in text
    assert "between its output and the loss" not in text
    assert f"{report.path} (of the re-run, without the fault)" in text


def test_what_is_known_of_a_fault_in_backward_that_does_not_show_again(tmp_path: Path) -> None:
    report = stopped(InBackward(tmp_path))
    text = " ".join(str(report).split())
    assert report.rerun == ""
    assert "the model's output was finite" in text
    assert "from first.weight to second.bias are not finite, 4 of 6" in text


@pytest.mark.parametrize("first", [0, BAD_STEP])
def test_recorded_as_it_runs_it_is_named(first: int, tmp_path: Path) -> None:
    report = stopped(Haunted(tmp_path), record_from=first)
    assert (report.step, report.rerun, report.op) == (BAD_STEP, "recorded", "div")
    assert report.line is not None and report.line.text.endswith("# HERE")
    assert "recorded as it ran" in report.rerun_told
    assert os.path.exists(report.path)


def test_steps_that_are_recorded_are_the_same_bit_for_bit(tmp_path: Path) -> None:
    handles = []

    def watching(model: Any, optimizer: Any) -> None:
        handles.append(watch(model, optimizer, folder=tmp_path, record_from=2))

    alone = training.in_a_function(False, lambda model, optimizer: None)
    watched = training.in_a_function(False, watching)
    handles[0].remove()
    assert alone.losses == watched.losses
    assert all(map(torch.equal, alone.weights, watched.weights))
    assert handles[0].reports == []


def test_an_output_that_the_loss_is_computed_from_gets_its_gradient_once(tmp_path: Path) -> None:
    """A model that returns its loss and what it came from, as those of transformers do."""

    class Both(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.line = nn.Linear(4, 1)

        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            output = self.line(x)
            return output.square().mean(), output

    model = Both()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
    body = "model(x)[0].backward(); optimizer.step(); optimizer.zero_grad()"
    step = compile(body, "<nowhere>", "exec")
    with watch(model, optimizer, folder=tmp_path, floor=1e-3), pytest.raises(StepStopped) as found:
        for scale in (*[1.0] * 12, 1e4):
            exec(step, {**locals(), "x": torch.ones(3, 4) * scale})
    report, trace = found.value.report, found.value.trace
    assert (report.kind, report.rerun) == ("explosion", "model") and trace is not None
    length = math.hypot(*(norm_of(trace.sweep.grad(index)) for index in trace.names))
    assert length == pytest.approx(report.gradient_norm)


# -- questions after backward() --------------------------------------------------------------------


def test_the_questions_of_a_watched_loop_are_answered_after_backward(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = training.network()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    calls: list[int] = []
    model[0].register_forward_hook(lambda *_: calls.append(1))
    with watch(model, optimizer, folder=tmp_path):
        for step in range(3):
            x, y = torch.randn(16, 4), torch.randn(16, 1)
            optimizer.zero_grad()
            loss = nn.functional.mse_loss(model(x), y)
            loss.backward()
            if step == 2:
                before = [p.grad for p in model.parameters()]
                copies = [g.clone() for g in before if g is not None]
                buffers = [b.clone() for b in model.buffers()]
                state = torch.get_rng_state()
                assert "neither None nor zero" in str(gradwalk.why_no_grad(model[0].weight, loss))
                told = gradwalk.why(model[4].weight, loss)
                (share,) = told.edges
                assert share.norm == pytest.approx(float(model[4].weight.grad.norm()))
                report = gradwalk.health(model, loss)
                assert report.metrics()["findings"] == 0.0
                assert all(p.grad is g for p, g in zip(model.parameters(), before))
                assert all(map(torch.equal, copies, [p.grad for p in model.parameters()]))
                assert all(map(torch.equal, buffers, model.buffers()))
                assert torch.equal(state, torch.get_rng_state())
                assert len(calls) == 3
                assert recorded_again(loss) is recorded_again(loss)
                assert_healthy(model, nn.functional.mse_loss, (x, y))
                assert recorded_again(loss) is not None  # that was no step of the program
            optimizer.step()
        assert recorded_again(loss.clone()) is None


def test_after_the_step_the_loss_would_be_another(tmp_path: Path) -> None:
    model = nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with watch(model, optimizer, folder=tmp_path):
        loss = model(torch.ones(2, 4)).square().mean()
        loss.backward()
        optimizer.step()
        with pytest.raises(AutogradError, match=r"between backward\(\) and step\(\)"):
            gradwalk.why(model.weight, loss)
