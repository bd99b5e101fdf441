"""Optimizers that a program defines, as PyTorch's base class lets them: state of any form."""

from __future__ import annotations

import copy
from types import ModuleType
from typing import Any

import pytest
import torch as pytorch

import gradwalk as gw


def factored(torch: ModuleType) -> Any:
    """A class of optimizers whose state has steps, other shapes, containers and tensor options."""

    class Factored(torch.optim.Optimizer):  # type: ignore[misc, name-defined]
        def __init__(self, params: Any, lr: float = 0.1, betas: Any = (0.9, 1.0)) -> None:
            super().__init__(params, {"lr": lr, "betas": betas, "moved": torch.tensor(0.0)})

        def __setstate__(self, state: Any) -> None:
            super().__setstate__(state)
            for group in self.param_groups:
                group.setdefault("nesterov", True)

        @torch.no_grad()  # type: ignore[untyped-decorator]
        def step(self, closure: Any = None) -> None:
            for group in self.param_groups:
                for p in group["params"]:
                    state = self.state[p]
                    if not state:
                        state["step"] = torch.tensor(0.0)
                        state["rows"] = torch.zeros(p.shape[:1])
                        state["bases"] = [torch.eye(p.shape[0]), None]
                        state["more"] = {"scale": torch.tensor(1.0), "name": "x"}
                    state["step"].add_(1)
                    state["rows"].lerp_(p.grad.square().mean(1), 0.5)
                    state["more"]["scale"].mul_(0.5)
                    group["moved"].add_(1.0)
                    update = state["bases"][0] @ p.grad / (state["rows"] + 1e-3).sqrt()[:, None]
                    p.add_(update * state["more"]["scale"], alpha=-group["lr"])

    return Factored


def train(torch: ModuleType) -> list[Any]:
    weight = torch.nn.Parameter(torch.tensor([[1.0, -2.0], [3.0, 0.5]]))
    made = factored(torch)
    optimizer = made([weight])
    for i in range(4):
        if i == 2:  # goes on with another optimizer, which loads what this one saved
            saved = optimizer.state_dict()
            saved["param_groups"][0].pop("nesterov", None)
            optimizer = made([weight])
            optimizer.load_state_dict(copy.deepcopy(saved))
            assert optimizer.param_groups[0]["nesterov"]
        weight.grad = None
        (weight**2).sum().backward()
        optimizer.step()
    state, group = optimizer.state[weight], optimizer.param_groups[0]
    assert isinstance(group["moved"], torch.Tensor) and isinstance(state["step"], torch.Tensor)
    numbers = [weight, state["step"], state["rows"], state["more"]["scale"], group["moved"]]
    return [*(number.tolist() for number in numbers), state["bases"][1], group["betas"]]


def test_state_of_any_form_is_saved_and_loaded() -> None:
    assert flat(train(gw)) == pytest.approx(flat(train(pytorch)))


def flat(value: Any) -> list[float]:
    if isinstance(value, (list, tuple)):
        return [number for v in value for number in flat(v)]
    return [] if value is None else [float(value)]


def test_an_optimizer_of_ours_still_checks_its_options() -> None:
    with pytest.raises(ValueError, match="betas"):
        gw.optim.Adam([gw.zeros(1, requires_grad=True)], betas=(0.9, 1.0))


def test_setstate_is_called_by_copies() -> None:
    weight = gw.zeros(1, requires_grad=True)
    optimizer = factored(gw)([weight])
    assert copy.deepcopy(optimizer).param_groups[0]["nesterov"]


@pytest.mark.parametrize("torch", [gw, pytorch])
def test_groups_that_share_a_list_share_it_after_loading(torch: ModuleType) -> None:
    class Buffered(torch.optim.Optimizer):  # type: ignore[misc, name-defined]
        def __init__(self, params: Any) -> None:
            self._patch_step_function()
            super().__init__(params, {"lr": 0.1, "buffer": [None]})

    groups = [{"params": [torch.ones(1, requires_grad=True)]} for _ in range(2)]
    optimizer = Buffered(groups)
    optimizer.load_state_dict(copy.deepcopy(optimizer.state_dict()))
    first, second = (group["buffer"] for group in optimizer.param_groups)
    assert first is second


@pytest.mark.parametrize("name", ["Adam", "SGD", "RMSprop", "Adagrad"])
def test_a_wrapper_may_keep_something_in_the_state_between_two_steps(name: str) -> None:
    found = []
    for torch in (gw, pytorch):
        p = torch.tensor([1.0, 2.0], requires_grad=True)
        optimizer = getattr(torch.optim, name)([p], lr=0.1)
        for _ in range(2):
            optimizer.state[p]["old"] = p.detach().clone()
            (p * p).sum().backward()
            with torch.no_grad():
                p.copy_(optimizer.state[p].pop("old"))
            optimizer.step()
        found.append(p.tolist())
    assert found[0] == pytest.approx(found[1])
