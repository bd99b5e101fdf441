"""GradScaler does what PyTorch's does."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import gradwalk as gw


def run(library: Any, slopes: list[float], interval: int) -> tuple[list[float], list[float], Any]:
    """Weights and scales of some steps, whose unscaled gradients are given."""
    w = library.tensor([1.0], requires_grad=True)
    optimizer = library.optim.SGD([w], lr=0.1)
    scaler = library.amp.GradScaler("cpu", init_scale=8.0, growth_interval=interval)
    weights, scales = [], []
    for number, slope in enumerate(slopes):
        optimizer.zero_grad()
        scaler.scale((w * slope).sum()).backward()
        if number % 2:
            scaler.unscale_(optimizer)
        scaler.step(optimizer)
        scaler.update()
        weights.append(w.item())
        scales.append(scaler.get_scale())
    return weights, scales, scaler


def test_as_pytorch() -> None:
    slopes = [1.0, 2.0, float("inf"), 0.5, float("nan"), 1.0, 1.0, 1.0, 1.0, 3.0]
    mine, theirs = run(gw, slopes, 2), run(torch, slopes, 2)
    np.testing.assert_allclose(mine[0], theirs[0], 1e-6)
    assert mine[1] == theirs[1]
    state, expected = mine[2].state_dict(), theirs[2].state_dict()
    assert state == expected
    again = gw.amp.GradScaler("cpu")
    again.load_state_dict(expected)
    assert again.state_dict() == state


def test_options() -> None:
    scaler, theirs = gw.amp.GradScaler("cpu"), torch.amp.GradScaler("cpu")
    for name, value in {"growth_factor": 3.0, "backoff_factor": 0.25, "growth_interval": 7}.items():
        assert getattr(scaler, f"get_{name}")() == getattr(theirs, f"get_{name}")()
        getattr(scaler, f"set_{name}")(value)
        assert getattr(scaler, f"get_{name}")() == value
    scaler.update(4.0)
    assert scaler.get_scale() == 4 and scaler.is_enabled()


def test_not_enabled_it_does_nothing() -> None:
    w = gw.ones(1, requires_grad=True)
    optimizer, scaler = gw.optim.SGD([w], lr=1.0), gw.amp.GradScaler(enabled=False)
    scaler.scale((w * 0.25).sum()).backward()
    scaler.unscale_(optimizer)
    scaler.step(optimizer)
    scaler.update()
    assert w.item() == 0.75
    assert scaler.state_dict() == {} and scaler.get_scale() == 1


def test_misuse_raises() -> None:
    w = gw.ones(1, requires_grad=True)
    optimizer, scaler = gw.optim.SGD([w], lr=1.0), gw.amp.GradScaler("cpu")
    with pytest.raises(RuntimeError, match="before"):
        scaler.update()
    scaler.scale(w.sum()).backward()
    scaler.unscale_(optimizer)
    with pytest.raises(RuntimeError, match="already"):
        scaler.unscale_(optimizer)
    scaler.step(optimizer)
    with pytest.raises(RuntimeError, match="already"):
        scaler.step(optimizer)
    with pytest.raises(RuntimeError, match="after"):
        scaler.unscale_(optimizer)
    half = gw.ones(1, dtype=gw.float16, requires_grad=True)
    half.grad = gw.ones(1, dtype=gw.float16)
    with pytest.raises(ValueError, match="float16"):
        gw.amp.GradScaler("cpu").unscale_(gw.optim.SGD([half], lr=1.0))


OPTIMIZERS: dict[str, Any] = {
    "SGD": {}, "momentum": {"momentum": 0.9}, "Adam": {}, "NAdam": {}, "RAdam": {}, "Adagrad": {},
}  # fmt: skip


def train(kind: str, backend: str | None) -> tuple[list[Any], list[Any], Any]:
    """The scale, the count of good steps and the loss of each step, the steps and parameters
    after them, and the compiled function."""
    gw.manual_seed(0)
    model = gw.nn.Sequential(gw.nn.Linear(3, 4), gw.nn.Tanh(), gw.nn.Linear(4, 1))
    name = "SGD" if kind == "momentum" else kind
    optimizer = getattr(gw.optim, name)(model.parameters(), lr=0.05, **OPTIMIZERS[kind])
    scaler = gw.amp.GradScaler("cpu", init_scale=8.0, growth_interval=2)
    x = gw.randn(5, 3)

    def step(x: Any, slope: Any) -> Any:
        optimizer.zero_grad()
        with gw.autocast("cpu", dtype=gw.float16):
            loss = (model(x) ** 2).float().mean()
        scaler.scale(loss * slope).backward()
        scaler.unscale_(optimizer)
        gw.nn.utils.clip_grad_norm_(model.parameters(), 0.1)
        scaler.step(optimizer)
        scaler.update()
        return loss

    run: Any = gw.compile(step, backend=backend) if backend else step
    found = []
    for number in range(7):
        loss = run(x, gw.tensor(float("inf") if number in (0, 4) else 1.0))
        found.append((scaler.state_dict(), loss.item()))
    steps = [state.get("step") for state in optimizer.state_dict()["state"].values()]
    return found, [steps, *(p.tolist() for p in model.parameters())], run


@pytest.mark.parametrize("kind", OPTIMIZERS)
def test_a_compiled_step_skips_what_eager_code_skips(kind: str) -> None:
    eager, after, _ = train(kind, None)
    assert [state["scale"] for state, _ in eager] == [4, 4, 8, 8, 4, 4, 8]
    for backend in ("llvm", "numpy"):
        compiled, found, run = train(kind, backend)
        assert compiled == eager
        assert found[0] == after[0]
        for one, other in zip(found[1:], after[1:]):
            np.testing.assert_allclose(one, other, 1e-6)
        assert len(run.specializations) == 1
        run.check()


def test_parts_of_a_step_inside_a_compiled_function() -> None:
    w = gw.tensor([1.0], requires_grad=True)
    optimizer = gw.optim.SGD([w], lr=0.1)
    scaler = gw.amp.GradScaler("cpu", init_scale=8.0, growth_interval=1)

    @gw.compile
    def forward(x: Any) -> Any:
        scaler.scale((w * x).sum()).backward()
        return scaler.get_scale()

    scales = []
    for slope in (1.0, float("inf"), 1.0):
        optimizer.zero_grad()
        scales.append(forward(gw.tensor([slope])))
        scaler.step(optimizer)
        scaler.update()
    assert scales == [8, 16, 8] and len(forward.specializations) == 1
    assert abs(w.item() - 0.8) < 1e-6

    gw.compile(lambda: scaler.step(optimizer))()
    with pytest.raises(RuntimeError, match="belongs there"):
        scaler.update()
    scaler.unscale_(optimizer)
    with pytest.raises(RuntimeError, match="outside it"):
        gw.compile(lambda: scaler.step(optimizer))()
    scaler.update()

    def branching() -> float:
        scaler.step(optimizer)
        scaler.update()
        return 1.0 if scaler.get_scale() > 2 else 0.0

    before = scaler.state_dict()
    with pytest.raises(Exception, match="branch on <scale of ScalerState"):
        gw.compile(branching)()
    assert scaler.state_dict() == before
    scaler.step(optimizer)
    scaler.update()
