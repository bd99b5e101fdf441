"""Layers that drop elements while training."""

from __future__ import annotations

from typing import Any

from gradwalk.nn import functional
from gradwalk.nn.module import Module


class _Dropout(Module):
    def __init__(self, p: float = 0.5, inplace: bool = False) -> None:
        super().__init__()
        if not 0 <= p <= 1:
            raise ValueError(f"a dropout probability lies between 0 and 1, not {p}")
        self.p = p
        self.inplace = inplace

    def extra_repr(self) -> str:
        """The probability."""
        return f"p={self.p}, inplace={self.inplace}"


class Dropout(_Dropout):
    """Zero each element with probability p and scale the others by 1 / (1 − p), in training.

    >>> import gradwalk as gw
    >>> gw.nn.Dropout(0.5).eval()(gw.ones(3))
    tensor([1., 1., 1.])
    """

    def forward(self, input: Any) -> Any:
        """The input with elements dropped."""
        return functional.dropout(input, self.p, self.training, self.inplace)


class Dropout2d(_Dropout):
    """Zero whole channels (N, C, …) with probability p and scale the others, in training."""

    def forward(self, input: Any) -> Any:
        """The input with channels dropped."""
        return functional.dropout2d(input, self.p, self.training, self.inplace)


class Dropout1d(_Dropout):
    """Zero whole channels of (N, C, L) with probability p and scale the others, in training."""

    def forward(self, input: Any) -> Any:
        """The input with channels dropped."""
        return functional.dropout1d(input, self.p, self.training, self.inplace)


class Dropout3d(_Dropout):
    """Zero whole channels of (N, C, D, H, W) with probability p and scale the others."""

    def forward(self, input: Any) -> Any:
        """The input with channels dropped."""
        return functional.dropout3d(input, self.p, self.training, self.inplace)


class AlphaDropout(_Dropout):
    """Dropout that keeps mean and variance of what SELU gives."""

    def forward(self, input: Any) -> Any:
        """The input with elements dropped."""
        return functional.alpha_dropout(input, self.p, self.training)
