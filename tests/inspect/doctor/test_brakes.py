"""Clipping, decay and dropout: told from a loss scale, and only where little is learned."""

from types import SimpleNamespace

from gradwalk.inspect.doctor.brakes import restrained
from gradwalk.inspect.doctor.observed import (
    ObservedOptimizer,
    ObservedPass,
    ObservedRun,
    ObservedStep,
)


def run_of(left, losses=None, **group):
    """A run whose gradients have norm 1, 2, 3 after backward, and `left` of it at each step."""
    optimizer = SimpleNamespace(param_groups=[{"lr": 0.1, "params": [], **group}])
    run = ObservedRun("PyTorch", optimizers=[ObservedOptimizer(optimizer)])
    for number, factor in enumerate(left):
        norm = 1.0 + number % 3
        loss = losses[number] if losses else 1.0
        step = ObservedStep(number, run, optimizer, [ObservedPass(loss, None, 0.0, norm)])
        step.gradient_norm, step.parameter_norm = factor * norm, 10.0
        run.steps.append(step)
    return run


def kinds(run):
    return [finding.kind for finding in restrained(run)]


def test_clipping_leaves_nothing():
    left = [1e-5 / (1 + number % 3) for number in range(12)]
    assert kinds(run_of(left)) == ["clipping"]
    assert kinds(run_of(left, betas=(0.9, 0.999))) == []  # Adam divides by their size
    assert kinds(run_of([0.5, 1.0, 0.3] * 4)) == []
    falling = [0.8**number for number in range(12)]
    assert kinds(run_of(left, falling)) == []  # it learns all the same


def test_a_loss_scale_is_no_clipping():
    assert kinds(run_of([2.0**-16] * 12)) == []
    assert kinds(run_of([2.0**-16] * 6 + [2.0**-15] * 6)) == []  # the scale was halved
    assert kinds(run_of([1e-4] * 12)) == []


def test_decay_by_the_kind_of_optimizer():
    even = [1.0] * 12
    assert kinds(run_of(even, weight_decay=1.0)) == ["weight decay"]  # SGD: 10 % a step
    assert kinds(run_of(even, weight_decay=5e-4, momentum=0.9)) == []
    adam = {"betas": (0.9, 0.999)}
    assert kinds(run_of(even, weight_decay=1.0, **adam)) == ["weight decay"]  # 10 against 1
    assert kinds(run_of(even, weight_decay=0.01, **adam)) == []
    adamw = {**adam, "decoupled_weight_decay": True}
    assert kinds(run_of(even, weight_decay=0.1, **adamw)) == []
    assert kinds(run_of(even, weight_decay=3.0, **adamw)) == ["weight decay"]
