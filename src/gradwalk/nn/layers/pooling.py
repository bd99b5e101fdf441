"""Layers that reduce windows to one element."""

from __future__ import annotations

from typing import Any

from gradwalk.nn import functional
from gradwalk.nn.layers.options import OneInput, layer, several

__all__ = [
    "AdaptiveAvgPool1d", "AdaptiveAvgPool2d", "AdaptiveMaxPool1d", "AdaptiveMaxPool2d",
    "AvgPool1d", "AvgPool2d", "MaxPool1d", "MaxPool2d",
]  # fmt: skip


@layer(shown="kernel_size stride padding")
class _Pool(OneInput):
    kernel_size: Any
    stride: Any = None
    padding: Any = 0

    def _check(self) -> None:
        if self.stride is None:
            self.stride = self.kernel_size


@layer(shown="kernel_size stride padding dilation ceil_mode")
class _MaxPool(_Pool):
    dilation: Any = 1
    return_indices: bool = False
    ceil_mode: bool = False


@layer(functional.max_pool1d)
class MaxPool1d(_MaxPool):
    r"""The largest element of every window of (N, C, L): $\max_m x_{s t + d m}$."""


@layer(functional.max_pool2d)
class MaxPool2d(_MaxPool):
    """The largest element of every window of (N, C, H, W).

    >>> import gradwalk as gw
    >>> gw.nn.MaxPool2d(2)(gw.zeros(1, 3, 8, 8)).shape
    (1, 3, 4, 4)
    """


@layer(functional.avg_pool1d)
class AvgPool1d(_Pool):
    r"""The mean of every window of (N, C, L): $\frac{1}{k} \sum_m x_{s t + m}$."""

    ceil_mode: bool = False
    count_include_pad: bool = True

    def _check(self) -> None:
        super()._check()
        for name in self._shown:
            setattr(self, name, several(getattr(self, name), 1, name))


@layer(functional.avg_pool2d)
class AvgPool2d(_Pool):
    """The mean of every window of (N, C, H, W).

    >>> import gradwalk as gw
    >>> gw.nn.AvgPool2d(2)(gw.ones(1, 1, 2, 2))
    tensor([[[[1.]]]])
    """

    ceil_mode: bool = False
    count_include_pad: bool = True
    divisor_override: int | None = None


@layer(shown="output_size")
class _AdaptivePool(OneInput):
    output_size: Any


@layer(functional.adaptive_avg_pool1d)
class AdaptiveAvgPool1d(_AdaptivePool):
    """Means over windows chosen so that the result has a given length."""


@layer(functional.adaptive_avg_pool2d)
class AdaptiveAvgPool2d(_AdaptivePool):
    """Means over windows chosen so that the result has a given size; None keeps a dimension.

    >>> import gradwalk as gw
    >>> gw.nn.AdaptiveAvgPool2d(1)(gw.zeros(2, 3, 7, 5)).shape
    (2, 3, 1, 1)
    """


@layer(functional.adaptive_max_pool1d)
class AdaptiveMaxPool1d(_AdaptivePool):
    """Maxima over windows chosen so that the result has a given length."""

    return_indices: bool = False


@layer(functional.adaptive_max_pool2d)
class AdaptiveMaxPool2d(_AdaptivePool):
    """Maxima over windows chosen so that the result has a given size."""

    return_indices: bool = False
