"""watch one step late: no wait for the device, and a rewind that restores everything exactly."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

from gradwalk.torch import StepStopped, private_foreach, watch
from gradwalk.torch.rerun.rewind import Rewind
from gradwalk.torch.watch.sent_numbers import Sent
from gradwalk.torch.watch.step_report import StepReport, StepWarning
from tests.torch import training
from tests.torch.training import Trained

Loop = Callable[[bool, Any], Trained]
LOOPS: list[Loop] = [
    training.in_a_function,
    training.in_a_method,
    training.with_a_helper,
    training.mixed_precision,
    training.accumulated,
    training.adversarial,
    training.log_of_zero,
    training.root_at_zero,
    training.exploding,
    training.bad_update,
]


class Stood:
    """Where a program stands: weights, buffers, optimizer state and random states."""

    def __init__(self, folder: Path, late: bool) -> None:
        self.folder, self.late = folder, late
        self.watched: Any = None

    def __call__(self, model: Any, optimizer: Any) -> None:
        self.models = list(model) if isinstance(model, list | tuple) else [model]
        several = isinstance(optimizer, list | tuple)
        self.optimizers = list(optimizer) if several else [optimizer]
        self.watched = watch(model, optimizer, folder=self.folder, late=self.late)

    def stop(self, loop: Loop) -> StepReport:
        try:
            with pytest.raises(StepStopped) as stopped:
                loop(True, self)
        finally:
            self.watched.remove()
        return stopped.value.report

    def everything(self) -> dict[str, Any]:
        found: dict[str, Any] = {"cpu": torch.get_rng_state(), "python": random.getstate()}
        found["numpy"] = np.random.get_state()[1].tolist()
        for i, model in enumerate(self.models):
            found |= {f"{i}.{name}": value for name, value in model.state_dict().items()}
        for i, optimizer in enumerate(self.optimizers):
            stored = optimizer.state_dict()
            found[f"groups {i}"] = str(stored["param_groups"])
            for p, state in stored["state"].items():
                found |= {f"{i}.{p}.{name}": value for name, value in state.items()}
        return found


def assert_same(a: dict[str, Any], b: dict[str, Any]) -> None:
    assert a.keys() == b.keys()
    for name, value in a.items():
        if isinstance(value, torch.Tensor):
            assert value.equal(b[name]) or value.isnan().any(), name
            assert torch.equal(value.isnan(), b[name].isnan()), name
        else:
            assert value == b[name], name


@pytest.fixture
def slow_device(monkeypatch: pytest.MonkeyPatch) -> None:
    """No number arrives before the next step asks for it."""
    monkeypatch.setattr(Sent, "has_arrived", False)


@pytest.mark.usefixtures("slow_device")
@pytest.mark.parametrize("loop", LOOPS, ids=lambda loop: loop.__name__)
def test_a_late_look_tells_the_same_and_rewinds_to_where_an_early_one_stops(
    loop: Loop, tmp_path: Path
) -> None:
    early, late = Stood(tmp_path, late=False), Stood(tmp_path, late=True)
    expected = early.stop(loop)
    stood = early.everything()
    found = late.stop(loop)
    assert_same(late.everything(), stood)
    for name in ("kind", "step", "seen", "row", "op", "module", "rerun", "gradients", "fix"):
        assert getattr(found, name) == getattr(expected, name), name
    assert str(found.line) == str(expected.line)
    assert late.watched.steps == early.watched.steps


@pytest.mark.parametrize("loop", [training.in_a_function, training.adversarial])
def test_a_healthy_program_is_the_same_bit_for_bit(loop: Loop, tmp_path: Path) -> None:
    alone = loop(False, lambda model, optimizer: None)
    late = Stood(tmp_path, late=True)
    watched = loop(False, late)
    late.watched.remove()
    assert alone.losses == watched.losses
    assert all(map(torch.equal, alone.weights, watched.weights))
    assert late.watched.reports == []


# -- no wait ---------------------------------------------------------------------------------------

WAITS = ("_local_scalar_dense", "is_nonzero", "equal", "nonzero", "masked_select", "unique")


class Waits(TorchDispatchMode):
    """Counts what makes the host wait for a device."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: Counter[str] = Counter()

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        name = func._schema.name.partition("::")[2]
        self.seen.update([name] if name in WAITS else [])
        return func(*args, **(kwargs or {}))


def a_step(model: nn.Module, optimizer: torch.optim.Optimizer, x: torch.Tensor) -> None:
    optimizer.zero_grad()
    model(x).square().mean().backward()
    optimizer.step()


@pytest.mark.parametrize("late", [False, True])
def test_a_late_look_never_waits_for_the_device(late: bool, tmp_path: Path) -> None:
    model = training.network()
    # foreach: the plain Adam reads its own step numbers
    optimizer = torch.optim.SGD(model.parameters(), 0.01, momentum=0.9)
    with watch(model, optimizer, folder=tmp_path, late=late) as watched:
        for _ in range(4):
            a_step(model, optimizer, torch.randn(16, 4))
        with Waits() as waits:
            for _ in range(5):
                a_step(model, optimizer, torch.randn(16, 4))
    assert (waits.seen.total() == 0) == late, waits.seen
    assert watched.steps == 9


# -- what a rewind keeps ---------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [torch.optim.Adam, torch.optim.Adagrad, torch.optim.RMSprop])
def test_a_rewind_restores_an_optimizer_bit_for_bit_even_before_its_first_step(
    kind: Any, tmp_path: Path
) -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 1))  # a bias of one element
    optimizer = kind(model.parameters(), lr=0.1)
    stood = Stood(tmp_path, late=True)
    stood.models, stood.optimizers = [model], [optimizer]
    rewind = Rewind(optimizer)
    for _ in range(3):
        rewind.take()
        before = {k: v.clone() if hasattr(v, "clone") else v for k, v in stood.everything().items()}
        random_states = {k: before.pop(k) for k in ("cpu", "python", "numpy")}
        a_step(model, optimizer, torch.randn(8, 4))
        optimizer.param_groups[0]["lr"] = 0.05
        rewind.restore(unnoticed=False)
        found = {k: v for k, v in stood.everything().items() if k not in random_states}
        assert_same(found, before)
        a_step(model, optimizer, torch.randn(8, 4))


def test_a_device_that_finds_a_step_harmless_copies_nothing() -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 1))
    with torch.no_grad():
        model[0].weight[0] = torch.tensor([-0.0, 0.0, 1e-45, float("inf")])
    optimizer = torch.optim.Adam(model.parameters(), 0.1)
    a_step(model, optimizer, torch.randn(8, 4).clamp(-1, 1))
    rewind, harmless, harmful = Rewind(optimizer), torch.ones(()), torch.zeros(())
    for unless in (None, harmless, harmful, harmful, harmless, harmful):
        kept = [p.detach().clone() for p in model.parameters()]
        rewind.take(unless)
        copies = [copy for copies, _ in rewind._large.values() for copy in copies]
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.add_(1)
        if unless is harmless:
            assert not any(copy.any() for copy in copies)
            continue
        rewind.is_written()
        rewind.restore(unnoticed=False)
        for parameter, before in zip(model.parameters(), kept):
            assert parameter.detach().numpy().tobytes() == before.numpy().tobytes()


def test_a_device_that_cannot_decide_copies_always(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*given: Any) -> None:
        raise NotImplementedError

    monkeypatch.setattr(private_foreach, "copy_all_unless", refuse)
    model = nn.Linear(4, 4)
    rewind = Rewind(torch.optim.SGD(model.parameters(), 0.1))
    rewind.take(torch.ones(()))
    kept = model.weight.detach().clone()
    nn.init.zeros_(model.weight)
    rewind.restore(unnoticed=False)
    assert model.weight.equal(kept)


@pytest.mark.usefixtures("slow_device")
def test_with_a_harmful_step_a_harmless_one_of_another_optimizer_is_undone(tmp_path: Path) -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 1))
    optimizers = [torch.optim.Adam(layer.parameters(), 0.1) for layer in model]
    before: list[torch.Tensor] = []
    with (
        pytest.raises(StepStopped) as stopped,
        watch(model, optimizers, folder=tmp_path, late=True),
    ):
        for number in range(8):
            model.zero_grad()
            model(torch.randn(8, 4)).square().mean().backward()
            if number == 5:
                model[0].weight.grad.fill_(float("nan"))  # type: ignore[union-attr, operator]
            if number < 6:
                before = [p.detach().clone() for p in model.parameters()]
            for optimizer in optimizers:
                optimizer.step()
    assert stopped.value.report.step == 5 and stopped.value.report.gradients == ["0.weight"]
    assert all(map(torch.equal, model.parameters(), before))


@pytest.mark.usefixtures("slow_device")
def test_a_batch_that_the_next_one_overwrites_is_run_again(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = training.network()
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    x, y = torch.zeros(16, 4), torch.zeros(16)
    batches = torch.randn(8, 16, 4)
    batches[5, 3, 1] = float("nan")
    with (
        pytest.raises(StepStopped) as stopped,
        watch(model, optimizer, folder=tmp_path, late=True),
    ):
        for batch in batches:
            x.copy_(batch)
            y.copy_(batch.sum(1))
            optimizer.zero_grad()
            loss = (model(x).squeeze() - y).square().mean()
            loss.backward()
            optimizer.step()
    report = stopped.value.report
    assert (report.step, report.kind, report.row, report.rerun) == (5, "NaN", 3, "statements")
    assert "bit for bit" in report.rerun_told and report.notes == []
    assert x.isfinite().all()  # the program's own batch is the next one


@pytest.mark.usefixtures("slow_device")
def test_a_warning_leaves_the_step_as_the_program_made_it(tmp_path: Path) -> None:
    def trained(watching: Any) -> Trained:
        inputs, targets = training.batches(planted=False, steps=12)
        inputs[6] *= 1e6  # the gradient explodes, and stays finite
        model = training.network()
        optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
        watching(model, optimizer)
        result = Trained()
        for x, y in zip(inputs, targets):
            optimizer.zero_grad()
            loss = (model[0](x).sum(1, keepdim=True) - y).square().mean()
            loss.backward()
            optimizer.step()
            result.losses.append(loss.item())
        return result.done(model)

    alone = trained(lambda model, optimizer: None)
    with pytest.warns(StepWarning, match="exploded"):
        kept: list[Any] = []
        watched = trained(
            lambda *given: kept.append(
                watch(*given, folder=tmp_path, late=True, action="warn", warmup=3, floor=0.0)
            )
        )
    kept[0].remove()
    assert alone.losses == watched.losses
    assert all(map(torch.equal, alone.weights, watched.weights))
    assert kept[0].reports[0].step == 6


@pytest.mark.usefixtures("slow_device")
@pytest.mark.parametrize("ends", ["quietly", "with an error"])
def test_the_last_step_is_judged_too(ends: str, tmp_path: Path) -> None:
    model = nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    with (
        pytest.raises(StepStopped) as stopped,
        watch(model, optimizer, folder=tmp_path, late=True),
    ):
        a_step(model, optimizer, torch.randn(8, 4))
        a_step(model, optimizer, torch.full((8, 4), float("inf")))
        if ends == "with an error":
            raise ValueError("the loss is NaN")
    assert stopped.value.report.step == 1
    assert model.weight.isfinite().all()
