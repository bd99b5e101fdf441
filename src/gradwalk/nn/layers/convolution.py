"""Convolutions and their transposes."""

from __future__ import annotations

import math
from typing import Any

from gradwalk.nn import functional, init
from gradwalk.nn.constructors import on_device
from gradwalk.nn.functional.convolution import conv, conv_transpose, padding_pairs, transposed_size
from gradwalk.nn.layers.options import Dimensional, OneInput, changed, layer, several
from gradwalk.nn.parameter import Parameter, empty_parameter
from gradwalk.tensors import creation

__all__ = [
    "Conv1d", "Conv2d", "Conv3d", "ConvTranspose1d", "ConvTranspose2d", "ConvTranspose3d", "Fold",
    "Unfold",
]  # fmt: skip

_PADDING_MODES = ("zeros", "reflect", "replicate", "circular")


class _Convolution(Dimensional):
    transposed = False

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Any,
        stride: Any,
        padding: Any,
        dilation: Any,
        output_padding: Any,
        groups: int,
        bias: bool,
        padding_mode: str,
        dtype: Any,
    ) -> None:
        super().__init__()
        if groups <= 0:
            raise ValueError(f"groups must be positive, not {groups}")
        if in_channels % groups or out_channels % groups:
            raise ValueError(
                f"{in_channels} input and {out_channels} output channels cannot be split into "
                f"{groups} groups: both must be multiples"
            )
        if padding_mode not in _PADDING_MODES:
            raise ValueError(f"padding_mode is one of {_PADDING_MODES}, not {padding_mode!r}")
        n = self.dimensions
        self.in_channels = in_channels
        self.out_channels = out_channels
        self.kernel_size = several(kernel_size, n, "kernel_size")
        self.stride = several(stride, n, "stride")
        self.padding: Any = padding if isinstance(padding, str) else several(padding, n, "padding")
        self.dilation = several(dilation, n, "dilation")
        self.output_padding = several(output_padding, n, "output_padding")
        self.groups = groups
        self.padding_mode = padding_mode
        padding_pairs(self.padding, self.kernel_size, self.stride, self.dilation)  # checks it
        channels = (in_channels, out_channels) if self.transposed else (out_channels, in_channels)
        shape = (channels[0], channels[1] // groups, *self.kernel_size)
        self.weight = Parameter(creation.empty(shape, dtype=dtype))
        self.bias: Parameter | None
        self.register_parameter("bias", empty_parameter(out_channels, dtype, bias))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Initialize weight and bias anew."""
        if not self.weight.numel():
            return
        fan_in = math.prod(self.weight.shape[1:])
        bound = 1 / math.sqrt(fan_in)
        init.fill(init.uniform_, self.weight, self.bias, a=-bound, b=bound)

    def extra_repr(self) -> str:
        """The sizes and options; defaults are omitted."""
        none, one = (0,) * self.dimensions, (1,) * self.dimensions
        return (
            f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}, "
            f"stride={self.stride}"
            + changed(self, padding=none, dilation=one, output_padding=none, groups=1)
            + (", bias=False" if self.bias is None else "")
            + changed(self, padding_mode="zeros")
        )


class _Conv(_Convolution):
    @on_device
    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Any,
        stride: Any = 1,
        padding: Any = 0,
        dilation: Any = 1,
        groups: int = 1,
        bias: bool = True,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(
            in_channels, out_channels, kernel_size, stride, padding, dilation, 0, groups, bias,
            padding_mode, dtype,
        )  # fmt: skip

    def _border(self) -> list[int]:
        """The argument of `functional.pad`: two numbers per dimension, the last dimension first."""
        pairs = padding_pairs(self.padding, self.kernel_size, self.stride, self.dilation)
        return [n for pair in reversed(pairs) for n in pair]

    def forward(self, input: Any) -> Any:
        """The convolution with the weight, plus bias."""
        padding: Any = self.padding
        if self.padding_mode != "zeros":
            input = functional.pad(input, self._border(), mode=self.padding_mode)
            padding = 0
        return conv(
            self.dimensions, input, self.weight, self.bias, self.stride, padding, self.dilation,
            self.groups,
        )  # fmt: skip


class Conv1d(_Conv, dimensions=1):
    r"""$y_{n,o,t} = b_o + \sum_{c,m} w_{o,c,m}\, x_{n,c,\,s t + d m}$ over (N, C, L).

    >>> import gradwalk as gw
    >>> gw.nn.Conv1d(4, 8, 3, padding="same")(gw.zeros(2, 4, 10)).shape
    (2, 8, 10)
    """


class Conv2d(_Conv, dimensions=2):
    r"""$y_{n,o,i,j} = b_o + \sum_{c,p,q} w_{o,c,p,q}\, x_{n,c,\,s i + d p,\,s j + d q}$.

    >>> import gradwalk as gw
    >>> gw.nn.Conv2d(3, 8, 3, stride=2, padding=1)(gw.zeros(2, 3, 8, 8)).shape
    (2, 8, 4, 4)
    """


class Conv3d(_Conv, dimensions=3):
    """Convolution over (N, C, D, H, W)."""


class _ConvTranspose(_Convolution):
    transposed = True

    @on_device
    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Any,
        stride: Any = 1,
        padding: Any = 0,
        output_padding: Any = 0,
        groups: int = 1,
        bias: bool = True,
        dilation: Any = 1,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        if padding_mode != "zeros":
            raise ValueError(f"a transposed convolution supports only zeros, not {padding_mode!r}")
        if isinstance(padding, str):
            raise ValueError(f"the padding of a transposed convolution is numbers, not {padding!r}")
        super().__init__(
            in_channels, out_channels, kernel_size, stride, padding, dilation, output_padding,
            groups, bias, padding_mode, dtype,
        )  # fmt: skip

    def forward(self, input: Any, output_size: Any = None) -> Any:
        """The transposed convolution with the weight, plus bias."""
        return conv_transpose(
            self.dimensions, input, self.weight, self.bias, self.stride, self.padding,
            self._output_padding(input, output_size), self.groups, self.dilation,
        )  # fmt: skip

    def _output_padding(self, x: Any, output_size: Any) -> tuple[int, ...]:
        """The output padding that leads to `output_size`, which several input sizes share."""
        if output_size is None:
            return self.output_padding
        n = self.dimensions
        wanted = tuple(output_size)[-n:]
        options = self.stride, self.padding, self.dilation, self.kernel_size
        smallest = transposed_size(x.shape[-n:], *options)
        extra = tuple(w - m for w, m in zip(wanted, smallest, strict=True))
        if any(not 0 <= e < s for e, s in zip(extra, self.stride)):
            largest = tuple(m + s - 1 for m, s in zip(smallest, self.stride))
            raise ValueError(
                f"output_size {wanted} cannot be reached: it can be {smallest} to {largest} for "
                f"an input of shape {tuple(x.shape)}"
            )
        return extra


class ConvTranspose1d(_ConvTranspose, dimensions=1):
    """The transpose of `Conv1d` as a linear map: it makes (N, C, L) longer by its stride."""


class ConvTranspose2d(_ConvTranspose, dimensions=2):
    """The transpose of `Conv2d` as a linear map: it makes maps larger by its stride.

    >>> import gradwalk as gw
    >>> gw.nn.ConvTranspose2d(8, 3, 2, stride=2)(gw.zeros(2, 8, 4, 4)).shape
    (2, 3, 8, 8)
    """


class ConvTranspose3d(_ConvTranspose, dimensions=3):
    """The transpose of `Conv3d` as a linear map."""


@layer(functional.unfold, shown="kernel_size dilation padding stride")
class Unfold(OneInput):
    """The patches of (N, C, H, W) that a convolution meets, as columns.

    >>> import gradwalk as gw
    >>> gw.nn.Unfold(3, padding=1)(gw.zeros(2, 3, 8, 8)).shape
    (2, 27, 64)
    """

    kernel_size: Any
    dilation: Any = 1
    padding: Any = 0
    stride: Any = 1


@layer(functional.fold, shown="output_size kernel_size dilation padding stride")
class Fold(OneInput):
    """The transpose of `Unfold`: columns added at their places in an image."""

    output_size: Any
    kernel_size: Any
    dilation: Any = 1
    padding: Any = 0
    stride: Any = 1
