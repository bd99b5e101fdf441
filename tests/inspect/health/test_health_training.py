"""health.try_fix and Monitor: what they show is what happens, and they leave no trace."""

import math
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import gradwalk as gw
from gradwalk import nn
from gradwalk.engine.modes import state
from gradwalk.inspect.health.findings import Limits
from gradwalk.inspect.health.health import health
from gradwalk.inspect.health.monitor import Monitor
from gradwalk.ops import TABLE

cross_entropy = nn.functional.cross_entropy


def data() -> tuple[Any, Any]:
    gw.manual_seed(7)
    return gw.randn(64, 16), gw.randint(0, 4, (64,))


def sigmoid_network() -> Any:
    parts = (part for _ in range(6) for part in (nn.Linear(16, 16), nn.Sigmoid()))
    return nn.Sequential(*parts, nn.Linear(16, 4))


def loss_on(x: Any, y: Any) -> Callable[[Any], Any]:
    return lambda model: cross_entropy(model(x), y)


# -- try_fix ---------------------------------------------------------------------------------------


def test_every_change_is_tried_on_the_same_seed_and_batch() -> None:
    x, y = data()
    trials = health.try_fix(
        sigmoid_network, loss_on(x, y), lambda p: gw.optim.Adam(p, lr=1e-2), seed=3
    )
    assert [t.change for t in trials.trials] == [
        "activation",
        "initialisation",
        "learning rate",
        "clipping",
        "eps",
    ]
    gw.manual_seed(3)
    model = sigmoid_network()
    assert trials.original.losses[0] == loss_on(x, y)(model).item()
    by_change = {trial.change: trial for trial in trials.trials}
    # What does not change the first forward starts from the same loss.
    for change in ("learning rate", "clipping", "eps"):
        assert by_change[change].losses[0] == trials.original.losses[0]
    assert by_change["activation"].losses[0] != trials.original.losses[0]
    assert {f.kind for f in trials.original.before.findings} == {"vanishing"}
    assert by_change["initialisation"].cured
    assert trials.best is not None and trials.best.change in ("initialisation", "activation")


def test_the_report_shows_the_norms_of_every_layer_before_and_after() -> None:
    x, y = data()
    trials = health.try_fix(sigmoid_network, loss_on(x, y), changes=["initialisation"])
    text = str(trials)
    assert all(len(row) <= 80 for row in text.splitlines())
    (trial,) = trials.trials
    for before, after in zip(trials.original.before.layers, trial.before.layers, strict=True):
        row = next(r for r in text.splitlines() if r.split()[:1] == [before.name])
        shown = (before.activation, after.activation, before.gradient, after.gradient)
        assert row.split()[1:] == [f"{number:.3g}" for number in shown]
    assert trial.before.layers[0].gradient > 100 * trials.original.before.layers[0].gradient
    assert len(trials.to_dict()["trials"]) == 1


def test_the_original_trial_is_what_training_would_do() -> None:
    x, y = data()
    trials = health.try_fix(
        sigmoid_network, loss_on(x, y), lambda p: gw.optim.SGD(p, lr=0.1), changes=[], steps=3
    )
    gw.manual_seed(0)
    model = sigmoid_network()
    optimizer = gw.optim.SGD(model.parameters(), lr=0.1)
    losses = []
    for _ in range(3):
        optimizer.zero_grad()
        loss = loss_on(x, y)(model)
        losses.append(loss.item())
        loss.backward()
        optimizer.step()
    assert trials.original.losses == [*losses, loss_on(x, y)(model).item()]
    assert trials.best is None


def test_a_model_is_copied_and_everything_is_put_back() -> None:
    x, y = data()
    gw.manual_seed(0)
    model = sigmoid_network()
    before = {name: p.detach().clone() for name, p in model.named_parameters()}
    sigmoid, method = TABLE["sigmoid"].quick[gw.Tensor], gw.Tensor.sigmoid
    random = gw.get_rng_state()
    health.try_fix(model, loss_on(x, y), lambda p: gw.optim.SGD(p, lr=0.1))
    assert all(bool((p == before[name]).all()) for name, p in model.named_parameters())
    assert all(p.grad is None for p in model.parameters())
    assert TABLE["sigmoid"].quick[gw.Tensor] is sigmoid and gw.Tensor.sigmoid is method
    assert str(gw.get_rng_state()) == str(random)
    assert gw.sigmoid(gw.tensor(-1.0)).item() == pytest.approx(0.26894, abs=1e-4)
    assert state.here.watcher is None


def test_activations_are_exchanged_however_they_are_called() -> None:
    x, y = data()

    class Functional(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = nn.ModuleList(nn.Linear(16, 16) for _ in range(6))
            self.head = nn.Linear(16, 4)

        def forward(self, h: Any) -> Any:
            for k, layer in enumerate(self.layers):
                h = (nn.functional.sigmoid, gw.sigmoid, gw.Tensor.sigmoid)[k % 3](layer(h))
            return self.head(h)

    trials = health.try_fix(Functional, loss_on(x, y), changes=["activation"])
    (trial,) = trials.trials
    assert trial.what == "relu in place of sigmoid"
    assert {f.kind for f in trials.original.before.findings} == {"vanishing"}
    assert not any(f.kind == "vanishing" for f in trial.before.findings)


def test_relu_is_tried_as_leaky_relu() -> None:
    x, y = data()

    def make() -> Any:
        model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4))
        nn.init.constant_(model[0].bias, -10.0)
        return model

    trials = health.try_fix(make, loss_on(x, y), changes=["activation", "initialisation"])
    assert [f.kind for f in trials.original.before.findings] == ["dead"]
    assert trials.trials[0].what == "leaky_relu in place of relu"
    assert trials.trials[0].before.layers[0].gradient > 0
    assert trials.trials[1].cured


def test_the_learning_rate_is_set_to_move_the_weights_a_little() -> None:
    x, y = data()

    def make() -> Any:
        return nn.Sequential(nn.Linear(16, 32), nn.Tanh(), nn.Linear(32, 4))

    for rate in (1e3, 1e-9):
        trials = health.try_fix(
            make, loss_on(x, y), lambda p, rate=rate: gw.optim.SGD(p, lr=rate), steps=30
        )
        assert [f.kind for f in trials.original.before.findings] == ["update"]
        assert trials.best is not None and trials.best.change == "learning rate"
        assert trials.best.losses[-1] < trials.best.losses[0]
        assert "step before" in str(trials)


def test_two_sicknesses_take_two_changes() -> None:
    x, y = data()
    trials = health.try_fix(
        sigmoid_network, loss_on(x, y), lambda p: gw.optim.SGD(p, lr=100.0), steps=10
    )
    assert {f.kind for f in trials.original.before.findings} == {"vanishing", "update"}
    assert not any(t.cured for t in trials.trials[:-1])
    assert trials.trials[-1].change == "together" and trials.trials[-1].cured
    assert trials.best is trials.trials[-1]


def test_a_change_that_fails_says_so() -> None:
    x, y = data()

    def strict_loss(model: Any) -> Any:
        out = model(x)
        if float(out.abs().max()) > 5:
            raise ValueError("logits above 5")
        return cross_entropy(out, y)

    def make() -> Any:
        model = nn.Sequential(nn.Linear(16, 16), nn.Sigmoid(), nn.Linear(16, 4))
        nn.init.constant_(model[0].bias, 100.0)
        return model

    trials = health.try_fix(make, strict_loss, changes=["activation"])
    assert trials.trials[0].error == "ValueError: logits above 5"
    assert "logits above 5" in str(trials)
    with pytest.raises(ValueError, match="no change colour; there are activation"):
        health.try_fix(make, strict_loss, changes=["colour"])


# -- Monitor ---------------------------------------------------------------------------------------


def train(
    steps: int,
    monitored: Callable[[Any, Any], Any] | None = None,
    make: Callable[[], Any] | None = None,
    rate: float = 0.05,
) -> tuple[Any, Any]:
    x, y = data()
    gw.manual_seed(0)
    model = (make or (lambda: nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4))))()
    optimizer = gw.optim.SGD(model.parameters(), lr=rate, momentum=0.9)
    monitor = None if monitored is None else monitored(model, optimizer)
    for _ in range(steps):
        optimizer.zero_grad()
        cross_entropy(model(x), y).backward()
        optimizer.step()
    return model, monitor


def test_training_is_the_same_with_a_monitor() -> None:
    plain, _ = train(20)
    watched, monitor = train(20, lambda m, o: Monitor(m, o, every=3))
    for one, other in zip(plain.parameters(), watched.parameters(), strict=True):
        assert bool((one == other).all())
    assert [int(row["step"]) for row in monitor.history] == [0, 3, 6, 9, 12, 15, 18]
    assert monitor.report.healthy and monitor.findings == []
    assert state.here.watcher is None


def test_what_a_monitor_says_is_what_health_says() -> None:
    x, y = data()
    gw.manual_seed(0)
    model = nn.Sequential(nn.Linear(16, 32), nn.Tanh(), nn.Linear(32, 4))
    optimizer = gw.optim.Adam(model.parameters(), lr=1e-2)
    with gw.record() as trace:
        cross_entropy(model(x), y).backward()
    expected = health(model, trace, optimizer).metrics()
    optimizer.zero_grad()
    with Monitor(model, optimizer, every=1) as monitor:
        cross_entropy(model(x), y).backward()
        optimizer.step()
    (row,) = monitor.history
    assert row.pop("step") == 0.0
    assert row.keys() == expected.keys()
    for key, value in expected.items():
        assert math.isclose(row[key], value, rel_tol=1e-4, abs_tol=1e-12), key


def test_a_sickness_that_comes_is_noticed() -> None:
    _, monitor = train(60, lambda m, o: Monitor(m, o, every=5), rate=30.0)
    kinds = {key for row in monitor.history for key in row if key.startswith("finding/")}
    assert "finding/update" in kinds
    assert "update:" in str(monitor)
    assert all(len(line) <= 80 for line in str(monitor).splitlines())


def test_evaluation_is_not_examined() -> None:
    x, y = data()
    gw.manual_seed(0)
    model = nn.Sequential(nn.Linear(16, 4))
    optimizer = gw.optim.SGD(model.parameters(), lr=0.1)
    with Monitor(model, optimizer, every=1) as monitor:
        with gw.no_grad():
            model(x)
        assert state.here.watcher is None
        model.eval()
        model(x)
        assert state.here.watcher is None
        model.train()
        cross_entropy(model(x), y).backward()
        assert state.here.watcher is None  # the recording ends with backward
        optimizer.step()
        model(x)  # without a backward
        optimizer.step()
        cross_entropy(model(x), y).backward()
        optimizer.step()
    assert [row["step"] for row in monitor.history] == [0.0, 2.0]


def test_a_recording_of_the_user_goes_before() -> None:
    x, y = data()
    model = nn.Sequential(nn.Linear(16, 4))
    optimizer = gw.optim.SGD(model.parameters(), lr=0.1)
    with Monitor(model, optimizer, every=1) as monitor, gw.record() as trace:
        cross_entropy(model(x), y).backward()
        optimizer.step()
    assert monitor.history == [] and len(trace.sweeps) == 1
    assert "no step examined yet" in str(monitor)


def test_without_an_optimizer_calls_are_counted() -> None:
    x, y = data()
    model = nn.Sequential(nn.Linear(16, 4))
    monitor = Monitor(model, every=2)
    for _ in range(5):
        cross_entropy(model(x), y).backward()
    assert [row["step"] for row in monitor.history] == [0.0, 2.0, 4.0]
    assert not any(key.endswith("/update") for key in monitor.history[0])
    monitor.close()
    cross_entropy(model(x), y).backward()
    assert len(monitor.history) == 3
    with pytest.raises(ValueError, match="at least 1"):
        Monitor(model, every=0)


def test_limits_of_a_monitor() -> None:
    _, monitor = train(1, lambda m, o: Monitor(m, o, limits=Limits(large_update=1e-9)))
    assert [f.kind for f in monitor.findings] == ["update"]


@pytest.mark.slow
def test_the_history_is_plotted(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    _, monitor = train(12, lambda m, o: Monitor(m, o, every=2))
    monitor.plot(tmp_path / "history.png")
    assert (tmp_path / "history.png").read_bytes().startswith(b"\x89PNG")
    monitor.plot(tmp_path / "history.svg")
    assert "step" in (tmp_path / "history.svg").read_text()
    empty = Monitor(nn.Linear(1, 1))
    with pytest.raises(ValueError, match="no history yet"):
        empty.plot(tmp_path / "nothing.png")


def test_without_matplotlib_the_message_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    _, monitor = train(1, lambda m, o: Monitor(m, o))
    for name in [n for n in sys.modules if n.partition(".")[0] == "matplotlib"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ImportError, match=r"pip install 'gradwalk\[plot\]'"):
        monitor.plot("history.png")


def test_what_helps_an_lstm_that_forgets() -> None:
    gw.manual_seed(0)
    x, y = gw.randn(60, 24, 8), gw.randint(0, 4, (24,))

    def make() -> nn.Module:
        return nn.ModuleDict({"lstm": nn.LSTM(8, 16), "head": nn.Linear(16, 4)})

    def loss_of(model: nn.Module) -> gw.Tensor:
        return cross_entropy(model["head"](model["lstm"](x)[0][-1]), y)

    trials = health.try_fix(make, loss_of, lambda p: gw.optim.Adam(p, lr=3e-3))
    assert [f.kind for f in trials.original.before.findings] == ["vanishing"]
    assert trials.best is not None and trials.best.cured
    assert "gates that remember" in trials.best.what


def test_an_activation_at_the_output_asks_for_no_gain() -> None:
    gw.manual_seed(0)
    x, y = gw.randn(64, 16), (gw.rand(64, 4) > 0.5).float()

    def make() -> nn.Module:
        model = nn.Sequential(nn.Linear(16, 16), nn.Tanh(), nn.Linear(16, 4))
        nn.init.normal_(model[2].weight, std=2e4)
        return model

    def loss_of(model: nn.Module) -> gw.Tensor:
        return (model(x).sigmoid() - y).square().mean() * 1e9

    trials = health.try_fix(make, loss_of, lambda p: gw.optim.SGD(p, lr=1e-12))
    assert trials.best is not None and "× 1.67" in trials.best.what  # of the hidden tanh
    assert all(len(line) <= 80 for line in str(trials).splitlines())


def test_accumulation_over_two_heads_is_no_finding() -> None:
    """Only the first backward pass of a step is recorded, and it does not reach the second head."""

    class Heads(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body = nn.Linear(8, 16)
            self.heads = nn.ModuleDict({name: nn.Linear(16, 1) for name in "ab"})

        def forward(self, x: Any, head: str) -> Any:
            return self.heads[head](self.body(x).relu())

    gw.manual_seed(0)
    model = Heads()
    optimizer = gw.optim.Adam(model.parameters(), lr=1e-3)
    with Monitor(model, optimizer, every=1) as monitor:
        for used in ("ab", "ab", "a"):
            optimizer.zero_grad()
            for head in used:
                x = gw.randn(32, 8)
                (model(x, head) - x.sum(1, keepdim=True)).square().mean().div(2).backward()
            optimizer.step()
            unused = [finding.layer for finding in monitor.findings]
            assert unused == ([] if "b" in used else ["heads.b"])


def test_float32_is_tried_where_autocast_overflows() -> None:
    gw.manual_seed(0)
    x = gw.randn(16, 8) * 100

    def make() -> Any:
        return gw.nn.Sequential(gw.nn.Linear(8, 32), gw.nn.ReLU(), gw.nn.Linear(32, 1))

    def in_half(model: Any) -> Any:
        with gw.autocast("cpu", dtype=gw.float16):
            return (model(x) * 30).square().mean()

    trials = health.try_fix(make, in_half, changes=["float32"])
    assert not math.isfinite(trials.original.losses[-1])
    assert trials.best is not None and trials.best.what == "every op in float32"
    assert math.isfinite(trials.best.losses[-1])
    with gw.autocast("cpu", dtype=gw.float16):
        assert gw.is_autocast_enabled("cpu")  # the trial has put it back
    whole = health.try_fix(make, lambda model: model(x).square().mean(), changes=["float32"])
    assert whole.trials == []  # nothing runs in half precision
