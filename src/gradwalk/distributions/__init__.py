"""Probability distributions, with PyTorch's names: draws, densities, entropies, divergences.

>>> from gradwalk.distributions import Normal, kl_divergence
>>> import gradwalk as gw
>>> kl_divergence(Normal(0.0, 1.0), Normal(1.0, 1.0))
tensor(0.5000)
"""

import sys as _sys

from gradwalk.distributions import constraints as constraints
from gradwalk.distributions import distribution
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
    ContinuousBernoulli,
    Geometric,
    NegativeBinomial,
    Poisson,
)
from gradwalk.distributions.distribution import Distribution, ExponentialFamily
from gradwalk.distributions.gamma import (
    Beta,
    Chi2,
    Dirichlet,
    Exponential,
    FisherSnedecor,
    Gamma,
)
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
from gradwalk.distributions.matrices import LKJCholesky, Wishart
from gradwalk.distributions.mixture import MixtureSameFamily
from gradwalk.distributions.multivariate_normal import (
    LowRankMultivariateNormal,
    MultivariateNormal,
)
from gradwalk.distributions.powers import InverseGamma, Kumaraswamy, Pareto, Weibull
from gradwalk.distributions.transformed import (
    LogisticNormal,
    LogNormal,
    RelaxedBernoulli,
    RelaxedOneHotCategorical,
    TransformedDistribution,
)
from gradwalk.distributions.transforms import (
    AbsTransform,
    AffineTransform,
    CatTransform,
    ComposeTransform,
    CorrCholeskyTransform,
    CumulativeDistributionTransform,
    ExpTransform,
    IndependentTransform,
    LowerCholeskyTransform,
    PositiveDefiniteTransform,
    PowerTransform,
    ReshapeTransform,
    SigmoidTransform,
    SoftmaxTransform,
    SoftplusTransform,
    StackTransform,
    StickBreakingTransform,
    TanhTransform,
    Transform,
    identity_transform,
)
from gradwalk.distributions.transforms import constraint_registry as constraint_registry
from gradwalk.distributions.transforms.constraint_registry import biject_to, transform_to
from gradwalk.distributions.von_mises import VonMises
from gradwalk.ops.core.longer_paths import longer_paths

longer_paths(
    __name__, "bernoulli", "beta", "binomial", "cauchy", "chi2", "dirichlet", "exp_family",
    "exponential", "geometric", "gumbel", "half_cauchy", "half_normal", "laplace",
    "lkj_cholesky", "log_normal", "mixture_same_family", "multinomial", "negative_binomial",
    "normal", "one_hot_categorical", "pareto", "poisson", "relaxed_bernoulli",
    "relaxed_categorical", "studentT", "transformed_distribution", "uniform", "weibull",
    "wishart",
)  # fmt: skip
_sys.modules[f"{__name__}.utils"] = utils = distribution
_sys.modules[f"{__name__}.constraint_registry"] = constraint_registry

__all__ = [
    "AbsTransform", "AffineTransform", "Bernoulli", "Beta", "Binomial", "CatTransform",
    "Categorical", "Cauchy", "Chi2", "ComposeTransform", "ContinuousBernoulli",
    "CorrCholeskyTransform", "CumulativeDistributionTransform", "Dirichlet", "Distribution",
    "ExpTransform", "Exponential", "ExponentialFamily", "FisherSnedecor", "Gamma", "Geometric",
    "Gumbel", "HalfCauchy", "HalfNormal", "Independent", "IndependentTransform", "InverseGamma",
    "Kumaraswamy", "LKJCholesky", "Laplace", "LogNormal", "LogisticNormal",
    "LowRankMultivariateNormal", "LowerCholeskyTransform", "MixtureSameFamily", "Multinomial",
    "MultivariateNormal", "NegativeBinomial", "Normal", "OneHotCategorical",
    "OneHotCategoricalStraightThrough", "Pareto", "Poisson", "PositiveDefiniteTransform",
    "PowerTransform", "RelaxedBernoulli", "RelaxedOneHotCategorical", "ReshapeTransform",
    "SigmoidTransform", "SoftmaxTransform", "SoftplusTransform", "StackTransform",
    "StickBreakingTransform", "StudentT", "TanhTransform", "Transform",
    "TransformedDistribution", "Uniform", "VonMises", "Weibull", "Wishart", "biject_to",
    "constraints", "identity_transform", "kl_divergence", "register_kl", "transform_to",
    "transforms",
]  # fmt: skip
