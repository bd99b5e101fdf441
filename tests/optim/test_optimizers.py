"""The first optimizers track PyTorch's."""

import numpy as np
import pytest
import torch

import gradwalk as gw

CASES = [
    ("SGD", {"lr": 0.1}),
    ("AdamW", {}),
    ("AdamW", {"lr": 0.05, "betas": (0.8, 0.95), "eps": 1e-6, "weight_decay": 0.1}),
]


@pytest.mark.parametrize(("name", "options"), CASES)
def test_fifty_steps_in_float64(name: str, options: dict[str, object]) -> None:
    start = np.random.default_rng(0).standard_normal((3, 4))
    target = np.random.default_rng(1).standard_normal((3, 4))
    ours = gw.tensor(start, requires_grad=True)
    theirs = torch.tensor(start, requires_grad=True)
    optimizer = getattr(gw.optim, name)([ours], **options)
    oracle = getattr(torch.optim, name)([theirs], **options)
    for _ in range(50):
        optimizer.zero_grad()
        oracle.zero_grad()
        ((ours - gw.tensor(target)) ** 2).sum().backward()
        ((theirs - torch.tensor(target)) ** 2).sum().backward()
        optimizer.step()
        oracle.step()
    np.testing.assert_allclose(ours.detach().numpy(), theirs.detach().numpy(), rtol=1e-12)


def test_groups_have_their_own_options_and_parameters_without_gradient_stay() -> None:
    a, b = gw.tensor([1.0], requires_grad=True), gw.tensor([1.0], requires_grad=True)
    unused = gw.tensor([1.0], requires_grad=True)
    optimizer = gw.optim.SGD([{"params": [a]}, {"params": [b, unused], "lr": 1.0}], lr=0.5)
    (a + b).sum().backward()
    optimizer.step()
    assert [p.item() for p in (a, b, unused)] == [0.5, 0.0, 1.0]


def test_a_step_between_forward_and_backward_is_caught() -> None:
    w = gw.tensor([1.0], requires_grad=True)
    optimizer = gw.optim.SGD([w], lr=0.5)
    (w * w).sum().backward()
    loss = (w * w).sum()
    optimizer.step()
    with pytest.raises(gw.AutogradError, match="modified in place"):
        loss.backward()


def test_bad_parameters_are_refused() -> None:
    with pytest.raises(ValueError, match="no parameters"):
        gw.optim.SGD([])
    with pytest.raises(TypeError, match="leaf"):
        gw.optim.SGD([gw.tensor([1.0], requires_grad=True) * 2])
