"""Random numbers: seeded streams, their states, and PyTorch's own numbers."""

import itertools
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import gradwalk as gw
from tests.batches import batched

SIZES = [0, 1, 3, 15, 16, 17, 31, 32, 100, 1000]
# What PyTorch computes with approximations of log and sin, or rounds at another step.
ROUNDED = (
    "normal", "randn", "exponential", "cauchy", "log_normal", "gamma", "beta", "Dirichlet", "rrelu",
    "alpha_dropout",
)  # fmt: skip


def between(m: Any, low: float, high: float, n: int, dtype: Any) -> Any:
    """Numbers from `low` to `high`, by arithmetic that both libraries round alike."""
    return m.arange(n).to(dtype) * 37 % 101 / 100 * (high - low) + low


def permuted(m: Any, n: int, dtype: Any) -> Any:
    """(2, 3, n), of which the dimensions in memory are (3, 2, n)."""
    return m.zeros(3, 2, n, dtype=dtype).transpose(0, 1)


DRAWS: dict[str, Any] = {
    "rand": lambda m, n, d: m.rand(n, dtype=d),
    "randn": lambda m, n, d: m.randn(n, dtype=d),
    "rand in two dimensions": lambda m, n, d: m.rand(2, n, dtype=d),
    "randn in two dimensions": lambda m, n, d: m.randn(3, n, dtype=d),
    "randint": lambda m, n, d: m.randint(0, 10, (n,)),
    "randint from below zero": lambda m, n, d: m.randint(-7, 2**20, (n,)),
    "randint of a large range": lambda m, n, d: m.randint(0, 2**28, (n,)),
    "randint of a huge range": lambda m, n, d: m.randint(-3, 2**45, (n,)),
    "randint of every number": lambda m, n, d: m.randint(-(2**63), 2**63 - 1, (n,)),
    "randint_like": lambda m, n, d: m.randint_like(m.zeros(n, dtype=d), 3, 9),
    "randperm": lambda m, n, d: m.randperm(n),
    "uniform_": lambda m, n, d: m.empty(n, dtype=d).uniform_(-0.3, 0.7),
    "normal_": lambda m, n, d: m.empty(n, dtype=d).normal_(0.3, 0.02),
    "normal of numbers": lambda m, n, d: m.normal(0.3, 2.0, (n,), dtype=d),
    "normal of tensors": lambda m, n, d: m.normal(m.ones(n, dtype=d), m.full((n,), 0.3, dtype=d)),
    "normal of a mean": lambda m, n, d: m.normal(m.ones(n, dtype=d), 0.3),
    "normal of a std": lambda m, n, d: m.normal(0.5, m.full((n,), 0.3, dtype=d)),
    "exponential_": lambda m, n, d: m.empty(n, dtype=d).exponential_(2.5),
    "bernoulli_": lambda m, n, d: m.empty(n, dtype=d).bernoulli_(0.3),
    "bernoulli_ of a tensor": lambda m, n, d: m.empty(n).bernoulli_(m.full((n,), 0.3, dtype=d)),
    "bernoulli": lambda m, n, d: m.bernoulli(m.full((n,), 0.3, dtype=d)),
    "bernoulli of p": lambda m, n, d: m.bernoulli(m.zeros(n, dtype=d), 0.7),
    "random_": lambda m, n, d: m.empty(n, dtype=d).random_(),
    "random_ of integers": lambda m, n, d: m.empty(n, dtype=m.int64).random_(),
    "random_ of bytes": lambda m, n, d: m.empty(n, dtype=m.uint8).random_(),
    "random_ up to 7": lambda m, n, d: m.empty(n, dtype=d).random_(7),
    "multinomial": lambda m, n, d: m.multinomial(m.arange(1, n + 3).to(d), n // 2 + 1),
    "multinomial of one": lambda m, n, d: m.multinomial(
        m.arange(1, 2 * n + 3).to(d).view(2, -1), 1
    ),
    "multinomial, replaced": lambda m, n, d: m.multinomial(m.arange(n + 3).to(d), 40, True),
    "multinomial of rows": lambda m, n, d: m.multinomial(m.ones(2, n + 3, dtype=d), 5, True),
    "cauchy_": lambda m, n, d: m.empty(n, dtype=d).cauchy_(1.0, 2.0),
    "log_normal_": lambda m, n, d: m.empty(n, dtype=d).log_normal_(0.5, 0.7),
    "geometric_": lambda m, n, d: m.empty(n, dtype=d).geometric_(0.3),
    "geometric_ of integers": lambda m, n, d: m.empty(n, dtype=m.int64).geometric_(0.05),
    "poisson": lambda m, n, d: m.poisson(between(m, 0, 60, n, d)),
    "poisson of small rates": lambda m, n, d: m.poisson(between(m, 0, 3, n, d)),
    "binomial": lambda m, n, d: m.binomial(m.arange(n, dtype=d) * 3, between(m, 0, 1, n, d)),
    "binomial of many": lambda m, n, d: m.binomial(
        m.full((n,), 1000, dtype=d), between(m, 0.03, 0.97, n, d)
    ),
    "exponential distribution": lambda m, n, d: m.distributions.Exponential(
        between(m, 0.1, 5, n, d)
    ).sample(),
    "gamma": lambda m, n, d: m.distributions.Gamma(
        between(m, 0.05, 9, n, d), m.tensor(2.0, dtype=d)
    ).sample(),
    "beta": lambda m, n, d: m.distributions.Beta(
        between(m, 0.5, 9, n + 1, d), m.tensor(2.0, dtype=d)
    ).sample(),
    "Dirichlet": lambda m, n, d: m.distributions.Dirichlet(
        between(m, 0.5, 9, 2 * n, d).view(2, n)
    ).sample(),
    "rrelu": lambda m, n, d: m.nn.functional.rrelu(between(m, -2, 2, n, d), training=True),
    "dropout": lambda m, n, d: m.nn.functional.dropout(m.ones(n, dtype=d), 0.3),
    **{
        f"{name} of what is not row-major": lambda m, n, d, draw=draw: draw(m, permuted(m, n, d))
        for name, draw in {
            "dropout": lambda m, x: m.nn.functional.dropout(x, 0.3),
            "dropout of slices": lambda m, x: m.nn.functional.dropout(x[:, :, 1:], 0.3),
            "computed dropout": lambda m, x: m.nn.functional.dropout(
                (m.ones(5, 4, dtype=x.dtype).T + 1) * 2, 0.3
            ),
            "rand_like": lambda m, x: m.rand_like(x),
            "randn_like": lambda m, x: m.randn_like(x),
            "uniform_": lambda m, x: x.uniform_(0, 2),
            "normal_": lambda m, x: x.normal_(1, 2),
            "normal_ of a slice": lambda m, x: x[:, :, 1:].normal_(1, 2),
            "exponential_": lambda m, x: x.exponential_(),
            "bernoulli_": lambda m, x: x.bernoulli_(0.4),
        }.items()
    },
    "dropout of everything": lambda m, n, d: m.nn.functional.dropout(m.ones(n, dtype=d), 1.0),
    "dropout2d": lambda m, n, d: m.nn.functional.dropout2d(m.ones(3, n, 2, 2, dtype=d), 0.3),
    "alpha_dropout": lambda m, n, d: m.nn.functional.alpha_dropout(
        m.ones(n, dtype=d), 0.3, training=True
    ),
}


@batched(
    "draw, dtype, seed",
    itertools.product(DRAWS, ["float32", "float64"], [0, 42, 2**31 - 1]),
    key=lambda case: case[0],
)
def test_the_numbers_of_pytorch(draw: str, dtype: str, seed: int) -> None:
    """One after the other from one seed, so that each also leaves the stream where it should."""
    gw.manual_seed(seed, like="torch")
    torch.manual_seed(seed)
    for size in SIZES:
        ours = DRAWS[draw](gw, size, getattr(gw, dtype)).numpy()
        theirs = DRAWS[draw](torch, size, getattr(torch, dtype)).numpy()
        rounded = draw.startswith(ROUNDED)
        rounding = 0 if not rounded else 1e-5 if dtype == "float32" else 1e-13
        np.testing.assert_allclose(ours, theirs, rtol=rounding, atol=rounding)
        assert ours.dtype == theirs.dtype


HALVES: dict[str, Any] = {
    "rand": lambda m, n, d: m.rand(n, dtype=d),
    "randn": lambda m, n, d: m.randn(n, dtype=d),
    "uniform_": lambda m, n, d: m.empty(n, dtype=d).uniform_(0.1, 0.3),
    "normal_": lambda m, n, d: m.empty(n, dtype=d).normal_(1.0, 2.0),
    "normal around a tensor": lambda m, n, d: m.normal(m.ones(n, dtype=d), 2.0),
    "normal of tensors": lambda m, n, d: m.normal(m.ones(n, dtype=d), m.ones(n, dtype=d) * 3),
    "bernoulli": lambda m, n, d: m.bernoulli(m.full((n,), 0.3, dtype=d)),
    "dropout": lambda m, n, d: m.nn.functional.dropout(m.ones(n, dtype=d), 0.3),
    "Kaiming": lambda m, n, d: m.nn.init.kaiming_normal_(m.empty(n, 3, dtype=d)),
}


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("draw", HALVES)
def test_the_halves_of_pytorch(draw: str, dtype: str) -> None:
    gw.manual_seed(3, like="torch")
    torch.manual_seed(3)
    for size in (1, 15, 16, 17, 33, 3000):  # 3000 uniform numbers: some are rounded up to the end
        ours, theirs = (HALVES[draw](m, size, getattr(m, dtype)) for m in (gw, torch))
        assert str(ours.dtype) == str(theirs.dtype).removeprefix("torch.")
        np.testing.assert_array_equal(ours.float().numpy(), theirs.float().numpy())


LAYERS: dict[str, Any] = {
    "Linear": lambda nn: nn.Linear(10, 7),
    "Linear without bias": lambda nn: nn.Linear(64, 3, bias=False),
    "Bilinear": lambda nn: nn.Bilinear(3, 4, 5),
    "Conv1d": lambda nn: nn.Conv1d(3, 4, 5),
    "Conv2d": lambda nn: nn.Conv2d(4, 8, 3, groups=2),
    "ConvTranspose2d": lambda nn: nn.ConvTranspose2d(3, 8, 3),
    "Embedding": lambda nn: nn.Embedding(10, 7, padding_idx=3),
    "a small Embedding": lambda nn: nn.Embedding(3, 4),
    "RNN": lambda nn: nn.RNN(5, 7),
    "GRU": lambda nn: nn.GRU(5, 7, num_layers=2),
    "LSTM": lambda nn: nn.LSTM(5, 7, num_layers=2, bidirectional=True),
    "LSTM with a projection": lambda nn: nn.LSTM(5, 7, proj_size=3),
    "MultiheadAttention": lambda nn: nn.MultiheadAttention(8, 2, kdim=3, vdim=5),
    "Transformer": lambda nn: nn.Transformer(8, 2, 1, 1, 16, batch_first=True),
}


@pytest.mark.parametrize("layer", LAYERS)
def test_layers_begin_with_the_weights_of_pytorch(layer: str) -> None:
    gw.manual_seed(0, like="torch")
    torch.manual_seed(0)
    ours, theirs = (list(LAYERS[layer](m.nn).parameters()) for m in (gw, torch))
    assert len(ours) == len(theirs)
    rounding = 1e-5 if "Embedding" in layer else 0  # normals; all others are uniform
    for mine, other in zip(ours, theirs):
        expected = other.detach().numpy()
        np.testing.assert_allclose(mine.detach().numpy(), expected, rtol=rounding, atol=rounding)
    assert gw.rand(1).item() == torch.rand(1).item()


@pytest.mark.parametrize("batch_first", [False, True])
@pytest.mark.parametrize("name", ["TransformerEncoderLayer", "TransformerDecoderLayer"])
def test_transformers_drop_what_those_of_pytorch_drop(name: str, batch_first: bool) -> None:
    """The dropout after an attention draws in the order in which the attention leaves memory."""
    out = []
    for m in (gw, torch):
        m.manual_seed(0, like="torch") if m is gw else m.manual_seed(0)
        layer = getattr(m.nn, name)(8, 2, 16, 0.3, batch_first=batch_first)
        x = m.randn(3, 5, 8)
        out.append(layer(*[x] * (1 + (name == "TransformerDecoderLayer"))).detach().numpy())
    np.testing.assert_allclose(*out, rtol=1e-4, atol=1e-5)


INITIALISERS = [
    "uniform_", "normal_", "xavier_uniform_", "xavier_normal_", "kaiming_uniform_",
    "kaiming_normal_", "orthogonal_", "trunc_normal_", "sparse_",
]  # fmt: skip


@pytest.mark.parametrize("name", INITIALISERS)
def test_initialisers_give_the_numbers_of_pytorch(name: str) -> None:
    gw.manual_seed(0, like="torch")
    torch.manual_seed(0)
    options = [0.3] if name == "sparse_" else []
    ours, theirs = (getattr(m.nn.init, name)(m.empty(20, 30), *options) for m in (gw, torch))
    rounding = 0 if name in ("uniform_", "xavier_uniform_", "kaiming_uniform_") else 1e-5
    np.testing.assert_allclose(ours.numpy(), theirs.numpy(), rtol=rounding, atol=rounding)
    assert gw.rand(1).item() == torch.rand(1).item()


@pytest.mark.parametrize("options", [{}, {"replacement": True}, {"num_samples": 25}])
@pytest.mark.parametrize("own", [False, True])
@pytest.mark.parametrize("shuffle", [False, True])
def test_loaders_shuffle_as_those_of_pytorch(shuffle: bool, own: bool, options: Any) -> None:
    found = []
    gw.manual_seed(3, like="torch")
    torch.manual_seed(3)
    for m, data in ((gw, gw.data), (torch, torch.utils.data)):
        generator = (gw.Generator(like="torch") if m is gw else torch.Generator()).manual_seed(5)
        chosen = {"generator": generator} if own else {}
        sampler = data.RandomSampler(range(10), **options, **chosen) if shuffle else None
        loader = data.DataLoader(range(10), batch_size=3, sampler=sampler, **chosen)
        epochs = [[batch.tolist() for batch in loader] + [m.rand(1).item()] for _ in range(3)]
        found.append(epochs)
    assert found[0] == found[1]


def test_a_whole_training_is_that_of_pytorch() -> None:
    """Weights, order of the samples, dropout and noise, all from one seed."""
    losses = []
    gw.manual_seed(0, like="torch")
    torch.manual_seed(0)
    for m, data in ((gw, gw.data), (torch, torch.utils.data)):
        nn = m.nn
        model = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Dropout(0.2), nn.Linear(16, 1))
        optimizer = m.optim.SGD(model.parameters(), lr=0.1)
        x = m.rand(20, 4)
        loader = data.DataLoader(data.TensorDataset(x, x.sum(1)), batch_size=6, shuffle=True)
        losses.append([])
        for _ in range(3):
            for inputs, targets in loader:
                optimizer.zero_grad()
                noisy = inputs + 0.01 * m.randn(*inputs.shape)
                loss = ((model(noisy)[:, 0] - targets) ** 2).mean()
                loss.backward()
                optimizer.step()
                losses[-1].append(loss.item())
    assert losses[0] == pytest.approx(losses[1], rel=1e-4)


# -- states ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("like", ["torch", "gradwalk"])
def test_a_state_continues_the_stream(like: str) -> None:
    generator = gw.Generator(like=like).manual_seed(3)
    gw.randn(3, generator=generator)  # an odd number: one normal waits
    state = json.loads(json.dumps(generator.get_state()))
    ahead = [draw(generator) for draw in (one_normal, one_order)]
    other = gw.Generator().set_state(state)
    assert [draw(other) for draw in (one_normal, one_order)] == ahead
    assert other.initial_seed() == 3 and other.like == like


def test_what_is_no_state_is_refused_and_changes_nothing() -> None:
    generator = gw.Generator().manual_seed(3)
    before = generator.get_state()
    for wrong in ({}, {"seed": 1}, {**before, "like": "jax"}, {**before, "offset": "x"}, None):
        with pytest.raises(ValueError, match="not the state of a generator"):
            generator.set_state(wrong)
    assert generator.get_state() == before


@pytest.mark.parametrize("like", ["torch", "gradwalk"])
def test_a_checkpointed_dropout_drops_the_same_again(like: str) -> None:
    x = gw.ones(50, requires_grad=True)
    weight = gw.arange(50).float()

    def noisy(t: gw.Tensor) -> gw.Tensor:
        return (gw.nn.functional.dropout(t * weight, 0.4) + gw.rand(50)).tanh()

    gw.manual_seed(7, like=like)
    (plain,) = gw.autograd.grad(noisy(x).sum(), x)
    after = gw.rand(2).tolist()
    gw.manual_seed(7, like=like)
    out = gw.checkpoint(noisy, x)
    assert gw.rand(2).tolist() == after
    state = gw.get_rng_state()
    (again,) = gw.autograd.grad(out.sum(), x)
    assert again.tolist() == plain.tolist()
    assert gw.get_rng_state() == state  # running it again did not move the stream


@pytest.mark.parametrize("like", ["torch", "gradwalk"])
def test_a_resumed_run_draws_what_it_would_have_drawn(like: str, tmp_path: Path) -> None:
    def draws() -> list[Any]:
        mask = gw.nn.functional.dropout(gw.ones(9))
        return [mask.tolist(), gw.randn(3).tolist(), gw.randperm(5).tolist()]

    gw.manual_seed(1, like=like)
    loader = gw.data.DataLoader(range(10), batch_size=2, shuffle=True)
    batches = iter(loader)
    next(batches), draws()
    gw.save_run(tmp_path / "run", loader=loader)
    expected = [b.tolist() for b in batches], draws()
    gw.manual_seed(99, like="gradwalk")
    resumed = gw.data.DataLoader(range(10), batch_size=2, shuffle=True)
    gw.load_run(tmp_path / "run", loader=resumed)
    assert ([b.tolist() for b in resumed], draws()) == expected


def one_normal(generator: gw.Generator) -> float:
    return gw.randn(1, generator=generator).item()


def one_order(generator: gw.Generator) -> list[int]:
    return gw.randperm(9, generator=generator).tolist()


def test_streams_are_separate_and_repeatable() -> None:
    gw.manual_seed(1)
    first = gw.rand(4).tolist()
    gw.rand(4, generator=gw.Generator().manual_seed(1))
    second = gw.rand(4).tolist()
    gw.manual_seed(1)
    assert (gw.rand(4).tolist(), gw.rand(4).tolist()) == (first, second)


def test_unknown_streams_are_refused() -> None:
    with pytest.raises(ValueError, match="'torch' or 'gradwalk'"):
        gw.Generator(like="jax")


def test_seeds() -> None:
    assert gw.Generator("cpu").manual_seed(-1).initial_seed() == 2**64 - 1
    minus_one = gw.rand(2, generator=gw.Generator().manual_seed(-1))
    assert (
        minus_one.tolist() == gw.rand(2, generator=gw.Generator().manual_seed(2**64 - 1)).tolist()
    )
    unknown = {gw.Generator().seed() for _ in range(3)}
    assert len(unknown) == 3
    assert gw.Generator("cuda").device.type == "cuda"  # the numbers are the same everywhere
    with pytest.raises(ValueError, match="no device 'gpu'"):
        gw.Generator("gpu")


def test_the_search_for_devices_leaves_the_random_states_of_a_program() -> None:
    """It imports JAX, whose import may draw from NumPy's global generator."""
    program = (
        "import random, numpy as np, gradwalk as gw\n"
        "np.random.seed(1), random.seed(1)\n"
        "gw.cuda.is_available()\n"
        "drawn = np.random.rand(), random.random()\n"
        "np.random.seed(1), random.seed(1)\n"
        "assert drawn == (np.random.rand(), random.random())\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def test_an_attention_compiles_under_the_stream_of_pytorch() -> None:
    """A compiled function refuses to draw from that stream; here it draws nothing."""
    gw.manual_seed(0, like="torch")
    layer = gw.nn.MultiheadAttention(8, 2, batch_first=True)
    x = gw.randn(3, 5, 8)
    compiled = gw.compile(lambda x: layer(x, x, x)[0], backend="numpy")
    np.testing.assert_allclose(compiled(x).detach(), layer(x, x, x)[0].detach(), rtol=1e-5)
    gw.manual_seed(0, like="gradwalk")
