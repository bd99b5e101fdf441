"""Tensors on a device: where they are, moving, mixing, training, compiled and not."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest

import gradwalk as gw
from gradwalk import nn


def test_moving_there_and_back() -> None:
    x = gw.arange(6.0).reshape(2, 3)
    moved = x.to("xla")
    assert moved.device == gw.device("xla:0") and not moved.is_cpu and moved.to("xla") is moved
    assert moved.cpu().tolist() == x.tolist() and x.to("cpu") is x
    assert gw.zeros_like(moved).device == moved.device
    assert "device='xla:0'" in repr(moved)


def test_gradients_flow_between_devices() -> None:
    x = gw.ones(2, requires_grad=True)
    (x.to("xla") * gw.tensor([2.0, 3.0], device="xla")).sum().backward()
    assert x.grad is not None and x.grad.is_cpu and x.grad.tolist() == [2.0, 3.0]


def test_mixing_devices_names_both() -> None:
    x, y = gw.ones(2, device="xla"), gw.ones(2)
    with pytest.raises(RuntimeError, match=r"two devices.*xla:0.*cpu(.|\n)*y = gw|x, y = gw"):
        x + y
    assert (x + gw.tensor(1.0)).tolist() == [2.0, 2.0]  # a single number may be anywhere


def test_writing_to_another_device() -> None:
    """Only `copy_` and `x[i] = y` cross devices, and a single number of the CPU."""
    there, here = gw.ones(2, device="xla"), gw.ones(2)
    for write in (
        lambda: here.add_(there),
        lambda: there.mul_(here),
        lambda: here.add_(there.sum()),
        lambda: gw.tensor(1.0).add_(there.sum()),
        lambda: gw.where(there > 0, here, there),
        lambda: here[gw.tensor([0], device="xla")],
        lambda: nn.Linear(2, 1, device="xla")(here),
    ):
        with pytest.raises(
            RuntimeError, match=r"two devices(.|\n)*made at(.|\n)*made at(.|\n)*Fix"
        ):
            write()
    with pytest.raises(RuntimeError, match="a gradient on cpu"):
        there.requires_grad_().grad = gw.ones(2)
    with pytest.raises(gw.AutogradError, match="a gradient on cpu"):
        (there * 2).backward(gw.ones(2))
    assert here.tolist() == [1.0, 1.0]


def test_moving_in_a_compiled_function() -> None:
    """To the device that it runs on."""
    there, here = gw.ones(3, device="xla"), gw.arange(3.0)
    assert gw.compile(lambda x: x.to("xla") * there)(here).tolist() == [0.0, 1.0, 2.0]
    assert gw.compile(lambda x: x * here.to("xla"))(there).device == there.device
    with pytest.raises(gw.TraceError, match=r"runs on xla:0 moves a tensor to the CPU"):
        gw.compile(lambda x: x.cpu() * 2)(there)
    with pytest.raises(gw.TraceError, match=r"tensors to xla:0.*on cpu(.|\n)*before the call"):
        gw.compile(lambda x: x.to("xla") * 2)(here)


def test_numpy_needs_the_cpu() -> None:
    with pytest.raises(TypeError, match=r"x\.cpu\(\)\.numpy\(\)"):
        gw.ones(2, device="xla").numpy()


def test_writes_are_seen_through_views() -> None:
    x = gw.arange(6.0, device="xla").reshape(2, 3)
    row = x[0]
    row.mul_(10)
    x[1, 1:] = gw.tensor([7.0, 8.0], device="xla")
    assert x.tolist() == [[0.0, 10.0, 20.0], [3.0, 7.0, 8.0]] and row.tolist() == [0.0, 10.0, 20.0]
    assert x[x > 7].tolist() == [10.0, 20.0, 8.0]


@pytest.mark.parametrize("compiled", [False, True])
def test_training_is_that_of_the_cpu(compiled: bool) -> None:
    """With dropout, layer norm, cross entropy and AdamW; random numbers are the CPU's."""
    gw.manual_seed(0)
    model = gw.nn.Sequential(
        gw.nn.Linear(4, 8), gw.nn.ReLU(), gw.nn.Dropout(0.2), gw.nn.LayerNorm(8), gw.nn.Linear(8, 3)
    )
    inputs = np.random.default_rng(0).standard_normal((16, 4)).astype(np.float32)

    def losses(device: str) -> list[float]:
        gw.manual_seed(1)
        own = copy.deepcopy(model).to(device)
        optimizer = gw.optim.AdamW(own.parameters(), lr=1e-2)
        x, y = gw.tensor(inputs, device=device), gw.tensor(np.arange(16) % 3, device=device)

        def step(x: Any, y: Any) -> Any:
            optimizer.zero_grad()
            loss = gw.nn.functional.cross_entropy(own(x), y)
            loss.backward()
            optimizer.step()
            return loss

        run = gw.compile(step) if compiled else step
        return [run(x, y).item() for _ in range(6)]

    np.testing.assert_allclose(losses("xla"), losses("cpu"), 1e-5)


@pytest.mark.parametrize("compiled", [False, True])
def test_an_index_out_of_range_raises(compiled: bool) -> None:
    w = gw.ones(4, 2, device="xla", requires_grad=True)

    def pick(i: Any) -> Any:
        return w[i].sum() + gw.nn.functional.embedding(i, w).sum()

    run = gw.compile(pick) if compiled else pick
    assert run(gw.tensor([0, 3], device="xla")).item() == 8.0
    with pytest.raises(IndexError, match="index 4 is out of range"):
        run(gw.tensor([0, 4], device="xla")).item()
