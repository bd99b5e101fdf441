"""Layers that summarise windows."""

from __future__ import annotations

from typing import Any

from gradwalk.nn import functional
from gradwalk.nn.layers._sizes import several
from gradwalk.nn.module import Module


class _MaxPool(Module):
    def __init__(
        self,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        dilation: Any = 1,
        return_indices: bool = False,
        ceil_mode: bool = False,
    ) -> None:
        super().__init__()
        self.kernel_size = kernel_size
        self.stride = stride if stride is not None else kernel_size
        self.padding = padding
        self.dilation = dilation
        self.return_indices = return_indices
        self.ceil_mode = ceil_mode

    def _options(self) -> dict[str, Any]:
        options: dict[str, Any] = dict(dilation=self.dilation, ceil_mode=self.ceil_mode)
        if self.return_indices:
            options["return_indices"] = True
        return options

    def extra_repr(self) -> str:
        """The windows."""
        return (
            f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}, "
            f"dilation={self.dilation}, ceil_mode={self.ceil_mode}"
        )


class MaxPool1d(_MaxPool):
    r"""The largest element of every window of (N, C, L): $\max_m x_{s t + d m}$."""

    def forward(self, input: Any) -> Any:
        """The maxima."""
        return functional.max_pool1d(
            input, self.kernel_size, self.stride, self.padding, **self._options()
        )


class MaxPool2d(_MaxPool):
    """The largest element of every window of (N, C, H, W).

    >>> import gradwalk as gw
    >>> gw.nn.MaxPool2d(2)(gw.zeros(1, 3, 8, 8)).shape
    (1, 3, 4, 4)
    """

    def forward(self, input: Any) -> Any:
        """The maxima."""
        return functional.max_pool2d(
            input, self.kernel_size, self.stride, self.padding, **self._options()
        )


class AvgPool1d(Module):
    r"""The mean of every window of (N, C, L): $\frac{1}{k} \sum_m x_{s t + m}$."""

    def __init__(
        self,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
    ) -> None:
        super().__init__()
        self.kernel_size = several(kernel_size, 1, "kernel_size")
        self.stride = several(stride if stride is not None else kernel_size, 1, "stride")
        self.padding = several(padding, 1, "padding")
        self.ceil_mode = ceil_mode
        self.count_include_pad = count_include_pad

    def forward(self, input: Any) -> Any:
        """The means."""
        return functional.avg_pool1d(
            input,
            self.kernel_size,
            self.stride,
            self.padding,
            self.ceil_mode,
            self.count_include_pad,
        )

    def extra_repr(self) -> str:
        """The windows."""
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class AvgPool2d(Module):
    """The mean of every window of (N, C, H, W).

    >>> import gradwalk as gw
    >>> gw.nn.AvgPool2d(2)(gw.ones(1, 1, 2, 2))
    tensor([[[[1.]]]])
    """

    def __init__(
        self,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: int | None = None,
    ) -> None:
        super().__init__()
        self.kernel_size = kernel_size
        self.stride = stride if stride is not None else kernel_size
        self.padding = padding
        self.ceil_mode = ceil_mode
        self.count_include_pad = count_include_pad
        self.divisor_override = divisor_override

    def forward(self, input: Any) -> Any:
        """The means."""
        return functional.avg_pool2d(
            input,
            self.kernel_size,
            self.stride,
            self.padding,
            self.ceil_mode,
            self.count_include_pad,
            self.divisor_override,
        )

    def extra_repr(self) -> str:
        """The windows."""
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class _AdaptiveAvgPool(Module):
    def __init__(self, output_size: Any) -> None:
        super().__init__()
        self.output_size = output_size

    def extra_repr(self) -> str:
        """The size of the result."""
        return f"output_size={self.output_size}"


class AdaptiveAvgPool1d(_AdaptiveAvgPool):
    """Means over windows chosen so that the result has a given length."""

    def forward(self, input: Any) -> Any:
        """The means."""
        return functional.adaptive_avg_pool1d(input, self.output_size)


class AdaptiveAvgPool2d(_AdaptiveAvgPool):
    """Means over windows chosen so that the result has a given size; None keeps a dimension.

    >>> import gradwalk as gw
    >>> gw.nn.AdaptiveAvgPool2d(1)(gw.zeros(2, 3, 7, 5)).shape
    (2, 3, 1, 1)
    """

    def forward(self, input: Any) -> Any:
        """The means."""
        return functional.adaptive_avg_pool2d(input, self.output_size)


class _AdaptiveMaxPool(_AdaptiveAvgPool):
    def __init__(self, output_size: Any, return_indices: bool = False) -> None:
        super().__init__(output_size)
        self.return_indices = return_indices

    def _options(self) -> dict[str, Any]:
        return {"return_indices": True} if self.return_indices else {}


class AdaptiveMaxPool1d(_AdaptiveMaxPool):
    """Maxima over windows chosen so that the result has a given length."""

    def forward(self, input: Any) -> Any:
        """The maxima."""
        return functional.adaptive_max_pool1d(input, self.output_size, **self._options())


class AdaptiveMaxPool2d(_AdaptiveMaxPool):
    """Maxima over windows chosen so that the result has a given size."""

    def forward(self, input: Any) -> Any:
        """The maxima."""
        return functional.adaptive_max_pool2d(input, self.output_size, **self._options())
