"""Random tensors: their distributions, what they refuse, and how gradients see them."""

from typing import Any

import numpy as np
import pytest
import torch
from scipy import stats

import gradwalk as gw

MANY = 100_000
LIKES = ["gradwalk", "torch"]


@pytest.fixture(autouse=True)
def a_known_seed() -> None:
    gw.manual_seed(2026, like="gradwalk")


# -- distributions -------------------------------------------------------------------------------

CONTINUOUS: dict[str, tuple[Any, Any]] = {
    "rand": (lambda d: gw.rand(MANY, dtype=d), stats.uniform()),
    "randn": (lambda d: gw.randn(MANY, dtype=d), stats.norm()),
    "normal": (lambda d: gw.normal(2.0, 0.5, (MANY,), dtype=d), stats.norm(2, 0.5)),
    "uniform_": (lambda d: gw.empty(MANY, dtype=d).uniform_(-3, 1), stats.uniform(-3, 4)),
    "normal_": (lambda d: gw.empty(MANY, dtype=d).normal_(-1, 3), stats.norm(-1, 3)),
    "exponential_": (lambda d: gw.empty(MANY, dtype=d).exponential_(2), stats.expon(scale=0.5)),
}


@pytest.mark.parametrize("like", LIKES)
@pytest.mark.parametrize("dtype", ["float32", pytest.param("float64", marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", CONTINUOUS)
def test_continuous_distributions(name: str, dtype: str, like: str) -> None:
    gw.manual_seed(5, like=like)
    draw, expected = CONTINUOUS[name]
    found = draw(getattr(gw, dtype))
    assert found.dtype == getattr(gw, dtype) and found.shape == (MANY,)
    numbers = found.numpy().astype(np.float64)
    assert stats.kstest(numbers, expected.cdf).pvalue > 1e-3
    for moment in (1, 2, 3, 4):
        spread = np.sqrt(expected.moment(2 * moment) / MANY)
        assert abs((numbers**moment).mean() - expected.moment(moment)) < 5 * spread
    # Neighbours, the pairs of Box and Muller among them, have nothing to do with each other.
    for step in (1, 2, 8):
        assert abs(stats.spearmanr(numbers[:-step], numbers[step:]).statistic) < 0.015


def test_sizes_and_bounds_by_name() -> None:
    shapes = [gw.rand(size=(2, 3)).shape, gw.randn(size=[4]).shape]
    assert shapes == [(2, 3), (4,)]
    whole = gw.randint(high=3, size=(50,)), gw.randint_like(gw.ones(50), high=3)
    assert all(int(x.min()) >= 0 and int(x.max()) < 3 for x in whole)


@pytest.mark.parametrize("like", LIKES)
@pytest.mark.parametrize("high", [2, 3, 10, 1000])
def test_integers_are_evenly_spread(high: int, like: str) -> None:
    gw.manual_seed(5, like=like)
    counts = np.bincount(gw.randint(high, (MANY,)).numpy(), minlength=high)
    assert len(counts) == high and stats.chisquare(counts).pvalue > 1e-3


@pytest.mark.parametrize("like", LIKES)
def test_orders_are_evenly_spread(like: str) -> None:
    gw.manual_seed(5, like=like)
    orders = [tuple(gw.randperm(4).tolist()) for _ in range(4800)]
    assert all(sorted(order) == [0, 1, 2, 3] for order in orders)
    counts = [orders.count(order) for order in set(orders)]
    assert len(counts) == 24 and stats.chisquare(counts).pvalue > 1e-3


@pytest.mark.parametrize("like", LIKES)
@pytest.mark.parametrize("p", [0.0, 1e-3, 0.3, 0.5, 1.0])
def test_bernoulli_is_true_as_often_as_it_should(p: float, like: str) -> None:
    gw.manual_seed(5, like=like)
    draws = [
        gw.bernoulli(gw.full((MANY,), p)),
        gw.bernoulli(gw.zeros(MANY), p),
        gw.zeros(MANY).bernoulli_(p),
        gw.zeros(4, MANY // 4).bernoulli_(gw.full((MANY // 4,), p, dtype=gw.float64)),
        gw.zeros(MANY).bernoulli(p),
        gw.zeros(MANY, dtype=gw.bool).bernoulli_(p),
    ]
    for found in draws:
        assert set(found.unique().tolist()) <= {0, 1}
        allowed = 5 * np.sqrt(p * (1 - p) / MANY)
        assert abs(found.float().mean().item() - p) <= allowed


@pytest.mark.parametrize("like", LIKES)
def test_dropout_drops_what_it_should_and_keeps_the_mean(like: str) -> None:
    gw.manual_seed(5, like=like)
    found = gw.nn.functional.dropout(gw.ones(MANY), 0.3).numpy()
    assert set(np.unique(found)) == {np.float32(0), np.float32(1) / np.float32(0.7)}
    assert abs(found.mean() - 1) < 0.01


@pytest.mark.parametrize("like", LIKES)
def test_multinomial_with_replacement_follows_its_weights(like: str) -> None:
    gw.manual_seed(5, like=like)
    weights = np.array([1.0, 0.0, 2.0, 5.0, 0.0])
    found = gw.multinomial(gw.tensor(weights), MANY, replacement=True).numpy()
    counts = np.bincount(found, minlength=5)
    assert counts[1] == counts[4] == 0
    expected = MANY * weights[weights > 0] / weights.sum()
    assert stats.chisquare(counts[weights > 0], expected).pvalue > 1e-3
    rows = gw.multinomial(gw.tensor([[1.0, 0.0], [0.0, 3.0]]), 7, replacement=True)
    assert rows.tolist() == [[0] * 7, [1] * 7]


@pytest.mark.parametrize("like", LIKES)
def test_multinomial_without_replacement_takes_each_once(like: str) -> None:
    gw.manual_seed(5, like=like)
    weights = np.array([1.0, 2.0, 3.0, 0.0, 4.0])
    rows = gw.multinomial(gw.tensor(np.tile(weights, (20000, 1))), 3).numpy()
    assert rows.shape == (20000, 3)
    assert all(len(set(row)) == 3 for row in rows.tolist()) and not (rows == 3).any()
    some = weights > 0
    first = np.bincount(rows[:, 0], minlength=5)[some]
    assert stats.chisquare(first, 20000 * weights[some] / 10).pvalue > 1e-3
    # The second is drawn from what the first left.
    left = sum(w / 10 * np.where(np.arange(5) == i, 0, weights) / (10 - w)
               for i, w in enumerate(weights))  # fmt: skip
    second = np.bincount(rows[:, 1], minlength=5)[some]
    assert stats.chisquare(second, 20000 * left[some]).pvalue > 1e-3
    single = gw.multinomial(gw.tensor(np.tile(weights, (20000, 1))), 1).numpy()[:, 0]
    counts = np.bincount(single, minlength=5)[some]
    assert stats.chisquare(counts, 20000 * weights[some] / 10).pvalue > 1e-3


def test_seeds_and_offsets_next_to_each_other_are_independent() -> None:
    streams = [gw.rand(MANY, generator=gw.Generator().manual_seed(seed)) for seed in range(4)]
    streams.append(gw.rand(MANY, generator=gw.Generator().manual_seed(2**63)))
    correlation = np.corrcoef(np.stack([s.numpy() for s in streams]))
    assert np.abs(correlation - np.eye(5)).max() < 0.02


# -- shapes, dtypes and what is refused ----------------------------------------------------------


def test_shapes_and_dtypes() -> None:
    base = gw.zeros(2, 3, dtype=gw.float64)
    likes = [gw.rand_like(base), gw.randn_like(base), gw.randint_like(base, 5)]
    assert all(t.shape == (2, 3) and t.dtype == gw.float64 for t in likes)
    assert gw.randint_like(gw.zeros(50, dtype=gw.int32), 2, 4).unique().tolist() == [2, 3]
    assert gw.randn_like(base, dtype=gw.float32).dtype == gw.float32
    assert gw.randint(0, 2, (3,), dtype=gw.bool).dtype == gw.bool
    assert gw.randint(3, size=(2, 2)).shape == gw.randint(0, 3, size=(2, 2)).shape == (2, 2)
    assert gw.randperm(5, dtype=gw.int32).dtype == gw.int32
    assert gw.rand(()).shape == gw.randn(()).shape == () and gw.rand(0, 3).shape == (0, 3)
    assert gw.rand(2, requires_grad=True).requires_grad
    assert gw.randint(0, 3, (2,), dtype=gw.float32, requires_grad=True).requires_grad
    assert gw.rand(3).multinomial(2).dtype == gw.int64
    assert gw.multinomial(gw.ones(0, 3), 2, replacement=True).shape == (0, 2)


def test_every_form_of_normal() -> None:
    means, deviations = gw.tensor([[1.0], [-50.0]]), gw.tensor([1e-3, 0.0, 1e-3])
    found = gw.normal(means, deviations)
    assert found.shape == (2, 3) and found[:, 1].tolist() == [1.0, -50.0]
    assert (found - means).abs().amax() < 0.01
    assert gw.normal(means, 0.0).tolist() == means.tolist()
    assert gw.normal(2.0, deviations)[1].item() == 2.0
    assert gw.normal(means).shape == (2, 1)
    assert gw.normal(mean=0, std=1, size=(2, 3), dtype=gw.float64).dtype == gw.float64
    wide = gw.normal(means.double(), deviations)
    assert wide.dtype == gw.float64


def test_random_without_bounds_fills_the_dtype() -> None:
    for dtype in (gw.uint8, gw.int8, gw.int16, gw.int32, gw.int64):
        limits, numbers = np.iinfo(dtype), gw.empty(1000, dtype=dtype).random_()
        assert numbers.dtype == dtype and numbers.amin() >= 0 and numbers.amax() > limits.max // 2
    assert gw.empty(99, dtype=gw.bool).random_().unique().tolist() == [False, True]
    for dtype, most in ((gw.float32, 2**24), (gw.float64, 2**53)):
        numbers = gw.empty(1000, dtype=dtype).random_()
        assert (numbers == numbers.floor()).all() and most / 2 < numbers.amax() <= most
    assert gw.empty(99).random_(3).unique().tolist() == [0, 1, 2]
    assert gw.empty(99).random_(-2, 1).unique().tolist() == [-2, -1, 0]
    assert gw.empty(9, dtype=gw.int8).random_(126, None).amin() >= 126


REFUSED: dict[str, Any] = {
    "negative weights": lambda m: m.multinomial(m.tensor([1.0, -1.0]), 1),
    "NaN weights": lambda m: m.multinomial(m.tensor([1.0, float("nan")]), 1),
    "infinite weights": lambda m: m.multinomial(m.tensor([1.0, float("inf")]), 2, True),
    "more samples than categories": lambda m: m.multinomial(m.ones(2), 3),
    "no weight": lambda m: m.multinomial(m.zeros(2), 1),
    "no weight, with replacement": lambda m: m.multinomial(m.zeros(2), 2, True),
    "integer weights": lambda m: m.multinomial(m.tensor([1, 1]), 1),
    "no samples": lambda m: m.multinomial(m.ones(2), 0),
    "weights of no dimension": lambda m: m.multinomial(m.tensor(1.0), 1),
    "weights of three dimensions": lambda m: m.multinomial(m.ones(2, 2, 2), 1),
    "no categories": lambda m: m.multinomial(m.ones(0), 1),
    "probability above 1": lambda m: m.bernoulli(m.tensor([1.5])),
    "probability below 0": lambda m: m.bernoulli(m.tensor([-0.1])),
    "NaN probability": lambda m: m.bernoulli(m.tensor([float("nan")])),
    "p above 1": lambda m: m.bernoulli(m.ones(2), 1.5),
    "bernoulli_ above 1": lambda m: m.ones(2).bernoulli_(1.5),
    "integer probabilities": lambda m: m.bernoulli(m.tensor([1])),
    "normal of no size": lambda m: m.normal(0.0, 1.0),
    "normal of integers": lambda m: m.normal(m.tensor([1, 2]), 1.0),
    "negative std": lambda m: m.normal(0.0, -1.0, (2,)),
    "negative std in a tensor": lambda m: m.normal(m.zeros(1), m.tensor([-1.0])),
    "negative std in place": lambda m: m.zeros(1).normal_(0, -1),
    "normal_ of integers": lambda m: m.tensor([1]).normal_(),
    "uniform_ backwards": lambda m: m.ones(2).uniform_(2, 1),
    "uniform_ of integers": lambda m: m.tensor([1]).uniform_(),
    "exponential_ of rate 0": lambda m: m.ones(2).exponential_(0),
    "exponential_ of integers": lambda m: m.tensor([1]).exponential_(),
    "random_ of nothing": lambda m: m.ones(2).random_(3, 3),
    "random_ too large": lambda m: m.ones(2, dtype=m.uint8).random_(0, 300),
    "randint of nothing": lambda m: m.randint(5, 5, (2,)),
    "randint too large": lambda m: m.randint(0, 300, (2,), dtype=m.uint8),
    "rand of integers": lambda m: m.rand(2, dtype=m.int64),
    "order of -1": lambda m: m.randperm(-1),
    "seed of 65 bits": lambda m: m.manual_seed(2**64),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused_as_in_pytorch(case: str) -> None:
    with pytest.raises((RuntimeError, TypeError, ValueError)):
        REFUSED[case](torch)
    before = gw.get_rng_state()
    with pytest.raises((TypeError, ValueError)):
        REFUSED[case](gw)
    assert gw.get_rng_state() == before  # nothing was drawn


def test_weights_of_zero_are_never_drawn() -> None:
    with pytest.raises(ValueError, match="only 1 are not 0"):
        gw.multinomial(gw.tensor([1.0, 0.0]), 2)  # PyTorch returns the 0 as well


# -- gradients -----------------------------------------------------------------------------------


def test_drawing_in_place_is_a_change_in_place() -> None:
    leaf = gw.zeros(3, requires_grad=True)
    for draw in ("uniform_", "normal_", "bernoulli_", "exponential_", "random_"):
        with pytest.raises(gw.AutogradError, match="leaf"):
            getattr(leaf, draw)()
        with gw.no_grad():
            assert getattr(leaf, draw)() is leaf
    x = gw.ones(3, requires_grad=True)
    y = x * 2
    y[1:].normal_()
    y.sum().backward()
    assert x.grad.tolist() == [2, 0, 0]


def test_no_gradient_flows_through_a_draw() -> None:
    p = gw.full((3,), 0.5, requires_grad=True)
    for found in (gw.bernoulli(p), gw.normal(p, p), gw.normal(p), gw.multinomial(p, 2)):
        assert not found.requires_grad
    noise = gw.randn(3)
    (p + noise * p).sum().backward()
    assert p.grad.tolist() == pytest.approx((1 + noise).tolist())


@pytest.mark.parametrize("like", LIKES)
def test_every_draw_in_place_of_one_number(like: str) -> None:
    without = ("bernoulli_", "cauchy_", "exponential_", "log_normal_", "normal_", "random_")
    draws: dict[str, tuple[float, ...]] = dict.fromkeys(without, ())
    for name, given in (draws | {"geometric_": (0.3,)}).items():
        gw.manual_seed(1, like=like)
        one = getattr(gw.zeros(()), name)(*given)
        gw.manual_seed(1, like=like)
        assert one.shape == () and one.item() == getattr(gw.zeros(1), name)(*given).item()
