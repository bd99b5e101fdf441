"""The first layers, against PyTorch's."""

from itertools import pairwise

import numpy as np
import pytest
import torch

import gradwalk as gw


def twins(*sizes: int) -> tuple[gw.nn.Sequential, torch.nn.Sequential]:
    """The same network twice, with the same numbers."""
    ours, theirs = [], []
    for inputs, outputs in pairwise(sizes):
        ours += [gw.nn.Linear(inputs, outputs), gw.nn.ReLU()]
        theirs += [torch.nn.Linear(inputs, outputs), torch.nn.ReLU()]
    ours_net, theirs_net = gw.nn.Sequential(*ours[:-1]), torch.nn.Sequential(*theirs[:-1])
    with torch.no_grad():
        for mine, other in zip(ours_net.parameters(), theirs_net.parameters(), strict=True):
            other.copy_(torch.from_numpy(mine.detach().numpy()))
    return ours_net, theirs_net


def test_gradients_equal_pytorch() -> None:
    ours, theirs = twins(2, 16, 16, 2)
    x = np.random.default_rng(0).standard_normal((100, 2)).astype(np.float32)
    y = np.random.default_rng(1).integers(0, 2, 100)
    loss = gw.nn.functional.cross_entropy(ours(gw.tensor(x)), gw.tensor(y))
    expected = torch.nn.functional.cross_entropy(theirs(torch.from_numpy(x)), torch.from_numpy(y))
    loss.backward()
    expected.backward()
    assert loss.item() == pytest.approx(expected.item(), rel=1e-5)
    for mine, other in zip(ours.parameters(), theirs.parameters(), strict=True):
        assert mine.grad is not None
        np.testing.assert_allclose(mine.grad.numpy(), other.grad.numpy(), rtol=1e-4, atol=1e-7)


def test_text_and_names_are_pytorchs() -> None:
    ours, theirs = twins(2, 3, 1)
    assert repr(ours) == repr(theirs)
    names = [name for name, _ in ours.named_parameters()]
    assert names == [name for name, _ in theirs.named_parameters()]


def test_a_tied_parameter_is_listed_once() -> None:
    class Tied(gw.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.one = gw.nn.Linear(3, 3, bias=False)
            self.other = gw.nn.Linear(3, 3, bias=False)
            self.other.weight = self.one.weight

    assert [name for name, _ in Tied().named_parameters()] == ["one.weight"]


def test_modes_and_zero_grad() -> None:
    net, _ = twins(2, 3, 1)
    net.eval()
    assert not any(module.training for _, module in net.named_modules())
    net(gw.zeros(1, 2)).sum().backward()
    assert all(p.grad is not None for p in net.parameters())
    net.zero_grad()
    assert all(p.grad is None for p in net.parameters())


@pytest.mark.parametrize("shape", [(4,), (5, 4), (2, 3, 4), (0, 4)])
@pytest.mark.parametrize("bias", [True, False])
def test_linear_of_any_leading_shape(shape: tuple[int, ...], bias: bool) -> None:
    layer = gw.nn.Linear(4, 2, bias=bias, dtype=gw.float64)
    x = gw.rand(*shape, dtype=gw.float64, requires_grad=True)
    other = torch.tensor(x.detach().numpy(), requires_grad=True)
    weight = torch.tensor(layer.weight.detach().numpy(), requires_grad=True)
    offset = torch.tensor(layer.bias.detach().numpy(), requires_grad=True) if bias else None
    out = layer(x)
    expected = torch.nn.functional.linear(other, weight, offset)
    np.testing.assert_allclose(out.detach().numpy(), expected.detach().numpy())
    (out * out).sum().backward()
    (expected * expected).sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), other.grad.numpy())
    np.testing.assert_allclose(layer.weight.grad.numpy(), weight.grad.numpy())
    if offset is not None:
        np.testing.assert_allclose(layer.bias.grad.numpy(), offset.grad.numpy())


@pytest.mark.parametrize("shape", [(5, 4), (2, 4, 3), (2, 4, 3, 3)])
def test_converted_batch_norm_computes_the_same(shape: tuple[int, ...]) -> None:
    """On one process PyTorch's SyncBatchNorm needs a GPU: its converter is compared."""

    def made(lib):
        kind = [lib.nn.BatchNorm1d, lib.nn.BatchNorm1d, lib.nn.BatchNorm2d][len(shape) - 2]
        return lib.nn.Sequential(lib.nn.Sequential(kind(4, eps=1e-3)), lib.nn.ReLU()).eval()

    plain, other = made(gw), made(torch)
    names = list(plain.state_dict())
    plain[0][0].train()
    parameters = list(plain.parameters())
    converted = gw.nn.SyncBatchNorm.convert_sync_batchnorm(plain)
    other = torch.nn.SyncBatchNorm.convert_sync_batchnorm(other)
    assert repr(converted).replace(" bias=True,", "") == repr(other).replace(" bias=True,", "")
    assert list(converted.state_dict()) == names == list(other.state_dict())
    assert all(a is b for a, b in zip(converted.parameters(), parameters, strict=True))
    assert converted[0][0].training
    assert not converted[1].training
    x = gw.randn(*shape)
    expected = torch.nn.functional.batch_norm(
        torch.tensor(x.numpy()), None, None, training=True, eps=1e-3
    )
    np.testing.assert_allclose(converted[0](x).detach().numpy(), expected, 1e-4, 1e-5)
    assert converted[0][0].num_batches_tracked.item() == 1
    with pytest.raises(ValueError, match="takes 2 dim"):
        converted(gw.zeros(4))
    with pytest.raises(NotImplementedError, match="no process groups"):
        gw.nn.SyncBatchNorm(4, process_group=object())
