"""The numbers of a step are those of the definition, and other steps are not measured."""

import pytest
import torch
from torch import nn

import gradwalk.torch


def test_the_numbers_of_adam() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    with gradwalk.torch.LayerNumbers(model, optimizer, every=3) as numbers:
        for step in range(4):
            optimizer.zero_grad()
            model(torch.randn(16, 4)).square().mean().backward()
            before = [p.detach().clone() for p in model[0].parameters()]
            optimizer.step()
            if step == 3:
                after = [p.detach().clone() for p in model[0].parameters()]
    assert [row["step"] for row in numbers.history] == [0.0, 3.0]

    def norm(tensors: list[torch.Tensor]) -> float:
        return float(torch.cat([t.flatten() for t in tensors]).norm())

    states = [optimizer.state[p] for p in model[0].parameters()]
    expected = {
        "grad_norm": norm([p.grad for p in model[0].parameters()]),
        "weight_norm": norm(before),
        "update_norm": norm([b - a for a, b in zip(before, after)]),
        "update_ratio": norm([b - a for a, b in zip(before, after)]) / norm(before),
        "first_moment": norm([s["exp_avg"] for s in states]),
        "second_moment": norm([s["exp_avg_sq"].sqrt() for s in states]),
    }
    for name, value in expected.items():
        assert numbers.last[f"0/{name}"] == pytest.approx(value, rel=1e-5)
    parts = [numbers.last[f"{layer}/grad_norm"] for layer in ("0", "2")]
    assert numbers.last["all/grad_norm"] == pytest.approx(sum(x * x for x in parts) ** 0.5)


def test_two_optimizers_share_a_row_and_sgd_has_no_moments() -> None:
    model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 1))
    optimizers = [torch.optim.SGD(layer.parameters(), lr=0.1) for layer in model]
    numbers = gradwalk.torch.LayerNumbers(model, optimizers, every=1)
    for _ in range(2):
        model(torch.ones(3, 2)).sum().backward()
        for optimizer in optimizers:
            optimizer.step()
    numbers.remove()
    assert len(numbers.history) == 2
    assert {"0/update_norm", "1/update_norm"} <= set(numbers.last)
    assert not any("moment" in name for name in numbers.last)


def test_measuring_does_not_change_the_training() -> None:
    def trained(measured: bool) -> torch.Tensor:
        torch.manual_seed(0)
        model = nn.Linear(3, 1)
        optimizer = torch.optim.AdamW(model.parameters())
        numbers = gradwalk.torch.LayerNumbers(model, optimizer, 2) if measured else None
        for _ in range(5):
            optimizer.zero_grad()
            model(torch.randn(4, 3)).square().sum().backward()
            optimizer.step()
        if numbers:
            numbers.remove()
        return model.weight.detach()

    assert torch.equal(trained(True), trained(False))
