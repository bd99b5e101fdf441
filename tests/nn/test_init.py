"""`nn.init`, and what layers start from: the distributions of PyTorch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import gradwalk as gw

init = gw.nn.init
WIDE = (300, 200)

# Each with a shape large enough that mean, deviation and range are known to a few per cent.
FILLS: dict[str, Any] = {
    "uniform_": [((60000,), {}), ((60000,), dict(a=-3.0, b=1.0))],
    "normal_": [((60000,), {}), ((60000,), dict(mean=2.0, std=0.3))],
    "trunc_normal_": [
        ((60000,), {}),
        ((60000,), dict(std=0.02)),
        ((60000,), dict(mean=0.5, std=2.0, a=0.0, b=1.0)),
        ((60000,), dict(a=1.5, b=2.0)),
    ],
    "constant_": [((7,), dict(val=0.3))],
    "ones_": [((7,), {})],
    "zeros_": [((7,), {})],
    "eye_": [((3, 5), {}), ((5, 3), {})],
    "dirac_": [((4, 3, 3), {}), ((4, 2, 3, 4), dict(groups=2)), ((2, 3, 3, 2, 3), {})],
    "xavier_uniform_": [(WIDE, {}), ((40, 30, 5, 5), dict(gain=2.0))],
    "xavier_normal_": [(WIDE, {}), ((40, 30, 5, 5), dict(gain=2.0))],
    "kaiming_uniform_": [
        (WIDE, {}),
        (WIDE, dict(a=2.0, mode="fan_out")),
        ((40, 30, 5, 5), dict(nonlinearity="relu")),
    ],
    "kaiming_normal_": [(WIDE, {}), (WIDE, dict(mode="fan_out", nonlinearity="tanh"))],
    "orthogonal_": [(WIDE, {}), ((200, 300), dict(gain=2.0)), ((30, 20, 5, 5), {})],
    "sparse_": [(WIDE, dict(sparsity=0.25)), (WIDE, dict(sparsity=0.1, std=1.0))],
}


def assert_same_distribution(ours: np.ndarray, theirs: np.ndarray) -> None:
    assert ours.shape == theirs.shape and ours.dtype == theirs.dtype
    spread = max(theirs.std(), 1e-30)
    assert abs(ours.mean() - theirs.mean()) < 0.05 * spread + 1e-7
    assert ours.std() == pytest.approx(theirs.std(), rel=0.05, abs=1e-7)
    quantiles = np.linspace(0.05, 0.95, 7)
    difference = np.quantile(ours, quantiles) - np.quantile(theirs, quantiles)
    assert np.abs(difference).max() < 0.1 * spread + 1e-7


@pytest.mark.parametrize("name, shape, options", [(n, *c) for n, cs in FILLS.items() for c in cs])
def test_distribution_is_pytorchs(name: str, shape: tuple[int, ...], options: Any) -> None:
    gw.manual_seed(0)
    torch.manual_seed(0)
    ours, theirs = gw.nn.Parameter(gw.zeros(*shape)), torch.nn.Parameter(torch.zeros(*shape))
    assert getattr(init, name)(ours, **options) is ours
    getattr(torch.nn.init, name)(theirs, **options)
    assert ours.is_leaf and ours.requires_grad
    mine, other = ours.detach().numpy(), theirs.detach().numpy()
    if name in ("constant_", "ones_", "zeros_", "eye_", "dirac_"):
        np.testing.assert_array_equal(mine, other)
    else:
        assert_same_distribution(mine, other)
    if "uniform" in name:
        assert np.abs(mine).max() == pytest.approx(np.abs(other).max(), rel=1e-3)
    if name == "trunc_normal_":
        assert mine.min() >= options.get("a", -2.0) and mine.max() <= options.get("b", 2.0)
    if name == "sparse_":
        assert ((mine == 0).sum(0) == (other == 0).sum(0)).all()
    if name == "orthogonal_":
        flat = mine.reshape(len(mine), -1)
        small = flat @ flat.T if flat.shape[0] < flat.shape[1] else flat.T @ flat
        gain = options.get("gain", 1.0)
        np.testing.assert_allclose(small, np.eye(len(small)) * gain**2, atol=1e-5)


def test_everything_is_there_and_repeats_with_its_generator() -> None:
    names = {n for n in dir(torch.nn.init) if n.endswith("_") and not n.startswith("_")}
    assert names | {"calculate_gain"} == set(init.__all__) == {*FILLS, "calculate_gain"}
    for name, ((shape, options), *_) in FILLS.items():
        if name in ("constant_", "ones_", "zeros_", "eye_", "dirac_"):
            continue
        one, two = (
            getattr(init, name)(
                gw.zeros(*shape), **options, generator=gw.Generator().manual_seed(3)
            )
            for _ in range(2)
        )
        assert bool((one == two).all()), name


@pytest.mark.parametrize(
    "name", ["linear", "conv2d", "sigmoid", "tanh", "relu", "leaky_relu", "selu"]
)
def test_gain(name: str) -> None:
    assert init.calculate_gain(name) == torch.nn.init.calculate_gain(name)


def test_gain_of_a_slope_and_errors() -> None:
    theirs = torch.nn.init.calculate_gain("leaky_relu", 0.3)
    assert init.calculate_gain("leaky_relu", 0.3) == theirs
    for call, words in (
        (lambda: init.calculate_gain("gelu"), "no gain is known for 'gelu'"),
        (lambda: init.calculate_gain("leaky_relu", True), "slope"),
        (lambda: init.eye_(gw.zeros(3)), "matrix"),
        (lambda: init.dirac_(gw.zeros(3, 3)), "convolution"),
        (lambda: init.dirac_(gw.zeros(3, 3, 3), groups=2), "groups"),
        (lambda: init.xavier_normal_(gw.zeros(3)), "2 dimensions"),
        (lambda: init.kaiming_normal_(gw.zeros(3, 3), mode="fan"), "mode"),
        (lambda: init.orthogonal_(gw.zeros(3)), "2 dimensions"),
        (lambda: init.sparse_(gw.zeros(3), 0.1), "matrix"),
    ):
        with pytest.raises(ValueError, match=words):
            call()
    assert init.orthogonal_(gw.zeros(0, 3)).shape == (0, 3)


LAYERS = [
    "Linear(300, 200)", "Bilinear(30, 40, 50)", "Embedding(300, 200, padding_idx=1)",
    "Conv1d(30, 40, 5)", "Conv2d(30, 40, 5, groups=2)", "Conv3d(10, 20, 5)",
    "ConvTranspose1d(30, 40, 5)", "ConvTranspose2d(30, 40, 5, groups=2)",
    "BatchNorm2d(5)", "LayerNorm((3, 5))", "RMSNorm(5)", "GroupNorm(2, 4)",
    "InstanceNorm1d(4, affine=True, track_running_stats=True)", "PReLU(3)",
    "RNN(100, 200)", "LSTM(100, 80, 2, bidirectional=True)", "GRU(100, 80)",
    "LSTMCell(100, 80)", "MultiheadAttention(120, 4)",
    "MultiheadAttention(120, 4, kdim=100, vdim=110, add_bias_kv=True)",
    "TransformerEncoderLayer(120, 4, 200)", "TransformerDecoderLayer(120, 4, 200)",
    "Transformer(64, 4, 1, 1, 200, batch_first=True)",
]  # fmt: skip


@pytest.mark.parametrize("text", LAYERS)
def test_layers_start_as_pytorchs(text: str) -> None:
    gw.manual_seed(0)
    torch.manual_seed(0)
    make = eval("lambda m: m." + text)
    ours, theirs = make(gw.nn).state_dict(), make(torch.nn).state_dict()
    assert list(ours) == list(theirs)
    for name, value in ours.items():
        mine, other = value.numpy(), theirs[name].numpy()
        assert mine.shape == other.shape and mine.dtype == other.dtype, name
        if mine.size > 2000:
            assert_same_distribution(mine, other)
        elif other.std() == 0:
            np.testing.assert_array_equal(mine, other)
        else:
            assert np.abs(mine).max() == pytest.approx(np.abs(other).max(), rel=0.5), name
