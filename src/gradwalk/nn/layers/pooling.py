"""Layers that reduce windows to one element."""

from __future__ import annotations

from typing import Any

from gradwalk.nn import functional
from gradwalk.nn.functional.pooling import max_unpool
from gradwalk.nn.layers.options import Dimensional, OneInput, Options, layer, several
from gradwalk.tensors.tensor import Tensor

__all__ = [
    "AdaptiveAvgPool1d", "AdaptiveAvgPool2d", "AdaptiveAvgPool3d", "AdaptiveMaxPool1d",
    "AdaptiveMaxPool2d", "AdaptiveMaxPool3d", "AvgPool1d", "AvgPool2d", "AvgPool3d",
    "FractionalMaxPool2d", "FractionalMaxPool3d", "LPPool1d", "LPPool2d", "LPPool3d", "MaxPool1d",
    "MaxPool2d", "MaxPool3d", "MaxUnpool1d", "MaxUnpool2d", "MaxUnpool3d",
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


@layer(functional.max_pool3d)
class MaxPool3d(_MaxPool):
    """The largest element of every window of (N, C, D, H, W)."""


@layer(shown="kernel_size stride padding")
class _Unpool(Dimensional, Options):
    kernel_size: Any
    stride: Any = None
    padding: Any = 0

    def _check(self) -> None:
        self.stride = self.kernel_size if self.stride is None else self.stride
        for name in self._shown:
            setattr(self, name, several(getattr(self, name), self.dimensions, name))

    def forward(self, input: Any, indices: Any, output_size: Any = None) -> Any:
        """The elements at the places that a max pool took them from."""
        options = self.kernel_size, self.stride, self.padding
        return max_unpool(self.dimensions, input, indices, *options, output_size)


class MaxUnpool1d(_Unpool, dimensions=1):
    """The inverse of `MaxPool1d` as far as there is one: 0 where no maximum was."""


class MaxUnpool2d(_Unpool, dimensions=2):
    """The inverse of `MaxPool2d` as far as there is one: 0 where no maximum was.

    >>> import gradwalk as gw
    >>> largest, places = gw.nn.MaxPool2d(2, return_indices=True)(gw.arange(4.0).view(1, 2, 2))
    >>> gw.nn.MaxUnpool2d(2)(largest, places)
    tensor([[[0., 0.],
             [0., 3.]]])
    """


class MaxUnpool3d(_Unpool, dimensions=3):
    """The inverse of `MaxPool3d` as far as there is one: 0 where no maximum was."""


@layer()
class _AvgPool(_Pool):
    ceil_mode: bool = False
    count_include_pad: bool = True


@layer(functional.avg_pool1d)
class AvgPool1d(_AvgPool):
    r"""The mean of every window of (N, C, L): $\frac{1}{k} \sum_m x_{s t + m}$."""

    def _check(self) -> None:
        super()._check()
        for name in self._shown:
            setattr(self, name, several(getattr(self, name), 1, name))


@layer(functional.avg_pool2d)
class AvgPool2d(_AvgPool):
    """The mean of every window of (N, C, H, W).

    >>> import gradwalk as gw
    >>> gw.nn.AvgPool2d(2)(gw.ones(1, 1, 2, 2))
    tensor([[[[1.]]]])
    """

    divisor_override: int | None = None


@layer(functional.avg_pool3d)
class AvgPool3d(_AvgPool):
    """The mean of every window of (N, C, D, H, W)."""

    divisor_override: int | None = None


@layer(shown="norm_type kernel_size stride ceil_mode")
class _LPPool(OneInput):
    norm_type: float
    kernel_size: Any
    stride: Any = None
    ceil_mode: bool = False


@layer(functional.lp_pool1d)
class LPPool1d(_LPPool):
    r"""$(\sum x^p)^{1/p}$ of every window of (N, C, L)."""


@layer(functional.lp_pool2d)
class LPPool2d(_LPPool):
    r"""$(\sum x^p)^{1/p}$ of every window of (N, C, H, W)."""


@layer(functional.lp_pool3d)
class LPPool3d(_LPPool):
    r"""$(\sum x^p)^{1/p}$ of every window of (N, C, D, H, W)."""


@layer(buffers="_random_samples")
class _FractionalPool(OneInput):
    kernel_size: Any
    output_size: Any = None
    output_ratio: Any = None
    return_indices: bool = False
    _random_samples: Tensor | None = None


@layer(functional.fractional_max_pool2d)
class FractionalMaxPool2d(_FractionalPool):
    """The largest element of windows of (N, C, H, W) that begin at random places."""


@layer(functional.fractional_max_pool3d)
class FractionalMaxPool3d(_FractionalPool):
    """The largest element of windows of (N, C, D, H, W) that begin at random places."""


@layer(shown="output_size")
class _AdaptivePool(OneInput):
    output_size: Any


class _AdaptiveAvgPool(_AdaptivePool):
    pass


@layer()
class _AdaptiveMaxPool(_AdaptivePool):
    return_indices: bool = False


@layer(functional.adaptive_avg_pool1d)
class AdaptiveAvgPool1d(_AdaptiveAvgPool):
    """Means over windows chosen so that the result has a given length."""


@layer(functional.adaptive_avg_pool2d)
class AdaptiveAvgPool2d(_AdaptiveAvgPool):
    """Means over windows chosen so that the result has a given size; None keeps a dimension.

    >>> import gradwalk as gw
    >>> gw.nn.AdaptiveAvgPool2d(1)(gw.zeros(2, 3, 7, 5)).shape
    (2, 3, 1, 1)
    """


@layer(functional.adaptive_avg_pool3d)
class AdaptiveAvgPool3d(_AdaptiveAvgPool):
    """Means over windows chosen so that the result has a given size; None keeps a dimension."""


@layer(functional.adaptive_max_pool1d)
class AdaptiveMaxPool1d(_AdaptiveMaxPool):
    """Maxima over windows chosen so that the result has a given length."""


@layer(functional.adaptive_max_pool2d)
class AdaptiveMaxPool2d(_AdaptiveMaxPool):
    """Maxima over windows chosen so that the result has a given size."""


@layer(functional.adaptive_max_pool3d)
class AdaptiveMaxPool3d(_AdaptiveMaxPool):
    """Maxima over windows chosen so that the result has a given size."""
