"""assert_healthy: in tests of people's own, on models of either engine."""

import pytest
import torch
from torch import nn

import gradwalk as gw
from gradwalk.testing import assert_healthy


def healthy():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 3))


def batch_of(rows=32):
    torch.manual_seed(1)
    return torch.randn(rows, 4), torch.randint(0, 3, (rows,))


def sick():
    model = healthy()
    torch.nn.init.constant_(model[0].weight, 0.0)
    model[1] = nn.ReLU()
    torch.nn.init.constant_(model[0].bias, -1.0)
    return model


@pytest.mark.parametrize(
    "loss_fn",
    [
        nn.CrossEntropyLoss(),
        nn.functional.cross_entropy,
        lambda output, target: nn.functional.cross_entropy(output, target),
        lambda model, batch: nn.functional.cross_entropy(model(batch[0]), batch[1]),
        lambda model, x, y: nn.functional.cross_entropy(model(x), y),
    ],
)
def test_a_healthy_model_passes_however_its_loss_is_written(loss_fn):
    model = healthy()
    report = assert_healthy(model, loss_fn, batch_of())
    assert report.healthy and len(report.layers) == 2
    assert all(parameter.grad is None for parameter in model.parameters())


def test_dead_units_fail_with_the_layer_and_the_line():
    with pytest.raises(AssertionError, match="dead") as caught:
        assert_healthy(sick(), nn.CrossEntropyLoss(), batch_of())
    assert "Sequential is not healthy" in str(caught.value)


@pytest.mark.slow
def test_what_is_ignored_does_not_fail():
    kinds = {f.kind for f in _findings(sick())}
    assert_healthy(sick(), nn.CrossEntropyLoss(), batch_of(), ignore=tuple(kinds))


def _findings(model):
    x, y = batch_of()
    with gw.torch.record() as trace:
        nn.functional.cross_entropy(model(x), y).backward()
    return gw.health(model, trace).findings


def test_a_nan_is_named():
    x, y = batch_of()
    x[5, 2] = float("nan")
    with pytest.raises(AssertionError, match="row 5"):
        assert_healthy(healthy(), nn.CrossEntropyLoss(), (x, y))


def test_gradients_stay():
    model = healthy()
    x, y = batch_of()
    nn.functional.cross_entropy(model(x), y).backward()
    before = [parameter.grad.clone() for parameter in model.parameters()]
    assert_healthy(model, nn.CrossEntropyLoss(), (x, y))
    for parameter, gradient in zip(model.parameters(), before, strict=True):
        assert torch.equal(parameter.grad, gradient)


@pytest.mark.slow
def test_a_batch_by_name_and_an_autoencoder():
    class Named(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = healthy()

        def forward(self, x, y):
            return nn.functional.cross_entropy(self.inner(x), y)

    x, y = batch_of()
    torch.manual_seed(0)
    assert_healthy(Named(), lambda output: output, {"x": x, "y": y})
    mirror = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 4))
    assert_healthy(mirror, nn.MSELoss(), x)


def test_a_loss_that_is_no_number_is_told():
    with pytest.raises(TypeError, match=r"shape \(32,\).*Fix"):
        assert_healthy(healthy(), nn.CrossEntropyLoss(reduction="none"), batch_of())
    with pytest.raises(TypeError, match="needs no gradient"):
        assert_healthy(healthy(), lambda model, batch: torch.zeros(()), batch_of())


def test_models_of_our_own():
    gw.manual_seed(0)
    model = gw.nn.Sequential(gw.nn.Linear(4, 16), gw.nn.Tanh(), gw.nn.Linear(16, 3))
    x, y = batch_of()
    pair = gw.tensor(x.numpy()), gw.tensor(y.numpy())
    assert assert_healthy(model, gw.nn.CrossEntropyLoss(), pair).healthy
