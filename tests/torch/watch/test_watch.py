"""watch: each sick loop is stopped before its step and named; each healthy twin is left alone."""

from __future__ import annotations

import json
import math
import random
import runpy
import warnings
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

import gradwalk
from gradwalk.inspect.trace.file import load_trace
from gradwalk.torch import StepStopped, watch
from gradwalk.torch.watch.step_report import StepReport, StepWarning
from tests.torch import training
from tests.torch.training import BAD_ROW, BAD_STEP, STEPS, Trained

LOOPS: dict[str, Callable[[bool, Any], Trained]] = {
    loop.__name__: loop
    for loop in (
        training.in_a_function,
        training.in_a_method,
        training.with_a_helper,
        training.mixed_precision,
        training.scaled,
        training.accumulated,
        training.adversarial,
        training.log_of_zero,
        training.root_at_zero,
        training.exploding,
        training.bad_update,
        training.with_closure,
    )
}


class Watching:
    """Watches what a loop hands over, and takes it off at the end of the test."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.handles: list[Any] = []
        self.options: dict[str, Any] = {}

    def __call__(self, model: Any, optimizer: Any) -> None:
        self.handles.append(watch(model, optimizer, folder=self.folder, **self.options))

    def stop(self, loop: Callable[[bool, Any], Trained], **options: Any) -> StepReport:
        self.options = options
        with pytest.raises(StepStopped) as stopped:
            loop(True, self)
        assert str(stopped.value) == str(stopped.value.report)
        assert stopped.value.path == stopped.value.report.path
        return stopped.value.report


@pytest.fixture
def watching(tmp_path: Path) -> Iterator[Watching]:
    found = Watching(tmp_path)
    yield found
    for handle in found.handles:
        handle.remove()


def not_watched(model: Any, optimizer: Any) -> None:
    pass


@pytest.mark.parametrize("name", LOOPS)
def test_a_healthy_loop_is_quiet_and_its_results_are_the_same_bit_for_bit(
    name: str, watching: Watching
) -> None:
    alone = LOOPS[name](False, not_watched)
    watched = LOOPS[name](False, watching)
    assert alone.losses == watched.losses
    assert all(map(torch.equal, alone.weights, watched.weights))
    assert watching.handles[0].reports == []
    assert watching.handles[0].steps >= 11
    assert watching.handles[0].overhead > 0


@pytest.mark.parametrize("name", ["in_a_function", "in_a_method", "with_a_helper"])
def test_a_nan_in_the_data_is_named_with_its_row_wherever_the_loop_stands(
    name: str, watching: Watching
) -> None:
    report = watching.stop(LOOPS[name])
    assert (report.kind, report.step, report.row) == ("NaN", BAD_STEP, BAD_ROW)
    assert report.found is not None and report.found.kind == "data"
    assert report.line is not None and report.line.text.endswith("# HERE")
    assert report.module == "0"
    assert report.rerun == "statements" and "bit for bit" in report.rerun_told
    assert report.notes == []
    assert "nan_to_num" in report.fix


def test_mixed_precision_without_a_scaler(watching: Watching) -> None:
    report = watching.stop(training.mixed_precision)
    assert (report.step, report.row, report.rerun) == (BAD_STEP, BAD_ROW, "statements")
    assert "bit for bit" in report.rerun_told


def test_a_scaler_that_skips_for_ever_is_a_fault(watching: Watching) -> None:
    report = watching.stop(training.scaled)
    assert report.row == BAD_ROW and report.line is not None
    assert report.line.text.endswith("# HERE")
    assert "10 times" in report.seen and "GradScaler" in report.seen


def test_of_accumulated_gradients_the_first_bad_pass_is_named(watching: Watching) -> None:
    report = watching.stop(training.accumulated)
    assert (report.step, report.row) == (9, BAD_ROW)
    assert "backward pass 2 of 4" in report.seen
    assert report.line is not None and report.line.text.endswith("# HERE")
    assert report.rerun == "statements" and "bit for bit" in report.rerun_told


def test_a_gan_whose_generator_has_a_sick_loss(watching: Watching) -> None:
    """Between the generator's call and its backward the critic steps: it does not, run again."""
    report = watching.stop(training.adversarial)
    assert (report.step, report.op) == (BAD_STEP, "log")
    assert report.line is not None and report.line.text.endswith("# HERE")
    assert report.gradients[0] == "generator.0.weight"
    assert report.rerun == "statements" and "bit for bit" in report.rerun_told
    assert report.rows == list(range(16))


def test_a_log_of_zero_in_the_loss_outside_of_the_model(watching: Watching) -> None:
    report = watching.stop(training.log_of_zero)
    assert (report.step, report.op, report.row, report.module) == (BAD_STEP, "log", BAD_ROW, "")
    assert report.line is not None and report.line.text.endswith("# HERE")
    assert "clamp" in report.fix


def test_a_gradient_that_is_infinite_while_the_loss_is_not(watching: Watching) -> None:
    report = watching.stop(training.root_at_zero)
    assert (report.op, report.row, report.module) == ("sqrt", BAD_ROW, "Distance")
    assert report.found is not None and report.found.direction == "backward"
    assert report.line is not None and report.line.text.endswith("# HERE")
    assert report.loss is not None and math.isfinite(report.loss)


def test_an_explosion(watching: Watching) -> None:
    report = watching.stop(training.exploding)
    assert (report.kind, report.step, report.row) == ("explosion", BAD_STEP, BAD_ROW)
    assert report.gradient_norm is not None and report.usual_norm is not None
    assert report.gradient_norm > 1e3 * report.usual_norm
    assert report.rerun == "statements"


def test_an_update_that_would_write_nan(watching: Watching) -> None:
    report = watching.stop(training.bad_update)
    assert (report.kind, report.step, report.mechanism) == ("spike", BAD_STEP - 1, "rate")
    assert "from 0.01 to inf" in report.why


def test_an_update_that_makes_nan_of_finite_gradients(watching: Watching) -> None:
    report = watching.stop(training.bad_update, explosion=math.inf)
    assert (report.kind, report.step) == ("update", BAD_STEP)
    assert f"the update of step {BAD_STEP - 1} wrote it" in report.seen
    assert "lr=inf" in report.seen
    assert report.found is not None and report.found.kind == "weights"


def test_a_closure_is_looked_at_as_it_runs(watching: Watching) -> None:
    report = watching.stop(training.with_closure)
    assert (report.step, report.row) == (BAD_STEP, BAD_ROW)
    assert report.rerun == "statements" and "bit for bit" in report.rerun_told


SCRIPT = """
import sys
import torch
from gradwalk.torch import watch

torch.manual_seed(0)
inputs, targets = torch.randn(44, 16, 4), torch.randn(44, 16, 1)
if PLANTED:
    inputs[40, 5] = float("nan")
model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Dropout(0.3), torch.nn.Linear(8, 1))
optimizer = torch.optim.Adam(model.parameters())
history = []
with watch(model, optimizer, folder=FOLDER):
    for x, y in zip(inputs, targets):
        optimizer.zero_grad()
        prediction = model(x)  # HERE
        loss = sum((prediction[i] - y[i]).square().sum() for i in range(len(x)))
        history.append(loss)
        print("loss", loss.item())
        history[-1].backward()
        optimizer.step()
"""


@pytest.mark.parametrize("planted", [False, True])
def test_a_loop_at_the_top_of_a_script(
    planted: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    script = tmp_path / "train.py"
    script.write_text(SCRIPT)
    names = {"PLANTED": planted, "FOLDER": tmp_path}
    if not planted:
        assert len(runpy.run_path(str(script), names)["history"]) == STEPS
        return
    with pytest.raises(StepStopped) as stopped:
        runpy.run_path(str(script), names)
    report = stopped.value.report
    assert (report.step, report.row) == (40, 5)
    assert report.line is not None and report.line.text == "prediction = model(x)  # HERE"
    assert report.rerun == "statements" and "bit for bit" in report.rerun_told
    assert capsys.readouterr().out.count("loss") == 41  # what is run again prints nothing


# -- what is left behind ---------------------------------------------------------------------------


def test_at_a_finding_everything_is_left_as_it_was(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = training.network()
    extra = torch.zeros(1, requires_grad=True)  # a leaf that belongs to nobody
    optimizer = torch.optim.Adam(model.parameters())
    x = torch.randn(16, 4)
    x[3] = math.inf
    before: dict[str, Any] = {}
    history: list[float] = []

    def look(*_: Any) -> None:
        before["gradients"] = [(p.grad, p.grad.clone()) for p in [*model.parameters(), extra]]  # type: ignore[union-attr]
        before["buffers"] = [b.clone() for b in model.buffers()]
        before["weights"] = [p.clone() for p in model.parameters()]
        before["random"] = (torch.get_rng_state(), np.random.get_state()[1].copy())

    optimizer.register_step_pre_hook(look)
    with watch(model, optimizer, folder=tmp_path), pytest.raises(StepStopped):
        model.train()
        output = model(x)
        history.append(0.0)
        loss = (output + extra + np.random.rand()).sum()
        loss.backward()
        model.eval()
        optimizer.step()
    assert not model.training
    assert history == [0.0]
    for (kept, copied), p in zip(before["gradients"], [*model.parameters(), extra]):
        assert p.grad is kept and torch.equal(kept.nan_to_num(7.0), copied.nan_to_num(7.0))
    for kept, b in zip(before["buffers"], model.buffers()):
        assert torch.equal(kept.nan_to_num(7.0), b.nan_to_num(7.0))
    assert all(map(torch.equal, before["weights"], model.parameters()))
    assert torch.equal(before["random"][0], torch.get_rng_state())
    assert (before["random"][1] == np.random.get_state()[1]).all()
    assert optimizer.state == {}


def test_the_trace_is_saved_and_nothing_is_overwritten(watching: Watching) -> None:
    first = watching.stop(training.log_of_zero)
    second = watching.stop(training.log_of_zero)
    assert Path(first.path).name == "gradwalk-step-40.trace"
    assert Path(second.path).name == "gradwalk-step-40-2.trace"
    assert gradwalk.find_nan(load_trace(first.path)).op == "log"


def test_a_folder_that_cannot_be_written_does_not_hide_the_finding(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    watching = Watching(tmp_path / "file")
    report = watching.stop(training.log_of_zero)
    watching.handles[0].remove()
    assert report.op == "log" and report.path == ""
    assert any("could not be saved" in note for note in report.notes)


def test_after_remove_nothing_is_left_on_the_program(tmp_path: Path) -> None:
    model = nn.Linear(2, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    engine = torch.autograd._engine_run_backward  # type: ignore[attr-defined]
    with watch(model, optimizer, folder=tmp_path):
        assert torch.autograd._engine_run_backward is not engine  # type: ignore[attr-defined]
    assert torch.autograd._engine_run_backward is engine  # type: ignore[attr-defined]
    assert not model._forward_pre_hooks and not model._forward_hooks
    assert not optimizer._optimizer_step_pre_hooks
    model(torch.full((1, 2), math.nan)).sum().backward()
    optimizer.step()


def test_a_watched_program_lets_go_of_what_it_lets_go_of(tmp_path: Path) -> None:
    """Outputs of the last step, and batches, also of one that keeps its losses."""
    model = nn.Sequential(nn.Linear(4, 8), nn.Linear(8, 8))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    outputs: list[weakref.ref[torch.Tensor]] = []
    given: list[weakref.ref[torch.Tensor]] = []
    losses = []

    def alive(references: list[weakref.ref[torch.Tensor]]) -> int:
        return sum(reference() is not None for reference in references)

    with watch(model, optimizer, folder=tmp_path):
        for step in range(4):
            x = torch.ones(2, 4)
            output = model(x)
            if step > 1:  # the first step does not know yet what it takes
                assert alive(outputs) == 0
            outputs.append(weakref.ref(output))
            given.append(weakref.ref(x))
            loss = output.sum()
            losses.append(loss)
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            assert alive(given) == 1


# -- when statements cannot be run again -----------------------------------------------------------


def test_without_source_the_model_alone_is_run_again(watching: Watching) -> None:
    def loop(planted: bool, watching: Any) -> Trained:
        inputs, targets = training.batches(planted)
        model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
        watching(model, optimizer)
        body = "optimizer.zero_grad(); (model(x) - y).square().mean().backward(); optimizer.step()"
        step = compile(body, "<nowhere>", "exec")
        for x, y in zip(inputs, targets):
            exec(step, {"optimizer": optimizer, "model": model, "x": x, "y": y})
        return Trained()

    report = watching.stop(loop)
    assert (report.rerun, report.row, report.op) == ("model", BAD_ROW, "addmm")
    assert any("no source" in note for note in report.notes)


def test_a_fault_outside_of_the_model_without_source_is_said_to_be_outside(
    tmp_path: Path,
) -> None:
    model = nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    body = "(model(x) * 0).sqrt().sum().backward(); optimizer.step()"
    with watch(model, optimizer, folder=tmp_path), pytest.raises(StepStopped) as stopped:
        exec(compile(body, "<nowhere>", "exec"), {**locals(), "x": torch.ones(3, 4)})
    report = stopped.value.report
    assert report.rerun == "model"
    assert report.found is not None and "outside the model" in report.found.reason


def test_a_batch_that_was_written_to_is_told(tmp_path: Path) -> None:
    model = nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    x = torch.ones(3, 4)
    x[1] = math.nan
    with watch(model, optimizer, folder=tmp_path), pytest.raises(StepStopped) as stopped:
        loss = model(x).sum()
        loss.backward()
        x.zero_()
        optimizer.step()
    report = stopped.value.report
    assert report.rerun == "" and "did not occur again" in report.rerun_told
    assert any("written to in place" in note for note in report.notes)
    assert any("did not occur again" in note for note in report.notes)


def test_what_is_not_deterministic_is_told(tmp_path: Path) -> None:
    model = nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    drawn = random.SystemRandom()
    with watch(model, optimizer, folder=tmp_path), pytest.raises(StepStopped) as stopped:
        loss = model(torch.ones(3, 4)).mean() * 0 + drawn.random()
        loss = loss + (model.weight * 0).sqrt().sum()
        loss.backward()
        optimizer.step()
    report = stopped.value.report
    assert (report.op, report.rerun) == ("sqrt", "statements")
    assert any("not deterministic" in note for note in report.notes)


def test_no_module_was_called(tmp_path: Path) -> None:
    model = nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    with watch(model, optimizer, folder=tmp_path), pytest.raises(StepStopped) as stopped:
        loss = (torch.ones(3, 4) @ model.weight.T * 0).log().sum()
        loss.backward()
        optimizer.step()
    report = stopped.value.report
    assert (report.rerun, report.path) == ("", "")
    assert any("no module was called" in note for note in report.notes)
    assert report.gradients == ["weight"]


def test_modules_that_are_called_in_place_of_the_model_are_found_out(tmp_path: Path) -> None:
    model = nn.ModuleDict({"encoder": nn.Linear(4, 8), "head": nn.Linear(8, 1)})
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    inputs, targets = training.batches(True)
    with watch(model, optimizer, folder=tmp_path) as watched, pytest.raises(StepStopped) as stopped:
        for x, y in zip(inputs, targets):
            optimizer.zero_grad()
            hidden = model["encoder"](x)
            loss = (model["head"](hidden.relu()) - y).square().mean()
            loss.backward()
            optimizer.step()
    assert (stopped.value.report.rerun, stopped.value.report.row) == ("statements", BAD_ROW)
    assert len(watched.models) == 3


# -- programs of other shapes ----------------------------------------------------------------------


def test_two_optimizers_step_with_one_backward(tmp_path: Path) -> None:
    """The head's gradients are fine; only what lies behind the root is infinite."""
    encoder, head = nn.Linear(4, 8, bias=False), nn.Linear(8, 1)
    optimizers = [torch.optim.SGD(m.parameters(), lr=0.1) for m in (head, encoder)]
    with (
        watch([encoder, head], optimizers, folder=tmp_path),
        pytest.raises(StepStopped) as stopped,
    ):
        for scale in (1.0, 1.0, 0.0):
            hidden = encoder(torch.ones(2, 4) * scale).abs()
            loss = head(hidden.sqrt()).sum()
            for optimizer in optimizers:
                optimizer.zero_grad()
            loss.backward()
            for optimizer in optimizers:
                optimizer.step()
    report = stopped.value.report
    assert (report.step, report.op, report.gradients) == (2, "sqrt", ["encoder.weight"])
    assert any("something changed afterwards" in n for n in report.notes)  # the head has stepped


def test_a_program_that_minds_its_own_nan_is_left_alone(tmp_path: Path) -> None:
    model = nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    with watch(model, optimizer, folder=tmp_path) as watched:
        for step in range(30):
            x = torch.full((2, 4), math.nan if step % 3 == 0 else 1.0)
            loss = model(x).square().mean()
            optimizer.zero_grad(set_to_none=step % 2 == 0)
            loss.backward()
            if not loss.isfinite():
                continue
            optimizer.step()
    assert watched.steps == 20 and watched.reports == []


def test_a_batch_that_gradients_are_asked_for_is_data(tmp_path: Path) -> None:
    model = nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    x = torch.ones(3, 4)
    x[2] = math.nan
    x.requires_grad_()
    with watch(model, optimizer, folder=tmp_path), pytest.raises(StepStopped) as stopped:
        loss = model(x).sum()
        loss.backward()
        optimizer.step()
    report = stopped.value.report
    assert report.found is not None and report.found.kind == "data" and report.row == 2


class Answer:
    """What a model of the program's own may return."""

    def __init__(self, score: torch.Tensor) -> None:
        self.score = score


class Scorer(nn.Module):
    """Computes a part of itself again in backward."""

    def __init__(self, use_reentrant: bool) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(4, 8), nn.Linear(8, 1)
        self.use_reentrant = use_reentrant

    def forward(self, x: torch.Tensor) -> Answer:
        x = x + 0 * self.second.bias
        hidden = checkpoint(self.first, x, use_reentrant=self.use_reentrant)
        return Answer((self.second(hidden) * x.sum(1, keepdim=True)).log())  # HERE


@pytest.mark.parametrize("use_reentrant", [True, False])
def test_checkpoints_and_objects_that_a_model_returns(tmp_path: Path, use_reentrant: bool) -> None:
    model = Scorer(use_reentrant)
    nn.init.constant_(model.second.bias, 100.0)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-6)
    with watch(model, optimizer, folder=tmp_path), pytest.raises(StepStopped) as stopped:
        for step in range(4):
            x = torch.ones(6, 4)
            if step == 2:
                x[3] = 0
            optimizer.zero_grad()
            loss = model(x).score.mean()
            loss.backward()
            optimizer.step()
    report = stopped.value.report
    assert (report.step, report.op, report.row) == (2, "log", 3)
    assert report.line is not None and report.line.text.endswith("# HERE")
    assert report.rerun == "statements"


def test_a_recurrence_that_explodes_is_named_by_its_chain(tmp_path: Path) -> None:
    cell, head = nn.Linear(8, 8, bias=False), nn.Linear(8, 1)
    nn.init.orthogonal_(cell.weight, gain=1.6)
    optimizer = torch.optim.SGD([*cell.parameters(), *head.parameters()], lr=1e-9)
    with watch([cell, head], optimizer, folder=tmp_path), pytest.raises(StepStopped) as stopped:
        for step in range(13):
            h = torch.ones(16, 8)
            optimizer.zero_grad()
            for _ in range(40 if step == 12 else 3):
                h = cell(h)  # HERE
            loss = head(h).square().mean()
            loss.backward()
            optimizer.step()
    report = stopped.value.report
    assert (report.kind, report.step) == ("explosion", 12)
    assert report.finding is not None and report.finding.kind == "exploding"
    assert report.line is not None and report.line.text.endswith("# HERE")
    assert "clip_grad_norm_" in report.fix


def test_weights_that_run_away_ask_for_a_smaller_learning_rate(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 64), nn.ReLU(), nn.Linear(64, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=5.0)
    x, y = torch.randn(32, 8), torch.randn(32, 1)
    with watch(model, optimizer, folder=tmp_path), pytest.raises(StepStopped) as stopped:
        for _ in range(50):
            optimizer.zero_grad()
            loss = nn.functional.mse_loss(model(x), y)
            loss.backward()
            optimizer.step()
    report = stopped.value.report
    assert report.growth > 100 and any("too large" in note for note in report.notes)
    assert "smaller learning rate" in report.fix


# -- other ways it is used -------------------------------------------------------------------------


def test_warn_lets_training_go_on_and_says_it_once(tmp_path: Path) -> None:
    model = nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    handle = watch(model, optimizer, folder=tmp_path, action="warn")
    with pytest.warns(StepWarning, match="stopped before step 0") as caught:
        for _ in range(3):
            model(torch.full((2, 4), math.nan)).sum().backward()
            optimizer.step()
    assert len([w for w in caught if w.category is StepWarning]) == 1
    assert len(handle.reports) == 1 and handle.steps == 3
    handle.remove()
    assert model.weight.isnan().all()


def test_an_update_in_the_last_step_is_found_at_the_end(tmp_path: Path) -> None:
    model = nn.Linear(4, 1)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1, eps=0.0)
    with (
        pytest.raises(StepStopped, match="the update of step 0 wrote it") as stopped,
        watch(model, optimizer, folder=tmp_path),
    ):
        (model(torch.ones(2, 4)) * 0).sum().backward()  # 0 / (sqrt(0) + 0)
        optimizer.step()
    assert "with eps=0 it divides by them" in stopped.value.report.seen


def test_sparse_gradients_and_float16(tmp_path: Path) -> None:
    embedding = nn.Embedding(10, 3, sparse=True)
    optimizer = torch.optim.SGD(embedding.parameters(), lr=0.1)
    with watch(embedding, optimizer, folder=tmp_path) as watched:
        embedding(torch.tensor([1, 1, 2])).sum().backward()
        optimizer.step()
    assert watched.steps == 1
    half = nn.Linear(4, 1).half()
    for parameter in half.parameters():
        nn.init.zeros_(parameter)  # random weights may give a loss beyond float16
    optimizer = torch.optim.SGD(half.parameters(), lr=1e-6)
    with watch(half, optimizer, folder=tmp_path) as watched:
        (half(torch.ones(2, 4).half()).sum() * 3e4).backward()  # longer than float16 can say
        optimizer.step()
    assert watched.steps == 1


def test_a_gradient_too_long_for_float32_is_no_infinity(tmp_path: Path) -> None:
    model = nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-30)
    with watch(model, optimizer, folder=tmp_path, explosion=math.inf) as watched:
        (model(torch.ones(2, 4)) * 1e25).sum().backward()
        optimizer.step()
    assert watched.steps == 1


def test_a_recording_of_the_program_does_not_show_the_check(tmp_path: Path) -> None:
    model = nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def step() -> list[str]:
        with gradwalk.torch.record() as trace:
            optimizer.zero_grad()
            model(torch.ones(2, 4)).sum().backward()
            optimizer.step()
        return [node.op for node in trace]

    alone = step()
    with watch(model, optimizer, folder=tmp_path):
        assert step() == alone


def test_what_is_given_wrongly_is_refused() -> None:
    model = nn.Linear(2, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with pytest.raises(TypeError, match=r"torch\.nn\.Module.*not int"):
        watch([3], optimizer)  # type: ignore[list-item]
    with pytest.raises(ValueError, match="'raise', 'warn'"):
        watch(model, optimizer, action="print")
    with pytest.raises(ValueError, match="factor above 1"):
        watch(model, optimizer, explosion=1.0)


def test_a_report_as_json(watching: Watching, tmp_path: Path) -> None:
    report = watching.stop(training.in_a_function)
    report.save_text(tmp_path)
    read = json.loads((tmp_path / "report.json").read_text())
    assert (read["step"], read["row"], read["loss"]) == (BAD_STEP, BAD_ROW, "nan")
    assert (tmp_path / "report.txt").read_text().startswith("stopped before step 40")


def test_a_compiled_model_is_watched_from_outside(tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch.compile's own
        model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
        compiled = torch.compile(model, backend="eager")
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
        inputs, targets = training.batches(True)
        with watch(compiled, optimizer, folder=tmp_path), pytest.raises(StepStopped) as stopped:
            for x, y in zip(inputs, targets):
                optimizer.zero_grad()
                loss = (compiled(x) - y).square().mean()
                loss.backward()
                optimizer.step()
    assert (stopped.value.report.step, stopped.value.report.row) == (BAD_STEP, BAD_ROW)
