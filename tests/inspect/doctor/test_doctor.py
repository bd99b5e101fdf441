"""The doctor on programs of gradwalk: what it finds, and that it is silent about healthy ones."""

from pathlib import Path

import pytest

import gradwalk as gw
from gradwalk.inspect.doctor.doctor import doctor, examined
from gradwalk.inspect.doctor.loss_curve import verdict
from tests.batches import batched
from tests.inspect.doctor.programs import HEALTHY, SICK, program


@batched("name", list(SICK))
def test_it_finds_the_fault(name: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    sick = SICK[name]
    found = examined(program(sick.source, tmp_path_factory.mktemp("doctor"), False), [False])
    assert found.engine == "gradwalk"
    first = found.findings[0]
    assert (first.kind, first.confidence != "possible") == (sick.kind, True), f"{name}: {found}"
    assert first.line is not None and first.line.text == sick.line, f"{name}: {found}"
    assert first.change and first.basis


@batched("name", list(HEALTHY))
def test_it_is_silent_about_healthy_programs(
    name: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    found = examined(program(HEALTHY[name], tmp_path_factory.mktemp("doctor"), False), [False])
    assert not found, f"{name}: {found}"
    assert str(found).startswith("doctor: nothing found")
    assert not found.not_checked
    assert found.ruled_out


def test_an_error_is_a_finding() -> None:
    model = gw.nn.Linear(3, 1)
    found = gw.doctor(model, lambda: model(gw.ones(2, 4)))
    assert found.findings[0].kind == "error"
    assert found.findings[0].line is not None
    assert found.findings[0].line.text == "found = gw.doctor(model, lambda: model(gw.ones(2, 4)))"


def test_a_second_backward_keeps_our_own_explanation() -> None:
    model, held = gw.nn.Linear(3, 3), [gw.ones(2, 3)]

    def step() -> None:
        held[0] = model(held[0]).tanh()
        held[0].mean().backward()

    found = gw.doctor(model, step)
    assert found.findings[0].kind == "error"
    assert "first backward at" in found.findings[0].message


def test_the_report_is_plain_data_and_has_at_most_three_findings() -> None:
    model = gw.nn.Sequential(*(gw.nn.Linear(4, 4) for _ in range(3)))
    optimizer = gw.optim.SGD(model.parameters(), lr=0.0)
    x = gw.randn(8, 4)

    def step() -> None:
        model[0](x).mean().backward()
        optimizer.step()

    found = gw.doctor(model, step, steps=5)
    assert found.findings[0].kind == "rate"
    assert len(found.findings) <= 3
    assert found.to_dict()["findings"][0]["confidence"] == "certain"
    assert all(len(line) <= 80 for line in str(found).splitlines())


@pytest.mark.parametrize(
    ("losses", "kind"),
    [
        ([1.0, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3], "falls"),
        ([1.0, 1.1, 0.9, 1.0, 1.05, 0.95, 1.02, 0.98], "stuck"),
        ([1.0, 1.5, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0], "rises"),
        ([1.0, 0.9, float("nan")], "NaN"),
        ([1.0, 0.2, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1], "falls"),
        ([1.0], "unknown"),
    ],
)
def test_how_the_loss_went(losses: list[float], kind: str) -> None:
    assert verdict(losses).kind == kind


def test_nothing_is_left_behind(tmp_path: Path) -> None:
    before = gw.nn.Module.__call__, gw.optim.Optimizer.__init__, gw.engine.gradients.backward
    examined(program(HEALTHY["plain"], tmp_path, False), [False])
    after = gw.nn.Module.__call__, gw.optim.Optimizer.__init__, gw.engine.gradients.backward
    assert before == after


def test_a_program_that_records_itself_keeps_its_recording() -> None:
    gw.manual_seed(0)
    model = gw.nn.Sequential(gw.nn.Linear(4, 8), gw.nn.ReLU(), gw.nn.Linear(8, 1))
    x, kept = gw.randn(16, 4), []

    def program() -> None:
        with gw.record() as trace:
            hidden = model[:2](x).detach()
            model[2](hidden).square().mean().backward()
            (x * 2).sum()
        kept.append(trace)

    found = examined(program, [False])
    assert [finding.kind for finding in found.findings] == ["unused"]
    assert [node.op for node in kept[0]][-1] == "sum" and kept[0].sweeps


def test_the_backward_passes_of_a_closure_are_the_optimizers_own() -> None:
    gw.manual_seed(0)
    model = gw.nn.Linear(4, 1)
    optimizer = gw.optim.LBFGS(model.parameters(), lr=0.1, max_iter=4)
    x, y = gw.randn(32, 4), gw.randn(32, 1)

    def closure() -> gw.Tensor:
        optimizer.zero_grad()
        loss = (model(x) - y).square().mean()
        loss.backward()
        return loss

    assert not doctor(model, lambda: optimizer.step(closure), steps=4)
