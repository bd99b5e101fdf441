"""Random counts and gamma numbers: by the inverse of a distribution function, or as PyTorch's.

In our own stream one uniform number makes one draw; SciPy computes the inverses, in float64.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from gradwalk.engine.modes import current
from gradwalk.graph.abstract import numbers_of
from gradwalk.random import rejection
from gradwalk.random.generator import Generator, stream_of
from gradwalk.random.mersenne import MersenneStream
from gradwalk.random.sampling import rand
from gradwalk.tensors.leaves import leaf

if TYPE_CHECKING:
    from gradwalk.tensors.tensor import Tensor

__all__ = ["binomial", "poisson"]

Array = np.ndarray[Any, Any]


def _drawn(
    quantile: Callable[..., Any],
    as_pytorch: Callable[..., Array],
    generator: Generator | None,
    *parameters: Tensor,
) -> Tensor:
    """Draw one number for each element of the last parameter, in its dtype."""
    level = current().level
    if level is not None:  # inside vmap: of the parameters of all samples
        again = partial(_drawn, quantile, as_pytorch, generator)
        samples: Tensor = level.drawn(again, *parameters)
        return samples
    like = parameters[-1]
    stream = stream_of(generator)
    if isinstance(stream, MersenneStream):
        arrays = [p.detach().cpu().numpy() for p in parameters]
        arrays = list(np.broadcast_arrays(*arrays))
        return leaf(as_pytorch(stream, *arrays), device=like.device)
    u = rand(like.shape, dtype=np.float64, device=like.device, generator=generator)
    arrays = [p.detach().cpu().numpy().astype(np.float64) for p in (u, *parameters)]
    with np.errstate(all="ignore"):
        drawn = quantile(*arrays)
    return leaf(np.asarray(drawn, like.dtype), device=like.device)


def _gamma(u: Array, concentration: Array) -> Array:
    from scipy.special import gammaincinv

    return gammaincinv(concentration, u)


def _lowest(guess: Array, u: Array, below: Callable[[Array], Any]) -> Array:
    """The first whole number k whose probability of a draw at or below k is at least u."""
    k = np.maximum(np.ceil(guess), 0)
    previous = np.maximum(k - 1, 0)
    return np.where(below(previous) >= u, previous, k)


def _poisson(u: Array, rate: Array) -> Array:
    from scipy.special import pdtr, pdtrik

    return np.where(rate > 0, _lowest(pdtrik(u, rate), u, lambda k: pdtr(k, rate)), 0)


def _binomial(u: Array, count: Array, p: Array) -> Array:
    from scipy.special import bdtrik, betainc

    def below(k: Array) -> Array:
        return np.where(k < count, betainc(np.maximum(count - k, 1), k + 1, 1 - p), 1)

    k = np.minimum(_lowest(bdtrik(u, count, p), u, below), count)
    return np.where((p <= 0) | (count == 0), 0, np.where(p >= 1, count, k))


def poisson(input: Tensor, generator: Generator | None = None) -> Tensor:
    """Counts of events that happen at the rates in `input`.

    >>> import gradwalk as gw
    >>> gw.poisson(gw.zeros(2))
    tensor([0., 0.])
    """
    rates = numbers_of(input.detach())  # None where they are unknown
    if rates is not None and (rates < 0).any():
        raise ValueError("poisson: a rate is below 0")
    return _drawn(_poisson, rejection.poissons, generator, input)


def binomial(count: Tensor, prob: Tensor, generator: Generator | None = None) -> Tensor:
    """How many of `count` trials succeed, each with probability `prob`.

    >>> import gradwalk as gw
    >>> gw.binomial(gw.tensor([3.0, 3.0]), gw.tensor([0.0, 1.0]))
    tensor([0., 3.])
    """
    shape = np.broadcast_shapes(count.shape, prob.shape)
    return _drawn(
        _binomial, rejection.binomials, generator, count.expand(shape), prob.expand(shape)
    )


def gamma(concentration: Tensor) -> Tensor:
    """Gamma numbers of rate 1."""
    return _drawn(_gamma, rejection.gammas, None, concentration)
