"""Densities, moments, entropies and divergences, with their gradients, against PyTorch's."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
import torch
from torch.distributions import kl as torch_kl

import gradwalk as gw
from gradwalk.distributions import kl
from tests.batches import batched
from tests.distributions.cases import CASES, gradients, ours, parameters, theirs, value

SEEDS = range(2)
# Tolerances of values and gradients where PyTorch computes Bessel functions as polynomials, with
# errors of 2e-7 and more in their derivatives; SciPy checks those values to the last digits.
BESSEL = (1e-5, 5e-6)
MOMENTS = ("mean", "variance", "stddev", "mode")


def check_equal(
    mine: Any,
    other: Any,
    mine_tensors: Any,
    other_tensors: Any,
    rtol: float = 1e-9,
    grad_atol: float = 1e-9,
) -> None:
    """Values and gradients are equal; a gradient that is None is one of zeros."""
    assert tuple(mine.shape) == tuple(other.shape)
    np.testing.assert_allclose(mine.detach().numpy(), other.detach().numpy(), rtol, 1e-11)
    found, expected = gradients(mine, mine_tensors), gradients(other, other_tensors)
    for name in found.keys() | expected.keys():
        zeros = np.zeros(mine_tensors[name].shape)
        np.testing.assert_allclose(
            found.get(name, zeros), expected.get(name, zeros), 1e-7, grad_atol, err_msg=name
        )


@batched("label seed", [(label, seed) for label in CASES for seed in SEEDS])
def test_log_prob(label: str, seed: int) -> None:
    rough = CASES[label][0] == "VonMises"
    arrays, at = parameters(label, seed), value(label, seed)
    (mine, tensors), (other, others) = ours(label, arrays), theirs(label, arrays)
    for points in (at, at[:1]):  # the second broadcasts
        x, y = gw.tensor(points, requires_grad=True), torch.tensor(points, requires_grad=True)
        check_equal(
            mine.log_prob(x),
            other.log_prob(y),
            {**tensors, "value": x},
            {**others, "value": y},
            *(BESSEL if rough else ()),
        )


@batched("label name", [(label, name) for label in CASES for name in (*MOMENTS, "entropy")])
def test_moments_and_entropy(label: str, name: str) -> None:
    arrays = parameters(label, 1)
    (mine, tensors), (other, others) = ours(label, arrays), theirs(label, arrays)
    try:
        with warnings.catch_warnings(action="ignore"):
            expected = other.entropy() if name == "entropy" else getattr(other, name)
    except NotImplementedError:
        with pytest.raises(NotImplementedError, match=f"{CASES[label][0]} has no "):
            mine.entropy() if name == "entropy" else getattr(mine, name)
        return
    found = mine.entropy() if name == "entropy" else getattr(mine, name)
    if (label, name) == ("Kumaraswamy", "mode"):
        # PyTorch's is NaN. The density is largest there.
        at, apart = found.detach(), gw.tensor(1e-4, dtype=gw.float64)
        top = mine.log_prob(at)
        assert (top > mine.log_prob(at + apart)).all() and (top > mine.log_prob(at - apart)).all()
        return
    if name == "mode":  # no gradient: PyTorch's of a uniform distribution is NaN
        found, expected = found.detach(), expected.detach()
    rounded = CASES[label][0] == "Multinomial"  # PyTorch computes log n! in float32
    rough = CASES[label][0] == "VonMises" and name in ("variance", "stddev")
    tolerances = BESSEL if rough else (1e-6,) if rounded else ()
    check_equal(found, expected, tensors, others, *tolerances)


@batched("label seed", [(label, seed) for label in CASES for seed in SEEDS])
def test_cdf_and_its_inverse(label: str, seed: int) -> None:
    arrays, at = parameters(label, seed), value(label, seed)
    # PyTorch has no gradient of the concentration.
    grad = CASES[label][0] not in ("Gamma", "Chi2", "InverseGamma")
    (mine, tensors), (other, others) = ours(label, arrays, grad), theirs(label, arrays, grad)
    chances = np.random.default_rng(seed).uniform(0.05, 0.95, at.shape)
    for name, points in (("cdf", at), ("icdf", chances)):
        try:
            expected = getattr(other, name)(torch.tensor(points))
        except NotImplementedError:
            continue
        check_equal(getattr(mine, name)(gw.tensor(points)), expected, tensors, others)


PAIRS = [
    (p, q)
    for p, (kind_p, *_) in CASES.items()
    for q, (kind_q, *_) in CASES.items()
    if (getattr(gw.distributions, kind_p), getattr(gw.distributions, kind_q)) in kl._FORMULAS
    or kind_p == kind_q in ("Chi2", "LogNormal")
]


@batched("p q", PAIRS)
def test_kl_divergence(p: str, q: str) -> None:
    mine, mine_tensors, other, other_tensors = [], {}, [], {}
    for side, label in enumerate((p, q)):
        arrays = parameters(label, side)
        for into, build, tensors in ((mine, ours, mine_tensors), (other, theirs, other_tensors)):
            made, given = build(label, arrays)
            into.append(made)
            tensors.update({f"{side} {name}": tensor for name, tensor in given.items()})
    check_equal(
        gw.distributions.kl_divergence(*mine),
        torch.distributions.kl_divergence(*other),
        mine_tensors,
        other_tensors,
    )


def test_every_pair_of_pytorch_is_here() -> None:
    names = set(gw.distributions.__all__)
    expected = {(a.__name__, b.__name__) for a, b in torch_kl._KL_REGISTRY}
    expected = {(a, b) for a, b in expected if a in names and b in names}
    expected.add(("HalfCauchy", "HalfCauchy"))  # there a TransformedDistribution
    assert {(a.__name__, b.__name__) for a, b in kl._FORMULAS} == expected
    tried = {(CASES[p][0], CASES[q][0]) for p, q in PAIRS}
    assert expected - tried == {
        ("ExponentialFamily", "ExponentialFamily"),
        ("Independent", "Independent"),
        ("TransformedDistribution", "TransformedDistribution"),
    }


@batched("label", CASES)
def test_shapes_expand_and_support(label: str) -> None:
    arrays = parameters(label, 0)
    (mine, _), (other, _) = ours(label, arrays, grad=False), theirs(label, arrays, grad=False)
    assert mine.batch_shape == tuple(other.batch_shape)
    assert mine.event_shape == tuple(other.event_shape)
    assert mine.has_rsample == other.has_rsample
    assert mine.has_enumerate_support == other.has_enumerate_support
    assert mine.support.event_dim == other.support.event_dim
    assert mine.support.is_discrete == other.support.is_discrete
    wider, at = mine.expand((5, *mine.batch_shape)), value(label, 0)
    assert wider.batch_shape == (5, *mine.batch_shape)
    assert wider.event_shape == mine.event_shape
    log_prob = wider.log_prob(gw.tensor(at))
    assert log_prob.shape == (5, *mine.batch_shape)
    np.testing.assert_allclose(log_prob[2].numpy(), mine.log_prob(gw.tensor(at)).numpy())
    assert wider.sample((2,)).shape == (2, 5, *mine.batch_shape, *mine.event_shape)
    if mine.has_enumerate_support:
        for wide in (True, False):
            listed = mine.enumerate_support(wide)
            np.testing.assert_array_equal(listed.numpy(), other.enumerate_support(wide).numpy())
