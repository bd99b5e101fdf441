"""Layers that drop elements while training."""

from __future__ import annotations

from typing import Any

from gradwalk.nn import functional
from gradwalk.nn.functional.dropout import check_probability
from gradwalk.nn.layers.options import Options, layer

__all__ = [
    "AlphaDropout", "Dropout", "Dropout1d", "Dropout2d", "Dropout3d", "FeatureAlphaDropout",
    "RReLU",
]  # fmt: skip


@layer(shown="p inplace")
class _Dropout(Options):
    p: float = 0.5
    inplace: bool = False

    def _check(self) -> None:
        check_probability(self.p)

    def forward(self, input: Any) -> Any:
        """The input with elements or channels dropped."""
        return self._function(input, self.p, self.training, self.inplace)


@layer(functional.dropout)
class Dropout(_Dropout):
    """Zero each element with probability p and scale the others by 1 / (1 − p), in training.

    >>> import gradwalk as gw
    >>> gw.nn.Dropout(0.5).eval()(gw.ones(3))
    tensor([1., 1., 1.])
    """


@layer(functional.dropout2d)
class Dropout2d(_Dropout):
    """Zero whole channels (N, C, …) with probability p and scale the others, in training."""


@layer(functional.dropout1d)
class Dropout1d(_Dropout):
    """Zero whole channels of (N, C, L) with probability p and scale the others, in training."""


@layer(functional.dropout3d)
class Dropout3d(_Dropout):
    """Zero whole channels of (N, C, D, H, W) with probability p and scale the others."""


class AlphaDropout(_Dropout):
    """Dropout that keeps the mean and variance of SELU's outputs."""

    def forward(self, input: Any) -> Any:
        """The input with elements dropped."""
        return functional.alpha_dropout(input, self.p, self.training)


@layer(functional.feature_alpha_dropout)
class FeatureAlphaDropout(_Dropout):
    """`AlphaDropout` of whole channels."""


@layer(functional.rrelu, shown="lower upper")
class RReLU(Options):
    """x, times a random slope where it is negative; the mean slope in eval mode."""

    lower: float = 1 / 8
    upper: float = 1 / 3
    inplace: bool = False

    def forward(self, input: Any) -> Any:
        """The input with negative elements scaled."""
        return self._function(input, self.lower, self.upper, self.training, self.inplace)
