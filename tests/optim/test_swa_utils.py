"""Averaged weights are PyTorch's."""

from typing import Any

import numpy as np
import pytest
import torch

import gradwalk as gw

MAKERS: dict[str, Any] = {
    "mean": lambda u: {},
    "one function": lambda u: {"avg_fn": lambda a, b, n: 0.3 * a + 0.7 * b},
    "swa": lambda u: {"avg_fn": u.get_swa_avg_fn()},
    "ema": lambda u: {"multi_avg_fn": u.get_ema_multi_avg_fn(0.8)},
    "ema with buffers": lambda u: {"avg_fn": u.get_ema_avg_fn(0.8), "use_buffers": True},
    "mean with buffers": lambda u: {"use_buffers": True},
}


def trained(m: Any, options: Any) -> Any:
    (gw.manual_seed(0, like="torch") if m is gw else torch.manual_seed(0))
    utils = m.optim.swa_utils
    model = m.nn.Sequential(m.nn.Linear(3, 4), m.nn.BatchNorm1d(4), m.nn.Linear(4, 1))
    average = utils.AveragedModel(model, **options(utils))
    optimizer = m.optim.SGD(model.parameters(), lr=0.1)
    batches = [m.randn(6, 3) for _ in range(4)]
    for x in batches:
        model(x).pow(2).mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        average.update_parameters(model)
    return average, batches


@pytest.mark.parametrize("options", MAKERS.values(), ids=MAKERS)
def test_the_average_is_pytorchs(options: Any) -> None:
    ours, theirs = trained(gw, options)[0], trained(torch, options)[0]
    expected = theirs.state_dict()
    assert list(ours.state_dict()) == list(expected)
    for name, value in ours.state_dict().items():
        np.testing.assert_allclose(value.numpy(), expected[name].numpy(), 1e-5, 1e-6, err_msg=name)


def test_batch_norm_is_measured_again() -> None:
    found = []
    for m in (gw, torch):
        average, batches = trained(m, MAKERS["mean"])
        average.eval()
        m.optim.swa_utils.update_bn([(x, None) for x in batches], average)
        norm = average.module[1]
        assert norm.momentum == 0.1 and not average.training
        found.append([norm.running_mean.numpy(), norm.running_var.numpy()])
    np.testing.assert_allclose(found[0], found[1], 1e-5, 1e-6)


@pytest.mark.parametrize("strategy", ["cos", "linear"])
@pytest.mark.parametrize("epochs", [0, 1, 4])
def test_the_rate_is_pytorchs(strategy: str, epochs: int) -> None:
    rates: list[list[float]] = []
    for m in (gw, torch):
        groups = [{"params": [m.zeros(1, requires_grad=True)], "lr": lr} for lr in (1.0, 0.5)]
        optimizer = m.optim.SGD(groups)
        schedule = m.optim.swa_utils.SWALR(optimizer, [0.1, 0.2], epochs, strategy)
        rates.append([])
        for _ in range(6):
            rates[-1] += schedule.get_last_lr()
            optimizer.step()
            schedule.step()
    assert rates[0] == pytest.approx(rates[1])


def test_wrong_options_are_refused() -> None:
    utils, model = gw.optim.swa_utils, gw.nn.Linear(1, 1)
    with pytest.raises(AssertionError, match="not both"):
        utils.AveragedModel(
            model, avg_fn=utils.get_swa_avg_fn(), multi_avg_fn=utils.get_swa_multi_avg_fn()
        )
    with pytest.raises(ValueError, match="from 0 to 1"):
        utils.get_ema_avg_fn(2.0)
    optimizer = gw.optim.SGD(model.parameters(), lr=0.1)
    with pytest.raises(ValueError, match="'cos' or 'linear'"):
        utils.SWALR(optimizer, 0.1, anneal_strategy="poly")
    with pytest.raises(ValueError, match="whole number"):
        utils.SWALR(optimizer, 0.1, anneal_epochs=-1)
