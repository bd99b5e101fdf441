"""Layers that reduce windows to one element."""

from __future__ import annotations

from typing import Any, ClassVar

from gradwalk.nn import functional
from gradwalk.nn.layers.options import Options, layer, several

__all__ = [
    "AdaptiveAvgPool1d", "AdaptiveAvgPool2d", "AdaptiveMaxPool1d", "AdaptiveMaxPool2d",
    "AvgPool1d", "AvgPool2d", "MaxPool1d", "MaxPool2d",
]  # fmt: skip


class _Pool(Options):
    kernel_size: Any
    stride: Any
    _shown: ClassVar[tuple[str, ...]] = ("kernel_size", "stride", "padding")

    def _check(self) -> None:
        if self.stride is None:
            self.stride = self.kernel_size

    def forward(self, input: Any) -> Any:
        """Reduce each window."""
        return self._apply(input)


@layer
class _MaxPool(_Pool):
    kernel_size: Any
    stride: Any = None
    padding: Any = 0
    dilation: Any = 1
    return_indices: bool = False
    ceil_mode: bool = False
    _shown = ("kernel_size", "stride", "padding", "dilation", "ceil_mode")


class MaxPool1d(_MaxPool):
    r"""The largest element of every window of (N, C, L): $\max_m x_{s t + d m}$."""

    _function = functional.max_pool1d


class MaxPool2d(_MaxPool):
    """The largest element of every window of (N, C, H, W).

    >>> import gradwalk as gw
    >>> gw.nn.MaxPool2d(2)(gw.zeros(1, 3, 8, 8)).shape
    (1, 3, 4, 4)
    """

    _function = functional.max_pool2d


@layer
class AvgPool1d(_Pool):
    r"""The mean of every window of (N, C, L): $\frac{1}{k} \sum_m x_{s t + m}$."""

    kernel_size: Any
    stride: Any = None
    padding: Any = 0
    ceil_mode: bool = False
    count_include_pad: bool = True
    _function = functional.avg_pool1d

    def _check(self) -> None:
        super()._check()
        for name in self._shown:
            setattr(self, name, several(getattr(self, name), 1, name))


@layer
class AvgPool2d(_Pool):
    """The mean of every window of (N, C, H, W).

    >>> import gradwalk as gw
    >>> gw.nn.AvgPool2d(2)(gw.ones(1, 1, 2, 2))
    tensor([[[[1.]]]])
    """

    kernel_size: Any
    stride: Any = None
    padding: Any = 0
    ceil_mode: bool = False
    count_include_pad: bool = True
    divisor_override: int | None = None
    _function = functional.avg_pool2d


class _AdaptivePool(Options):
    _shown = ("output_size",)

    def forward(self, input: Any) -> Any:
        """Reduce each window."""
        return self._apply(input)


@layer
class AdaptiveAvgPool1d(_AdaptivePool):
    """Means over windows chosen so that the result has a given length."""

    output_size: Any
    _function = functional.adaptive_avg_pool1d


@layer
class AdaptiveAvgPool2d(_AdaptivePool):
    """Means over windows chosen so that the result has a given size; None keeps a dimension.

    >>> import gradwalk as gw
    >>> gw.nn.AdaptiveAvgPool2d(1)(gw.zeros(2, 3, 7, 5)).shape
    (2, 3, 1, 1)
    """

    output_size: Any
    _function = functional.adaptive_avg_pool2d


@layer
class AdaptiveMaxPool1d(_AdaptivePool):
    """Maxima over windows chosen so that the result has a given length."""

    output_size: Any
    return_indices: bool = False
    _function = functional.adaptive_max_pool1d


@layer
class AdaptiveMaxPool2d(_AdaptivePool):
    """Maxima over windows chosen so that the result has a given size."""

    output_size: Any
    return_indices: bool = False
    _function = functional.adaptive_max_pool2d
