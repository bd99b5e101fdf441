"""detect_anomaly: backward stops at the first gradient that is NaN, where PyTorch's does."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import gradwalk as gw
from gradwalk.autograd import detect_anomaly, set_detect_anomaly
from tests.batches import batched

# Losses of x = [0, 1] whose backward makes a NaN, each at another operation.
LOSSES: dict[str, Any] = {
    "sqrt": lambda lib, x: (x.sqrt() * 0).sum(),
    "log": lambda lib, x: (x.log() * x).exp().sum(),
    "div": lambda lib, x: (x / x).sum(),
    "norm": lambda lib, x: (lib.where(x > 0.5, x, (x - x).abs().sqrt())).sum(),
}


@batched("label", LOSSES)
def test_the_operation_is_pytorchs(label: str) -> None:
    messages = []
    for lib in (gw, torch):
        x = lib.tensor([0.0, 1.0], requires_grad=True)
        with (
            pytest.warns(UserWarning) if lib is torch else detect_anomaly(),
            pytest.raises(RuntimeError, match="returned nan values") as caught,
            lib.autograd.detect_anomaly(),
        ):
            LOSSES[label](lib, x).backward()
        messages.append(str(caught.value).partition("returned")[0])
    assert messages[0] == messages[1]


def test_the_error_names_the_line() -> None:
    x = gw.tensor([0.0], requires_grad=True)
    with detect_anomaly(), pytest.raises(gw.AutogradError) as caught:
        (x.sqrt() * 0).sum().backward()  # the line
    assert "SqrtBackward0" in str(caught.value)
    assert "# the line" in str(caught.value)
    assert caught.value.gradwalk_line is not None


def test_it_is_off_outside_and_without_check_nan() -> None:
    def slope() -> float:
        x = gw.tensor(0.0, requires_grad=True)
        (x.sqrt() * 0).backward()
        return x.grad.item()

    assert slope() != slope()  # NaN
    with detect_anomaly(check_nan=False):
        assert slope() != slope()
        with detect_anomaly(), pytest.raises(RuntimeError):
            slope()
        assert slope() != slope()
    assert slope() != slope()
    with set_detect_anomaly(True), pytest.raises(RuntimeError):
        slope()
    assert slope() != slope()
    set_detect_anomaly(True)
    try:
        with set_detect_anomaly(False):
            assert slope() != slope()
        with pytest.raises(RuntimeError):
            slope()
    finally:
        set_detect_anomaly(False)


def test_inside_a_recording_and_compiled() -> None:
    x = gw.tensor([0.0], requires_grad=True)
    with gw.record(), detect_anomaly(), pytest.raises(RuntimeError, match="SqrtBackward0"):
        (x.sqrt() * 0).sum().backward()
    step = gw.compile(gw.grad(lambda x: (x.sqrt() * 0).sum()))
    with detect_anomaly():  # compiled code has no visits to look at
        assert step(gw.tensor([4.0])).tolist() == [0]

    @gw.compile
    def backward(x: Any) -> Any:
        (x.sqrt() * 0).sum().backward()

    for look in (True, False):
        y = gw.tensor([4.0], requires_grad=True)
        with set_detect_anomaly(look):
            backward(y)
        assert y.grad.tolist() == [0]


def test_healthy_gradients_are_the_same() -> None:
    x = gw.tensor([1.0, 2.0], requires_grad=True)
    with detect_anomaly():
        (x.exp() * x).sum().backward()
    assert x.grad.tolist() == pytest.approx(((1 + x) * x.exp()).tolist())


def test_names_of_pytorch() -> None:
    x = gw.tensor(1.0, requires_grad=True)
    assert x.exp().grad_fn.name() == "ExpBackward0"
    assert repr(x.exp().grad_fn) == "<Exp>"
    assert gw.autograd.function.once_differentiable is gw.autograd.once_differentiable
    assert gw.autograd.function.Function is gw.autograd.Function
