"""The rates of every schedule are PyTorch's, and a schedule continues where it was saved."""

import json
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch

import gradwalk as gw

STEPS = 40


def sequential(schedule: Any, optimizer: Any) -> Any:
    first = schedule.LinearLR(optimizer, start_factor=0.1, total_iters=6)
    second = schedule.CosineAnnealingLR(optimizer, T_max=20)
    third = schedule.ExponentialLR(optimizer, gamma=0.9)
    return schedule.SequentialLR(optimizer, [first, second, third], milestones=[6, 30])


def nested(schedule: Any, optimizer: Any) -> Any:
    inner = schedule.SequentialLR(
        optimizer,
        [
            schedule.ConstantLR(optimizer, factor=0.5, total_iters=4),
            schedule.StepLR(optimizer, step_size=3),
        ],
        milestones=[5],
    )
    warm = schedule.CosineAnnealingWarmRestarts(optimizer, T_0=4)
    return schedule.SequentialLR(optimizer, [inner, warm], milestones=[12])


SCHEDULES: dict[str, Callable[[Any, Any], Any]] = {
    "StepLR": lambda s, o: s.StepLR(o, step_size=7),
    "StepLR gamma": lambda s, o: s.StepLR(o, 3, gamma=0.8),
    "MultiStepLR": lambda s, o: s.MultiStepLR(o, [5, 20, 20, 30], gamma=0.5),
    "ConstantLR": lambda s, o: s.ConstantLR(o),
    "ConstantLR factor": lambda s, o: s.ConstantLR(o, factor=0.25, total_iters=12),
    "LinearLR": lambda s, o: s.LinearLR(o),
    "LinearLR factors": lambda s, o: s.LinearLR(o, 0.9, 0.1, total_iters=25),
    "ExponentialLR": lambda s, o: s.ExponentialLR(o, gamma=0.9),
    "LambdaLR": lambda s, o: s.LambdaLR(o, lambda epoch: 0.95**epoch),
    "LambdaLR two": lambda s, o: s.LambdaLR(o, [lambda e: 1 / (1 + e), lambda e: 0.5]),
    "CosineAnnealingLR": lambda s, o: s.CosineAnnealingLR(o, T_max=12),
    "CosineAnnealingLR floor": lambda s, o: s.CosineAnnealingLR(o, T_max=40, eta_min=0.01),
    "WarmRestarts": lambda s, o: s.CosineAnnealingWarmRestarts(o, T_0=5),
    "WarmRestarts longer": lambda s, o: s.CosineAnnealingWarmRestarts(o, 3, 2, eta_min=0.01),
    "OneCycleLR": lambda s, o: s.OneCycleLR(o, max_lr=0.5, total_steps=STEPS + 1),
    "OneCycleLR linear": lambda s, o: s.OneCycleLR(
        o, [0.5, 0.2], epochs=6, steps_per_epoch=7, anneal_strategy="linear", pct_start=0.4
    ),
    "OneCycleLR three": lambda s, o: s.OneCycleLR(
        o, 0.5, total_steps=50, three_phase=True, cycle_momentum=False, div_factor=10.0
    ),
    "CyclicLR": lambda s, o: s.CyclicLR(o, 0.01, 0.1, step_size_up=5),
    "CyclicLR halved": lambda s, o: s.CyclicLR(
        o, [0.01, 0.02], [0.1, 0.3], step_size_up=3, step_size_down=6, mode="triangular2"
    ),
    "CyclicLR fading": lambda s, o: s.CyclicLR(
        o, 0.01, 0.1, 4, mode="exp_range", gamma=0.97, cycle_momentum=False
    ),
    "CyclicLR own": lambda s, o: s.CyclicLR(
        o, 0.01, 0.1, 4, scale_fn=lambda x: 1 / x, base_momentum=0.7, max_momentum=0.95
    ),
    "MultiplicativeLR": lambda s, o: s.MultiplicativeLR(o, lambda epoch: 0.9 + 0.01 * epoch),
    "PolynomialLR": lambda s, o: s.PolynomialLR(o, total_iters=25, power=2.0),
    "ChainedScheduler": lambda s, o: s.ChainedScheduler(
        [s.ExponentialLR(o, gamma=0.95), s.ConstantLR(o, factor=0.5, total_iters=9)]
    ),
    "SequentialLR": sequential,
    "SequentialLR nested": nested,
}
LOSSES = [5.0, 4, 3, 3, 3, 3, 3, 2.9, 2.9999, 3, 3, 3, 3, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 1, 1]
PLATEAUS: list[dict[str, Any]] = [
    {"patience": 2},
    {"patience": 1, "cooldown": 2, "factor": 0.5, "min_lr": 0.02},
    {"mode": "max", "patience": 3, "threshold": 0.1},
    {"threshold_mode": "abs", "threshold": 0.5, "patience": 0, "min_lr": [0.01, 0.001]},
    {"mode": "max", "threshold_mode": "abs", "patience": 2},
]


def optimizer_of(library: Any, name: str = "SGD") -> Any:
    first, second = (library.zeros(2, requires_grad=True) for _ in range(2))
    groups = [{"params": [first]}, {"params": [second], "lr": 0.02}]
    options = {"momentum": 0.9} if name == "SGD" else {}
    return getattr(library.optim, name)(groups, lr=0.1, **options)


@pytest.fixture(autouse=True)
def quiet_torch() -> Iterator[None]:
    """PyTorch warns about its own use of `epoch` and about steps without an optimizer step."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", module="torch")
        warnings.filterwarnings("ignore", message=".*lr_scheduler.step.*")
        yield


def rates(library: Any, make: Any, name: str) -> list[Any]:
    optimizer = optimizer_of(library, name)
    scheduler = make(library.optim.lr_scheduler, optimizer)
    found = []
    for _ in range(STEPS):
        found.append(
            [
                (g["lr"], g.get("momentum", 0), g.get("betas", (0,))[0])
                for g in optimizer.param_groups
            ]
        )
        assert scheduler.get_last_lr() == [g["lr"] for g in optimizer.param_groups]
        optimizer.step()
        scheduler.step()
    return found


@pytest.mark.parametrize("optimizer", ["SGD", "AdamW"])
@pytest.mark.parametrize("make", SCHEDULES.values(), ids=SCHEDULES)
def test_rates_and_momenta_are_pytorchs(make: Any, optimizer: str) -> None:
    ours, theirs = rates(gw, make, optimizer), rates(torch, make, optimizer)
    np.testing.assert_allclose(ours, theirs, rtol=1e-13, atol=1e-16)


@pytest.mark.parametrize("options", PLATEAUS, ids=str)
def test_a_plateau_is_noticed_when_pytorch_notices_it(options: dict[str, Any]) -> None:
    ours, theirs = optimizer_of(gw), optimizer_of(torch)
    schedulers = [
        gw.optim.lr_scheduler.ReduceLROnPlateau(ours, **options),
        torch.optim.lr_scheduler.ReduceLROnPlateau(theirs, **options),
    ]
    for loss in LOSSES:
        for scheduler in schedulers:
            scheduler.step(loss)
        assert schedulers[0].get_last_lr() == pytest.approx(schedulers[1].get_last_lr(), rel=1e-14)


def stepped(make: Any, times: int) -> tuple[Any, Any]:
    optimizer = optimizer_of(gw)
    scheduler = make(gw.optim.lr_scheduler, optimizer)
    for _ in range(times):
        scheduler.step()
    return optimizer, scheduler


@pytest.mark.parametrize("at", [0, 6, 17])
@pytest.mark.parametrize("make", SCHEDULES.values(), ids=SCHEDULES)
def test_saved_as_json_and_loaded_it_continues(make: Any, at: int) -> None:
    optimizer, scheduler = stepped(make, at)
    saved = json.loads(json.dumps([optimizer.state_dict(), scheduler.state_dict()]))
    other, resumed = stepped(make, 3)
    other.load_state_dict(saved[0])
    resumed.load_state_dict(saved[1])
    for _ in range(20):
        assert resumed.get_last_lr() == scheduler.get_last_lr()
        assert other.param_groups[0]["momentum"] == optimizer.param_groups[0]["momentum"]
        scheduler.step()
        resumed.step()


@pytest.mark.parametrize("options", PLATEAUS, ids=str)
def test_a_plateau_is_remembered(options: dict[str, Any]) -> None:
    make = gw.optim.lr_scheduler.ReduceLROnPlateau
    optimizer, other = optimizer_of(gw), optimizer_of(gw)
    scheduler, resumed = make(optimizer, **options), make(other)
    for loss in LOSSES[:9]:
        scheduler.step(loss)
    other.load_state_dict(optimizer.state_dict())
    resumed.load_state_dict(json.loads(json.dumps(scheduler.state_dict())))
    for loss in LOSSES[9:]:
        scheduler.step(loss)
        resumed.step(loss)
        assert resumed.get_last_lr() == scheduler.get_last_lr()


@pytest.mark.parametrize("name", ["MultiStepLR", "CosineAnnealingLR", "LambdaLR", "WarmRestarts"])
def test_the_state_of_a_pytorch_schedule_loads_here(name: str) -> None:
    theirs = optimizer_of(torch)
    expected = SCHEDULES[name](torch.optim.lr_scheduler, theirs)
    for _ in range(9):
        expected.step()
    optimizer = optimizer_of(gw)
    scheduler = SCHEDULES[name](gw.optim.lr_scheduler, optimizer)
    optimizer.load_state_dict(theirs.state_dict())
    scheduler.load_state_dict(expected.state_dict())
    for _ in range(20):
        scheduler.step()
        expected.step()
        assert scheduler.get_last_lr() == pytest.approx(expected.get_last_lr(), rel=1e-13)


@pytest.mark.parametrize("at", [0, 9])
@pytest.mark.parametrize("make", SCHEDULES.values(), ids=SCHEDULES)
def test_the_state_is_pytorchs(make: Any, at: int) -> None:
    states = []
    for library in (gw, torch):
        scheduler = make(library.optim.lr_scheduler, optimizer_of(library))
        for _ in range(at):
            scheduler.step()
        states.append(scheduler.state_dict())
    assert_alike(*states)


@pytest.mark.parametrize("options", PLATEAUS, ids=str)
def test_the_state_of_a_plateau_is_pytorchs(options: dict[str, Any]) -> None:
    states = []
    for library in (gw, torch):
        make = library.optim.lr_scheduler.ReduceLROnPlateau
        scheduler = make(optimizer_of(library), **options)
        for loss in LOSSES[:9]:
            scheduler.step(loss)
        states.append(scheduler.state_dict())
    assert_alike(*states)


def assert_alike(ours: Any, theirs: Any) -> None:
    """The same keys and values, numbers to the last digits."""
    if isinstance(theirs, dict):
        assert set(ours) == set(theirs)
        for key, value in theirs.items():
            assert_alike(ours[key], value)
    elif isinstance(theirs, list):
        assert len(ours) == len(theirs)
        for one, two in zip(ours, theirs):
            assert_alike(one, two)
    else:
        assert ours == (pytest.approx(theirs, rel=1e-13) if isinstance(theirs, float) else theirs)


def test_attributes_of_a_callable_object_are_saved() -> None:
    class Decay:
        def __init__(self, rate: float) -> None:
            self.rate = rate

        def __call__(self, epoch: int) -> float:
            return self.rate**epoch

    saved = gw.optim.lr_scheduler.LambdaLR(optimizer_of(gw), Decay(0.5)).state_dict()
    assert saved["lr_lambdas"] == [{"rate": 0.5}] * 2
    resumed = gw.optim.lr_scheduler.LambdaLR(optimizer_of(gw), Decay(0.9))
    resumed.load_state_dict(saved)
    resumed.step()
    assert resumed.get_last_lr() == [0.05, 0.01]


@pytest.mark.parametrize("library", [gw, torch], ids=["gradwalk", "torch"])
@pytest.mark.parametrize("name", ["StepLR", "LambdaLR", "OneCycleLR", "SequentialLR"])
def test_a_schedule_stepped_before_its_optimizer_warns(library: Any, name: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        optimizer = optimizer_of(library)
        scheduler = SCHEDULES[name](library.optim.lr_scheduler, optimizer)
        with pytest.warns(UserWarning, match=r"before `optimizer\.step\(\)`"):
            scheduler.step()
        scheduler.step()  # once is enough
        optimizer = optimizer_of(library)
        scheduler = SCHEDULES[name](library.optim.lr_scheduler, optimizer)
        optimizer.step()
        scheduler.step()


def test_a_schedule_written_for_pytorch() -> None:
    """It asks whether `step` is calling it, and an optimizer may override `step`."""
    found = []
    for library in (gw, torch):
        base: Any = library.optim.lr_scheduler.LRScheduler
        descent: Any = library.optim.Optimizer

        class WarmUp(base):
            def __init__(self, optimizer: Any, steps: int, last_epoch: int = -1) -> None:
                self.steps = steps
                super().__init__(optimizer, last_epoch)

            def get_lr(self) -> list[float]:
                if not self._get_lr_called_within_step:
                    warnings.warn("use get_last_lr()", stacklevel=2)
                scale = min(1.0, (self.last_epoch + 1) / self.steps)
                return [lr * scale for lr in self.base_lrs]

        class Own(descent):
            def __init__(self, params: Any, lr: float) -> None:
                super().__init__(params, dict(lr=lr))

            def step(self, closure: Any = None, library: Any = library) -> None:
                with library.no_grad():
                    for group in self.param_groups:
                        for p in group["params"]:
                            state = self.state[p]
                            state["count"] = state.get("count", 0) + 1
                            p.add_(p.grad, alpha=-group["lr"])

        w = library.ones(2, requires_grad=True)
        optimizer = Own([w], lr=0.1)
        scheduler = WarmUp(optimizer, 4)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            for _ in range(6):
                optimizer.zero_grad()
                (w * w).sum().backward()
                optimizer.step()
                scheduler.step()
        found.append((w.tolist(), scheduler.get_last_lr(), optimizer.state[w]["count"]))
    assert found[0] == found[1]


def test_a_schedule_goes_to_a_given_epoch() -> None:
    names = ("StepLR", "MultiStepLR", "ConstantLR", "LinearLR", "ExponentialLR", "PolynomialLR")
    for name in names:
        _, jumped = stepped(SCHEDULES[name], 0)
        _, walked = stepped(SCHEDULES[name], 21)
        with pytest.warns(UserWarning, match="epoch parameter") as warned:
            jumped.step(21)
        assert warned[0].filename == __file__
        assert jumped.get_last_lr() == pytest.approx(walked.get_last_lr(), rel=1e-13)


def test_a_schedule_made_with_last_epoch_needs_the_first_rates() -> None:
    optimizer = optimizer_of(gw)
    with pytest.raises(KeyError, match="initial_lr"):
        gw.optim.lr_scheduler.StepLR(optimizer, 3, last_epoch=4)


S = gw.optim.lr_scheduler


@pytest.mark.parametrize(
    "make",
    [
        lambda o: S.SequentialLR(o, [S.StepLR(o, 2)], [3]),
        lambda o: S.SequentialLR(o, [S.StepLR(optimizer_of(gw), 2)], []),
        lambda o: S.ChainedScheduler([]),
        lambda o: S.ChainedScheduler([S.StepLR(o, 2)], optimizer_of(gw)),
        lambda o: S.OneCycleLR(o, 0.1),
        lambda o: S.OneCycleLR(o, 0.1, total_steps=3, anneal_strategy="x"),
        lambda o: S.LinearLR(o, start_factor=0),
        lambda o: S.ConstantLR(o, factor=2),
        lambda o: S.CosineAnnealingWarmRestarts(o, 0),
        lambda o: S.LambdaLR(o, [lambda e: 1]),
        lambda o: S.ReduceLROnPlateau(o, factor=1.5),
        lambda o: S.StepLR(o, 2).load_state_dict({}),
    ],
)
def test_mistakes_are_refused(make: Any) -> None:
    with pytest.raises(ValueError):
        make(optimizer_of(gw))


def test_a_schedule_needs_an_optimizer() -> None:
    with pytest.raises(TypeError, match="Optimizer"):
        gw.optim.lr_scheduler.StepLR([1], 2)  # type: ignore[arg-type]


def _one_group(m: Any, rate: Any) -> Any:
    return m.optim.SGD([m.nn.Parameter(m.zeros(1))], lr=rate, momentum=0.5)


def test_a_group_added_after_the_plateau_schedule() -> None:
    found = []
    for m in (gw, torch):
        optimizer = _one_group(m, 0.1)
        schedule = m.optim.lr_scheduler.ReduceLROnPlateau(optimizer, patience=0, min_lr=0.02)
        optimizer.add_param_group({"params": [m.nn.Parameter(m.zeros(1))], "lr": 0.3})
        for _ in range(3):
            optimizer.step()
            schedule.step(1.0)
        found.append([group["lr"] for group in optimizer.param_groups])
    assert found[0] == pytest.approx(found[1])
    optimizer = _one_group(gw, 0.1)
    schedule = gw.optim.lr_scheduler.ReduceLROnPlateau(optimizer, patience=0, min_lr=[0.02])
    optimizer.add_param_group({"params": [gw.nn.Parameter(gw.zeros(1))], "lr": 0.3})
    schedule.step(1.0)
    with pytest.raises(RuntimeError, match="1 parameter group"):
        schedule.step(1.0)


def test_a_schedule_keeps_rates_that_are_tensors() -> None:
    """They are those at the time it is made, whatever becomes of the tensor."""
    for m in (gw, torch):
        rate, highest = m.tensor(0.5), m.tensor(1.0)
        optimizer = m.optim.SGD([m.zeros(1, requires_grad=True)], lr=rate, momentum=0.9)
        schedule = m.optim.lr_scheduler.CyclicLR(optimizer, rate, highest)
        rate.mul_(0.5)
        highest.mul_(0.5)
        assert [float(lr) for lr in schedule.base_lrs + schedule.max_lrs] == [0.5, 1.0]
        assert float(optimizer.param_groups[0]["initial_lr"]) == 0.5


@pytest.mark.filterwarnings("ignore:.*before `optimizer.step:UserWarning")
def test_a_chain_as_the_first_part_of_a_sequence() -> None:
    found = []
    for m in (gw, torch):
        schedules = m.optim.lr_scheduler
        optimizer = _one_group(m, 0.5)
        chain = schedules.ChainedScheduler(
            [schedules.ConstantLR(optimizer, 0.5, 2), schedules.ExponentialLR(optimizer, 0.9)]
        )
        whole = schedules.SequentialLR(optimizer, [chain, schedules.StepLR(optimizer, 2)], [3])
        rates = []
        for _ in range(6):
            optimizer.step()
            whole.step()
            rates += whole.get_last_lr()
        found.append(rates)
    assert found[0] == pytest.approx(found[1])


def test_a_plateau_of_older_programs_says_what_it_does(capsys: pytest.CaptureFixture[str]) -> None:
    make = gw.optim.lr_scheduler.ReduceLROnPlateau
    optimizer = gw.optim.SGD([gw.zeros(1, requires_grad=True)], lr=1.0)
    for verbose, said in ((False, ""), (True, "epoch 2: lr of group 0 is now 0.01\n")):
        scheduler = make(optimizer, patience=0, verbose=verbose)
        for _ in range(2):
            scheduler.step(1.0)
        assert capsys.readouterr().out == said
