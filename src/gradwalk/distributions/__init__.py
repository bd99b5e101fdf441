"""Probability distributions, with PyTorch's names: draws, densities, entropies, divergences.

>>> from gradwalk.distributions import Normal, kl_divergence
>>> import gradwalk as gw
>>> kl_divergence(Normal(0.0, 1.0), Normal(1.0, 1.0))
tensor(0.5000)
"""

from gradwalk.distributions import constraints as constraints
from gradwalk.distributions import transforms as transforms
from gradwalk.distributions.categorical import (
    Categorical,
    Multinomial,
    OneHotCategorical,
    OneHotCategoricalStraightThrough,
)
from gradwalk.distributions.counts import (
    Bernoulli,
    Binomial,
    Geometric,
    NegativeBinomial,
    Poisson,
)
from gradwalk.distributions.distribution import Distribution
from gradwalk.distributions.gamma import Beta, Chi2, Dirichlet, Exponential, Gamma
from gradwalk.distributions.independent import Independent
from gradwalk.distributions.kl import kl_divergence, register_kl
from gradwalk.distributions.location_scale import (
    Cauchy,
    Gumbel,
    HalfCauchy,
    HalfNormal,
    Laplace,
    Normal,
    StudentT,
    Uniform,
)
from gradwalk.distributions.mixture import MixtureSameFamily
from gradwalk.distributions.multivariate_normal import MultivariateNormal
from gradwalk.distributions.powers import Pareto, Weibull
from gradwalk.distributions.transformed import (
    LogNormal,
    RelaxedBernoulli,
    RelaxedOneHotCategorical,
    TransformedDistribution,
)
from gradwalk.distributions.transforms import (
    AffineTransform,
    ComposeTransform,
    ExpTransform,
    PowerTransform,
    SigmoidTransform,
    TanhTransform,
    Transform,
)
from gradwalk.distributions.von_mises import VonMises

__all__ = [
    "AffineTransform", "Bernoulli", "Beta", "Binomial", "Categorical", "Cauchy", "Chi2",
    "ComposeTransform", "Dirichlet", "Distribution", "ExpTransform", "Exponential", "Gamma",
    "Geometric", "Gumbel", "HalfCauchy", "HalfNormal", "Independent", "Laplace", "LogNormal",
    "MixtureSameFamily", "Multinomial", "MultivariateNormal", "NegativeBinomial", "Normal",
    "OneHotCategorical", "OneHotCategoricalStraightThrough", "Pareto", "Poisson", "PowerTransform",
    "RelaxedBernoulli", "RelaxedOneHotCategorical", "SigmoidTransform", "StudentT",
    "TanhTransform", "Transform", "TransformedDistribution", "Uniform", "VonMises", "Weibull",
    "constraints", "kl_divergence", "register_kl", "transforms",
]  # fmt: skip
