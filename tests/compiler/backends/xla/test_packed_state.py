"""Steps whose small memories are packed into one array behave as steps whose memories are not."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import gradwalk as gw
from gradwalk import nn
from gradwalk.compiler.backends.xla import packed_state
from gradwalk.compiler.backends.xla.machine import machine
from gradwalk.compiler.backends.xla.packed_state import PackedValue

WIDTH = 3


@pytest.fixture(params=[False, True], ids=["single", "packed"])
def packs(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[bool]:
    monkeypatch.setattr(machine(gw.device("xla", 0)), "packs_state", request.param)
    monkeypatch.setattr(packed_state, "FEWEST", 4)
    yield request.param


class Training:
    """A small model on the device, its optimizer and a compiled step."""

    def __init__(self) -> None:
        gw.manual_seed(0)
        layers = [nn.Linear(WIDTH, WIDTH), nn.Tanh(), nn.BatchNorm1d(WIDTH), nn.Linear(WIDTH, 2)]
        self.model = nn.Sequential(*layers).to("xla")
        self.optimizer = gw.optim.Adam(self.model.parameters(), lr=0.1)
        self.x = gw.randn(6, WIDTH, device="xla")
        self.y = gw.tensor([0, 1, 1, 0, 1, 0], device="xla")

        @gw.compile
        def step(x: Any, y: Any) -> Any:
            self.optimizer.zero_grad()
            loss = nn.functional.cross_entropy(self.model(x), y)
            loss.backward()
            self.optimizer.step()
            return loss

        self.step = step

    def run(self, count: int = 1, rows: int = 6) -> list[float]:
        return [self.step(self.x[:rows], self.y[:rows]).item() for _ in range(count)]

    @property
    def state(self) -> list[Any]:
        return [a.cpu().numpy().copy() for a in self.model.state_dict().values()]


def held(training: Training) -> list[Any]:
    return [p._array.held for p in training.model.parameters()]


def reference() -> Training:
    """The same, with each memory alone."""
    here: Any = machine(gw.device("xla", 0))
    before, here.packs_state = here.packs_state, False
    try:
        training = Training()
        training.run(4)
        return training
    finally:
        here.packs_state = before


def same(one: list[Any], other: list[Any]) -> None:
    for a, b in zip(one, other, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)


def test_a_step_packs_its_state_and_computes_the_same(packs: bool) -> None:
    training = Training()
    training.run(4)
    assert all(isinstance(value, PackedValue) == packs for value in held(training))
    same(training.state, reference().state)


def test_a_memory_that_was_written_to_is_packed_again(packs: bool) -> None:
    training = Training()
    training.run(2)
    with gw.no_grad():
        training.model[0].weight.mul_(0)
    assert not training.model[0].weight.detach().cpu().numpy().any()
    bias = training.model[0].bias.detach().cpu().numpy().copy()
    training.run(1)
    moved = abs(training.model[0].weight.detach().cpu().numpy()).max()
    assert 0.01 < moved < 0.5  # from zero, by about the learning rate
    assert abs(training.model[0].bias.detach().cpu().numpy() - bias).max() < 0.5
    assert all(isinstance(value, PackedValue) == packs for value in held(training))


def test_clones_and_views_are_what_they_are_without_packs(packs: bool) -> None:
    training = Training()
    training.run(1)
    weight = training.model[0].weight
    kept, view = weight.detach().clone(), weight.detach().view(-1)
    before = kept.cpu().numpy().copy()
    training.run(2)
    np.testing.assert_array_equal(kept.cpu().numpy(), before)
    np.testing.assert_array_equal(view.cpu().numpy(), weight.detach().cpu().numpy().ravel())
    assert abs(view.cpu().numpy() - before.ravel()).max() > 0


def test_a_second_shape_uses_the_same_pack(packs: bool) -> None:
    training = Training()
    training.run(2)
    packs_before = {id(getattr(value, "pack", None)) for value in held(training)}
    with pytest.warns(UserWarning, match="shape"):
        training.run(1, rows=4)
    training.run(1)
    if packs:
        assert {id(value.pack) for value in held(training)} == packs_before


def test_another_function_reads_the_state(packs: bool) -> None:
    training = Training()
    training.run(3)
    training.model.eval()
    evaluate = gw.compile(lambda x: training.model(x))
    got = evaluate(training.x).detach().cpu().numpy()
    on_cpu = copy.deepcopy(training.model).to("cpu")
    np.testing.assert_allclose(got, on_cpu(training.x.cpu()).detach().numpy(), rtol=1e-5, atol=1e-5)


def test_programs_that_share_some_of_their_state(packs: bool) -> None:
    """One accumulates gradients, the other uses and clears them."""
    gw.manual_seed(0)
    model = nn.Sequential(*(nn.Linear(WIDTH, WIDTH) for _ in range(3))).to("xla")
    optimizer = gw.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    x = gw.randn(4, WIDTH, device="xla")
    for p in model.parameters():
        p.grad = gw.zeros_like(p)

    @gw.compile
    def accumulate(x: Any) -> Any:
        loss = model(x).square().mean()
        loss.backward()
        return loss

    @gw.compile
    def update() -> None:
        optimizer.step()
        optimizer.zero_grad(set_to_none=False)

    losses = []
    for _ in range(4):
        losses += [accumulate(x).item() for _ in range(2)]
        update()
    gw.manual_seed(0)
    twin = nn.Sequential(*(nn.Linear(WIDTH, WIDTH) for _ in range(3)))
    other = gw.optim.SGD(twin.parameters(), lr=0.1, momentum=0.9)
    expected = []
    for _ in range(4):
        other.zero_grad()
        for _ in range(2):
            loss = twin(x.cpu()).square().mean()
            loss.backward()
            expected.append(loss.item())
        other.step()
    np.testing.assert_allclose(losses, expected, rtol=1e-5)


def test_a_step_that_fails_leaves_the_pack_as_it_was(packs: bool) -> None:
    training = Training()
    training.run(2)
    before = training.state
    training.y[0] = 7
    with pytest.raises(IndexError):
        training.run(1)
    same(training.state, before)
    training.y[0] = 0
    training.run(2)
    same(training.state, reference().state)


def test_the_state_is_saved_and_loaded(packs: bool, tmp_path: Any) -> None:
    training = Training()
    training.run(2)
    parts = {"model": training.model, "optimizer": training.optimizer}
    gw.save_run(tmp_path / "run.safetensors", **parts)
    saved = training.state
    training.run(2)
    after = training.state
    gw.load_run(tmp_path / "run.safetensors", **parts)
    same(training.state, saved)
    training.run(2)
    same(training.state, after)
