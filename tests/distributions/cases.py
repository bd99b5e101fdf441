"""Distributions with random parameters, the same in gradwalk and in PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

import gradwalk as gw

Rng = np.random.Generator
SHAPE = (3, 2)


def real(rng: Rng) -> Any:
    return rng.normal(size=SHAPE)


def positive(rng: Rng) -> Any:
    return np.exp(rng.normal(size=SHAPE))


def chance(rng: Rng) -> Any:
    return rng.uniform(0.05, 0.95, SHAPE)


def shares(rng: Rng) -> Any:
    return rng.dirichlet(np.ones(4), size=SHAPE)


def vectors(rng: Rng) -> Any:
    return rng.normal(size=(*SHAPE, 4))


def covariance(rng: Rng) -> Any:
    root = rng.normal(size=(*SHAPE, 4, 4))
    return root @ root.swapaxes(-1, -2) + np.eye(4)


def factor(rng: Rng) -> Any:
    return np.linalg.cholesky(covariance(rng))


def correlation_factor(rng: Rng) -> Any:
    rows = factor(rng)
    return rows / np.linalg.norm(rows, axis=-1, keepdims=True)


def wide(rng: Rng) -> Any:
    return 5.5 + rng.random(SHAPE)


def above(rng: Rng) -> Any:
    return 3.0 + rng.random(SHAPE)


def counts(rng: Rng) -> Any:
    return rng.integers(0, 5, SHAPE).astype(float)


# By a label: the class, its parameters (functions of a generator, or constants), and its values.
CASES: dict[str, tuple[str, dict[str, Any], Callable[[Rng], Any]]] = {
    "Normal": ("Normal", {"loc": real, "scale": positive}, real),
    "LogNormal": ("LogNormal", {"loc": real, "scale": positive}, positive),
    "HalfNormal": ("HalfNormal", {"scale": positive}, positive),
    "HalfCauchy": ("HalfCauchy", {"scale": positive}, positive),
    "Laplace": ("Laplace", {"loc": real, "scale": positive}, real),
    "Cauchy": ("Cauchy", {"loc": real, "scale": positive}, real),
    "Gumbel": ("Gumbel", {"loc": real, "scale": positive}, real),
    "StudentT": ("StudentT", {"df": positive, "loc": real, "scale": positive}, real),
    "StudentT of many": ("StudentT", {"df": above, "loc": real, "scale": positive}, real),
    "Uniform": ("Uniform", {"low": lambda rng: -above(rng), "high": above}, real),
    "Uniform of positive": ("Uniform", {"low": chance, "high": above}, lambda rng: 1 + chance(rng)),
    "Uniform inside": (
        "Uniform",
        {"low": lambda rng: chance(rng) / 2, "high": lambda rng: 0.5 + chance(rng) / 2},
        lambda rng: np.full(SHAPE, 0.5),
    ),
    "Exponential": ("Exponential", {"rate": positive}, positive),
    "Gamma": ("Gamma", {"concentration": positive, "rate": positive}, positive),
    "Chi2": ("Chi2", {"df": positive}, positive),
    "Beta": ("Beta", {"concentration1": positive, "concentration0": positive}, chance),
    "Beta of one mode": ("Beta", {"concentration1": above, "concentration0": above}, chance),
    "Dirichlet": ("Dirichlet", {"concentration": lambda rng: np.exp(vectors(rng))}, shares),
    "Bernoulli": ("Bernoulli", {"probs": chance}, lambda rng: counts(rng) % 2),
    "Bernoulli of logits": ("Bernoulli", {"logits": real}, lambda rng: counts(rng) % 2),
    "Geometric": ("Geometric", {"probs": chance}, counts),
    "Geometric of logits": ("Geometric", {"logits": real}, counts),
    "Binomial": ("Binomial", {"total_count": 5, "probs": chance}, counts),
    "Binomial of logits": ("Binomial", {"total_count": 5, "logits": real}, counts),
    "Poisson": ("Poisson", {"rate": positive}, counts),
    "NegativeBinomial": ("NegativeBinomial", {"total_count": positive, "probs": chance}, counts),
    "NegativeBinomial of logits": ("NegativeBinomial", {"total_count": 3, "logits": real}, counts),
    "Weibull": ("Weibull", {"scale": positive, "concentration": above}, positive),
    "Pareto": ("Pareto", {"scale": chance, "alpha": above}, above),
    "InverseGamma": ("InverseGamma", {"concentration": above, "rate": positive}, positive),
    "Kumaraswamy": ("Kumaraswamy", {"concentration1": above, "concentration0": above}, chance),
    "FisherSnedecor": (
        "FisherSnedecor",
        {"df1": above, "df2": lambda rng: 2 + above(rng)},
        positive,
    ),
    "ContinuousBernoulli": ("ContinuousBernoulli", {"probs": chance}, chance),
    "ContinuousBernoulli of logits": ("ContinuousBernoulli", {"logits": real}, chance),
    "ContinuousBernoulli near 1/2": (
        "ContinuousBernoulli",
        {"probs": lambda rng: 0.4995 + 0.001 * rng.random(SHAPE)},
        chance,
    ),
    "LowRankMultivariateNormal": (
        "LowRankMultivariateNormal",
        {
            "loc": vectors,
            "cov_factor": lambda rng: rng.normal(size=(*SHAPE, 4, 2)),
            "cov_diag": lambda rng: np.exp(vectors(rng)),
        },
        vectors,
    ),
    "VonMises": ("VonMises", {"loc": real, "concentration": positive}, real),
    "VonMises of many": ("VonMises", {"loc": real, "concentration": above}, real),
    "Categorical": ("Categorical", {"probs": shares}, lambda rng: counts(rng) % 4),
    "Categorical of logits": ("Categorical", {"logits": vectors}, lambda rng: counts(rng) % 4),
    "OneHotCategorical": (
        "OneHotCategorical",
        {"probs": shares},
        lambda rng: np.eye(4)[rng.integers(0, 4, SHAPE)],
    ),
    "OneHotCategorical of logits": (
        "OneHotCategoricalStraightThrough",
        {"logits": vectors},
        lambda rng: np.eye(4)[rng.integers(0, 4, SHAPE)],
    ),
    "Multinomial": (
        "Multinomial",
        {"total_count": 6, "probs": shares},
        lambda rng: rng.multinomial(6, np.ones(4) / 4, size=SHAPE).astype(float),
    ),
    "Multinomial of logits": (
        "Multinomial",
        {"total_count": 6, "logits": vectors},
        lambda rng: rng.multinomial(6, np.ones(4) / 4, size=SHAPE).astype(float),
    ),
    "MultivariateNormal": (
        "MultivariateNormal",
        {"loc": vectors, "covariance_matrix": covariance},
        vectors,
    ),
    "MultivariateNormal of precision": (
        "MultivariateNormal",
        {"loc": vectors, "precision_matrix": covariance},
        vectors,
    ),
    "MultivariateNormal of factor": (
        "MultivariateNormal",
        {"loc": vectors, "scale_tril": factor},
        vectors,
    ),
    "LKJCholesky": ("LKJCholesky", {"dim": 4, "concentration": positive}, correlation_factor),
    "Wishart": ("Wishart", {"df": wide, "covariance_matrix": covariance}, covariance),
    "Wishart of precision": ("Wishart", {"df": wide, "precision_matrix": covariance}, covariance),
    "RelaxedBernoulli": ("RelaxedBernoulli", {"temperature": 0.7, "logits": real}, chance),
    "RelaxedBernoulli of probs": (
        "RelaxedBernoulli",
        {"temperature": 0.7, "probs": chance},
        chance,
    ),
    "RelaxedOneHotCategorical": (
        "RelaxedOneHotCategorical",
        {"temperature": 0.7, "logits": vectors},
        shares,
    ),
}


def parameters(label: str, seed: int) -> dict[str, Any]:
    """The parameters of a case, as arrays; what is not random as it is."""
    rng = np.random.default_rng(seed)
    given = CASES[label][1]
    return {name: make(rng) if callable(make) else make for name, make in given.items()}


def value(label: str, seed: int) -> Any:
    return CASES[label][2](np.random.default_rng(seed + 1000))


def ours(label: str, arrays: dict[str, Any], grad: bool = True, **options: Any) -> Any:
    """The distribution in gradwalk, and the tensors of its parameters."""
    tensors = {
        name: gw.tensor(array, requires_grad=grad) if isinstance(array, np.ndarray) else array
        for name, array in arrays.items()
    }
    return getattr(gw.distributions, CASES[label][0])(**tensors, **options), tensors


def theirs(label: str, arrays: dict[str, Any], grad: bool = True, **options: Any) -> Any:
    """The same in PyTorch."""
    tensors = {
        name: torch.tensor(array, requires_grad=grad) if isinstance(array, np.ndarray) else array
        for name, array in arrays.items()
    }
    if "temperature" in tensors:
        tensors["temperature"] = torch.tensor(tensors["temperature"], dtype=torch.float64)
    return getattr(torch.distributions, CASES[label][0])(**tensors, **options), tensors


def gradients(result: Any, tensors: dict[str, Any]) -> dict[str, Any]:
    """The gradients of a weighted sum of a result that are not None, as arrays."""
    if not result.requires_grad:
        return {}
    leaves = {name: t for name, t in tensors.items() if getattr(t, "requires_grad", False)}
    for leaf in leaves.values():
        leaf.grad = None
    weights = np.linspace(0.5, 1.5, max(result.numel(), 1)).reshape(tuple(result.shape))
    engine = torch if isinstance(result, torch.Tensor) else gw
    (result * engine.tensor(weights)).sum().backward(retain_graph=True)
    return {n: t.grad.numpy() for n, t in leaves.items() if t.grad is not None}
