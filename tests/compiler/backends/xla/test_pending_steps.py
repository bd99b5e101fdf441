"""A compiled step that fails on a device changes nothing, though the host learns of it later."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gradwalk as gw


class Training:
    """An embedding, dropout and Adam: indices, random numbers and counts."""

    def __init__(self, check: Any = True) -> None:
        gw.manual_seed(0)
        self.model = gw.nn.Sequential(
            gw.nn.Embedding(10, 8), gw.nn.Flatten(), gw.nn.Dropout(0.1), gw.nn.Linear(16, 10)
        ).to("xla")
        self.optimizer = gw.optim.AdamW(self.model.parameters(), 1e-2)
        self.step = gw.compile(self._step, check=check)

    def _step(self, x: Any, y: Any, scale: float = 1.0) -> Any:
        self.optimizer.zero_grad()
        loss = gw.nn.functional.cross_entropy(self.model(x) * scale, y)
        loss.backward()
        self.optimizer.step()
        return loss

    def state(self) -> Any:
        first = next(iter(self.model.parameters()))
        numbers = [p.tolist() for p in self.model.parameters()]
        return numbers, self.optimizer.state[first]["step"], gw.rand(1).item()


def batch(wrong: bool = False) -> tuple[Any, Any]:
    x, y = np.arange(8).reshape(4, 2), np.arange(4)
    if wrong:
        x[1, 1] = 10
    return gw.tensor(x, device="xla"), gw.tensor(y, device="xla")


def without_failures(*more: Any, check: Any = True) -> Any:
    training = Training(check)
    for _ in range(4):
        training.step(*batch(), *more)
    return training.state()


@pytest.mark.parametrize("noticed", ["by reading", "by calling", "at once", "by waiting"])
def test_nothing_changes(noticed: str) -> None:
    training = Training()
    for _ in range(3):
        training.step(*batch())
    with pytest.raises(IndexError, match=r"index 10 is out .* in embedding(.|\n)*test_pending"):
        bad = training.step(*batch(wrong=True))
        if noticed == "at once":
            bad.item()
        if noticed == "by waiting":
            gw.cuda.synchronize()
        later = [training.step(*batch()) for _ in range(3 if noticed == "by reading" else 12)]
        later[0].item()
    training.step(*batch())
    assert training.state() == without_failures()


def test_not_finite() -> None:
    training = Training(check="finite")
    for _ in range(3):
        training.step(*batch(), 1.0)
    with pytest.raises(FloatingPointError, match=r"made NaN(.|\n)*test_pending_steps.py"):
        training.step(*batch(), 3e38)
        training.step(*batch(), 1.0).item()
    training.step(*batch(), 1.0)
    assert training.state() == without_failures(1.0, check="finite")


def test_a_clone_survives_the_donation_of_its_original() -> None:
    w = gw.ones(3, device="xla", requires_grad=True)
    optimizer = gw.optim.SGD([w], 0.5)

    @gw.compile
    def step() -> Any:
        optimizer.zero_grad()
        loss = (w * w).sum()
        loss.backward()
        optimizer.step()
        return loss

    copy, view = w.detach().clone(), w.detach()
    step()
    average = w.detach().clone()
    step()
    assert copy.tolist() == [1.0] * 3 and average.tolist() == [0.0] * 3
    assert view.tolist() == w.tolist()


def test_an_index_out_of_range_in_a_loop() -> None:
    table = gw.ones(4, 3, device="xla", requires_grad=True)
    cell = gw.nn.RNN(3, 3).to("xla")

    @gw.compile
    def loss(i: Any) -> Any:
        return cell(gw.nn.functional.embedding(i, table))[0].sum()

    assert np.isfinite(loss(gw.tensor([[0], [3]], device="xla")).item())
    with pytest.raises(IndexError, match="index 4 is out of range"):
        loss(gw.tensor([[0], [4]], device="xla")).item()
